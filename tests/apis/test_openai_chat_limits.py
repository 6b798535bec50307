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
from harness.apis.limits import Violation
from harness.apis.openai_chat import API
from harness.contract.http import HttpRequest
from tests.apis import lawful
from tests.apis.openai_chat_faults import GOOD, OPENAI, changed, check, rules
from tests.apis.pointers import resolve

LOCAL = "http://127.0.0.1:9/v1/chat/completions"
OTHER = "https://llm.example.com/openai/v1/chat/completions"
MISTRAL = "https://api.mistral.ai/v1/chat/completions"


@pytest.mark.parametrize("url", [OPENAI, LOCAL, OTHER])
def test_a_good_request_has_no_violation_of_any_severity(url: str) -> None:
    assert check(GOOD, url) == []


def test_a_plain_good_request_has_none_either() -> None:
    assert check({"model": "gpt-5.4", "messages": [{"role": "user", "content": "hi"}]}) == []


@pytest.mark.parametrize("model", ["qwen3", "gpt-oss:20b", "muse-spark-1.1"])
def test_a_proxy_under_openai_s_name_is_told_by_its_model(model: str) -> None:
    body = changed(max_output_tokens=5, model=model)
    assert rules(body) == []
    assert rules(body | {"model": "gpt-4o"}) == [("error", "unknown-field")]


def test_an_id_is_too_long_by_the_bound_of_the_day() -> None:
    body = json.loads(json.dumps(GOOD).replace("call_1", "call_" + "1" * 59))
    assert rules(body) == []
    assert rules(body, on=dt.date(2026, 2, 20)) == [("error", "call-id-at-most-40")]
    longer = json.loads(json.dumps(GOOD).replace("call_1", "call_" + "1" * 60))
    assert rules(longer) == [("error", "call-id-at-most-64")]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (changed("messages", 3, tool_call_id="call_9"), {"result-unknown-id": "/messages/3/tool_call_id"}),
        (changed("messages", 2, role="user", content="Hm."), {"result-orphan": "/messages/4/role"}),
        (changed(messages=GOOD["messages"][:4]), {"result-missing": "/messages/2/tool_calls"}),
        (changed(messages=GOOD["messages"][:3]), {"result-missing": "/messages/2/tool_calls"}),
        (changed("messages", 3, role="user"), {"result-missing": "/messages/2/tool_calls"}),
        (changed("messages", 2, "tool_calls", 0, id=None), {"call-id-missing": "/messages/2/tool_calls/0/id"}),
        (changed("messages", 1, role=...), {"role-unknown": "/messages/1"}),
        (changed("tools", 1, "function", name=...), {"tool-name-missing": "/tools/1/function"}),
        (changed("tools", 1, "function", name="get_weather"), {"tool-duplicate": "/tools/1"}),
    ],
)
def test_a_finding_is_about_the_place(body: Any, found: dict[str, str]) -> None:
    pointers = {each.rule.removeprefix("openai-chat-"): each.pointer for each in check(body)}
    assert pointers.items() >= found.items()


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
    image = [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]
    (found,) = check(changed("messages", 3, content=image))
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
