"""What a mutation of an accepted request is: shared by the mutation lists of the four APIs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from harness import catalog
from harness.apis.limit import Violation

CERTAIN = {
    fact.id for api in catalog.apis() for fact in api.facts.all() if fact.verdict == "refused" and fact.is_certain
}


@dataclass(frozen=True)
class Mutation:
    """One way to break an accepted request body.

    `rule` is the id, or the ids, of the limit meant to catch it. `apply` yields every mutated deep copy, one fault
    each; none where it does not apply. `own`: only the API's own provider is known to refuse it.
    """

    name: str
    rule: str | tuple[str, ...]
    apply: Callable[[dict[str, Any]], Iterator[dict[str, Any]]]
    own: bool = False

    @property
    def rules(self) -> set[str]:
        """The ids of the limits that are meant to catch it."""
        return {self.rule} if isinstance(self.rule, str) else {*self.rule}

    def is_told(self, found: Iterable[Violation]) -> bool:
        """One of them does: as an error, or, where nobody has shown a refusal, as a warning."""
        return any(
            each.rule in self.rules and (each.severity == "error" or CERTAIN.isdisjoint(each.source.split(", ")))
            for each in found
        )
