"""Findings: the problem, its severity and the party at fault."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from enum import StrEnum

from harness.apis.response_rules import Subject
from harness.model.messages import JSON
from harness.platform.exceptions import shorten


class Severity(StrEnum):
    """The severity of a finding. An error fails the cell. A note changes the verdict at most from `pass` to `note`."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Kind(StrEnum):
    """The kind of a rule.

    A limit rule reports requests that the provider rejects. A loss rule reports information that was changed, lost,
    invented or mishandled. A convention rule reports a departure from this project's conventions. Findings of limit and
    loss rules can fail any adapter. Those of convention rules are notes unless the run is strict.
    """

    LIMIT = "limit"
    LOSS = "loss"
    CONVENTION = "convention"


class Blame(StrEnum):
    """The party responsible for a finding."""

    ADAPTER = "adapter"
    CLIENT = "client"
    """A client, agent or library that builds its own requests."""
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
    """Status 2xx without an error in the body."""
    REFUSED = "refused"
    """Status 4xx, or an error in the body of a 2xx response."""
    UNDECIDED = "undecided"
    """No response, an unreadable response, a redirect or a server error (5xx)."""


_MAX_TEXT_CHARACTERS = 20_000
"""Maximum length of each text that `to_writable` returns."""


def to_writable(value: JSON) -> JSON:
    """Return the value with long texts shortened and lone surrogates escaped, so that it can be encoded as UTF-8. See
    `Finding`.
    """
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
class FindingBody:
    """A request or response body shown with a finding.

    `end` is its title, such as `the client's request`. `pointer` locates the relevant value and `piece` is the excerpt
    around it. Long texts are shortened.
    """

    end: str
    text: str
    pointer: str = ""
    piece: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", to_writable(self.text))


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem that a rule found, with its evidence.

    `pointer` is a location in the body of the request, or of the response if `of_response` is set. `exchange` is the
    index of that exchange in the cell, and `piece` an excerpt at the location. `source` is the origin of the rule and
    `subject` its topic. In an audit, `file` and `index` identify the exchange, and `outcome` is the outcome of its
    request. `accepted` is the reason of an expected failure; such a finding does not fail its cell. `follows` is the
    index of the finding that caused this one (`harness.runner.verdicts`). `raised` is the exception class of a crash.
    `case` distinguishes different problems reported by one rule. `bodies` are the bodies on both sides of a gateway.
    `exhibits`, which only the HTML page and `harness show` print, are the raw stream or the shipped adapter's request.
    `turn` is the index of the user turn, if known. `remedy` is advice on how to fix the problem.

    All texts can be encoded: half of a surrogate pair is replaced by its escape sequence. The middle of a long text is
    omitted.
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
    bodies: tuple[FindingBody, ...] = ()
    exhibits: tuple[FindingBody, ...] = field(default=(), compare=False)
    remedy: str = ""
    turn: int | None = None

    @property
    def fails(self) -> bool:
        """True if the finding fails its cell."""
        return self.severity is Severity.ERROR and self.accepted is None

    def __post_init__(self) -> None:
        for name in ("message", "pointer", "actual", "expected"):
            object.__setattr__(self, name, to_writable(getattr(self, name)))


def blame_client(finding: Finding) -> Finding:
    """Return the finding with the client blamed instead of the adapter."""
    return replace(finding, blame=Blame.CLIENT) if finding.blame is Blame.ADAPTER else finding


_CONTEXT_CHARACTERS = 40
_MAX_CHANGE_CHARACTERS = 160
_MAX_WORDS = 4000
"""Maximum number of words for a word-by-word comparison. Longer changes are shown as a whole."""

_TOKEN = re.compile(r"\s+|[^\s]+")


@dataclass(frozen=True, slots=True)
class TextChange:
    """The first difference between two texts.

    `line` is its line in the changed text, counted from 1. `before` and `after` show the change in brackets, with the
    surrounding text. `words` summarises its size. `more` is the number of further changes.
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


def show_change(actual: JSON, expected: JSON, max_characters: int) -> tuple[str, str] | None:
    """Return both values reduced to their first change, if both are texts and one has more than `max_characters`
    characters. Return `None` if they are not, or if they are equal.
    """
    if (
        not isinstance(actual, str)
        or not isinstance(expected, str)
        or max(len(actual), len(expected)) <= max_characters
    ):
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
    """Summarise the size of a change: `1 word added`, `white space changed`."""
    gone, come = (sum(not token.isspace() for token in tokens) for tokens in (removed, added))
    if not gone and not come:
        return "white space changed"
    number, verb = (come, "added") if not gone else (gone, "removed") if not come else (max(gone, come), "changed")
    return f"{number} word{'s' if number != 1 else ''} {verb}"
