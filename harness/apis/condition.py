"""Conditions of facts: their form in fact files, and the test of a value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias, TypeGuard

from pydantic import Field, JsonValue, model_validator

from harness.apis.jsonvalue import equal, type_of
from harness.apis.schemas import image_side, json_bytes
from harness.documents.json_schema import covers
from harness.documents.strict_models import Pattern, Strict, misfit
from harness.model.messages import JSON

_OPERATORS = (
    *("is", "in", "out", "not_in", "there", "over", "under", "longer", "like", "unlike", "kind", "not_kind"),
    *("members", "every", "repeated", "beside", "outside", "unknown", "only", "empty"),
    *("bytes", "pixels", "deeper", "shared"),
)
_OF_SCHEMAS = ("deeper", "shared")
_INDEX = r"(?:\[(?:\*|-?\d+|\d+:|next|later)?\])*"
_PATH = re.compile(rf"[^\[\].]+{_INDEX}(?:\.[^\[\].]+{_INDEX})*")

JsonType = Literal["string", "number", "boolean", "object", "array", "null"]


def _field(operator: str) -> str:
    """Return the name of an operator's field. It ends in an underscore if the operator is a keyword or builtin."""
    return f"{operator}_" if operator in ("is", "in", "bytes") else operator


_BY_FIELD = {_field(operator): operator for operator in _OPERATORS}


class Condition(Strict):
    """A requirement on a place in a request: one place (`at`, `schema` or `header`) and one operator.

    Conditions of one fact refer to the same list elements: `messages[].role` and `messages[].content` belong to one
    message. `messages[*].content` is the content of any message.
    """

    at: str | None = Field(
        default=None,
        min_length=1,
        description="A place in the body: `thinking.type`; `tools[].name` is some element's, the same in all of a "
        "fact's conditions; `tools[*].name` is some element's, another's too; `tools[0].name` is the first one's, "
        "`tools[1:].name` that of one after it. `tools[next]` is the element after that of `tools[]`, `tools[later]` "
        "any after it. `args.**` is `args` and everything inside it. `$` is the whole body.",
    )
    schemas: Literal["tools", "strict-tools", "response"] | None = Field(
        default=None, alias="schema", description="Some schema among these, at any depth, has `keyword` so."
    )
    keyword: str | None = Field(default=None, description="The keyword of the schema.")
    root: bool = Field(default=False, description="Only the root of a schema counts.")
    header: str | None = Field(default=None, description="The name of a header.")
    is_: JsonValue = Field(default=None, alias="is", description="It has this value.")
    in_: list[JsonValue] | None = Field(default=None, alias="in", description="It has one of these values.")
    out: list[JsonValue] | None = Field(default=None, description="It is there, and has none of these values.")
    not_in: list[JsonValue] | None = Field(default=None, description="It is not there, or has none of these values.")
    only: list[JsonValue] | None = Field(default=None, description="It is not there, or has one of these values.")
    empty: Literal[True] | None = Field(
        default=None, description="It is not there, or an empty text, list or object, or false."
    )
    there: bool | None = Field(default=None, description="Whether it is there.")
    over: float | None = Field(default=None, description="It is a number above this one.")
    under: float | None = Field(default=None, description="It is a number below this one.")
    longer: int | None = Field(default=None, description="It is a text or a list of more than this length.")
    like: Pattern | None = Field(default=None, description="It is a text that matches as a whole.")
    unlike: Pattern | None = Field(default=None, description="It is a text that does not match as a whole.")
    kind: JsonType | None = Field(default=None, description="It is of this JSON type.")
    not_kind: list[JsonType] | None = Field(
        default=None, min_length=1, description="It is there, and of none of these JSON types."
    )
    members: JsonType | None = Field(
        default=None, description="It is a list or an object, and one of its values is of this JSON type."
    )
    every: list[JsonValue] | None = Field(
        default=None, description="There is one, and each that there is has one of these values."
    )
    repeated: Literal[True] | None = Field(default=None, description="It has the value of one before it.")
    beside: list[str] | None = Field(default=None, description="The same object has another key that is none of these.")
    outside: str | None = Field(
        default=None,
        min_length=1,
        description="It is a text, or a list or an object with an element or a key, that is not among the values, "
        "elements or keys at this place: a path in the body, or a keyword of the same schema.",
    )
    bytes_: int | None = Field(default=None, alias="bytes", description="Its compact JSON has more bytes than this.")
    pixels: int | None = Field(
        default=None,
        description="It is an image in base64 (PNG, JPEG, GIF, WebP), one side with more pixels than this.",
    )
    deeper: int | None = Field(
        default=None,
        description="Objects and arrays of the schema nest in more levels than this, with references followed. "
        "For a keyword of the schema's root.",
    )
    shared: list[str] | None = Field(
        default=None,
        description="The schema has one of these keywords, and the schema that its $ref names has it, too. "
        "For the keyword $ref.",
    )
    unknown: list[str] | None = Field(
        default=None, description="It is an object with a key that is none of these; the key is the place."
    )

    @property
    def operator(self) -> str:
        """The name of the operator."""
        return self._given[0]

    @property
    def operand(self) -> JsonValue:
        """The value that the operator compares with."""
        name = self.operator
        value: JsonValue = getattr(self, _field(name))
        return value

    @property
    def _given(self) -> list[str]:
        return [_BY_FIELD[name] for name in self.model_fields_set if name in _BY_FIELD]

    @model_validator(mode="after")
    def _says_one_thing(self) -> Condition:
        places = [name for name, value in (("at", self.at), ("schema", self.schemas), ("header", self.header)) if value]
        if len(places) != 1:
            raise misfit("a condition has one of at, schema and header.")
        if self.at is not None and _PATH.fullmatch(self.at) is None:
            raise misfit(f"{self.at!r} is not a place. Write it as in tools[].function.name.", "at")
        given = sorted(self._given, key=_OPERATORS.index)
        if len(given) != 1:
            raise misfit(f"a condition has one of {', '.join(_OPERATORS)}; this one has {', '.join(given) or 'none'}.")
        if (self.schemas is not None) is not (self.keyword is not None):
            raise misfit("schema and keyword come together.")
        if self.at is None and (self.every is not None or self.repeated or self.unknown is not None):
            raise misfit("every, repeated and unknown are about a place in the body: write at.")
        if self.schemas is None and given[0] in _OF_SCHEMAS:
            raise misfit(f"{given[0]} is about a schema: write schema and keyword.")
        return self


Holds: TypeAlias = Callable[[JSON], bool]
"""Predicate for a value that is present in the request."""


def comparison(condition: Condition) -> Holds:  # noqa: C901, PLR0912 - one case for each operator
    """Return the test of a condition's operator. In a body `null` counts as an absent field, in a schema as a value."""
    operand = condition.operand
    unset: list[JSON] = [None] if condition.schemas is None else []
    match condition.operator:
        case "is":
            return lambda value: equal(value, operand)
        case "in":
            return lambda value: any(equal(value, each) for each in condition.in_ or ())
        case "out":
            out = [*(condition.out or ()), *unset]
            return lambda value: not any(equal(value, each) for each in out)
        case "not_in":
            return lambda value: not any(equal(value, each) for each in condition.not_in or ())
        case "every":
            return lambda value: any(equal(value, each) for each in condition.every or ())
        case "members":
            return lambda value: any(type_of(each) == operand for each in _members(value))
        case "repeated" | "beside" | "outside" | "deeper" | "shared":
            return lambda value: value not in unset
        case "bytes":
            return lambda value: json_bytes(value) > (condition.bytes_ or 0)
        case "pixels":
            return lambda value: image_side(value) > (condition.pixels or 0)
        case "over":
            return lambda value: _number(value) and value > (condition.over or 0)
        case "under":
            return lambda value: _number(value) and value < (condition.under or 0)
        case "longer":
            return lambda value: isinstance(value, str | list) and len(value) > (condition.longer or 0)
        case "like":
            return lambda value: isinstance(value, str) and covers(condition.like or "", value)
        case "unlike":
            return lambda value: isinstance(value, str) and not covers(condition.unlike or "", value)
        case "not_kind":
            kinds = {*(condition.not_kind or ()), *(["null"] if condition.schemas is None else [])}
            return lambda value: type_of(value) not in kinds
        case "only":
            return lambda value: value is None or any(equal(value, each) for each in condition.only or ())
        case "empty":
            return lambda value: not value
        case "unknown":
            known = {*(condition.unknown or ())}
            return lambda value: isinstance(value, dict) and not value.keys() <= known
        case "there":
            return lambda value: condition.there is True and value not in unset
        case _:
            return lambda value: type_of(value) == operand


def _members(value: JSON) -> Iterable[JSON]:
    match value:
        case list():
            return value
        case dict():
            return value.values()
        case _:
            return ()


def _number(value: JSON) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
