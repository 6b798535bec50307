"""Field types and the base class of strict models, for scenarios and fact files."""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from harness.documents.json_schema import is_simple, lost_reference, schema_error
from harness.model.errors import UnknownName
from harness.model.messages import JSON


class Strict(BaseModel):
    """Base of models that are frozen, do not convert types and reject unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, serialize_by_alias=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, value: JSON) -> JSON:
        known = _keys(cls)
        for key in value if isinstance(value, dict) else ():
            if key not in known:
                raise misfit(str(UnknownName("key", key, [*known])), key)
        return value


@cache
def _keys(model: type[BaseModel]) -> dict[str, None]:
    return dict.fromkeys(field.alias or name for name, field in model.model_fields.items())


def misfit(reason: str, *at: str | int) -> PydanticCustomError:
    """Create an error from a complete sentence. `at` is the path from the validated value to the mistake."""
    return PydanticCustomError("misfit", "{reason}", {"reason": reason, "at": at})


TEXT, NUMBER, LIST, MAPPING = "<text>", "<number>", "<list>", "<mapping>"
"""Tags of union members, which differ by JSON type. The angle brackets mark them in error locations."""


def either(meant: str) -> Discriminator:
    """Select the member of a union by JSON type, so that errors refer to the intended member."""
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
"""A regular expression for Python's `re`."""


def _is_schema(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if is_simple(schema):
        return schema
    try:
        fault = schema_error(schema, formats=True)
        lost = None if fault else lost_reference(schema)
    except RecursionError:
        raise misfit("the schema is nested too deeply.") from None
    if fault is not None:
        at, reason = fault
        raise misfit(f"not a JSON Schema (draft 2020-12): {reason}.", *at) from None
    if lost is not None:
        at, reference = lost
        raise misfit(f"the reference {reference!r} has no target in this schema.", *at)
    return schema


SchemaObject = Annotated[dict[str, JsonValue], AfterValidator(_is_schema)]
"""A JSON Schema, draft 2020-12. Its references must stay inside the schema."""


def _takes_an_object(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if schema and schema.get("type") != "object":
        raise misfit("the schema of arguments must have type: object at its root, or be {} for a tool without any.")
    return schema


ArgumentsSchema = Annotated[SchemaObject, AfterValidator(_takes_an_object)]
"""The JSON Schema of a tool's arguments; `{}` for a tool without parameters."""
