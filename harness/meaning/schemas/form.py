"""The normal form of a schema: for each type of JSON the cases that it accepts, and each case as plain keywords.

Equal forms accept the same instances, however their schemas are spelled. The reverse does not hold: schemas that accept
the same may keep two forms (`not`, patterns, overlapping `oneOf`), which is what instances are for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias, cast

from harness.model import JSON
from harness.wire.jsonvalue import canonical

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
