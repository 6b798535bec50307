"""Texts: one that is told as several adjacent parts, and several that are told as one."""

from __future__ import annotations

from collections.abc import Sequence

from harness.apis.view import SystemView

_JOINTS = ("", "\n", "\n\n")
"""What may stand between texts that were given apart and are told as one: where one part ends and the next begins is
nothing that a text has, and a line break is how it is written. A text that was given whole has no such places; what is
missing between its pieces is missing."""


def joined(given: Sequence[str]) -> list[str]:
    """The texts that several given texts may become."""
    return [joint.join(given) for joint in _JOINTS] if len(given) > 1 else ["".join(given)]


def is_told(given: Sequence[str], sent: Sequence[str]) -> bool:
    """Adjacent texts on the wire are the given ones, to the code point, wherever their borders are."""
    return "".join(sent) in joined(given)


def folded(parts: Sequence[SystemView], text: str) -> list[SystemView]:
    """The system texts with those in one that stand side by side and amount to `text` together."""
    for start in range(len(parts)):
        told = ""
        for end in range(start, len(parts)):
            told += parts[end].text
            if not text.startswith(told) or _place(parts[end]) != _place(parts[start]):
                break
            if told == text:
                first = parts[start]
                whole = SystemView(text, first.place, first.pointer, first.before_turn)
                return [*parts[:start], whole, *folded(parts[end + 1 :], text)]
    return [*parts]


def _place(part: SystemView) -> tuple[str, int]:
    return part.place, part.before_turn
