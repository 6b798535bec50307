"""Checks of requests that fact conditions cannot express: pairing, reasoning, tools, schemas, and parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from harness.apis.fact_files import ApiLimits, Facts
from harness.apis.jsonvalue import as_list, as_object, join, keys, objects, parse_body, resolve, string
from harness.apis.limits import Limit, Violation, bracketed_path
from harness.apis.openai_common import Nodes, bare_arrays, field_faults, invalid_schema, open_objects, schema_nodes
from harness.apis.openai_responses.requests import item_kind, state
from harness.apis.profiles import IssuedState, Profile, RuleSet
from harness.apis.view import ProviderReport, RequestView, ResponseView, WireError
from harness.model.http import HttpRequest
from harness.model.messages import JSON

FACTS = Facts.next_to(__file__)
limit = ApiLimits(FACTS, "openai-responses")

_MISSING, _WRONG_TYPE, _WRONG_VALUE = "missing_required_parameter", "invalid_type", "invalid_value"
_MOVED = {
    "messages": "input",
    "response_format": "text.format",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "functions": "tools",
    "function_call": "tool_choice",
}
"""Maps parameters of Chat Completions to their names in this API."""

_ANSWERS = {"function_call_output": "function_call", "custom_tool_call_output": "custom_tool_call"}
_CALLS = tuple(_ANSWERS.values())
_FOLLOWERS = ("mcp_list_tools", "mcp_approval_request", "program", "item_reference", "compaction")

_UNIONS = ("oneOf", "anyOf", "allOf")
_SCHEMA_CODE = "invalid_function_parameters"
_NAME, _NAME_LENGTH = re.compile(r"[a-zA-Z0-9_-]+"), 64
_NESTED = ("properties", "$defs", "definitions", "anyOf", "items")
"""Keywords whose subschemas are checked."""


def violations(request: HttpRequest, rule_set: RuleSet) -> list[Violation]:
    """Return the violations of a request."""
    try:
        body = parse_body(request.body)
    except WireError as error:
        return [limit("body").make_violation(f"The body of the request is not valid JSON: {error.reason}.", "")]
    if not isinstance(body, dict):
        return [limit("body").make_violation("The body of the request must be a JSON object.", "")]
    return [
        *_parameters(body, rule_set),
        *(_nested_fields(body) if rule_set.is_own and rule_set.profile.strict_requests else ()),
        *_pairing(body, rule_set),
        *_tools(body, rule_set),
        *_format(body),
    ]


def _parameters(body: dict[str, JSON], rule_set: RuleSet) -> Iterator[Violation]:
    strict = rule_set.is_own and rule_set.profile.strict_requests  # compatible servers may have different parameters
    for key, value in body.items():
        if value is None:
            continue
        if key in limit.fields:
            yield from field_faults(limit, key, value)
        elif strict or key == "messages":
            moved = f"Unsupported parameter: '{key}'. The Responses API takes '{_MOVED.get(key)}' instead."
            text, code = (
                (moved, "unsupported_parameter")
                if key in _MOVED
                else (f"Unknown parameter: '{key}'.", "unknown_parameter")
            )
            yield limit("parameter-unknown").make_violation(text, join("", key), code=code)


def _nested_fields(body: dict[str, JSON]) -> Iterator[Violation]:
    """Check that the fields of tools, items, parts and formats are known (openai-responses-nested-fields)."""
    for pointer, tool in _declarations(body):
        yield from _unknown(tool, pointer, "tools[]", "tool-field")
    for pointer, item in objects(body.get("input"), "/input"):
        yield from _unknown(item, pointer, "input[]")
        for key in ("content", "output"):
            for place, part in objects(item.get(key), join(pointer, key)):
                yield from _unknown(part, place, "input[].content[]")
    for place in ("reasoning", "text", "text.format", "tool_choice"):
        pointer = f"/{place.replace('.', '/')}"
        yield from _unknown(resolve(body, pointer), pointer, place)


def _unknown(value: JSON, pointer: str, place: str, name: str = "nested-field") -> Iterator[Violation]:
    if isinstance(value, dict):
        forms = _fields(name)[place]
        known = forms[""] if "" in forms else ["type", *forms.get(item_kind(value), value)]
        for key, field in value.items():
            if key not in known and field is not None:
                text, at = f"Unknown parameter: '{bracketed_path(join(pointer, key))}'.", join(pointer, key)
                yield limit(name).make_violation(text, at, code="unknown_parameter", actual=key)


def _fields(name: str) -> dict[str, dict[str, list[str]]]:
    """Return the known fields by place and type, from the parameters of a limit."""
    parameters: Any = FACTS.limits[f"openai-responses-{name}"][1].parameters
    return parameters


def _pairing(body: dict[str, JSON], rule_set: RuleSet) -> Iterator[Violation]:
    entries = body.get("input")
    if not isinstance(entries, list):
        return
    items = [as_object(item) for item in entries]
    yield from _results(items, stateful=state(body) is not None, adjacent=rule_set.profile.results_adjacent)
    # reasoning that is not stored cannot be compared (openai-responses-reasoning-back)
    if rule_set.is_own and body.get("store") is not False:
        yield from _reasoning(items)


def _results(items: list[dict[str, JSON]], *, stateful: bool, adjacent: bool) -> Iterator[Violation]:
    """Check that each call has exactly one result (openai-responses-result-has-call).

    Items are paired in order. A call id may be reused after its result (openai-responses-recorded-ids).
    """
    waiting: dict[tuple[str, str], list[int]] = {}
    answered: set[tuple[str, str]] = set()
    for index, item in enumerate(items):
        kind, call_id = item_kind(item), item.get("call_id")
        if not isinstance(call_id, str):
            continue
        if kind in _CALLS:
            waiting.setdefault((kind, call_id), []).append(index)
        elif kind in _ANSWERS:
            key = (_ANSWERS[kind], call_id)
            calls = waiting.get(key)
            if calls:
                call = calls.pop(0)
                yield from _detached_violations(items, call, index) if adjacent and not items[call].get("async") else ()
            elif key in answered or not stateful:
                yield _orphan_violation(call_id, index, again=key in answered)
            answered.add(key)
    for (_, call_id), calls in waiting.items():
        for index in calls:
            if items[index].get("async") is True:
                continue  # the result of an asynchronous tool may follow in a later request
            text = f"No tool output was found for the function call {call_id}."
            yield limit("result-missing").make_violation(text, join("/input", index), actual=call_id)


def _orphan_violation(call_id: str, index: int, *, again: bool) -> Violation:
    pointer = join("/input", index, "call_id")
    if again:
        text = f"No tool call is left for this function call output: call_id {call_id} has been answered before."
        return limit("result-duplicate").make_violation(text, pointer, actual=call_id)
    text = f"No tool call before this item was found for the function call output with call_id {call_id}."
    return limit("result-orphan").make_violation(text, pointer, actual=call_id)


def _detached_violations(items: list[dict[str, JSON]], call: int, index: int) -> Iterator[Violation]:
    if any(item_kind(between) == "message" for between in items[call:index]):
        call_id = items[call]["call_id"]
        text = f"No tool output found for tool call {call_id}: there is a message between the call and its output."
        yield limit("result-detached").make_violation(text, join("/input", index), actual=call_id)


def _reasoning(items: list[dict[str, JSON]]) -> Iterator[Violation]:
    """Check that reasoning with an id precedes the output item it was stored with (openai-responses-reasoning-back)."""
    for index, item in enumerate(items):
        identity = item.get("id")
        if item_kind(item) != "reasoning" or not isinstance(identity, str) or not identity.startswith("rs_"):
            continue
        after = next((follower for follower in items[index + 1 :] if item_kind(follower) != "reasoning"), None)
        if after is None or not _is_output(after):
            text = f"The reasoning item '{identity}' was provided without the item that has to follow it."
            yield limit("reasoning-alone").make_violation(text, join("/input", index), actual=identity)


def _is_output(item: dict[str, JSON]) -> bool:
    kind = item_kind(item)
    if kind == "message":
        return item.get("role") == "assistant" and item.get("id") is not None
    return kind.endswith("_call") or kind in _FOLLOWERS


def _tools(body: dict[str, JSON], rule_set: RuleSet) -> Iterator[Violation]:
    declared = list(_declarations(body))
    for pointer, tool in declared:
        yield from _tool(tool, pointer, own=rule_set.is_own)
    yield from _duplicates([(pointer, tool) for pointer, tool in declared if pointer.count("/") == 2])
    yield from _choice(body.get("tool_choice"), {string(as_object(tool).get("name")) or "" for _, tool in declared})


def _declarations(body: dict[str, JSON]) -> Iterator[tuple[str, JSON]]:
    """Yield every tool declaration with its pointer: from the request, from namespaces, and from `additional_tools`
    items."""
    lists = [("/tools", body.get("tools"))]
    for index, item in enumerate(as_list(body.get("input"))):
        if isinstance(item, dict) and item.get("type") == "additional_tools":
            lists.append((join("/input", index, "tools"), item.get("tools")))
    for pointer, tools in lists:
        for place, tool in _tool_list(tools, pointer):
            yield place, tool
            if isinstance(tool, dict) and tool.get("type") == "namespace":
                yield from _tool_list(tool.get("tools"), join(place, "tools"))


def _tool_list(tools: JSON, pointer: str) -> Iterator[tuple[str, JSON]]:
    for index, tool in enumerate(as_list(tools)):
        yield join(pointer, index), tool


def _tool(tool: JSON, pointer: str, *, own: bool) -> Iterator[Violation]:
    kind = as_object(tool).get("type")
    if not isinstance(tool, dict) or not isinstance(kind, str):
        text = f"Missing required parameter: '{bracketed_path(pointer)}.type'."
        yield limit("tool-shape").make_violation(text, pointer, code=_MISSING, actual=tool)
    elif kind in ("function", "custom"):
        name, place = tool.get("name"), join(pointer, "name")
        if not isinstance(name, str):
            text = f"Missing required parameter: '{bracketed_path(place)}'."
            yield limit("tool-shape").make_violation(text, pointer, code=_MISSING, actual=tool)
        else:
            yield from _name(name, place)
        if kind == "function":
            yield from _function(tool, pointer, own=own)


def _name(name: str, pointer: str) -> Iterator[Violation]:
    if not _NAME.fullmatch(name):
        text = f"Invalid '{bracketed_path(pointer)}': expected a string of letters, digits, '_' and '-' only."
        yield limit("tool-name").make_violation(text, pointer, code=_WRONG_VALUE, actual=name)
    elif len(name) > _NAME_LENGTH:
        text = (
            f"Invalid '{bracketed_path(pointer)}': string too long, {len(name)} characters of at most {_NAME_LENGTH}."
        )
        yield limit("tool-name").make_violation(text, pointer, code="string_above_max_length", actual=name)


def _function(tool: dict[str, JSON], pointer: str, *, own: bool) -> Iterator[Violation]:
    name, schema, place = string(tool.get("name")) or "", tool.get("parameters"), join(pointer, "parameters")
    description, strict = tool.get("description"), tool.get("strict")
    for key, value, kind in (("description", description, str), ("strict", strict, bool)):
        if value is not None and not isinstance(value, kind):
            text = f"Invalid type for '{bracketed_path(pointer)}.{key}'."
            yield limit("tool-shape").make_violation(text, join(pointer, key), code=_WRONG_TYPE, actual=value)
    if strict is None and isinstance(tool.get("name"), str) and _is_made_strict(schema, place):
        text = f"Without 'strict' the API makes the schema of '{name}' strict where it can: set it explicitly."
        yield limit("tool-strict-unsaid").make_violation(text, pointer)
    if schema is not None:
        yield from _function_schema(schema, name, place, own=own, strict=strict is True)


def _function_schema(schema: JSON, name: str, place: str, *, own: bool, strict: bool) -> Iterator[Violation]:
    start = f"Invalid schema for function '{name}':"
    if isinstance(schema, dict) and "type" not in schema and any(key in schema for key in _UNIONS):
        text = f"{start} schema must be a JSON Schema of 'type: \"object\"', got 'None'."
        yield limit("tool-schema-union").make_violation(text, place, code=_SCHEMA_CODE, actual=schema)
    elif (fault := _root_fault(schema)) is not None:
        yield limit("tool-schema").make_violation(f"{start} {fault}", place, code=_SCHEMA_CODE, actual=schema)
    else:
        for where, reason in invalid_schema(schema, place) if own else ():
            source = "openai-responses-schema-valid"
            yield limit("tool-schema").make_violation(f"{start} {reason}.", where, code=_SCHEMA_CODE, source=source)
        nodes = schema_nodes(schema, place, _NESTED)
        for where in bare_arrays(nodes) if own else ():
            text = f"{start} In context={_context(where, place)}, array schema missing items."
            yield limit("tool-array-items").make_violation(text, where, code=_SCHEMA_CODE)
        if strict:
            yield from _strict(limit("tool-strict-schema"), nodes, place, start, _SCHEMA_CODE)


def _root_fault(schema: JSON) -> str | None:
    if not isinstance(schema, dict):
        return f"it must be an object, not {type(schema).__name__}."
    if schema.get("type") != "object":
        return f"its type must be 'object', not {schema.get('type')!r}."
    if not isinstance(schema.get("properties"), dict):
        return "In context=(), the object schema lacks properties."
    return None


def _is_made_strict(schema: JSON, place: str) -> bool:
    """Return whether the default of `strict` would change the schema (openai-responses-strict-default)."""
    return schema is None or next(open_objects(schema_nodes(schema, place, _NESTED)), None) is not None


def _strict(broken: Limit, nodes: Nodes, pointer: str, start: str, code: str) -> Iterator[Violation]:
    for place, node, missing in open_objects(nodes):
        where = f"{start} In context={_context(place, pointer)},"
        if node.get("additionalProperties") is not False:
            text = f"{where} 'additionalProperties' is required to be supplied and to be false."
            yield broken.make_violation(text, place, code=code)
        if missing:
            text = f"{where} 'required' has to list every property. Missing: {', '.join(missing)}."
            yield broken.make_violation(text, place, code=code)


def _context(place: str, root: str) -> tuple[str, ...]:
    return keys(place.removeprefix(root))


def _duplicates(declared: list[tuple[str, JSON]]) -> Iterator[Violation]:
    seen: set[str] = set()
    for pointer, tool in declared:
        name = as_object(tool).get("name")
        if not isinstance(name, str):
            continue
        if name in seen:
            text = f"The name '{name}' is declared twice, so a call of it is ambiguous."
            yield limit("tool-duplicate").make_violation(text, join(pointer, "name"), actual=name)
        seen.add(name)


def _choice(choice: JSON, names: set[str]) -> Iterator[Violation]:
    name = choice.get("name") if isinstance(choice, dict) and choice.get("type") == "function" else None
    if isinstance(name, str) and names and name not in names:
        text = f"The tool choice '{name}' is not among the tools."
        yield limit("tool-choice-unknown").make_violation(text, "/tool_choice/name", actual=name)
    if not names and (choice == "required" or isinstance(choice, dict)):
        text = "A tool choice that asks for a call must be specified together with 'tools'."
        yield limit("tool-choice-toolless").make_violation(text, "/tool_choice", actual=choice)


def _format(body: dict[str, JSON]) -> Iterator[Violation]:
    wanted = as_object(body.get("text")).get("format")
    if not isinstance(wanted, dict):
        return
    kind, schema, place = wanted.get("type"), wanted.get("schema"), "/text/format/schema"
    if kind == "json_object" and state(body) is None and not _mentions_json(body.get("input")):
        message = "The input has to contain the word 'json' in some form, to use 'text.format' of type 'json_object'."
        yield limit("format-word").make_violation(message, "/text/format")
    elif kind == "json_schema":
        start, code = f"Invalid schema for response_format '{wanted.get('name')}':", "invalid_json_schema"
        for where, reason in invalid_schema(schema, place):
            source = "openai-responses-schema-valid"
            yield limit("format-shape").make_violation(f"{start} {reason}.", where, code=code, source=source)
        if wanted.get("strict") is True:
            nodes = schema_nodes(schema, place, _NESTED)
            yield from _strict(limit("format-strict-schema"), nodes, place, start, code)


def _mentions_json(entries: JSON) -> bool:
    """Return whether a message or an output contains "json". Instructions do not count (openai-responses-word-json)."""
    if isinstance(entries, str):
        return "json" in entries.lower()
    items = [item for item in as_list(entries) if isinstance(item, dict)]
    return any(
        "json" in text.lower()
        for item in items
        if item_kind(item) in ("message", "function_call_output")
        for text in _texts(item.get("content") if item_kind(item) == "message" else item.get("output"))
    )


def _texts(content: JSON) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for part in as_list(content):
        text = as_object(part).get("text")
        if isinstance(text, str):
            yield text


class ResponsesState(IssuedState):
    """Stored responses with their calls, and issued reasoning items. See `harness.apis.profiles.IssuedState`."""

    def __init__(self, *, foreign: bool, profile: Profile | None = None) -> None:
        super().__init__(foreign=foreign, profile=profile)
        self._stored: dict[str | None, ResponseView] = {}

    def note(self, response: ResponseView) -> None:
        """Store the response for requests that continue it."""
        super().note(response)
        self._stored[response.id] = response

    def objection(self, request: RequestView) -> Violation | None:
        """Return a violation if the response that the request continues is unknown, or if one of its calls has no
        output."""
        named = request.continues
        if named is None:
            return None
        if named not in self._stored:
            text = f"Previous response with id '{named}' not found."
            return limit("previous-response").make_violation(
                text, "/previous_response_id", actual=named, code="previous_response_not_found"
            )
        answered = {result.call_id for result in request.results}
        for call in self._stored[named].calls:
            if call.id not in answered and not call.asynchronous:
                text = f"No tool output found for function call {call.id}."
                return limit("result-missing").make_violation(text, "/input", actual=call.id)
        return None

    def reports(self) -> tuple[ProviderReport, ...]:
        """Return a report for each reasoning item that the API withholds from the model
        (openai-responses-gpt-6-2-reasoning-dropped).
        """
        return tuple(
            ProviderReport(
                "dropped", "prefix_mismatch", "", each.thought.pointer, string(as_object(each.issued.raw).get("id"))
            )
            for each in self.mismatches
        )
