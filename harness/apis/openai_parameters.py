"""Types and bounds of the fields of a request, as OpenAI's server checks them for both of its APIs."""

from __future__ import annotations

from dataclasses import dataclass

from harness.contract.model import JSON

_NAMES = {
    "integer": "an integer",
    "decimal": "a decimal",
    "boolean": "a boolean",
    "string": "a string",
    "array": "an array",
    "object": "an object",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """The JSON types of a field, by their names in refusals, and the least and the greatest number it takes."""

    kinds: tuple[str, ...]
    least: float | None = None
    most: float | None = None


def integer(least: float | None = None, most: float | None = None) -> Parameter:
    """A whole number within these bounds."""
    return Parameter(("integer",), least, most)


def decimal(least: float, most: float) -> Parameter:
    """A number within these bounds."""
    return Parameter(("decimal",), least, most)


BOOLEAN = Parameter(("boolean",))
STRING = Parameter(("string",))
ARRAY = Parameter(("array",))
OBJECT = Parameter(("object",))
STRING_OR_ARRAY = Parameter(("string", "array"))
STRING_OR_OBJECT = Parameter(("string", "object"))


def wrong_type(name: str, value: JSON, parameter: Parameter) -> str | None:
    """The refusal of a value that has another type, or `None`."""
    if any(_is(value, kind) for kind in parameter.kinds):
        return None
    expected = " or ".join(_NAMES[kind] for kind in parameter.kinds)
    return f"Invalid type for '{name}': expected {expected}, but got {_named(value)} instead."


def out_of_range(name: str, value: JSON, parameter: Parameter) -> tuple[str, str] | None:
    """The refusal of a number beyond the bounds, and its code, or `None`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    kind = "integer" if "integer" in parameter.kinds else "decimal"
    if parameter.least is not None and value < parameter.least:
        side, bound, code = "below minimum", f">= {parameter.least:g}", f"{kind}_below_min_value"
    elif parameter.most is not None and value > parameter.most:
        side, bound, code = "above maximum", f"<= {parameter.most:g}", f"{kind}_above_max_value"
    else:
        return None
    return f"Invalid '{name}': {kind} {side} value. Expected a value {bound}, but got {value} instead.", code


def _is(value: JSON, kind: str) -> bool:
    match value:
        case bool():
            return kind == "boolean"
        case int():
            return kind in ("integer", "decimal")
        case float():
            return kind == "decimal" or (kind == "integer" and value.is_integer())
        case str():
            return kind == "string"
        case list():
            return kind == "array"
        case _:
            return kind == "object" and isinstance(value, dict)


def _named(value: JSON) -> str:
    if isinstance(value, float):
        return "a decimal number"
    return next((text for kind, text in _NAMES.items() if _is(value, kind)), "null")
