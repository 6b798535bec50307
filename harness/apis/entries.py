"""Request bodies, and the lists in them of which every request of a conversation repeats the head.

A body is parsed once, and an element that has the same value at the same place as an element before it is not read
again. Both are recognised by value. A caller gets values of its own, which it may change.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar, cast

from harness.apis.jsonvalue import loads
from harness.contract.model import JSON

T = TypeVar("T")

_MAX_ELEMENTS = 1024
_MAX_ELEMENT_BYTES = 16_384
_WITHOUT_REFERENCES = 2
"""The marshal version that writes equal values as equal bytes."""


def parsed(body: bytes) -> JSON:
    """Parse the body of a request.

    Raises:
        WireError: it is not JSON, as `jsonvalue.loads` says.
    """
    return marshal.loads(_written(body))  # noqa: S302 - what `_written` has just made


@lru_cache(4)
def _written(body: bytes) -> bytes:
    return marshal.dumps(loads(body), _WITHOUT_REFERENCES)


def entrywise(read: Callable[[Any, str], T]) -> Callable[[object, str], Sequence[T]]:
    """Apply `read` to each element of a list and its pointer; return nothing for a value that is not a list.

    `read` has to be a function of the two alone. It gets a copy of an element, and gets equal elements at one place
    once, unless they are large.
    """

    @lru_cache(_MAX_ELEMENTS)
    def once(element: bytes, pointer: str) -> T:
        return read(marshal.loads(element), pointer)  # noqa: S302 - what `of` has just made

    def of(listed: object, pointer: str) -> Sequence[T]:
        if not isinstance(listed, list):
            return ()
        found: list[T] = []
        for index, element in enumerate(cast("list[JSON]", listed)):
            written, place = marshal.dumps(element, _WITHOUT_REFERENCES), f"{pointer}/{index}"
            found.append(once(written, place) if len(written) <= _MAX_ELEMENT_BYTES else read(element, place))
        return found

    return of
