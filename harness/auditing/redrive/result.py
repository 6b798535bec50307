"""What came of driving pairs again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.contract.model import JSON


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

    def to_dict(self) -> dict[str, JSON]:
        """The counts as the audit's JSON has them."""
        return {
            "pairs": self.pairs,
            "pairs_agreeing": self.agreeing,
            "pairs_streamed": self.streamed,
            "pairs_not_redrivable": dict(self.not_redrivable),
            "pairs_edited_by_client": self.edited,
            "edited_by_client": dict(self.edits),
            "allowances": dict(self.allowances),
        }


@dataclass(frozen=True, slots=True)
class PairDisagreement:
    """One thing that an adapter sent otherwise than request `j` of `file` has it, after response `i`.

    `pointer` leads into the body of request j. `kind` is what is not the same, as in
    `harness.auditing.redrive.comparison.Disagreement` and in `harness.auditing.redrive.retelling`, or `adapter-failed`:
    the adapter could not read the response or express the follow-up, and `produced` is why.
    """

    file: str
    i: int
    j: int
    pointer: str
    recorded: JSON
    produced: JSON
    kind: str

    def to_dict(self) -> dict[str, JSON]:
        """The disagreement as the audit's JSON has it; `kind` is called `class` there."""
        return {
            "file": self.file,
            "i": self.i,
            "j": self.j,
            "pointer": self.pointer,
            "recorded": self.recorded,
            "produced": self.produced,
            "class": self.kind,
        }


@dataclass(frozen=True, slots=True)
class RedriveResult:
    """A whole redrive: an entry for each API, and all disagreements in the order of files and pairs. Each stream was
    driven in `recuts` other cuts, too."""

    apis: Mapping[str, PairCounts]
    disagreements: tuple[PairDisagreement, ...]
    recuts: int
