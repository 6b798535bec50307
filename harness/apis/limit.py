"""What a provider refuses, as values: a limit, and a violation of one.

Each wire package has its limits in a table, `limits`, from which its checks make their violations. So nothing can be
found that has no entry, and `harness list rules` can name them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness.apis.fact import Fact
from harness.apis.profile import Ruling
from harness.contract.model import JSON

Severity: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Limit:
    """Something that a request has to keep to, with a stable kebab-case `id`.

    `sentence` says what must hold. `source` names the facts that it rests on, with their evidence. A request that
    breaks it is an error where one of these is a certain refusal, and else worth a warning; `severity` is the most that
    it ever is: a `warning`, where some models take it whatever the facts say of others. `word` is what a request that
    breaks it lacks in its texts. `remedy` says what to do about a request that breaks it.
    """

    id: str
    sentence: str
    source: str
    severity: Severity = "error"
    word: str | None = None
    remedy: str = ""

    @property
    def facts(self) -> tuple[str, ...]:
        """The ids of the facts that it rests on."""
        return tuple(self.source.split(", "))

    def broken(  # noqa: PLR0913 - a parameter for each fact that a refusal has
        self,
        message: str,
        pointer: str,
        *,
        actual: JSON = None,
        expected: JSON = None,
        status: int = 400,
        code: str | None = None,
        severity: Severity | None = None,
        source: str | None = None,
    ) -> Violation:
        """A violation of this limit. `severity` and `source` replace the limit's own where a check knows better: one
        field of many has a rule of its own of the facts, or a named beta may know a field that nobody here knows."""
        return Violation(
            self, message, pointer, severity or self.severity, source or self.source, actual, expected, status, code
        )


@dataclass(frozen=True, slots=True)
class Violation:
    """A limit that a request breaks.

    `message` is worded like the provider's own refusal, so that the reference server can answer with it; nothing
    matches on it. `pointer` leads into the body.
    """

    limit: Limit
    message: str
    pointer: str
    severity: Severity
    source: str
    actual: JSON = None
    expected: JSON = None
    status: int = 400
    code: str | None = None

    @property
    def rule(self) -> str:
        """The id of the limit."""
        return self.limit.id


def lesser(severity: Severity, facts: Iterable[Fact]) -> Severity:
    """How bad something is that rests on facts: no error, unless one of them is a refusal that is certain."""
    return severity if any(fact.verdict == "refused" and fact.is_certain for fact in facts) else "warning"


def severity_of(ruling: Ruling | None) -> Severity | None:
    """How bad something is that a model's profile has a ruling on, or `None` where it is taken, or nobody knows."""
    match ruling:
        case "refused":
            return "error"
        case "unclear":
            return "warning"
        case "taken" | None:
            return None


def limits_among(namespace: Mapping[str, object]) -> tuple[Limit, ...]:
    """The limits among the names of a module, in the order in which they stand there."""
    return tuple(value for value in namespace.values() if isinstance(value, Limit))
