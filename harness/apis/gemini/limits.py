"""Checks of requests that conditions cannot say: parts, OpenAPI schemas, and what depends on the platform.

The provider parses before it looks at the conversation, so a request with a field of a wrong type gets no other finding
of these checks than those of `fields`. Root schemas with empty `properties` are no violation although
gemini-schema-fields quotes a refusal: recorded requests with them were accepted.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.entries import parsed
from harness.apis.gemini.fields import limit, misfits
from harness.apis.gemini.pairing import pairing_violations, signature_violations
from harness.apis.gemini.proto import TYPES, ProtoMessage, repeated, snake
from harness.apis.gemini.requests import DATA_FIELDS, on_vertex, view
from harness.apis.jsonvalue import join
from harness.apis.law import Law
from harness.apis.limit import Violation, severity_of
from harness.apis.profile import Profile
from harness.apis.view import WireError
from harness.contract.http import HttpRequest
from harness.contract.model import JSON


def violations(request: HttpRequest, law: Law) -> list[Violation]:
    """The violations of a request. Never raises: a body that cannot be read is a violation (`gemini-body`)."""
    profile = law.profile
    try:
        body = parsed(request.body)
        found = misfits(body)
        if any(misfit.rule == "gemini-field-type" for misfit in found):
            return found
        vertex = on_vertex(request)
        message, seen = ProtoMessage.of(body), view(request)
        return [
            *found,
            *_contents(message, vertex=vertex),
            *pairing_violations(seen, profile),
            *signature_violations(seen, profile, vertex=vertex),
            *_schemas(message, vertex=vertex),
            *(() if vertex else _mixed(message, profile)),
        ]
    except WireError as error:
        return [_unreadable(error)]
    except RecursionError:
        return [_unreadable(WireError("nested too deeply"))]


def _unreadable(error: WireError) -> Violation:
    return limit("body").broken(f"Invalid JSON payload received. {error.reason}", error.pointer)


def _contents(body: ProtoMessage, *, vertex: bool) -> Iterator[Violation]:
    for index, content in enumerate(body.messages("contents")):
        if vertex and not content.get("role"):  # the Developer API reads a missing role as user
            message = "Please use a valid role: user, model."
            yield limit("role").broken(message, content.at("role"), expected=["user", "model"])
        for position, part in enumerate(content.messages("parts")):
            yield from _part(part, f"GenerateContentRequest.contents[{index}].parts[{position}]")


def _part(part: ProtoMessage, path: str) -> Iterator[Violation]:
    data = [name for name in DATA_FIELDS if name in part.names]
    if not data and "thoughtSignature" not in part.names:
        message = f"* {path}.data: required oneof field 'data' must have one initialized field\n"
        yield limit("part-data").broken(message, part.pointer)
    elif len(data) > 1:
        message = f"* {path}.data: oneof field 'data' is already set. Cannot set '{data[1]}'\n"
        yield limit("part-data").broken(message, part.pointer, actual=[*data])
    for name in ("functionCall", "functionResponse"):
        named = part.message(name)
        if named and not named.get("name"):
            text = f"* {path}.{snake(name)}.name: Name cannot be empty.\n"
            source = f"gemini-{snake(name).replace('_', '-')}-form"
            yield limit("name-empty").broken(text, named.at("name"), source=source)


def _schemas(body: ProtoMessage, *, vertex: bool) -> Iterator[Violation]:
    for index, tool in enumerate(body.messages("tools")):
        for position, declaration in enumerate(tool.messages("functionDeclarations")):
            path = f"GenerateContentRequest.tools[{index}].function_declarations[{position}]"
            for name in ("parameters", "response"):
                if name in declaration.names:
                    schema, place = declaration.get(name), declaration.at(name)
                    yield from schema_violations(schema, place, f"{path}.{name}")
                    if name == "parameters" and not vertex:
                        yield from parameter_violations(schema, place, f"{path}.{name}")
    config = body.message("generationConfig")
    if config is not None and "responseSchema" in config.names:
        path = "GenerateContentRequest.generation_config.response_schema"
        yield from schema_violations(config.get("responseSchema"), config.at("responseSchema"), path)


def _mixed(body: ProtoMessage, profile: Profile) -> Iterator[Violation]:
    severity, config, tools = severity_of(profile.mixed_tools), body.message("toolConfig"), body.messages("tools")
    allowed = config is not None and config.get("includeServerSideToolInvocations") is True
    served = [(tool, name) for tool in tools for name in tool.names if name != "functionDeclarations"]
    if severity and served and not allowed and any(tool.messages("functionDeclarations") for tool in tools):
        tool, name = served[0]
        message = (
            "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools with Function "
            "calling."
        )
        yield limit("mixed-tools").broken(message, tool.at(name), actual=name, severity=severity)


def schema_violations(schema: JSON, pointer: str, path: str) -> Iterator[Violation]:
    """Types that are none, in a schema and those in it (`gemini-schema-type`). `path` is the provider's for messages.

    Raises:
        WireError: it is no schema; `fields` finds that before.
    """
    fields = ProtoMessage.of(schema, pointer)
    kind = fields.enum("type", TYPES)
    if kind is not None and kind.lower() not in TYPES:
        message = f"Invalid value at '{path}.type' (Type), \"{kind}\""
        yield limit("schema-type").broken(message, fields.at("type"), actual=kind, expected=[*TYPES])
    for inner, place, step in _inner(fields):
        yield from schema_violations(inner, place, f"{path}.{step}")


def parameter_violations(schema: JSON, pointer: str, path: str) -> Iterator[Violation]:
    """gemini-enum-not-empty, gemini-enum-of-strings, gemini-array-items: enums and arrays that a function's
    `parameters` must not have.

    The refusals were seen at the Developer API, and none of a schema of the answer.
    """
    fields = ProtoMessage.of(schema, pointer)
    kind = (fields.enum("type", TYPES) or "").lower()
    if kind == "array" and "items" not in fields.names:
        yield limit("schema-items").broken(f"* {path}.items: missing field.\n", pointer)
    values = repeated(fields.get("enum"), fields.at("enum"))
    if values and kind != "string":
        message = f"* {path}.enum: only allowed for STRING type\n"
        yield limit("schema-enum-type").broken(message, fields.at("enum"), actual=kind or None, expected="string")
    for index, (value, place) in enumerate(values):
        if value == "":
            yield limit("schema-enum-empty").broken(f"* {path}.enum[{index}]: cannot be empty\n", place, actual="")
    for inner, place, step in _inner(fields):
        yield from parameter_violations(inner, place, f"{path}.{step}")


def _inner(fields: ProtoMessage) -> Iterator[tuple[JSON, str, str]]:
    if "items" in fields.names:
        yield fields.get("items"), fields.at("items"), "items"
    for index, (option, place) in enumerate(repeated(fields.get("anyOf"), fields.at("anyOf"))):
        yield option, place, f"any_of[{index}]"
    for name in ("properties", "defs"):
        members = fields.get(name)
        if isinstance(members, dict):
            for key, member in members.items():
                yield member, join(fields.at(name), key), f"{name}[{key}]"
