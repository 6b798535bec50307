"""Schemas on the wire: translation of their dialect to JSON Schema, resolution of references, and comparison of their
wording.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from harness.apis.jsonvalue import as_list, canonical, join, resolve
from harness.apis.schemas import LISTS, MAPS, ONE
from harness.documents.json_schema import is_simple, schema_error
from harness.model.messages import JSON

Dialect: TypeAlias = Literal["json-schema", "openapi"]

_COUNTS = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})
_MAX_REFERENCES = 50


class UnreadableError(Exception):
    """The schema is invalid or refers to something outside itself. It can only be compared as JSON."""


class SchemaDocument:
    """A schema. It records the pointer of each nested schema by object identity.

    `nullable` enables OpenAPI's keyword of that name.

    Raises:
        UnreadableError: the value is not a schema.
    """

    def __init__(self, schema: JSON, dialect: Dialect, *, nullable: bool) -> None:
        self._pointers: dict[int, str] = {}
        self.is_openapi = dialect == "openapi"
        self.reads_nullable = nullable or self.is_openapi
        self.root = self._read(schema, "")
        try:
            _check(self.root)
        except RecursionError as error:
            raise UnreadableError(str(error)) from error

    def pointer(self, schema: JSON) -> str:
        """Return the pointer of a nested schema."""
        return self._pointers.get(id(schema), "")

    def target(self, reference: JSON) -> JSON:
        """Return the schema that a `$ref` refers to.

        Raises:
            UnreadableError: the document has no schema at this reference.
        """
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise UnreadableError(f"{reference} leads out of the schema")
        found = resolve(self.root, reference[1:])
        if isinstance(found, dict | bool):
            return found
        raise UnreadableError(f"{reference} leads nowhere")

    def behind(self, schema: JSON) -> JSON:
        """Follow references until a schema has keywords of its own."""
        for _ in range(_MAX_REFERENCES):
            if not (isinstance(schema, dict) and "$ref" in schema and not _EFFECTIVE_KEYWORDS & schema.keys()):
                return schema
            schema = self.target(schema["$ref"])
        raise UnreadableError("references go round in a circle")

    def _read(self, schema: JSON, pointer: str) -> JSON:
        if not isinstance(schema, dict):
            return schema
        read: dict[str, JSON] = {}
        for name, value in schema.items():
            at = join(pointer, name)
            if name in ONE:
                read[name] = self._read(value, at)
            elif name in LISTS and isinstance(value, list):
                read[name] = [self._read(each, join(at, index)) for index, each in enumerate(value)]
            elif name in MAPS and isinstance(value, dict):
                read[name] = {key: self._read(each, join(at, key)) for key, each in value.items()}
            else:
                read[name] = value
        if self.is_openapi:
            read = _from_openapi(read)
        self._pointers[id(read)] = pointer
        return read


def _check(root: Any) -> None:
    if is_simple(root):
        return
    fault = schema_error(root)
    if fault is not None:
        raise UnreadableError(fault[1])


_EFFECTIVE_KEYWORDS = frozenset(
    {"type", "enum", "const", "properties", "required", "items", "anyOf", "allOf", "oneOf", "not", "if"}
    | {"additionalProperties", "patternProperties", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"multipleOf", "pattern", "prefixItems", "contains", "uniqueItems", "propertyNames", "nullable"}
    | {"dependentRequired", "dependentSchemas"}
    | _COUNTS
)
"""Keywords that have an effect next to a reference."""


def _from_openapi(schema: dict[str, JSON]) -> dict[str, JSON]:
    """Lower-case the types, and parse counts and numeric enums, which are strings in Protobuf JSON
    (gemini-schema-fields).
    """
    read = dict(schema)
    kind = read.get("type")
    if isinstance(kind, str):
        read["type"] = kind = kind.lower()
    for name in _COUNTS & read.keys():
        read[name] = _number(read[name])
    values = read.get("enum")
    if kind in ("integer", "number") and isinstance(values, list):
        read["enum"] = [_number(value) for value in values]
    return read


def _number(value: JSON) -> JSON:
    if not isinstance(value, str):
        return value
    try:
        number = float(value)
    except ValueError:
        return value
    return int(number) if number.is_integer() else number


_SAME_VALUE = ("allOf", "anyOf", "oneOf")
_ANNOTATIONS = ("description", "examples", "example", "format", "contentEncoding", "contentMediaType", "default")
_REPEATING = frozenset({"int32", "int64", "float", "double", "enum"})
"""Formats that OpenAPI clients add to numbers and enums and that have no meaning (gemini-schema-fields).

`{type: STRING, format: enum, enum: […]}` is the example of Vertex's reference, updated 2025-09-05:
https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/Schema
"""


_MAX_SHOWN_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """Difference between the given schema and the one on the wire.

    `accepted_by` names the only one of the two schemas that accepts `instance`. It is `None` if only the wording
    differs. `pointer` is relative to the root of the schema. `inside` is the path of `instance` within a value of the
    root schema, or empty if `instance` is such a value.
    """

    pointer: str
    actual: JSON
    expected: JSON
    instance: JSON = None
    accepted_by: Literal["given", "wire"] | None = None
    inside: str = ""

    def describe(self, given: str = "the given schema", wire: str = "the one sent") -> str:
        """Return a message suffix that describes the instance; empty if only the wording differs."""
        if self.accepted_by is None:
            return ""
        text = json.dumps(self.instance, ensure_ascii=False)
        if len(text) > _MAX_SHOWN_CHARACTERS:
            text = f"{text[:_MAX_SHOWN_CHARACTERS]}… ({len(text)} characters)"
        place = f" at {self.inside}" if self.inside else ""
        accepts, refuses = (given, wire) if self.accepted_by == "given" else (wire, given)
        return f": {accepts} accepts {text}{place}, {refuses} does not"


def find_wording_change(given: SchemaDocument, wire: SchemaDocument) -> SchemaChange | None:
    """Return the first wording of `given` that is lost or changed, or a constraint that only `wire` has."""
    return _WordingComparison(given, wire).place((given.root,), (wire.root,))


class _WordingComparison:
    def __init__(self, given: SchemaDocument, wire: SchemaDocument) -> None:
        self._given = given
        self._wire = wire
        self._needs_defaults = _needs_defaults(wire)
        self._seen: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()

    def place(self, given: Sequence[JSON], wire: Sequence[JSON]) -> SchemaChange | None:
        """Compare the given schemas that apply to a value with the wire schemas that apply to the same value."""
        mark = tuple(map(id, given)), tuple(map(id, wire))
        if mark in self._seen:
            return None
        self._seen.add(mark)
        one = [each for schema in given for each in _applicable_schemas(self._given, schema)]
        other = [each for schema in wire for each in _applicable_schemas(self._wire, schema)]
        at = self._wire.pointer(self._wire.behind(wire[0])) if wire else ""
        for name in _ANNOTATIONS:
            given_words, sent = _distinct_values(name, one), _distinct_values(name, other)
            if name == "default" and not sent and not self._needs_defaults:
                continue
            if (found := _word(name, given_words, sent, at)) is not None:
                return found
        return self._nested_change(one, other, at)

    def _nested_change(self, one: list[dict[str, JSON]], other: list[dict[str, JSON]], at: str) -> SchemaChange | None:
        given, wire = _members(one), _members(other)
        for name in (*given, *(name for name in wire if name not in given)):
            here, there = given.get(name, []), wire.get(name, [])
            if name.startswith("/properties/") and not (here and there):
                return SchemaChange(f"{at}{name}", next(iter(there), None), next(iter(here), None))
            found = self.place(here, there) if here and there else None
            if found is not None:
                return found
        return None


def _applicable_schemas(
    document: SchemaDocument, schema: JSON, within: tuple[int, ...] = ()
) -> Iterator[dict[str, JSON]]:
    """Yield a schema and all other schemas that apply to the same value. A description next to a `$ref` or an `allOf`
    overrides the descriptions of the schemas it includes."""
    if not isinstance(schema, dict) or id(schema) in within:
        return
    yield schema
    inner: list[JSON] = [document.target(schema["$ref"])] if "$ref" in schema else []
    for name in _SAME_VALUE:
        options = schema.get(name)
        inner += as_list(options)
    for each in inner:
        for one in _applicable_schemas(document, each, (*within, id(schema))):
            is_overruled = "description" in schema and "description" in one and ("$ref" in schema or "allOf" in schema)
            yield {key: value for key, value in one.items() if key != "description"} if is_overruled else one


def _word(name: str, given: dict[str, JSON], sent: dict[str, JSON], at: str) -> SchemaChange | None:
    lost = [value for text, value in given.items() if text not in sent]
    if lost:
        return SchemaChange(join(at, name), next((sent[text] for text in sent if text not in given), None), lost[0])
    added = [value for text, value in sent.items() if text not in given]
    if name in ("format", "default") and added:
        return SchemaChange(join(at, name), added[0], None)
    return None


def _distinct_values(name: str, schemas: list[dict[str, JSON]]) -> dict[str, JSON]:
    values = [schema[name] for schema in schemas if name in schema]
    return {
        canonical(value): value
        for value in values
        if value != ""
        and not (name == "format" and value in _REPEATING)
        and not (name == "default" and value is None)  # SDKs drop it: an optional property has no value
    }


def _needs_defaults(wire: SchemaDocument) -> bool:
    """Return whether given defaults have to be sent.

    Strict schemas have no defaults (openai-chat-strict-schema), and Gemini ignores them in its own dialect
    (gemini-schema-fields).
    """
    root = wire.root
    if wire.is_openapi or not isinstance(root, dict):
        return False
    properties, required = root.get("properties"), root.get("required")
    if root.get("additionalProperties") is not False or not isinstance(properties, dict):
        return True
    return not (properties and isinstance(required, list) and all(name in required for name in properties))


def _members(schemas: list[dict[str, JSON]]) -> dict[str, list[JSON]]:
    found: dict[str, list[JSON]] = {}
    for schema in schemas:
        for keyword in ("properties", "patternProperties"):
            members = schema.get(keyword)
            for name, each in members.items() if isinstance(members, dict) else ():
                found.setdefault(join("", keyword, name), []).append(each)
        for keyword in ("items", "additionalProperties"):
            if isinstance(schema.get(keyword), dict):
                found.setdefault(f"/{keyword}", []).append(schema[keyword])
        for index, each in enumerate(as_list(schema.get("prefixItems"))):
            found.setdefault(join("", "prefixItems", index), []).append(each)
    return found
