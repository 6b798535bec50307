"""What a run comes to: cells with their verdicts, what they cost, where targets differ. JSON in and out."""

from __future__ import annotations

import datetime as dt
import json
import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from functools import cache
from itertools import chain, takewhile
from typing import Any, Literal, TypeAlias, cast

from pydantic import TypeAdapter

from harness.contract.model import Usage
from harness.results.checks import Audited, Checked
from harness.results.findings import Finding, Severity, writable
from harness.results.transcript import Conversation, Mode
from harness.scenarios.schema import Variant


@dataclass(frozen=True, slots=True)
class Invocation:
    """How to ask for a part of a run again.

    A fact of the run, as its mode is: reports read nothing but results, and print these commands beside what failed,
    also out of a result that was written in another process. What the words are the caller says: the command line its
    own options, pytest its own; those that stand here are what asks for a run that was given none.

    `rerun`, `record`, `reference` and `show` are the words that a command line begins with, `selection` those that
    chose the scenarios. `scenarios` names the files of scenarios that do not ship with harness, `targets` the words
    that select a column which is no shipped target. `recut` are the words that ask for other cuts of what is streamed.
    Without words for `show` nothing shows a cell.
    """

    rerun: tuple[str, ...] = ("harness", "run")
    record: tuple[str, ...] = ("harness", "record")
    reference: tuple[str, ...] = ("harness", "run", "--mode", "reference")
    selection: tuple[str, ...] = ()
    scenarios: Mapping[str, str] = field(default_factory=dict[str, str])
    targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    recut: tuple[str, ...] = ()
    show: tuple[str, ...] = ("harness", "show")

    def command(self, words: Iterable[str], targets: Iterable[str], scenarios: Iterable[str] | None = None) -> str:
        """The command line that begins with `words`, for targets and some scenarios (`None`: those of the run)."""
        named = self.selection if scenarios is None else [self.scenarios.get(each, each) for each in scenarios]
        selected = chain.from_iterable(self.targets.get(target, ("--target", target)) for target in targets)
        return shlex.join([*words, *named, *selected])


@dataclass(frozen=True, slots=True)
class Definition:
    """A scenario of a run.

    `digest` is the beginning of the SHA-256 of what its file says: under another one something else was asked.
    `requires` are the capabilities and `provocations` the provocations that it names. `file` is its file, as it was
    named; scenarios that ship with harness have none, since it is no file of whoever plays them. `line` is that of its
    id, and `turns` those of its user turns; all lines count from 1.
    """

    digest: str
    requires: tuple[str, ...] = ()
    provocations: tuple[str, ...] = ()
    file: str | None = None
    line: int | None = None
    turns: tuple[int, ...] = ()

    def line_of(self, turn: int | None) -> int | None:
        """The line of a user turn, by its index; of the id, where there is no such turn."""
        return self.turns[turn] if turn is not None and 0 <= turn < len(self.turns) else self.line


@dataclass(frozen=True, slots=True)
class StaleExpectation:
    """An entry of expected failures that is true of nothing, in the one variant that it speaks of (`None`: in any).

    Its failure did not happen in cells that were played; or, in `RunResult.unmatched`, it names no cell of the run.
    """

    scenario: str
    target: str
    rule: str
    reason: str
    variant: Variant | None = None


Values: TypeAlias = Mapping[str, Mapping[str, tuple[str, ...]]]
"""Target → name of a fact → the values that its cells show, in order; without facts that no cell shows."""


@dataclass(frozen=True, slots=True)
class Part:
    """Part `number` of `of`, counted from 1: a shard of a run, or, as its one part, a live run, which may be stopped.

    `scenarios` are the ids of all scenarios of the whole, in the order of the run, each with the beginning of the
    digest of what it says. `expected` are all entries of expected failures: a shard alone cannot tell whether
    one is true of nothing. `observed` is what the cells of this part have shown on the wire, of which differences are
    made.
    """

    number: int
    of: int
    scenarios: Mapping[str, str]
    expected: tuple[StaleExpectation, ...] = ()
    observed: Values = field(default_factory=dict[str, Mapping[str, tuple[str, ...]]])

    @property
    def name(self) -> str:
        """As `--shard` has it: `1/4`."""
        return f"{self.number}/{self.of}"


Origin: TypeAlias = Literal["reference", "provider", "server"]


class Verdict(StrEnum):
    """How a cell ended."""

    PASS = "pass"  # noqa: S105 - a verdict
    NOTE = "note"
    WARN = "warn"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    """The model did not do what was to be looked at. Nobody is wrong, and nothing is proved."""
    NOT_APPLICABLE = "not-applicable"
    MISSING = "missing"
    ERROR = "error"
    EXPECTED_FAILURE = "expected-failure"


def worst(findings: Iterable[Finding]) -> Verdict:
    """How a cell ends that was judged, by its findings."""
    every = list(findings)
    if any(finding.fails for finding in every):
        return Verdict.FAIL
    severities = {finding.severity for finding in every}
    verdicts = {Severity.ERROR: Verdict.EXPECTED_FAILURE, Severity.WARNING: Verdict.WARN, Severity.NOTE: Verdict.NOTE}
    return next((verdict for severity, verdict in verdicts.items() if severity in severities), Verdict.PASS)


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where the responses of a cell come from.

    `origin` is `reference` (our own server, never a provider), `provider` (at an address of its own), or `server`: any
    other that speaks its API, at the address `recorded_from`. `recorded_at` is an ISO 8601 time, absent where nothing
    was recorded.
    """

    origin: Origin
    recorded_at: str | None = None
    model_requested: str | None = None
    model_served: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    recorded_from: str | None = None


@dataclass(frozen=True, slots=True)
class Spending:
    """What requests to a model took, as far as it is known.

    `usage` sums what the answers say of tokens. `dollars` is the price, in US dollars, of the requests whose price is
    known (`None`: of none of them), `unpriced` counts the others: nobody keeps a price for the model or the server, or
    the answer does not say what it took. What a provider refused costs nothing.
    """

    model: str
    requests: int
    usage: Usage
    dollars: Decimal | None
    unpriced: int = 0

    @staticmethod
    def together(parts: Iterable[Spending]) -> Spending:
        """Several of them as one; `model` names each model once. There has to be one at least."""
        every = list(parts)
        known = [part.dollars for part in every if part.dollars is not None]
        return Spending(
            ", ".join(dict.fromkeys(part.model for part in every)),
            sum(part.requests for part in every),
            summed(part.usage for part in every),
            sum(known, Decimal(0)) if known else None,
            sum(part.unpriced for part in every),
        )


def summed(usages: Iterable[Usage]) -> Usage:
    """The tokens of several answers. What only some of them say is the sum of what they say."""
    return sum(usages, Usage())


@dataclass(frozen=True, slots=True)
class CellResult:
    """One cell: scenario × target × variant. `reason` says why it was not played, or what broke; `covers` what the
    scenario is about, the main subject first; `recuts` how many other cuts of its streams were played; `spending` what
    its requests took, of what was played once: retellings send nothing. `printed` is what an adapter in a process of
    its own printed while the cell was played, and `traceback` that of what broke; both are shortened. `conversation` is
    there only where a report wants it (`Report.wants_conversations`): of the shipped suite it is 12 MB. `hidden` counts
    the findings, by rule, that were found and do not count in this run (`RunResult.rules`, `RunResult.ignored`).
    `seconds` are what playing and judging it took on the clock; like all of a run's timing they are no part of what is
    equal."""

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
    conversation: Conversation | None = None
    seconds: float | None = field(default=None, compare=False)
    hidden: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def key(self) -> tuple[str, str, Variant]:
        """Which cell of a run it is."""
        return self.scenario, self.target, self.variant

    def __post_init__(self) -> None:
        for name in ("reason", "printed", "traceback"):
            object.__setattr__(self, name, writable(getattr(self, name)))


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact observed on the wire, for each target. `differs` says that it is not the same for all."""

    subject: str
    fact: str
    values: Mapping[str, str]
    differs: bool


@dataclass(frozen=True, slots=True)
class RunResult:
    """A whole run. Everything but `timing` repeats to the byte when a run is repeated; prices may change with the day.

    `unmatched` are entries of expected failures that speak of no cell of this run: it may be a part of the suite, or
    the entry may be misspelt. `left_out` says of targets that nobody named why they are not in the run; `cassettes`
    where cassettes were looked for, or written to. `stopped` says why a run was not played to its end: `cells` are then
    those that were done.

    `facts` names the files of facts by which was judged beside the shipped ones. Only findings of `rules` count, all
    where it is empty, and none of `ignored`; both are ids and globs. `unplayed` counts the cells that were not played
    since as many had failed as the run was to bear.

    An audit is a run whose cells are recordings: each file with each API that it has exchanges of; `audit` is what it
    has counted. A damaged file is a cell that is missing.

    `check` is what a check says beside its cells; no other run has it. `definitions` says of scenarios, by their ids,
    where they are written and what they ask. `played_at` is when the run began, an ISO 8601 time in UTC. `part` says
    which shard of a run it is; of a whole one there is none.
    """

    mode: Mode
    cells: tuple[CellResult, ...]
    differences: tuple[Difference, ...] = ()
    stale: tuple[StaleExpectation, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    timing: Mapping[str, float] = field(default_factory=dict[str, float])
    cassettes: str | None = None
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    invocation: Invocation = field(default_factory=Invocation)
    unmatched: tuple[StaleExpectation, ...] = ()
    stopped: str | None = None
    audit: Audited | None = None
    facts: tuple[str, ...] = ()
    check: Checked | None = None
    definitions: Mapping[str, Definition] = field(default_factory=dict[str, Definition])
    played_at: str | None = field(default=None, compare=False)
    rules: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unplayed: int = 0
    part: Part | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "stopped", writable(self.stopped))

    @property
    def finished(self) -> bool:
        """Whether every cell of the run was played."""
        return self.stopped is None and not self.unplayed

    @property
    def hidden(self) -> dict[str, int]:
        """How many findings of each rule do not count, by the rule."""
        counted = Counter[str]()
        for cell in self.cells:
            counted.update(cell.hidden)
        return dict(sorted(counted.items()))

    @property
    def summary(self) -> dict[str, int]:
        """How many cells ended in each verdict."""
        counts = {verdict.value: 0 for verdict in Verdict}
        for cell in self.cells:
            counts[cell.verdict.value] += 1
        return counts

    @property
    def costs(self) -> dict[str, Spending]:
        """What was spent, or would have been, on each target that was played."""
        parts: dict[str, list[Spending]] = {}
        for cell in self.cells:
            if cell.spending is not None:
                parts.setdefault(cell.target, []).append(cell.spending)
        return {target: Spending.together(each) for target, each in parts.items()}

    @property
    def exit_code(self) -> int:
        """1 nonconformant, broken or stale, or checked with another model than the default; else 2 when something could
        not be looked at, nothing ran, or the run was not played to its end; else 0."""
        summary = self.summary
        if summary["fail"] or summary["error"] or self.stale or (self.check is not None and self.check.model_note):
            return 1
        played = summary["pass"] + summary["note"] + summary["warn"] + summary["expected-failure"]
        return 2 if summary["missing"] or not played or not self.finished else 0

    def to_json(self, *, conversations: bool = False) -> str:
        """The canonical report; `from_json` gives back an equal value, but for the conversations of cells unless these
        are asked for, too.

        Numbers that JSON does not have, and that an adapter may hand on all the same, are texts in it.
        """
        return "".join(self.json_pieces(conversations=conversations))

    def json_pieces(self, *, conversations: bool = False) -> Iterator[str]:
        """The text of `to_json`, a cell at a time: that of a long run need not be in memory as a whole."""
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
        for name in ("facts", "rules", "ignored", "unplayed", "part"):
            if not getattr(self, name):
                del document[name]
        around = json.JSONEncoder(ensure_ascii=False, indent=2).iterencode(_finite(document))
        yield from takewhile(lambda piece: piece != "[]", around)  # the cells: before them stands the mode alone
        yield "["
        between = ""
        for cell in self.cells:
            apart = {"seconds": True, "conversation": not conversations, "hidden": not cell.hidden}
            dumped = _cell().dump_python(cell, mode="json", exclude={name for name, out in apart.items() if out})
            yield between + "\n    " + _dumped(dumped).replace("\n", "\n    ")
            between = ","
        yield "\n  ]" if between else "]"
        yield from around
        yield "\n"

    @staticmethod
    def from_json(text: str) -> RunResult:
        """Read what `to_json` wrote.

        Raises:
            ValueError: it is not the JSON of a run.
        """
        document: Any = json.loads(text)
        if isinstance(document, dict):
            _restore(cast("dict[str, Any]", document))
        return _adapter().validate_python(document)

    def _times(self) -> dict[str, Any]:
        """All that may change when a run is repeated, in one place: when, how long, and how long each cell."""
        known = {_timed(*each.key): each.seconds for each in self.cells if each.seconds is not None}
        at = {} if self.played_at is None else {"at": self.played_at}
        return {**at, **self.timing, **({"cells": known} if known else {})}


def _timed(*names: object) -> str:
    """What a cell is called among the times."""
    return "/".join(map(str, names))


def _restore(document: dict[str, Any]) -> None:
    """Give back to the run what its JSON has elsewhere, and leave out what follows from the rest."""
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
                told = cast("dict[str, Any]", cell)
                name = _timed(*(told.get(part) for part in ("scenario", "target", "variant")))
                told["seconds"] = known.get(name)


def _dumped(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, indent=2)


def _finite(value: Any) -> Any:
    """The value with a text in place of each number that is not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in cast("dict[str, Any]", value).items()}
    return [_finite(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


@cache  # as the next two: made for who writes or reads JSON, since making them takes longer than a cell
def _adapter() -> TypeAdapter[RunResult]:
    return TypeAdapter(RunResult)


@cache
def _cell() -> TypeAdapter[CellResult]:
    return TypeAdapter(CellResult)


@cache
def _costs() -> TypeAdapter[dict[str, Spending]]:
    return TypeAdapter(dict[str, Spending])


_TIMING = {
    "description": "All that may change when a run is repeated: when it was played, seconds in all and by cell.",
    "properties": {
        "at": {"type": "string", "format": "date-time"},
        "seconds": {"type": "number"},
        "cells": {"type": "object", "additionalProperties": {"type": "number"}},
    },
    "type": "object",
}


def json_schema() -> dict[str, Any]:
    """The JSON Schema of what `--report json` and `--report archive` write."""
    schema = TypeAdapter(RunResult).json_schema(mode="serialization")
    del schema["properties"]["played_at"], schema["$defs"]["CellResult"]["properties"]["seconds"]  # they are times
    schema["properties"] |= {
        "finished": {"description": "Whether every cell of the run was played.", "type": "boolean"},
        "summary": {
            "description": "How many cells ended in each verdict.",
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
    """How a run is to be shown.

    `width` is in columns. `verbose`: every scenario and every finding, not groups of them; `quiet`: what fails, and the
    verdict. `all_differences`: also the facts that are the same for all targets. `against` is an earlier run, to show
    what has changed since. `root` is the folder at the top of the repository, which files are named from where a
    pipeline reads them; empty: as they were named. `form` is one of the forms of the report (`Report.forms`); empty:
    the first. `most` is how many bytes of UTF-8 it may have, where that is bounded. `today` is the day on which it is
    made (`None`: that of the run).
    """

    colour: bool = False
    width: int = 120
    verbose: bool = False
    all_differences: bool = False
    against: RunResult | None = None
    quiet: bool = False
    root: str = ""
    form: str = ""
    most: int | None = None
    today: dt.date | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A way to show a run.

    `wants_conversations`: it shows what was said and sent in each cell. That is kept only for a run of which such a
    report is asked for: it is many times as large as all the rest. `compares`: it shows `Presentation.against`. `forms`
    are the endings of files that it can be written as, with their dot, the first for the screen; none: it has one form.
    `pieces` is what `render` returns, piece by piece: so the report of a long run need not be in memory as a whole.
    `compare` shows what has changed from one run to another, and nothing else: `harness compare` asks for it.
    `reads_back`: it is the run itself, which `RunResult.from_json` reads.
    """

    name: str
    render: Callable[[RunResult, Presentation], str]
    wants_conversations: bool = False
    compares: bool = False
    forms: tuple[str, ...] = ()
    pieces: Callable[[RunResult, Presentation], Iterable[str]] | None = None
    compare: Callable[[RunResult, RunResult, Presentation], str] | None = None
    reads_back: bool = False

    def made(self, run: RunResult, presentation: Presentation) -> Iterable[str]:
        """The report of a run, in pieces."""
        return [self.render(run, presentation)] if self.pieces is None else self.pieces(run, presentation)
