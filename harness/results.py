"""What a run produces: exchanges, transcripts, findings, cells, the run. JSON in and out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, TypeAlias

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
    """A tool that ran: `chat` is the index of the chat whose response called it."""

    chat: int
    call: ToolCall
    result: ToolResult


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


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, how bad, whose fault, with evidence.

    `pointer` leads into the body of the request (or of the response, where `message` says so) of exchange `exchange`,
    an index into the cell's exchanges. `source` says where the rule comes from. In an audit `file` and `index` name
    the exchange.
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
    """One cell: scenario × target × variant. `reason` says why it was not played, or what broke."""

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
class RunResult:
    """A whole run. Everything but `timing` repeats to the byte when a run is repeated."""

    mode: Mode
    cells: tuple[CellResult, ...]
    differences: tuple[Difference, ...] = ()
    stale: tuple[StaleExpectation, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    timing: Mapping[str, float] = field(default_factory=dict[str, float])
    cassettes: str | None = None

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
        document: dict[str, Any] = json.loads(text)
        document.pop("summary", None)
        return _ADAPTER.validate_python(document)


@dataclass(frozen=True, slots=True)
class Report:
    """A way to show a run. `render` gets the run and whether the output is a terminal with colours."""

    name: str
    render: Callable[[RunResult, bool], str]


_ADAPTER: TypeAdapter[RunResult] = TypeAdapter(RunResult)
