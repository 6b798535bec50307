"""Findings: what is wrong, how severe it is, and who is to blame."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from enum import StrEnum

from harness.model.messages import JSON
from harness.platform.exceptions import shorten
from harness.scenarios.schema import Subject


class Severity(StrEnum):
    """The severity of a finding. An error fails its cell; a note never makes a verdict worse than `note`."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Kind(StrEnum):
    """The kind of a rule. Limit: the provider rejects the request. Loss: information was changed, lost, invented or
    answered wrongly. Convention: a custom of this project was not followed. The first two fail any adapter; conventions
    are notes unless a run is strict."""

    LIMIT = "limit"
    LOSS = "loss"
    CONVENTION = "convention"


class Blame(StrEnum):
    """The party at fault."""

    ADAPTER = "adapter"
    CLIENT = "client"
    """A client, agent or library that sends its own requests."""
    PROVIDER = "provider"
    CASSETTE = "cassette"
    MODEL = "model"
    SCENARIO = "scenario"
    HARNESS = "harness"
    GATEWAY = "gateway"
    """A server between a client and a provider."""


class Outcome(StrEnum):
    """The outcome of a request."""

    ACCEPTED = "accepted"
    """2xx, and no error in the body."""
    REFUSED = "refused"
    """4xx, or an error inside a 2xx."""
    UNDECIDED = "undecided"
    """No response, one that cannot be read, a redirect, or a server failure (5xx)."""


_MAX_TEXT_CHARACTERS = 20_000
"""The limit for each text in a finding, and for the reason of an error."""


def to_writable(value: JSON) -> JSON:
    """Return the value with texts that can be written anywhere: see `Finding`."""
    if isinstance(value, str):
        return shorten(
            shorten(value, _MAX_TEXT_CHARACTERS).encode("utf-8", "backslashreplace").decode(), _MAX_TEXT_CHARACTERS
        )
    if isinstance(value, list):
        return [to_writable(item) for item in value]
    if isinstance(value, dict):
        return {str(to_writable(key)): to_writable(item) for key, item in value.items()}
    return value


@dataclass(frozen=True, slots=True)
class Body:
    """A body that a finding shows. `end` names it, as `the client's request`. `pointer` leads to the relevant place,
    `piece` is the excerpt there. A long text is shortened."""

    end: str
    text: str
    pointer: str = ""
    piece: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", to_writable(self.text))


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding, with its evidence.

    `pointer` leads into the body of the request, or of the response if `of_response`, of exchange `exchange`, an index
    into the cell's exchanges; `piece` is an excerpt there. `source` is the origin of the rule, `subject` its topic. In
    an audit `file` and `index` identify the exchange, and `outcome` is that of its request. `accepted` is the reason of
    an expected failure, which fails nothing. `follows` is the index of the cause among the cell's findings
    (`harness.runner.causes`). `raised` is the class of a crash's exception; `case` distinguishes problems of one rule.
    `bodies` are those of both ends of a gateway. Only the page and `harness show` print the `exhibits`: the raw stream,
    or the shipped adapter's request. `turn` is the index of the user turn, where known. `remedy` is advice.

    Texts can be written anywhere: half of a surrogate pair becomes its escape. Long ones are shortened in the middle.
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
        """True if it fails its cell."""
        return self.severity is Severity.ERROR and self.accepted is None

    def __post_init__(self) -> None:
        for name in ("message", "pointer", "actual", "expected"):
            object.__setattr__(self, name, to_writable(getattr(self, name)))


def blame_client(finding: Finding) -> Finding:
    """Return the finding with the blame on the client in place of the adapter."""
    return replace(finding, blame=Blame.CLIENT) if finding.blame is Blame.ADAPTER else finding


_CONTEXT_CHARACTERS = 40
_MAX_CHANGE_CHARACTERS = 160
_MAX_WORDS = 4000
"""Above this, a changed part is not compared word by word."""

_TOKEN = re.compile(r"\s+|[^\s]+")


@dataclass(frozen=True, slots=True)
class TextChange:
    """The first change of a text. `line` counts from 1 in the changed text; `more` is the number of further changes.
    `before` and `after` show the change in brackets."""

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
    start = _common_length(one, other)
    end = _common_length(one[start:][::-1], other[start:][::-1])
    middle, other_middle = one[start : len(one) - end], other[start : len(other) - end]
    blocks = [(0, len(middle), 0, len(other_middle))]
    if max(len(middle), len(other_middle)) <= _MAX_WORDS:
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


def show_change(actual: JSON, expected: JSON, longest: int) -> tuple[str, str] | None:
    """Show two values by their change, if both are texts and one is longer than `longest` characters."""
    if not isinstance(actual, str) or not isinstance(expected, str) or max(len(actual), len(expected)) <= longest:
        return None
    change = text_change(expected, actual)
    if change is None:
        return None
    more = f" (and {change.more} more)" if change.more else ""
    return f"line {change.line}: {change.after} ({change.words}){more}", f"line {change.line}: {change.before}"


def _common_length(one: list[str], other: list[str]) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _window(head: str, change: str, tail: str) -> str:
    before = head if len(head) <= _CONTEXT_CHARACTERS else f"…{head[-_CONTEXT_CHARACTERS:]}"
    after = tail if len(tail) <= _CONTEXT_CHARACTERS else f"{tail[:_CONTEXT_CHARACTERS]}…"
    half = _MAX_CHANGE_CHARACTERS // 2
    shown = (
        change
        if len(change) <= _MAX_CHANGE_CHARACTERS
        else f"{change[:half]} …{len(change) - 2 * half} more… {change[-half:]}"
    )
    return json.dumps(f"{before}[{shown}]{after}", ensure_ascii=False)[1:-1]


def _words(removed: list[str], added: list[str]) -> str:
    """Count what changed: `1 word added`, `white space changed`."""
    gone, come = (sum(not token.isspace() for token in tokens) for tokens in (removed, added))
    if not gone and not come:
        return "white space changed"
    number, verb = (come, "added") if not gone else (gone, "removed") if not come else (max(gone, come), "changed")
    return f"{number} word{'s' if number != 1 else ''} {verb}"
