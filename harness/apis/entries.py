"""Lists of a body whose elements are looked at once: every request repeats the tools and all that was said before it,
and `harness.apis.bodies` gives what is repeated as the same objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from operator import is_
from typing import Any, NamedTuple, TypeVar, cast

from harness.apis.jsonvalue import join

T = TypeVar("T")

_MOST = 4
"""Lists that are remembered: of a body each, as there may be several conversations at once."""


class _Read(NamedTuple):
    entries: list[Any]
    pointer: str
    made: tuple[Any, ...]

    def head(self, entries: list[Any]) -> int:
        """How many of its elements stand at the head of other ones, as the same objects."""
        return sum(takewhile(bool, map(is_, self.entries, entries)))


def entrywise(read: Callable[[Any, str], T]) -> Callable[[object, str], Sequence[T]]:
    """What `read` makes of each element of a list and its pointer, of what is no list nothing. Elements that stood at
    the same place in one of the lists before, as the same objects, are not read again: it has to be a function of the
    two alone."""
    latest: tuple[_Read, ...] = ()

    def of(listed: object, pointer: str) -> Sequence[T]:
        nonlocal latest
        if not isinstance(listed, list) or not listed:
            return ()
        entries = cast("list[Any]", listed)
        best, most = None, 0
        for known in latest:
            if known.entries[0] is entries[0] and known.pointer == pointer and (same := known.head(entries)) > most:
                best, most = known, same
                if same == len(entries):
                    break
        if best is not None and most == len(entries) == len(best.entries):
            return best.made
        head: tuple[T, ...] = best.made[:most] if best else ()
        made = (*head, *(read(entry, join(pointer, index)) for index, entry in enumerate(entries[most:], most)))
        kept = [known for known in latest if known is not best or most < len(known.entries)]
        latest = (_Read(entries, pointer, made), *kept[: _MOST - 1])
        return made

    return of
