"""What is wrong: findings, with how bad each is and whose fault."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from enum import StrEnum

from harness.contract.model import JSON
from harness.host.exceptions import shortened
from harness.scenarios.schema import Subject


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
    CLIENT = "client"
    """A client, agent or library that sends requests of its own."""
    PROVIDER = "provider"
    CASSETTE = "cassette"
    MODEL = "model"
    SCENARIO = "scenario"
    HARNESS = "harness"
    GATEWAY = "gateway"
    """What stands between a client and a provider, and is asked by the one in the other's place."""


class Outcome(StrEnum):
    """What became of a request."""

    ACCEPTED = "accepted"
    """2xx, and no error in the body."""
    REFUSED = "refused"
    """4xx, or an error inside a 2xx."""
    UNDECIDED = "undecided"
    """Nobody judged the request: no response, one that cannot be read, a redirect, or a failure of the server (5xx)."""


_LENGTH = 20_000
"""Characters that are kept of each text in a finding, and of why a cell broke."""


def writable(value: JSON) -> JSON:
    """The value with texts that can be written anywhere: see `Finding`."""
    if isinstance(value, str):
        return shortened(shortened(value, _LENGTH).encode("utf-8", "backslashreplace").decode(), _LENGTH)
    if isinstance(value, list):
        return [writable(item) for item in value]
    if isinstance(value, dict):
        return {str(writable(key)): writable(item) for key, item in value.items()}
    return value


@dataclass(frozen=True, slots=True)
class Body:
    """A body that a finding compares with another: `end` says whose it is, as `the client's request`.

    `pointer` leads to the place that matters, `piece` is what stands there, as lines for people. A long text is
    shortened.
    """

    end: str
    text: str
    pointer: str = ""
    piece: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", writable(self.text))


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, how bad, whose fault, with evidence.

    `pointer` leads into the body of the request, or of the response if it is `of_response`, of exchange `exchange`, an
    index into the cell's exchanges; `piece` is what stands there, as lines for people. `source` says where the rule
    comes from, `subject` what it is about. In an audit `file` and `index` name the exchange, and
    `outcome` says what became of its request. `accepted` is the reason
    for which it is listed as an expected failure: it then fails nothing. `follows` is the index, among the cell's
    findings, of the one that it follows from (`harness.running.causes`). `raised` is the class of what a crash raised,
    `case` which of several problems of its rule it is.
    `bodies` are those of both ends, of what was changed or lost between two. `exhibits` are what only the page and
    `harness show` have room for: the raw stream of the answer, or the request of the shipped adapter. `turn` is the
    index of the scenario's user turn in whose course it shows, where that is known. `remedy` says what to do about it.

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
    raised: str | None = None
    case: str | None = None
    outcome: Outcome | None = None
    bodies: tuple[Body, ...] = ()
    exhibits: tuple[Body, ...] = field(default=(), compare=False)
    remedy: str = ""
    turn: int | None = None

    @property
    def fails(self) -> bool:
        """Whether it fails its cell."""
        return self.severity is Severity.ERROR and self.accepted is None

    def __post_init__(self) -> None:
        for name in ("message", "pointer", "actual", "expected"):
            object.__setattr__(self, name, writable(getattr(self, name)))


def of_client(finding: Finding) -> Finding:
    """The finding about a client that is no adapter."""
    return replace(finding, blame=Blame.CLIENT) if finding.blame is Blame.ADAPTER else finding


_CONTEXT = 40
"""Characters shown on each side of a change."""
_CHANGE = 160
"""Characters shown of a change itself."""
_WORDS = 4000
"""Words up to which the changed stretch of a text is compared word by word."""

_TOKEN = re.compile(r"\s+|[^\s]+")


@dataclass(frozen=True, slots=True)
class TextChange:
    """The first change of a text. `line` counts from 1 in the changed text; `more` is the number of further changes.

    `before` and `after` show the stretch as it was and as it is, what changed in brackets.
    """

    line: int
    before: str
    after: str
    words: str
    more: int

    @property
    def summary(self) -> str:
        """The change on one line: `line 38: …answer with the [list ]price and… (1 word added)`."""
        shown = self.before if self.words.endswith("removed") else self.after
        others = f", and {self.more} more {'change' if self.more == 1 else 'changes'}" if self.more else ""
        return f"line {self.line}: {shown} ({self.words}{others})"


def text_change(before: str, after: str) -> TextChange | None:
    """Return the first change between two texts, or `None` if they are equal."""
    if before == after:
        return None
    one, other = _TOKEN.findall(before), _TOKEN.findall(after)
    start = _common(one, other)
    end = _common(one[start:][::-1], other[start:][::-1])
    middle, other_middle = one[start : len(one) - end], other[start : len(other) - end]
    blocks = [(0, len(middle), 0, len(other_middle))]
    if max(len(middle), len(other_middle)) <= _WORDS:
        matcher = SequenceMatcher(None, middle, other_middle, autojunk=False)
        blocks = [tuple(places) for tag, *places in matcher.get_opcodes() if tag != "equal"]
    first, last, other_first, other_last = blocks[0]
    head = "".join(other[: start + other_first])
    removed, added = middle[first:last], other_middle[other_first:other_last]
    tail, other_tail = one[start + last :], other[start + other_last :]
    return TextChange(
        line=head.count("\n") + 1,
        before=_window(head, "".join(removed), "".join(tail)),
        after=_window(head, "".join(added), "".join(other_tail)),
        words=_words(removed, added),
        more=len(blocks) - 1,
    )


def contrasted(actual: JSON, expected: JSON, longest: int) -> tuple[str, str] | None:
    """Show two values by their change, if both are texts and one is longer than `longest` characters."""
    if not isinstance(actual, str) or not isinstance(expected, str) or max(len(actual), len(expected)) <= longest:
        return None
    change = text_change(expected, actual)
    if change is None:
        return None
    more = f" (and {change.more} more)" if change.more else ""
    return f"line {change.line}: {change.after} ({change.words}){more}", f"line {change.line}: {change.before}"


def _common(one: list[str], other: list[str]) -> int:
    """The number of tokens with which both lists begin."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _window(head: str, change: str, tail: str) -> str:
    """The change in brackets, with some of the text around it, on one line."""
    before = head if len(head) <= _CONTEXT else f"…{head[-_CONTEXT:]}"
    after = tail if len(tail) <= _CONTEXT else f"{tail[:_CONTEXT]}…"
    half = _CHANGE // 2
    shown = change if len(change) <= _CHANGE else f"{change[:half]} …{len(change) - 2 * half} more… {change[-half:]}"
    return json.dumps(f"{before}[{shown}]{after}", ensure_ascii=False)[1:-1]


def _words(removed: list[str], added: list[str]) -> str:
    """Count what changed: `1 word added`, `white space changed`."""
    gone, come = (sum(not token.isspace() for token in tokens) for tokens in (removed, added))
    if not gone and not come:
        return "white space changed"
    number, verb = (come, "added") if not gone else (gone, "removed") if not come else (max(gone, come), "changed")
    return f"{number} word{'s' if number != 1 else ''} {verb}"
