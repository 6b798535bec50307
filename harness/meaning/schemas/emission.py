"""Forms as JSON Schema (draft 2020-12) again, to check instances against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from harness.apis.jsonvalue import join
from harness.contract.model import JSON
from harness.meaning.schemas.form import KINDS, Case, Form
from harness.scenarios.json_schema import UndecidedSchema, Validator

SAME_VALUE = frozenset({"not", "if", "then", "else", "allOf", "oneOf", "dependentSchemas"})
"""Keywords whose schemas speak of the value itself, not of one inside it."""


class Acceptance:
    """Says of values whether they are instances of a form.

    `above` are the forms around it, the outermost first: those that it, or a form inside it, may stand for.
    """

    def __init__(self, form: Form, above: Sequence[Form] = ()) -> None:
        levels = [*above, form]
        places = [f"#/$defs/{level}" for level in range(len(levels))]
        definitions = {str(level): _schema(each, places[level], places[:level]) for level, each in enumerate(levels)}
        schema = {"$ref": places[-1], "$defs": definitions}
        self._validator = Validator(schema)

    def __call__(self, value: JSON) -> bool:
        """Whether the value is an instance. No pattern matches that may take too long."""
        try:
            return self._validator.is_valid(value)
        except UndecidedSchema:
            return False


def _schema(form: Form, here: str, above: Sequence[str], location: str | None = None) -> Any:
    """`location` is where the schema of the value stands, if this one is but a condition on it."""
    if form.cycle is not None:
        return {"$ref": above[len(above) - form.cycle]}
    inside = (*above, location or here)
    cases = [(kind, case) for kind in KINDS for case in form.kinds.get(kind, ())]
    branches = [_case(*each, join(here, "anyOf", at), inside) for at, each in enumerate(cases)]
    return {"anyOf": branches} if branches else False


def _case(kind: str, case: Case, here: str, inside: Sequence[str]) -> dict[str, Any]:
    keywords = {
        name: _value(name, value, join(here, name), inside)
        for name, value in case.keywords.items()
        if name != "integer"
    }
    return {"type": "integer" if "integer" in case.keywords else kind, **keywords}


def _value(name: str, value: Any, here: str, inside: Sequence[str]) -> Any:
    match value:
        case Form() if name in SAME_VALUE:
            return _schema(value, here, inside[:-1], inside[-1])
        case Form():
            return _schema(value, here, inside)
        case Mapping():
            entries = cast("Mapping[str, Any]", value).items()
            return {key: _value(name, each, join(here, key), inside) for key, each in entries}
        case tuple():
            items = cast("tuple[Any, ...]", value)
            return [_value(name, each, join(here, at), inside) for at, each in enumerate(items)]
        case _:
            return value
