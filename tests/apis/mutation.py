"""What a mutation of an accepted request is: shared by the mutation lists of the four APIs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mutation:
    """One way to break an accepted request body.

    `rule` is the id, or the ids, of the limit meant to catch it. `apply` yields every mutated deep copy, one fault
    each; none where it does not apply.
    """

    name: str
    rule: str | tuple[str, ...]
    apply: Callable[[dict[str, Any]], Iterator[dict[str, Any]]]
