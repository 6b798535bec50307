"""A rule: a pure function from the evidence of a transcript to violations, with an id and documentation.

`all_rules` returns the built-in rules and those of other packages.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from harness import plugins
from harness.apis import registry
from harness.apis.profiles import ApiTerms
from harness.apis.response_rules import Subject
from harness.model.errors import PluginError
from harness.results import Blame, Finding, Kind, Severity
from harness.rules.evidence import Evidence, RuleViolation

Check = Callable[[Evidence], Iterable[RuleViolation]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with a stable kebab-case `id`.

    `requirement` states the requirement in one sentence, and `source` names the document for it. `because` explains the
    `kind`: the harm to the provider, the model or the caller, or that it is only a convention. `also` lists further ids
    of its findings. `remedy` describes the fix; names such as `{system}` are replaced by terms of the API
    (`harness.apis.profiles`).
    """

    id: str
    subject: Subject
    requirement: str
    source: str
    check: Check
    kind: Kind = Kind.LOSS
    because: str = ""
    severity: Severity = Severity.ERROR
    blame: Blame = Blame.ADAPTER
    also: tuple[str, ...] = ()
    remedy: str = ""

    def findings(self, evidence: Evidence) -> Iterator[Finding]:
        """Yield the findings for one transcript."""
        for violation in self.check(evidence):
            yield self.finding(violation, registry.api(evidence.transcript.api).terms)

    def finding(self, violation: RuleViolation, terms: ApiTerms) -> Finding:
        """Build the finding for a violation. The remedy is left out if the violation blames another party than the rule
        does.
        """
        blame = violation.blame or self.blame
        remedy = terms.fill(self.remedy) if violation.remedy is None else violation.remedy
        return Finding(
            rule=violation.rule or self.id,
            kind=violation.kind or self.kind,
            severity=violation.severity or self.severity,
            blame=blame,
            message=violation.message,
            pointer=violation.pointer,
            actual=violation.actual,
            expected=violation.expected,
            source=violation.source or self.source,
            exchange=violation.exchange,
            of_response=violation.of_response,
            subject=self.subject,
            raised=violation.raised,
            case=violation.case,
            remedy=remedy if blame is self.blame else "",
        )


class RuleTable(list[Rule]):
    """The rules of a module. `subject` and `source` are the defaults for rules that do not set them."""

    def __init__(self, subject: Subject, source: str = "") -> None:
        super().__init__()
        self._defaults: dict[str, Any] = {"subject": subject, "source": source}

    def add(self, name: str, requirement: str, **fields: Any) -> Callable[[Check], Check]:
        """Return a decorator that adds a rule with this id. The decorated function is its check."""

        def add(check: Check) -> Check:
            self.append(Rule(id=name, requirement=requirement, check=check, **self._defaults | fields))
            return check

        return add


def all_rules() -> list[Rule]:
    """Return all rules: the `RULES` of the modules in `harness.rules`, and the rules of entry points.

    Raises:
        PluginError: A rule module of another package cannot be used, or two rules have the same id.
    """
    found: list[Rule] = []
    for module in plugins.built_in_modules("harness.rules").values():
        found.extend(getattr(importlib.import_module(module), "RULES", ()))
    for point in sorted(plugins.entry_points_of("harness.rules")):
        value = plugins.load_entry_point("rule module", point)
        for rule in value if isinstance(value, list | tuple) else (value,):  # pyright: ignore[reportUnknownVariableType]
            if not isinstance(rule, Rule):
                raise PluginError("rule module", point.name, f"it holds {rule!r}, which is not a Rule.")
            if any(rule.id == other.id for other in found):
                raise PluginError("rule module", point.name, f"its rule {rule.id!r} exists already; rename it.")
            found.append(rule)
    return found
