"""Kinds of canary: a secret, and how somebody who repeats it spells it. And what is left of one in an output.

What is looked for is found by other means than those of the redactor, with which it shares no code.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from urllib.parse import quote, unquote

BASE62 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
DIGITS = "0123456789"


def _random(seed: str, length: int, alphabet: str = BASE62) -> str:
    return "".join(Random(seed).choices(alphabet, k=length))  # noqa: S311 - the same in every run


def _each(form: str, text: str) -> str:
    return "".join(form.format(ord(character)) for character in text)


def _wrapped(size: int, end: str) -> Callable[[str], str]:
    return lambda text: end.join(text[at : at + size] for at in range(0, len(text), size))


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _base64url(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


KEYS = (
    "sk-ant-api03-" + _random("anthropic", 93, BASE62 + "_-") + "AA",
    "sk-proj-" + _random("one", 74) + "T3BlbkFJ" + _random("two", 74),
    "AIzaSy" + _random("google", 33),
    "proxy." + _random("plain", 10) + "/" + _random("signs", 12) + "+=_-~",
)
"""Keys that a run sends: of three providers, and of somebody's proxy."""

SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "in quotes of Python": repr,
    "upper case": str.upper,
    "escaped for JSON": lambda text: _each("\\u{:04x}", text),
    "escaped for JSON twice": lambda text: json.dumps(_each("\\u{:04X}", text))[1:-1],
    "escaped for JavaScript": lambda text: _each("\\x{:02x}", text),
    "escaped as a code point": lambda text: _each("\\u{{{:x}}}", text),
    "octal": lambda text: _each("\\{:03o}", text),
    "percent-encoded": lambda text: quote(text, safe=""),
    "percent-encoded throughout": lambda text: _each("%{:02X}", text),
    "percent-encoded twice": lambda text: quote(_each("%{:02x}", text), safe=""),
    "HTML entities": lambda text: _each("&#{};", text),
    "HTML entities, hexadecimal": lambda text: _each("&#x{:X};", text),
    "hexadecimal": lambda text: text.encode().hex(),
    "hexadecimal with spaces": lambda text: text.encode().hex(" "),
    "hexadecimal with colons": lambda text: text.encode().hex(":").upper(),
    "decimal": lambda text: str(list(text.encode())),
    "base64": _base64,
    "base64 of user and key": lambda text: f"Basic {_base64(f'user:{text}')}",
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(f"xy{text}>>>".encode()).decode().rstrip("="),
    "base64 wrapped as MIME is": lambda text: base64.encodebytes(f"{text} and so on, {text}".encode()).decode(),
    "base32": lambda text: base64.b32encode(f"abc{text}".encode()).decode(),
    "quoted-printable": lambda text: _each("={:02X}", text),
    "broken over lines": _wrapped(20, "\n"),
    "broken over short lines": _wrapped(5, "\r\n"),
    "broken with backslashes": _wrapped(24, "\\\n"),
    "spaced": " ".join,
    "its first 16 characters": lambda text: f"{text[:16]}...",
    "its last 16 characters": lambda text: f"...{text[-16:]}",
}

HEADER, CLAIMS = '{"alg":"HS256"}', '{"sub":"1234567890"}'

SHAPES = {
    "a key of Anthropic": "sk-ant-api03-" + _random("a", 93, BASE62 + "_-") + "AA",
    "a project key of OpenAI": "sk-proj-" + _random("b", 74, BASE62 + "_-") + "T3BlbkFJ" + _random("c", 74),
    "a service account of OpenAI": "sk-svcacct-" + _random("d", 58) + "T3BlbkFJ" + _random("e", 58),
    "an old key of OpenAI": "sk-" + _random("f", 20) + "T3BlbkFJ" + _random("g", 20),
    "an organisation of OpenAI": "org-" + _random("h", 24),
    "a project of OpenAI": "proj_" + _random("i", 24),
    "a key of Google": "AIza" + _random("j", 35, BASE62 + "_-"),
    "a token of Google": "ya29.a0" + _random("k", 160, BASE62 + "_-"),
    "a key of AWS": "AKIA" + _random("l", 16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
    "a key of xAI": "xai-" + _random("m", 80),
    "a token of Slack": f"xoxb-{_random('p', 12, DIGITS)}-{_random('q', 12, DIGITS)}-{_random('r', 24)}",
    "a key of Stripe": "sk_live_" + _random("s", 24),
    "a token of Telegram": f"{_random('t', 10, DIGITS)}:AA{_random('u', 33)}",
    "a key of SendGrid": f"SG.{_random('v', 22)}.{_random('w', 43)}",
    "a JSON Web Token": f"{_base64url(HEADER)}.{_base64url(CLAIMS)}.{_random('x', 43)}",
    "a private key": f"-----BEGIN RSA PRIVATE KEY-----\n{_random('y', 64)}\n-----END RSA PRIVATE KEY-----",
    "a session token of AWS": "IQoJb3JpZ2luX2Vj" + _random("z", 200),
    "a client secret of Google": "GOCSPX-" + _random("0", 28),
    "a webhook of Slack": f"https://hooks.slack.com/services/T{_random('1', 8)}/B{_random('2', 8)}/{_random('3', 24)}",
    "a key of Groq, a token of Hugging Face": f"gsk_{_random('n', 52)} hf_{_random('o', 34, BASE62[:52])}",
}
"""Keys and accounts of others, which no run knows: they are recognised by their form."""


NAMES = ("APIKEY", "OPENAI_API_KEY_2", "GITHUB_PAT", "DB_PASS", "ADMIN_PWD", "SERVICE_AUTH", "SENTRY_DSN")
"""Variables of other services, which resemble the known ones."""


@dataclass(frozen=True)
class Canary:
    """`secret` is what the environment holds, if it is `known`, and `text` what is said of it. No provider's SDK reads
    the `variable`: only its name tells that its value is secret."""

    kind: str
    secret: str
    text: str
    known: bool = True
    variable: str | None = None

    @property
    def line(self) -> str:
        """The text where only one line can stand, and no more of ASCII than a header takes."""
        return " ".join(self.text.split())


CANARIES = (
    *(Canary(kind, key, spell(key)) for at, (kind, spell) in enumerate(SPELLINGS.items()) for key in [KEYS[at % 4]]),
    *(Canary(kind, text, text, known=False) for kind, text in SHAPES.items()),
    *(Canary(f"the value of {name}", KEYS[3], KEYS[3], variable=name) for name in NAMES),
)

_JSON = re.compile(r"\\+u\{?0*([0-9a-fA-F]{2,4})\}?|\\+x([0-9a-fA-F]{2})")
_OCTAL = re.compile(r"\\+([01][0-7]{2})")
_NUMBERS = re.compile(r"\d{2,3}(?:\s*,\s*\d{2,3}){7,}")


def left(canary: Canary, output: bytes) -> str | None:
    """What is left of the canary in an output: as it was said, or any 16 characters of what it stands for."""
    text = output.decode("utf-8", "backslashreplace")
    if len(canary.text) >= 16 and canary.text in text:
        return "as it was said"
    wanted = [part for secret in canary.secret.split() for part in _parts(secret)]
    for name, parsed in _parsed_exchanges(text):
        found = next((part for part in wanted if part in parsed), None)
        if found is not None:
            return f"{found} {name}"
    return None


def _parts(secret: str) -> list[str]:
    return [secret.lower()[at : at + 16] for at in range(len(secret) - 15)]


def _parsed_exchanges(text: str) -> Iterator[tuple[str, str]]:
    """The text in the ways in which a curious reader would try it, in lower case and without white space."""

    def squeezed(read: str) -> str:
        return re.sub(r"\\*\r?\n|\\+[rn]|\s|data: ?(?=[^{])", "", read).lower()

    yield "as it stands", squeezed(text)
    read = _OCTAL.sub(lambda match: chr(int(match[1], 8)), html.unescape(unquote(unquote(text))))
    read = _JSON.sub(lambda match: chr(int(match[1] or match[2], 16)), read)
    yield "without escapes", squeezed(read)
    for match in _NUMBERS.findall(text):
        yield "in numbers", "".join(chr(int(number) % 256) for number in re.findall(r"\d+", match)).lower()
    bare = re.sub(r"\\+[rn]|\s", "", text)
    for run in re.findall(r"[0-9a-fA-F]{32,}", re.sub(r"[:=\s]", "", text)):
        for start in (0, 1):
            even = run[start : len(run) - (len(run) - start) % 2]
            yield "in hexadecimal", bytes.fromhex(even).decode("latin-1").lower()
    for run in set(re.findall(r"[A-Za-z0-9+/_-]{24,}", bare)):
        for start in range(4):
            piece = run[start:].replace("-", "+").replace("_", "/")
            decoded = base64.b64decode(piece[: len(piece) // 4 * 4])
            yield "in base64", decoded.decode("latin-1").lower()
    for run in set(re.findall(r"[A-Z2-7]{32,}", bare)):
        for start in range(8):
            piece = run[start:]
            yield "in base32", base64.b32decode(piece[: len(piece) // 8 * 8]).decode("latin-1").lower()
