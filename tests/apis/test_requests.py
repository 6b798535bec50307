"""Bodies of requests → neutral views, for each API over HTTP."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from harness.apis import registry
from harness.apis.view import (
    CallView,
    ChoiceView,
    FormatView,
    JsonView,
    MediaView,
    OpaqueView,
    RequestView,
    ResultView,
    SettingView,
    SystemView,
    TextView,
    ToolView,
    WireError,
)
from harness.equivalence.view_differences import alike
from harness.model.http import HttpRequest
from tests.apis.samples import MODELS, resolve, violations, without_pointers

A, C, R, G = "anthropic", "openai-chat", "openai-responses", "gemini"
URLS = {
    A: "https://api.anthropic.com/v1/messages",
    C: "https://api.openai.com/v1/chat/completions",
    R: "https://api.openai.com/v1/responses",
    G: "https://generativelanguage.googleapis.com/v1beta/models/gemini-3.5-flash:generateContent",
}
AZURE = "https://x.openai.azure.com/openai/deployments/my-gpt/chat/completions?api-version=1"
VERTEX = (
    "https://aiplatform.googleapis.com/v1beta1/projects/p/locations/global/publishers/google/models/"
    "gemini-2.5-flash:streamGenerateContent?alt=sse"
)
LEAST: dict[str, dict[str, Any]] = {
    A: {"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]},
    C: {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]},
    R: {"model": "gpt-6-sol", "input": "Hi"},
    G: {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PNG = base64.b64encode(b"\x89PNG").decode()


def post(body: Any, url: str, method: str = "POST") -> HttpRequest:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return HttpRequest(method, url, {"content-type": "application/json"}, raw)


def view(api: str, **body: Any) -> RequestView:
    return registry.api(api).view(post({**LEAST[api], **body}, URLS[api]))


def turns(api: str, *entries: Any) -> RequestView:
    return view(api, **{{R: "input", G: "contents"}.get(api, "messages"): list(entries)})


def parts(api: str, *content: Any, role: str = "user") -> tuple[Any, ...]:
    """The parts of a turn with this content."""
    if api == G:
        return turns(api, {"role": role.replace("assistant", "model"), "parts": list(content)}).turns[0].parts
    return turns(api, {"role": role, "content": list(content)}).turns[0].parts


def call(api: str, raw: dict[str, Any]) -> CallView:
    """A call as the view has it."""
    if api == C:
        return turns(C, {"role": "assistant", "tool_calls": [raw]}).calls[0]
    return turns(R, raw).calls[0] if api == R else parts(api, raw, role="assistant")[0]


def result(api: str, **fields: Any) -> ResultView:
    """A result with these fields as the view has it."""
    if api == A:
        return parts(A, {"type": "tool_result", "tool_use_id": "a", **fields})[0]
    if api == G:
        return parts(G, {"functionResponse": {"name": "f", **fields}})[0]
    entry = {C: {"role": "tool", "tool_call_id": "a"}, R: {"type": "function_call_output", "call_id": "a"}}[api]
    return turns(api, {**entry, **fields}).results[0]


def chat_call(arguments: Any, call_id: str = "a") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": arguments}}


def item(arguments: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": "a", "name": "f", "arguments": arguments}


# The request as a whole


@pytest.mark.parametrize(
    ("api", "url", "body", "known"),
    [
        (A, URLS[A], {"messages": [], "max_tokens": 1}, True),
        (A, "http://127.0.0.1:8000/proxy/v1/messages?beta=true", {"messages": [], "max_tokens": 1}, True),
        (A, URLS[A] + "/count_tokens", {"messages": [], "max_tokens": 1}, False),
        (A, URLS[A], {"messages": []}, False),
        (A, URLS[A], [], False),
        (C, "https://api.groq.com/openai/v1/chat/completions", {"messages": []}, True),
        (C, "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions?key=x", {"messages": []}, True),
        (C, "http://127.0.0.1:8080/chat/completions", {"messages": []}, True),
        (C, URLS[R], {"messages": []}, False),
        (C, URLS[C], {"input": "hi"}, False),
        (C, URLS[C], ["messages"], False),
        (R, URLS[R], {"input": "x"}, True),
        (R, "http://127.0.0.1:9/proxy/openai/responses?api-version=1", {"input": []}, True),
        (R, URLS[R], {"previous_response_id": "resp_1"}, True),
        (R, URLS[R], {"prompt": {"id": "pmpt_1"}}, True),
        (R, URLS[R], {"conversation": "conv_1"}, True),
        (R, URLS[R], {"messages": []}, False),
        (R, URLS[R], [], False),
        (R, URLS[R] + "/resp_1/cancel", {"input": "x"}, False),
        (R, URLS[C], {"input": "x"}, False),
        (G, VERTEX, {}, True),
        (G, "http://127.0.0.1:1/v1/models/gemini-2.5-pro:streamGenerateContent?alt=sse", {}, True),
        (G, "http://h/v1beta/models/gemini-2.5-pro%3AgenerateContent", {}, True),
        (G, "http://h/v1beta/models/gemini-2.5-pro:countTokens", {}, False),
        (G, "http://h/v1/messages", {}, False),
    ],
)
def test_a_chat_is_recognised_by_its_path_and_body(api: str, url: str, body: Any, known: bool) -> None:
    assert registry.api(api).recognises(post(body, url)) is known


@pytest.mark.parametrize("api", MODELS)
def test_only_posts_are_recognised(api: str) -> None:
    assert registry.api(api).recognises(post(LEAST[api], URLS[api]))
    assert not registry.api(api).recognises(post(LEAST[api], URLS[api], "GET"))


@pytest.mark.parametrize(
    ("api", "url", "body", "model"),
    [
        *((api, URLS[api], LEAST[api], LEAST[api].get("model", "gemini-3.5-flash")) for api in LEAST),
        (C, AZURE, {"model": "gpt-4o", "messages": []}, "gpt-4o"),
        (C, AZURE, {"messages": []}, "my-gpt"),
        (C, URLS[C], {"messages": []}, None),
        (R, URLS[R], {}, None),
        (G, VERTEX, {}, "gemini-2.5-flash"),
        (G, "http://h/v1/messages", {}, None),
        *((api, URLS[api], b"{", None) for api in (A, C, R)),
    ],
)
def test_the_model_is_in_the_body_or_the_path(api: str, url: str, body: Any, model: str | None) -> None:
    assert registry.api(api).model_of(post(body, url)) == model


@pytest.mark.parametrize(
    ("path", "model", "stream"),
    [
        ("model/us.anthropic.claude-sonnet-4-5-v1%3A0/invoke", "us.anthropic.claude-sonnet-4-5-v1:0", False),
        ("model/anthropic.claude/invoke-with-response-stream", "anthropic.claude", True),
        ("v1/publishers/anthropic/models/claude-opus-4-8:rawPredict", "claude-opus-4-8", False),
        ("v1/publishers/anthropic/models/claude-opus-4-8:streamRawPredict", "claude-opus-4-8", True),
    ],
)
def test_clouds_take_anthropic_s_body_with_the_model_in_the_path(path: str, model: str, stream: bool) -> None:
    body = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    request, api = post(body, f"https://host.invalid/{path}"), registry.api(A)
    assert api.recognises(request)
    assert api.model_of(request) == model
    assert (api.view(request).model, api.view(request).stream) == (model, stream)
    assert violations(api, request, api.profile_for(model)) == []
    assert not api.recognises(post({"messages": []}, request.url))


def test_gemini_s_path_asks_for_a_stream() -> None:
    assert [registry.api(G).view(post(LEAST[G], url)).stream for url in (URLS[G], VERTEX)] == [False, True]
    for method, form in (("?alt=sse", "events"), ("", "json-array")):
        request = post(LEAST[G], f"http://h/v1/models/m:streamGenerateContent{method}")
        assert registry.api(G).view(request).stream_format == form


@pytest.mark.parametrize(
    ("api", "body", "pointer"),
    [
        (A, {"messages": {}}, "/messages"),
        (A, {"messages": ["Hi"]}, "/messages/0"),
        (A, {"messages": [{"role": "user", "content": {"text": "Hi"}}]}, "/messages/0/content"),
        (A, {"messages": [{"role": "user", "content": ["Hi"]}]}, "/messages/0/content/0"),
        (A, {"tools": ["f"]}, "/tools/0"),
        (C, {"messages": "hi"}, "/messages"),
        (C, {"messages": [1]}, "/messages/0"),
        (R, {"input": {}}, "/input"),
        (R, {"input": ["x"]}, "/input/0"),
        (R, {"tools": {}}, "/tools"),
        (R, {"tools": ["x"]}, "/tools/0"),
        (G, {"contents": "Hi"}, "/contents"),
        (G, {"contents": [{"parts": [{"text": 1}]}]}, "/contents/0/parts/0/text"),
        *((api, body, "") for api in LEAST for body in (b"", b"[]", b'{"a": NaN}', b"[" * 100_000)),
    ],
)
def test_other_bodies_are_wire_errors(api: str, body: Any, pointer: str) -> None:
    whole = body if isinstance(body, bytes) else {**LEAST[api], **body}
    with pytest.raises(WireError) as raised:
        registry.api(api).view(post(whole, URLS[api]))
    assert raised.value.pointer == pointer


TEXT = {"type": "text", "text": "Hi", "citations": None}
TOOL = {"name": "f", "input_schema": SCHEMA}
FUNCTION = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    ("api", "one", "other"),
    [
        (A, {"system": "S"}, {"system": [{"type": "text", "text": "S"}]}),
        (A, {"system": None}, {}),
        (A, {"tool_choice": {"type": "auto"}}, {"tool_choice": None}),
        (A, {"stop_sequences": [], "stream": False}, {}),
        (A, {"tools": [{**TOOL, "type": "custom", "strict": False}]}, {"tools": [TOOL]}),
        (A, {"messages": [{"role": "user", "content": [TEXT]}]}, {}),
        (C, {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}, {}),
        (C, {"tool_choice": "auto", "stream": False, "response_format": {"type": "text"}, "temperature": None}, {}),
        (C, {"stop": "x"}, {"stop": ["x"]}),
        (C, {"max_tokens": 5}, {"max_completion_tokens": 5}),
        (
            C,
            {"tools": [{"type": "function", "function": {"name": "f", "strict": False, "description": ""}}]},
            {"tools": [FUNCTION]},
        ),
        (R, {"input": [{"role": "user", "content": "Hi"}]}, {}),
        (R, {"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]}, {}),
        (R, {"instructions": None, "tools": [], "tool_choice": "auto", "text": {"format": {"type": "text"}}}, {}),
        (R, {"stream": False, "temperature": None, "reasoning": {"effort": None}, "previous_response_id": None}, {}),
        (R, {"instructions": ""}, {}),
        *((G, {"toolConfig": {"functionCallingConfig": config}}, {}) for config in ({}, {"mode": "AUTO"})),
        *((G, {"toolConfig": {"functionCallingConfig": {"mode": mode}}}, {}) for mode in ("MODE_UNSPECIFIED", None)),
        (G, {"contents": [{"parts": [{"text": "Hi"}]}], "tools": None}, {}),
    ],
)
def test_spellings_with_one_meaning_have_one_view(api: str, one: dict[str, Any], other: dict[str, Any]) -> None:
    assert without_pointers(view(api, **one)) == without_pointers(view(api, **other))


@pytest.mark.parametrize(
    ("api", "one", "other"),
    [
        (
            A,
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "x"}]}
                    | {"is_error": False}
                ],
            },
        ),
        (
            A,
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": ""}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]},
        ),
        (
            C,
            {"role": "assistant", "content": None, "tool_calls": [chat_call("{}")]},
            {"role": "assistant", "content": "", "tool_calls": [chat_call("")]},
        ),
        (
            C,
            {"role": "assistant", "tool_calls": [chat_call("{}")]},
            {"role": "assistant", "content": [], "refusal": None, "annotations": [], "tool_calls": [chat_call("{}")]},
        ),
        (
            C,
            {"role": "tool", "tool_call_id": "a", "content": "18"},
            {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "18"}]},
        ),
        (
            G,
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "-_8="}]},
            {"role": "model", "parts": {"function_call": {"name": "f"}, "thought_signature": "+/8"}},
        ),
        (
            G,
            {"parts": [{"functionResponse": {"name": "f", "response": {"k_v": 1}}}]},
            {"role": "user", "parts": {"function_response": {"name": "f", "id": None, "response": {"k_v": 1}}}},
        ),
    ],
)
def test_spellings_of_one_entry_have_equal_views(api: str, one: Any, other: Any) -> None:
    assert alike(turns(api, one), turns(api, other))


# Settings


@pytest.mark.parametrize(
    ("api", "body", "settings"),
    [
        (
            A,
            {"stop_sequences": ["END"], "temperature": 0.5, "top_p": None, "thinking": {"type": "adaptive"}},
            {
                "max_tokens": (100, "/max_tokens"),
                "stop": (["END"], "/stop_sequences"),
                "temperature": (0.5, "/temperature"),
                "thinking": ({"type": "adaptive"}, "/thinking"),
            },
        ),
        (
            C,
            {"max_completion_tokens": 9, "temperature": 0.5, "top_p": 1, "stop": "x", "reasoning_effort": "low"},
            {
                "max_tokens": (9, "/max_completion_tokens"),
                "temperature": (0.5, "/temperature"),
                "top_p": (1, "/top_p"),
                "stop": (["x"], "/stop"),
                "thinking": ("low", "/reasoning_effort"),
            },
        ),
        (
            R,
            {"max_output_tokens": 100, "temperature": 0.5, "top_p": 1, "reasoning": {"effort": "low", "summary": None}},
            {
                "max_tokens": (100, "/max_output_tokens"),
                "temperature": (0.5, "/temperature"),
                "top_p": (1, "/top_p"),
                "thinking": ({"effort": "low"}, "/reasoning"),
            },
        ),
        (
            G,
            {
                "generation_config": {"maxOutputTokens": 64, "temperature": 0, "top_p": 0.5, "stopSequences": "END"}
                | {"thinkingConfig": {"thinking_level": "low"}, "topK": 3}
            },
            {
                "max_tokens": (64, "/generation_config/maxOutputTokens"),
                "temperature": (0, "/generation_config/temperature"),
                "top_p": (0.5, "/generation_config/top_p"),
                "stop": (["END"], "/generation_config/stopSequences"),
                "thinking": ({"thinkingLevel": "LOW"}, "/generation_config/thinkingConfig"),
            },
        ),
    ],
)
def test_settings_have_canonical_names(api: str, body: dict[str, Any], settings: dict[str, tuple[Any, str]]) -> None:
    assert view(api, **body).settings == {name: SettingView(*each) for name, each in settings.items()}


GEMINI_CHOICE = "/toolConfig/functionCallingConfig"


@pytest.mark.parametrize(
    ("api", "choice", "mode", "name", "allowed"),
    [
        (A, {"type": "any"}, "required", None, None),
        (A, {"type": "none"}, "none", None, None),
        (A, {"type": "tool", "name": "f"}, "named", "f", None),
        (A, {"type": "auto", "disable_parallel_tool_use": True}, "auto", None, None),
        (A, {"type": "sometimes"}, "other", None, None),
        (A, "required", "other", None, None),
        *((C, word, mode, None, None) for word, mode in (("none", "none"), ("required", "required"))),
        (C, "any", "required", None, None),
        (C, {"type": "function", "function": {"name": "f"}}, "named", "f", None),
        (C, "sometimes", "other", '"sometimes"', None),
        *((R, word, mode, None, None) for word, mode in (("none", "none"), ("required", "required"))),
        (R, {"type": "function", "name": "f"}, "named", "f", None),
        (R, {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}, "auto", None, "f"),
        (R, {"type": "allowed_tools", "mode": "maybe", "tools": []}, "other", None, None),
        (G, {"mode": "none"}, "none", None, None),
        (G, {"mode": "ANY"}, "required", None, None),
        (G, {"mode": "ANY", "allowedFunctionNames": ["f"]}, "named", "f", None),
        (G, {"mode": "ANY", "allowed_function_names": ["f", "g"]}, "required", None, "f g"),
        (G, {"mode": "VALIDATED"}, "auto", None, None),
        (G, {"mode": "VALIDATED", "allowedFunctionNames": ["f"]}, "auto", None, "f"),
        (G, {"mode": "SOMEDAY"}, "other", "SOMEDAY", None),
    ],
)
def test_tool_choice(api: str, choice: Any, mode: Any, name: str | None, allowed: str | None) -> None:
    body = {"toolConfig": {"functionCallingConfig": choice}} if api == G else {"tool_choice": choice}
    pointer = GEMINI_CHOICE if api == G else "/tool_choice"
    expected = ChoiceView(mode, pointer, name, allowed=tuple(allowed.split()) if allowed else None)
    assert view(api, **body).tool_choice == expected


SCHEMA_FORMAT = {"type": "json_schema", "schema": SCHEMA}
CHAT_FORMAT = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True}}
OUTPUT = "/output_config/format"


@pytest.mark.parametrize(
    ("api", "body", "expected"),
    [
        (
            A,
            {"output_config": {"format": SCHEMA_FORMAT}},
            ("json-schema", "output_config.format", OUTPUT, SCHEMA, f"{OUTPUT}/schema", True),
        ),
        (A, {"output_config": {"effort": "low"}}, None),
        (C, {"response_format": {"type": "json_object"}}, ("json", "response_format", "/response_format")),
        (
            C,
            {"response_format": CHAT_FORMAT},
            ("json-schema", "response_format", "/response_format", SCHEMA, "/response_format/json_schema/schema", True),
        ),
        (R, {"text": {"format": {"type": "json_object"}}}, ("json", "text.format", "/text/format")),
        (
            R,
            {"text": {"format": {**SCHEMA_FORMAT, "name": "a", "strict": True}}},
            ("json-schema", "text.format", "/text/format", SCHEMA, "/text/format/schema", True),
        ),
    ],
)
def test_response_format(api: str, body: dict[str, Any], expected: tuple[Any, ...] | None) -> None:
    if expected is not None:
        kind, mechanism, pointer, *schema = expected
        known = dict(zip(("schema", "schema_pointer", "strict"), schema, strict=False))
        assert view(api, **body).response_format == FormatView(kind, mechanism, pointer, **known)
    else:
        assert view(api, **body).response_format is None


def test_response_format_of_gemini() -> None:
    def seen(**config: Any) -> Any:
        return view(G, generationConfig=config).response_format

    assert seen() is None
    json_mode = seen(responseMimeType="application/json")
    assert (json_mode.kind, json_mode.mechanism, json_mode.schema) == ("json", "responseMimeType", None)
    openapi = seen(response_mime_type="application/json", response_schema={"type": "OBJECT"})
    assert (openapi.mechanism, openapi.schema, openapi.dialect) == ("responseSchema", {"type": "object"}, "openapi")
    assert openapi.schema_pointer == "/generationConfig/response_schema"
    native = seen(responseMimeType="application/json", responseJsonSchema={"$ref": "#"})
    assert (native.kind, native.schema, native.dialect) == ("json-schema", {"$ref": "#"}, "json-schema")


@pytest.mark.parametrize(
    ("api", "body", "state"),
    [
        *((api, {}, None) for api in LEAST),
        (A, {"container": "container_1"}, "container"),
        (R, {"previous_response_id": "resp_1"}, "previous_response_id"),
        (R, {"conversation": {"id": "conv_1"}}, "conversation"),
        (R, {"input": [{"type": "item_reference", "id": "fc_1"}]}, "item_reference"),
        (R, {"input": [{"type": "compaction", "encrypted_content": "x"}]}, "compaction"),
        (G, {"cachedContent": "cachedContents/1"}, "cachedContent"),
    ],
)
def test_state_on_the_server(api: str, body: dict[str, Any], state: str | None) -> None:
    assert view(api, **body).stateful == state


@pytest.mark.parametrize(
    ("api", "body", "tools"),
    [
        (
            A,
            {"tools": [{"type": "web_search_20250305", "name": "web_search"}, {**TOOL, "strict": True}]},
            [("web_search", "web_search_20250305", None, None), ("f", "function", SCHEMA, True)],
        ),
        (
            C,
            {
                "tools": [
                    {"type": "function", "function": {"name": "f", "parameters": SCHEMA, "strict": True}},
                    {"type": "custom", "custom": {"name": "shell"}},
                    {"type": "web_search"},
                ],
                "functions": [{"name": "old"}],
            },
            [
                ("f", "function", SCHEMA, True),
                ("shell", "custom", None, None),
                ("web_search", "web_search", None, None),
                ("old", "function", None, None),
            ],
        ),
        (
            R,
            {
                "tools": [
                    {"type": "function", "name": "f", "parameters": SCHEMA, "strict": False},
                    {"type": "web_search"},
                    {"type": "namespace", "name": "crm", "tools": [{"type": "function", "name": "f"}]},
                ]
            },
            [
                ("f", "function", SCHEMA, False),
                ("web_search", "web_search", None, None),
                ("crm", "namespace", None, None),
                ("f", "function", None, None),
            ],
        ),
    ],
)
def test_tools(api: str, body: dict[str, Any], tools: list[tuple[Any, ...]]) -> None:
    found = view(api, **body).tools
    assert [(tool.name, tool.kind, tool.parameters, tool.strict) for tool in found] == tools
    for tool in found:
        declared = resolve(body, tool.pointer)
        assert declared.get("name") or declared.get(declared["type"], {}).get("name", declared["type"]) == tool.name


def test_tools_of_gemini() -> None:
    nested = {"type": "Object", "properties": {"min_items": {"type": "ARRAY", "items": {"type": "STRING"}}}}
    declared = [
        {"name": "add", "description": "Adds.", "parameters": {"type": "OBJECT", "property_ordering": ["a"]}},
        {"name": "now", "parameters_json_schema": {"type": "object", "property_names": {}}},
        {"name": "off"},
        {"name": "nest", "parameters": nested},
    ]
    at = "/tools/0/functionDeclarations"
    *tools, last, search = view(G, tools=[{"functionDeclarations": declared}, {"google_search": {}}]).tools
    assert tools == [
        ToolView("add", "Adds.", {"type": "object", "propertyOrdering": ["a"]}, f"{at}/0", dialect="openapi"),
        ToolView("now", None, {"type": "object", "property_names": {}}, f"{at}/1"),
        ToolView("off", None, None, f"{at}/2"),
    ]
    inner = {"type": "array", "items": {"type": "string"}}
    assert last.parameters == {"type": "object", "properties": {"min_items": inner}}  # the user's own name
    assert search == ToolView("googleSearch", None, None, "/tools/1/google_search", kind="googleSearch")


# Turns


def test_a_conversation_with_anthropic() -> None:
    thought = {"type": "thinking", "thinking": "", "signature": "c2ln"}
    use = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"city": "Paris"}}
    change = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "f"}}
    seen = view(
        A,
        system=[{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}],
        messages=[
            {"role": "user", "content": "Paris?"},
            {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
            {"role": "assistant", "content": [thought, {"type": "text", "text": "I look."}, use]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "18 °C"}]},
            {"role": "system", "content": [change]},
        ],
        stream=True,
    )
    assert (seen.api, seen.model, seen.stream) == (A, "claude-sonnet-4-5", True)
    assert seen.system == (
        SystemView("One.", "system", "/system/0/text"),
        SystemView("Two.", "system", "/system/1/text"),
        SystemView("Be brief.", "message:system", "/messages/1/content/0/text", 1),
    )
    assert [(turn.role, turn.wire_role, turn.pointer) for turn in seen.turns] == [
        ("user", "user", "/messages/0"),
        ("assistant", "assistant", "/messages/2"),
        ("user", "user", "/messages/3"),
        ("user", "system", "/messages/4"),
    ]
    at = "/messages/2/content"
    assert seen.turns[0].parts == (TextView("Paris?", "/messages/0/content"),)
    assert seen.turns[1].parts == (
        OpaqueView("thinking", thought, f"{at}/0"),
        TextView("I look.", f"{at}/1/text"),
        CallView("toolu_1", "f", {"city": "Paris"}, f"{at}/2", f"{at}/2/id", f"{at}/2/input"),
    )
    at = "/messages/3/content/0"
    assert seen.results == (
        ResultView("toolu_1", None, (TextView("18 °C", f"{at}/content"),), at, f"{at}/tool_use_id"),
    )
    assert seen.turns[3].parts == (OpaqueView("tool_addition", change, "/messages/4/content/0"),)


def test_a_conversation_with_chat() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    seen = turns(
        C,
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Paris and Tokyo?"}]},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "two calls",
            "tool_calls": [chat_call('{"city":"Paris"}', "call_1"), chat_call("{oops", "call_2")],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "18"},
        {"role": "tool", "tool_call_id": "call_2", "content": '{"error":"offline"}'},
        {"role": "developer", "content": "Now in French."},
        {"role": "user", "content": [image]},
    )
    assert seen.system == (
        SystemView("Be brief.", "message:system", "/messages/0/content", 0),
        SystemView("Now in French.", "message:developer", "/messages/5/content", 4),
    )
    assert [(turn.role, turn.wire_role, turn.pointer) for turn in seen.turns] == [
        ("user", "user", "/messages/1"),
        ("assistant", "assistant", "/messages/2"),
        ("user", "tool", "/messages/3"),
        ("user", "tool", "/messages/4"),
        ("user", "user", "/messages/6"),
    ]
    at = "/messages/2/tool_calls"
    assert seen.turns[1].parts == (
        OpaqueView("reasoning_content", "two calls", "/messages/2/reasoning_content"),
        CallView("call_1", "f", {"city": "Paris"}, f"{at}/0", f"{at}/0/id", f"{at}/0/function/arguments"),
        CallView("call_2", "f", None, f"{at}/1", f"{at}/1/id", f"{at}/1/function/arguments", malformed="{oops"),
    )
    first, second = seen.results
    assert first == ResultView(
        "call_1", None, (TextView("18", "/messages/3/content"),), "/messages/3", "/messages/3/tool_call_id"
    )
    assert (second.call_id, second.error_mark) == ("call_2", "error-key")
    assert seen.turns[-1].parts == (MediaView(None, "/messages/6/content/0", uri="https://example.com/a.png"),)


def test_a_conversation_with_responses() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    state = {"namespace": "crm", "caller": {"type": "direct"}}
    seen = view(
        R,
        instructions="Be brief.",
        input=[
            {"role": "system", "content": "One."},
            {"role": "user", "content": "Weather?"},
            reasoning,
            {**item('{"city":"Paris"}'), "id": "fc_1", **state},
            {"type": "function_call_output", "call_id": "a", "output": "18"},
            {"role": "developer", "content": [{"type": "input_text", "text": "Two."}]},
            {"role": "assistant", "content": [{"type": "output_text", "text": "18 °C."}], "phase": "commentary"},
        ],
    )
    assert seen.system == (
        SystemView("Be brief.", "instructions", "/instructions"),
        SystemView("One.", "message:system", "/input/0/content"),
        SystemView("Two.", "message:developer", "/input/5/content/0/text", before_turn=4),
    )
    assert [(turn.role, turn.wire_role, turn.pointer) for turn in seen.turns] == [
        ("user", "user", "/input/1"),
        ("assistant", "reasoning", "/input/2"),
        ("assistant", "function_call", "/input/3"),
        ("user", "function_call_output", "/input/4"),
        ("assistant", "assistant", "/input/6"),
    ]
    assert seen.turns[1].parts == (OpaqueView("reasoning", reasoning, "/input/2"),)
    (made,) = seen.calls
    assert (made.id, made.item_id, made.name, made.arguments) == ("a", "fc_1", "f", {"city": "Paris"})
    assert (made.id_pointer, made.arguments_pointer) == ("/input/3/call_id", "/input/3/arguments")
    assert made.opaque == {"namespace": "crm"}
    assert seen.results == (
        ResultView("a", None, (TextView("18", "/input/4/output"),), "/input/4", "/input/4/call_id"),
    )
    assert seen.turns[4].parts == (TextView("18 °C.", "/input/6/content/0/text", {"phase": "commentary"}),)


def test_a_conversation_with_gemini() -> None:
    signed = {"function_call": {"id": "a1", "name": "add", "args": {"a_b": 1}}, "thought_signature": "QUI="}
    image = {"inlineData": {"mimeType": "image/png", "data": "AQI"}}
    answer = {"functionResponse": {"id": "a1", "name": "draw", "response": {"ok": 1}, "parts": [image]}}
    seen = view(
        G,
        system_instruction={"parts": [{"text": "Be brief."}, {"text": ""}, {"text": "Be kind."}]},
        contents=[
            {"parts": [{"text": "Hi"}]},
            {"role": "model", "parts": [{"text": "I add.", "thoughtSignature": "QUI="}, signed]},
            {"role": "user", "parts": [answer]},
            {"role": "model", "parts": [{"functionCall": {"name": "now"}}]},
        ],
    )
    assert seen.system == (
        SystemView("Be brief.", "systemInstruction", "/system_instruction/parts/0/text"),
        SystemView("Be kind.", "systemInstruction", "/system_instruction/parts/2/text"),
    )
    assert [(turn.role, turn.wire_role) for turn in seen.turns[:2]] == [("user", "user"), ("assistant", "model")]
    at = "/contents/1/parts"
    inner = f"{at}/1/function_call"
    assert seen.turns[1].parts == (
        TextView("I add.", f"{at}/0/text", "QUI="),
        CallView("a1", "add", {"a_b": 1}, f"{at}/1", f"{inner}/id", f"{inner}/args", opaque="QUI="),
    )
    (drawn,) = seen.results
    at = "/contents/2/parts/0/functionResponse"
    assert (drawn.call_id, drawn.name, drawn.error_mark, drawn.id_pointer) == ("a1", "draw", None, f"{at}/id")
    assert drawn.payload == (
        JsonView({"ok": 1}, f"{at}/response"),
        MediaView("image/png", f"{at}/parts/0", data=b"\x01\x02"),
    )
    bare, at = seen.calls[1], "/contents/3/parts/0/functionCall"
    assert (bare.id, bare.arguments, bare.id_pointer, bare.arguments_pointer) == (None, {}, at, at)


# Parts

SERVER_USE = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
BAD_IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "no base64"}}


@pytest.mark.parametrize(
    ("api", "raw", "kind"),
    [
        (A, SERVER_USE, "server_tool_use"),
        (A, BAD_IMAGE, "image"),
        (A, {"type": "image", "source": {"type": "hologram"}}, "image"),
        (A, {"type": "text", "text": None}, "text"),
        (A, {"type": "of another day", "x": [1]}, "of another day"),
        (A, {"x": 1}, ""),
        (C, {"type": "image_url", "image_url": {"url": "data:image/png;base64,***"}}, "image_url"),
        (C, {"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}}, "video_url"),
        (R, {"type": "hologram"}, "hologram"),
        (R, {"type": "input_file", "file_data": "no base64!"}, "input_file"),
        (G, {"text": "Hm.", "thought": True}, "thought"),
        (G, {"executableCode": {"code": "1"}}, "executableCode"),
        (G, {"toolCall": {"id": "x"}}, "toolCall"),
        (G, {"hologram": {"depth": 3}}, "hologram"),
        (G, {}, "part"),
    ],
)
def test_a_part_without_a_type_is_kept_in_its_place(api: str, raw: dict[str, Any], kind: str) -> None:
    text = {R: {"type": "input_text", "text": "a"}, G: {"text": "a"}}.get(api, {"type": "text", "text": "a"})
    first, found, last = parts(api, text, raw, text)
    assert (first.text, last.text) == ("a", "a")
    assert isinstance(found, OpaqueView)
    assert (found.kind, found.raw) == (kind, raw)
    assert found.pointer.endswith("/1")


def test_entries_without_a_type_are_kept_in_their_place() -> None:
    user, other = turns(
        C, {"role": "user", "name": "Ada", "content": {"odd": 1}}, {"role": "narrator", "content": "Night."}
    ).turns
    at = "/messages/0"
    assert user.parts == (OpaqueView("content", {"odd": 1}, f"{at}/content"), OpaqueView("name", "Ada", f"{at}/name"))
    assert (other.wire_role, other.parts) == ("narrator", (TextView("Night.", "/messages/1/content"),))
    for broken in (7, "call", {"type": "function"}, {"type": "mystery", "mystery": {}}):
        (part,) = turns(C, {"role": "assistant", "tool_calls": [broken]}).turns[0].parts
        assert isinstance(part, OpaqueView)
        assert (part.raw, part.pointer) == (broken, "/messages/0/tool_calls/0")
    (part,) = turns(C, {"role": "assistant", "function_call": "f"}).turns[0].parts
    assert part == OpaqueView("function_call", "f", "/messages/0/function_call")
    seen = turns(R, {"type": "brand_new", "x": 1}, {"role": "user", "content": [7]}, {"id": "msg_1"}).turns
    assert seen[0].parts == (OpaqueView("brand_new", {"type": "brand_new", "x": 1}, "/input/0"),)
    assert seen[1].parts[0].pointer == "/input/1/content/0"
    assert seen[2].parts == (OpaqueView("item_reference", {"id": "msg_1"}, "/input/2"),)
    content = [{"type": "input_text", "text": "Look."}, {"type": "input_image", "image_url": "https://x.test/a.png"}]
    pictured = turns(R, {"role": "system", "content": content})
    assert [system.text for system in pictured.system] == ["Look."]
    assert pictured.turns[0].parts == (MediaView(None, "/input/0/content/1", uri="https://x.test/a.png"),)
    signed = parts(G, {"inlineData": {"mimeType": "image/png", "data": "AQI="}, "thoughtSignature": "QUI="})
    assert signed[1] == OpaqueView("thoughtSignature", "QUI=", "/contents/0/parts/0/thoughtSignature")


PDF_URL, PDF_DATA = "https://example.com/a.pdf", f"data:application/pdf;base64,{PNG}"


@pytest.mark.parametrize(
    ("api", "raw", "media_type", "data", "uri"),
    [
        *(
            (A, {"type": kind, "source": source}, *expected)
            for kind, source, *expected in [
                ("image", {"type": "base64", "media_type": "image/png", "data": PNG}, "image/png", b"\x89PNG", None),
                ("image", {"type": "url", "url": "https://e.org/a.png"}, None, None, "https://e.org/a.png"),
                ("document", {"type": "url", "url": PDF_URL}, "application/pdf", None, PDF_URL),
                ("document", {"type": "text", "media_type": "text/plain", "data": "x"}, "text/plain", b"x", None),
                ("document", {"type": "file", "file_id": "file_1"}, None, None, "file_1"),
            ]
        ),
        *(
            (C, {"type": kind, kind: value}, *expected)
            for kind, value, *expected in [
                ("image_url", {"url": f"data:image/png;base64,{PNG}"}, "image/png", b"\x89PNG", None),
                ("image_url", "https://e.org/a.png", None, None, "https://e.org/a.png"),
                ("input_audio", {"data": PNG, "format": "wav"}, "audio/wav", b"\x89PNG", None),
                ("file", {"file_data": PDF_DATA, "filename": "a.pdf"}, "application/pdf", b"\x89PNG", None),
                ("file", {"file_id": "file-1"}, None, None, "file-1"),
                ("file", {"file_data": PNG, "filename": "a.pdf"}, "application/pdf", b"\x89PNG", None),
                ("file", {"file_data": PNG}, None, b"\x89PNG", None),
            ]
        ),
        *(
            (R, {"type": kind, **fields}, *expected)
            for kind, fields, *expected in [
                ("input_image", {"image_url": f"data:image/png;base64,{PNG}"}, "image/png", b"\x89PNG", None),
                ("input_image", {"file_id": "file-1"}, None, None, "file-1"),
                ("input_file", {"file_data": PDF_DATA, "filename": "a"}, "application/pdf", b"\x89PNG", None),
                ("input_file", {"file_url": PDF_URL}, None, None, PDF_URL),
                ("input_audio", {"input_audio": {"data": PNG, "format": "mp3"}}, "audio/mp3", b"\x89PNG", None),
            ]
        ),
        (G, {"inline_data": {"mime_type": "image/png", "data": "-_8="}}, "image/png", b"\xfb\xff", None),
        (G, {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://b/f"}}, "application/pdf", None, "gs://b/f"),
    ],
)
def test_media(api: str, raw: dict[str, Any], media_type: str | None, data: bytes | None, uri: str | None) -> None:
    (part,) = parts(api, raw)
    assert (part.media_type, part.data, part.uri) == (media_type, data, uri)


USE = {"type": "tool_use", "id": "a", "name": "f", "input": {}}


@pytest.mark.parametrize(
    ("api", "raw", "opaque"),
    [
        (A, {**USE, "caller": {"type": "direct"}}, None),
        (A, {**USE, "caller": {"type": "code", "tool_id": "s"}}, {"caller": {"type": "code", "tool_id": "s"}}),
        (A, {**USE, "toolset_name": "browser"}, {"toolset_name": "browser"}),
        (A, {"type": "text", "text": "x", "citations": [{"type": "page"}]}, [{"type": "page"}]),
        (
            C,
            {**chat_call("{}", ""), "extra_content": {"google": {"thought_signature": "abc"}}, "index": 0},
            {"extra_content": {"google": {"thought_signature": "abc"}}},
        ),
    ],
)
def test_state_of_a_part_stays_on_it(api: str, raw: dict[str, Any], opaque: Any) -> None:
    seen = call(api, raw)
    assert seen.opaque == opaque
    if api == C:
        assert seen.id is None  # an empty id is none


@pytest.mark.parametrize(
    ("arguments", "value", "malformed"),
    [
        ("{}", {}, None),
        ("", {}, None),
        ("[]", [], None),
        ('{"a": 12345678901234567890}', {"a": 12345678901234567890}, None),
        ('{"a": ', None, '{"a": '),
        ('{"a": NaN}', None, '{"a": NaN}'),
        ({"a": 1}, {"a": 1}, None),
    ],
)
def test_arguments_are_parsed_whatever_they_are(arguments: Any, value: Any, malformed: str | None) -> None:
    for seen in (call(R, item(arguments)), call(C, chat_call(arguments))):
        assert (seen.arguments, seen.malformed) == (value, malformed)


def test_arguments_of_other_types() -> None:
    broken = call(A, {**USE, "input": '{"city": '})
    assert (broken.arguments, broken.malformed) == (None, '{"city": ')
    assert call(G, {"functionCall": {"name": "add", "args": "{}"}}).arguments == "{}"
    custom = {"id": "call_1", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    old = {"role": "assistant", "function_call": {"name": "f", "arguments": '{"a":1}'}}
    seen = turns(
        C, {"role": "assistant", "tool_calls": [custom]}, old, {"role": "function", "name": "f", "content": "2"}
    )
    assert [(one.name, one.arguments, one.arguments_pointer) for one in seen.calls] == [
        ("shell", "ls", "/messages/0/tool_calls/0/custom/input"),
        ("f", {"a": 1}, "/messages/1/function_call/arguments"),
    ]
    assert [(one.call_id, one.name) for one in seen.results] == [(None, "f")]


@pytest.mark.parametrize(
    ("api", "fields", "mark"),
    [
        (A, {"content": "18", "is_error": True}, "flag"),
        (A, {"content": '{"error": "offline"}'}, None),  # where there is a flag, only the flag is a mark
        (A, {"content": "Error: station offline", "is_error": False}, None),
        (A, {}, None),
        *(
            (api, {"content" if api == C else "output": text}, mark)
            for api in (C, R)
            for text, mark in [
                ('{"error": "offline"}', "error-key"),
                ('{"error": null, "temp": 3}', None),
                ('{"temp": 3, "error": "stale"}', None),
                ("Error: offline", "error-text"),
                ("error offline", "error-text"),
                ("{broken", None),
                ("Terror in the night", None),
                ("", None),
            ]
        ),
        (R, {"output": [{"type": "input_text", "text": '{"error": "x"}'}]}, "error-key"),
        (G, {"response": {"error": "offline"}}, "error-key"),
        (G, {"response": {"error": {"code": 5}}}, "error-key"),
        (G, {"response": {"error": None, "output": 1}}, None),
        (G, {"response": {"error": "0.1", "result": 3}}, None),
        (G, {"response": {"result": "Error: offline"}}, "error-text"),
        (G, {"response": {"result": "no error"}}, None),
        (G, {"response": {}}, None),
    ],
)
def test_how_a_result_marks_an_error(api: str, fields: dict[str, Any], mark: str | None) -> None:
    assert result(api, **fields).error_mark == mark


def test_payload_of_a_result() -> None:
    reference = {"type": "tool_reference", "tool_name": "f"}
    at = "/messages/0/content/0/content"
    assert result(A, content=[{"type": "text", "text": "x"}, reference]).payload == (
        TextView("x", f"{at}/0/text"),
        OpaqueView("tool_reference", reference, f"{at}/1"),
    )
    assert result(A, content={"temp_c": 18}).payload == (JsonView({"temp_c": 18}, at),)
    picture, new = {"type": "input_image", "image_url": "https://x.test/a.png"}, {"type": "brand_new"}
    assert result(R, output=[{"type": "input_text", "text": "A chart."}, picture, new]).payload == (
        TextView("A chart.", "/input/0/output/0/text"),
        MediaView(None, "/input/0/output/1", uri="https://x.test/a.png"),
        OpaqueView("brand_new", new, "/input/0/output/2"),
    )
    assert result(R, output={"temp_c": 18}).payload == (JsonView({"temp_c": 18}, "/input/0/output"),)
