"""Results of checks and audits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.contract.model import JSON
from harness.results.findings import writable


class Fate(StrEnum):
    """What becomes of a fact that one end has said, best first."""

    PRESERVED = "preserved"
    """The other end is told the same."""
    TRANSLATED = "translated"
    """It is told in another form that means the same."""
    REFUSED = "refused"
    """Whoever asked was told no."""
    LOST = "lost"
    """The other end is told something else, or nothing, and nobody is told of it."""


@dataclass(frozen=True, slots=True)
class FactFates:
    """What became of one fact between a client's API and an upstream: in how many cells it was preserved, translated,
    refused or lost; a cell counts once, by the worst. `of_answer`: the upstream says it, not the client."""

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
    """A capability, and how many of the cells that need it passed through the adapter of a target."""

    target: str
    capability: str
    worked: int
    played: int


@dataclass(frozen=True, slots=True)
class Rate:
    """How often the model of a target did something, of `played` tries: `name` says what, as a sentence goes on. The
    share lies between `low` and `high`, from 0 to 1, with 95 % confidence (Wilson). It is no verdict on anybody."""

    name: str
    target: str
    hits: int
    played: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """The share of the tries that came out, from 0 to 1."""
        return self.hits / self.played


@dataclass(frozen=True, slots=True)
class Checked:
    """`undeclared` are capabilities that work though the adapter does not declare them, `broken` those that it declares
    and that work in no cell. `not_played` says in sentences what of the suite was left out. `rates` say what a server's
    model did, of which no single answer proves anything. `gateway` says of each fact what became of it on its way
    through a gateway, for each upstream. `model_note` says why another model than the default was used, if it was."""

    undeclared: tuple[Tried, ...] = ()
    broken: tuple[Tried, ...] = ()
    not_played: tuple[str, ...] = ()
    rates: tuple[Rate, ...] = ()
    gateway: tuple[FactFates, ...] = ()
    model_note: str = ""


@dataclass(frozen=True, slots=True)
class ApiCounts:
    """The exchanges of one API. Those that are neither accepted nor refused are undecided.

    `unread`: the witness cannot read the request or the response. `…_flagged`: a limit finding of severity error.
    `streamed`: the response came as a stream. `streamed_broken`: those of them that are cut or carry an error.
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
    """A file of a folder that was not read. `damaged`: it has the marks of a cassette, so that something is amiss."""

    file: str
    reason: str
    damaged: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that its server refused for its content, and that breaks no limit: exchange `index` of `file`, with the
    status and the server's words."""

    file: str
    index: int
    status: int
    words: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", writable(self.words))


@dataclass(frozen=True, slots=True)
class PairCounts:
    """The pairs of one API.

    `streamed`: those that were driven through `stream`, since their response was streamed. `not_redrivable`: reason →
    pairs whose follow-up leans on state that the server keeps; the reason is the field by which it does. The other
    pairs disagree. `allowances`: class → how often it was made use of; `harness.auditing.turn_comparison` says what
    they are.
    `edited`: pairs whose recorded client changed the answer before it sent it back, judged on what it did carry;
    `edits`: class → pairs that it is seen in, as `harness.auditing.client_edits` names them.
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
    """One thing that an adapter sent otherwise than request `j` of `file` has it, after response `i`.

    `pointer` leads into the body of request j. `kind` is what is not the same, as in
    `harness.auditing.turn_comparison.Disagreement` and in `harness.auditing.redrive`, or `adapter-failed`:
    the adapter could not read the response or express the follow-up, and `produced` is why.
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
    """A whole redrive: an entry for each API, and all disagreements in the order of files and pairs. Each stream was
    driven in `recuts` other cuts, too."""

    apis: Mapping[str, PairCounts]
    disagreements: tuple[PairDisagreement, ...]
    recuts: int


@dataclass(frozen=True, slots=True)
class Audited:
    """What an audit has looked at. `files` counts the cassettes read, `unknown` their exchanges that are no chat of a
    known API. `redrive` is what came of driving their conversations again, if that was asked for; what disagrees there
    is a finding of its cell as well. `unexplained` are the refusals for which no rule gives a reason."""

    files: int
    apis: Mapping[str, ApiCounts]
    unknown: int
    skipped: tuple[Skipped, ...] = ()
    redrive: RedriveResult | None = None
    unexplained: tuple[Refusal, ...] = ()
