"""Conditions of facts: their format in fact files, and predicates that evaluate them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias, TypeGuard

from pydantic import Field, JsonValue, model_validator

from harness.apis.jsonvalue import equal, type_of
from harness.apis.schemas import image_side, json_bytes
from harness.documents.json_schema import covers
from harness.documents.strict_models import Pattern, Strict, model_error
from harness.model.messages import JSON

_OPERATORS = (
    *("is", "in", "out", "not_in", "there", "over", "under", "longer", "like", "unlike", "kind", "not_kind"),
    *("members", "every", "repeated", "beside", "outside", "unknown", "only", "empty"),
    *("bytes", "pixels", "deeper", "shared"),
)
_SCHEMA_OPERATORS = ("deeper", "shared")
_INDEX = r"(?:\[(?:\*|-?\d+|\d+:|next|later)?\])*"
_PATH = re.compile(rf"[^\[\].]+{_INDEX}(?:\.[^\[\].]+{_INDEX})*")

JsonType = Literal["string", "number", "boolean", "object", "array", "null"]


def _field(operator: str) -> str:
    """Return the name of an operator's field. It ends in an underscore if the operator is a keyword or builtin."""
    return f"{operator}_" if operator in ("is", "in", "bytes") else operator


_BY_FIELD = {_field(operator): operator for operator in _OPERATORS}


class Condition(Strict):
    """A condition on a request: a place (`at`, `schema` or `header`) and an operator.

    Within one fact, `[]` always means the same list element: `messages[].role` and `messages[].content` belong to one
    message. `messages[*].content` is the content of any message.
    """

    at: str | None = Field(
        default=None,
        min_length=1,
        description="A path in the body, such as `thinking.type`. `tools[].name` is the name of one element, the "
        "same element in all conditions of a fact. `tools[*].name` is the name of any element. "
        "`tools[0].name` is the name of the first element, and `tools[1:].name` that of any later "
        "one. `tools[next]` is the element after `tools[]`, and `tools[later]` any element after it. "
        "`args.**` is `args` and everything inside it. `$` is the whole body.",
    )
    schemas: Literal["tools", "strict-tools", "response"] | None = Field(
        default=None, alias="schema", description="Some schema among these, at any depth, has `keyword` so."
    )
    keyword: str | None = Field(default=None, description="The keyword of the schema.")
    root: bool = Field(default=False, description="Only look at the root of a schema.")
    header: str | None = Field(default=None, description="The name of a header.")
    is_: JsonValue = Field(default=None, alias="is", description="It has this value.")
    in_: list[JsonValue] | None = Field(default=None, alias="in", description="It has one of these values.")
    out: list[JsonValue] | None = Field(default=None, description="The value is present and is none of these.")
    not_in: list[JsonValue] | None = Field(default=None, description="The value is absent or is none of these.")
    only: list[JsonValue] | None = Field(default=None, description="The value is absent or is one of these.")
    empty: Literal[True] | None = Field(
        default=None, description="The value is absent, false, or an empty string, list or object."
    )
    there: bool | None = Field(default=None, description="`true`: the value is present; `false`: it is absent.")
    over: float | None = Field(default=None, description="It is a number above this one.")
    under: float | None = Field(default=None, description="It is a number below this one.")
    longer: int | None = Field(default=None, description="It is a text or a list of more than this length.")
    like: Pattern | None = Field(default=None, description="It is a text that matches as a whole.")
    unlike: Pattern | None = Field(default=None, description="It is a text that does not match as a whole.")
    kind: JsonType | None = Field(default=None, description="It is of this JSON type.")
    not_kind: list[JsonType] | None = Field(
        default=None, min_length=1, description="The value is present and has none of these JSON types."
    )
    members: JsonType | None = Field(
        default=None, description="It is a list or an object, and one of its values is of this JSON type."
    )
    every: list[JsonValue] | None = Field(
        default=None, description="There is at least one value, and each is one of these."
    )
    repeated: Literal[True] | None = Field(default=None, description="It equals the value of an earlier element.")
    beside: list[str] | None = Field(
        default=None, description="The object that contains it has another key, which is none of these."
    )
    outside: str | None = Field(
        default=None,
        min_length=1,
        description="A string, an element of a list or a key of an object that does not occur at the other place, "
        "which is a path in the body or a keyword of the same schema.",
    )
    bytes_: int | None = Field(default=None, alias="bytes", description="Its compact JSON has more bytes than this.")
    pixels: int | None = Field(
        default=None,
        description="It is an image in base64 (PNG, JPEG, GIF, WebP) with a side of more pixels than this.",
    )
    deeper: int | None = Field(
        default=None,
        description="The objects and arrays of the schema are nested more deeply than this, including references. "
        "Use it with a keyword of the schema's root.",
    )
    shared: list[str] | None = Field(
        default=None,
        description="The schema and the schema that its `$ref` names both have one of these keywords. Use it with "
        "the keyword `$ref`.",
    )
    unknown: list[str] | None = Field(
        default=None, description="It is an object with a key that is none of these. The finding points to that key."
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
            raise model_error("a condition has one of at, schema and header.")
        if self.at is not None and _PATH.fullmatch(self.at) is None:
            raise model_error(f"{self.at!r} is not a place. Write it as in tools[].function.name.", "at")
        given = sorted(self._given, key=_OPERATORS.index)
        if len(given) != 1:
            raise model_error(
                f"a condition has one of {', '.join(_OPERATORS)}; this one has {', '.join(given) or 'none'}."
            )
        if (self.schemas is not None) is not (self.keyword is not None):
            raise model_error("schema and keyword come together.")
        if self.at is None and (self.every is not None or self.repeated or self.unknown is not None):
            raise model_error("every, repeated and unknown are about a place in the body: write at.")
        if self.schemas is None and given[0] in _SCHEMA_OPERATORS:
            raise model_error(f"{given[0]} is about a schema: write schema and keyword.")
        return self


Predicate: TypeAlias = Callable[[JSON], bool]
"""Predicate for a value that is present in the request."""


def comparison(condition: Condition) -> Predicate:  # noqa: C901, PLR0912 - one case for each operator
    """Return a predicate that evaluates a condition's operator. In a body, `null` counts as an absent field; in a
    schema, it is a value.
    """
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
