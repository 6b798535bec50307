"""A schema as it stands on the wire: its dialect read as JSON Schema, and where its references lead."""

from __future__ import annotations

from typing import Any

from harness.apis.jsonvalue import join, resolve
from harness.apis.subschemas import LISTS, MAPS, ONE
from harness.contract.model import JSON
from harness.meaning.schemas.form import Dialect
from harness.scenarios.json_schema import schema_error
from harness.scenarios.simple_schema import is_simple

_COUNTS = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})
_REFERENCES = 50
"""References to references that are followed; more of them go round in a circle."""


class UnreadableError(Exception):
    """No schema of its dialect, or one that leads outside of itself: it can be compared by its letters only."""


class Document:
    """A schema with all that it refers to. `pointers` has the place of each schema in it, by identity.

    With `nullable` the keyword of that name counts, which is OpenAPI's.

    Raises:
        UnreadableError: it is no schema.
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
        """Where a schema of this document stands."""
        return self._pointers.get(id(schema), "")

    def target(self, reference: JSON) -> JSON:
        """The schema that a `$ref` names.

        Raises:
            UnreadableError: none inside the document.
        """
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise UnreadableError(f"{reference} leads out of the schema")
        found = resolve(self.root, reference[1:])
        if isinstance(found, dict | bool):
            return found
        raise UnreadableError(f"{reference} leads nowhere")

    def behind(self, schema: JSON) -> JSON:
        """The schema that a mere reference stands for; any other one itself."""
        for _ in range(_REFERENCES):
            if not (isinstance(schema, dict) and "$ref" in schema and not _SAYS & schema.keys()):
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


_SAYS = frozenset(
    {"type", "enum", "const", "properties", "required", "items", "anyOf", "allOf", "oneOf", "not", "if"}
    | {"additionalProperties", "patternProperties", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"multipleOf", "pattern", "prefixItems", "contains", "uniqueItems", "propertyNames", "nullable"}
    | {"dependentRequired", "dependentSchemas"}
    | _COUNTS
)
"""Keywords that say something beside a reference."""


def _from_openapi(schema: dict[str, JSON]) -> dict[str, JSON]:
    """Types in lower case, counts that proto's JSON writes as texts, and enums of numbers, whose values are texts for
    want of others (gemini-schema-fields)."""
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
