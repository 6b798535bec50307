"""`--header`: headers that a server or a gateway wants beside those of its API's SDK."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, TypeAlias

import typer

from harness.contract.errors import UsageError

Headers: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        metavar="'NAME: VALUE'",
        show_default=False,
        help="Sends a header to a server or a gateway with each request; its value is shown and recorded nowhere. "
        "Repeatable.",
    ),
]

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FRAMING = ("content-length", "transfer-encoding")


def headers_of(
    typed: Sequence[str] | None, variables: Mapping[str, str], place: str, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The headers by name, in lower case: those of the settings, which name variables of the environment, and those
    that were typed, which come before them.

    Raises:
        UsageError: a header cannot be sent, or its variable is not set. No value is repeated.
    """
    found: dict[str, str] = {}
    for name, variable in variables.items():
        at = f"{place}.headers.{name}"
        if variable not in environ:
            raise UsageError(f"{at}: the variable {variable} is not set.")
        found[_name(name, at)] = _value(environ[variable], f"{at}: the value of {variable}")
    for each in typed or ():
        name, colon, value = each.partition(":")
        if not colon:
            raise UsageError("--header: it must be 'NAME: VALUE', as in 'x-team: search'.")
        found[_name(name.strip(), "--header")] = _value(value, f"--header {name.strip()}: its value")
    return found


def hidden(headers: Sequence[str] | None) -> list[str]:
    """Typed headers as words of a command, with a place for each value."""
    return [word for each in headers or () for word in ("--header", f"{each.partition(':')[0].strip()}: VALUE")]


def _name(name: str, place: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{place}: this is no name of a header.")
    if name.lower() in _FRAMING:
        raise UsageError(f"{place}: {name} belongs to the request's body and cannot be chosen.")
    return name.lower()


def _value(value: str, subject: str) -> str:
    value = value.strip()
    if not value or not value.isascii() or not value.isprintable():
        raise UsageError(f"{subject} must be printable ASCII, and not empty.")
    return value
