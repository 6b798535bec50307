"""What an item says that fails: the findings with their evidence, once, and how to play the cell again."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import pytest

from harness.reports._words import CRASHED, place, plain_line, values, what_to_do
from harness.results import CellResult, Finding, StaleExpectation, Verdict


class Nonconformant(pytest.fail.Exception):
    """Fails an item with evidence. A summary has its first line alone: all of it stands above."""

    def __init__(self, evidence: str) -> None:
        super().__init__(evidence, pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say it once: a summary that is not cut, as in CI, would repeat the evidence."""
    report = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, Nonconformant):
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash is not None:
            crash.message = str(call.excinfo.value).partition("\n")[0]
    return report


def problems(result: CellResult) -> list[str]:
    """What fails a cell; nothing, if it does not fail."""
    if result.verdict not in (Verdict.ERROR, Verdict.FAIL):
        return []
    broken = [f"{result.reason}\n  to do:    {CRASHED}"] if result.verdict is Verdict.ERROR else []
    return [*broken, *findings(result)]


def findings(result: CellResult) -> list[str]:
    """What is wrong in a cell, the worst first, each with those findings that follow from it."""
    causes = [(index, finding) for index, finding in enumerate(result.findings) if finding.follows is None]
    causes.sort(key=lambda each: not each[1].fails)
    return [_text(finding, [other for other in result.findings if other.follows == index]) for index, finding in causes]


def stale(entry: StaleExpectation) -> str:
    """An expected failure that did not happen."""
    variant = f"[{entry.variant}]" if entry.variant else ""
    return (
        f"expected failure that did not happen: {entry.rule} in {entry.scenario} on {entry.target}{variant} "
        f"({entry.reason}). Take the entry out of the file of expected failures."
    )


def commands(**named: str) -> str:
    """Command lines below what they are for."""
    width = max(map(len, named)) + 2
    return "\n".join(f"  {f'{what}:'.replace('_', ' '):<{width}} {command}" for what, command in named.items())


def _text(finding: Finding, followers: Sequence[Finding]) -> str:
    """A finding with its evidence, for a terminal and for JUnit."""
    lines = [f"{finding.rule} ({finding.kind}, {finding.severity}, blame: {finding.blame}): {finding.message}"]
    if finding.accepted is not None:
        lines.append(f"  expected: {finding.accepted}")
    if where := place(finding):
        lines.append(f"  at:       {where}")
    lines += [f"  {f'{name}:':<9} {value}" for name, value in values(finding)]
    lines += [f"    {line}" for line in finding.piece]
    lines += [f"  follows:  {each.rule}: {each.message}" for each in followers]
    advice = what_to_do(finding)
    lines += [f"  source:   {finding.source}", f"  to do:    {advice}"]
    return "\n".join(plain_line(line) for line in lines)
