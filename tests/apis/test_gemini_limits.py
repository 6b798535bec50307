import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from harness import catalog
from harness.apis.gemini import API
from harness.apis.limits import Violation
from harness.contract.http import HttpRequest
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
    return lawful.violations(API, request, catalog.api("gemini").profile_for(model))


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


def test_a_good_request_in_snake_case_has_none_either() -> None:
    body = {
        "contents": [
            user({"text": "Hi"}),
            model({"function_call": {"name": "f", "id": "a"}, "thought_signature": "-_8="}),
            user({"function_response": {"name": "f", "id": "a", "response": {}}}),
        ],
        "system_instruction": {"parts": {"text": "Be brief."}},
        "tools": {"function_declarations": [{"name": "f", "parameters_json_schema": {"any_key": 1}}]},
        "generation_config": {"response_mime_type": "application/json", "response_json_schema": {}},
    }
    assert violations(body) == []


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
    (found,) = lawful.violations(API, request, catalog.api("gemini").profile_for(GEMINI_3))
    assert (found.rule, found.severity) == (rule, "error")


def test_the_provider_names_the_place_of_an_unknown_field_in_its_own_spelling() -> None:
    body = broken(lambda body: body["tools"][0]["functionDeclarations"][0]["parameters"].update({"$ref": "#"}))
    (found,) = violations(body)
    assert "Unknown name \"$ref\" at 'tools[0].function_declarations[0].parameters'" in found.message


def test_a_missing_role_is_refused_on_vertex_only() -> None:
    body = contents({"parts": [{"text": "Hi"}]})
    assert rules(body) == []
    assert rules(body, vertex=True) == ["gemini-role"]


def test_a_thought_signature_may_stand_alone_and_an_empty_part_may_not() -> None:
    answered = {"role": "model", "parts": [{"text": "Hello."}, {"thoughtSignature": "c2ln"}]}
    assert rules(contents(QUESTION, answered, QUESTION)) == []
    empty = {"role": "model", "parts": [{"text": "Hello."}, {"thought": True}]}
    assert rules(contents(QUESTION, empty, QUESTION)) == ["gemini-part-data"]


def test_empty_text_is_accepted() -> None:
    assert violations(contents(user({"text": ""}))) == []  # recorded, whatever forums say


QUESTION = user({"text": "Hi"})
CALL = model(call("f", "a"))
RESULT = user(result("f", "a"))


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([QUESTION, CALL, RESULT], []),
        ([QUESTION, CALL, RESULT, CALL, RESULT, model({"text": "Done."}), QUESTION], []),
        ([QUESTION, model({"text": "Let me see."}, call("f", "a")), RESULT], []),
        ([QUESTION, CALL, user(result("f", "a"), {"text": "And now?"})], []),
        ([QUESTION, CALL, model(call("g", "b")), user(result("g", "b"), result("f", "a"))], []),
        ([QUESTION, CALL], ["gemini-result-count"]),
        ([QUESTION, CALL, user({"text": "?"})], ["gemini-result-count"]),
        ([QUESTION, CALL, user({"text": "?"}), RESULT], ["gemini-result-count", "gemini-result-misplaced"]),
        ([QUESTION, RESULT, CALL], ["gemini-result-misplaced", "gemini-result-count"]),
        ([QUESTION, RESULT], ["gemini-result-misplaced"]),
        ([CALL, RESULT], ["gemini-call-misplaced"]),
        ([QUESTION, CALL, user(result("f", "a"), result("f", "a"))], ["gemini-result-count"]),
    ],
)
@pytest.mark.parametrize("name", [GEMINI_3, GEMINI_2])
def test_calls_and_results_pair(turns: list[Any], expected: list[str], name: str) -> None:
    assert rules(contents(*turns), name) == expected


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([QUESTION, CALL, user(result("f", "b"))], ["gemini-result-id-unknown"]),
        ([QUESTION, CALL, user(result("f", "a"), result("f", "a"))], ["gemini-result-id-repeated"]),
        (
            [QUESTION, model(call("f", "a"), call("f", "b")), user(result("f", "a"), result("f", "a"))],
            ["gemini-result-id-repeated"],
        ),
    ],
)
@pytest.mark.parametrize("name", [GEMINI_3, GEMINI_2])
def test_ids_that_do_not_match_are_only_documented_to_be_refused(
    turns: list[Any], expected: list[str], name: str
) -> None:
    assert rules(contents(*turns), name, severity="warning") == expected


@pytest.mark.parametrize("name", [GEMINI_3, GEMINI_2])
def test_text_before_a_call_in_a_content_of_its_own_is_contested(name: str) -> None:
    body = contents(QUESTION, model({"text": "Let me see."}), CALL, RESULT)
    assert rules(body, name) == []
    assert rules(body, name, severity="warning") == ["gemini-call-after-model"]
    assert rules(contents(CALL, RESULT), name) == ["gemini-call-misplaced"]  # nobody contests the beginning


def test_the_role_function_is_contested_and_no_other_role_is() -> None:
    def body(role: str) -> dict[str, Any]:
        return contents(QUESTION, CALL, {**RESULT, "role": role})

    for generation in (GEMINI_2, GEMINI_3):
        assert rules(body("function"), generation) == []
        assert rules(body("function"), generation, severity="warning") == ["gemini-role-function"]
    assert rules(body("tool"), GEMINI_2) == rules(body("tool"), GEMINI_3) == ["gemini-role"]


def test_ids_that_the_client_invented_are_accepted() -> None:
    for number in ("call_1", "toolu_01ABC", "x" * 80):
        body = contents(QUESTION, model(call("f", number)), user(result("f", number)))
        assert violations(body, GEMINI_3) == violations(body, GEMINI_2) == []


def test_results_of_one_tool_pair_without_ids() -> None:
    calls = model(call("f", None), call("f", None))
    assert violations(contents(QUESTION, calls, user(result("f", None), result("f", None))), GEMINI_2) == []


@pytest.mark.parametrize(("name", "severity"), [(GEMINI_3, "error"), (GEMINI_2, "warning")])
def test_what_2_5_was_seen_to_accept_is_an_error_for_gemini_3_only(name: str, severity: str) -> None:
    answers = [user(result("f", "a")), user(result("g", "b"))]
    turns = [QUESTION, model(call("f", "a"), call("g", "b")), *answers]
    found = [each.severity for each in violations(contents(*turns), name) if each.rule == "gemini-results-split"]
    assert found == [severity]


@pytest.mark.parametrize("name", [GEMINI_3, GEMINI_2])
@pytest.mark.parametrize(
    "answer",
    [
        user(result("x", "a"), result("g", "b")),
        user(result("g", "a"), result("g", "b")),
        user(result("x", None), result("g", None)),
    ],
)
def test_names_that_do_not_match_are_only_documented_to_be_refused(answer: Any, name: str) -> None:
    turns = [QUESTION, model(call("f", "a"), call("g", "b")), answer]
    assert "gemini-result-name" in rules(contents(*turns), name, severity="warning")


def test_gemini_3_wants_the_signature_of_each_step_of_the_current_turn() -> None:
    unsigned = model(call("f", "a", signed=False))
    assert rules(contents(QUESTION, unsigned, RESULT)) == ["gemini-signature-missing"]
    assert rules(contents(QUESTION, unsigned, RESULT), GEMINI_2) == []
    assert rules(contents(QUESTION, CALL, RESULT, unsigned, RESULT)) == ["gemini-signature-missing"]
    earlier = [QUESTION, unsigned, RESULT, model({"text": "Done."})]
    assert rules(contents(*earlier, QUESTION)) == []
    assert rules(contents(*earlier, QUESTION, CALL, RESULT)) == []
    assert rules(
        contents(
            QUESTION, model(call("f", "a", signed=False), call("f", "b")), user(result("f", "a"), result("f", "b"))
        )
    ) == ["gemini-signature-missing"]


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


def _thinking(level: str) -> dict[str, Any]:
    return {**contents(user({"text": "Hi"})), "generationConfig": {"thinkingConfig": {"thinkingLevel": level}}}


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("gemini-2.5-flash", {"MINIMAL", "LOW", "MEDIUM", "HIGH"}),
        ("gemini-3.1-flash-lite", set[str]()),
        ("gemini-3.6-flash", set[str]()),
        ("gemini-3.7-flash", {"MINIMAL"}),
        ("gemini-3.8-flash", {"MINIMAL"}),
        ("gemini-flash-latest", set[str]()),
    ],
)
def test_levels_of_thinking_are_for_some_models(name: str, refused: set[str]) -> None:
    """gemini-no-levels, gemini-no-minimal-level."""
    levels = ("MINIMAL", "LOW", "MEDIUM", "HIGH")
    assert {level for level in levels if rules(_thinking(level.lower()), name) == ["gemini-thinking-level"]} == refused
    assert {level for level in levels if rules(_thinking(level), name)} == refused


@pytest.mark.parametrize(
    ("name", "refuses"),
    [
        ("gemini-2.5-flash", False),
        ("gemini-3.1-pro-preview", False),
        ("gemini-3.5-flash", False),
        ("gemini-3.5-flash-lite", True),
        ("gemini-3.6-flash", True),
        ("gemini-3.8-flash", True),
        ("gemini-flash-latest", False),
    ],
)
def test_a_model_turn_at_the_end_is_for_some_models(name: str, refuses: bool) -> None:
    """gemini-no-model-turn-last. One that ends in a call is refused everywhere, for the result that is missing."""
    body = contents(user({"text": "Hi"}), model({"text": "Once upon"}))
    assert rules(body, name) == (["gemini-model-turn-last"] if refuses else [])
    called = contents(user({"text": "Hi"}), model(call("f", "a")))
    assert rules(called, name) == ["gemini-result-count"]


@pytest.mark.parametrize("field", ["temperature", "topP", "topK"])
def test_what_the_newer_models_ignore_is_no_violation(field: str) -> None:
    """gemini-sampling-ignored: accepted, and without effect."""
    assert violations({**contents(user({"text": "Hi"})), "generationConfig": {field: 1}}, "gemini-3.6-flash") == []


PLACE = "/tools/0/functionDeclarations/0/parameters/properties/city"


def with_city(schema: Any) -> dict[str, Any]:
    def change(body: Any) -> None:
        body["tools"][0]["functionDeclarations"][0]["parameters"]["properties"]["city"] = schema

    return broken(change)


@pytest.mark.parametrize(
    ("rule", "pointer", "schema"),
    [
        ("gemini-schema-items", PLACE, {"type": "ARRAY"}),
        ("gemini-schema-items", f"{PLACE}/any_of/0", {"any_of": [{"type": "array"}, {"type": "string"}]}),
        ("gemini-schema-items", f"{PLACE}/items", {"type": "array", "items": {"type": "array"}}),
        ("gemini-schema-enum-empty", f"{PLACE}/enum/1", {"type": "STRING", "enum": ["Paris", ""]}),
        ("gemini-schema-enum-type", f"{PLACE}/enum", {"enum": ["Paris"]}),
        ("gemini-schema-enum-type", f"{PLACE}/enum", {"type": "integer", "enum": ["1"]}),
    ],
)
def test_enums_and_arrays_of_parameters(rule: str, pointer: str, schema: Any) -> None:
    body = with_city(schema)
    (found,) = violations(body)
    assert (found.rule, found.severity, found.pointer) == (rule, "error", pointer)
    assert violations(body, vertex=True) == [], "nobody has seen Vertex refuse it"
    elsewhere = good()
    elsewhere["generationConfig"] |= {"responseMimeType": "application/json", "responseSchema": schema}
    elsewhere["tools"][0]["functionDeclarations"][1]["parametersJsonSchema"] = {"properties": {"city": schema}}
    assert violations(elsewhere) == [], "nor it of the answer's schema, nor of the other language"


@pytest.mark.parametrize("name", [GEMINI_3, GEMINI_2, "gemini-3.6-flash"])
@pytest.mark.parametrize("tool", [{"googleSearch": {}}, {"url_context": {}}, {"codeExecution": {}}])
def test_a_server_tool_beside_functions_is_asked_for(name: str, tool: Any) -> None:
    mixed = broken(lambda body: body["tools"].append(tool))
    (found,) = violations(mixed, name)
    assert (found.rule, found.severity) == ("gemini-mixed-tools", "error")
    assert found.pointer == f"/tools/1/{next(iter(tool))}"
    assert violations(mixed, name, vertex=True) == []
    assert violations(mixed, "gemini-flash-latest") == []
    mixed["toolConfig"]["includeServerSideToolInvocations"] = True
    assert violations(mixed, name) == []
    assert violations(good() | {"tools": [tool], "toolConfig": {}}, name) == []
