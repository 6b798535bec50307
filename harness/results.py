"""What a run produces: exchanges, transcripts, findings, cells, the run. JSON in and out."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from typing import Any, Literal, TypeAlias, cast

from pydantic import TypeAdapter

from harness.http import HttpRequest, HttpResponse
from harness.model import JSON, ChatRequest, ChatResponse, ToolCall, ToolResult
from harness.profiles import Profile
from harness.scenarios.schema import Scenario

Mode: TypeAlias = Literal["replay", "reference", "live", "record", "audit"]
Variant: TypeAlias = Literal["whole", "stream"]


class Severity(StrEnum):
    """How bad a finding is. An error fails its cell."""

    ERROR = "error"
    WARNING = "warning"


class Kind(StrEnum):
    """Whose rule it is: the provider refuses it (`limit`), or it breaks the canonical contract (`contract`)."""

    LIMIT = "limit"
    CONTRACT = "contract"


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

    `turn` is the index of the user turn, `step` that of the answer in this turn. `crashed` says that the adapter raised
    something that is no `ChatError`; `limit_reached` that the loop ended behind this chat, at its bound.
    """

    turn: int
    step: int
    request: ChatRequest
    response: ChatResponse | None = None
    error: str | None = None
    error_text: str | None = None
    crashed: bool = False
    limit_reached: bool = False


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
    cassette that no request asked for; `stale` says that the scenario has changed since the cassette was recorded.
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


def _writable(value: JSON) -> JSON:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list):
        return [_writable(item) for item in value]
    if isinstance(value, dict):
        return {str(_writable(key)): _writable(item) for key, item in value.items()}
    return value


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, how bad, whose fault, with evidence.

    `pointer` leads into the body of the request (or of the response, where `message` says so) of exchange `exchange`,
    an index into the cell's exchanges. `source` says where the rule comes from. In an audit `file` and `index` name
    the exchange.

    The texts can be written anywhere: half of a surrogate pair, which JSON can escape and UTF-8 cannot write, becomes
    the text of its escape.
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

    def __post_init__(self) -> None:
        for name in ("message", "pointer", "actual", "expected"):
            object.__setattr__(self, name, _writable(getattr(self, name)))


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where the responses of a cell come from.

    `origin` is `reference` (our own server, never a provider) or `provider`; `recorded_at` is an ISO 8601 time, absent
    where nothing was recorded.
    """

    origin: Literal["reference", "provider"]
    recorded_at: str | None = None
    model_requested: str | None = None
    model_served: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class CellResult:
    """One cell: scenario × target × variant. `reason` says why it was not played, or what broke; `covers` what the
    scenario is about, the main subject first."""

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", _writable(self.reason))


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact observed on the wire, for each target. `differs` says that it is not the same for all."""

    subject: str
    fact: str
    values: Mapping[str, str]
    differs: bool


@dataclass(frozen=True, slots=True)
class StaleExpectation:
    """An expected failure that did not happen."""

    scenario: str
    target: str
    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class Invocation:
    """How to ask for a part of a run again.

    `rerun`, `record` and `reference` are the words that a command line begins with, `selection` those that chose the
    scenarios. `scenarios` names the files of scenarios that do not ship with harness, `targets` the words that select
    a column which is no shipped target.
    """

    rerun: tuple[str, ...] = ("harness", "run")
    record: tuple[str, ...] = ("harness", "record")
    reference: tuple[str, ...] = ("harness", "run", "--mode", "reference")
    selection: tuple[str, ...] = ()
    scenarios: Mapping[str, str] = field(default_factory=dict[str, str])
    targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def command(self, words: Iterable[str], targets: Iterable[str], scenarios: Iterable[str] | None = None) -> str:
        """The command line that begins with `words`, for targets and some scenarios (`None`: those of the run)."""
        named = self.selection if scenarios is None else [self.scenarios.get(each, each) for each in scenarios]
        selected = chain.from_iterable(self.targets.get(target, ("--target", target)) for target in targets)
        return shlex.join([*words, *named, *selected])


@dataclass(frozen=True, slots=True)
class RunResult:
    """A whole run. Everything but `timing` repeats to the byte when a run is repeated.

    `left_out` says of targets that nobody named why they are not in the run; `cassettes` where cassettes were looked
    for, or written to.
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

    @property
    def summary(self) -> dict[str, int]:
        """How many cells ended in each verdict."""
        counts = {verdict.value: 0 for verdict in Verdict}
        for cell in self.cells:
            counts[cell.verdict.value] += 1
        return counts

    @property
    def exit_code(self) -> int:
        """1 nonconformant, broken or stale; else 2 when something could not be looked at or nothing ran; else 0."""
        summary = self.summary
        if summary["fail"] or summary["error"] or self.stale:
            return 1
        played = summary["pass"] + summary["warn"] + summary["expected-failure"]
        return 2 if summary["missing"] or not played else 0

    def to_json(self) -> str:
        """The canonical report; `from_json` gives back an equal value."""
        document: dict[str, Any] = _ADAPTER.dump_python(replace(self, timing={}), mode="json")
        document["summary"] = self.summary
        document["timing"] = dict(self.timing)
        return json.dumps(document, ensure_ascii=False, indent=2) + "\n"

    @staticmethod
    def from_json(text: str) -> RunResult:
        """Read what `to_json` wrote.

        Raises:
            ValueError: it is not the JSON of a run.
        """
        document: Any = json.loads(text)
        if isinstance(document, dict):
            cast("dict[str, Any]", document).pop("summary", None)
        return _ADAPTER.validate_python(document)


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
