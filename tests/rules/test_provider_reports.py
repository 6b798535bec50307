"""What responses say about their requests: each report is a finding, with the change in front of it named."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.apis.fact_files import SHIPPED
from harness.audit.cassette_audit import Audit
from harness.cassettes.cassette import Cassette, Interaction
from harness.cassettes.transport import Handler
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import ChatRequest
from harness.results import Blame, CellResult, Finding, Kind, Severity, Verdict
from harness.runner.cells import Cell
from harness.runner.suite_run import Run
from harness.scenarios.schema import Scenario, Variant
from tests.backends import InProcess, shipped_scenarios, shipped_targets
from tests.broken.fault import Wrap, Wrapped, client, sends
from tests.rules.transcripts import RULES, transcript_of

APIS = ("anthropic", "openai-responses")
CHANGE = "; the tools are sent in a different order than in the previous request at /tools/0"
VARIANTS: tuple[Variant, ...] = ("whole", "stream")
Report = Callable[[dict[str, Any]], dict[str, Any]]
"""Returns the fields that a provider adds to a response, for a request with changed tools."""


def dropped(body: dict[str, Any]) -> dict[str, Any]:
    """The first reasoning block of a request was withheld."""
    for item in body.get("input", ()):
        if item.get("type") == "reasoning":
            reported = {"type": "reasoning", "id": item["id"], "action": "removed", "reason": "prefix_mismatch"}
            return {"input_transformations": [reported]}
    for index, message in enumerate(body.get("messages", ())):
        for at, block in enumerate(message["content"] if isinstance(message["content"], list) else ()):
            if block["type"] == "thinking":
                path, reason = f"messages.{index}.content.{at}", "prefix_binding_mismatch"
                return {"input_transformations": [{"type": "thinking_dropped", "path": path, "reason": reason}]}
    return {}


def of_another_model(body: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(dropped(body)).replace('"prefix_', '"model_'))


def missed(body: dict[str, Any]) -> dict[str, Any]:
    if "input" in body:
        reported = {"type": "cache_miss", "reason": "tools_changed", "cache_missed_tokens": 1200}
        return {"prompt_cache_diagnostics": reported}
    reported = {"type": "tools_changed", "cache_missed_input_tokens": 1200}
    return {"diagnostics": {"cache_miss_reason": reported}}


def without_reports(_body: dict[str, Any]) -> dict[str, Any]:
    """The provider made a comparison, and found nothing."""
    held = {"type": "reasoning", "id": "rs_1", "action": "removed", "reason": "turn_boundary"}
    return {
        "input_transformations": [held, {"type": "brand_new"}],
        "prompt_cache_diagnostics": {"type": "comparison_response_not_found"},
        "diagnostics": {"cache_miss_reason": {"type": "previous_message_not_found"}},
    }


def reporting(report: Report, *, always: bool = False, of: str = "tools") -> InProcess:
    """A provider that looks at the tools or the system prompt of the first request, and reports if later ones have
    others."""
    first: list[Any] = []

    def provider(request: HttpRequest, session: Handler) -> HttpResponse:
        body = json.loads(request.body)
        (body.get("thinking") or {}).pop("block_binding", None)  # needs a beta header
        response = session(replace(request, body=json.dumps(body).encode()))
        names = ("tools",) if of == "tools" else ("system", "instructions")
        first.append([body.get(name) for name in names])
        if first[-1] == first[0] and not (always and len(first) > 1):
            return response
        added = report(body)
        if "event-stream" not in response.headers["content-type"]:
            return replace(response, body=json.dumps(json.loads(response.body) | added).encode())
        return replace(response, body=b"".join(_with(line, added) for line in response.body.splitlines(keepends=True)))

    return InProcess(provider)


def _with(line: bytes, added: dict[str, Any]) -> bytes:
    """A line of a stream, whose message or response has further fields."""
    if not line.startswith(b"data: "):
        return line
    event = json.loads(line[6:])
    for name in ("message", "response"):
        if name in event and event["type"] != "message_delta":
            event[name] |= added
    return b"data: " + json.dumps(event).encode() + b"\n"


class _Second(Wrapped):
    """Changes every request but the first."""

    asked = 0

    def ask(self, request: ChatRequest) -> ChatRequest:
        self.asked += 1
        return replace(request, tools=request.tools[::-1]) if self.asked > 1 else request


reversed_later = client(_Second)


def scenario() -> Scenario:
    """A tool loop with reasoning, one call and two tools."""
    loop = shipped_scenarios()["thinking-tool-loop"]
    (turn,) = loop.turns
    other = loop.tools[0].model_copy(update={"name": "clock"})
    return loop.model_copy(
        update={
            "tools": [*loop.tools, other],
            "turns": [turn.model_copy(update={"model": [turn.model[0], turn.model[-1]]})],
        }
    )


def run_on(name: str, backend: InProcess, wrap: Wrap | None = None, variant: Variant = "whole") -> CellResult:
    shipped = shipped_targets()[name]
    chosen = shipped if wrap is None else replace(shipped, adapter=wrap(shipped.adapter))
    return Run(backend, RULES)([Cell(scenario(), chosen, variant)]).cells[0]


def of(rule: str, result: CellResult) -> list[Finding]:
    return [finding for finding in result.findings if finding.rule == rule]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", APIS)
def test_reasoning_that_the_provider_withheld_is_lost_and_the_change_before_it_is_named(
    name: str, variant: Variant
) -> None:
    result = run_on(name, reporting(dropped), reversed_later, variant)
    (finding,) = of("state-dropped", result)
    assert (finding.severity, finding.blame, finding.kind) == (Severity.ERROR, Blame.ADAPTER, Kind.LOSS)
    assert finding.message.endswith(CHANGE), finding.message
    assert (finding.of_response, finding.pointer, finding.exchange) == (True, "/input_transformations/0", 1)
    assert isinstance(finding.actual, dict)
    assert "prefix" in str(finding.actual["reason"])
    assert result.verdict is Verdict.FAIL


@pytest.mark.parametrize("name", APIS)
def test_reasoning_of_another_model_is_a_warning(name: str) -> None:
    (finding,) = of("state-dropped", run_on(name, reporting(of_another_model), reversed_later))
    assert finding.severity is Severity.WARNING
    assert "another model" in finding.remedy


def comparing() -> InProcess:
    """The reference server, with the question in each request why the cache of the request before was missed."""
    answered: list[str] = []

    def provider(request: HttpRequest, session: Handler) -> HttpResponse:
        body = json.loads(request.body)
        key, name = ("diagnostics", "previous_message_id")
        if "input" in body:
            key, name = ("prompt_cache_options", "comparison_response_id")
        asked = json.dumps({**body, key: {name: answered[-1]}} if answered else body).encode()
        response = session(replace(request, body=asked))
        answered.extend(re.findall(r'"id":\s*"((?:msg|resp)_\w+)"', response.body.decode())[:1])
        return response

    return InProcess(provider)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", APIS)
def test_a_cache_that_was_missed_is_a_note_with_its_tokens(name: str, variant: Variant) -> None:
    (finding,) = of("cache-missed", run_on(name, comparing(), reversed_later, variant))
    assert finding.kind is Kind.CONVENTION
    assert re.search(r"tools_changed, about [1-9]\d* tokens", finding.message)
    assert finding.message.endswith(CHANGE)
    assert not of("cache-missed", run_on(name, comparing(), None, variant))


def _keys_moved(_api: str, body: dict[str, Any]) -> None:
    for key in sorted(body, reverse=True):
        body[key] = body.pop(key)


@pytest.mark.parametrize("report", [dropped, missed])
@pytest.mark.parametrize("name", APIS)
def test_an_adapter_that_sends_its_keys_in_another_order_is_right(name: str, report: Report) -> None:
    result = run_on(name, reporting(report), sends(_keys_moved))
    assert result.verdict is Verdict.PASS, result.findings


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", APIS)
def test_a_report_without_a_loss_is_no_finding(name: str, variant: Variant) -> None:
    result = run_on(name, reporting(without_reports, always=True), None, variant)
    assert result.verdict is Verdict.PASS, result.findings


@pytest.mark.parametrize("name", APIS)
def test_an_audit_of_the_recording_reports_it_too(name: str) -> None:
    shipped = shipped_targets()[name]
    broken = replace(shipped, adapter=reversed_later(shipped.adapter))
    transcript = transcript_of(Cell(scenario(), broken, "whole"), reporting(dropped))
    working = Audit(RULES, SHIPPED.on(dt.date(2026, 11, 26)))  # the reference server's answers are of several days
    working.add("a.yaml", Cassette(tuple(Interaction(each.request, each.response) for each in transcript.exchanges)))
    found = [finding for cell in working.result().cells for finding in cell.findings if finding.rule == "state-dropped"]
    ((index, blame, severity, message),) = [(each.index, each.blame, each.severity, each.message) for each in found]
    assert (index, blame, severity) == (1, Blame.CLIENT, Severity.ERROR)
    assert message.endswith(CHANGE)


@pytest.mark.parametrize("name", APIS)
def test_a_system_prompt_that_the_caller_changed_is_a_note(name: str) -> None:
    """The provider looks at the system prompt; on GPT-6.2 `instructions` would not count."""
    changed = scenario().model_copy(update={"system": "Be brief."})
    turns = (changed.turns[0], changed.turns[0].model_copy(update={"system": "Be kind."}))
    asked = Cell(changed.model_copy(update={"turns": turns, "id": "twice"}), shipped_targets()[name], "whole")
    found = of("state-dropped", Run(reporting(dropped, of="system"), RULES)([asked]).cells[0])
    assert found
    assert {(each.severity, each.blame) for each in found} == {(Severity.NOTE, Blame.SCENARIO)}
    assert all(", as the scenario " in each.message for each in found)


def _drops_blocks(_api: str, body: dict[str, Any]) -> None:
    body["thinking"]["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}


def test_reasoning_that_the_adapter_lets_the_provider_drop_is_lost() -> None:
    adapter = sends(_drops_blocks)(reversed_later(shipped_targets()["anthropic"].adapter))
    (finding,) = of("state-dropped", run_on("anthropic", reporting(dropped), lambda _: adapter))
    assert finding.severity is Severity.ERROR


def test_reasoning_that_the_caller_lets_the_provider_drop_is_a_warning() -> None:
    asked = scenario()
    body = json.loads(transcript_of(Cell(asked, shipped_targets()["anthropic"], "whole")).exchanges[0].request.body)
    _drops_blocks("", body)
    settings = asked.settings.model_copy(update={"fields": {"anthropic": {"thinking": body["thinking"]}}})
    shipped = shipped_targets()["anthropic"]
    target = replace(shipped, adapter=reversed_later(shipped.adapter))
    cell = Cell(asked.model_copy(update={"settings": settings}), target, "whole")
    (finding,) = of("state-dropped", Run(reporting(dropped), RULES)([cell]).cells[0])
    assert finding.severity is Severity.WARNING
    assert ", as the request asks" in finding.message


def test_reasoning_that_a_recorded_client_lets_the_provider_drop_is_a_warning() -> None:
    adapter = sends(_drops_blocks)(reversed_later(shipped_targets()["anthropic"].adapter))
    broken = replace(shipped_targets()["anthropic"], adapter=adapter)
    transcript = transcript_of(Cell(scenario(), broken, "whole"), reporting(dropped))
    working = Audit(RULES, SHIPPED.on(dt.date(2026, 11, 26)))
    working.add("a.yaml", Cassette(tuple(Interaction(each.request, each.response) for each in transcript.exchanges)))
    found = [finding for cell in working.result().cells for finding in cell.findings if finding.rule == "state-dropped"]
    assert [each.severity for each in found] == [Severity.WARNING]
