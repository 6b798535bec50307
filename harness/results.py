"""What a run produces: exchanges, transcripts, findings, cells, the run. JSON in and out."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from itertools import chain
from typing import Any, Literal, TypeAlias, cast

from pydantic import TypeAdapter

from harness.apis.profile import Profile
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import JSON, ChatRequest, ChatResponse, StreamEvent, ToolCall, ToolResult, Usage
from harness.contract.protocols import Capability
from harness.host.shortened import shortened
from harness.scenarios.schema import Scenario, Subject, Variant

Mode: TypeAlias = Literal["replay", "reference", "live", "record", "audit"]
Origin: TypeAlias = Literal["reference", "provider", "server"]


class Severity(StrEnum):
    """How bad a finding is. An error fails its cell; a note never changes a verdict for the worse than `note`."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Kind(StrEnum):
    """What a breach of a rule comes to: the provider refuses it, information was changed, lost, invented or answered
    wrongly, or a custom of ours was not kept. The first two fail any adapter; the last one is a note unless a run is
    strict."""

    LIMIT = "limit"
    LOSS = "loss"
    CONVENTION = "convention"


class Blame(StrEnum):
    """Whose fault a finding is."""

    ADAPTER = "adapter"
    PROVIDER = "provider"
    CASSETTE = "cassette"
    MODEL = "model"
    SCENARIO = "scenario"
    HARNESS = "harness"


class Verdict(StrEnum):
    """How a cell ended."""

    PASS = "pass"  # noqa: S105 - a verdict
    NOTE = "note"
    WARN = "warn"
    FAIL = "fail"
    NOT_APPLICABLE = "not-applicable"
    MISSING = "missing"
    ERROR = "error"
    EXPECTED_FAILURE = "expected-failure"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One HTTP request and its response.

    `response` is `None` if none came. `recorded` is the request of the cassette that this one was answered from, in
    replay; `chat` the index of the chat that sent it, `None` in an audit.
    """

    request: HttpRequest
    response: HttpResponse | None
    recorded: HttpRequest | None = None
    chat: int | None = None


@dataclass(frozen=True, slots=True)
class Chat:
    """One question to the adapter and what it gave back: a response, or an error by class name and text.

    `turn` is the index of the user turn, `step` that of the answer in this turn. `events` are those of a streamed
    answer, also the ones before an error. `error` is the name of a class of `harness.contract.errors`, or, when
    `crashed`, of what else was raised, with its `traceback`; `status` and `retry_after` are those of a `ProviderError`.
    `limit_reached` says that the loop ended behind this chat, at its bound.
    """

    turn: int
    step: int
    request: ChatRequest
    response: ChatResponse | None = None
    error: str | None = None
    error_text: str | None = None
    crashed: bool = False
    limit_reached: bool = False
    events: tuple[StreamEvent, ...] = ()
    status: int | None = None
    retry_after: float | None = None
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class Retelling:
    """A streamed cell played again with the same answers, told in another way.

    `variant` is `whole` if each stream came as the one body that it amounts to, `stream` if its bytes came in other
    pieces or another spelling. `way` says how, as the end of a sentence. `printed` is as in `Transcript`.
    """

    way: str
    variant: Variant
    chats: tuple[Chat, ...]
    printed: str = ""


@dataclass(frozen=True, slots=True)
class Embedded:
    """Texts that were given to an embedding provider, and its vectors or what it raised instead.

    `declared` is what the provider says of itself: its name, model and dimensions (`None`: it broke before that).
    `error` is the name of a class of `harness.contract.errors`, or, when `crashed`, of what else was raised, with its
    `traceback`. `refuses` says that the vectors to compare with were made by something else.
    """

    texts: tuple[str, ...]
    declared: tuple[str, str, int] | None
    vectors: tuple[tuple[float, ...], ...] | None = None
    error: str | None = None
    error_text: str | None = None
    crashed: bool = False
    refuses: bool = False
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class ToolExecution:
    """A tool that ran: `chat` is the index of the chat whose response called it.

    `unanswered` says that the scenario has no result for the call; the error result then says so.
    """

    chat: int
    call: ToolCall
    result: ToolResult
    unanswered: bool = False


@dataclass(frozen=True, slots=True)
class Transcript:
    """All that one playing of a cell produced.

    An audit has exchanges only: no scenario, no chats. `scripted` says that the answers follow the scenario's script
    (the reference server and its recordings), so that the script is an expectation. `unplayed` counts exchanges of the
    cassette that no request asked for; `stale` says that the scenario has changed since the cassette was recorded,
    `recorded_by` which adapter recorded it. `capabilities` are the adapter's. `handled` is what a message handler was
    told of each turn, in the words of `harness.scenarios.events`. Of embeddings there are no chats but `embedded`, and
    the `chat` of an exchange is an index into that. `printed` is what the adapter printed meanwhile, in a
    process of its own.
    """

    api: str
    model: str
    profile: Profile
    exchanges: tuple[Exchange, ...]
    mode: Mode
    adapter: str = ""
    variant: Variant = "whole"
    scenario: Scenario | None = None
    chats: tuple[Chat, ...] = ()
    executions: tuple[ToolExecution, ...] = ()
    scripted: bool = False
    unplayed: int = 0
    stale: bool = False
    recorded_by: str | None = None
    retellings: tuple[Retelling, ...] = ()
    capabilities: frozenset[Capability] = frozenset()
    handled: tuple[tuple[str, ...], ...] = ()
    embedded: tuple[Embedded, ...] = ()
    printed: str = ""


_LENGTH = 20_000
"""Characters that are kept of each text in a finding, and of why a cell broke."""


def _writable(value: JSON) -> JSON:
    if isinstance(value, str):
        return shortened(shortened(value, _LENGTH).encode("utf-8", "backslashreplace").decode(), _LENGTH)
    if isinstance(value, list):
        return [_writable(item) for item in value]
    if isinstance(value, dict):
        return {str(_writable(key)): _writable(item) for key, item in value.items()}
    return value


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, how bad, whose fault, with evidence.

    `pointer` leads into the body of the request, or of the response if it is `of_response`, of exchange `exchange`, an
    index into the cell's exchanges; `piece` is what stands there, as lines for people. `source` says where the rule
    comes from, `subject` what it is about. In an audit `file` and `index` name the exchange. `accepted` is the reason
    for which it is listed as an expected failure: it then fails nothing. `follows` is the index, among the cell's
    findings, of the one that it follows from (`harness.running.causes`).

    The texts can be written anywhere: half of a surrogate pair, which JSON can escape and UTF-8 cannot write, becomes
    the text of its escape. What is longer than a report can take is shortened in its middle.
    """

    rule: str
    kind: Kind
    severity: Severity
    blame: Blame
    message: str
    pointer: str | None = None
    actual: JSON = None
    expected: JSON = None
    source: str = ""
    exchange: int | None = None
    file: str | None = None
    index: int | None = None
    accepted: str | None = None
    of_response: bool = False
    piece: tuple[str, ...] = ()
    subject: Subject | None = None
    follows: int | None = None

    @property
    def fails(self) -> bool:
        """Whether it fails its cell."""
        return self.severity is Severity.ERROR and self.accepted is None

    def __post_init__(self) -> None:
        for name in ("message", "pointer", "actual", "expected"):
            object.__setattr__(self, name, _writable(getattr(self, name)))


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
    its own printed while the cell was played, and `traceback` that of what broke; both are shortened."""

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

    def __post_init__(self) -> None:
        for name in ("reason", "printed", "traceback"):
            object.__setattr__(self, name, _writable(getattr(self, name)))


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact observed on the wire, for each target. `differs` says that it is not the same for all."""

    subject: str
    fact: str
    values: Mapping[str, str]
    differs: bool


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


@dataclass(frozen=True, slots=True)
class Invocation:
    """How to ask for a part of a run again.

    `rerun`, `record`, `reference` and `show` are the words that a command line begins with, `selection` those that
    chose the scenarios. `scenarios` names the files of scenarios that do not ship with harness, `targets` the words
    that select a column which is no shipped target. `recut` are the words that ask for other cuts of what is streamed.
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
class RunResult:
    """A whole run. Everything but `timing` repeats to the byte when a run is repeated; prices may change with the day.

    `unmatched` are entries of expected failures that speak of no cell of this run: it may be a part of the suite, or
    the entry may be misspelt. `left_out` says of targets that nobody named why they are not in the run; `cassettes`
    where cassettes were looked for, or written to. `stopped` says why a run was not played to its end: `cells` are then
    those that were done.
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "stopped", _writable(self.stopped))

    @property
    def finished(self) -> bool:
        """Whether every cell of the run was played."""
        return self.stopped is None

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
        """1 nonconformant, broken or stale; else 2 when something could not be looked at, nothing ran, or the run was
        not played to its end; else 0."""
        summary = self.summary
        if summary["fail"] or summary["error"] or self.stale:
            return 1
        played = summary["pass"] + summary["note"] + summary["warn"] + summary["expected-failure"]
        return 2 if summary["missing"] or not played or not self.finished else 0

    def to_json(self) -> str:
        """The canonical report; `from_json` gives back an equal value.

        Numbers that JSON does not have, and that an adapter may hand on all the same, are texts in it.
        """
        document: dict[str, Any] = _ADAPTER.dump_python(replace(self, timing={}), mode="json")
        document["finished"] = self.finished
        document["summary"] = self.summary
        document["costs"] = _COSTS.dump_python(self.costs, mode="json")
        document["timing"] = dict(self.timing)
        try:
            text = json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)
        except ValueError:
            text = json.dumps(_finite(document), ensure_ascii=False, indent=2)
        return text + "\n"

    @staticmethod
    def from_json(text: str) -> RunResult:
        """Read what `to_json` wrote.

        Raises:
            ValueError: it is not the JSON of a run.
        """
        document: Any = json.loads(text)
        if isinstance(document, dict):
            for derived in ("finished", "summary", "costs"):
                cast("dict[str, Any]", document).pop(derived, None)
        return _ADAPTER.validate_python(document)


def _finite(value: Any) -> Any:
    """The value with a text in place of each number that is not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in cast("dict[str, Any]", value).items()}
    return [_finite(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Presentation:
    """How a run is to be shown to people; reports for machines have no use for it.

    `width` is in columns. `verbose`: every scenario and every finding, not groups of them. `all_differences`: also the
    facts that are the same for all targets.
    """

    colour: bool = False
    width: int = 120
    verbose: bool = False
    all_differences: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """A way to show a run."""

    name: str
    render: Callable[[RunResult, Presentation], str]


_ADAPTER: TypeAdapter[RunResult] = TypeAdapter(RunResult)
_COSTS: TypeAdapter[dict[str, Spending]] = TypeAdapter(dict[str, Spending])
