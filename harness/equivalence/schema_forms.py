"""Normal form of schemas: for each JSON type, the alternatives (branches) that the schema accepts, written with plain
keywords.

Schemas with equal forms accept the same instances. The converse is not true (`not`, patterns, overlapping `oneOf`), so
schemas with different forms are compared by testing instances.

These keywords have no effect on validation and are left out: `title`, `$schema`, `$id`, `$comment`, `default`,
`propertyOrdering`, `deprecated`, `readOnly`, `writeOnly` and unknown keywords. `schema_documents` compares the wording
that a model reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, cast

from harness.apis.jsonvalue import as_list, canonical, join, type_of
from harness.documents.json_schema import UndecidedSchema, Validator
from harness.equivalence.schema_documents import SchemaDocument, UnreadableError
from harness.model.messages import JSON

KINDS = ("null", "boolean", "number", "string", "array", "object")
"""JSON types. An integer is a number that must be whole."""

_DEPENDS_ON = {
    "additionalProperties": ("properties", "patternProperties"),
    "items": ("prefixItems",),
    "contains": ("minContains", "maxContains"),
    "minContains": ("contains",),
    "maxContains": ("contains",),
    "then": ("if",),
    "else": ("if",),
}
"""Keywords whose meaning depends on other keywords."""


@dataclass(frozen=True)
class Branch:
    """The instances of one JSON type that satisfy all `keywords`. Keyword values are JSON values, forms, or tuples and
    maps of forms.

    `says_open` is set if the schema sets `additionalProperties` to true. That is also the default, but an API may only
    close an object whose schema leaves it out.
    """

    keywords: Mapping[str, Any]
    says_open: bool = field(default=False, compare=False)

    @cached_property
    def comparable(self) -> dict[str, str]:
        """Map each keyword to a text that is equal for equal values. Empty maps are left out."""
        return {name: _key(value) for name, value in sorted(self.keywords.items()) if value != {}}

    @cached_property
    def key(self) -> str:
        """Text that is equal for equal branches."""
        return canonical(dict(self.comparable))

    def covers(self, other: Branch) -> bool:
        """Return whether this branch is certain to include all instances of `other`. False may also mean that this is
        unknown.
        """
        return self.comparable.items() <= other.comparable.items() and all(
            self.comparable.get(name) == other.comparable.get(name)
            for keyword in self.comparable
            for name in _DEPENDS_ON.get(keyword, ())
        )

    def form(self, keyword: str) -> NormalForm | None:
        """Return the normal form of the schema at a keyword, or `None` if the keyword is absent."""
        return self.keywords.get(keyword)

    @property
    def properties(self) -> Mapping[str, NormalForm]:
        """The named properties."""
        return self.keywords.get("properties", {})

    @property
    def required(self) -> frozenset[str]:
        """The required properties."""
        return frozenset(self.keywords.get("required", ()))

    @property
    def is_closed(self) -> bool:
        """Set if properties other than the named ones are rejected."""
        other = self.form("additionalProperties")
        return other is not None and other.takes_nothing


@dataclass(frozen=True)
class NormalForm:
    """The branches of each JSON type that a schema accepts. `pointer` is the location of the schema.

    `cycle` is set if a schema contains itself. It is the number of levels up to the form that is repeated.
    """

    kinds: Mapping[str, tuple[Branch, ...]]
    pointer: str = field(default="", compare=False)
    cycle: int | None = None

    @cached_property
    def key(self) -> str:
        """Text that is equal for equal forms."""
        if self.cycle is not None:
            return f"up {self.cycle}"
        return canonical({kind: [case.key for case in cases] for kind, cases in self.kinds.items()})

    @property
    def takes_null(self) -> bool:
        """Set if null is an instance."""
        return "null" in self.kinds

    @property
    def takes_nothing(self) -> bool:
        """Set if there are no instances."""
        return not self.kinds and self.cycle is None

    def only(self, kind: str) -> Branch | None:
        """Return the only branch of a JSON type, or `None`."""
        cases = self.kinds.get(kind, ())
        return cases[0] if len(cases) == 1 else None


def any_form(pointer: str = "") -> NormalForm:
    """Return the form of the schema `true`."""
    return NormalForm({kind: (Branch({}),) for kind in KINDS}, pointer)


def no_form(pointer: str = "") -> NormalForm:
    """Return the form of the schema `false`."""
    return NormalForm({}, pointer)


def resolve_cycle(form: NormalForm, above: Sequence[NormalForm]) -> tuple[NormalForm, Sequence[NormalForm]]:
    """Follow a cycle; return the form and the forms around it."""
    while form.cycle is not None:
        level = len(above) - form.cycle
        form, above = above[level], above[:level]
    return form, above


def union(forms: Iterable[NormalForm], pointer: str) -> NormalForm:
    """Return the form that accepts every value that any of the forms accepts."""
    cases: dict[str, list[Branch]] = {}
    for form in forms:
        for kind, own in form.kinds.items():
            cases.setdefault(kind, []).extend(own)
    return NormalForm({kind: _merge(kind, cases[kind]) for kind in KINDS if cases.get(kind)}, pointer)


def nullable(form: NormalForm) -> NormalForm:
    """Return the form that also accepts null."""
    return replace(form, kinds={**form.kinds, "null": (Branch({}),)})


def enum_branch(values: Iterable[JSON]) -> Branch:
    """Return the branch that accepts exactly these values."""
    by_text = {canonical(value): value for value in values}
    return Branch({"enum": [by_text[text] for text in sorted(by_text)]})


def _merge(kind: str, cases: Iterable[Branch]) -> tuple[Branch, ...]:
    """Normalise branches of one kind: join enums, drop covered branches, sort."""
    distinct = list({case.key: case for case in cases}.values())
    enums = [case for case in distinct if case.comparable.keys() == {"enum"}]
    if enums:
        values = enum_branch(value for case in enums for value in case.keywords["enum"])
        complete = len(values.keywords["enum"]) == {"null": 1, "boolean": 2}.get(kind)
        distinct = [case for case in distinct if case not in enums] + [Branch({}) if complete else values]
    left = [case for case in distinct if not any(other.key != case.key and other.covers(case) for other in distinct)]
    return tuple(sorted({case.key: case for case in left}.values(), key=lambda case: case.key))


def _key(value: object) -> str:
    match value:
        case NormalForm():
            return value.key
        case Mapping():
            return canonical({name: _key(each) for name, each in cast("Mapping[str, object]", value).items()})
        case tuple():
            return canonical([_key(each) for each in cast("tuple[object, ...]", value)])
        case _:
            return canonical(cast("JSON", value))


SAME_VALUE = frozenset({"not", "if", "then", "else", "allOf", "oneOf", "dependentSchemas"})
"""Keywords whose schemas apply to the value itself."""


class Acceptance:
    """Decides whether values are instances of a form. `above` are the forms around it, outermost first."""

    def __init__(self, form: NormalForm, above: Sequence[NormalForm] = ()) -> None:
        levels = [*above, form]
        places = [f"#/$defs/{level}" for level in range(len(levels))]
        definitions = {str(level): _schema(each, places[level], places[:level]) for level, each in enumerate(levels)}
        schema = {"$ref": places[-1], "$defs": definitions}
        self._validator = Validator(schema)

    def __call__(self, value: JSON) -> bool:
        """Return whether the value is an instance. Patterns that may take too long match nothing."""
        try:
            return self._validator.is_valid(value)
        except UndecidedSchema:
            return False


def _schema(form: NormalForm, here: str, above: Sequence[str], location: str | None = None) -> Any:
    """Convert a form to JSON Schema; `here` is its pointer.

    A form in a keyword such as `not` applies to the same value as the schema around it. `location` is then the pointer
    of that value's own schema, to which cycles refer.
    """
    if form.cycle is not None:
        return {"$ref": above[len(above) - form.cycle]}
    inside = (*above, location or here)
    cases = [(kind, case) for kind in KINDS for case in form.kinds.get(kind, ())]
    branches = [_case(*each, join(here, "anyOf", at), inside) for at, each in enumerate(cases)]
    return {"anyOf": branches} if branches else False


def _case(kind: str, case: Branch, here: str, inside: Sequence[str]) -> dict[str, Any]:
    keywords = {
        name: _value(name, value, join(here, name), inside)
        for name, value in case.keywords.items()
        if name != "integer"
    }
    return {"type": "integer" if "integer" in case.keywords else kind, **keywords}


def _value(name: str, value: Any, here: str, inside: Sequence[str]) -> Any:
    match value:
        case NormalForm() if name in SAME_VALUE:
            return _schema(value, here, inside[:-1], inside[-1])
        case NormalForm():
            return _schema(value, here, inside)
        case Mapping():
            entries = cast("Mapping[str, Any]", value).items()
            return {key: _value(name, each, join(here, key), inside) for key, each in entries}
        case tuple():
            items = cast("tuple[Any, ...]", value)
            return [_value(name, each, join(here, at), inside) for at, each in enumerate(items)]
        case _:
            return value


MAX_FORMS = 5000
"""Maximum number of schemas in one schema after its references are expanded."""

_KEYWORDS = {
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "string": ("minLength", "maxLength", "pattern"),
    "array": ("minItems", "maxItems", "uniqueItems", "minContains", "maxContains"),
    "object": ("minProperties", "maxProperties", "dependentRequired"),
}
_FORMS = {"array": ("items", "contains"), "object": ("additionalProperties", "propertyNames")}
_DEFAULT_VALUES: dict[str, JSON] = {
    "minLength": 0,
    "minItems": 0,
    "minProperties": 0,
    "uniqueItems": False,
    "dependentRequired": {},
}


def read_form(document: SchemaDocument) -> NormalForm:
    """Return the normal form of a document.

    Raises:
        UnreadableError: the schema directly refers to itself or to a missing schema, or is too large.
    """
    try:
        return _Reading(document).place(document.root, ())
    except RecursionError as error:
        raise UnreadableError("nested too deeply") from error


class _Reading:
    def __init__(self, document: SchemaDocument) -> None:
        self._document = document
        self._read = 0

    def place(self, schema: JSON, above: Sequence[JSON]) -> NormalForm:
        """Return the form of a value's schema. `above` are the schemas of the values around it, outermost first."""
        schema = self._document.behind(schema)
        for steps, other in enumerate(reversed(above), 1):
            if other is schema and isinstance(schema, dict):
                return NormalForm({}, self._document.pointer(schema), steps)
        return self._form(schema, (*above, schema), ())

    def _form(self, schema: JSON, above: Sequence[JSON], within: Sequence[JSON]) -> NormalForm:
        """Return the form of a schema. `above` ends with the value's own schema. `within` are the enclosing schemas
        that apply to the same value.
        """
        self._read += 1
        pointer = self._document.pointer(schema)
        if not isinstance(schema, dict):
            return no_form(pointer) if schema is False else any_form(pointer)
        if self._read > MAX_FORMS or any(other is schema for other in within):
            raise UnreadableError("its references do not end")
        inside = (*within, schema)
        form = NormalForm(dict(self._own_kinds(schema, above)), pointer)
        if "$ref" in schema:
            form = self._both(form, self._form(self._document.target(schema["$ref"]), above, inside))
        for each in as_list(schema.get("allOf")):
            form = self._both(form, self._form(each, above, inside))
        if "anyOf" in schema:
            options = [self._form(each, above, inside) for each in as_list(schema["anyOf"])]
            form = self._both(form, union(options, pointer))
        if "oneOf" in schema:
            options = [self._form(each, above, inside) for each in as_list(schema["oneOf"])]
            form = self._both(form, self._one_of(options))
        form = self._conditions(form, schema, above, inside)
        return nullable(form) if schema.get("nullable") is True and self._document.reads_nullable else form

    def _own_kinds(self, schema: dict[str, JSON], above: Sequence[JSON]) -> list[tuple[str, tuple[Branch, ...]]]:
        """Return the branches for the schema's own keywords, without `allOf` and similar ones."""
        types = schema.get("type")
        names = [types] if isinstance(types, str) else types if isinstance(types, list) else [*KINDS]
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        found: list[tuple[str, tuple[Branch, ...]]] = []
        for kind in KINDS:
            if kind not in names and not (kind == "number" and "integer" in names):
                continue
            is_open = kind == "object" and schema.get("additionalProperties") in (True, {})
            case = Branch(self._keywords(kind, schema, above, whole=kind not in names), is_open)
            if isinstance(values, list):
                fit = Acceptance(NormalForm({kind: (case,)}), [any_form()] * (len(above) - 1))
                own = [value for value in values if type_of(value) == kind and fit(value)]
                found.extend(((kind, union([NormalForm({kind: (enum_branch(own),)})], "").kinds[kind]),) if own else ())
            else:
                found.append((kind, (case,)))
        return found

    def _keywords(self, kind: str, schema: dict[str, JSON], above: Sequence[JSON], *, whole: bool) -> dict[str, Any]:
        keywords: dict[str, Any] = {
            name: schema[name]
            for name in _KEYWORDS.get(kind, ())
            if name in schema and (name not in _DEFAULT_VALUES or schema[name] != _DEFAULT_VALUES[name])
        }
        for name in _FORMS.get(kind, ()):
            if name in schema:
                form = self.place(schema[name], above)
                if form.key != any_form().key:
                    keywords[name] = form
        if kind == "array" and as_list(schema.get("prefixItems")):
            keywords["prefixItems"] = tuple(self.place(each, above) for each in as_list(schema["prefixItems"]))
        if kind == "object":
            for name in ("properties", "patternProperties"):
                members = schema.get(name)
                if isinstance(members, dict):
                    keywords[name] = {key: self.place(each, above) for key, each in members.items()}
            if as_list(schema.get("required")):
                keywords["required"] = sorted({name for name in as_list(schema["required"]) if isinstance(name, str)})
        return _whole_bounds(keywords) if whole else keywords

    def _conditions(
        self, form: NormalForm, schema: dict[str, JSON], above: Sequence[JSON], inside: Sequence[JSON]
    ) -> NormalForm:
        """Add the keywords that can only be evaluated on instances: `not`, `if` and dependent schemas."""
        names = ("not", *(("if", "then", "else") if "if" in schema else ()))
        found: dict[str, Any] = {name: self._form(schema[name], above, inside) for name in names if name in schema}
        depending = schema.get("dependentSchemas")
        if isinstance(depending, dict):
            found["dependentSchemas"] = {key: self._form(each, above, inside) for key, each in depending.items()}
        return self._both(form, _condition(found)) if found else form

    def _one_of(self, forms: list[NormalForm]) -> NormalForm:
        """Return the form of `oneOf`. It is treated as `anyOf` if its options exclude each other."""
        if all(_exclude(one, other) for one, other in combinations(forms, 2)):
            return union(forms, "")
        return _condition({"oneOf": tuple(sorted(forms, key=lambda form: form.key))})

    def _both(self, one: NormalForm, other: NormalForm) -> NormalForm:
        kinds: dict[str, tuple[Branch, ...]] = {}
        for kind in KINDS:
            pairs = [(a, b) for a in one.kinds.get(kind, ()) for b in other.kinds.get(kind, ())]
            merged = [self._both_cases(kind, a, b) for a, b in pairs]
            cases = [case for case in merged if case is not None]
            if cases:
                kinds[kind] = union([NormalForm({kind: tuple(cases)})], "").kinds[kind]
        return NormalForm(kinds, one.pointer)

    def _both_cases(self, kind: str, one: Branch, other: Branch) -> Branch | None:
        if not one.keywords or not other.keywords:
            return one if one.keywords else other
        if "enum" in one.keywords or "enum" in other.keywords:
            rest, checks = (one, other) if "enum" in one.keywords else (other, one)
            fits = Acceptance(NormalForm({kind: (checks,)}), [any_form()] * MAX_DEPTH)
            values = [value for value in rest.keywords["enum"] if fits(value)]
            return enum_branch(values) if values else None
        found = {**one.keywords, **other.keywords}
        for name in one.comparable.keys() & other.comparable.keys():
            found[name] = self._both_values(name, one, other)
        apart = {"additionalProperties", "patternProperties"} & found.keys() and one.properties != other.properties
        if apart or any(value is None for value in found.values()):
            forms = [NormalForm({kind: (case,)}) for case in (one, other)]
            return Branch({"allOf": tuple(sorted(forms, key=lambda form: form.key))})
        return Branch(_whole_bounds(found) if "integer" in found else found, one.says_open or other.says_open)

    def _both_values(self, name: str, one: Branch, other: Branch) -> Any:
        """Return the conjunction of two values of a keyword, or `None` if no single value expresses it."""
        a, b = one.keywords[name], other.keywords[name]
        if one.comparable[name] == other.comparable[name]:
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
"""Number of placeholder forms that enclose an enum while its values are checked, so that cycles can refer to them.
Placeholders accept anything.
"""


def _condition(keywords: dict[str, Any]) -> NormalForm:
    return NormalForm({kind: (Branch(keywords),) for kind in KINDS})


def _whole_bounds(keywords: dict[str, Any]) -> dict[str, Any]:
    """Replace the bounds of an integer by the smallest and the largest allowed integer."""
    found = {**keywords, "integer": True}
    lows = [math.ceil(found.pop("minimum"))] if "minimum" in found else []
    lows += [math.floor(found.pop("exclusiveMinimum")) + 1] if "exclusiveMinimum" in found else []
    highs = [math.floor(found.pop("maximum"))] if "maximum" in found else []
    highs += [math.ceil(found.pop("exclusiveMaximum")) - 1] if "exclusiveMaximum" in found else []
    return found | ({"minimum": max(lows)} if lows else {}) | ({"maximum": min(highs)} if highs else {})


def _exclude(one: NormalForm, other: NormalForm) -> bool:
    """Return whether it is obvious that no value is an instance of both forms."""
    shared = one.kinds.keys() & other.kinds.keys()
    pairs = [(a, b) for kind in shared for a in one.kinds[kind] for b in other.kinds[kind]]
    return one.cycle is other.cycle is None and all(_are_disjoint(a, b) for a, b in pairs)


def _are_disjoint(one: Branch, other: Branch) -> bool:
    if "enum" in one.keywords and "enum" in other.keywords:
        return _disjoint(one, other)
    shared = one.required & other.required & one.properties.keys() & other.properties.keys()
    return any(_exclude(one.properties[name], other.properties[name]) for name in shared)


def _disjoint(one: Branch, other: Branch) -> bool:
    both = enum_branch([*one.keywords["enum"], *other.keywords["enum"]])
    return len(both.keywords["enum"]) == len(one.keywords["enum"]) + len(other.keywords["enum"])
