"""The options that the checks of servers and gateways share, completed by the settings that name one."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, TypeVar

import typer

from harness.cli.options import ExpectedFailures, Judged, Reported, Variants, Words
from harness.cli.settings import settings
from harness.contract.errors import UnknownName, UsageError
from harness.host.project import NamedGateway, NamedServer
from harness.kit import factories


@dataclass(frozen=True, kw_only=True)
class EndpointOptions(Reported, Judged):
    """The options that `check server` and `check gateway` share.

    `name` is that of the settings, `table` its place there, `from_table` the fields that were not typed. `variables`
    has the variables of the environment by header.
    """

    api: Annotated[
        str | None,
        typer.Option("--api", metavar="NAME", show_default=False, help="The API that its clients speak."),
    ] = None
    words: Words = None
    variants: Variants = None
    expected_failures: ExpectedFailures = None
    headers: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            metavar="'NAME: VALUE'",
            show_default=False,
            help="Sends a header to a server or a gateway with each request; its value is shown and recorded nowhere. "
            "Repeatable.",
        ),
    ] = None
    url: str
    name: str | None = None
    table: str = ""
    from_table: frozenset[str] = frozenset()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    def place(self, key: str, option: str = "") -> str:
        """Return what names a value in errors: the key of the settings that it is from, or the option."""
        return f"{self.table}.{key}" if key.replace("-", "_") in self.from_table else f"--{option or key}"


T = TypeVar("T", bound=EndpointOptions)


def named(kind: str, typed: T) -> tuple[T, NamedServer | NamedGateway | None]:
    """Return the options, with what the settings say of the server or gateway that is named where they say nothing.

    Raises:
        UnknownName: the project names some, and none so.
        UsageError: the settings are wrong, or the URL is.
    """
    own = settings()
    known: Mapping[str, NamedServer | NamedGateway] = own.servers if kind == "server" else own.gateways
    found = known.get(typed.url)
    if found is None and known and ":" not in typed.url and "/" not in typed.url:
        raise UnknownName(kind, typed.url, tuple(known), f"check {kind}")
    if not factories.is_base_url(typed.url if found is None else found.url):
        at = f"check {kind}" if found is None else f"{found.place}.url"
        raise UsageError(f"{at}: {factories.NO_BASE_URL}")
    if found is None:
        return typed, None
    said: dict[str, Any] = {
        each.name: getattr(found, each.name)
        for each in fields(typed)
        if each.name not in _OWN and not getattr(typed, each.name) and getattr(found, each.name, None)
    }
    if typed.strict is not None:
        said.pop("strict", None)
    origin = {"name": typed.url, "table": found.place, "from_table": frozenset(said), "variables": found.headers}
    return replace(typed, **said, **origin, url=found.url), found


_OWN = ("headers", "url", "models", "upstream_models")
"""The keys of settings that have another form than the option."""


_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FRAMING = ("content-length", "transfer-encoding")


def headers_of(options: EndpointOptions, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the headers by name, in lower case. Those that were typed replace those of the settings, which name
    variables of the environment.

    Raises:
        UsageError: a header cannot be sent, or its variable is not set. No value is repeated.
    """
    found: dict[str, str] = {}
    for name, variable in options.variables.items():
        at = f"{options.table}.headers.{name}"
        if variable not in environ:
            raise UsageError(f"{at}: the variable {variable} is not set.")
        found[_name(name, at)] = _value(environ[variable], f"{at}: the value of {variable}")
    for each in options.headers or ():
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
