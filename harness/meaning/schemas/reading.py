"""Reads a schema as its normal form.

Not of the meaning, and left out: `title`, `$schema`, `$id`, `$comment`, `default`, `propertyOrdering`, `deprecated`,
`readOnly`, `writeOnly`, keywords that JSON Schema does not know; `words` looks after those that a model reads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from harness.contract.model import JSON
from harness.meaning.schemas.document import Document, UnreadableError
from harness.meaning.schemas.form import KINDS, Acceptance, Case, Form, anything, enumerated, nothing, nullable, union

MAX_FORMS = 5000
"""Schemas in one schema, its references written out. Nobody gives more of them to a model."""

_KEYWORDS = {
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "string": ("minLength", "maxLength", "pattern"),
    "array": ("minItems", "maxItems", "uniqueItems", "minContains", "maxContains"),
    "object": ("minProperties", "maxProperties", "dependentRequired"),
}
_FORMS = {"array": ("items", "contains"), "object": ("additionalProperties", "propertyNames")}
_SAY_NOTHING: dict[str, JSON] = {
    "minLength": 0,
    "minItems": 0,
    "minProperties": 0,
    "uniqueItems": False,
    "dependentRequired": {},
}


def read(document: Document) -> Form:
    """The normal form of a document.

    Raises:
        UnreadableError: it refers to itself without a step, or to what is not there, or there is too much of it.
    """
    try:
        return _Reading(document).place(document.root, ())
    except RecursionError as error:
        raise UnreadableError("nested too deeply") from error


class _Reading:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._read = 0

    def place(self, schema: JSON, above: Sequence[JSON]) -> Form:
        """The form of the schema of a value. `above` are those of the values around it, the outermost first."""
        schema = self._document.behind(schema)
        for steps, other in enumerate(reversed(above), 1):
            if other is schema and isinstance(schema, dict):
                return Form({}, self._document.pointer(schema), steps)
        return self._form(schema, (*above, schema), ())

    def _form(self, schema: JSON, above: Sequence[JSON], within: Sequence[JSON]) -> Form:
        """`above` ends with the schema of the value itself; `within` are the conditions on it that hold this one."""
        self._read += 1
        pointer = self._document.pointer(schema)
        if not isinstance(schema, dict):
            return nothing(pointer) if schema is False else anything(pointer)
        if self._read > MAX_FORMS or any(other is schema for other in within):
            raise UnreadableError("its references do not end")
        inside = (*within, schema)
        form = Form(dict(self._own_kinds(schema, above)), pointer)
        if "$ref" in schema:
            form = self._both(form, self._form(self._document.target(schema["$ref"]), above, inside))
        for each in _list(schema.get("allOf")):
            form = self._both(form, self._form(each, above, inside))
        if "anyOf" in schema:
            options = [self._form(each, above, inside) for each in _list(schema["anyOf"])]
            form = self._both(form, union(options, pointer))
        if "oneOf" in schema:
            form = self._both(form, self._one_of([self._form(each, above, inside) for each in _list(schema["oneOf"])]))
        form = self._conditions(form, schema, above, inside)
        return nullable(form) if schema.get("nullable") is True and self._document.reads_nullable else form

    def _own_kinds(self, schema: dict[str, JSON], above: Sequence[JSON]) -> list[tuple[str, tuple[Case, ...]]]:
        """What the keywords of a schema say by themselves, without those that combine schemas."""
        types = schema.get("type")
        names = [types] if isinstance(types, str) else types if isinstance(types, list) else [*KINDS]
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        found: list[tuple[str, tuple[Case, ...]]] = []
        for kind in KINDS:
            if kind not in names and not (kind == "number" and "integer" in names):
                continue
            is_open = kind == "object" and schema.get("additionalProperties") in (True, {})
            case = Case(self._keywords(kind, schema, above, whole=kind not in names), is_open)
            if isinstance(values, list):
                fit = Acceptance(Form({kind: (case,)}), [anything()] * (len(above) - 1))
                own = [value for value in values if _kind(value) == kind and fit(value)]
                found.extend(((kind, union([Form({kind: (enumerated(own),)})], "").kinds[kind]),) if own else ())
            else:
                found.append((kind, (case,)))
        return found

    def _keywords(self, kind: str, schema: dict[str, JSON], above: Sequence[JSON], *, whole: bool) -> dict[str, Any]:
        keywords: dict[str, Any] = {
            name: schema[name]
            for name in _KEYWORDS.get(kind, ())
            if name in schema and (name not in _SAY_NOTHING or schema[name] != _SAY_NOTHING[name])
        }
        for name in _FORMS.get(kind, ()):
            if name in schema:
                form = self.place(schema[name], above)
                if form.key != anything().key:
                    keywords[name] = form
        if kind == "array" and _list(schema.get("prefixItems")):
            keywords["prefixItems"] = tuple(self.place(each, above) for each in _list(schema["prefixItems"]))
        if kind == "object":
            for name in ("properties", "patternProperties"):
                members = schema.get(name)
                if isinstance(members, dict):
                    keywords[name] = {key: self.place(each, above) for key, each in members.items()}
            if _list(schema.get("required")):
                keywords["required"] = sorted({name for name in _list(schema["required"]) if isinstance(name, str)})
        return _whole_bounds(keywords) if whole else keywords

    def _conditions(self, form: Form, schema: dict[str, JSON], above: Sequence[JSON], inside: Sequence[JSON]) -> Form:
        """What only can be checked: `not`, `if` and schemas that depend on a property."""
        names = ("not", *(("if", "then", "else") if "if" in schema else ()))
        found: dict[str, Any] = {name: self._form(schema[name], above, inside) for name in names if name in schema}
        depending = schema.get("dependentSchemas")
        if isinstance(depending, dict):
            found["dependentSchemas"] = {key: self._form(each, above, inside) for key, each in depending.items()}
        return self._both(form, _condition(found)) if found else form

    def _one_of(self, forms: list[Form]) -> Form:
        """Options that exclude each other anyway are those of `anyOf`."""
        if all(_exclude(one, other) for one, other in combinations(forms, 2)):
            return union(forms, "")
        return _condition({"oneOf": tuple(sorted(forms, key=lambda form: form.key))})

    def _both(self, one: Form, other: Form) -> Form:
        kinds: dict[str, tuple[Case, ...]] = {}
        for kind in KINDS:
            pairs = [(a, b) for a in one.kinds.get(kind, ()) for b in other.kinds.get(kind, ())]
            merged = [self._both_cases(kind, a, b) for a, b in pairs]
            cases = [case for case in merged if case is not None]
            if cases:
                kinds[kind] = union([Form({kind: tuple(cases)})], "").kinds[kind]
        return Form(kinds, one.pointer)

    def _both_cases(self, kind: str, one: Case, other: Case) -> Case | None:
        if not one.keywords or not other.keywords:
            return one if one.keywords else other
        if "enum" in one.keywords or "enum" in other.keywords:
            rest, checks = (one, other) if "enum" in one.keywords else (other, one)
            fits = Acceptance(Form({kind: (checks,)}), [anything()] * MAX_DEPTH)
            values = [value for value in rest.keywords["enum"] if fits(value)]
            return enumerated(values) if values else None
        found = {**one.keywords, **other.keywords}
        for name in one.facts.keys() & other.facts.keys():
            found[name] = self._both_values(name, one, other)
        apart = {"additionalProperties", "patternProperties"} & found.keys() and one.properties != other.properties
        if apart or any(value is None for value in found.values()):
            forms = [Form({kind: (case,)}) for case in (one, other)]
            return Case({"allOf": tuple(sorted(forms, key=lambda form: form.key))})
        return Case(_whole_bounds(found) if "integer" in found else found, one.says_open or other.says_open)

    def _both_values(self, name: str, one: Case, other: Case) -> Any:
        """What two values of a keyword say together; `None` if no one value does."""
        a, b = one.keywords[name], other.keywords[name]
        if one.facts[name] == other.facts[name]:
            return a
        if name in ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"):
            return max(a, b)
        if name in ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"):
            return min(a, b)
        if name == "required":
            return sorted({*a, *b})
        if name == "properties" and all(a[key].key == b[key].key for key in a.keys() & b.keys()):
            return {**a, **b}
        return None


MAX_DEPTH = 64
"""Values around an enum's value that may be referred to; none of them ever decides about a scalar."""


def _condition(keywords: dict[str, Any]) -> Form:
    return Form({kind: (Case(keywords),) for kind in KINDS})


def _whole_bounds(keywords: dict[str, Any]) -> dict[str, Any]:
    """Bounds of an integer as the outermost integers that are allowed."""
    found = {**keywords, "integer": True}
    lows = [math.ceil(found.pop("minimum"))] if "minimum" in found else []
    lows += [math.floor(found.pop("exclusiveMinimum")) + 1] if "exclusiveMinimum" in found else []
    highs = [math.floor(found.pop("maximum"))] if "maximum" in found else []
    highs += [math.ceil(found.pop("exclusiveMaximum")) - 1] if "exclusiveMaximum" in found else []
    return found | ({"minimum": max(lows)} if lows else {}) | ({"maximum": min(highs)} if highs else {})


def _exclude(one: Form, other: Form) -> bool:
    """Whether it can be seen that no value is an instance of both."""
    shared = one.kinds.keys() & other.kinds.keys()
    pairs = [(a, b) for kind in shared for a in one.kinds[kind] for b in other.kinds[kind]]
    return one.cycle is other.cycle is None and all(_apart(a, b) for a, b in pairs)


def _apart(one: Case, other: Case) -> bool:
    if "enum" in one.keywords and "enum" in other.keywords:
        return _disjoint(one, other)
    shared = one.required & other.required & one.properties.keys() & other.properties.keys()
    return any(_exclude(one.properties[name], other.properties[name]) for name in shared)


def _disjoint(one: Case, other: Case) -> bool:
    both = enumerated([*one.keywords["enum"], *other.keywords["enum"]])
    return len(both.keywords["enum"]) == len(one.keywords["enum"]) + len(other.keywords["enum"])


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
        case _:
            return "object"


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []
