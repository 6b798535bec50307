"""Secrets in URLs: user names and passwords, parameters, and tokens in paths."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import SplitResult, unquote, urlsplit

from harness.platform.environment import is_secret_field

PLACEHOLDER = "REDACTED"

_SECRET_PARAMETERS = frozenset({"auth", "key"})
"""Parameters that are secret only in URLs. `is_secret_field` recognises names that are secret everywhere."""

_GRANTS = frozenset({"code", "state", "ticket", "session", "sid", "session_id"})
"""Parameters that are secret only if their value is a token. A `code`, for example, may be a country code."""

_KNOWN = frozenset({"chat-completions", "compatible-mode", "generativelanguage", "openai-compatible"})
"""Path segments of base URLs that would be mistaken for tokens because of their length."""

_NAME = re.compile(r"[a-z]+(?:-[a-z]+)*-?[0-9]{0,2}|v[0-9][0-9a-z.]*|[0-9.-]+(?:-[a-z]+)?")
"""Matches words, regions, versions and dates, which are not tokens."""

_LONGEST_NAME = 15
_SHORTEST_TOKEN = 8


@lru_cache(maxsize=256)  # a run asks few of them, again and again
def bare(url: str) -> str:
    """Return a URL without user, password, fragment and secret parameters."""
    parts = urlsplit(url)
    pairs = [pair for pair in parts.query.split("&") if not _carries_key(pair)]
    return parts._replace(netloc=_host(parts), query="&".join(pairs), fragment="").geturl()


def origin(url: str) -> str:
    """Return scheme, host and port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{_host(parts)}"


def shown(url: str) -> str:
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


def carried(url: str) -> Iterator[str]:
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
    is_name = _NAME.fullmatch(text) is not None and len(text) <= _LONGEST_NAME
    is_date = re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:-[a-z]+)?", text) is not None
    return len(text) >= _SHORTEST_TOKEN and text not in _KNOWN and not is_name and not is_date
