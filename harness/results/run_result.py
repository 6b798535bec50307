"""The result of a run: cells with their verdicts, costs and differences. It is written as JSON and
passed to reports.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from itertools import chain, takewhile
from typing import Any, Literal, TypeAlias, cast

from pydantic import TypeAdapter

from harness.model.messages import Usage
from harness.results.checks import AuditResult, CheckResult, HandOver
from harness.results.findings import Finding, Severity, to_writable
from harness.results.transcript import ConversationRecord, Mode
from harness.scenarios.schema import Variant


@dataclass(frozen=True, slots=True)
class ProgramStart:
    """Start of a program by `harness try`: its shell command, the kind of answers that it got, and the limits that the
    server did not check. `name` begins the ids of its conversations.
    """

    name: str
    command: str
    answers: str
    tolerated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Invocation:
    """Command lines for repeating parts of a run. Reports print them next to failures.

    `rerun`, `record`, `reference` and `show` are the first words of the commands. If `show` is empty, there is no
    command that shows a cell. `selection` are the words that selected the scenarios. `scenarios` maps the ids of
    scenarios that are not shipped to their files. `targets` maps the names of targets that are not shipped to the words
    that select them. `recut` are the words that enable other chunk boundaries. `programs` maps the ids of a program's
    conversations to how it was started.
    """

    rerun: tuple[str, ...] = ("harness", "run")
    record: tuple[str, ...] = ("harness", "record")
    reference: tuple[str, ...] = ("harness", "run", "--mode", "reference")
    selection: tuple[str, ...] = ()
    scenarios: Mapping[str, str] = field(default_factory=dict[str, str])
    targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    recut: tuple[str, ...] = ()
    show: tuple[str, ...] = ("harness", "show")
    programs: Mapping[str, ProgramStart] = field(default_factory=dict[str, ProgramStart])

    def command(self, words: Iterable[str], targets: Iterable[str], scenarios: Iterable[str] | None = None) -> str:
        """Return a command line that starts with `words` and selects the targets and scenarios. If `scenarios` is
        `None`, it selects those of the run.
        """
        named = self.selection if scenarios is None else [self.scenarios.get(each, each) for each in scenarios]
        selected = chain.from_iterable(self.targets.get(target, ("--target", target)) for target in targets)
        return shlex.join([*words, *named, *selected])


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a scenario.

    `digest` is the start of the SHA-256 of its content. `requires` lists the required capabilities and `provocations`
    the unusual server behaviours that it requests. `file` is the path as the user gave it, or `None` for shipped
    scenarios. `line` is the line of the scenario's id and `turns` are the lines of its user turns, counted from 1.
    """

    digest: str
    requires: tuple[str, ...] = ()
    provocations: tuple[str, ...] = ()
    file: str | None = None
    line: int | None = None
    turns: tuple[int, ...] = ()

    def line_of(self, turn: int | None) -> int | None:
        """Return the line of the user turn with this index, or of the scenario's id if there is no such turn."""
        return self.turns[turn] if turn is not None and 0 <= turn < len(self.turns) else self.line


@dataclass(frozen=True, slots=True)
class ExpectedFailure:
    """An entry of a file of expected failures.

    Findings of `rule` in the cells of `scenario` and `target` are expected, for the given `reason`. `variant` is `None`
    if the entry applies to both variants.
    """

    scenario: str
    target: str
    rule: str
    reason: str
    variant: Variant | None = None

    def covers(self, cell: CellResult) -> bool:
        """Return whether the entry applies to this cell."""
        return (
            fnmatchcase(cell.scenario, self.scenario)
            and fnmatchcase(cell.target, self.target)
            and self.variant in (None, cell.variant)
        )

    def expects(self, cell: CellResult, finding: Finding) -> bool:
        """Return whether the entry applies to this finding of the cell."""
        return self.covers(cell) and fnmatchcase(finding.rule, self.rule)


Values: TypeAlias = Mapping[str, Mapping[str, tuple[str, ...]]]
"""Maps targets to names of aspects, and these to the sorted observed values. Aspects without values are omitted."""


@dataclass(frozen=True, slots=True)
class RunPart:
    """Part `number` of `of` parts, counted from 1: a shard, or a live run that can be resumed.

    `scenarios` maps the ids of all scenarios of the whole run, in order, to the start of their digests. `expected` are
    all entries of the expected failures, because a single shard cannot determine which ones are stale. `observed` are
    the values observed in this part.
    """

    number: int
    of: int
    scenarios: Mapping[str, str]
    expected: tuple[ExpectedFailure, ...] = ()
    observed: Values = field(default_factory=dict[str, Mapping[str, tuple[str, ...]]])

    @property
    def name(self) -> str:
        """The name in the form of `--shard`: `1/4`."""
        return f"{self.number}/{self.of}"


@dataclass(frozen=True, slots=True)
class Checkout:
    """The project in whose folder a run was made, and its commit, if it is in a git repository. `-dirty` after the
    commit means that files were changed since.
    """

    project: str
    commit: str = ""


Origin: TypeAlias = Literal["reference", "provider", "server"]


class Verdict(StrEnum):
    """The way in which a cell ended."""

    PASS = "pass"  # noqa: S105 - a verdict
    NOTE = "note"
    WARN = "warn"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    """The model did not do what the cell tests, so the cell proves nothing."""
    NOT_APPLICABLE = "not-applicable"
    MISSING = "missing"
    ERROR = "error"
    EXPECTED_FAILURE = "expected-failure"


class Lacking(StrEnum):
    """The reason why a cell is not applicable: the API, the model or the adapter lacks a feature that it needs."""

    API = "api"
    MODEL = "model"
    ADAPTER = "adapter"


def verdict_of(findings: Iterable[Finding]) -> Verdict:
    """Return the verdict of a cell from its findings. In order of precedence: a finding that fails the cell, an
    expected failure, a warning, a note.
    """
    every = list(findings)
    if any(finding.fails for finding in every):
        return Verdict.FAIL
    severities = {finding.severity for finding in every}
    verdicts = {Severity.ERROR: Verdict.EXPECTED_FAILURE, Severity.WARNING: Verdict.WARN, Severity.NOTE: Verdict.NOTE}
    return next((verdict for severity, verdict in verdicts.items() if severity in severities), Verdict.PASS)


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of a cell's responses.

    `origin` is `reference` for the reference server, `provider` for the provider at its own address, and `server` for
    another server with the same API. `recorded_from` is the address of such a server. `recorded_at` is the time of the
    recording in ISO 8601 format, if there was one.
    """

    origin: Origin
    recorded_at: str | None = None
    model_requested: str | None = None
    model_served: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    recorded_from: str | None = None


@dataclass(frozen=True, slots=True)
class Spending:
    """The cost of requests to a model.

    `usage` is the total number of tokens in the responses. `dollars` is the cost of the requests that have a known
    price, or `None` if none has. `unpriced` is the number of the other requests. Refused requests cost nothing.
    """

    model: str
    requests: int
    usage: Usage
    dollars: Decimal | None
    unpriced: int = 0

    @staticmethod
    def of(model: str, requests: int, usages: Iterable[Usage], prices: Sequence[Decimal | None]) -> Spending:
        """Return the cost of requests with these prices. `None` is an unknown price."""
        known = [price for price in prices if price is not None]
        total = sum(known, Decimal(0)) if known or not prices else None
        return Spending(model, requests, total_usage(usages), total, len(prices) - len(known))

    @staticmethod
    def sum_of(parts: Iterable[Spending]) -> Spending:
        """Return the sum of one or more parts. `model` lists each model once."""
        every = list(parts)
        known = [part.dollars for part in every if part.dollars is not None]
        return Spending(
            ", ".join(dict.fromkeys(part.model for part in every)),
            sum(part.requests for part in every),
            total_usage(part.usage for part in every),
            sum(known, Decimal(0)) if known else None,
            sum(part.unpriced for part in every),
        )


def total_usage(usages: Iterable[Usage]) -> Usage:
    """Return the total usage of several responses."""
    return sum(usages, Usage())


CellKey: TypeAlias = tuple[str, str, Variant]
"""Scenario id, target name and variant."""


@dataclass(frozen=True, slots=True)
class CellResult:
    """The result of a cell, which is a scenario on a target in a variant.

    `reason` explains why the cell did not run, or what error it had. `covers` are the scenario's subjects, the main one
    first. `recuts` is the number of additional runs with other chunk boundaries. `spending` is the cost of the
    requests. `printed` is the output of an adapter in another process and `traceback` the traceback of an exception;
    both are shortened. `conversation` is set only if a report needs it. `hidden` counts the findings out of scope, by
    rule. `seconds` is the duration; it is ignored when results are compared. `hand_over` is set if the conversation
    began on another target. `lacking` is set if the cell is not applicable because the API, the model or the adapter
    lacks a feature.
    """

    scenario: str
    target: str
    adapter: str
    api: str
    variant: Variant
    verdict: Verdict
    provenance: Provenance | None = None
    findings: tuple[Finding, ...] = ()
    reason: str | None = None
    exchanges: int = 0
    covers: tuple[str, ...] = ()
    recuts: int = 0
    spending: Spending | None = None
    printed: str | None = None
    traceback: str | None = None
    conversation: ConversationRecord | None = None
    seconds: float | None = field(default=None, compare=False)
    hidden: Mapping[str, int] = field(default_factory=dict[str, int])
    hand_over: HandOver | None = None
    lacking: Lacking | None = None

    @property
    def key(self) -> CellKey:
        """The scenario, the target and the variant."""
        return self.scenario, self.target, self.variant

    def __post_init__(self) -> None:
        for name in ("reason", "printed", "traceback"):
            object.__setattr__(self, name, to_writable(getattr(self, name)))


@dataclass(frozen=True, slots=True)
class Difference:
    """An aspect of the wire format, with its value for each target. `differs` is set if targets have
    different values.
    """

    subject: str
    aspect: str
    values: Mapping[str, str]
    differs: bool


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a whole run. When a run is repeated, everything except `timing` is identical, although prices may
    change from day to day.

    `stale` are entries of the expected failures that did not occur, and `unmatched` entries that cover no cell of the
    run. `left_out` maps targets that are not in the run to the reasons. `cassettes` is the folder of the cassettes.
    `stopped` is the reason why the run was stopped; `cells` then has only the finished cells. `facts` are the files
    with additional facts. `rules` and `ignored` are ids and globs of rules. Findings of ignored rules do not count. If
    `rules` is not empty, only findings of these rules count. `unplayed` is the number of cells that did not run because
    of `--maxfail` or a time limit.

    In an audit, each cell is a recording: one file with one of its APIs. A damaged file is a cell with the verdict
    `missing`. `audit` has the counts of an audit and `check` the results of a check. `definitions` maps scenario ids to
    definitions. `played_at` is the start time in UTC, in ISO 8601 format. `part` identifies a shard. `checkout` is the
    project in the working folder.
    """

    mode: Mode
    cells: tuple[CellResult, ...]
    differences: tuple[Difference, ...] = ()
    stale: tuple[ExpectedFailure, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    timing: Mapping[str, float] = field(default_factory=dict[str, float])
    cassettes: str | None = None
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    invocation: Invocation = field(default_factory=Invocation)
    unmatched: tuple[ExpectedFailure, ...] = ()
    stopped: str | None = None
    audit: AuditResult | None = None
    facts: tuple[str, ...] = ()
    check: CheckResult | None = None
    definitions: Mapping[str, Definition] = field(default_factory=dict[str, Definition])
    played_at: str | None = field(default=None, compare=False)
    rules: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unplayed: int = 0
    part: RunPart | None = None
    checkout: Checkout | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "stopped", to_writable(self.stopped))

    @property
    def finished(self) -> bool:
        """True if all cells ran."""
        return self.stopped is None and not self.unplayed

    @property
    def hidden(self) -> dict[str, int]:
        """The number of findings out of scope, by rule."""
        counted = Counter[str]()
        for cell in self.cells:
            counted.update(cell.hidden)
        return dict(sorted(counted.items()))

    @property
    def summary(self) -> dict[str, int]:
        """The number of cells with each verdict."""
        counts = {verdict.value: 0 for verdict in Verdict}
        for cell in self.cells:
            counts[cell.verdict.value] += 1
        return counts

    @property
    def costs(self) -> dict[str, Spending]:
        """The cost of each target's requests."""
        parts: dict[str, list[Spending]] = {}
        for cell in self.cells:
            if cell.spending is not None:
                parts.setdefault(cell.target, []).append(cell.spending)
        return {target: Spending.sum_of(each) for target, each in parts.items()}

    @property
    def exit_code(self) -> int:
        """The exit code of the command.

        It is 1 if a cell failed or had an error, if an expected failure is stale, or if a check used a model other than
        the default. Otherwise it is 2 if a cell has the verdict `missing`, no cell ran, or the run is incomplete. In
        all other cases it is 0.
        """
        summary = self.summary
        if summary["fail"] or summary["error"] or self.stale or (self.check is not None and self.check.model_note):
            return 1
        played = summary["pass"] + summary["note"] + summary["warn"] + summary["expected-failure"]
        return 2 if summary["missing"] or not played or not self.finished else 0

    def to_json(self, *, conversations: bool = False) -> str:
        """Return the run as JSON. `from_json` restores an equal value, except for conversations, which are written only
        on request.

        Numbers that JSON cannot represent are written as strings.
        """
        return "".join(self.json_pieces(conversations=conversations))

    def json_pieces(self, *, conversations: bool = False) -> Iterator[str]:
        """Yield the text of `to_json` one cell at a time, because the text of a large run may not fit into memory."""
        document: dict[str, Any] = _adapter().dump_python(
            replace(self, cells=(), timing={}), mode="json", exclude={"played_at"}
        )
        document["finished"] = self.finished
        document["summary"] = self.summary
        document["costs"] = _costs().dump_python(self.costs, mode="json")
        document["timing"] = self._times()
        if self.audit is None:
            del document["audit"]
        if self.check is None:
            del document["check"]
        for name in ("facts", "rules", "ignored", "unplayed", "part", "checkout"):
            if not getattr(self, name):
                del document[name]
        around = json.JSONEncoder(ensure_ascii=False, indent=2).iterencode(_finite(document))
        yield from takewhile(lambda piece: piece != "[]", around)  # the cells: only the mode comes before them
        yield "["
        between = ""
        for cell in self.cells:
            omitted = {
                "seconds": True,
                "conversation": not conversations,
                "hidden": not cell.hidden,
                "hand_over": not cell.hand_over,
                "lacking": cell.lacking is None,
            }
            dumped = _cell().dump_python(cell, mode="json", exclude={name for name, out in omitted.items() if out})
            yield between + "\n    " + _dump(dumped).replace("\n", "\n    ")
            between = ","
        yield "\n  ]" if between else "]"
        yield from around
        yield "\n"

    @staticmethod
    def from_json(text: str) -> RunResult:
        """Parse the JSON that `to_json` returns.

        Raises:
            ValueError: The text is not the JSON of a run.
        """
        document: Any = json.loads(text)
        if isinstance(document, dict):
            _move_timing_back(cast("dict[str, Any]", document))
        return _adapter().validate_python(document)

    def _times(self) -> dict[str, Any]:
        """Return all values that change when a run is repeated."""
        known = {_timing_key(*each.key): each.seconds for each in self.cells if each.seconds is not None}
        at = {} if self.played_at is None else {"at": self.played_at}
        return {**at, **self.timing, **({"cells": known} if known else {})}


def _timing_key(*names: object) -> str:
    return "/".join(map(str, names))


def _move_timing_back(document: dict[str, Any]) -> None:
    """Move the values that `to_json` put into `timing` back to their fields, and remove derived values."""
    for derived in ("finished", "summary", "costs"):
        document.pop(derived, None)
    timing, cells = document.get("timing"), document.get("cells")
    if not isinstance(timing, dict) or not isinstance(cells, list):
        return
    times = cast("dict[str, Any]", timing)
    if isinstance(times.get("at"), str):
        document["played_at"] = times.pop("at")
    if isinstance(times.get("cells"), dict):
        known = cast("dict[str, Any]", times.pop("cells"))
        for cell in cast("list[Any]", cells):
            if isinstance(cell, dict):
                fields = cast("dict[str, Any]", cell)
                name = _timing_key(*(fields.get(part) for part in ("scenario", "target", "variant")))
                fields["seconds"] = known.get(name)


def _dump(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, indent=2)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in cast("dict[str, Any]", value).items()}
    return [_finite(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


@cache  # like the next two, built on first use: that takes longer than a cell
def _adapter() -> TypeAdapter[RunResult]:
    return TypeAdapter(RunResult)


@cache
def _cell() -> TypeAdapter[CellResult]:
    return TypeAdapter(CellResult)


@cache
def _costs() -> TypeAdapter[dict[str, Spending]]:
    return TypeAdapter(dict[str, Spending])


_TIMING = {
    "description": "Values that may change when a run is repeated: start time, seconds in total and by cell.",
    "properties": {
        "at": {"type": "string", "format": "date-time"},
        "seconds": {"type": "number"},
        "cells": {"type": "object", "additionalProperties": {"type": "number"}},
    },
    "type": "object",
}


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of `--report json` and `--report archive`."""
    schema = TypeAdapter(RunResult).json_schema(mode="serialization")
    del schema["properties"]["played_at"], schema["$defs"]["CellResult"]["properties"]["seconds"]  # they are times
    schema["properties"] |= {
        "finished": {"description": "Whether all cells of the run ran.", "type": "boolean"},
        "summary": {
            "description": "The number of cells with each verdict.",
            "properties": {verdict.value: {"type": "integer"} for verdict in Verdict},
            "type": "object",
            "additionalProperties": False,
        },
        "costs": {"additionalProperties": {"$ref": "#/$defs/Spending"}, "type": "object"},
        "timing": _TIMING,
    }
    schema["required"] = [*schema["required"], "finished", "summary", "costs", "timing"]
    named = {"title": "harness results", "additionalProperties": False}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, **named}


@dataclass(frozen=True, slots=True)
class Presentation:
    """Options for rendering a report.

    `width` is in columns. `verbose` shows all scenarios and findings, `quiet` only failures and the verdict.
    `all_differences` also shows aspects that are the same for all targets. `against` are earlier runs to compare with,
    the latest last. `root` is the top folder of the repository, used for file names in pipelines; if empty, names are
    shown as given. `form` is one of `Report.forms`; if empty, the first. `max_bytes` is the maximum size in UTF-8.
    `today` is the date of the report; if `None`, the date of the run.
    """

    colour: bool = False
    width: int = 120
    verbose: bool = False
    all_differences: bool = False
    against: tuple[RunResult, ...] = ()
    quiet: bool = False
    root: str = ""
    form: str = ""
    max_bytes: int | None = None
    today: dt.date | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A report format.

    `wants_conversations` is set if it shows messages and exchanges, which a run does not keep by default. `compares` is
    set if it shows `Presentation.against`. `forms` are the file extensions that it can write, with the form for the
    screen first; empty if it has only one form. `pieces` returns the same text as `render`, but in pieces, so that long
    reports need less memory. `compare` renders only the changes between two runs, for `harness compare`. `reads_back`
    is set if `RunResult.from_json` can read the report.
    """

    name: str
    render: Callable[[RunResult, Presentation], str]
    wants_conversations: bool = False
    compares: bool = False
    forms: tuple[str, ...] = ()
    pieces: Callable[[RunResult, Presentation], Iterable[str]] | None = None
    compare: Callable[[RunResult, RunResult, Presentation], str] | None = None
    reads_back: bool = False

    def make(self, run: RunResult, presentation: Presentation) -> Iterable[str]:
        """Return the report of a run in pieces."""
        return [self.render(run, presentation)] if self.pieces is None else self.pieces(run, presentation)
