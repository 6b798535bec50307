"""One iterator for several threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock
from typing import Generic, Self, TypeVar

Item = TypeVar("Item")


class Shared(Generic[Item]):
    """Gives each item to one of the threads that iterate over it, until there is enough, or it has ended."""

    def __init__(self, items: Iterator[Item], until: Callable[[], bool]) -> None:
        self._items = items
        self._until = until
        self._ended = False
        self._lock = Lock()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        with self._lock:
            if self._ended or self._until():
                raise StopIteration
            return next(self._items)

    def end(self) -> None:
        """There are no more items."""
        self._ended = True
