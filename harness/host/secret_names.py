"""Names that say that a value is secret: of variables, headers, URL parameters and fields.

A name is read word by word, however it is spelled: `OPENAI_API_KEY_2`, `x-auth-token`, `clientSecret`, `PGPASSWORD`.
"""

from __future__ import annotations

import re
from functools import lru_cache

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_SECRET = frozenset(
    {
        *("apikey", "assertion", "authkey", "authorization", "bearer", "cookie", "cookies", "cred", "credential"),
        *("credentials", "creds", "dsn", "jwt", "keytab", "otp", "passcode", "passphrase", "passwd", "password"),
        *("passwords", "pwd", "sas", "secret", "secrets", "sig", "signature", "token", "webhook", "webhooks"),
    }
)
_ENDINGS = ("apikey", "accesskey", "secretkey", "authkey", "passwd", "password", "passphrase", "secret", "token")
"""What words end with that are written together: `PGPASSWORD`, `AUTHTOKEN`."""

_PASS = re.compile(r"pat|sk|auth|(?:admin|app|db|ftp|mail|mysql|pg|proxy|redis|root|smtp|sql|ssh|user)?pass")

_KEYS = frozenset({"key", "keys"})
_BEFORE_KEY = frozenset(
    {
        *(
            "access",
            "account",
            "admin",
            "api",
            "app",
            "application",
            "auth",
            "client",
            "consumer",
            "deploy",
            "encryption",
        ),
        *("hmac", "host", "integration", "license", "master", "private", "project", "secret", "server", "service"),
        *("session", "shared", "signing", "storage", "subscription", "write", "x"),
    }
)
"""Words before `key` that tell a secret from the key of a table, a cache or a keyboard."""

_ABOUT = frozenset(
    {
        *("alg", "algorithm", "budget", "count", "counts", "details", "dir", "directory", "enabled", "expiration"),
        *("expires", "expiry", "file", "filename", "format", "header", "hint", "in", "issuer", "length", "limit"),
        *("max", "method", "min", "mode", "name", "path", "policy", "prefix", "provider", "region", "required"),
        *("scheme", "scope", "scopes", "size", "sock", "socket", "ttl", "type", "usage", "version"),
    }
)
"""Last words of names that speak of a secret, and do not hold it: `token_type`, `SSH_AUTH_SOCK`."""

_COUNTED = frozenset(
    {
        *("bos", "cached", "candidates", "completion", "context", "continuation", "cursor", "eos", "idempotency"),
        *("input", "max", "min", "next", "num", "output", "pad", "page", "pagination", "prev", "previous", "prompt"),
        *("reasoning", "resume", "special", "start", "stop", "sync", "thinking", "thought", "total"),
    }
)
"""Words before `token` that make it a piece of a text or a place in a list, and before `signature` a model's own."""


@lru_cache(maxsize=4096)
def is_secret_field(name: str) -> bool:
    """Return whether the value of a field or URL parameter of this name is secret."""
    found = words(name)
    if not found or found[-1] in _ABOUT:
        return False
    return any(_is_secret(word, found[:at]) for at, word in enumerate(found))


@lru_cache(maxsize=1024)
def is_secret_header(name: str) -> bool:
    """Return whether the value of a header of this name is secret, or says who asks."""
    found = words(name)
    if is_secret_field(name) or found[-1:] in (["key"], ["organization"], ["project"]):
        return True
    return any(word in {"auth", "session"} for word in found) or found[-2:] == ["organization", "id"]


@lru_cache(maxsize=1024)
def is_secret_variable(name: str) -> bool:
    """Return whether the value of an environment variable of this name is secret."""
    found = words(name)
    if not found or found[-1] in _ABOUT or found in (["pwd"], ["oldpwd"], ["pgp", "key"]):
        return False
    return is_secret_field(name) or any(word in _KEYS or _PASS.fullmatch(word) for word in found)


def words(name: str) -> list[str]:
    """The words of a name, in lower case."""
    return [word.lower() for word in _WORD.findall(name)]


def _is_secret(word: str, before: list[str]) -> bool:
    if word in _KEYS:
        return bool(before) and before[-1] in _BEFORE_KEY
    if word in ("token", "signature") and before and before[-1] in _COUNTED:
        return False
    return word in _SECRET or word.endswith(_ENDINGS)
