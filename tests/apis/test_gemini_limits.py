import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from harness.apis import registry
from harness.apis.gemini import API
from harness.apis.limits import Violation
from harness.model.http import HttpRequest
from tests.apis import lawful
from tests.apis.pointers import oddities

GEMINI_3 = "gemini-3.5-flash"
GEMINI_2 = "gemini-2.5-flash"
FOREIGN_SIGNATURES = ["c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=", "context_engineering_is_the_way_to_go"]


def violations(body: Any, model: str = GEMINI_3, *, vertex: bool = False) -> list[Violation]:
    host = (
        "https://aiplatform.googleapis.com/v1beta1/projects/p/locations/l/publishers/google"
        if vertex
        else "https://generativelanguage.googleapis.com/v1beta"
    )
    request = HttpRequest("POST", f"{host}/models/{model}:generateContent", {}, json.dumps(body).encode())
    return lawful.violations(API, request, registry.api("gemini").profile_for(model))


FIELD = "gemini-field-type"


def rules(body: Any, model: str = GEMINI_3, *, severity: str = "error", vertex: bool = False) -> list[str]:
    return [found.rule for found in violations(body, model, vertex=vertex) if found.severity == severity]


def call(name: str, number: str | None, *, signed: bool = True) -> dict[str, Any]:
    part: dict[str, Any] = {"functionCall": {"name": name, "args": {"city": "Paris"}}}
    if number:
        part["functionCall"]["id"] = number
    if signed:
        part["thoughtSignature"] = "QUJD"
    return part


def result(name: str, number: str | None, **fields: Any) -> dict[str, Any]:
    response: dict[str, Any] = {"name": name, "response": {"output": 18}, **fields}
    return {"functionResponse": response | ({"id": number} if number else {})}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": [*parts]}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": [*parts]}


def good() -> dict[str, Any]:
    return {
        "contents": [
            user({"text": "Weather in Paris and Tokyo?"}),
            model(call("get_weather", "a1"), call("get_time", "a2", signed=False)),
            user(result("get_weather", "a1"), result("get_time", "a2")),
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
    }


def broken(change: Callable[[Any], object]) -> dict[str, Any]:
    body = copy.deepcopy(good())
    change(body)
    return body


def contents(*turns: Any) -> dict[str, Any]:
    return {"contents": [*turns]}


@pytest.mark.parametrize("name", [GEMINI_3, GEMINI_2, "gemini-flash-latest"])
def test_a_good_request_has_no_violation(name: str) -> None:
    assert violations(good(), name) == []
    assert violations(good(), name, vertex=True) == []


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (b"", "gemini-body"),
        (b"{", "gemini-body"),
        (b'{"a": NaN}', "gemini-body"),
        (b"\xff", "gemini-body"),
        (b"[1]", "gemini-field-type"),
    ],
)
def test_a_body_that_is_no_request_is_a_violation(body: bytes, rule: str) -> None:
    request = HttpRequest("POST", "https://h/v1beta/models/gemini-3.5-flash:generateContent", {}, body)
    (found,) = lawful.violations(API, request, registry.api("gemini").profile_for(GEMINI_3))
    assert (found.rule, found.severity) == (rule, "error")


def test_the_provider_names_the_place_of_an_unknown_field_in_its_own_spelling() -> None:
    body = broken(lambda body: body["tools"][0]["functionDeclarations"][0]["parameters"].update({"$ref": "#"}))
    (found,) = violations(body)
    assert "Unknown name \"$ref\" at 'tools[0].function_declarations[0].parameters'" in found.message


def test_a_missing_role_is_refused_on_vertex_only() -> None:
    body = contents({"parts": [{"text": "Hi"}]})
    assert rules(body) == []
    assert rules(body, vertex=True) == ["gemini-role"]


QUESTION = user({"text": "Hi"})
CALL = model(call("f", "a"))
RESULT = user(result("f", "a"))


def test_ids_that_the_client_invented_are_accepted() -> None:
    for number in ("call_1", "toolu_01ABC", "x" * 80):
        body = contents(QUESTION, model(call("f", number)), user(result("f", number)))
        assert violations(body, GEMINI_3) == violations(body, GEMINI_2) == []


def test_the_missing_signature_names_the_call_on_both_platforms() -> None:
    body = contents(QUESTION, model(call("f", "a", signed=False)), RESULT)
    for vertex in (False, True):
        (found,) = violations(body, vertex=vertex)
        assert "default_api:f" in found.message
        assert found.pointer == "/contents/1/parts/0"


@pytest.mark.parametrize("signature", FOREIGN_SIGNATURES)
def test_the_documented_escapes_pass_for_signatures(signature: str) -> None:
    escaped = model({**call("f", "a"), "thoughtSignature": signature})
    assert violations(contents(QUESTION, escaped, RESULT)) == []


def test_no_odd_request_makes_the_limits_raise() -> None:
    flagged = total = 0
    for body in oddities(good()):
        flagged += bool(violations(body))
        total += 1
    assert total > 500
    assert flagged > total / 2


PLACE = "/tools/0/functionDeclarations/0/parameters/properties/city"
