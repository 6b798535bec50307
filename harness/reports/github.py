"""Annotations for GitHub Actions: workflow commands, which its runner reads off a step's output.

As the runner reads them (actions/runner, `ActionCommand.cs` at commit 079cdb1): `::error file=…,title=…::message`, with
`%`, carriage return and line feed escaped, and `:` and `,` in properties. Of a step ten errors and ten warnings are
shown (actions/toolkit, `docs/problem-matchers.md`), each message to 4,096 characters (`_maxIssueMessageLength` in the
runner's `ExecutionContext.cs`): the worst causes come first, and what more there is is counted. Read on 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, repeat, zip_longest

from harness.reports._places import Spot
from harness.reports._troubles import Sign, Trouble, troubles
from harness.reports._words import bounded, count, listed
from harness.results import Presentation, Report, RunResult, Severity

MOST = 10
"""Annotations of a step that are shown, of errors and of warnings each."""

_TITLE, _MESSAGE = 200, 3_600
"""Characters, before they are escaped."""
_NAMES = 12


def render(run: RunResult, presentation: Presentation) -> str:
    """The commands, a line each; nothing of a run in which nothing is wrong."""
    found = troubles(run, presentation)
    errors, warnings = ([each for each in found if each.severity is severity] for severity in _COMMANDS)
    return "".join(f"{line}\n" for line in (*_lines(errors, Severity.ERROR), *_lines(warnings, Severity.WARNING)))


_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning"}


def _lines(found: Sequence[Trouble], severity: Severity) -> Iterator[str]:
    """Each trouble once, and where there is room for more also at its other lines of the repository."""
    kept = MOST - 1 if len(found) > MOST else MOST
    shown, rest = found[:kept], found[kept:]
    for trouble, sign in _spread(shown, kept):
        message = f"{sign.name}\n{sign.text}\nWhat to do: {trouble.advice}" if trouble.advice else sign.text
        yield command(severity, f"{trouble.rule}: {trouble.extent}", message, sign.spot)
    if rest:
        names = listed(list(dict.fromkeys(each.rule for each in rest)), _NAMES)
        yield command(severity, f"and {count(len(rest), 'more cause')}", f"{names}: see the report of the run", None)


def _spread(found: Sequence[Trouble], most: int) -> list[tuple[Trouble, Sign]]:
    every = [zip(repeat(each), each.signs()) for each in found]
    spread = [next(signs) for signs in every]
    taken = {(id(each), sign.spot) for each, sign in spread}
    for each, sign in filter(None, chain.from_iterable(zip_longest(*(filter(_is_here, signs) for signs in every)))):
        if len(spread) >= most:
            break
        if (id(each), sign.spot) not in taken:
            taken.add((id(each), sign.spot))
            spread.append((each, sign))
    return spread[:most]


def _is_here(seen: tuple[Trouble, Sign]) -> bool:
    """Whether it shows at a line of the repository."""
    return seen[1].spot is not None


def command(severity: Severity, title: str, message: str, spot: Spot | None) -> str:
    """The command, in a line, that annotates a file at a line, or a step."""
    properties = {"file": spot.file, "line": str(spot.line)} if spot is not None else {}
    properties["title"] = bounded(title, _TITLE)
    given = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{_COMMANDS[severity]} {given}::{_data(bounded(message, _MESSAGE))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


REPORT = Report("github", render)
