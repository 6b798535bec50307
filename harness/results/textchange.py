"""Long texts compared: where they change, with a few words around it, in place of two equal beginnings."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from difflib import SequenceMatcher

from harness.contract.model import JSON

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
