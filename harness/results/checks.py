"""Results of checks and audits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.model.messages import JSON
from harness.results.findings import to_writable


class Fate(StrEnum):
    """The outcome of a fact that one end sent, best first."""

    PRESERVED = "preserved"
    """The other end receives the same."""
    TRANSLATED = "translated"
    """The other end receives another form with the same meaning."""
    REFUSED = "refused"
    """The client gets an error."""
    LOST = "lost"
    """The other end receives something else, or nothing, and there is no error."""


@dataclass(frozen=True, slots=True)
class FactFates:
    """The outcomes of one fact between a client's API and an upstream: how many cells preserved, translated, refused or
    lost it. A cell counts once, by the worst. `of_answer`: the fact comes from the upstream, not the client."""

    client: str
    upstream: str
    fact: str
    of_answer: bool
    preserved: int = 0
    translated: int = 0
    refused: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Tried:
    """A capability, and how many of the cells that need it passed."""

    target: str
    capability: str
    worked: int
    played: int


@dataclass(frozen=True, slots=True)
class Rate:
    """The share of tries in which a target's model did something; `name` says what. The share is between `low` and
    `high`, from 0 to 1, with 95 % confidence (Wilson). It affects no verdict."""

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
class Checked:
    """Results of a check besides its cells.

    `undeclared` are capabilities that work though the adapter does not declare them; `broken` are declared ones that
    work in no cell. `not_played` lists the omitted parts of the suite in sentences. `rates` are statistics of a
    server's model. `gateway` has the outcomes of facts for each upstream. `model_note` explains why another model than
    the default was used.
    """

    undeclared: tuple[Tried, ...] = ()
    broken: tuple[Tried, ...] = ()
    not_played: tuple[str, ...] = ()
    rates: tuple[Rate, ...] = ()
    gateway: tuple[FactFates, ...] = ()
    model_note: str = ""


@dataclass(frozen=True, slots=True)
class ApiCounts:
    """Counts of the exchanges of one API. Those that are neither accepted nor refused are undecided.

    `unread`: the request or the response cannot be read. `…_flagged`: a limit finding of severity error. `streamed`:
    the response was a stream. `streamed_broken`: the stream is cut or has an error.
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
class Skipped:
    """A file that was not read. `damaged`: it looks like a cassette."""

    file: str
    reason: str
    damaged: bool


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """A request that its server refused for its content, though it breaks no known limit: exchange `index` of `file`,
    with the status and the server's message."""

    file: str
    index: int
    status: int
    words: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", to_writable(self.words))


@dataclass(frozen=True, slots=True)
class PairCounts:
    """Counts of the pairs of one API.

    `streamed`: pairs with a streamed response, run through `stream`. `not_redrivable`: reason → pairs whose follow-up
    depends on state on the server; the reason is the field that refers to it. `allowances`: class → number of uses; see
    `harness.audit.turn_comparison`. `edited`: pairs whose recorded client changed the response before it sent it
    back; `edits`: class → pairs, see `harness.audit.client_edits`. The other pairs disagree.
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
    """A difference between an adapter's request and request `j` of `file`, after response `i`.

    `pointer` leads into the body of request j. `kind` is as in `harness.audit.turn_comparison.Disagreement` and
    `harness.audit.redrive`, or `adapter-failed`: the adapter could not read the response or express the
    follow-up; `produced` is the reason.
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
    """A whole redrive: counts by API, and all disagreements in the order of files and pairs. Each stream also ran in
    `recuts` other chunkings."""

    apis: Mapping[str, PairCounts]
    disagreements: tuple[PairDisagreement, ...]
    recuts: int


@dataclass(frozen=True, slots=True)
class Audited:
    """The scope of an audit. `files` counts the cassettes read, `unknown` their exchanges with no known chat API.
    `redrive` is the result of repeating their conversations; disagreements are findings, too. `unexplained` are
    refusals that no rule explains."""

    files: int
    apis: Mapping[str, ApiCounts]
    unknown: int
    skipped: tuple[Skipped, ...] = ()
    redrive: RedriveResult | None = None
    unexplained: tuple[RefusedRequest, ...] = ()
