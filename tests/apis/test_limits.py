"""Limits of requests whose bodies are odd or unreadable, or that hold by place; `test_examples` has all others."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import chain
from typing import Any

import pytest

from harness.apis import registry
from harness.apis.examples import request_of
from harness.apis.fact import Fact
from harness.apis.limits import Violation, remedy
from harness.apis.openai_chat.checks import limit
from harness.apis.openai_common import open_objects, schema_nodes
from harness.apis.registry import Profile
from harness.apis.view import WireError
from harness.model.http import HttpRequest
from tests.apis.samples import MODELS, oddities, resolve, strict_validator, violations

ANTHROPIC = "https://api.anthropic.com/v1/messages"
BEDROCK = "https://bedrock-runtime.us-east-1.amazonaws.com"
GEMINI = "https://generativelanguage.googleapis.com/v1beta/models/{model}:generateContent"
VERTEX = (
    "https://aiplatform.googleapis.com/v1beta1/projects/p/locations/l/publishers/google/models/{model}:generateContent"
)
URLS = {
    "anthropic": ANTHROPIC,
    "openai-chat": "https://api.openai.com/v1/chat/completions",
    "openai-responses": "https://api.openai.com/v1/responses",
    "gemini": GEMINI.format(model="gemini-3.5-flash"),
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


def chat_call(call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}


def item(kind: str, call_id: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "call_id": call_id, **fields}


def gemini_call(name: str, call_id: str, **fields: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {"city": "Paris"}, "id": call_id}, **fields}


USER: dict[str, Any] = {"role": "user", "content": "Weather in Paris and Tokyo?"}
REASONING: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
CALL = item("function_call", "call_a", name="get_weather", arguments='{"city":"Paris"}')
OUTPUT = item("function_call_output", "call_a", output="18")
FUNCTION = {"name": "get_weather", "description": "Current weather.", "parameters": SCHEMA, "strict": True}
RESPONSES_TOOL = {"type": "function", **FUNCTION}
GOOD: dict[str, dict[str, Any]] = {
    "anthropic": {
        "model": "claude-sonnet-4-5",
        "max_tokens": 4096,
        "messages": [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "", "signature": "c2ln"},
                    {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}},
                    {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                    {"type": "tool_use", "id": "call_0-x", "name": "f", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_0-x"},
                    {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "y"}]},
                    {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
                ],
            },
            USER,
        ],
        "system": [{"type": "text", "text": "Be brief."}],
        "tools": [
            {"name": "f", "strict": True, "input_schema": {**SCHEMA, "required": []}, "input_examples": [{}]},
            {"type": "web_search_20250305", "name": "web_search"},
        ],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
        "stop_sequences": ["END"],
        "metadata": {"user_id": "u"},
    },
    "openai-chat": {
        "model": "gpt-4o",
        "messages": [
            {"role": "system", "content": "Be brief."},
            USER,
            {"role": "assistant", "content": None, "tool_calls": [chat_call("call_1"), chat_call("call_2")]},
            {"role": "tool", "tool_call_id": "call_2", "content": "18"},
            {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "19"}]},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]},
        ],
        "tools": [
            {"type": "function", "function": FUNCTION},
            {"type": "function", "function": {"name": "no_arguments"}},
        ],
        "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
        "stream": True,
        "stream_options": {"include_usage": True},
    },
    "openai-responses": {
        "model": "gpt-6-sol",
        "instructions": "Be brief.",
        "input": [
            USER,
            REASONING,
            {**CALL, "id": "fc_a"},
            {**CALL, "call_id": "call_b"},
            {**OUTPUT, "call_id": "call_b"},
            {**OUTPUT, "output": [{"type": "input_text", "text": "18"}]},
            {"role": "developer", "content": "Now in French."},
            {"role": "assistant", "content": ""},
        ],
        "tools": [RESPONSES_TOOL],
        "tool_choice": {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "get_weather"}],
        },
        "text": {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}},
        "stream": True,
        "stream_options": {"include_obfuscation": False},
    },
    "gemini": {
        "contents": [
            {"role": "user", "parts": [{"text": "Weather in Paris and Tokyo?"}]},
            {
                "role": "model",
                "parts": [gemini_call("get_weather", "a1", thoughtSignature="QUJD"), gemini_call("get_time", "a2")],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "get_weather", "response": {"output": 18}, "id": "a1"}},
                    {"functionResponse": {"name": "get_time", "response": {"output": 18}, "id": "a2"}},
                ],
            },
        ],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "get_weather",
                        "parameters": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}},
                    },
                    {"name": "get_time", "parametersJsonSchema": {"type": "object", "$defs": {}}},
                    {"name": "no_arguments", "parameters": {"type": "OBJECT", "properties": {}}},
                ]
            }
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["get_time"]}},
        "generationConfig": {"maxOutputTokens": 100, "thinkingConfig": {"includeThoughts": True}},
    },
}
"""A request of each API that uses most of its fields."""


def found(
    api: str,
    body: Any,
    *,
    url: str | None = None,
    profile: Profile | None = None,
    headers: dict[str, str] | None = None,
) -> list[Violation]:
    """The violations of a body; each leads to a place in it."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    seen = violations(registry.api(api), HttpRequest("POST", url or URLS[api], headers or {}, raw), profile)
    for each in seen:
        assert each.message
        if not isinstance(body, bytes):
            resolve(body, each.pointer)
    return seen


def rules(api: str, body: Any, **options: Any) -> list[str]:
    return [each.rule.removeprefix(f"{api}-") for each in found(api, body, **options)]


@pytest.mark.parametrize("api", MODELS)
def test_a_good_request_has_no_violation_here_and_elsewhere(api: str) -> None:
    assert found(api, GOOD[api]) == []
    for url in ("http://127.0.0.1:9", "https://llm.example.com/openai"):
        path = URLS[api].partition("/v1")
        assert found(api, GOOD[api], url=f"{url}/v1{path[2]}") == []


@pytest.mark.parametrize("api", MODELS)
def test_a_good_request_has_the_types_of_the_sdk(api: str) -> None:
    body = GOOD[api]
    if api == "gemini":
        types = pytest.importorskip("google.genai.types")
        for content in [*body["contents"], body["systemInstruction"]]:
            types.Content.model_validate(content)
        for tool in body["tools"]:
            types.Tool.model_validate(tool)
        types.ToolConfig.model_validate(body["toolConfig"])
        types.GenerationConfig.model_validate(body["generationConfig"])
        return
    strict_validator(_parameters(api)).validate_python(body, strict=True)


def _parameters(api: str) -> Any:
    """The SDK's type of a request."""
    if api == "anthropic":
        return pytest.importorskip("anthropic.types.message_create_params").MessageCreateParamsNonStreaming
    if api == "openai-chat":
        return pytest.importorskip("openai.types.chat.completion_create_params").CompletionCreateParamsStreaming
    return pytest.importorskip("openai.types.responses.response_create_params").ResponseCreateParamsStreaming


def test_wrong_types_of_chat_are_wrong_for_the_sdk_too() -> None:
    from pydantic import ValidationError

    params = pytest.importorskip("openai.types.chat.completion_create_params")
    api = registry.api("openai-chat")
    names = ("role-unknown", "content-type", "arguments-type", "call-id-missing", "call-name-missing", "call-type")
    refused = chain(*(api.facts.limits[f"openai-chat-{each}"][1].refuses for each in names))
    bodies = [json.loads(request_of(api, api.facts.bases, each, "gpt-4.1", "").body) for each in refused]
    assert len(bodies) > 6
    for body in bodies:
        with pytest.raises(ValidationError):
            strict_validator(params.CompletionCreateParamsNonStreaming).validate_python(body, strict=True)
    known = (
        params.CompletionCreateParamsNonStreaming.__annotations__ | params.CompletionCreateParamsBase.__annotations__
    )
    assert set(known) | {"stream"} == limit.fields.keys()


@pytest.mark.parametrize("api", MODELS)
def test_odd_values_make_neither_limits_nor_views_raise(api: str) -> None:
    flagged = total = 0
    for number, body in enumerate(oddities(GOOD[api])):
        if number % 5 == 0:  # which takes each odd value in turn
            flagged += bool(found(api, body))
            total += 1
            with suppress(WireError):
                registry.api(api).view(HttpRequest("POST", URLS[api], {}, json.dumps(body).encode()))
    assert total > 100
    assert flagged > total / 2


@pytest.mark.parametrize("api", MODELS)
@pytest.mark.parametrize("body", [b"", b"{", b'{"a": NaN}', b"\xff", b"[" * 100_000])
def test_a_body_that_cannot_be_read_is_a_violation(api: str, body: bytes) -> None:
    (seen,) = found(api, body)
    assert (seen.rule, seen.severity, seen.status) == (f"{api}-body", "error", 400)


def test_a_body_that_is_too_large_is_a_violation_of_its_own() -> None:
    (seen,) = found("anthropic", b" " * (32 * 1024 * 1024 + 1))
    assert (seen.rule, seen.status) == ("anthropic-body-size", 413)


# Anthropic

OPUS = registry.api("anthropic").profile_for("claude-opus-5-5")
MESSAGES: dict[str, Any] = {"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}


@pytest.mark.parametrize(
    ("url", "known"),
    [
        (ANTHROPIC, True),
        ("https://us-east5-aiplatform.googleapis.com/v1/publishers/anthropic/models/claude-opus-5-5:rawPredict", True),
        (f"{BEDROCK}/model/claude-opus-5-5/invoke", False),
        (f"{BEDROCK}/anthropic/v1/messages", False),
        ("https://bedrock-mantle.us-east-1.api.aws/anthropic/v1/messages", False),
        # The form is Bedrock's, whatever a recording says of the host.
        ("https://api.anthropic.com/model/claude-opus-5-5/invoke", False),
    ],
)
def test_bedrock_accepts_tools_that_the_provider_s_own_service_does_not(url: str, *, known: bool) -> None:
    version = "vertex-2023-10-16" if "aiplatform" in url else "bedrock-2023-05-31"
    in_body = {"model": "claude-opus-5-5"} if url.endswith("messages") else {"anthropic_version": version}
    body = {**MESSAGES, **in_body, "tools": [{"type": "computer_20251124", "name": "computer"}]}
    assert rules("anthropic", body, url=url, profile=OPUS) == ["tool-type"] * known
    extra = {**MESSAGES, **in_body, "frequency_penalty": 1}
    assert "extra-input" in rules("anthropic", extra, url=url, profile=OPUS)


def test_what_no_limit_of_anthropic_refuses() -> None:
    server_call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    server_result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    user, paused = MESSAGES["messages"][0], {"role": "assistant", "content": [server_call, server_result]}
    directive = {"role": "system", "content": [], "output_config": {"effort": "low"}}  # anthropic-system-directive
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(200):
        schema = {"type": "object", "properties": {"inner": schema}}  # too deep to judge
    for changes in (
        {"messages": [user, paused]},
        {"messages": [directive, user]},
        {"messages": [user, {"role": "assistant", "content": "x"}, directive]},
        {"tools": [{"name": "f", "input_schema": schema, "input_examples": [{}]}]},
    ):
        body = {"model": "claude-opus-5-5", **MESSAGES, **changes}
        assert rules("anthropic", body, headers={"anthropic-beta": "of another day"}) == []


def test_a_recording_without_headers_is_not_blamed_for_its_betas() -> None:
    body = {"model": "claude-opus-5-5", **MESSAGES, "context_management": {"edits": []}}
    for versions, broken in (({}, False), ({"anthropic-version": "2023-06-01"}, True)):
        assert ("extra-input" in rules("anthropic", body, headers=versions)) is broken


@pytest.mark.parametrize(
    ("headers", "body", "refused"),
    [
        ({"accept": "*/*", "anthropic-version": "2023-06-01"}, b"{}", False),
        ({"accept": "*/*"}, b"{}", True),
        ({"accept": "*/*", "anthropic-version": "2023-06-01, 2023-06-01"}, b"{}", True),
        ({"accept": "*/*"}, b'{"anthropic_version": "bedrock-2023-05-31"}', False),
        ({}, b"{}", False),  # a recording may have lost them
    ],
)
def test_the_version_is_in_the_header_once(headers: dict[str, str], body: bytes, *, refused: bool) -> None:
    seen = registry.api("anthropic").header_violation(HttpRequest("POST", ANTHROPIC, headers, body))
    assert (seen is not None and seen.limit.id == "anthropic-version") is refused


@pytest.mark.parametrize(("path", "broken"), [("deployments/x", False), ("v1", True)])
def test_azure_names_the_model_in_the_path_or_in_the_body(path: str, *, broken: bool) -> None:
    body = {key: value for key, value in GOOD["openai-chat"].items() if key != "model"}
    url = f"https://x.openai.azure.com/openai/{path}/chat/completions"
    assert ("model-missing" in rules("openai-chat", body, url=url)) is broken


# OpenAI Responses; its schemas are read as those of Chat


def responses(*items: Any, **fields: Any) -> list[str]:
    return rules("openai-responses", {"model": "gpt-6-sol", "input": list(items), "tools": [RESPONSES_TOOL], **fields})


def test_an_output_without_call_is_an_orphan_unless_the_server_may_know_the_call() -> None:
    assert responses(USER, OUTPUT) == ["result-orphan"]
    assert responses(OUTPUT, previous_response_id="resp_1") == responses(OUTPUT, conversation="conv_1") == []
    assert responses({"type": "item_reference", "id": "fc_1"}, OUTPUT) == []


@pytest.mark.parametrize(
    ("after", "alone"),
    [
        ([CALL, OUTPUT], False),
        ([{"type": "reasoning", "id": "rs_2", "summary": []}, CALL, OUTPUT], False),
        ([{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []}], False),
        ([{"role": "assistant", "content": "Hi"}], True),
        ([USER], True),
        ([], True),
    ],
)
def test_stored_reasoning_comes_before_what_it_led_to(after: list[Any], *, alone: bool) -> None:
    assert responses(USER, REASONING, *after) == (["reasoning-alone"] if alone else [])
    assert responses(USER, REASONING, *after, store=False) == []
    assert responses(USER, {**REASONING, "id": None}, *after) == []


def test_json_mode_needs_the_word_in_the_input() -> None:
    mode = {"model": "gpt-6-sol", "text": {"format": {"type": "json_object"}}}
    assert rules("openai-responses", {**mode, "input": "Answer as JSON."}) == []
    assert rules("openai-responses", {**mode, "input": "Answer."}) != []


def test_strict_holds_at_every_depth() -> None:
    inner = {"type": "object", "properties": {"a/b": {"type": "object", "properties": {}}}, "required": ["a/b"]}
    parameters = {
        **SCHEMA,
        "properties": {"city": {"anyOf": [{"type": "array", "items": inner}, {"$ref": "#/$defs/p"}, {"type": "null"}]}},
        "$defs": {"p": {"type": ["object", "null"], "additionalProperties": False}},
    }
    body = {"model": "gpt-6-sol", "input": "Hi", "tools": [{**RESPONSES_TOOL, "parameters": parameters}]}
    inside = "/tools/0/parameters/properties/city/anyOf/0/items"
    seen = found("openai-responses", body)
    assert [(each.rule, each.pointer) for each in seen] == [
        ("openai-responses-tool-strict-schema", inside),
        ("openai-responses-tool-strict-schema", f"{inside}/properties/a~1b"),
    ]
    body["tools"] = [{**RESPONSES_TOOL, "parameters": parameters, "strict": False}]
    assert found("openai-responses", body) == []


def test_a_schema_nested_more_deeply_than_the_stack() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(3000):
        schema = {"type": "array", "items": schema}
    ((pointer, _, _),) = open_objects(schema_nodes(schema, "", ["items"]))
    assert pointer == "/items" * 3000


# Gemini


def test_the_provider_names_the_place_of_an_unknown_field_in_its_own_spelling() -> None:
    declaration = {"name": "f", "parameters": {"type": "OBJECT", "$ref": "#"}}
    body = {**GOOD["gemini"], "tools": [{"functionDeclarations": [declaration]}]}
    assert any(
        "Unknown name \"$ref\" at 'tools[0].function_declarations[0].parameters'" in each.message
        for each in found("gemini", body)
    )


def test_what_vertex_and_the_developer_api_refuse() -> None:
    hi = {"parts": [{"text": "Hi"}]}
    unsigned = [
        {"role": "user", **hi},
        {"role": "model", "parts": [gemini_call("f", "x" * 80)]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "id": "x" * 80, "response": {}}}]},
    ]
    for url, role in ((GEMINI, []), (VERTEX, ["role"])):
        address = url.format(model="gemini-3.5-flash")
        assert rules("gemini", {"contents": [hi]}, url=address) == role
        (seen,) = found("gemini", {"contents": unsigned}, url=address)
        assert "default_api:f" in seen.message
        assert seen.pointer == "/contents/1/parts/0"
    assert found("gemini", {"contents": unsigned}, url=GEMINI.format(model="gemini-2.5-flash")) == []


@pytest.mark.parametrize("depth", [450, 5000])
def test_a_schema_nested_too_deeply_is_a_wire_error_and_a_violation(depth: int) -> None:
    schema = '{"items":' * depth + "{}" + "}" * depth
    tools = [{"functionDeclarations": [{"name": "f", "parameters": "SCHEMA"}]}]
    body = json.dumps({"contents": [{"parts": [{"text": "Hi"}]}], "tools": tools}).replace('"SCHEMA"', schema).encode()
    with pytest.raises(WireError, match="nested too deeply"):
        registry.api("gemini").view(HttpRequest("POST", URLS["gemini"], {}, body))
    assert rules("gemini", body) == ["body"]


OPERANDS: dict[str, object] = {
    **dict.fromkeys(("is", "over", "under", "longer", "bytes", "pixels"), 1),
    **{each: [1] for each in ("in", "out", "not_in", "every", "only")},
    **dict.fromkeys(("there", "repeated", "empty"), True),
    **dict.fromkeys(("like", "unlike", "outside"), "b"),
    **dict.fromkeys(("kind", "members"), "null"),
    **{each: ["b"] for each in ("beside", "unknown")},
    "not_kind": ["null"],
}


@pytest.mark.parametrize("operator", OPERANDS)
def test_each_operator_of_a_condition_has_a_remedy(operator: str) -> None:
    fact = {
        "id": "openai-chat-mine",
        "verdict": "refused",
        "says": "It is refused.",
        "evidence": [{"kind": "report", "date": "2026-11-27", "address": "https://example.com"}],
        "when": [{"at": "a", operator: OPERANDS[operator]}],
    }
    assert remedy(Fact.model_validate_json(json.dumps(fact)))
