from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.apis import registry
from harness.apis.limits import Violation
from harness.apis.openai_chat import API
from harness.model.http import HttpRequest
from tests.apis import lawful
from tests.apis.openai_chat_faults import GOOD, OPENAI, changed, check
from tests.apis.pointers import resolve

LOCAL = "http://127.0.0.1:9/v1/chat/completions"
OTHER = "https://llm.example.com/openai/v1/chat/completions"
MISTRAL = "https://api.mistral.ai/v1/chat/completions"


@pytest.mark.parametrize("url", [OPENAI, LOCAL, OTHER])
def test_a_good_request_has_no_violation_of_any_severity(url: str) -> None:
    assert check(GOOD, url) == []


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
    profile = registry.api("openai-chat").profile_for("gpt-4o")
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
