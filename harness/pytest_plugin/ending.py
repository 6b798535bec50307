"""Outcome of a cell's pytest item. The text of a failure has the findings and the commands for the next step."""

from __future__ import annotations

import shlex
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path

import pytest

from harness.apis.fact_files import FactSelection
from harness.pytest_plugin.recording import noted
from harness.reports.words import CRASHED, place, plain_line, values, what_to_do
from harness.results import CellResult, Finding, Invocation, StaleExpectation, Verdict


def note(item: pytest.Item, result: CellResult, recorded: Path | None, edition: FactSelection) -> None:
    """Add a cell's result, recording and output to the item's report."""
    item.user_properties.append(("verdict", result.verdict.value))
    if result.provenance is not None:
        item.user_properties.append(("responses_from", result.provenance.recorded_from or result.provenance.origin))
    item.user_properties += (("facts", str(file)) for file in edition.files)
    item.user_properties += ((f"ignored: {rule}", str(number)) for rule, number in result.hidden.items())
    if recorded is not None:
        item.user_properties += noted(result, recorded)
    if result.printed:
        item.add_report_section("call", "printed by the adapter", result.printed)
    if result.traceback:
        item.add_report_section("call", "traceback of the adapter", result.traceback)


def end(item: pytest.Item, result: CellResult, others: Iterable[str], invocation: Invocation | None) -> None:
    """Fail, skip or xfail an item according to the cell's verdict, or return if it passed. `others` are additional
    problems, which fail the item regardless of the verdict.
    """
    found = [*others, *problems(result)]
    match result.verdict:
        case Verdict.NOT_APPLICABLE:
            pytest.skip(f"not applicable: {result.reason}")
        case Verdict.MISSING:
            found.append(f"could not look: {result.reason}\n{_ways_out(item, result, invocation)}")
        case Verdict.ERROR | Verdict.FAIL:
            found.append(_again(item, result, invocation))
        case Verdict.EXPECTED_FAILURE if not found:
            pytest.xfail(result.reason or "")
        case _:
            if result.findings:
                item.add_report_section("call", "harness findings", "\n\n".join(findings(result)))
    if found:
        raise Nonconformant("\n\n".join(found))


def _ways_out(item: pytest.Item, result: CellResult, call: Invocation | None) -> str:
    """Return the commands for a cell without a cassette: to record it, or to run it without a recording."""
    here = shlex.join(["pytest", "--harness-record=missing", item.nodeid])
    if call is None:
        without = shlex.join(["pytest", "--harness-mode=reference", item.nodeid])
        return commands(record_it=here, or_play_it_without=without)
    record, reference = (_command(call, words, result) for words in (call.record, call.reference))
    return commands(record_it=record, or_while_it_is_tested=here, or_play_it_without=reference)


def _again(item: pytest.Item, result: CellResult, call: Invocation | None) -> str:
    if call is None:
        return commands(play_again=shlex.join(["pytest", item.nodeid]))
    rerun, show = (_command(call, words, result) for words in (call.rerun, call.show))
    return commands(play_again=rerun, look=show)


def _command(call: Invocation, words: Iterable[str], result: CellResult) -> str:
    return call.command([*words, "--variant", result.variant], [result.target], [result.scenario])


class Nonconformant(pytest.fail.Exception):
    """Failure of an item, with its evidence. pytest's summary shows only the first line."""

    def __init__(self, evidence: str) -> None:
        super().__init__(evidence, pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shorten the summary to the first line. Otherwise pytest would repeat all the evidence there in CI."""
    report = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, Nonconformant):
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash is not None:
            crash.message = str(call.excinfo.value).partition("\n")[0]
    return report


def problems(result: CellResult) -> list[str]:
    """Return the problems of a cell whose verdict is a failure or an error, otherwise an empty list."""
    if result.verdict not in (Verdict.ERROR, Verdict.FAIL):
        return []
    broken = [f"{result.reason}\n  to do:    {CRASHED}"] if result.verdict is Verdict.ERROR else []
    return [*broken, *findings(result)]


def findings(result: CellResult) -> list[str]:
    """Return the texts of a cell's findings, failures first. Each text includes the findings that follow from it."""
    causes = [(index, finding) for index, finding in enumerate(result.findings) if finding.follows is None]
    causes.sort(key=lambda each: not each[1].fails)
    return [_text(finding, [other for other in result.findings if other.follows == index]) for index, finding in causes]


def stale(entry: StaleExpectation) -> str:
    """Describe an expected failure that did not occur."""
    variant = f"[{entry.variant}]" if entry.variant else ""
    return (
        f"expected failure that did not happen: {entry.rule} in {entry.scenario} on {entry.target}{variant} "
        f"({entry.reason}). Take the entry out of the file of expected failures."
    )


def commands(**named: str) -> str:
    """Return a text with one command per line, each labelled with its purpose."""
    width = max(map(len, named)) + 2
    return "\n".join(f"  {f'{what}:'.replace('_', ' '):<{width}} {command}" for what, command in named.items())


def _text(finding: Finding, followers: Sequence[Finding]) -> str:
    """Return a finding with its evidence, for terminals and JUnit."""
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
