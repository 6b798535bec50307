"""Values in the bodies of any service, by the names of their fields: JSON, forms and XML."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from typing import TypeAlias
from urllib.parse import unquote_plus

from harness.host.secret_names import is_secret_field
from harness.tape.redact.edits import REDACTED
from harness.tape.redact.pieces import Slice, pieces

Chosen: TypeAlias = Callable[[str], bool]
"""Whether the value of a field is taken out, by its name."""

_PAIR = re.compile(rb"(?:^|&)([^=&\s]+)=([^&\s]*)")
_ELEMENT = re.compile(rb"<([A-Za-z][\w:.-]*)(?:\s[^<>]*)?>([^<>]+)</\1>")
_PART = re.compile(rb"\bname=\"?([^\";\r\n]+)\"?[^\r\n]*(?:\r\n[^\r\n]+)*\r\n\r\n([^\r\n]*)")
_STREAM = re.compile(rb"^(?:data|event|id|retry)?:", re.MULTILINE)

_FORM = frozenset({"action", "expires_in", "expires", "expiration", "grant_type", "token_type", "version", "xmlns"})
"""Fields of exchanges that bring tokens which say how they are made, and hold nothing."""

_GRANT = re.compile(rb"\bgrant_type\b|\bAction=(?:AssumeRole|Get(?:Session|Federation)Token)")
_TOKEN_PATH = re.compile(
    r"/token$|/(?:access|refresh|auth|oauth|id|session)[_-]?tokens?$|/auth/tokens$|/oauth2?(?:/[^/]*)?$"
    r"|/security-credentials/.|:generate(?:Access|Id)Token$|:signInWith\w+$|/(?:login|signin|sign-in|sessions?)$",
    re.IGNORECASE,
)
_TOKEN_HOST = re.compile(r"(?:^|\.)(?:sts|securetoken|oauth2|login|auth)\.", re.IGNORECASE)
_TOKENS = frozenset({"accesstoken", "refreshtoken", "idtoken", "secretaccesskey", "sessiontoken"})


def is_anything_but_form(name: str) -> bool:
    """Return whether a field of an exchange that brings tokens holds something."""
    return name.lower() not in _FORM


def asks_for_token(method: str, host: str, path: str, body: bytes) -> bool:
    """Return whether a request is one of those that bring new tokens: of OAuth, STS, a metadata service, a login."""
    if _GRANT.search(body):
        return True
    is_sent = method == "POST" or "security-credentials" in path or host.startswith(("metadata", "169.254."))
    return is_sent and (_TOKEN_PATH.search(path) is not None or _TOKEN_HOST.search(host) is not None)


def has_tokens(body: bytes) -> bool:
    """Return whether an answer brings new tokens."""
    return any(name.replace("_", "").replace("-", "").lower() in _TOKENS for name, _ in named(body))


def named(body: bytes) -> Iterator[tuple[str, Slice]]:
    """The texts of a body, each with the name that it stands under."""
    start = body.lstrip()[:1]
    if start in (b"{", b"[") or _STREAM.search(body[:200]):
        yield from ((name.decode("utf-8", "replace"), where) for name, where in pieces(body).named)
        return
    pattern = _ELEMENT if start == b"<" else _PART if body.startswith(b"--") else None
    if pattern is None and not re.search(rb"\s", body.strip()):
        pattern = _PAIR
    for match in pattern.finditer(body) if pattern is not None else ():
        yield unquote_plus(match[1].decode("utf-8", "replace")), match.span(2)


def values(body: bytes, chosen: Chosen = is_secret_field) -> Iterator[str]:
    """The values of the chosen fields as they are meant."""
    is_form = body.lstrip()[:1] not in (b"{", b"[", b"<")
    for name, (begin, end) in named(body):
        if chosen(name):
            text = body[begin:end].decode("utf-8", "replace")
            yield unquote_plus(text) if is_form else _unescaped(text)


def without(body: bytes, chosen: Chosen) -> bytes:
    """A body with a placeholder in place of the values of the chosen fields."""
    for begin, end in sorted({where for name, where in named(body) if chosen(name)}, reverse=True):
        if begin < end:
            body = body[:begin] + REDACTED.encode() + body[end:]
    return body


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return html.unescape(text)
