"""JUnit XML for CI servers: a suite for each target and a case for each cell.

Findings of error severity are failures. Broken and missing cells are errors, so that neither counts as a pass. `junit`
adds the file and line of the scenario to each case as attributes. `xunit` omits these attributes, because Jenkins'
xUnit plugin rejects files with attributes that its schema does not define. In both, the text of a case that did not
pass has file and line.

There is no single schema of JUnit XML. The output works with these readers (checked on 2026-11-23):

- Jenkins' xUnit plugin validates against its schema (jenkinsci/xunit-plugin, `types/model/xsd/junit-10.xsd` at commit
  031e285). `testsuites` allows only name, time, tests, failures and errors. A `testsuite` requires name, tests,
  failures and errors. It may have skipped, time, timestamp and others, and `properties`. A `testcase` has name,
  classname, time and group, but no properties. `skipped`, `failure` and `error` have type, message and text. Times are
  digits, with or without commas between thousands, and a fraction.
- Jenkins' JUnit plugin (jenkinsci/junit-plugin, `CaseResult.java` at commit 002534a) ignores unknown attributes and
  elements. It keeps 1,000 characters of a case's output, or 100,000 if the case failed.
- GitLab (docs.gitlab.com/ci/testing/unit_test_reports) reads classname, name, file and time of a case. Of failure,
  error and skipped, it reads the text, not the message. It also reads `system-out` of cases, in which
  `[[ATTACHMENT|path]]` is a command. If several cases have the same name, it uses only the first. A file must be
  smaller than 30 MB.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from xml.etree import ElementTree as ET

from harness.reports.annotations import RepositoryLine, line_of
from harness.reports.groups import (
    api_pair,
    facts,
    missing,
    outcome_counts,
    outcome_counts_text,
    provenance,
    scope,
    targets,
)
from harness.reports.words import bounded, cost_heading, count, label, place, short, values, what_to_do
from harness.results import CellResult, Finding, Presentation, Report, RunResult, StaleExpectation, Variant, Verdict

_ILLEGAL = re.compile("[^\t\n\r\u0020-\u007e\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 forbids, and control characters that it discourages."""

_TAGS = {
    Verdict.FAIL: "failure",
    Verdict.ERROR: "error",
    Verdict.MISSING: "error",
    Verdict.INCONCLUSIVE: "skipped",
    Verdict.NOT_APPLICABLE: "skipped",
    Verdict.EXPECTED_FAILURE: "skipped",
}
_COUNTED = {"tests": "tests", "failures": "failure", "errors": "error", "skipped": "skipped"}

_MAX_TEXT_CHARACTERS = 12_000
"""Maximum length of a failure. Two thousand failures of this length stay below GitLab's 30 MB."""
_MAX_MESSAGE_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class _Suites:
    """XML of a run. If `places` is set, the file and line of the scenario are added as attributes of its cases."""

    run: RunResult
    presentation: Presentation
    places: bool
    _commands: dict[tuple[str, str, Variant], str] = field(init=False)

    def __post_init__(self) -> None:
        commands = {cell.key: group.record for group in missing(self.run) for cell in group.cells}
        object.__setattr__(self, "_commands", commands)

    def xml(self) -> str:
        root = ET.Element("testsuites", name="harness")
        root.extend(self._all())
        for name in ("tests", "failures", "errors"):  # `testsuites` has no `skipped`
            root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
        if "seconds" in self.run.timing:
            root.set("time", f"{self.run.timing['seconds']:.3f}")
        ET.indent(root)
        return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'

    def _all(self) -> Iterator[ET.Element]:
        for target in targets(self.run):
            yield self._suite(target)
        if self.run.stopped is not None:
            yield _filled(self._head("harness"), Counter(tests=1, error=1), [_unfinished(self.run.stopped)])
        if stale := self.run.stale:
            counted = Counter(tests=len(stale), failure=len(stale))
            yield _filled(ET.Element("testsuite", name="expected-failures"), counted, map(_stale, stale))

    def _suite(self, target: str) -> ET.Element:
        cells = [cell for cell in self.run.cells if cell.target == target]
        counted = Counter(tests=len(cells)) + Counter(_TAGS[cell.verdict] for cell in cells if cell.verdict in _TAGS)
        suite = _filled(self._head(target), counted, map(self._case, cells))
        seconds = [cell.seconds for cell in cells if cell.seconds is not None]
        if seconds:
            suite.set("time", f"{sum(seconds):.3f}")
        return suite

    def _head(self, name: str) -> ET.Element:
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
        at = line_of(self.run, self.presentation, cell.scenario, next(iter(_errors(cell)), None))
        if at is not None and self.places:
            case.set("file", _legal(at.file))
            case.set("line", str(at.line))
        tag, printed = _TAGS.get(cell.verdict), [cell.printed or ""]
        if tag is not None:
            _add_outcome(case, tag, cell.verdict, _message(cell), self._text(cell, at))
        else:
            printed = [_findings_text(cell), *printed]
        if any(printed):
            output = _legal("\n\n".join(filter(None, printed)))
            ET.SubElement(case, "system-out").text = output.replace("[[ATTACHMENT|", "[ [ATTACHMENT|")
        return case

    def _text(self, cell: CellResult, at: RepositoryLine | None) -> str:
        command = self._commands.get(cell.key)
        parts = (
            _findings_text(cell) or _message(cell),
            f"in {at.file}, line {at.line}" if at is not None else "",
            f"Record it: {command}" if command else "",
            cell.traceback or "",
        )
        return "\n".join(filter(None, parts))


def _properties(run: RunResult, target: str) -> dict[str, str]:
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
    counts = run.check.gateway if run.check is not None else ()
    return {
        f"gateway.{each.detail}": outcome_counts_text(outcome_counts(each))
        for each in counts
        if api_pair(each) == target
    }


def _cost(run: RunResult, target: str) -> dict[str, str]:
    cost = run.costs.get(target)
    if cost is None or not cost.requests:
        return {}
    kinds = dict.fromkeys(
        cost_heading(run, cell) for cell in run.cells if cell.target == target and cell.spending is not None
    )
    values = {
        "cost": "; ".join(kinds),
        "cost.model": cost.model,
        "cost.requests": cost.requests,
        "cost.requests.unpriced": cost.unpriced,
        "cost.tokens.input": cost.usage.input_tokens,
        "cost.tokens.cached": cost.usage.cache_read_tokens,
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


def _findings_text(cell: CellResult) -> str:
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
    others.pop((finding.rule, finding.message), None)  # the same finding in a later request
    lines += [f"follows: {rule}: {message}" for rule, message in others]
    return "\n".join([*lines, f"what to do: {what_to_do(finding)}"])


def _unfinished(stopped: str) -> ET.Element:
    case = ET.Element("testcase", classname="harness", name="finished")
    _add_outcome(case, "error", "unfinished", f"the run is not finished: {stopped}")
    return case


def _stale(entry: StaleExpectation) -> ET.Element:
    name = " ".join([entry.scenario, *filter(None, [entry.variant]), entry.target, entry.rule])
    case = ET.Element("testcase", classname="expected-failures", name=_legal(name))
    _add_outcome(
        case, "failure", "stale", f"the expected failure did not happen: take it off the list ({entry.reason})"
    )
    return case


def _add_outcome(case: ET.Element, tag: str, kind: str, message: str, text: str = "") -> None:
    """Add the reason why a case did not pass. Jenkins shows the message, GitLab the text."""
    element = ET.SubElement(case, tag, message=_legal(bounded(message, _MAX_MESSAGE_CHARACTERS)), type=kind)
    element.text = _legal(text or message)


def _filled(suite: ET.Element, counted: Counter[str], cases: Iterable[ET.Element]) -> ET.Element:
    for name, tag in _COUNTED.items():
        suite.set(name, str(counted[tag]))
    suite.extend(cases)
    return suite


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", bounded(text, _MAX_TEXT_CHARACTERS))


def _render_junit(run: RunResult, presentation: Presentation) -> str:
    return _Suites(run, presentation, places=True).xml()


def _render_xunit(run: RunResult, presentation: Presentation) -> str:
    return _Suites(run, presentation, places=False).xml()


JUNIT = Report("junit", _render_junit)
XUNIT = Report("xunit", _render_xunit)
