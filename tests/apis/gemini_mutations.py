"""Faults put into accepted Gemini requests, each with the limit that has to catch it.

The body names no model, and Gemini 3 refuses more than 2.x does: `mutations_for` has what a profile forbids.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from harness.apis.profile import Profile
from tests.apis.mutation import Mutation

Body = dict[str, Any]
Apply = Callable[[Body], Iterator[Body]]

_SNAKE = {
    "functionCall": "function_call",
    "functionResponse": "function_response",
    "functionDeclarations": "function_declarations",
    "thoughtSignature": "thought_signature",
    "parametersJsonSchema": "parameters_json_schema",
}


def _key(value: Body, camel: str) -> str:
    """The spelling of a field that this object has, else the camelCase one."""
    snake = _SNAKE.get(camel, camel)
    return snake if snake in value else camel


def _parts(body: Body, kind: str) -> list[tuple[int, int, str]]:
    """Content, part and key of every part of a kind."""
    return [
        (number, index, _key(part, kind))
        for number, content in enumerate(body["contents"])
        for index, part in enumerate(content["parts"])
        if _key(part, kind) in part
    ]


def _each(kind: str, change: Callable[[Body], None]) -> Apply:
    """One mutant for each call or result, changed in place."""

    def apply(body: Body) -> Iterator[Body]:
        for number, index, key in _parts(body, kind):
            mutant = copy.deepcopy(body)
            change(mutant["contents"][number]["parts"][index][key])
            yield mutant

    return apply


def _each_part(kind: str, change: Callable[[Body, int, int], None]) -> Apply:
    """One mutant for each part of a kind; the change sees the contents and where the part is."""

    def apply(body: Body) -> Iterator[Body]:
        for number, index, _ in _parts(body, kind):
            mutant = copy.deepcopy(body)
            change(mutant["contents"], number, index)
            yield mutant

    return apply


def _once(change: Callable[[Body], None], *, needs: str | None = None) -> Apply:
    def apply(body: Body) -> Iterator[Body]:
        if needs is None or body.get(needs):
            mutant = copy.deepcopy(body)
            change(mutant)
            yield mutant

    return apply


def _declarations(body: Body) -> list[Body]:
    tools = body.get("tools") or []
    return [
        declaration
        for tool in (tools if isinstance(tools, list) else [tools])
        for declaration in tool.get(_key(tool, "functionDeclarations"), ())
    ]


def _each_tool(change: Callable[[Body], None]) -> Apply:
    def apply(body: Body) -> Iterator[Body]:
        for index in range(len(_declarations(body))):
            mutant = copy.deepcopy(body)
            change(_declarations(mutant)[index])
            yield mutant

    return apply


def _put(key: str, value: Any) -> Callable[[Body], None]:
    return lambda target: target.update({key: value})


def _drop(key: str) -> Callable[[Body], None]:
    return lambda target: target.pop(key, None)


def _drop_part(contents: Any, number: int, index: int) -> None:
    del contents[number]["parts"][index]
    if not contents[number]["parts"]:
        del contents[number]


def _repeat_part(contents: Any, number: int, index: int) -> None:
    contents[number]["parts"].append(copy.deepcopy(contents[number]["parts"][index]))


def _add_orphan(contents: Any, number: int, index: int) -> None:
    name = {"id": "orphan01", "name": "orphan", "response": {"output": 1}}
    contents[number]["parts"].insert(index, {"functionResponse": name})


def _user_turn_between(contents: Any, number: int, index: int) -> None:
    del index
    contents.insert(number, {"role": "user", "parts": [{"text": "One moment."}]})


def _model_turn_between(contents: Any, number: int, index: int) -> None:
    del index
    contents.insert(number, {"role": "model", "parts": [{"text": "One moment."}]})


def _results_first(contents: Any, number: int, index: int) -> None:
    del index
    contents.insert(0, contents.pop(number))


def _results_behind_a_turn(contents: Any, number: int, index: int) -> None:
    del index
    results = contents.pop(number)
    contents.insert(number, {"role": "user", "parts": [{"text": "And?"}]})
    contents.append({"role": "model", "parts": [{"text": "Well."}]})
    contents.append(results)


def _call_first(contents: Any, number: int, index: int) -> None:
    del index
    del contents[:number]


def _as_user(contents: Any, number: int, index: int) -> None:
    del index
    contents[number]["role"] = "user"


def _as_model(contents: Any, number: int, index: int) -> None:
    del index
    contents[number]["role"] = "model"


def _with_text(contents: Any, number: int, index: int) -> None:
    contents[number]["parts"][index]["text"] = "Calling."


def _emptied(contents: Any, number: int, index: int) -> None:
    contents[number]["parts"][index] = {}


def _steps_with_ids(body: Body) -> Iterator[tuple[int, list[Body], list[Body]]]:
    """Content number, calls and results of the steps whose calls all have ids and whose results follow at once."""
    contents = body["contents"]
    for number, content in enumerate(contents[:-1]):
        calls = [part[key] for part in content["parts"] if (key := _key(part, "functionCall")) in part]
        follow = contents[number + 1]["parts"]
        results = [part[key] for part in follow if (key := _key(part, "functionResponse")) in part]
        if calls and len(calls) == len(results) and all(call.get("id") for call in calls):
            yield number, calls, results


def _each_id(side: int) -> Apply:
    """The id of each call (side 0) or of each result (side 1) is changed, of steps with ids on both sides."""

    def apply(body: Body) -> Iterator[Body]:
        for step, (_, *sides) in enumerate(_steps_with_ids(body)):
            for index in range(len(sides[side])):
                if sides[1][index].get("id"):
                    mutant = copy.deepcopy(body)
                    (_, *found) = [*_steps_with_ids(mutant)][step]
                    found[side][index]["id"] = "changed1"
                    yield mutant

    return apply


def _ids_alike(body: Body) -> Iterator[Body]:
    for step, (_, _, results) in enumerate(_steps_with_ids(body)):
        if len(results) > 1 and all(result.get("id") for result in results):
            mutant = copy.deepcopy(body)
            _, _, found = [*_steps_with_ids(mutant)][step]
            found[1]["id"] = found[0]["id"]
            yield mutant


def _split(body: Body) -> Iterator[Body]:
    for number, content in enumerate(body["contents"]):
        results = [part for part in content["parts"] if _key(part, "functionResponse") in part]
        if len(results) > 1:
            mutant = copy.deepcopy(body)
            last = mutant["contents"][number]["parts"].pop()
            mutant["contents"].insert(number + 1, {"role": "user", "parts": [last]})
            yield mutant


def _signatures(change: Callable[[Body, str], None]) -> Apply:
    """The signature of the first call of each step of the current turn."""

    def apply(body: Body) -> Iterator[Body]:
        contents = body["contents"]
        opening = max(
            number
            for number, content in enumerate(contents)
            if content["role"] == "user"
            and any(_key(part, "functionResponse") not in part for part in content["parts"])
        )
        firsts = {number: index for number, index, _ in reversed(_parts(body, "functionCall")) if number > opening}
        for number, index in firsts.items():
            mutant = copy.deepcopy(body)
            part = mutant["contents"][number]["parts"][index]
            change(part, _key(part, "thoughtSignature"))
            yield mutant

    return apply


def _signature_moved(part: Body, key: str) -> None:
    part[_key(part, "functionCall")]["thoughtSignature"] = part.pop(key)


def _second_declaration(body: Body) -> Iterator[Body]:
    for declaration in _declarations(body):
        mutant = copy.deepcopy(body)
        tools = mutant["tools"] if isinstance(mutant["tools"], list) else [mutant["tools"]]
        mutant["tools"] = [*tools, {"functionDeclarations": [copy.deepcopy(declaration)]}]
        yield mutant


def _both_schemas(declaration: Body) -> None:
    declaration["parameters"] = declaration["parametersJsonSchema"] = {"type": "object"}
    declaration.pop("parameters_json_schema", None)


def _openapi(schema: Any) -> Callable[[Body], None]:
    def change(declaration: Body) -> None:
        declaration.pop(_key(declaration, "parametersJsonSchema"), None)
        declaration["parameters"] = schema

    return change


def _object(member: Any) -> Any:
    return {"type": "object", "properties": {"a": member}}


def _server_tool(body: Body) -> Iterator[Body]:
    if _declarations(body):
        mutant = copy.deepcopy(body)
        tools = mutant["tools"] if isinstance(mutant["tools"], list) else [mutant["tools"]]
        mutant["tools"] = [*tools, {"codeExecution": {}}]
        mutant.get("toolConfig", {}).pop("includeServerSideToolInvocations", None)
        yield mutant


def _config(**settings: Any) -> Apply:
    return _once(lambda body: body.update(generationConfig={**body.get("generationConfig", {}), **settings}))


_COUNT = ("gemini-result-count", "gemini-result-misplaced")
_TYPE = "gemini-field-type"
_UNKNOWN = "gemini-unknown-field"

MUTATIONS: list[Mutation] = [
    Mutation("result dropped", "gemini-result-count", _each_part("functionResponse", _drop_part)),
    Mutation("result repeated", "gemini-result-count", _each_part("functionResponse", _repeat_part)),
    Mutation("orphan result added", "gemini-result-count", _each_part("functionResponse", _add_orphan)),
    Mutation("call dropped", _COUNT, _each_part("functionCall", _drop_part)),
    Mutation("call repeated", "gemini-result-count", _each_part("functionCall", _repeat_part)),
    Mutation("user turn between call and results", _COUNT, _each_part("functionResponse", _user_turn_between)),
    Mutation("model turn between call and results", _COUNT, _each_part("functionResponse", _model_turn_between)),
    Mutation("results before everything", "gemini-result-misplaced", _each_part("functionResponse", _results_first)),
    Mutation("results after a later turn", _COUNT, _each_part("functionResponse", _results_behind_a_turn)),
    Mutation("history starts with the call", "gemini-call-misplaced", _each_part("functionCall", _call_first)),
    Mutation("call in the user's turn", "gemini-call-role", _each_part("functionCall", _as_user)),
    Mutation("results in the model's turn", _COUNT, _each_part("functionResponse", _as_model)),
    Mutation("call id changed", "gemini-result-id-unknown", _each_id(0)),
    Mutation("result id changed", "gemini-result-id-unknown", _each_id(1)),
    Mutation("two results with one id", "gemini-result-id-repeated", _ids_alike),
    Mutation("arguments as text", _TYPE, _each("functionCall", _put("args", "{}"))),
    Mutation("arguments as list", _TYPE, _each("functionCall", _put("args", []))),
    Mutation("arguments as number", _TYPE, _each("functionCall", _put("args", 1))),
    Mutation("call without name", "gemini-name-empty", _each("functionCall", _drop("name"))),
    Mutation("call id as number", _TYPE, _each("functionCall", _put("id", 1))),
    Mutation("response as text", _TYPE, _each("functionResponse", _put("response", "18"))),
    Mutation("response as list", _TYPE, _each("functionResponse", _put("response", [18]))),
    Mutation("result without name", "gemini-name-empty", _each("functionResponse", _drop("name"))),
    Mutation("unknown field of a call", _UNKNOWN, _each("functionCall", _put("arguments", {}))),
    Mutation("unknown field of a result", _UNKNOWN, _each("functionResponse", _put("is_error", True))),
    Mutation("two data fields", "gemini-part-data", _each_part("functionCall", _with_text)),
    Mutation("no data field", "gemini-part-data", _each_part("functionCall", _emptied)),
    Mutation("broken signature", _TYPE, _signatures(lambda part, key: part.update({key: "not base64!"}))),
    Mutation("role assistant", "gemini-role", _once(lambda body: body["contents"][-1].update(role="assistant"))),
    Mutation("role tool", "gemini-role", _once(lambda body: body["contents"][-1].update(role="tool"))),
    Mutation(
        "system role",
        "gemini-role",
        _once(lambda body: body["contents"].insert(0, {"role": "system", "parts": [{"text": "Be brief."}]})),
    ),
    Mutation("no contents", "gemini-contents-empty", _once(_drop("contents"))),
    Mutation("empty contents", "gemini-contents-empty", _once(_put("contents", []))),
    Mutation("contents as text", _TYPE, _once(_put("contents", "Hello"))),
    Mutation("no parts", "gemini-parts-empty", _once(lambda body: body["contents"][0].update(parts=[]))),
    Mutation("text as number", _TYPE, _once(lambda body: body["contents"][0].update(parts=[{"text": 1}]))),
    Mutation("unknown field of the body", _UNKNOWN, _once(_put("messages", []))),
    Mutation("unknown setting", _UNKNOWN, _config(max_tokens=10)),
    Mutation("system as text", _TYPE, _once(_put("systemInstruction", "Be brief."))),
    Mutation("tool without name", "gemini-tool-name", _each_tool(_drop("name"))),
    Mutation("tool name with a space", "gemini-tool-name", _each_tool(_put("name", "get weather"))),
    Mutation("tool name with a leading digit", "gemini-tool-name", _each_tool(_put("name", "1st"))),
    Mutation("tool name of 129 characters", "gemini-tool-name", _each_tool(_put("name", "n" * 129))),
    Mutation("tool declared twice", "gemini-tool-duplicate", _second_declaration),
    Mutation("unknown field of a tool", _UNKNOWN, _each_tool(_put("strict", True))),
    Mutation("both schema languages", "gemini-tool-schemas", _each_tool(_both_schemas)),
    Mutation("JSON Schema keyword in OpenAPI", _UNKNOWN, _each_tool(_openapi({"type": "object", "$defs": {}}))),
    Mutation("list of types", _TYPE, _each_tool(_openapi({"type": ["string", "null"]}))),
    Mutation(
        "type that is none",
        "gemini-schema-type",
        _each_tool(_openapi(_object({"type": "float"}))),
    ),
    Mutation(
        "schema without its mime type",
        "gemini-schema-mime-type",
        _config(responseSchema={"type": "object"}, responseMimeType=None),
    ),
    Mutation(
        "two output schemas",
        "gemini-output-schemas",
        _config(responseMimeType="application/json", responseSchema={"type": "object"}, responseJsonSchema={}),
    ),
    Mutation("unknown keyword of an output schema", _UNKNOWN, _config(responseSchema={"type": "object", "oneOf": []})),
    Mutation(
        "thinking level and budget",
        "gemini-thinking",
        _config(thinkingConfig={"thinkingLevel": "LOW", "thinkingBudget": 1}),
    ),
]
"""What every model refuses."""

_DEVELOPER: list[Mutation] = [
    Mutation("array without items", "gemini-schema-items", _each_tool(_openapi(_object({"type": "ARRAY"})))),
    Mutation(
        "array without items in a choice",
        "gemini-schema-items",
        _each_tool(_openapi(_object({"anyOf": [{"type": "array"}, {"type": "string"}]}))),
    ),
    Mutation(
        "enum with an empty value",
        "gemini-schema-enum-empty",
        _each_tool(_openapi(_object({"type": "string", "enum": ["a", ""]}))),
    ),
    Mutation("enum without type", "gemini-schema-enum-type", _each_tool(_openapi(_object({"enum": ["a"]})))),
]
"""What every model refuses at the Developer API; of Vertex nobody has seen it."""

_MIXED: list[Mutation] = [
    Mutation("a server tool beside functions", "gemini-mixed-tools", _server_tool),
]

_GEMINI_3: list[Mutation] = [
    Mutation("signature lost", "gemini-signature-missing", _signatures(lambda part, key: part.pop(key))),
    Mutation("signature empty", "gemini-signature-missing", _signatures(lambda part, key: part.update({key: ""}))),
    Mutation("signature inside the call", (_UNKNOWN, "gemini-signature-missing"), _signatures(_signature_moved)),
    Mutation("result under another name", "gemini-result-name", _each("functionResponse", _put("name", "another"))),
    Mutation("results over two contents", "gemini-results-split", _split),
]

_GEMINI_2: list[Mutation] = [
    Mutation("JSON output with tools", "gemini-json-with-tools", _config(responseMimeType="application/json")),
]


_ODD: list[Any] = [None, True, 0, 1.5, "", "x", "é", [], {}, [None], [[]], {"x": None}]


def oddities(body: Any) -> Iterator[Any]:
    """The body with each of its values in turn replaced by something odd."""
    for odd in _ODD:
        yield copy.deepcopy(odd)
    keys = range(len(body)) if isinstance(body, list) else body if isinstance(body, dict) else ()
    for key in keys:
        for value in oddities(body[key]):
            mutant = copy.copy(body)
            mutant[key] = value
            yield mutant


def mutations_for(profile: Profile, *, vertex: bool = False) -> list[Mutation]:
    """What the models of a profile refuse."""
    return [
        *MUTATIONS,
        *(() if vertex else _DEVELOPER),
        *(_MIXED if profile.mixed_tools == "refused" and not vertex else ()),
        *(_GEMINI_3 if profile.thought_signatures == "required" else ()),
        *(_GEMINI_2 if profile.json_with_tools == "unsupported" else ()),
    ]
