"""The normal form of a schema: for each type of JSON the cases that it accepts, and each case as plain keywords.

Equal forms accept the same instances, however their schemas are spelled. The reverse does not hold: schemas that accept
the same may keep two forms (`not`, patterns, overlapping `oneOf`), which is what instances are for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias, cast

from harness.apis.jsonvalue import canonical, join
from harness.contract.model import JSON
from harness.scenarios.json_schema import UndecidedSchema, Validator

Dialect: TypeAlias = Literal["json-schema", "openapi"]

KINDS = ("null", "boolean", "number", "string", "array", "object")
"""The types of JSON. An integer is a number that has to be whole."""

_DEPENDS_ON = {
    "additionalProperties": ("properties", "patternProperties"),
    "items": ("prefixItems",),
    "contains": ("minContains", "maxContains"),
    "minContains": ("contains",),
    "maxContains": ("contains",),
    "then": ("if",),
    "else": ("if",),
}
"""Keywords whose reach other ones narrow or widen."""


@dataclass(frozen=True)
class Case:
    """Instances of one kind that hold to all of `keywords`: JSON values, forms, tuples of them and maps of them.

    `says_open`: the schema says in so many words that an object may have other properties than the named ones. That is
    what silence means as well, but nobody may overrule it.
    """

    keywords: Mapping[str, Any]
    says_open: bool = field(default=False, compare=False)

    @cached_property
    def facts(self) -> dict[str, str]:
        """Each keyword's value as a text that is equal where the value is. No properties are none."""
        return {name: _key(value) for name, value in sorted(self.keywords.items()) if value != {}}

    @cached_property
    def key(self) -> str:
        """Equal for equal cases."""
        return canonical(dict(self.facts))

    def covers(self, other: Case) -> bool:
        """Whether it can be seen without looking at instances that all of `other` is in this one."""
        return self.facts.items() <= other.facts.items() and all(
            self.facts.get(name) == other.facts.get(name)
            for keyword in self.facts
            for name in _DEPENDS_ON.get(keyword, ())
        )

    def form(self, keyword: str) -> Form | None:
        """The form that a keyword holds."""
        return self.keywords.get(keyword)

    @property
    def properties(self) -> Mapping[str, Form]:
        """The properties that are named."""
        return self.keywords.get("properties", {})

    @property
    def required(self) -> frozenset[str]:
        """The properties that have to be there."""
        return frozenset(self.keywords.get("required", ()))

    @property
    def is_closed(self) -> bool:
        """Whether other properties than the named ones are refused."""
        other = self.form("additionalProperties")
        return other is not None and other.takes_nothing


@dataclass(frozen=True)
class Form:
    """What a schema accepts: `kinds` has the cases of each type of JSON. `pointer` leads to where it was read.

    `cycle` stands for the form that lies so many places above this one: a schema inside itself.
    """

    kinds: Mapping[str, tuple[Case, ...]]
    pointer: str = field(default="", compare=False)
    cycle: int | None = None

    @cached_property
    def key(self) -> str:
        """Equal for equal forms."""
        if self.cycle is not None:
            return f"up {self.cycle}"
        return canonical({kind: [case.key for case in cases] for kind, cases in self.kinds.items()})

    @property
    def takes_null(self) -> bool:
        """Whether null is an instance."""
        return "null" in self.kinds

    @property
    def takes_nothing(self) -> bool:
        """Whether nothing is an instance."""
        return not self.kinds and self.cycle is None

    def only(self, kind: str) -> Case | None:
        """The one case of a kind, `None` if there is none or more."""
        cases = self.kinds.get(kind, ())
        return cases[0] if len(cases) == 1 else None


def anything(pointer: str = "") -> Form:
    """The form of `true`."""
    return Form({kind: (Case({}),) for kind in KINDS}, pointer)


def nothing(pointer: str = "") -> Form:
    """The form of `false`."""
    return Form({}, pointer)


def resolved(form: Form, above: Sequence[Form]) -> tuple[Form, Sequence[Form]]:
    """A form with those around it; of one that stands for another, that other one."""
    while form.cycle is not None:
        level = len(above) - form.cycle
        form, above = above[level], above[:level]
    return form, above


def union(forms: Iterable[Form], pointer: str) -> Form:
    """What any of them accepts."""
    cases: dict[str, list[Case]] = {}
    for form in forms:
        for kind, own in form.kinds.items():
            cases.setdefault(kind, []).extend(own)
    return Form({kind: _merged(kind, cases[kind]) for kind in KINDS if cases.get(kind)}, pointer)


def nullable(form: Form) -> Form:
    """What a form accepts, and null."""
    return replace(form, kinds={**form.kinds, "null": (Case({}),)})


def enumerated(values: Iterable[JSON]) -> Case:
    """Exactly these values."""
    by_text = {canonical(value): value for value in values}
    return Case({"enum": [by_text[text] for text in sorted(by_text)]})


def _merged(kind: str, cases: Iterable[Case]) -> tuple[Case, ...]:
    """Cases of one kind: enums in one, those left out that others cover, in an order of their own."""
    distinct = list({case.key: case for case in cases}.values())
    enums = [case for case in distinct if case.facts.keys() == {"enum"}]
    if enums:
        values = enumerated(value for case in enums for value in case.keywords["enum"])
        complete = len(values.keywords["enum"]) == {"null": 1, "boolean": 2}.get(kind)
        distinct = [case for case in distinct if case not in enums] + [Case({}) if complete else values]
    left = [case for case in distinct if not any(other.key != case.key and other.covers(case) for other in distinct)]
    return tuple(sorted({case.key: case for case in left}.values(), key=lambda case: case.key))


def _key(value: object) -> str:
    match value:
        case Form():
            return value.key
        case Mapping():
            return canonical({name: _key(each) for name, each in cast("Mapping[str, object]", value).items()})
        case tuple():
            return canonical([_key(each) for each in cast("tuple[object, ...]", value)])
        case _:
            return canonical(cast("JSON", value))


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
