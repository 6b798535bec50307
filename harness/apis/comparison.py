"""What a condition asks of a value itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeGuard

from harness.apis.condition import Condition
from harness.apis.jsonvalue import equal
from harness.apis.measures import image_side, json_bytes
from harness.contract.model import JSON
from harness.scenarios.patterns import covers

Holds: TypeAlias = Callable[[JSON], bool]
"""Whether a value that is there is such as a condition wants it."""


def comparison(condition: Condition) -> Holds:  # noqa: C901, PLR0912 - one case for each operator
    """The operator of a condition, made ready. `null` in a body is an absent field, and in a schema a value."""
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
            return lambda value: any(_kind(each) == operand for each in _members(value))
        case "repeated" | "beside" | "outside" | "deeper" | "optional" | "shared":
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
            return lambda value: _kind(value) not in kinds
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
            return lambda value: _kind(value) == operand


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


def _kind(value: JSON) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
