"""How an item ends that has played a cell: as its verdict says, with what is to be known of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

import pytest

from harness.apis.facts import Edition
from harness.pytest_plugin import evidence
from harness.pytest_plugin.recording import noted
from harness.results import CellResult, Invocation, Verdict


def note(item: pytest.Item, result: CellResult, recorded: Path | None, edition: Edition) -> None:
    """What the item's report keeps of a cell, and what its adapter printed."""
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


def end(item: pytest.Item, result: CellResult, problems: Iterable[str], invocation: Invocation | None) -> None:
    """Fail, skip or xfail, or return. `problems` fail the item whatever the cell comes to."""
    found = [*problems, *evidence.problems(result)]
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
                item.add_report_section("call", "harness findings", "\n\n".join(evidence.findings(result)))
    if found:
        raise evidence.Nonconformant("\n\n".join(found))


def _ways_out(item: pytest.Item, result: CellResult, call: Invocation | None) -> str:
    """The commands that record a cell, or play it without a recording."""
    here = shlex.join(["pytest", "--harness-record=missing", item.nodeid])
    if call is None:
        without = shlex.join(["pytest", "--harness-mode=reference", item.nodeid])
        return evidence.commands(record_it=here, or_play_it_without=without)
    record, reference = (_command(call, words, result) for words in (call.record, call.reference))
    return evidence.commands(record_it=record, or_while_it_is_tested=here, or_play_it_without=reference)


def _again(item: pytest.Item, result: CellResult, call: Invocation | None) -> str:
    if call is None:
        return evidence.commands(play_again=shlex.join(["pytest", item.nodeid]))
    rerun, show = (_command(call, words, result) for words in (call.rerun, call.show))
    return evidence.commands(play_again=rerun, look=show)


def _command(call: Invocation, words: Iterable[str], result: CellResult) -> str:
    return call.command([*words, "--variant", result.variant], [result.target], [result.scenario])
