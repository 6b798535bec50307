"""OpenAI Responses: what is refused, each limit with a request that keeps it and one that breaks it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from harness import catalog
from harness.apis.limit import Violation
from harness.apis.openai_responses import API
from harness.apis.openai_responses.limits.schemas import strict_faults
from harness.contract.http import HttpRequest
from tests.apis import lawful
from tests.apis.hardened import validator
from tests.apis.pointers import resolve

Body = dict[str, Any]

SCHEMA: Body = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL: Body = {
    "type": "function",
    "name": "get_weather",
    "description": "Current weather.",
    "parameters": SCHEMA,
    "strict": True,
}
USER: Body = {"role": "user", "content": "Weather in Paris and Tokyo?"}
REASONING: Body = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}


def call(call_id: str, **fields: Any) -> Body:
    item = {"type": "function_call", "call_id": call_id, "name": "get_weather", "arguments": '{"city":"Paris"}'}
    return {**item, **fields}


def output(call_id: str, **fields: Any) -> Body:
    return {"type": "function_call_output", "call_id": call_id, "output": "18", **fields}


GOOD: Body = {
    "model": "gpt-6-sol",
    "instructions": "Be brief.",
    "input": [
        USER,
        REASONING,
        call("call_a", id="fc_a"),
        call("call_b", id="fc_b"),
        output("call_b"),
        output("call_a", output=[{"type": "input_text", "text": "18"}]),
    ],
    "tools": [TOOL],
}


def send(body: Any, model: str | None = None) -> list[Violation]:
    request = HttpRequest("POST", "https://api.openai.com/v1/responses", {}, json.dumps(body).encode())
    return lawful.violations(
        API, request, catalog.api("openai-responses").profile_for(model or API.model_of(request) or "")
    )


def changed(**fields: Any) -> Body:
    return {**copy.deepcopy(GOOD), **fields}


def with_input(*items: Any, **fields: Any) -> Body:
    return changed(input=list(items), **fields)


def rules(body: Any, model: str | None = None) -> list[str]:
    found = send(body, model)
    for violation in found:
        resolve(body, violation.pointer)  # leads somewhere
        assert violation.message
        assert violation.source
        assert violation.status == 400
    return [violation.rule.removeprefix("openai-responses-") for violation in found]


def only(body: Any, rule: str, model: str | None = None) -> Violation:
    assert rules(body, model) == [rule]
    return send(body, model)[0]


GOOD_REQUESTS: dict[str, Body] = {
    "a follow-up": GOOD,
    "text": {"model": "gpt-6-sol", "input": "Hello"},
    "a tool without arguments": changed(
        tools=[{"type": "function", "name": "now", "parameters": {"type": "object", "properties": {}}, "strict": False}]
    ),
    "JSON by schema, with tools": changed(
        text={"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}}
    ),
    "JSON mode": {"model": "gpt-6-sol", "input": "Answer as JSON.", "text": {"format": {"type": "json_object"}}},
    "a named tool": changed(tool_choice={"type": "function", "name": "get_weather"}),
    "a choice of tools": changed(
        tool_choice={
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "get_weather"}],
        }
    ),
    "system messages": with_input({"role": "developer", "content": "Be brief."}, USER),
    "an assistant's message": with_input(USER, {"role": "assistant", "content": ""}, USER),
    "one id in two turns": with_input(
        USER, call("call_0"), output("call_0"), USER, call("call_0"), output("call_0"), tools=[TOOL]
    ),
    "a message between call and output": with_input(USER, call("call_a"), USER, output("call_a")),
    "an output of a call that the server keeps": with_input(output("call_a"), previous_response_id="resp_1"),
    "a stream": changed(stream=True, stream_options={"include_obfuscation": False}),
}


@pytest.mark.parametrize("body", GOOD_REQUESTS.values(), ids=GOOD_REQUESTS)
def test_a_good_request_has_no_violation_at_all(body: Body) -> None:
    assert send(body) == []


@pytest.mark.parametrize("body", GOOD_REQUESTS.values(), ids=GOOD_REQUESTS)
def test_a_good_request_is_one_to_the_sdk(body: Body) -> None:
    types = pytest.importorskip("openai.types.responses.response_create_params")
    kind = types.ResponseCreateParamsStreaming if body.get("stream") else types.ResponseCreateParamsNonStreaming
    validator(kind).validate_python(body, strict=True)


# the request as a whole


@pytest.mark.parametrize("data", [b"no json", b"[]", b'{"input": NaN}', b"\xff", b"[" * 100_000])
def test_a_body_that_cannot_be_read_is_a_violation(data: bytes) -> None:
    request = HttpRequest("POST", "https://api.openai.com/v1/responses", {}, data)
    (violation,) = lawful.violations(API, request, catalog.api("openai-responses").profile_for(""))
    assert violation.rule == "openai-responses-body"


def test_input_is_needed_where_nothing_else_stands_for_it() -> None:
    assert only({"model": "gpt-6-sol"}, "input-missing").code == "missing_required_parameter"
    assert only({"model": "gpt-6-sol", "input": []}, "input-missing").pointer == "/input"
    assert rules({"model": "gpt-6-sol", "prompt": {"id": "pmpt_1"}}) == []


def test_messages_is_not_a_field() -> None:
    body = {"model": "unheard-of", "messages": [USER]}
    assert rules(body) == ["parameter-unknown", "input-missing"]


def test_unknown_parameters_are_refused_by_the_provider_itself() -> None:
    assert only(changed(max_tokens=100), "parameter-unknown").code == "unsupported_parameter"
    assert only(changed(stop=["x"]), "parameter-unknown").code == "unknown_parameter"
    assert rules(changed(stop=["x"], model="unheard-of")) == []


@pytest.mark.parametrize(
    "fields", [{"instructions": []}, {"max_output_tokens": "100"}, {"stream": 1}, {"temperature": True}, {"tools": {}}]
)
def test_types_of_parameters(fields: Body) -> None:
    body = changed(model="unheard-of", **fields)
    assert only(body, "parameter-type").pointer == f"/{next(iter(fields))}"


def test_ranges_of_parameters() -> None:
    assert rules(changed(model="gpt-4o", temperature=2)) == []
    assert only(changed(model="gpt-4o", temperature=-1), "parameter-range").code == "decimal_below_min_value"
    assert only(changed(model="gpt-4o", top_logprobs=21), "parameter-range").code == "integer_above_max_value"
    assert only(changed(model="gpt-4o", max_output_tokens=15), "parameter-range").code == "integer_below_min_value"


def test_sampling_is_a_warning_where_the_profile_has_none() -> None:
    assert only(changed(model="gpt-5.4", temperature=0.5), "sampling").severity == "warning"
    assert only(changed(top_p=0.5), "sampling").severity == "warning"


@pytest.mark.parametrize("model", ["gpt-5.2", "gpt-5.6", "gpt-5.6-luna", "gpt-6-astra"])
def test_some_models_are_known_to_refuse_a_temperature(model: str) -> None:
    found = only(changed(model=model, temperature=1), "temperature")
    assert (found.severity, found.code, found.pointer) == ("error", "unsupported_parameter", "/temperature")
    unseen = changed(model=model, temperature=1, reasoning={"effort": "none"})
    assert "temperature" not in rules(unseen)
    assert "sampling" in rules(unseen)
    assert rules(changed(model=model)) == []


def test_stream_options_need_a_stream() -> None:
    assert only(changed(stream_options={}), "stream-options").pointer == "/stream_options"


def test_one_kind_of_server_state() -> None:
    only(changed(previous_response_id="resp_1", conversation="conv_1"), "state-conflict")


# calls and results


def test_every_call_is_answered() -> None:
    violation = only(with_input(USER, call("call_a"), call("call_b"), output("call_a")), "result-missing")
    assert violation.pointer == "/input/2"
    assert "call_b" in violation.message


def test_a_call_that_is_answered_by_another_id_is_not_answered() -> None:
    assert rules(with_input(USER, call("call_a"), output("call_b"))) == ["result-orphan", "result-missing"]


def test_an_output_without_call_is_an_orphan_unless_the_server_may_know_the_call() -> None:
    assert only(with_input(USER, output("call_a")), "result-orphan").pointer == "/input/1/call_id"
    for state in ({"previous_response_id": "resp_1"}, {"conversation": "conv_1"}):
        assert rules(with_input(output("call_a"), **state)) == []
    assert rules(with_input({"type": "item_reference", "id": "fc_1"}, output("call_a"))) == []


def test_an_output_comes_after_its_call() -> None:
    assert rules(with_input(USER, output("call_a"), call("call_a"))) == ["result-orphan", "result-missing"]


def test_a_call_is_answered_once() -> None:
    body = with_input(USER, call("call_a"), output("call_a"), output("call_a"))
    assert only(body, "result-duplicate").pointer == "/input/3/call_id"
    stateful = with_input(output("call_a"), output("call_a"), previous_response_id="resp_1")
    only(stateful, "result-duplicate")


def test_custom_calls_are_paired_among_themselves() -> None:
    custom = {"type": "custom_tool_call", "call_id": "call_a", "name": "run", "input": "ls"}
    answer = {"type": "custom_tool_call_output", "call_id": "call_a", "output": "x"}
    assert rules(with_input(USER, custom, answer)) == []
    assert rules(with_input(USER, custom)) == ["result-missing"]
    assert rules(with_input(USER, custom, output("call_a"))) == ["result-orphan", "result-missing"]


def test_an_asynchronous_call_may_wait() -> None:
    assert rules(with_input(USER, call("call_a", **{"async": True}))) == []


def test_a_message_between_call_and_output_is_refused_by_deepseek() -> None:
    body = with_input(USER, call("call_a"), {"role": "assistant", "content": "Hm."}, output("call_a"))
    assert only(body, "result-detached", "deepseek-v4-flash").pointer == "/input/3"
    assert rules(with_input(USER, call("a"), call("b"), output("a"), output("b")), "deepseek-v4-flash") == []


@pytest.mark.parametrize(
    ("after", "alone"),
    [
        ([call("call_a"), output("call_a")], False),
        ([{"type": "reasoning", "id": "rs_2", "summary": []}, call("call_a"), output("call_a")], False),
        ([{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []}], False),
        ([{"role": "assistant", "content": "Hi"}], True),
        ([USER], True),
        ([], True),
    ],
)
def test_stored_reasoning_stands_before_what_it_led_to(after: list[Body], *, alone: bool) -> None:
    assert rules(with_input(USER, REASONING, *after)) == (["reasoning-alone"] if alone else [])
    assert rules(with_input(USER, REASONING, *after, store=False)) == []
    assert rules(with_input(USER, {**REASONING, "id": None}, *after)) == []


# single items


@pytest.mark.parametrize(
    ("item", "rule"),
    [
        ("text", "item-type"),
        ({"content": "x"}, "item-type"),
        ({"type": "tool_use", "id": "x"}, "item-type"),
        ({"type": "item_reference"}, "item-type"),
        ({"role": "tool", "content": "18"}, "role"),
        ({"role": "user"}, "message-shape"),
        ({"role": "user", "content": {}}, "message-shape"),
        ({"type": "message", "content": "x"}, "message-shape"),
        ({"role": "user", "content": [{"type": "text", "text": "x"}]}, "message-content"),
        ({"role": "user", "content": [{"type": "output_text", "text": "x"}]}, "message-content"),
        ({"role": "user", "content": [{"type": "input_text"}]}, "message-content"),
        ({"role": "user", "content": ["x"]}, "message-content"),
        ({"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}, "message-content"),
        ({"role": "assistant", "content": [{"type": "refusal"}]}, "message-content"),
        ({"type": "reasoning"}, "reasoning-shape"),
    ],
)
def test_shapes_of_items(item: Any, rule: str) -> None:
    assert only(with_input(USER, item), rule).pointer.startswith("/input/1")


def test_a_reasoning_item_does_not_bring_its_status_back() -> None:
    item = {"type": "reasoning", "summary": []}
    refused = only(with_input(USER, {**item, "status": "completed"}), "reasoning-status")
    contested = only(with_input(USER, {**item, "status": None}), "reasoning-status")
    assert (refused.severity, contested.severity) == ("error", "warning")


@pytest.mark.parametrize("arguments", [{"city": "Paris"}, [], 7, None])
def test_arguments_are_a_string(arguments: Any) -> None:
    only(with_input(USER, call("a", arguments=arguments), output("a")), "call-shape")


@pytest.mark.parametrize("answer", [{"temp_c": 18}, 18, None])
def test_output_is_a_string_or_a_list(answer: Any) -> None:
    only(with_input(USER, call("a"), output("a", output=answer)), "result-shape")


def test_parts_of_an_output_are_those_of_the_input() -> None:
    parts = [{"type": "input_image", "image_url": "https://x.test/a.png"}, {"type": "input_text", "text": "x"}]
    assert rules(with_input(USER, call("a"), output("a", output=parts))) == []
    wrong = output("a", output=[*parts, {"type": "output_text", "text": "x"}])
    assert only(with_input(USER, call("a"), wrong), "result-content").pointer == "/input/2/output/2"


def test_names_of_called_functions() -> None:
    only(with_input(USER, call("a", name="functions.get"), output("a")), "call-name")
    only(with_input(USER, call("a", name="n" * 65), output("a")), "call-name")


def test_forms_of_ids() -> None:
    assert rules(with_input(USER, call("toolu_01", id="fc_1"), output("toolu_01"))) == []
    assert only(with_input(USER, call("a", id="item_1"), output("a")), "item-id").pointer == "/input/1/id"
    assert rules(with_input(USER, call("a", id="item_1"), output("a"), model="unheard-of")) == []
    only(with_input(USER, call("a", id="fc_" + "0" * 62), output("a")), "item-id")
    long = "c" * 65
    assert rules(with_input(USER, call(long), output(long))) == ["item-call-id", "item-call-id"]
    assert rules(with_input(USER, call(""), output(""))) == ["item-call-id", "item-call-id"]
    only(with_input(USER, {**REASONING, "id": "item_1"}), "item-id")


# tools


def tool(**fields: Any) -> Body:
    return {key: value for key, value in {**TOOL, **fields}.items() if value != "absent"}


@pytest.mark.parametrize(
    ("broken", "rule", "pointer"),
    [
        ({"type": "function", "function": TOOL, "strict": True}, "tool-shape", "/tools/0"),
        (tool(name="absent"), "tool-shape", "/tools/0"),
        (tool(type="absent"), "tool-shape", "/tools/0"),
        ("get_weather", "tool-shape", "/tools/0"),
        (tool(description=7), "tool-shape", "/tools/0/description"),
        (tool(strict="yes"), "tool-shape", "/tools/0/strict"),
        (tool(name="get weather"), "tool-name", "/tools/0/name"),
        (tool(name=""), "tool-name", "/tools/0/name"),
        (tool(name="n" * 65), "tool-name", "/tools/0/name"),
        (tool(parameters={}), "tool-schema", "/tools/0/parameters"),
        (tool(parameters={"type": "object"}), "tool-schema", "/tools/0/parameters"),
        (tool(parameters={"type": "string"}), "tool-schema", "/tools/0/parameters"),
        (tool(parameters="{}"), "tool-schema", "/tools/0/parameters"),
        (
            tool(strict=False, parameters={"type": "object", "properties": {"x": {"type": "union"}}}),
            "tool-schema",
            "/tools/0/parameters/properties/x/type",
        ),
        (tool(examples=[]), "tool-field", "/tools/0/examples"),
        (tool(parameters={**SCHEMA, "required": []}), "tool-strict-schema", "/tools/0/parameters"),
        (tool(parameters={**SCHEMA, "additionalProperties": True}), "tool-strict-schema", "/tools/0/parameters"),
    ],
)
def test_shapes_of_tools(broken: Any, rule: str, pointer: str) -> None:
    assert only({"model": "gpt-6-sol", "input": "Hi", "tools": [broken]}, rule).pointer == pointer


def test_strict_holds_all_the_way_down() -> None:
    inner = {"type": "object", "properties": {"a/b": {"type": "object", "properties": {}}}, "required": ["a/b"]}
    parameters = {
        **SCHEMA,
        "properties": {"city": {"anyOf": [{"type": "array", "items": inner}, {"$ref": "#/$defs/p"}, {"type": "null"}]}},
        "$defs": {"p": {"type": ["object", "null"], "additionalProperties": False}},
    }
    body = {"model": "gpt-6-sol", "input": "Hi", "tools": [tool(parameters=parameters)]}
    assert rules(body) == ["tool-strict-schema", "tool-strict-schema"]
    inside = "/tools/0/parameters/properties/city/anyOf/0/items"
    assert [found.pointer for found in send(body)] == [inside, inside + "/properties/a~1b"]
    assert rules({**body, "tools": [tool(parameters=parameters, strict=False)]}) == []


@pytest.mark.parametrize("strict", [True, False])
def test_an_array_says_what_its_items_are(strict: bool) -> None:
    def sent(city: Body) -> Body:
        parameters = {**SCHEMA, "properties": {"city": {"anyOf": [city, {"type": "null"}]}}}
        return {"model": "gpt-6-sol", "input": "Hi", "tools": [tool(parameters=parameters, strict=strict)]}

    assert rules(sent({"type": "array", "items": {}})) == []
    for bare in ({"type": "array"}, {"type": "array", "prefixItems": [{"type": "string"}]}):
        found = only(sent(bare), "tool-array-items")
        assert found.pointer == "/tools/0/parameters/properties/city/anyOf/0"
        request = HttpRequest("POST", "https://openrouter.ai/api/v1/responses", {}, json.dumps(sent(bare)).encode())
        assert lawful.violations(API, request) == []


def test_a_schema_nested_more_deeply_than_the_stack() -> None:
    schema: Body = {"type": "object"}
    for _ in range(3000):
        schema = {"type": "array", "items": schema}
    ((pointer, _),) = strict_faults(schema, "")
    assert pointer == "/items" * 3000


def test_tools_of_namespaces_and_additional_tools_are_looked_at() -> None:
    namespace = {"type": "namespace", "name": "crm", "tools": [tool(name="a b")]}
    assert only(changed(tools=[namespace]), "tool-name").pointer == "/tools/0/tools/0/name"
    more = {"type": "additional_tools", "role": "developer", "tools": [tool(name="a b")]}
    assert only(with_input(USER, more), "tool-name").pointer == "/input/1/tools/0/name"


def test_a_schema_that_is_strict_already_does_not_have_to_say_so() -> None:
    closed = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    assert rules(changed(tools=[tool(strict="absent", parameters=closed)])) == []


def test_warnings_about_tools() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    unsaid = changed(tools=[tool(strict="absent", parameters=schema)])
    assert only(unsaid, "tool-strict-unsaid").severity == "warning"
    assert only(changed(tools=[TOOL, TOOL]), "tool-duplicate").severity == "warning"
    unknown = changed(tool_choice={"type": "function", "name": "get_time"})
    assert only(unknown, "tool-choice-unknown").severity == "warning"


@pytest.mark.parametrize(
    "choice",
    [
        "any",
        {"function": {"name": "get_weather"}},
        {"type": "function", "function": {"name": "get_weather"}},
        {"type": "allowed_tools", "mode": "auto"},
    ],
)
def test_shapes_of_the_tool_choice(choice: Any) -> None:
    only(changed(tool_choice=choice), "tool-choice-shape")


def test_a_call_cannot_be_required_without_tools() -> None:
    only(changed(tools=[], tool_choice="required"), "tool-choice-toolless")
    assert rules(changed(tools=[], tool_choice="auto")) == []


# JSON output


def asking(**fields: Any) -> Body:
    wanted = {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True, **fields}
    return changed(text={"format": {key: value for key, value in wanted.items() if value != "absent"}})


def test_shapes_of_the_format() -> None:
    for body in (
        asking(type="json"),
        asking(name="absent"),
        asking(schema="absent"),
        asking(schema="{}"),
        changed(text={"format": "json"}),
    ):
        only(body, "format-shape")
    only(asking(name="an answer"), "format-name")
    assert only(asking(schema={**SCHEMA, "required": []}), "format-strict-schema").pointer == "/text/format/schema"
    assert rules(asking(schema={"type": "object"}, strict=False)) == []


def test_json_mode_needs_the_word_in_the_input() -> None:
    body = changed(input="Weather?", instructions="Answer in JSON.", text={"format": {"type": "json_object"}})
    only(body, "format-word")
    for entries in ("as json", [{"role": "system", "content": [{"type": "input_text", "text": "JSON!"}]}]):
        assert rules({**body, "input": entries}) == []
    assert rules({**body, "previous_response_id": "resp_1"}) == []


@pytest.mark.parametrize(
    "body", [{"input": {"a": 1}}, {"input": [[], None]}, {"tools": [None]}, {"text": []}, {"tool_choice": 7}]
)
def test_nothing_makes_the_limits_raise(body: Body) -> None:
    assert any(violation.severity == "error" for violation in send(changed(**body)))


def test_client_metadata_is_taken_and_another_unknown_parameter_is_not() -> None:
    assert send(changed(client_metadata={"session": "x"})) == []
    (unknown,) = send(changed(server_metadata={"session": "x"}))
    assert (unknown.rule, unknown.severity) == ("openai-responses-parameter-unknown", "error")


def test_a_union_without_a_type_is_contested_and_another_root_without_one_is_not() -> None:
    branches = [{"type": "object", "properties": {}}]
    (contested,) = send(changed(tools=[{**TOOL, "strict": False, "parameters": {"oneOf": branches}}]))
    (untyped,) = send(changed(tools=[{**TOOL, "strict": False, "parameters": {"properties": {}}}]))
    assert (contested.rule, contested.severity) == ("openai-responses-tool-schema-union", "warning")
    assert (untyped.rule, untyped.severity) == ("openai-responses-tool-schema", "error")


def test_a_server_that_is_compatible_may_know_more_parameters() -> None:
    body = json.dumps(changed(plugins=[])).encode()
    asked = {
        url: [found.rule for found in lawful.violations(API, HttpRequest("POST", url, {}, body))]
        for url in ("https://api.openai.com/v1/responses", "https://openrouter.ai/api/v1/responses")
    }
    assert list(asked.values()) == [["openai-responses-parameter-unknown"], []]
