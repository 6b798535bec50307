"""What a rule is: a pure function from the evidence of a transcript to flaws, with a name and a place to look it up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from harness import catalog
from harness.apis.traits import ApiTerms
from harness.contract.model import JSON
from harness.results import Blame, Finding, Kind, Severity
from harness.rules.evidence import Evidence
from harness.scenarios.schema import Subject


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing that a rule found. `pointer` leads into the body of exchange `exchange`: the request's, or the
    response's if it is `of_response`.

    `raised` is the class of what an adapter raised that broke. `case` names which of its problems a rule has found,
    where it finds several: each is a cause of its own. `rule`, `kind`, `severity`, `blame` and `source` replace
    the rule's own where one check speaks for several; so does `remedy`, word for word.
    """

    message: str
    exchange: int | None = None
    pointer: str | None = None
    actual: JSON = None
    expected: JSON = None
    rule: str | None = None
    kind: Kind | None = None
    severity: Severity | None = None
    blame: Blame | None = None
    source: str | None = None
    of_response: bool = False
    raised: str | None = None
    case: str | None = None
    remedy: str | None = None


Check = Callable[[Evidence], Iterable[Flaw]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with a stable kebab-case `id`.

    `requirement` says in one sentence what must hold, `source` where that comes from, `because` why a breach is of this
    `kind`: what the provider, the model or the caller has to suffer, or that nobody does and the rule is ours. `also`
    are ids under which it finds something that are those of no rule and of no limit. `remedy` says what its author has
    to do about a breach; `{system}` and the like stand for the words of the API (`harness.apis.traits`).
    """

    id: str
    subject: Subject
    requirement: str
    source: str
    check: Check
    kind: Kind
    because: str
    severity: Severity = Severity.ERROR
    blame: Blame = Blame.ADAPTER
    also: tuple[str, ...] = ()
    remedy: str = ""

    def findings(self, evidence: Evidence) -> Iterator[Finding]:
        """The rule's findings on one transcript."""
        for flaw in self.check(evidence):
            yield self.finding(flaw, catalog.api(evidence.transcript.api).terms)

    def finding(self, flaw: Flaw, terms: ApiTerms) -> Finding:
        """Make the finding of a flaw, with its remedy in the terms of the API. A flaw whose blame is not the rule's has
        no remedy."""
        blame = flaw.blame or self.blame
        kind = flaw.kind or self.kind
        return Finding(
            rule=flaw.rule or self.id,
            kind=kind,
            severity=flaw.severity or self.severity,
            blame=blame,
            message=flaw.message,
            pointer=flaw.pointer,
            actual=flaw.actual,
            expected=flaw.expected,
            source=flaw.source or self.source,
            exchange=flaw.exchange,
            of_response=flaw.of_response,
            subject=self.subject,
            raised=flaw.raised,
            case=flaw.case,
            remedy=self._remedy(flaw, terms) if blame is self.blame else "",
        )

    def _remedy(self, flaw: Flaw, terms: ApiTerms) -> str:
        return terms.fill(self.remedy) if flaw.remedy is None else flaw.remedy
