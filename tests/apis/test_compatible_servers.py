"""Targets of compatible servers: what is declared of each, and how the reference server imitates it."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import pytest

from harness.adapters.openai_chat.servers import adapt
from harness.apis import registry
from harness.apis.eventstream import events
from harness.apis.fact import Fact
from harness.apis.matching import Conditions, RequestData, SchemaPlaces
from harness.apis.openai_chat.responses import fold
from harness.apis.profiles import servers, servers_of
from harness.apis.registry import Target
from harness.model.errors import Unsupported
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import ChatRequest, Thinking
from harness.model.protocols import Endpoint
from harness.reference_server.script_session import ScriptSession
from harness.results import CellResult, Verdict
from harness.rules.rule import all_rules
from harness.runner.cells import Cell
from harness.runner.suite_run import Run
from harness.runner.tool_loop import run_scenario
from harness.scenarios.schema import Variant
from harness.stdio import adapter_specs
from tests.backends import InProcess, shipped_scenarios
from tests.traffic import needs_traffic
from tests.traffic import recorded as traffic

PROFILE = registry.api("openai-chat").profile_for("")
NAMES = [server.name for server in servers()]

SAMPLE = (
    *("call-parallel-twice", "call-sequential", "system-with-tools", "json-mode-unmentioned", "choice-named"),
    *("settings-stop", "settings-sampling", "history-anthropic-ids", "history-two-turns", "json-schema"),
)


def of(name: str) -> Target:
    shipped = registry.target_named(name)
    return registry.target_for(shipped, adapter_specs.adapter(shipped.adapter), {})


def run_cells(at_target: Target, *scenarios: str, variant: Variant = "whole") -> list[CellResult]:
    found = [Cell(shipped_scenarios()[each], at_target, variant) for each in scenarios]
    return [*Run(InProcess(), all_rules())(found).cells]


def test_a_live_run_at_the_address_of_a_server_has_its_rules() -> None:
    for server in servers():
        api = registry.api(server.api)
        found = api.services.rules_at(api.profile_for(server.model), server.model, server.url).service
        any_port = server.service in ("vllm", "llama-cpp")  # no port is theirs alone
        assert found == ("other" if any_port else server.service), server.name


@pytest.mark.parametrize("name", NAMES)
def test_the_shipped_adapter_passes_at_every_server(name: str) -> None:
    first = NAMES.index(name)  # each server plays other two of the sample
    whole, stream = (SAMPLE[(first + step) % len(SAMPLE)] for step in (0, 5))
    cells = [*run_cells(of(name), whole), *run_cells(of(name), stream, variant="stream")]
    assert {cell.verdict for cell in cells} <= {Verdict.PASS, Verdict.WARN, Verdict.NOT_APPLICABLE}
    assert any(cell.verdict is Verdict.PASS for cell in cells)


def test_a_server_whose_streams_were_recorded_sends_no_chunks_of_others() -> None:
    cells = [Cell(shipped_scenarios()["call-single"], of(name), "stream") for name in ("mistral", "cerebras")]
    mistral, cerebras = Run(InProcess(), all_rules(), recuts=1)(cells).cells

    assert 0 < mistral.recuts < cerebras.recuts  # how Cerebras streams is not recorded


def test_a_refusal_applies_to_no_server_whose_messages_have_no_field_for_it() -> None:
    verdicts = {name: run_cells(of(name), "stop-refusal")[0].verdict for name in ("mistral", "groq", "openrouter")}

    assert verdicts == {
        "mistral": Verdict.NOT_APPLICABLE,
        "groq": Verdict.NOT_APPLICABLE,
        "openrouter": Verdict.PASS,
    }


BLIND = {
    "mistral": ("history-anthropic-ids", "openai-chat-call-id-mistral"),
    "minimax": ("json-mode-unmentioned", "openai-chat-minimax-one-system"),
    "vllm": ("json-mode-unmentioned", "openai-chat-vllm-qwen-system-first"),
    "llama-cpp": ("json-mode-unmentioned", "openai-chat-llama-cpp-qwen-system-first"),
    "xai": ("settings-stop", "openai-chat-xai-stop-refused"),
    "moonshot": ("settings-sampling", "openai-chat-moonshot-temperature-fixed-thinking-absent"),
}


@pytest.mark.parametrize("name", BLIND)
def test_an_adapter_that_sends_every_server_what_openai_takes_is_found(name: str) -> None:
    scenario, rule = BLIND[name]
    server = of(name)

    def connect(endpoint: Endpoint, model: str) -> Any:
        return server.adapter.connect(replace(endpoint, server=None), model)

    blind = replace(server, adapter=replace(server.adapter, connect=connect))
    assert rule in {finding.rule for cell in run_cells(blind, scenario) for finding in cell.findings}
    assert run_cells(server, scenario)[0].verdict in (Verdict.PASS, Verdict.NOT_APPLICABLE)


def test_an_adapter_that_drops_the_reasoning_which_a_server_wants_back_is_found() -> None:
    server = of("deepseek")

    class Forgetful:
        def __init__(self, client: Any) -> None:
            self.client = client

        def chat(self, request: ChatRequest) -> Any:
            messages = [
                replace(each, parts=tuple(part for part in each.parts if not isinstance(part, Thinking)))
                for each in request.messages
            ]
            return self.client.chat(replace(request, messages=tuple(messages)))

        def close(self) -> None:
            self.client.close()

    def connect(endpoint: Endpoint, model: str) -> Any:
        return Forgetful(server.adapter.connect(endpoint, model))

    forgetful = replace(server, adapter=replace(server.adapter, connect=connect))
    found = {finding.rule for cell in run_cells(forgetful, "call-single") for finding in cell.findings}
    assert "opaque-state-lost" in found
    assert run_cells(server, "call-single")[0].verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("server", "body"),
    [
        ("deepseek", {"messages": [], "response_format": {"type": "json_schema"}}),
        ("deepseek", {"messages": [], "tool_choice": "required"}),
        ("ollama", {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}),
        ("llama-cpp", {"messages": [{"role": "user", "content": [{"type": "file"}]}]}),
        ("lm-studio", {"messages": [], "response_format": {"type": "json_object"}}),
        ("lm-studio", {"messages": [], "tool_choice": {"type": "function", "function": {"name": "f"}}}),
    ],
)
def test_what_a_server_lacks_is_declined_before_anything_is_sent(server: str, body: dict[str, Any]) -> None:
    with pytest.raises(Unsupported, match=server):
        adapt(body, server)
    assert adapt(body, "groq") == body


def document(response: HttpResponse) -> dict[str, Any]:
    """A response as the conditions in `answers` of a fact see it."""
    if not response.body.startswith((b"data:", b":", b"event:")):
        return {"status": response.status, "body": json.loads(response.body)}
    sent = [each.data for each in events(response.body)]
    chunks = [json.loads(each) for each in sent if each != "[DONE]"]
    comments = [line.decode() for line in response.body.splitlines() if line.startswith(b":")]
    return {
        "status": response.status,
        "body": fold(response.body)[0],
        "chunks": chunks,
        "comments": comments,
        "done": "[DONE]" in sent,
    }


def meets(fact: Fact, response: HttpResponse) -> bool:
    return Conditions(fact.answers).first_match(RequestData(document(response), {}, SchemaPlaces())) is not None


@cache
def answered_by(name: str) -> list[HttpResponse]:
    """What the reference server answers for a target: a text, two calls, and a refusal, whole and streamed."""
    found: list[HttpResponse] = []
    at_target = replace(of(name), adapter=adapter_specs.adapter("openai-chat"))
    for scenario, variant in product(("system-plain", "call-parallel-twice"), ("whole", "stream")):
        cell = Cell(shipped_scenarios()[scenario], at_target, variant)
        with InProcess().open_cell(cell) as environment:
            run_scenario(cell.scenario, at_target, environment.endpoint, lambda _: None, variant)
        found += [each.response for each in environment.log.exchanges if each.response]
    profile = at_target.profile
    session = ScriptSession(shipped_scenarios()["system-plain"], registry.api("openai-chat"), "", profile)
    found.append(
        session(
            HttpRequest("POST", "https://example.com/v1/chat/completions", {}, b'{"model": "gpt-5.6", "messages": []}')
        )
    )
    return found


@pytest.mark.parametrize(("name", "is_named"), [("groq", True), ("azure", False)])
def test_an_error_in_a_stream_of_groq_is_an_event_with_a_status(name: str, is_named: bool) -> None:
    cell = Cell(shipped_scenarios()["stream-error-behind-text"], of(name), "stream")
    with InProcess().open_cell(cell) as environment:
        run = run_scenario(cell.scenario, of(name), environment.endpoint, lambda _: None, "stream")
    answer = environment.log.exchanges[0].response
    assert answer is not None
    assert (answer.status, run.chats[0].error) == (200, "Overloaded" if is_named else "ServerError")
    assert (b'event: error\ndata: {"error":' in answer.body, b'"status_code":529}' in answer.body) == (is_named,) * 2


ANSWERING = [
    (fact, name)
    for fact in registry.api("openai-chat").facts.all()
    if fact.answers
    for name in (each.name for each in servers_of("openai-chat") if each.service in (fact.service or ()))
]


@pytest.mark.parametrize(("fact", "name"), ANSWERING, ids=lambda each: each if isinstance(each, str) else each.id)
def test_the_reference_server_answers_as_the_facts_about_a_server_say(fact: Fact, name: str) -> None:
    assert any(meets(fact, each) for each in answered_by(name))
    assert not any(meets(fact, each) for each in answered_by("azure"))  # OpenAI's own form


@needs_traffic
@pytest.mark.parametrize(
    ("fact", "name"),
    [each for each in ANSWERING if any(one.kind == "captured" and "/tree/" in one.address for one in each[0].evidence)],
    ids=lambda each: each if isinstance(each, str) else each.id,
)
def test_a_recording_answers_as_the_facts_about_a_server_say(fact: Fact, name: str) -> None:
    service = registry.target_named(name).service
    responses = [
        each.response
        for folder in ("openai-compat-chat", "errors/openai-compat-chat")
        for each in traffic(folder)
        if registry.api("openai-chat").services.rules_at(PROFILE, "", each.request.url).service == service
    ]
    assert any(meets(fact, each) for each in responses)


def _shape(stream: bytes) -> set[str]:
    """What of a stream the servers do differently."""
    found: set[str] = set()
    chunks: list[dict[str, Any]] = [json.loads(each.data) for each in events(stream) if each.data != "[DONE]"]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk.get("choices") or []]
    for delta in deltas:
        found |= {key for key in delta if key.startswith("reasoning") and delta[key]}
        for call in delta.get("tool_calls") or []:
            if call.get("id"):
                found.add("whole" if call["function"].get("arguments") else "pieces")
    counted = [chunk for chunk in chunks if chunk.get("usage")]
    if counted:
        found.add("counts at the end" if not counted[-1].get("choices") else "counts in the last chunk")
    return found


@needs_traffic
@pytest.mark.parametrize("name", [server.name for server in servers_of("openai-chat") if server.recorded])
def test_streams_have_the_shape_that_was_recorded(name: str) -> None:
    server = registry.target_named(name)
    recorded = [
        each.response.body
        for each in traffic("openai-compat-chat")
        if registry.api("openai-chat").services.rules_at(PROFILE, "", each.request.url).service == server.service
        and each.response.body.startswith((b"data:", b":"))
        and b'"tool_calls"' in each.response.body
    ]
    assert recorded
    with InProcess().open_cell(Cell(shipped_scenarios()["call-single"], of(name), "stream")) as environment:
        run_scenario(shipped_scenarios()["call-single"], of(name), environment.endpoint, lambda _: None, "stream")
    answer = environment.log.exchanges[0].response
    assert answer is not None
    assert _shape(answer.body) == _shape(max(recorded, key=len))
