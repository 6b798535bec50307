"""What is found of gateways, in this process: nothing of a faithful one, and each planted loss."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import pytest

from harness.checks import gateway_traffic
from harness.model.http import HttpRequest, HttpResponse
from harness.platform.files import shipped_folder
from harness.results import Blame, Kind, RunResult, Verdict
from harness.scenarios.load import load_file
from harness.scenarios.schema import Variant
from tests.closing import closing
from tests.gateways.faults import FAULTS, Fault
from tests.gateways.toy import Ends, JsonDict, Losing, Passing, ends
from tests.gateways.translating import Translating

_SHAPELESS = load_file(shipped_folder("scenarios") / "body-html.yaml")
SCENARIOS = {scenario.id: scenario for scenario in (*gateway_traffic.scenarios(), _SHAPELESS)}


_SPOKEN = (
    "call-not-needed",
    "system-changed",
    "call-sequential",
    "call-parallel-same-tool",
    "call-truncated",
    "arguments-large-integers",
    "result-error",
    "result-image",
    "json-schema",
    "json-with-tools",
    "schema-references",
    "thinking-tool-loop",
    "prefix-with-media",
    "usage-cached-prompt",
    "stop-refusal",
    "stream-error-behind-text",
    "connection-cut",
    "gateway-temperature",
    "gateway-one-call",
    "gateway-strict-tool",
    "gateway-file",
    "gateway-retry-after",
    "error-400",
)
"""Scenarios that say every detail between them; all of them take too long for a test."""


_SAID = (
    "call-not-needed",
    "system-plain",
    "call-sequential",
    "call-parallel-same-tool",
    "result-error",
    "choice-none",
    "json-mode",
    "json-schema",
    "image-from-user",
    "prefix-with-media",
    "stop-max-tokens",
    "stop-refusal",
    "gateway-retry-after",
)


def _lost(run: RunResult) -> dict[str, str]:
    return {finding.rule: finding.message for cell in run.cells for finding in cell.findings}


@pytest.fixture(scope="module")
def both() -> Generator[Ends]:
    with ends() as found:
        yield found


def test_early_close_of_idle_connections_is_no_loss(both: Ends) -> None:
    with closing(both.gate) as url:
        run = replace(both, url=url).check(Passing(), "anthropic", [SCENARIOS["call-sequential"]], variants=("whole",))
    assert [cell.verdict for cell in run.cells] == [Verdict.PASS]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_loss_is_found_and_the_gateway_is_blamed(fault: Fault, both: Ends) -> None:
    run = both.check(fault.gateway(), fault.target, [SCENARIOS[fault.scenario]], variants=(fault.variant,))

    assert fault.rule in _lost(run), _lost(run)
    (cell,) = run.cells
    assert {finding.blame for finding in cell.findings} == {Blame.GATEWAY}


@pytest.mark.parametrize(
    ("target", "variant"),
    [
        ("anthropic", "stream"),
        ("openai-chat", "stream"),
        ("openai-responses", "whole"),
        ("gemini-3", "stream"),
        ("gemini-2.5", "whole"),
    ],
)
def test_a_faithful_gateway_is_clean(target: str, variant: Variant, both: Ends) -> None:
    run = both.check(Passing(), target, [SCENARIOS[name] for name in _SPOKEN], variants=(variant,))

    assert _lost(run) == {}
    assert {cell.verdict for cell in run.cells} <= {Verdict.PASS, Verdict.NOT_APPLICABLE}
    assert run.check is not None
    assert {
        outcomes.detail for outcomes in run.check.gateway if outcomes.translated or outcomes.refused or outcomes.lost
    } <= {
        "answer arrives"  # of one that breaks off
    }


def test_a_faithful_translation_is_reported_as_translated(both: Ends) -> None:
    run = both.check(Translating(), "openai-chat", [SCENARIOS[name] for name in _SAID], upstream="anthropic")

    assert _lost(run) == {}
    assert run.check is not None
    outcomes = {each.detail: each for each in run.check.gateway}
    assert outcomes["answer's stop reason"].translated > 0
    assert outcomes["response format"].translated == 2  # JSON of any shape is asked for in words
    assert (outcomes["call ids of the history"].preserved > 0, outcomes["tool choice"].preserved) == (True, 2)
    assert outcomes["stream"].translated > 0  # the upstream is not asked for one


def test_what_an_upstream_refuses_anyway_is_refused_and_no_loss(both: Ends) -> None:
    """The model behind the gateway takes no forced choice: the client gets an error, and nothing else is reported."""
    chosen = [SCENARIOS["call-single"], SCENARIOS["choice-required"]]
    run = both.check(Translating(), "openai-chat", chosen, upstream="anthropic", variants=("whole",))

    assert _lost(run) == {}
    assert run.check is not None
    assert [each.detail for each in run.check.gateway if each.refused] == ["tool choice"]


def test_refusal_of_what_the_upstream_accepts_is_a_warning(both: Ends) -> None:
    class Declining(Passing):
        def __call__(self, request: HttpRequest) -> HttpResponse:
            if b'"stop_sequences"' not in request.body:
                return super().__call__(request)
            error = b'{"type": "error", "error": {"type": "invalid_request_error", "message": "no stop texts here"}}'
            return HttpResponse(400, {"content-type": "application/json"}, error)

    chosen = [SCENARIOS["call-not-needed"], SCENARIOS["gateway-stop"]]
    run = both.check(Declining(), "anthropic", chosen, variants=("whole",))

    assert _lost(run) == {
        "gateway-refused": "the gateway refuses a request that anthropic accepts: HTTP 400: no stop texts here"
    }
    assert [cell.verdict for cell in run.cells] == [Verdict.PASS, Verdict.WARN]
    assert run.check is not None
    assert [each.detail for each in run.check.gateway if each.refused] == ["stop texts"]


def test_ids_that_stand_for_others_are_translated_and_lead_back(both: Ends) -> None:
    class Renaming(Losing):
        def __init__(self) -> None:
            super().__init__(self._back, self._forth)

        def _forth(self, body: JsonDict) -> None:
            for call in body["choices"][0]["message"].get("tool_calls") or ():
                call["id"] = f"gw-{call['id']}"

        def _back(self, body: JsonDict) -> None:
            for message in body["messages"]:
                for call in message.get("tool_calls") or ():
                    call["id"] = call["id"].removeprefix("gw-")
                if message["role"] == "tool":
                    message["tool_call_id"] = message["tool_call_id"].removeprefix("gw-")

    run = both.check(Renaming(), "openai-chat", [SCENARIOS["call-sequential"]], variants=("whole",))

    assert _lost(run) == {}
    assert run.check is not None
    ids = {
        each.detail: each for each in run.check.gateway if each.detail.endswith("call ids") or "call ids" in each.detail
    }
    assert {name: (each.preserved, each.translated) for name, each in ids.items()} == {
        "call ids of the history": (0, 1),
        "answer's call ids": (0, 1),
    }


def test_what_the_upstream_refuses_follows_from_what_was_lost(both: Ends) -> None:
    lost = next(each for each in FAULTS if each.name == "results of no call")

    run = both.check(lost.gateway(), "openai-chat", [SCENARIOS["call-single"]], variants=("whole",))

    (cell,) = run.cells
    causes = {finding.rule for finding in cell.findings if finding.follows is None}
    assert causes == {"gateway-results"}
    assert {finding.kind for finding in cell.findings if finding.follows is not None} == {Kind.LIMIT}
