"""For CI servers: JUnit XML, a suite for each target and a case for each cell.

A finding at error severity is a failure. What broke and what is missing are errors: neither may read as a pass.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from xml.etree import ElementTree as ET

from harness.reports import _gateway as gateways
from harness.reports._costs import kind
from harness.reports._groups import facts, missing, provenance, scope, targets
from harness.reports._words import count, label, place, short, what_to_do
from harness.results import CellResult, Finding, Presentation, Report, RunResult, StaleExpectation, Verdict

_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold."""

_TAGS = {
    Verdict.FAIL: "failure",
    Verdict.ERROR: "error",
    Verdict.MISSING: "error",
    Verdict.INCONCLUSIVE: "skipped",
    Verdict.NOT_APPLICABLE: "skipped",
    Verdict.EXPECTED_FAILURE: "skipped",
}


def render(run: RunResult, presentation: Presentation) -> str:  # noqa: ARG001 - for people only
    """The XML, as text."""
    root = ET.Element("testsuites", name="harness", time=f"{run.timing.get('seconds', 0.0):.3f}")
    commands = {id(cell): group.record for group in missing(run) for cell in group.cells}
    for target in targets(run):
        suite = ET.SubElement(root, "testsuite", name=target)
        _properties(suite, run, target)
        for cell in run.cells:
            if cell.target == target:
                _case(suite, cell, commands.get(id(cell), ""))
        _count(suite)
    if run.stopped is not None:
        suite = ET.SubElement(root, "testsuite", name="harness")
        _properties(suite, run, "harness")
        case = ET.SubElement(suite, "testcase", classname="harness", name="finished")
        ET.SubElement(case, "error", message=_legal(f"the run is not finished: {run.stopped}"), type="unfinished")
        _count(suite)
    if run.stale:
        suite = ET.SubElement(root, "testsuite", name="expected-failures")
        for entry in run.stale:
            _stale(suite, entry)
        _count(suite)
    _count(root)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _properties(suite: ET.Element, run: RunResult, target: str) -> None:
    """Where the target's answers came from, by whose facts was judged, and the target's part of what the run cost."""
    cells = tuple(cell for cell in run.cells if cell.target == target)
    responses = provenance(replace(run, cells=cells, facts=(), rules=(), ignored=()))
    rates = {
        f"rate: {rate.name}": f"{rate.hits} of {rate.played}, {rate.share:.4f} ({rate.low:.4f} to {rate.high:.4f})"
        for rate in (run.check.rates if run.check is not None else ())
        if rate.target == target
    }
    values = {
        "responses": " ".join(responses),
        "facts": " ".join(facts(run)),
        "scope": " ".join(scope(run)),
        **_cost(run, target),
        **_gateway(run, target),
        **rates,
    }
    if any(values.values()):
        properties = ET.SubElement(suite, "properties")
        for name, value in values.items():
            if value:
                ET.SubElement(properties, "property", name=name, value=_legal(value))


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
    kinds = dict.fromkeys(kind(run, cell) for cell in run.cells if cell.target == target and cell.spending is not None)
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


def _case(suite: ET.Element, cell: CellResult, record: str) -> None:
    case = ET.SubElement(suite, "testcase", classname=_legal(cell.target), name=_legal(label(cell)))
    tag = _TAGS.get(cell.verdict)
    if tag is not None:
        outcome = ET.SubElement(case, tag, message=_legal(_message(cell)), type=cell.verdict.value)
        outcome.text = _legal(f"Record it: {record}" if record else _texts(cell)) or None
    elif cell.findings:
        ET.SubElement(case, "system-out").text = _legal(_texts(cell))


def _message(cell: CellResult) -> str:
    if cell.verdict is Verdict.MISSING:
        return f"could not look: {cell.reason or 'there is no cassette'}"
    if cell.verdict is not Verdict.FAIL:
        return cell.reason or cell.verdict.value
    errors = [finding for finding in cell.findings if finding.fails and finding.follows is None]
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
    if finding.actual is not None or finding.expected is not None:
        lines += [f"actual: {short(finding.actual)}", f"expected: {short(finding.expected)}"]
    lines += finding.piece
    for body in finding.bodies:
        lines += [f"{body.end}:", *(body.piece or (short(body.text),))]
    if finding.source:
        lines.append(f"source: {finding.source}")
    lines += [f"follows: {each.rule}: {each.message}" for each in followers]
    return "\n".join([*lines, f"what to do: {what_to_do(finding.kind, finding.severity, finding.blame)}"])


def _stale(suite: ET.Element, entry: StaleExpectation) -> None:
    name = " ".join([entry.scenario, *filter(None, [entry.variant]), entry.target, entry.rule])
    case = ET.SubElement(suite, "testcase", classname="expected-failures", name=_legal(name))
    message = f"the expected failure did not happen: take it off the list ({entry.reason})"
    ET.SubElement(case, "failure", message=_legal(message), type="stale")


def _count(element: ET.Element) -> None:
    element.set("tests", str(len(element.findall(".//testcase"))))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(attribute, str(len(element.findall(f".//{tag}"))))


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)


REPORT = Report("junit", render)
