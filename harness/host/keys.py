"""Keys from the environment: the one that is sent, whether a header takes it, and all that no output may repeat."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from harness.contract.errors import UsageError
from harness.host.environment import PREFIXES

_SECRET = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|ORG_ID|ORGANIZATION|PROJECT_ID|CUSTOM_HEADERS)$")

_WHITE = {"\n": "a newline", "\r": "a carriage return", "\t": "a tab", " ": "a space"}


def key(variables: Iterable[str], environ: Mapping[str, str] = os.environ) -> str | None:
    """The first key that is set, `None` if there is none.

    Raises:
        UsageError: see `check`.
    """
    name = next((name for name in variables if environ.get(name)), None)
    if name is None:
        return None
    check(name, environ[name])
    return environ[name]


def check(name: str, value: str) -> None:
    """Whether the key in the variable `name` can be sent in a header, before anything is: what is often wrong with one
    is the end of the file that it came from.

    Raises:
        UsageError: it cannot. The value is not repeated.
    """
    flaw = _flaw(value)
    if flaw is not None:
        raise UsageError(f"{name}: the key {flaw}, and no header takes that. Set the variable again without it.")


def secrets(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The values of the providers' variables that hold keys, tokens and accounts, whether a run sends them or not: an
    adapter may read what it likes."""
    found = [value for name, value in environ.items() if name.startswith(PREFIXES) and _SECRET.search(name)]
    # Custom headers are lines of `name: value`.
    return [part.partition(": ")[2] or part for value in found for part in value.splitlines()]


def addresses(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The values of the providers' variables that say where to send: a password may stand in one."""
    return [value for name, value in environ.items() if name.startswith(PREFIXES) and name.endswith("_BASE_URL")]


def _flaw(value: str) -> str | None:
    if not value.strip():
        return "is nothing but white space"
    for beginning, character in (("ends in", value[-1]), ("begins with", value[0])):
        if character in _WHITE:
            return f"{beginning} {_WHITE[character]}"
    for character, name in _WHITE.items():
        if character in value:
            return f"has {name} in it"
    if not value.isascii():
        return "has a character in it that is not ASCII"
    return None if value.isprintable() else "has a control character in it"
