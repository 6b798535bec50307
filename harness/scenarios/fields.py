"""Field types of the scenario file, and the base of its models: what a value has to be beyond its JSON type."""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from harness.contract.errors import UnknownName
from harness.contract.model import JSON
from harness.scenarios.json_schema import lost_reference, schema_error
from harness.scenarios.simple_schema import is_simple


class Strict(BaseModel):
    """Frozen, typed to the letter, and without room for keys that nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, serialize_by_alias=True)

    @model_validator(mode="before")
    @classmethod
    def _knows_its_keys(cls, value: JSON) -> JSON:
        known = _keys(cls)
        for key in value if isinstance(value, dict) else ():
            if key not in known:
                raise misfit(str(UnknownName("key", key, [*known])), key)
        return value


@cache
def _keys(model: type[BaseModel]) -> dict[str, None]:
    return dict.fromkeys(field.alias or name for name, field in model.model_fields.items())


def misfit(reason: str, *at: str | int) -> PydanticCustomError:
    """An error with a finished sentence. `at` leads from the validated value to what is wrong in it."""
    return PydanticCustomError("misfit", "{reason}", {"reason": reason, "at": at})


TEXT, NUMBER, LIST, MAPPING = "<text>", "<number>", "<list>", "<mapping>"
"""Tags of a union's members, told apart by their JSON type. In angles, since they turn up in error locations."""


def either(meant: str) -> Discriminator:
    """Chooses the member of a union by JSON type, so that errors speak of the one that was meant."""
    return Discriminator(_shape, custom_error_type="misfit", custom_error_message=f"must be {meant}.")


def _shape(value: object) -> str | None:
    if isinstance(value, str):
        return TEXT
    if isinstance(value, list):
        return LIST
    if isinstance(value, int | float) and not isinstance(value, bool):
        return NUMBER
    return MAPPING if isinstance(value, dict | BaseModel) else None


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise misfit(f"not a regular expression: {error}.") from None
    return pattern


Pattern = Annotated[str, AfterValidator(_compiles)]
"""A regular expression of Python's `re`."""


def _is_schema(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if is_simple(schema):
        return schema
    try:
        fault = schema_error(schema, formats=True)
        lost = None if fault else lost_reference(schema)
    except RecursionError:
        raise misfit("a schema must not be nested so deeply.") from None
    if fault is not None:
        at, reason = fault
        raise misfit(f"not a JSON Schema (draft 2020-12): {reason}.", *at) from None
    if lost is not None:
        at, reference = lost
        raise misfit(f"the reference {reference!r} leads nowhere in this schema.", *at)
    return schema


SchemaObject = Annotated[dict[str, JsonValue], AfterValidator(_is_schema)]
"""A JSON Schema, draft 2020-12, whose references stay inside it."""


def _takes_an_object(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if schema and schema.get("type") != "object":
        raise misfit("the schema of a tool's arguments has type: object at its root, or is {} for a tool without any.")
    return schema


ArgumentsSchema = Annotated[SchemaObject, AfterValidator(_takes_an_object)]
"""The JSON Schema of a tool's arguments; `{}` for a tool that takes none."""
