"""Faults planted one by one in a server are found and blamed on it; on the server without them nothing is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.apis.view import RequestView
from harness.checking.servers.checks.prompts import FOREIGN
from harness.checking.servers.inspection import Asked
from harness.results import Blame, Severity, Verdict
from tests.servers.faults import FAULTS
from tests.servers.faulty import APIS, Fault, checked, faulty, refusing

CASES = [(fault, api) for fault in FAULTS for api in fault.apis]


@pytest.mark.parametrize("api", APIS)
def test_nothing_is_found_on_the_reference_server(api: str) -> None:
    run = checked(api, faulty(api, lambda _api, _view, response: response))

    assert [finding for cell in run.cells for finding in cell.findings] == []
    assert run.exit_code == 0
    unjudged = {cell.scenario for cell in run.cells if cell.verdict is Verdict.INCONCLUSIVE}
    assert unjudged == ({"server-call-id"} if api == "gemini" else set())  # whose model issues no ids


def test_there_are_forty_faults_at_least() -> None:
    assert len(FAULTS) >= 40
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert {api for fault in FAULTS for api in fault.apis} == set(APIS)


@pytest.mark.parametrize(("fault", "api"), CASES, ids=[f"{api}: {fault.name}" for fault, api in CASES])
def test_a_fault_is_found_and_blamed_on_the_server(fault: Fault, api: str) -> None:
    run = checked(api, faulty(api, fault.change), fault.asked)

    found = [finding for cell in run.cells for finding in cell.findings]
    assert fault.found_by & {finding.rule for finding in found}
    assert {finding.blame for finding in found} == {Blame.PROVIDER}
    assert all(finding.piece for finding in found)  # the request and the raw answer
    if fault.name != "the system prompt is dropped":  # which no single answer proves
        assert run.exit_code == 1
        assert any(finding.severity is Severity.ERROR for finding in found)


def rules(fault: str, api: str, *checks: str) -> dict[str, list[str]]:
    """What is said of a fault by some checks: the messages of each rule."""
    planted = next(each for each in FAULTS if each.name == fault)
    run = checked(api, faulty(api, planted.change), Asked(frozenset(checks)))
    found: dict[str, list[str]] = {}
    for cell in run.cells:
        for finding in cell.findings:
            found.setdefault(finding.rule, []).append(finding.message)
    return found


def test_what_follows_from_a_fault_is_no_second_one() -> None:
    """An index that is missing, or that two calls share, is not blamed on the arguments or on the ids."""
    calls = ("server-call", "server-parallel", "server-no-arguments", "server-same-calls", "server-arguments")

    unindexed = rules("no event has an output_index", "openai-responses", "server-index", "server-events", *calls)
    assert unindexed.keys() == {"server-index"}
    (message,) = unindexed["server-index"]
    assert message.startswith("event 3: an event has no output_index, by which clients tell the items apart")
    assert rules("a stream is called JSON", "openai-chat", "server-content-type", *calls).keys() == {
        "server-content-type"
    }
    assert rules("every streamed call has index 0", "openai-chat", *calls).keys() == {"server-index"}
    assert rules("arguments are Python", "openai-chat", *calls).keys() == {"server-arguments"}


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        (lambda view: any(turn.role == "assistant" for turn in view.turns), "came from elsewhere is refused, even"),
        (lambda view: any(call.id == FOREIGN for call in view.calls), "is refused whose call has an id of another"),
    ],
)
def test_why_a_conversation_is_refused_is_found_out(refused: Callable[[RequestView], bool], said: str) -> None:
    asked = Asked(frozenset({"server-history", "server-result-error"}), ("whole",))
    run = checked("openai-responses", faulty("openai-responses", refusing(refused)), asked)

    cells = {cell.scenario: cell for cell in run.cells}
    (finding,) = cells["server-history"].findings
    assert said in finding.message
    assert cells["server-result-error"].verdict is Verdict.INCONCLUSIVE
    assert cells["server-result-error"].reason == "the same conversation is refused where the tool has not failed"
