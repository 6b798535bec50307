"""Adapters that declare schemas in an unusual way: right ones, that say the same, and wrong ones, that do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from harness.model.messages import ChatRequest, JsonSchema
from tests.broken.fault import Wrap, asks
from tests.broken.requests import each_schema, without

Edit = Callable[[dict[str, Any]], dict[str, Any]]


def declared(edit: Edit) -> Wrap:
    """Each schema as a whole, of a tool or of the answer, is declared as `edit` has it."""

    def ask(request: ChatRequest) -> ChatRequest:
        wanted = request.response_format
        if isinstance(wanted, JsonSchema):
            wanted = replace(wanted, schema=edit(wanted.schema))
        tools = tuple(replace(tool, parameters=edit(tool.parameters)) for tool in request.tools)
        return replace(request, tools=tools, response_format=wanted)

    return asks(ask)


def each(edit: Edit) -> Wrap:
    """Each schema inside of them."""
    return declared(lambda schema: each_schema(schema, edit) if schema else schema)


def written_out(schema: dict[str, Any]) -> dict[str, Any]:
    """References replaced by what they refer to."""
    definitions = schema.get("$defs", {})

    def target(node: dict[str, Any]) -> dict[str, Any]:
        if "$ref" not in node:
            return node
        return each_schema(definitions[node["$ref"].removeprefix("#/$defs/")], target)

    return without("$defs")(each_schema(schema, target))


def null_as_choice(schema: dict[str, Any]) -> dict[str, Any]:
    types = schema.get("type")
    if not isinstance(types, list) or "null" not in types:
        return schema
    rest = {**schema, "type": next(name for name in types if name != "null")}
    return {"anyOf": [rest, {"type": "null"}]}


def untyped_enum(schema: dict[str, Any]) -> dict[str, Any]:
    return without("type")(schema) if isinstance(schema.get("type"), str) and "enum" in schema else schema


def titled(schema: dict[str, Any]) -> dict[str, Any]:
    """As libraries do that make schemas of classes; an object that describes itself says so too."""
    is_schema = isinstance(schema.get("type"), str | list) or "anyOf" in schema
    if not is_schema:
        return schema
    described = {} if "description" in schema else {"description": "Made of a class."}
    return {**schema, "title": "A class", **described}


def reordered(schema: dict[str, Any]) -> dict[str, Any]:
    """Everything the other way round whose order says nothing. That of properties is the order of the answer's keys."""
    if all(isinstance(value, dict) for value in schema.values()):
        return schema
    turned = {
        key: value[::-1] if key in ("enum", "required", "anyOf") and isinstance(value, list) else value
        for key, value in schema.items()
    }
    return dict(reversed(turned.items()))


def enum_as_choices(schema: dict[str, Any]) -> dict[str, Any]:
    values = schema.get("enum")
    if not isinstance(values, list):
        return schema
    return {**without("type", "enum")(schema), "anyOf": [{"const": value, **typed(schema)} for value in values]}


def typed(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": schema["type"]} if isinstance(schema.get("type"), str) else {}


RIGHT: dict[str, Wrap] = {
    "references written out": declared(written_out),
    "null as a choice": each(null_as_choice),
    "enums without their type": each(untyped_enum),
    "titles and descriptions added": each(titled),
    "another order": each(reordered),
    "enums as choices": each(enum_as_choices),
}


def shorter_enum(schema: dict[str, Any]) -> dict[str, Any]:
    values = schema.get("enum")
    return {**schema, "enum": values[:-1]} if isinstance(values, list) and len(values) > 1 else schema


def fewer_required(schema: dict[str, Any]) -> dict[str, Any]:
    names = schema.get("required")
    return {**schema, "required": names[1:]} if isinstance(names, list) else schema


def texts_for_integers(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "type": "integer"} if schema.get("type") == "string" and "enum" not in schema else schema


def closed_maps(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "additionalProperties": False} if "additionalProperties" in schema else schema


WRONG: tuple[tuple[str, Wrap, str, str], ...] = (
    ("an enum member dropped", each(shorter_enum), "schema-enums", 'accepts {"mode": "auto", "speed": 0}'),
    ("a minimum dropped", each(without("minimum")), "schema-optional", '"stops": -1}'),
    (
        "a required name dropped",
        each(fewer_required),
        "schema-nested-arrays",
        'accepts {"marks": [{"column": 0, "ink": "blue"}]}',
    ),
    ("a text made an integer", each(texts_for_integers), "call-single", 'accepts {"city": 0}'),
    ("a map closed", each(closed_maps), "schema-map", 'accepts {"prices": {"another": 0}}'),
    ("descriptions dropped", each(without("description")), "schema-optional", "/properties/from/description"),
)
"""With a scenario that shows each, and what the finding has to say."""
