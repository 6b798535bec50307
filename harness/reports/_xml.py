"""JUnit XML. There is no one schema of it; what is written here is what these read and do not refuse, on 2026-11-23:

- Jenkins' xUnit plugin holds files against its schema (jenkinsci/xunit-plugin, `types/model/xsd/junit-10.xsd` at commit
  031e285): `testsuites` has name, time, tests, failures and errors and no more; a `testsuite` needs name, tests,
  failures and errors, may have skipped, time, timestamp and others, and `properties`; a `testcase` has name, classname,
  time and group, and holds no properties; `skipped`, `failure` and `error` have type, message and text. Times are
  digits, with commas between thousands or none, and a fraction.
- Jenkins' JUnit plugin (jenkinsci/junit-plugin, `CaseResult.java` at commit 002534a) ignores what it does not know. Of
  what a case prints it keeps 1,000 characters, or 100,000 if the case failed.
- GitLab (docs.gitlab.com/ci/testing/unit_test_reports) reads classname, name, file and time of a case, the text, not
  the message, of failure, error and skipped, and `system-out` of cases, in which `[[ATTACHMENT|…]]` is a command. Of
  cases with one name it takes the first; a file has to be smaller than 30 MB.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from xml.etree import ElementTree as ET

from harness.reports import _gateway as gateways
from harness.reports._costs import kind as paid
from harness.reports._groups import facts, missing, provenance, scope, targets
from harness.reports._places import Spot, spot
from harness.reports._words import bounded, count, label, place, short, values, what_to_do
from harness.results import CellResult, Finding, Presentation, RunResult, StaleExpectation, Variant, Verdict

_ILLEGAL = re.compile("[^\t\n\r\u0020-\u007e\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, and control characters that it advises against."""

_TAGS = {
    Verdict.FAIL: "failure",
    Verdict.ERROR: "error",
    Verdict.MISSING: "error",
    Verdict.INCONCLUSIVE: "skipped",
    Verdict.NOT_APPLICABLE: "skipped",
    Verdict.EXPECTED_FAILURE: "skipped",
}
_COUNTED = {"tests": "tests", "failures": "failure", "errors": "error", "skipped": "skipped"}

_MOST = 12_000
_MESSAGE = 1_000
"""Characters of a text, and of a message. Two thousand cells that fail at their longest come to less than 30 MB."""


_CASES = "<testcase />"
"""Where the cases of a suite go: no text of a run comes to this."""


@dataclass(frozen=True, slots=True)
class Suites:
    """All suites of a run. `places`: the file and the line of a scenario are attributes of its cases."""

    run: RunResult
    presentation: Presentation
    places: bool
    _records: dict[tuple[str, str, Variant], str] = field(init=False)

    def __post_init__(self) -> None:
        records = {cell.key: group.record for group in missing(self.run) for cell in group.cells}
        object.__setattr__(self, "_records", records)

    def pieces(self) -> Iterator[str]:
        """The XML, a case at a time: those of a long run need not be in memory together."""
        suites = list(self._every())
        root = ET.Element("testsuites", name="harness")
        root.extend(suite for suite, _ in suites)
        for name in ("tests", "failures", "errors"):  # `testsuites` has no `skipped`
            root.set(name, str(sum(int(suite.get(name, "0")) for suite, _ in suites)))
        if "seconds" in self.run.timing:
            root.set("time", f"{self.run.timing['seconds']:.3f}")
        ET.indent(root)
        around = ET.tostring(root, encoding="unicode").split(_CASES)
        yield '<?xml version="1.0" encoding="utf-8"?>\n' + around[0]
        for behind, (_, cases) in zip(around[1:], suites, strict=True):
            for number, case in enumerate(cases):
                ET.indent(case, level=2)
                yield ("\n    " if number else "") + ET.tostring(case, encoding="unicode")
            yield behind
        yield "\n"

    def _every(self) -> Iterator[tuple[ET.Element, Iterable[ET.Element]]]:
        """The suites, each with its cases in place of the one that it has."""
        for target in targets(self.run):
            yield self._suite(target), self._cases(target)
        if self.run.stopped is not None:
            yield _counted(self._headed("harness"), Counter(tests=1, error=1)), [_unfinished(self.run.stopped)]
        if stale := self.run.stale:
            counted = Counter(tests=len(stale), failure=len(stale))
            yield _counted(ET.Element("testsuite", name="expected-failures"), counted), map(_stale, stale)

    def _suite(self, target: str) -> ET.Element:
        counted = Counter[str]()
        known: list[float] = []
        for cell in self.run.cells:
            if cell.target == target:
                counted.update(filter(None, ("tests", _TAGS.get(cell.verdict))))
                known += [] if cell.seconds is None else [cell.seconds]
        suite = _counted(self._headed(target), counted)
        if known:
            suite.set("time", f"{sum(known):.3f}")
        return suite

    def _cases(self, target: str) -> Iterator[ET.Element]:
        return (self._case(cell) for cell in self.run.cells if cell.target == target)

    def _headed(self, name: str) -> ET.Element:
        suite = ET.Element("testsuite", name=_legal(name))
        if self.run.played_at is not None:
            suite.set("timestamp", self.run.played_at)
        values = {each: value for each, value in _properties(self.run, name).items() if value}
        if values:
            properties = ET.SubElement(suite, "properties")
            for each, value in values.items():
                ET.SubElement(properties, "property", name=each, value=_legal(value))
        return suite

    def _case(self, cell: CellResult) -> ET.Element:
        case = ET.Element("testcase", classname=_legal(cell.target), name=_legal(label(cell)))
        if cell.seconds is not None:
            case.set("time", f"{cell.seconds:.3f}")
        at = spot(self.run, self.presentation, cell.scenario, next(iter(_errors(cell)), None))
        if at is not None and self.places:
            case.set("file", _legal(at.file))
            case.set("line", str(at.line))
        tag, printed = _TAGS.get(cell.verdict), [cell.printed or ""]
        if tag is not None:
            _outcome(case, tag, cell.verdict, _message(cell), self._told(cell, at))
        else:
            printed = [_texts(cell), *printed]
        if any(printed):
            ET.SubElement(case, "system-out").text = _harmless(_legal("\n\n".join(filter(None, printed))))
        return case

    def _told(self, cell: CellResult, at: Spot | None) -> str:
        """All that is known of a case that has not passed."""
        record = self._records.get(cell.key)
        parts = (
            _texts(cell) or _message(cell),
            f"in {at.file}, line {at.line}" if at is not None else "",
            f"Record it: {record}" if record else "",
            cell.traceback or "",
        )
        return "\n".join(filter(None, parts))


def _properties(run: RunResult, target: str) -> dict[str, str]:
    """Where the target's answers came from, by whose facts was judged, and the target's part of what the run cost."""
    cells = tuple(cell for cell in run.cells if cell.target == target)
    rates = {
        f"rate: {rate.name}": f"{rate.hits} of {rate.played}, {rate.share:.4f} ({rate.low:.4f} to {rate.high:.4f})"
        for rate in (run.check.rates if run.check is not None else ())
        if rate.target == target
    }
    return {
        "responses": " ".join(provenance(replace(run, cells=cells, facts=(), rules=(), ignored=(), part=None))),
        "facts": " ".join(facts(run)),
        "scope": " ".join(scope(run)),
        **_cost(run, target),
        **_gateway(run, target),
        **rates,
    }


def _gateway(run: RunResult, target: str) -> dict[str, str]:
    """What became of each fact on its way through a gateway."""
    fates = run.check.gateway if run.check is not None else ()
    return {
        f"gateway.{each.fact}": gateways.told(gateways.counts(each)) for each in fates if gateways.pair(each) == target
    }


def _cost(run: RunResult, target: str) -> dict[str, str]:
    """What requests of a target cost; `dollars` is left out where no price is known."""
    cost = run.costs.get(target)
    if cost is None or not cost.requests:
        return {}
    kinds = dict.fromkeys(paid(run, cell) for cell in run.cells if cell.target == target and cell.spending is not None)
    values = {
        "cost": "; ".join(kinds),
        "cost.model": cost.model,
        "cost.requests": cost.requests,
        "cost.requests.unpriced": cost.unpriced,
        "cost.tokens.input": cost.usage.input_tokens,
        "cost.tokens.output": cost.usage.output_tokens,
        "cost.dollars": None if cost.dollars is None else f"{cost.dollars:f}",
    }
    return {name: str(value) for name, value in values.items() if value is not None}


def _errors(cell: CellResult) -> list[Finding]:
    return [finding for finding in cell.findings if finding.fails and finding.follows is None]


def _message(cell: CellResult) -> str:
    if cell.verdict is Verdict.MISSING:
        return f"could not look: {cell.reason or 'there is no cassette'}"
    if cell.verdict is not Verdict.FAIL:
        return cell.reason or cell.verdict.value
    errors = _errors(cell)
    more = f" (and {count(len(errors) - 1, 'more cause')})" if len(errors) > 1 else ""
    return f"{errors[0].rule}: {errors[0].message}{more}"


def _texts(cell: CellResult) -> str:
    """The findings of a cell, each with those that follow from it."""
    causes = ((index, finding) for index, finding in enumerate(cell.findings) if finding.follows is None)
    return "\n\n".join(
        _text(finding, [other for other in cell.findings if other.follows == index]) for index, finding in causes
    )


def _text(finding: Finding, followers: Sequence[Finding]) -> str:
    lines = [f"{finding.severity} {finding.rule} ({finding.kind}): {finding.message}", f"blame: {finding.blame}"]
    if finding.accepted is not None:
        lines.append(f"expected: {finding.accepted}")
    if place(finding):
        lines.append(f"at: {place(finding)}")
    lines += [f"{name}: {value}" for name, value in values(finding)]
    lines += finding.piece
    for body in finding.bodies:
        lines += [f"{body.end}:", *(body.piece or (short(body.text),))]
    if finding.source:
        lines.append(f"source: {finding.source}")
    others = dict.fromkeys((each.rule, each.message) for each in followers)
    others.pop((finding.rule, finding.message), None)  # the same, in a history that is sent again
    lines += [f"follows: {rule}: {message}" for rule, message in others]
    return "\n".join([*lines, f"what to do: {what_to_do(finding)}"])


def _unfinished(stopped: str) -> ET.Element:
    case = ET.Element("testcase", classname="harness", name="finished")
    _outcome(case, "error", "unfinished", f"the run is not finished: {stopped}")
    return case


def _stale(entry: StaleExpectation) -> ET.Element:
    name = " ".join([entry.scenario, *filter(None, [entry.variant]), entry.target, entry.rule])
    case = ET.Element("testcase", classname="expected-failures", name=_legal(name))
    _outcome(case, "failure", "stale", f"the expected failure did not happen: take it off the list ({entry.reason})")
    return case


def _outcome(case: ET.Element, tag: str, kind: str, message: str, text: str = "") -> None:
    """Why a case has not passed: in a few words for Jenkins, and as a text, which alone GitLab shows."""
    element = ET.SubElement(case, tag, message=_legal(bounded(message, _MESSAGE)), type=kind)
    element.text = _legal(text or message)


def _counted(suite: ET.Element, counted: Counter[str]) -> ET.Element:
    """The suite with the numbers of its cases, all and by what became of them, and with the place for them."""
    for name, tag in _COUNTED.items():
        suite.set(name, str(counted[tag]))
    ET.SubElement(suite, "testcase")
    return suite


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", bounded(text, _MOST))


def _harmless(text: str) -> str:
    """What was printed, without what would have a file of the CI server attached."""
    return text.replace("[[ATTACHMENT|", "[ [ATTACHMENT|")
