"""The environment of a run: time, installed packages, hidden variables, API keys, and the detection of secrets."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from harness.model.errors import MissingDependency, OutdatedDependency, UsageError

if TYPE_CHECKING:
    from collections.abc import Generator

    from harness.model.protocols import Requirement


def utc_now() -> str:
    """Return the current UTC time in ISO 8601 format, with a precision of one second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


PREFIXES = (
    "ANTHROPIC_",
    "AWS_",
    "AZURE_OPENAI_",
    "CLAUDE_CODE_",
    "CLOUDSDK_",
    "GCE_",
    "GEMINI_",
    "GOOGLE_",
    "HTTPCORE_",
    "HTTPX_",
    "OPENAI_",
    "OTEL_",
)
"""Prefixes of variables that the SDKs, google-auth, OpenTelemetry and HTTP clients read (anthropic 2.11, openai 3.52,
google-genai 3.4).

The variables set keys, addresses, headers, clouds and debugging. Some debugging variables make a library print
requests.
"""

_NAMES = frozenset(
    {
        "CLOUD_ML_REGION",
        "CURL_CA_BUNDLE",
        "GCLOUD_PROJECT",
        "NETRC",
        "NO_GCE_CHECK",
        "REQUESTS_CA_BUNDLE",
        "SSLKEYLOGFILE",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
    }
)
"""Other variables to hide. Most name certificate files, which HTTP clients read when they are created; a missing file
would end the run.
"""

_PROXY = "_proxy"


@contextmanager
def hidden_variables() -> Generator[None, None, None]:
    """Hide keys, base URLs, headers, proxies, certificates and debugging variables from adapters in an offline run.

    Built-in adapters read no variables, but others may, and could then send prompts to other servers. HTTP_PROXY, for
    example, applies even to 127.0.0.1.
    """
    taken = {name: os.environ.pop(name) for name in [*os.environ] if is_hidden(name)}
    try:
        yield
    finally:
        os.environ.update(taken)


@contextmanager
def added_variables(values: Mapping[str, str]) -> Generator[None, None, None]:
    """Set environment variables, and restore them afterwards."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})


def is_hidden(name: str) -> bool:
    """Return whether offline runs hide this variable."""
    return name.startswith(PREFIXES) or name in _NAMES or name.lower().endswith(_PROXY)


@contextmanager
def importing_sdk(adapter: str, sdk: Requirement, *modules: str) -> Generator[None]:
    """Context manager for imports that need an SDK. `modules` are the modules whose absence means that the SDK is not
    installed.

    Raises:
        MissingDependency: The SDK is not installed.
        OutdatedDependency: The installed SDK is too old.
    """
    _refuse_outdated(adapter, sdk)
    try:
        yield
    except ImportError as error:
        if error.name not in modules:
            raise
        raise MissingDependency(adapter, sdk.name, sdk.extra or sdk.name) from None


def is_installed(sdk: Requirement) -> bool:
    """Return whether a package is installed and recent enough. Only its metadata is read; it is not imported."""
    installed = installed_version(sdk.name)
    return installed is not None and not _is_outdated(sdk, installed)


def is_older(installed: str, at_least: str) -> bool:
    """Return whether one version is older than another. Only the leading numbers are compared: `2.0` equals `2`, and
    `3.0rc1` equals `3.0`.
    """
    return _numbers(installed) < _numbers(at_least)


def _refuse_outdated(adapter: str, sdk: Requirement) -> None:
    installed = installed_version(sdk.name)
    if sdk.at_least is not None and installed is not None and _is_outdated(sdk, installed):
        raise OutdatedDependency(adapter, sdk.name, sdk.extra or sdk.name, sdk.at_least, installed)


def _is_outdated(sdk: Requirement, installed: str) -> bool:
    return sdk.at_least is not None and is_older(installed, sdk.at_least)


@cache
def installed_version(name: str) -> str | None:
    """Return the installed version of a package, or `None`. Cached, because a run creates thousands of clients."""
    try:
        return version(name)
    except PackageNotFoundError:  # not installed (the import fails later), or installed without metadata
        return None


def _numbers(text: str) -> list[int]:
    found = re.match(r"\d+(?:\.\d+)*", text)
    numbers = [int(each) for each in found[0].split(".")] if found else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_SECRET = frozenset(
    {
        *("apikey", "assertion", "authkey", "authorization", "bearer", "cookie", "cookies", "cred", "credential"),
        *("credentials", "creds", "dsn", "jwt", "keytab", "otp", "passcode", "passphrase", "passwd", "password"),
        *("passwords", "pwd", "sas", "secret", "secrets", "sig", "signature", "token", "webhook", "webhooks"),
    }
)
_ENDINGS = ("apikey", "accesskey", "secretkey", "authkey", "passwd", "password", "passphrase", "secret", "token")
"""Endings of compound words that mark a secret: `PGPASSWORD`, `AUTHTOKEN`."""

_PASSWORD_WORD = re.compile(r"pat|sk|auth|(?:admin|app|db|ftp|mail|mysql|pg|proxy|redis|root|smtp|sql|ssh|user)?pass")

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
"""Words that, before `key`, mark a secret. Other keys belong to tables, caches or keyboards."""

_ABOUT = frozenset(
    {
        *("alg", "algorithm", "budget", "count", "counts", "details", "dir", "directory", "enabled", "expiration"),
        *("expires", "expiry", "file", "filename", "format", "header", "hint", "in", "issuer", "length", "limit"),
        *("max", "method", "min", "mode", "name", "path", "policy", "prefix", "provider", "region", "required"),
        *("scheme", "scope", "scopes", "size", "sock", "socket", "ttl", "type", "usage", "version"),
    }
)
"""Last words of names that describe a secret but do not contain it: `token_type`, `SSH_AUTH_SOCK`."""

_NOT_SECRET_BEFORE = frozenset(
    {
        *("bos", "cached", "candidates", "completion", "context", "continuation", "cursor", "eos", "idempotency"),
        *("input", "max", "min", "next", "num", "output", "pad", "page", "pagination", "prev", "previous", "prompt"),
        *("reasoning", "resume", "special", "start", "stop", "sync", "thinking", "thought", "total"),
    }
)
"""Words before `token` which show that it is not a secret, but a unit of text or a position in a list. Before
`signature`, they mark a signature that a model issued.
"""


@lru_cache(maxsize=4096)
def is_secret_field(name: str) -> bool:
    """Return whether a field or URL parameter with this name has a secret value.

    The name is split into words, whatever its spelling: `OPENAI_API_KEY_2`, `x-auth-token`, `clientSecret`,
    `PGPASSWORD`.
    """
    found = words(name)
    if not found or found[-1] in _ABOUT:
        return False
    return any(_is_secret(word, found[:at]) for at, word in enumerate(found))


@lru_cache(maxsize=1024)
def is_secret_header(name: str) -> bool:
    """Return whether the value of a header with this name is secret or identifies the user."""
    found = words(name)
    if is_secret_field(name) or found[-1:] in (["key"], ["organization"], ["project"]):
        return True
    return any(word in {"auth", "session"} for word in found) or found[-2:] == ["organization", "id"]


@lru_cache(maxsize=1024)
def is_secret_variable(name: str) -> bool:
    """Return whether an environment variable with this name has a secret value."""
    found = words(name)
    if not found or found[-1] in _ABOUT or found in (["pwd"], ["oldpwd"], ["pgp", "key"]):
        return False
    return is_secret_field(name) or any(word in _KEYS or _PASSWORD_WORD.fullmatch(word) for word in found)


def words(name: str) -> list[str]:
    """Split a name into words, in lower case."""
    return [word.lower() for word in _WORD.findall(name)]


def _is_secret(word: str, before: list[str]) -> bool:
    if word in _KEYS:
        return bool(before) and before[-1] in _BEFORE_KEY
    if word in ("token", "signature") and before and before[-1] in _NOT_SECRET_BEFORE:
        return False
    return word in _SECRET or word.endswith(_ENDINGS)


_ACCOUNT = re.compile(r"(?:ORG_ID|ORGANIZATION|PROJECT_ID)$")

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_PATH = re.compile(r"(?:~|\.{0,2})/|[A-Za-z]:\\\\")
_SETTING = re.compile(r"(?:^|[;\s])([\w -]+?)\s*=\s*([^;\s]+)")
"""Matches a setting in a connection string, such as `Password=value;` or `password=value`."""

_ARMOR = re.compile(r"-----(?:BEGIN|END) [A-Z0-9 ]+-----")

_WHITE_SPACE = {"\n": "a newline", "\r": "a carriage return", "\t": "a tab", " ": "a space"}


def read_key(variables: Iterable[str], environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the key from the first of the variables that is set, or `None` if none is set.

    Raises:
        UsageError: See `check_key`.
    """
    name = next((name for name in variables if environ.get(name)), None)
    if name is None:
        return None
    check_key(name, environ[name])
    return environ[name]


def check_key(name: str, value: str) -> None:
    """Check that the key in the variable `name` can be sent in a header. Keys copied from a file often end in a
    newline.

    Raises:
        UsageError: It cannot be sent. The message does not contain the key.
    """
    problem = _header_problem(value)
    if problem is not None:
        raise UsageError(
            f"{name}: the key {problem}, which is not allowed in a header. Set the variable again without it."
        )


def secret_values(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the keys, tokens, passwords and accounts found in environment variables.

    Variables that a run does not use are included, because an adapter may read any of them. For a URL, only the
    password is returned. See `secret_addresses` for variables whose value is a secret URL.
    """
    return [part for name, value in environ.items() for part in _secrets_in(name, value)]


def secret_addresses(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the URLs in environment variables that may be secret.

    These are the base URLs of providers, and URLs in variables with a secret name, such as webhooks.
    """
    return [
        value
        for name, value in environ.items()
        if (name.startswith(PREFIXES) and name.endswith("_BASE_URL"))
        or (_SCHEME.match(value) and is_secret_variable(name))
    ]


def _secrets_in(name: str, value: str) -> list[str]:
    if name.startswith(PREFIXES) and name.endswith("CUSTOM_HEADERS"):  # lines of `name: value`
        return [part.partition(": ")[2] or part for part in value.splitlines()]
    if _SCHEME.match(value):
        user, at, _ = value.partition("://")[2].partition("/")[0].rpartition("@")
        password = user.partition(":")[2] if at else ""
        return [password, unquote(password)] if password else []
    within = [*_secrets_in_json(value), *(setting for key, setting in _SETTING.findall(value) if is_secret_field(key))]
    if within:
        return within
    is_account = name.startswith(PREFIXES) and _ACCOUNT.search(name) is not None
    if not (is_account or is_secret_variable(name)) or _PATH.match(value) or value.lower() in words(name):
        return []
    return [_ARMOR.sub("", value)]


def _secrets_in_json(value: str) -> list[str]:
    """Return the secrets in a JSON object, such as the key file of a service account."""
    if not value.lstrip().startswith("{"):
        return []
    try:
        left = [json.loads(value)]
    except (ValueError, RecursionError):
        return []
    found: list[str] = []
    while left:
        node: Any = left.pop()
        for key, each in cast("dict[str, Any]", node).items() if isinstance(node, dict) else ():
            if isinstance(each, str) and (is_secret_field(key) or "private" in words(key)):
                found.append(_ARMOR.sub("", each))
            else:
                left.append(each)
        left += cast("list[Any]", node) if isinstance(node, list) else []
    return found


def _header_problem(value: str) -> str | None:
    if not value.strip():
        return "contains only white space"
    for beginning, character in (("ends in", value[-1]), ("begins with", value[0])):
        if character in _WHITE_SPACE:
            return f"{beginning} {_WHITE_SPACE[character]}"
    for character, name in _WHITE_SPACE.items():
        if character in value:
            return f"contains {name}"
    if not value.isascii():
        return "contains a character that is not ASCII"
    return None if value.isprintable() else "contains a control character"
