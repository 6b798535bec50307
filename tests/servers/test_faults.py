"""Faults planted one by one in a server are found and blamed on it; on the server without them nothing is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from harness.apis.view import RequestView
from harness.checks.server_check import CheckSelection
from harness.checks.server_checks.conversation_checks import FOREIGN
from harness.model.http import HttpResponse
from harness.results import Blame, RunResult, Severity, Verdict
from tests.servers.faults import FAULTS
from tests.servers.faulty import APIS, Change, Fault, checked, faulty, refusing

CASES = [(fault, api) for fault in FAULTS for api in fault.played_on]


@cache
def checked_as_it_is(api: str) -> RunResult:
    return checked(api, faulty(api, lambda _api, _view, response: response))


@pytest.mark.parametrize("api", APIS)
def test_nothing_is_found_on_the_reference_server(api: str) -> None:
    run = checked_as_it_is(api)

    assert [finding for cell in run.cells for finding in cell.findings] == []
    assert run.exit_code == 0
    unjudged = {cell.scenario for cell in run.cells if cell.verdict is Verdict.INCONCLUSIVE}
    assert unjudged == ({"server-call-id"} if api == "gemini" else set())  # whose model issues no ids


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
    run = checked(api, faulty(api, planted.change), CheckSelection(frozenset(checks)))
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
        (lambda view: any(turn.role == "assistant" for turn in view.turns), "another server began is refused, even"),
        (lambda view: any(call.id == FOREIGN for call in view.calls), "is refused because a call has another"),
    ],
)
def test_why_a_conversation_is_refused_is_found_out(refused: Callable[[RequestView], bool], said: str) -> None:
    asked = CheckSelection(frozenset({"server-history", "server-result-error"}), ("whole",))
    run = checked("openai-responses", faulty("openai-responses", refusing(refused)), asked)

    cells = {cell.scenario: cell for cell in run.cells}
    (finding,) = cells["server-history"].findings
    assert said in finding.message
    assert cells["server-result-error"].verdict is Verdict.INCONCLUSIVE
    assert cells["server-result-error"].reason == "the same conversation is also refused if the tool has not failed"


def _crashing(when: Callable[[RequestView], bool]) -> Change:
    def changed(_api: str, view: RequestView | None, response: HttpResponse) -> HttpResponse:
        crashed = HttpResponse(500, {"content-type": "text/plain"}, b"Internal Server Error")
        return crashed if view is not None and when(view) else response

    return changed


def _findings(run: RunResult) -> list[tuple[str, str, str]]:
    return [(cell.variant, each.rule, each.message) for cell in run.cells for each in cell.findings]


@pytest.mark.parametrize("api", APIS)
def test_a_server_that_fails_for_every_stream_has_one_cause(api: str) -> None:
    run = checked(api, faulty(api, _crashing(lambda view: view.stream)))

    said = "streams do not work: HTTP 500: Internal Server Error"
    assert _findings(run) == [("stream", "server-text", said)]
    unplayed = {cell.reason for cell in run.cells if cell.scenario == "server-call" and cell.variant == "stream"}
    assert unplayed == {"it was not run, because server-text is answered with an error"}


@pytest.mark.parametrize(
    ("when", "stays"),
    [
        (lambda view: view.stream, ["server-call"]),
        (lambda view: view.stream and bool(view.tools), ["server-call", "server-parallel"]),
    ],
)
def test_of_chosen_checks_one_says_that_streams_fail(when: Callable[[RequestView], bool], stays: list[str]) -> None:
    only = frozenset({"server-call", "server-parallel"})

    run = checked("openai-chat", faulty("openai-chat", _crashing(when)), CheckSelection(only))

    assert [rule for _, rule, _ in _findings(run)] == stays


def test_a_server_that_answers_nothing_has_one_cause() -> None:
    run = checked("openai-chat", faulty("openai-chat", _crashing(lambda _view: True)))

    assert _findings(run) == [("whole", "server-text", "a plain question is refused: HTTP 500: Internal Server Error")]


def test_streams_failing_only_with_tools_are_found_per_check() -> None:
    run = checked("openai-chat", faulty("openai-chat", _crashing(lambda view: view.stream and bool(view.tools))))

    found = {rule for _, rule, _ in _findings(run)}
    assert {"server-call", "server-parallel", "server-choice-none"} <= found
    assert found.isdisjoint({"server-text", "server-json-schema", "server-system"})


def _unparsable(api: str, view: RequestView | None, response: HttpResponse) -> HttpResponse:
    """An event that is no JSON in front of each stream, and a number that JSON does not have in each whole answer."""
    if response.status != 200:
        return response
    if view is not None and view.stream:
        return replace(response, body=b'data: {"type": "ping", x}\n\n' + response.body)
    return replace(response, body=b'{"timing": NaN, ' + response.body.lstrip()[1:])


def _done(_api: str, view: RequestView | None, response: HttpResponse) -> HttpResponse:
    is_stream = view is not None and view.stream and response.status == 200
    return replace(response, body=response.body + b"data: [DONE]\n\n") if is_stream else response


@pytest.mark.parametrize(
    ("api", "change", "rules"),
    [
        *((api, _unparsable, [("whole", "server-fields"), ("stream", "server-framing")]) for api in APIS),
        ("anthropic", _done, [("stream", "server-events")]),
        ("gemini", _done, [("stream", "server-events")]),
        ("openai-responses", _done, []),
    ],
)
def test_what_is_no_json_is_one_cause_and_the_rest_is_judged(
    api: str, change: Change, rules: list[tuple[str, str]]
) -> None:
    run, right = checked(api, faulty(api, change)), checked_as_it_is(api)

    assert sorted((variant, rule) for variant, rule, _ in _findings(run)) == sorted(rules)
    assert [cell.verdict for cell in run.cells if not cell.findings] == [
        cell.verdict for cell, other in zip(right.cells, run.cells, strict=True) if not other.findings
    ]


def test_another_fault_beside_what_is_no_json_is_found() -> None:
    planted = next(each for each in FAULTS if each.name == "every streamed call has index 0")

    def both(api: str, view: RequestView | None, response: HttpResponse) -> HttpResponse:
        return _unparsable(api, view, planted.change(api, view, response))

    run = checked("openai-chat", faulty("openai-chat", both))

    assert {rule for _, rule, _ in _findings(run)} == {"server-fields", "server-framing", "server-index"}
