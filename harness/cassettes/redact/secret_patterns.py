"""Detection of secrets by the shape of keys and tokens, by field names, and in URLs (user names and passwords,
parameters, and tokens in paths).
"""

from __future__ import annotations

import html
import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, TypeAlias
from urllib.parse import SplitResult, unquote, unquote_plus, urlsplit

from harness.cassettes.redact.json_strings import REDACTED, ByteSlice, pieces
from harness.platform.environment import is_secret_field

PLACEHOLDER = "REDACTED"

_SECRET_PARAMETERS = frozenset({"auth", "key"})
"""Parameters that are secret only in URLs. `is_secret_field` recognises names that are secret everywhere."""

_GRANTS = frozenset({"code", "state", "ticket", "session", "sid", "session_id"})
"""Parameters that are secret only if their value is a token. A `code`, for example, may be a country code."""

_HARMLESS_PATH_SEGMENTS = frozenset({"chat-completions", "compatible-mode", "generativelanguage", "openai-compatible"})
"""Path segments of base URLs that would be mistaken for tokens because of their length."""

_NAME = re.compile(r"[a-z]+(?:-[a-z]+)*-?[0-9]{0,2}|v[0-9][0-9a-z.]*|[0-9.-]+(?:-[a-z]+)?")
"""Matches words, regions, versions and dates, which are not tokens."""

_MAX_NAME_CHARACTERS = 15
_MIN_TOKEN_CHARACTERS = 8


@lru_cache(maxsize=256)  # a run has few different URLs
def url_without_secrets(url: str) -> str:
    """Return a URL without user, password, fragment and secret parameters."""
    parts = urlsplit(url)
    pairs = [pair for pair in parts.query.split("&") if not _carries_key(pair)]
    return parts._replace(netloc=_host(parts), query="&".join(pairs), fragment="").geturl()


def origin(url: str) -> str:
    """Return scheme, host and port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{_host(parts)}"


def display_url(url: str) -> str:
    """Return a base URL for display, with a placeholder for each secret."""
    parts = urlsplit(url)
    user = f"{PLACEHOLDER}@" if "@" in parts.netloc else ""
    path = "/".join(PLACEHOLDER if _is_token(segment) else segment for segment in parts.path.split("/"))
    pairs = [
        f"{name}={PLACEHOLDER}" if _carries_key(pair) or _is_token(value) else pair
        for pair, (name, _, value) in ((pair, pair.partition("=")) for pair in parts.query.split("&"))
    ]
    return parts._replace(netloc=user + _host(parts), path=path, query="&".join(pairs), fragment="").geturl()


def secrets(url: str) -> Iterator[str]:
    """Yield the secrets in a base URL. Responses and error messages may repeat them."""
    try:
        parts = urlsplit(url)
    except ValueError:  # not a URL; the error is reported elsewhere
        yield url
        return
    user, at, _ = parts.netloc.rpartition("@")
    if at:
        yield from (unquote(each) for each in user.split(":", 1))
        yield user + at
    for pair in parts.query.split("&"):
        value = pair.partition("=")[2]
        if _carries_key(pair) or _is_token(value):
            yield unquote(value)
            yield pair
    yield from (unquote(segment) for segment in parts.path.split("/") if _is_token(segment))
    if parts.fragment:
        yield unquote(parts.fragment)


def url_credentials(url: str) -> Iterator[str]:
    """Yield the credentials in a request's URL: the password, and the values of secret parameters."""
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    if at:
        yield unquote(user.partition(":")[2] or user)
    yield from (unquote(pair.partition("=")[2]) for pair in parts.query.split("&") if _carries_key(pair))


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _carries_key(pair: str) -> bool:
    name, _, value = pair.partition("=")
    bare_name = unquote(name).lower().removeprefix("x-")
    if bare_name in _SECRET_PARAMETERS or bare_name.startswith(("amz-", "goog-")) or is_secret_field(unquote(name)):
        return True
    return bare_name in _GRANTS and _is_token(unquote(value))


def _is_token(text: str) -> bool:
    is_name = _NAME.fullmatch(text) is not None and len(text) <= _MAX_NAME_CHARACTERS
    is_date = re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:-[a-z]+)?", text) is not None
    return len(text) >= _MIN_TOKEN_CHARACTERS and text not in _HARMLESS_PATH_SEGMENTS and not is_name and not is_date


_SHAPES = re.compile(
    rb"""(?<![A-Za-z0-9_-])(?:
        sk-ant-[a-z]{3,5}[0-9]{2}-[A-Za-z0-9_-]{93}AA           # Anthropic; gitleaks, anthropic.go: api03, admin01
        | sk-(?:(?:proj|svcacct|service|admin)-)?[A-Za-z0-9_-]{20,}T3BlbkFJ[A-Za-z0-9_-]{20,}
                                                                # OpenAI, base64 of its name within; openai.go of both
        | sk-(?:[A-Za-z0-9]{48}|[0-9a-f]{32}|or-v1-[0-9a-f]{64})
                                                                # those that copy it: Moonshot, DeepSeek, OpenRouter
        | (?:org-|proj_)(?=[A-Z0-9]*[a-z])(?=[a-z0-9]*[A-Z])[A-Za-z0-9]{24}
                                                                # OpenAI's accounts: 24 of both cases in its headers
        | AIza[A-Za-z0-9_-]{35}                                 # Google; gitleaks, gcp.go
        | AQ\.Ab[A-Za-z0-9_-]{48}                               # Google, bound to an account: 53 characters in all
        | ya29\.[A-Za-z0-9_-]{20,}                              # Google, OAuth 2.0 access token: no fixed length
        | (?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}                   # AWS; gitleaks, aws.go
        | ABSK[A-Za-z0-9+/]{109,269}={0,2}                      # AWS, Bedrock; the same
        | xai-[A-Za-z0-9_]{80}                                  # xAI; trufflehog, xai.go
        | gsk_[A-Za-z0-9]{52}                                   # Groq; trufflehog, groq.go
        | hf_[A-Za-z]{34}                                       # Hugging Face; gitleaks, huggingface.go
        | pplx-[A-Za-z0-9]{48}                                  # Perplexity; gitleaks, perplexity.go
        | gh[pousr]_[A-Za-z0-9]{36} | github_pat_[A-Za-z0-9_]{82}
                                                                # GitHub, in answers of tools; gitleaks, github.go
        | GOCSPX-[A-Za-z0-9_-]{28} | 1//0[A-Za-z0-9_-]{40,}     # Google, client secrets and refresh tokens: samples
        | (?:IQoJb3JpZ2lu|FwoGZXIvYXdz|FQoGZXIvYXdz)[A-Za-z0-9+/=]{80,}
                                                                # AWS, session tokens: they begin with a name in base64
        | xapp-[0-9]-[A-Z0-9]+-[0-9]+-[a-z0-9]{40,} | xoxe(?:\.xox[bp])?-[0-9]-[A-Za-z0-9]{100,}
                                                                # Slack, of apps; gitleaks, slack.go
        | [rs]k_(?:live|test|prod)_[A-Za-z0-9]{10,99} | whsec_[A-Za-z0-9+/]{32,}={0,2}
                                                                # Stripe; gitleaks, stripe.go
        | npm_[A-Za-z0-9]{36} | do[opr]_v1_[0-9a-f]{64} | hvs\.[A-Za-z0-9_-]{90,120} | hvb\.[A-Za-z0-9_-]{138,300}
        | dckr_pat_[A-Za-z0-9_-]{27} | shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32} | lin_api_[A-Za-z0-9]{40}
        | dapi[0-9a-f]{32}(?:-[0-9])? | PMAK-[0-9a-f]{24}-[0-9a-f]{34} | ATATT3[A-Za-z0-9_=-]{186}
        | pul-[0-9a-f]{40} | rubygems_[0-9a-f]{48}
                                                                # npm, DigitalOcean, Vault, Docker, Shopify, Linear,
                                                                # Databricks, Postman, Atlassian, Pulumi, RubyGems;
                                                                # config/gitleaks.toml, read on 2026-11-25
    )(?![A-Za-z0-9_-])""",
    re.VERBOSE,
)

_ARMORED = re.compile(
    rb"-----BEGIN[A-Z0-9 +]*[ +]PRIVATE[ +]KEY(?:[ +]BLOCK)?-----"
    rb"(?:(?s:.{16,16384}?)-----END[A-Z0-9 +]+-----|[A-Za-z0-9+/=\s]{16,})"
)
"""A private key in PEM or armored form."""

_JWT = re.compile(
    rb"(?<![A-Za-z0-9_-])(eyJ[A-Za-z0-9_-]{8,})\.(?:"
    rb"[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,}|[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]{10,}){3})(?![A-Za-z0-9_-])"
)
"""A JSON Web Token, signed or encrypted."""

_IN_URL = re.compile(rb"://[^\s/:@\"'<>{}$]*:([^\s/@\"'<>{}$]{8,})@")
"""A password in a URL."""

_PARAMETER = re.compile(rb"(?<=[?&])([A-Za-z][A-Za-z0-9_.-]{2,40})=([A-Za-z0-9%._~+/=-]{16,})")
"""A URL parameter. Its name decides whether the value is secret, such as the signature of a signed URL."""

_DETECTORS: Mapping[str, str] = {
    "artifactory": "ArtifactoryDetector",
    "aws": "AWSKeyDetector",
    "azure_storage_key": "AzureStorageKeyDetector",
    "discord": "DiscordBotTokenDetector",
    "gitlab_token": "GitLabTokenDetector",
    "mailchimp": "MailchimpDetector",
    "pypi_token": "PypiTokenDetector",
    "sendgrid": "SendGridDetector",
    "slack": "SlackDetector",
    "square_oauth": "SquareOAuthDetector",
    "stripe": "StripeDetector",
    "telegram_token": "TelegramBotTokenDetector",
    "twilio": "TwilioKeyDetector",
}
"""Modules of detect-secrets that are used, with their detector classes."""

_SIGNS = re.compile(
    rb"AKC|A3T|AKIA|ASIA|ABIA|ACCA|aws|AccountKey=|[MNO][\w-]{23,25}\.|gl[a-z]{2,5}-|GR1348941|-us[0-9]|pypi-|SG\.|xox"
    rb"|hooks\.slack|sq0csp|k_live_|[0-9]{8}:|AC[a-z0-9]{32}|SK[a-z0-9]{32}",
    re.IGNORECASE,
)
"""Pattern that matches a part of every secret that these detectors can find. Without a match, detect-secrets is not
loaded.
"""

_ALNUM = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_CONTINUED = frozenset(bytes([each]) for each in _ALNUM + b"_-+")
"""Characters that extend a match. A match next to one of them is only part of a longer word and is ignored."""

_RANDOM = 24
"""Number of characters at the end of a match that are checked for randomness."""

_MIN_DISTINCT_CHARACTERS = 8
"""Minimum number of different characters. It excludes placeholders such as `sk-xxxxxxxx` in documentation."""

_KINDS = (re.compile(rb"[a-z]"), re.compile(rb"[A-Z]"), re.compile(rb"[0-9]"))


def find_key_shapes(text: bytes) -> list[tuple[int, int]]:
    """Return the positions of keys, tokens and account ids in an unescaped text."""
    found = [match.span() for match in _SHAPES.finditer(text) if _is_random(match[0])]
    found += [match.span() for match in _ARMORED.finditer(text)]
    found += [match.span() for match in _JWT.finditer(text) if _is_header(match[1])]
    found += [match.span(1) for match in _IN_URL.finditer(text) if _is_random(match[1])]
    found += [
        match.span(2)
        for match in _PARAMETER.finditer(text)
        if is_secret_field(match[1].decode()) and _is_random(match[2])
    ]
    if _SIGNS.search(text):
        found += _detect(text)
    return found


def _detect(text: bytes) -> Iterator[tuple[int, int]]:
    characters = text.decode("latin-1")  # a character for each byte
    for pattern in _patterns():
        for match in pattern.finditer(characters):
            begin, end = match.span(1 if match.re.groups and pattern.pattern.startswith("aws") else 0)
            while begin < end and text[begin] not in _ALNUM:
                begin += 1
            while end > begin and text[end - 1] not in _ALNUM + b"_-+/=":
                end -= 1
            before, behind = text[:begin][-3:], text[end : end + 1]
            is_piece = behind in _CONTINUED or (before[-1:] in _CONTINUED and before != b"bot")
            if not is_piece and _is_random(text[begin:end]):
                yield begin, end


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    made: list[re.Pattern[str]] = []
    for module, name in _DETECTORS.items():
        detector: Any = getattr(import_module(f"detect_secrets.plugins.{module}"), name)
        made += detector.denylist
    return tuple(each for each in made if "AP[" not in each.pattern)  # this pattern would also match ordinary words


def _is_header(part: bytes) -> bool:
    try:
        header: Any = json.loads(urlsafe_b64decode(part + b"=" * (-len(part) % 4)))
    except ValueError:
        return False
    return isinstance(header, dict) and bool({"alg", "enc", "typ"} & header.keys())


def _is_random(found: bytes) -> bool:
    end = found[-_RANDOM:]
    kinds = sum(kind.search(end) is not None for kind in _KINDS)
    # AWS ends those of its documents so.
    return len(set(end)) >= min(_MIN_DISTINCT_CHARACTERS, len(end) - 2) and kinds > 1 and not found.endswith(b"EXAMPLE")


FieldFilter: TypeAlias = Callable[[str], bool]
"""Predicate that selects fields by name."""

_PAIR = re.compile(rb"(?:^|&)([^=&\s]+)=([^&\s]*)")
_ELEMENT = re.compile(rb"<([A-Za-z][\w:.-]*)(?:\s[^<>]*)?>([^<>]+)</\1>")
_PART = re.compile(rb"\bname=\"?([^\";\r\n]+)\"?[^\r\n]*(?:\r\n[^\r\n]+)*\r\n\r\n([^\r\n]*)")
_STREAM = re.compile(rb"^(?:data|event|id|retry)?:", re.MULTILINE)

_FORM = frozenset({"action", "expires_in", "expires", "expiration", "grant_type", "token_type", "version", "xmlns"})
"""Fields of token exchanges that describe the token and contain no secret."""

_GRANT = re.compile(rb"\bgrant_type\b|\bAction=(?:AssumeRole|Get(?:Session|Federation)Token)")
_TOKEN_PATH = re.compile(
    r"/token$|/(?:access|refresh|auth|oauth|id|session)[_-]?tokens?$|/auth/tokens$|/oauth2?(?:/[^/]*)?$"
    r"|/security-credentials/.|:generate(?:Access|Id)Token$|:signInWith\w+$|/(?:login|signin|sign-in|sessions?)$",
    re.IGNORECASE,
)
_TOKEN_HOST = re.compile(r"(?:^|\.)(?:sts|securetoken|oauth2|login|auth)\.", re.IGNORECASE)
_TOKENS = frozenset({"accesstoken", "refreshtoken", "idtoken", "secretaccesskey", "sessiontoken"})


def is_anything_but_form(name: str) -> bool:
    """Return whether a field of a token exchange may contain a secret."""
    return name.lower() not in _FORM


def asks_for_token(method: str, host: str, path: str, body: bytes) -> bool:
    """Return whether a request asks for tokens, as requests to OAuth, STS, a metadata service or a login do."""
    if _GRANT.search(body):
        return True
    is_sent = method == "POST" or "security-credentials" in path or host.startswith(("metadata", "169.254."))
    return is_sent and (_TOKEN_PATH.search(path) is not None or _TOKEN_HOST.search(host) is not None)


def has_tokens(body: bytes) -> bool:
    """Return whether a response contains new tokens."""
    return any(name.replace("_", "").replace("-", "").lower() in _TOKENS for name, _ in named_strings(body))


def named_strings(body: bytes) -> Iterator[tuple[str, ByteSlice]]:
    """Yield the field name and the position of each string in a body."""
    start = body.lstrip()[:1]
    if start in (b"{", b"[") or _STREAM.search(body[:200]):
        yield from ((name.decode("utf-8", "replace"), where) for name, where in pieces(body).named)
        return
    pattern = _ELEMENT if start == b"<" else _PART if body.startswith(b"--") else None
    if pattern is None and not re.search(rb"\s", body.strip()):
        pattern = _PAIR
    for match in pattern.finditer(body) if pattern is not None else ():
        yield unquote_plus(match[1].decode("utf-8", "replace")), match.span(2)


def values(body: bytes, chosen: FieldFilter = is_secret_field) -> Iterator[str]:
    """Yield the decoded values of the fields that `chosen` selects."""
    is_form = body.lstrip()[:1] not in (b"{", b"[", b"<")
    for name, (begin, end) in named_strings(body):
        if chosen(name):
            text = body[begin:end].decode("utf-8", "replace")
            yield unquote_plus(text) if is_form else _unescape(text)


def without(body: bytes, chosen: FieldFilter) -> bytes:
    """Return a body in which a placeholder replaces the values of the chosen fields."""
    for begin, end in sorted({where for name, where in named_strings(body) if chosen(name)}, reverse=True):
        if begin < end:
            body = body[:begin] + REDACTED.encode() + body[end:]
    return body


def _unescape(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return html.unescape(text)
