"""What an audit has counted, beside the findings in its cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.contract.model import JSON
from harness.results.findings import writable


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
    pairs disagree. `allowances`: class → how often it was made use of; `harness.auditing.redrive.comparison` says what
    they are.
    `edited`: pairs whose recorded client changed the answer before it sent it back, judged on what it did carry;
    `edits`: class → pairs that it is seen in, as `harness.auditing.redrive.edits` names them.
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
    `harness.auditing.redrive.comparison.Disagreement` and in `harness.auditing.redrive.redrive`, or `adapter-failed`:
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
