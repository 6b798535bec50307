"""Request checks that the conditions of facts cannot express: pairing, JSON in texts, schemas, and the list of allowed
fields.

The rules of the format (pairing, arguments, tool names) apply to every server. Only OpenAI enforces the list of allowed
fields and the schema rules; compatible servers do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.apis.fact_files import ApiLimits, Facts
from harness.apis.jsonvalue import as_list, as_object, join, loads, objects, parse_body
from harness.apis.limits import Violation, bracketed_path
from harness.apis.openai_chat.requests import content_views
from harness.apis.openai_common import Nodes, bare_arrays, field_faults, invalid_schema, open_objects, schema_nodes
from harness.apis.profiles import RuleSet
from harness.apis.view import TextView, WireError
from harness.model.http import HttpRequest
from harness.model.messages import JSON

FACTS = Facts.next_to(__file__)
limit = ApiLimits(FACTS, "openai-chat")

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FORMAT_CODE = "invalid_json_schema"
_NESTED = (
    *("items", "additionalProperties", "not", "if", "then", "else"),
    *("anyOf", "oneOf", "allOf", "prefixItems"),
    *("properties", "$defs", "definitions"),
)
"""Keywords whose subschemas are checked."""


def violations(request: HttpRequest, rule_set: RuleSet) -> list[Violation]:
    """Return the violations of a request. Never raises: an unreadable body is reported as a violation."""
    try:
        body = parse_body(request.body)
    except WireError as error:
        return [limit("body").make_violation(f"We could not parse the JSON body of your request: {error.reason}.", "")]
    if not isinstance(body, dict):
        return [limit("body").make_violation("The body of your request must be a JSON object.", "")]
    found = [*_arguments(body), *_pairing(body), *_duplicates(body), *_format(body)]
    if rule_set.is_own:
        found += [*_model(request, body, rule_set), *_fields(body), *_tool_schemas(body)]
    return found


def _model(request: HttpRequest, body: dict[str, JSON], rule_set: RuleSet) -> Iterator[Violation]:
    """Yield a violation if no model is named. Azure's older paths name a deployment instead; only its v1 API has a
    model."""
    is_older_azure = rule_set.service in ("azure", "foundry") and "/openai/v1/" not in request.url
    if body.get("model") is None and not is_older_azure:
        yield limit("model-missing").make_violation("You must provide a model parameter.", "")


def _calls(message: dict[str, JSON], pointer: str) -> Iterator[tuple[str, dict[str, JSON]]]:
    return (
        objects(message.get("tool_calls"), f"{pointer}/tool_calls") if message.get("role") == "assistant" else iter(())
    )


def _arguments(body: dict[str, JSON]) -> Iterator[Violation]:
    for pointer, message in objects(body.get("messages"), "/messages"):
        for at, call in _calls(message, pointer):
            function = call.get("function")
            text = as_object(function).get("arguments")
            if call.get("type") == "custom" or not isinstance(text, str) or not _has_name(function):
                continue
            place = join(at, "function", "arguments")
            try:
                value = loads(text)
            except WireError:
                value = None
            if not isinstance(value, dict):
                message_text = f"'{bracketed_path(place)}' is not the text of a JSON object."
                yield limit("arguments-json").make_violation(message_text, place, actual=text)


def _has_name(function: JSON) -> bool:
    return isinstance(function, dict) and isinstance(function.get("name"), str)


@dataclass(slots=True)
class _Batch:
    """Calls of one assistant message. `waiting` has the ids without a result. `answered` maps ids to the location of
    their result."""

    pointer: str
    waiting: list[str] = field(default_factory=list[str])
    answered: dict[str, str] = field(default_factory=dict[str, str])


def _pairing(body: dict[str, JSON]) -> Iterator[Violation]:
    """Check for calls without a result, results without a call, and duplicate results."""
    batch: _Batch | None = None
    for pointer, message in objects(body.get("messages"), "/messages"):
        if message.get("role") == "tool":
            yield from _result(batch, message.get("tool_call_id"), pointer)
            continue
        yield from _unanswered_violations(batch)
        waiting = [call_id for _, call in _calls(message, pointer) if isinstance(call_id := call.get("id"), str)]
        batch = _Batch(join(pointer, "tool_calls"), waiting) if waiting else None
    yield from _unanswered_violations(batch)


def _unanswered_violations(batch: _Batch | None) -> Iterator[Violation]:
    if batch is not None and batch.waiting:
        missing = ", ".join(batch.waiting)
        yield limit("result-missing").make_violation(
            "An assistant message with 'tool_calls' must be followed by tool messages that respond to each "
            f"'tool_call_id'. No response message was found for: {missing}",
            batch.pointer,
            actual=list(batch.waiting),
        )


def _result(batch: _Batch | None, call_id: JSON, pointer: str) -> Iterator[Violation]:
    place = join(pointer, "tool_call_id")
    if batch is None:
        yield limit("result-orphan").make_violation(
            "Invalid parameter: a message with role 'tool' must respond to a preceding message with 'tool_calls'.",
            join(pointer, "role"),
            actual=call_id,
        )
    elif not isinstance(call_id, str):
        return  # openai-chat-result-id-missing
    elif call_id in batch.waiting:
        batch.waiting.remove(call_id)
        batch.answered[call_id] = pointer
    elif call_id in batch.answered:
        yield limit("result-duplicate").make_violation(
            f"Invalid parameter: Duplicate value for 'tool_call_id' of '{call_id}', "
            f"also answered by {batch.answered[call_id]}.",
            place,
            actual=call_id,
        )
    else:
        yield limit("result-unknown-id").make_violation(
            f"Invalid parameter: 'tool_call_id' of '{call_id}' is not among the 'tool_calls' of the previous message.",
            place,
            actual=call_id,
            expected=[*batch.waiting, *batch.answered],
        )


def _duplicates(body: dict[str, JSON]) -> Iterator[Violation]:
    names: set[str] = set()
    for pointer, tool in objects(body.get("tools"), "/tools"):
        name = as_object(tool.get("function", tool.get("custom"))).get("name")
        if not isinstance(name, str):
            continue
        if name in names:
            message = f"Tool names must be unique: '{name}' is declared twice."
            yield limit("tool-duplicate").make_violation(message, pointer, actual=name)
        names.add(name)


def _fields(body: dict[str, JSON]) -> Iterator[Violation]:
    for name, value in body.items():
        if value is None:
            continue
        if name in limit.fields:
            yield from field_faults(limit, name, value)
        else:
            message, code = f"Unknown parameter: '{name}'.", "unknown_parameter"
            yield limit("unknown-field").make_violation(message, join("", name), actual=name, code=code)


def _tool_schemas(body: dict[str, JSON]) -> Iterator[Violation]:
    code = "invalid_function_parameters"
    for pointer, tool in objects(body.get("tools"), "/tools"):
        function = tool.get("function")
        if tool.get("type") not in (None, "function") or not isinstance(function, dict) or not _has_name(function):
            continue
        schema, subject = function.get("parameters"), f"function '{function['name']}'"
        place = join(pointer, "function", "parameters")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            continue  # openai-chat-tool-parameters-root
        for where, reason in invalid_schema(schema, place):
            yield limit("tool-parameters-schema").make_violation(
                f"Invalid schema for {subject}: {reason}.", where, code=code
            )
        nodes = schema_nodes(schema, place, _NESTED)
        for where in bare_arrays(nodes):
            message = f"Invalid schema for {subject}: at {_context(where, place)}, array schema missing items."
            yield limit("tool-array-items").make_violation(message, where, code=code)
        if function.get("strict") is True:
            yield from _strict(nodes, place, subject, code)


def _context(place: str, root: str) -> str:
    return place.removeprefix(root) or "the root"


def _strict(nodes: Nodes, pointer: str, subject: str, code: str) -> Iterator[Violation]:
    for place, node, missing in open_objects(nodes):
        start = f"Invalid schema for {subject}: at {_context(place, pointer)},"
        if node.get("additionalProperties") is not False:
            yield limit("strict-additional-properties").make_violation(
                f"{start} 'additionalProperties' must be given and be false.",
                place,
                actual=node.get("additionalProperties"),
                expected=False,
                code=code,
            )
        if missing:
            properties, given = node.get("properties"), node.get("required")
            yield limit("strict-required").make_violation(
                f"{start} 'required' has to name every property. Missing: {', '.join(missing)}.",
                place,
                actual=as_list(given),
                expected=[*properties] if isinstance(properties, dict) else [],
                code=code,
            )


def _format(body: dict[str, JSON]) -> Iterator[Violation]:
    match body.get("response_format"):
        case {"type": "json_object"} if not any("json" in text.lower() for text in _texts(body)):
            yield limit("json-word").make_violation(
                "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
                "/response_format",
            )
        case {"type": "json_schema", "json_schema": {"name": str(name), "schema": dict(schema)} as described}:
            if not _NAME.fullmatch(name):
                return  # openai-chat-format-name
            place, subject, code = "/response_format/json_schema/schema", f"response_format '{name}'", _FORMAT_CODE
            for where, reason in invalid_schema(schema, place):
                yield limit("format-schema").make_violation(
                    f"Invalid schema for {subject}: {reason}.", where, code=code
                )
            if described.get("strict") is True:
                yield from _strict(schema_nodes(schema, place, _NESTED), place, subject, code)
        case _:
            return


def _texts(body: dict[str, JSON]) -> Iterator[str]:
    for pointer, message in objects(body.get("messages"), "/messages"):
        for part in content_views(message.get("content"), join(pointer, "content")):
            if isinstance(part, TextView):
                yield part.text
