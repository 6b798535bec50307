"""Results of checks and audits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.model.messages import JSON
from harness.results.findings import to_writable


class DetailOutcome(StrEnum):
    """Outcome for a detail of a request or response that passes through a gateway, from best to worst."""

    PRESERVED = "preserved"
    """The other side receives the same value."""
    TRANSLATED = "translated"
    """The other side receives another form with the same meaning."""
    REFUSED = "refused"
    """The client receives an error."""
    LOST = "lost"
    """The other side receives something else or nothing, and there is no error."""


@dataclass(frozen=True, slots=True)
class DetailCounts:
    """Outcome counts for one kind of detail between a client's API and an upstream.

    They count the cells in which the detail was preserved, translated, refused or lost. Each cell is counted once, by
    its worst outcome. `of_answer` is set if the upstream sends the detail, not the client.
    """

    client: str
    upstream: str
    detail: str
    of_answer: bool
    preserved: int = 0
    translated: int = 0
    refused: int = 0
    lost: int = 0


class HandOverOutcome(StrEnum):
    """The outcome of a hand-over for its subject, from best to worst."""

    PRESERVED = "preserved"
    """The second target sends the same value."""
    TRANSLATED = "translated"
    """The second target sends another form with the same meaning."""
    DROPPED = "dropped"
    """The second target leaves it out, because its API has no place for it or refuses it."""
    REFUSED = "refused"
    """The adapter or the server of the second target refuses the conversation."""
    LOST = "lost"
    """The second target changes or leaves out something that its API accepts."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """The hand-over that a cell tests: a conversation that began on the target `source`.

    `case` names the kind of conversation, and `subject` the part of it whose outcome is checked. `reason` explains the
    outcome.
    """

    source: str
    case: str
    subject: str
    outcome: HandOverOutcome
    reason: str


@dataclass(frozen=True, slots=True)
class CapabilityTally:
    """A capability of a target, with the number of cells that need it and how many of these passed."""

    target: str
    capability: str
    worked: int
    played: int


@dataclass(frozen=True, slots=True)
class Rate:
    """The share of tries in which a target's model showed the behaviour that `name` describes.

    `low` and `high` are the bounds of the 95 % confidence interval (Wilson), from 0 to 1. Rates do not affect verdicts.
    """

    name: str
    target: str
    hits: int
    played: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """The share of successful tries, from 0 to 1."""
        return self.hits / self.played


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Results of a check in addition to its cells.

    `undeclared` lists capabilities that work although the adapter does not declare them. `broken` lists declared
    capabilities that work in no cell. `not_played` describes the parts of the suite that were omitted. `rates` are
    statistics about a server's model. `gateway` has the outcome counts of details for each upstream. `model_note`
    explains why a model other than the default was used.
    """

    undeclared: tuple[CapabilityTally, ...] = ()
    broken: tuple[CapabilityTally, ...] = ()
    not_played: tuple[str, ...] = ()
    rates: tuple[Rate, ...] = ()
    gateway: tuple[DetailCounts, ...] = ()
    model_note: str = ""


@dataclass(frozen=True, slots=True)
class ApiCounts:
    """Counts of the exchanges of one API.

    An exchange that is neither accepted nor refused is undecided. `unread` counts exchanges whose request or response
    cannot be parsed. `accepted_flagged` and `refused_flagged` count those that have a limit finding with severity
    error. `streamed` counts streamed responses, and `streamed_broken` those that were cut off or contain an error.
    """

    exchanges: int = 0
    unread: int = 0
    accepted: int = 0
    accepted_flagged: int = 0
    refused: int = 0
    refused_flagged: int = 0
    streamed: int = 0
    streamed_broken: int = 0


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that was skipped. `damaged` is set if it looks like a cassette."""

    file: str
    reason: str
    damaged: bool


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """A request that the server refused because of its content, although it violates no known limit.

    It is exchange `index` of `file`. `status` and `words` are the status code and the server's message.
    """

    file: str
    index: int
    status: int
    words: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", to_writable(self.words))


@dataclass(frozen=True, slots=True)
class PairCounts:
    """Counts of the request pairs of one API.

    `streamed` counts pairs with a streamed response, which run through `stream`. `not_redrivable` counts pairs whose
    follow-up depends on state on the server, by the field that refers to that state. Pairs that are neither in
    `agreeing` nor in `not_redrivable` disagree.

    `allowances` counts the tolerated differences by class (see `harness.audit.turn_comparison`). `edited` counts pairs
    whose recorded client changed the response before sending it back, and `edits` these pairs by class (see
    `harness.audit.client_edits`).
    """

    pairs: int
    agreeing: int
    streamed: int
    not_redrivable: Mapping[str, int]
    allowances: Mapping[str, int]
    edited: int = 0
    edits: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class PairDisagreement:
    """A difference between the request that an adapter produced and the recorded request `j` of `file`, both after
    response `i`.

    `pointer` is a location in the body of request `j`. `kind` is a kind from
    `harness.audit.turn_comparison.Disagreement` or `harness.audit.redrive`, or `adapter-failed`. In the last case the
    adapter could not read the response or produce the follow-up, and `produced` is the reason.
    """

    api: str
    file: str
    i: int
    j: int
    pointer: str
    recorded: JSON
    produced: JSON
    kind: str


@dataclass(frozen=True, slots=True)
class RedriveResult:
    """Result of a redrive: counts by API, and all disagreements in the order of files and pairs. Each stream was also
    run with `recuts` other chunk boundaries.
    """

    apis: Mapping[str, PairCounts]
    disagreements: tuple[PairDisagreement, ...]
    recuts: int


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The scope of an audit.

    `files` is the number of cassettes read, and `unknown` the number of their exchanges that belong to no known chat
    API. `redrive` is the result of repeating the recorded conversations; its disagreements are also reported as
    findings. `unexplained` lists refused requests that no rule explains.
    """

    files: int
    apis: Mapping[str, ApiCounts]
    unknown: int
    skipped: tuple[SkippedFile, ...] = ()
    redrive: RedriveResult | None = None
    unexplained: tuple[RefusedRequest, ...] = ()
