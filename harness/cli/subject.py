"""What a check or a run is of: adapters, a server or a gateway. Each takes options that the others do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from harness.contract.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from harness.host.project import Project

Command: TypeAlias = Literal["check", "run"]
Kind: TypeAlias = Literal["adapter", "server", "gateway"]

_WHAT: Mapping[Kind, str] = {"adapter": "an adapter", "server": "a server", "gateway": "a gateway"}

_OF: Mapping[Kind, tuple[str, ...]] = {
    "adapter": (
        *("ADAPTER", "PATH", "--adapter", "--adapter-command", "--conversation", "--agent-command", "--target"),
        *("--mode", "--all", "--recut", "-n", "--cell-timeout", "--cassettes", "--strict", "--base-url"),
        *("--all-differences", "-x", "--maxfail", "--last-failed", "--max-age", "--shard"),
        *("--executor", "--watch", "--rate", "--concurrency", "--budget", "--resume"),
    ),
    "server": ("--server", "--repeat", "--max-requests", "--max-tokens", "--price", "--only", "--strict", "--header"),
    "gateway": (
        *("--gateway", "--upstream", "--upstream-port", "--upstream-model", "--gateway-command", "--gateway-wait"),
        *("ADAPTER", "PATH", "--cell-timeout", "--strict", "--header"),
    ),
}
"""The options that not all of them take. `ADAPTER` and `PATH` are what stands without an option: beside a gateway it
names scenarios."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What was typed that every subject takes. Nothing is checked yet."""

    command: Command
    api: str | None = None
    models: Sequence[str] | None = None
    words: str | None = None
    variants: Sequence[str] | None = None
    expected_failures: str | None = None
    reports: Sequence[str] | None = None
    verbose: bool = False
    quiet: bool = False
    strict: bool | None = None
    rules: Sequence[str] = ()
    ignored: Sequence[str] = ()
    as_of: str | None = None
    facts: tuple[Path, ...] = ()


class Subject(Protocol):
    """What can be checked or run, by the options that were typed of it."""

    @property
    def given(self) -> Mapping[str, object]:
        """The values of its options, by option; `None` where none was typed."""
        ...

    def play(self, shared: Shared) -> int:
        """Check or run it, write the reports, and return the exit code. Raises `UsageError`."""
        ...


@dataclass(frozen=True, slots=True)
class AdapterOptions:
    """What was typed of adapters, and of what owns its tool loop; `start` plays them by it."""

    given: Mapping[str, object]
    start: Callable[[], int]

    def play(self, shared: Shared) -> int:  # noqa: ARG002 - as every subject is played
        """Play them, write the reports, and return the exit code. Raises `UsageError`."""
        return self.start()


def played(subjects: Mapping[Kind, Subject], shared: Shared) -> int:
    """Check or run the one that was named: adapters, unless a server or a gateway was. Gives back the exit code.

    Raises:
        UsageError: an option is wrong, or means nothing for what was named.
    """
    given = {option: value for each in subjects.values() for option, value in each.given.items() if value is not None}
    kind: Kind = "server" if "--server" in given else "gateway" if "--gateway" in given else "adapter"
    for option in given:
        if option not in _OF[kind]:
            raise UsageError(_not_for(option, kind, shared.command))
    return subjects[kind].play(shared)


def _not_for(option: str, kind: Kind, command: Command) -> str:
    takes = next(each for each, options in _OF.items() if option in options)
    only = "" if takes == "adapter" else f", only with --{takes}"
    return f"{option}: it is not for a {command} of {_WHAT[kind]}{only}. 'harness {command} --help' says what is."


def named_kind(name: str | None) -> Kind:
    """What of the project has a name: a server, a gateway, or neither, so that it is an adapter's.

    Raises:
        UsageError: the project's settings are wrong.
    """
    if name is None:
        return "adapter"
    found = _project()
    return "server" if name in found.servers else "gateway" if name in found.gateways else "adapter"


def own(option: str, name: str) -> Project:
    """The project, of whose servers or gateways `option` may name one; or it is a URL.

    Raises:
        UnknownName: it has some, and none of this name.
        UsageError: its settings are wrong.
    """
    found = _project()
    known: Mapping[str, object] = found.servers if option == "--server" else found.gateways
    if known and name not in known and ":" not in name and "/" not in name:
        raise UnknownName(option.removeprefix("--"), name, tuple(known), option)
    return found


def _project() -> Project:
    from harness.cli.settings import settings  # noqa: PLC0415 - `harness --help` loads none of what it needs

    return settings()
