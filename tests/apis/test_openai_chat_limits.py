from __future__ import annotations

import copy
import datetime as dt
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import catalog
from harness.apis.limit import Violation
from harness.apis.openai_chat import API
from harness.contract.http import HttpRequest
from tests.apis import lawful
from tests.apis.openai_chat_faults import FORMAT_FAULTS, GOOD, IMAGE, OPENAI, call, changed, check, rules
from tests.apis.pointers import resolve

LOCAL = "http://127.0.0.1:9/v1/chat/completions"
OTHER = "https://llm.example.com/openai/v1/chat/completions"
MISTRAL = "https://api.mistral.ai/v1/chat/completions"


@pytest.mark.parametrize("url", [OPENAI, LOCAL, OTHER])
def test_a_good_request_has_no_violation_of_any_severity(url: str) -> None:
    assert check(GOOD, url) == []


def test_a_plain_good_request_has_none_either() -> None:
    assert check({"model": "gpt-5.4", "messages": [{"role": "user", "content": "hi"}]}) == []


@pytest.mark.parametrize(("body", "expected"), FORMAT_FAULTS)
@pytest.mark.parametrize("url", [OPENAI, LOCAL, OTHER])
def test_a_fault_of_format_is_caught_at_every_server(body: Any, expected: list[str], url: str) -> None:
    found = [rule for severity, rule in rules(body, url) if severity == "error"]
    assert sorted(found) == sorted(expected)


_TUPLE = {"type": "object", "properties": {"at": {"anyOf": [{"type": "array", "prefixItems": [{"type": "number"}]}]}}}
_WEATHER = {"type": "object", "properties": {"city": {"type": ["string", "null"]}}}
_LISTED = {"type": "object", "properties": {"days": {"type": ["array", "null"]}}}


def _property(schema: Any) -> Any:
    return changed("tools", 1, "function", parameters={"type": "object", "properties": {"x": schema}})


OPENAI_FAULTS = [
    (changed(temperature="hot"), ["parameter-type"]),
    (changed(seed=1.5), ["parameter-type"]),
    (changed(store="yes"), ["parameter-type"]),
    (changed(temperature=True), ["parameter-type"]),
    (changed(temperature=99), ["parameter-range"]),
    (changed(top_p=-0.1), ["parameter-range"]),
    (changed(presence_penalty=-3), ["parameter-range"]),
    (changed(n=0), ["parameter-range"]),
    (changed(max_completion_tokens=0), ["parameter-range"]),
    (changed(top_logprobs=21), ["parameter-range"]),
    (changed("tools", 1, "function", arguments=_WEATHER), ["tool-field"]),
    (changed("tools", 1, "function", parameters=_LISTED), ["tool-array-items"]),
    (_property({"type": "union"}), ["tool-parameters-schema"]),
    (_property({"type": "STRING"}), ["tool-parameters-schema"]),
    (_property({"type": ["string", "none"]}), ["tool-parameters-schema"]),
    (_property({"type": None}), ["tool-parameters-schema"]),
    (_property({"type": "string", "required": True}), ["tool-parameters-schema"]),
    (_property([]), ["tool-parameters-schema"]),
    (changed(response_format={"type": "json_schema", "json_schema": {"name": "a", **_WEATHER}}), ["format-schema"]),
    (changed("messages", 1, content=None), ["content-missing"]),
    (changed("messages", 3, content=...), ["content-missing"]),
    (changed("messages", 3, content=IMAGE), ["content-part"]),
    (changed("messages", 0, content=IMAGE), ["content-part"]),
    (changed("messages", 1, name="J. Doe"), ["name-pattern"]),
    (changed("messages", 2, "tool_calls", 0, "function", name="a.b"), ["name-pattern"]),
    (changed("messages", 2, "tool_calls", 0, type=...), ["call-type"]),
    (changed("tools", 1, type=...), ["tool-type"]),
    (changed("tools", 1, type="web_search"), ["tool-type"]),
    (changed("tools", 1, "function", parameters={"properties": {}}), ["tool-parameters-root"]),
    (changed("tools", 0, "function", "parameters", "properties", city={"type": "array"}), ["tool-array-items"]),
    (changed("tools", 1, "function", parameters=_TUPLE), ["tool-array-items"]),
    (changed("tools", 0, "function", "parameters", additionalProperties=...), ["strict-additional-properties"]),
    (changed("tools", 0, "function", "parameters", required=[]), ["strict-required"]),
    (changed(tools=..., tool_choice="auto"), ["choice-without-tools"]),
    (changed(tools=..., tool_choice=..., parallel_tool_calls=False), ["choice-without-tools"]),
    (changed(tool_choice="any"), ["choice-value"]),
    (changed(tool_choice={"type": "function", "name": "get_weather"}), ["choice-shape"]),
    (changed(max_output_tokens=5), ["unknown-field"]),
    (changed(stream=False), ["stream-options"]),
    (changed(response_format={"type": "json"}), ["format-type"]),
    (changed(response_format={"type": "json_schema"}), ["format-name"]),
    (changed(response_format={"type": "json_schema", "json_schema": {"name": "a b"}}), ["format-name"]),
    (changed(response_format={"type": "json_object"}), ["json-word"]),
]

OPENAI_GOODS = [
    changed(temperature=2, top_p=0, n=128, seed=-1, presence_penalty=-2, logprobs=True, top_logprobs=0),
    changed(seed=5.0, temperature=None, functions=None, max_tokens=None, plugins=None),
    changed("tools", 1, "function", parameters=_WEATHER),
    _property({"type": "array", "items": [{"type": "string"}]}),  # a tuple of the draft 7
    _property({"properties": {"type": {"type": "string"}}}),
    _property({"type": "string", "description": None, "enum": None, "default": None}),
    changed(response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": _WEATHER}}),
]


@pytest.mark.parametrize("body", OPENAI_GOODS)
def test_what_openai_takes_is_no_fault(body: Any) -> None:
    assert [rule for severity, rule in rules(body) if severity == "error"] == []


@pytest.mark.parametrize(("body", "expected"), OPENAI_FAULTS)
@pytest.mark.parametrize("url", [OPENAI, OPENAI.replace("api.", "eu.api.")])
def test_what_openai_adds_is_caught_at_openai(body: Any, expected: list[str], url: str) -> None:
    assert sorted(rules(body, url)) == sorted(("error", rule) for rule in expected)


@pytest.mark.parametrize(("body", "expected"), OPENAI_FAULTS)
def test_what_openai_adds_is_caught_where_the_reference_server_stands_in_for_it(body: Any, expected: list[str]) -> None:
    profile = catalog.api("openai-chat").profile_for("gpt-4o")
    request = HttpRequest("POST", LOCAL, {}, json.dumps(body).encode())
    found = API.violations(request, API.services.provider_law(profile, "gpt-4o"))
    assert sorted(each.rule for each in found) == sorted(f"openai-chat-{rule}" for rule in expected)


@pytest.mark.parametrize(("body", "expected"), OPENAI_FAULTS)
@pytest.mark.parametrize("url", [OTHER, LOCAL, MISTRAL.replace("api.mistral.ai", "myorg.snowflakecomputing.com")])
def test_what_openai_adds_is_not_asked_of_other_servers(body: Any, expected: list[str], url: str) -> None:
    assert rules(body, url) == []


@pytest.mark.parametrize("model", ["qwen3", "gpt-oss:20b", "muse-spark-1.1"])
def test_a_proxy_under_openai_s_name_is_told_by_its_model(model: str) -> None:
    body = changed(max_output_tokens=5, model=model)
    assert rules(body) == []
    assert rules(body | {"model": "gpt-4o"}) == [("error", "unknown-field")]


def test_more_than_128_tools_are_worth_a_warning_at_openai() -> None:
    tools = [{"type": "function", "function": {"name": f"get_{number}"}} for number in range(129)]
    few = [*GOOD["tools"], *tools[: 128 - len(GOOD["tools"])]]
    assert rules(changed(tools=few)) == []
    assert rules(changed(tools=[*few, tools[-1]])) == [("warning", "tools-many")]
    assert rules(changed(tools=[*few, tools[-1]]), OTHER) == []


def test_a_request_without_a_model_is_refused_by_openai_alone() -> None:
    assert rules(changed(model=...)) == [("error", "model-missing")]
    assert rules(changed(model=...), OTHER) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"model": "gpt-5.4"}, []),
        ({"model": "gpt-5.4", "reasoning_effort": "none"}, []),
        ({"model": "gpt-5.4", "reasoning_effort": "low"}, ["tools-with-reasoning"]),
        ({"model": "gpt-5.5"}, ["tools-with-reasoning"]),
        ({"model": "gpt-5.5", "reasoning_effort": "none"}, []),
        ({"model": "gpt-6-luna"}, ["tools-with-reasoning"]),
        ({"model": "gpt-6-astra", "reasoning_effort": "low"}, ["tools-unsupported"]),
        ({"model": "gpt-5-mini", "reasoning_effort": "low"}, []),
    ],
)
def test_functions_and_reasoning_exclude_each_other_on_some_models(fields: dict[str, Any], expected: list[str]) -> None:
    assert rules(changed(**fields)) == [("error", rule) for rule in expected]
    toolless = changed(**fields, tools=..., tool_choice=...)
    assert rules(toolless) == []


@pytest.mark.parametrize("model", ["o3", "o4-mini", "gpt-5", "gpt-5-mini-2025-08-07", "gpt-5.1", "gpt-5.4"])
def test_reasoning_models_take_another_name_for_max_tokens(model: str) -> None:
    assert ("error", "max-tokens") in rules(changed(model=model, max_tokens=9))
    assert rules(changed(model=model, max_completion_tokens=9)) == []
    assert rules(changed(model=model, top_p=0.5)) == [("warning", "sampling")]


@pytest.mark.parametrize("model", ["o3", "gpt-5", "gpt-5.1", "gpt-5.6", "gpt-6.1-sol"])
def test_a_temperature_is_unclear_on_most_reasoning_models(model: str) -> None:
    body = changed(model=model, temperature=0.5, reasoning_effort="none")
    assert ("warning", "sampling") in rules(body)
    assert ("error", "temperature") not in rules(body)


@pytest.mark.parametrize("model", ["gpt-5-mini-2025-08-07", "gpt-5-nano", "gpt-5.4", "gpt-6-astra"])
def test_some_reasoning_models_take_the_default_temperature_only(model: str) -> None:
    assert ("error", "temperature") in rules(changed(model=model, temperature=0))
    assert not {"temperature", "sampling"} & {name for _, name in rules(changed(model=model, temperature=1))}


@pytest.mark.parametrize("model", ["gpt-6-astra", "gpt-6.1-sol"])
@pytest.mark.parametrize("effort", [{}, {"reasoning_effort": "none"}])
def test_the_newest_models_take_no_tools_here(model: str, effort: dict[str, str]) -> None:
    assert ("error", "tools-unsupported") in rules(changed(model=model, **effort))


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1-mini", "gpt-5-chat-latest"])
def test_other_models_take_max_tokens(model: str) -> None:
    assert rules(changed(model=model, max_tokens=9, temperature=0.5)) == []


@pytest.mark.parametrize("role", ["system", "developer"])
def test_the_first_reasoning_models_take_no_system_prompt(role: str) -> None:
    body = {"model": "o1-mini", "messages": [{"role": role, "content": "a"}, {"role": "user", "content": "b"}]}
    assert rules(body) == [("error", "system-unsupported")]
    assert rules(body | {"model": "o3-mini"}) == []


def test_mistral_asks_for_ids_of_its_own_form() -> None:
    def conversation(call_id: str) -> dict[str, Any]:
        body = copy.deepcopy(GOOD)
        body["messages"][2]["tool_calls"] = [call(call_id)]
        answer = {"role": "assistant", "content": "18 °C."}
        body["messages"][3:5] = [{"role": "tool", "tool_call_id": call_id, "content": "18"}, answer]
        return body

    assert rules(conversation("call_12345"), MISTRAL) == [("error", "call-id-mistral")]
    assert rules(conversation("a1B2c3D4e"), MISTRAL) == []
    assert rules(conversation("call_12345"), OTHER) == []


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (changed("messages", 2, "tool_calls", 0, "function", arguments="{oops"), "arguments-json"),
        (changed("messages", 2, "tool_calls", 0, "function", arguments="[]"), "arguments-json"),
        (changed("tools", 1, "function", name="get_weather"), "tool-duplicate"),
        (changed("tools", 1, "function", parameters={"anyOf": [{"type": "object"}]}), "tool-parameters-union"),
        (changed(tools=[], tool_choice=...), "tools-empty"),
        (changed(tool_choice={"type": "function", "function": {"name": "get_time"}}), "choice-undeclared"),
        (changed(functions=[{"name": "f"}]), "legacy-functions"),
    ],
)
def test_what_is_taken_with_a_loss_is_a_warning(body: Any, rule: str) -> None:
    assert rules(body) == [("warning", rule)]


def test_an_empty_list_of_calls_is_refused_where_that_was_seen() -> None:
    body = changed("messages", 1, role="assistant", tool_calls=[])
    assert rules(body) == [("error", "tool-calls-empty-array")]
    assert rules(body, OTHER) == []


def test_an_id_is_too_long_by_the_bound_of_the_day() -> None:
    body = json.loads(json.dumps(GOOD).replace("call_1", "call_" + "1" * 59))
    assert rules(body) == []
    assert rules(body, on=dt.date(2026, 2, 20)) == [("error", "call-id-at-most-40")]
    longer = json.loads(json.dumps(GOOD).replace("call_1", "call_" + "1" * 60))
    assert rules(longer) == [("error", "call-id-at-most-64")]


def test_strict_holds_at_every_depth() -> None:
    inner = {"type": "object", "properties": {"a": {"type": "string"}}}
    schema = {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": inner},
            "either": {"anyOf": [inner, {"type": "null"}]},
            "named": {"$ref": "#/$defs/a~b"},
        },
        "required": ["list", "either", "named"],
        "additionalProperties": False,
        "$defs": {"a/b": inner},
    }
    described = {"name": "answer", "schema": schema, "strict": True}
    body = changed(response_format={"type": "json_schema", "json_schema": described})

    found = check(body)

    places = [
        "/properties/list/items",
        "/properties/either/anyOf/0",
        "/$defs/a~1b",
    ]
    assert {violation.pointer for violation in found} == {f"/response_format/json_schema/schema{at}" for at in places}
    assert len(found) == 6
    assert all(resolve(body, violation.pointer) == inner for violation in found)


@pytest.mark.parametrize("content", ["Answer in JSON.", [{"type": "text", "text": "As json, please"}]])
def test_json_mode_wants_the_word_in_any_message(content: Any) -> None:
    assert rules(changed("messages", 0, content=content) | {"response_format": {"type": "json_object"}}) == []


def test_one_id_may_return_in_another_turn_but_not_in_one() -> None:
    messages = [*GOOD["messages"][:5], *copy.deepcopy(GOOD["messages"][2:5]), {"role": "user", "content": "So?"}]
    assert rules(changed(messages=messages)) == []
    twice = [*GOOD["messages"][:5], GOOD["messages"][4]]
    assert rules(changed(messages=twice)) == [("error", "result-duplicate")]


def test_a_custom_tool_is_called_and_answered_like_a_function() -> None:
    custom = {"id": "call_1", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    body = {
        "model": "gpt-4.1",
        "messages": [
            {"role": "user", "content": "ls"},
            {"role": "assistant", "tool_calls": [custom]},
            {"role": "tool", "tool_call_id": "call_1", "content": "a b"},
        ],
        "tools": [{"type": "custom", "custom": {"name": "shell"}}],
        "tool_choice": {"type": "custom", "custom": {"name": "shell"}},
    }
    assert check(body) == []


def test_every_violation_says_where_and_why() -> None:
    for body, _ in [*FORMAT_FAULTS, *OPENAI_FAULTS]:
        for violation in check(body):
            resolve(body, violation.pointer)  # leads somewhere
            assert violation.message
            assert violation.source
            assert violation.status == 400


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"messages": NaN}', b"[" * 100_000])
def test_a_body_that_cannot_be_read_is_a_violation(body: bytes) -> None:
    profile = catalog.api("openai-chat").profile_for("gpt-4o")
    (found,) = lawful.violations(API, HttpRequest("POST", OPENAI, {}, body), profile)
    assert found.rule == "openai-chat-body"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(data=st.data())
def test_whatever_stands_in_a_body_nothing_is_raised(data: st.DataObject) -> None:
    body = copy.deepcopy(GOOD)
    target: Any = body
    while isinstance(target, dict | list) and target:
        key = data.draw(st.sampled_from(sorted(target) if isinstance(target, dict) else range(len(target))))
        if not isinstance(target[key], dict | list) or data.draw(st.booleans()):
            target[key] = data.draw(JSON)
            break
        target = target[key]
    for url in (OPENAI, OTHER):
        assert all(isinstance(found, Violation) for found in check(body, url))


@pytest.mark.parametrize("url", ["", "<GPUSTACK_API_BASE>/chat/completions", "http://[::1/chat/completions"])
def test_a_url_without_a_host_is_another_server(url: str) -> None:
    assert check(changed(max_output_tokens=5), url) == []


def test_a_refusal_has_the_providers_shape() -> None:
    (found,) = check(changed("messages", 3, content=IMAGE))
    response = API.refuse(found)

    assert response.status == 400
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"].startswith("req_")
    error = json.loads(response.body)["error"]
    assert error == {
        "message": found.message,
        "type": "invalid_request_error",
        "param": "messages[3].content[0]",
        "code": "invalid_value",
    }
    assert API.refuse(found) == response
    assert API.refuse(replace(found, status=404)).status == 404
    read = API.read(response)
    assert read.error is not None
    assert (read.error.status, read.error.code, read.error.message) == (400, "invalid_value", found.message)
