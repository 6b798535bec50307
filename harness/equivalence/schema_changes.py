"""Compares a schema on the wire with the given one by normal form, wording and sample instances."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice
from random import Random
from typing import Any

from harness.apis.jsonvalue import as_list, as_object, equal, join, resolve
from harness.equivalence.schema_documents import (
    Dialect,
    SchemaChange,
    SchemaDocument,
    UnreadableError,
    find_wording_change,
)
from harness.equivalence.schema_forms import (
    KINDS,
    Acceptance,
    Branch,
    NormalForm,
    any_form,
    no_form,
    nullable,
    read_form,
    resolve_cycle,
)
from harness.equivalence.schema_instances import candidates, of_case, random_instance
from harness.model.messages import JSON

_CONSTRUCTED = 5000
_GENERATED = 300
_SEED = 9
_ITEMS = ("prefixItems", "items")


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """Difference between two normal forms, with an instance that only one schema accepts.

    `given_accepts` is true if the given schema accepts it. `pointer` and `given_pointer` locate the two schemas, and
    `keyword` is the differing keyword. `inside` is the path of the instance within a value of the whole schema. It is
    empty if the instance is a whole value.
    """

    instance: JSON
    given_accepts: bool
    pointer: str
    given_pointer: str
    keyword: str
    inside: str = ""


class SchemaComparison:
    """Compares the normal forms of two schemas."""

    def __init__(self, *, openapi: bool) -> None:
        self._openapi = openapi
        self._seen: set[tuple[int, int, bool]] = set()
        self._kept: list[NormalForm] = []  # kept alive, so that ids are not reused

    def first(
        self,
        given: NormalForm,
        wire: NormalForm,
        given_above: Sequence[NormalForm] = (),
        wire_above: Sequence[NormalForm] = (),
        *,
        optional: bool = False,
    ) -> SchemaDifference | None:
        """Return the first difference. `optional` is set for an optional property that a strict API made required, so
        that it may have become nullable.
        """
        given, given_above = resolve_cycle(given, given_above)
        wire, wire_above = resolve_cycle(wire, wire_above)
        mark = (id(given), id(wire), optional)
        if mark in self._seen or given.key == wire.key:
            return None
        self._seen.add(mark)
        self._kept += [given, wire]
        inside = (*given_above, given), (*wire_above, wire)
        level = self._rewrite(given, wire, *inside, optional=optional)
        for kind, one, other in _pairs(level, wire):
            was = given.kinds[kind][level.kinds[kind].index(one)]
            for step in _steps(kind, one, other, (given.pointer, wire.pointer), one.required - was.required):
                found = self.first(step.given, step.wire, *inside, optional=step.optional)
                if found is not None:
                    carried = replace(found, inside=f"{step.inside}{found.inside}")
                    return self._widen(carried, step, (kind, other), (level, given_above), (wire, wire_above))
        alike = _with_nested_of(level, wire)
        return None if alike.key == wire.key else self._difference_at_level(alike, wire, wire_above, given.pointer)

    def _rewrite(
        self,
        given: NormalForm,
        wire: NormalForm,
        given_inside: Sequence[NormalForm],
        wire_inside: Sequence[NormalForm],
        *,
        optional: bool,
    ) -> NormalForm:
        """Return `given` with the rewrites that APIs require at this level (closed objects, required nullable
        properties), if `wire` has them.
        """
        kinds = dict(given.kinds)
        case = given.only("object")
        if [*wire.kinds] == ["object"] and kinds.keys() == {*KINDS} and case is not None and case.properties:
            kinds = {"object": kinds["object"]}
        if "object" in kinds:
            cases = [*kinds["object"]]
            for kind, one, other in _pairs(given, wire):
                if kind == "object":
                    cases[cases.index(one)] = self._rewritten_object(one, other, given_inside, wire_inside)
            kinds["object"] = tuple(cases)
        form = replace(given, kinds=kinds)
        return nullable(form) if optional and wire.takes_null else form

    def _rewritten_object(
        self, given: Branch, wire: Branch, given_inside: Sequence[NormalForm], wire_inside: Sequence[NormalForm]
    ) -> Branch:
        keywords = dict(given.keywords)
        forced = {
            name
            for name in wire.required - given.required
            if name in given.properties
            and name in wire.properties
            and (
                resolve_cycle(wire.properties[name], wire_inside)[0].takes_null
                or resolve_cycle(given.properties[name], given_inside)[0].takes_null
            )
        }
        if forced:
            keywords["required"] = sorted(given.required | forced)
        says_nothing = "additionalProperties" not in keywords and not given.says_open
        if says_nothing and "properties" in keywords and wire.is_closed:
            keywords["additionalProperties"] = no_form()
        if self._openapi and given.is_closed and "additionalProperties" not in wire.keywords:
            del keywords["additionalProperties"]
        return Branch(keywords)

    def _difference_at_level(
        self, given: NormalForm, wire: NormalForm, above: Sequence[NormalForm], given_pointer: str
    ) -> SchemaDifference | None:
        accepted, sent = Acceptance(given, above), Acceptance(wire, above)
        random = Random(_SEED)  # noqa: S311 - nothing secret
        constructed = islice(chain(candidates(given, above), candidates(wire, above)), _CONSTRUCTED)
        generated = (random_instance(each, above, random) for _ in range(_GENERATED) for each in (given, wire))
        for value in chain(constructed, generated):
            one = accepted(value)
            if one != sent(value):
                keyword = _keyword(given, wire, value)
                return SchemaDifference(value, one, wire.pointer, given_pointer, keyword)
        return None

    def _widen(
        self,
        found: SchemaDifference,
        step: _InnerPair,
        of: tuple[str, Branch],
        given: tuple[NormalForm, Sequence[NormalForm]],
        wire: tuple[NormalForm, Sequence[NormalForm]],
    ) -> SchemaDifference:
        """Extend an inner difference to the whole value if an instance can be built around it; otherwise return it
        unchanged."""
        if found.inside != step.inside:
            return found
        whole = step.around(of_case(*of, (*wire[1], wire[0])), found.instance)
        verdicts = Acceptance(*given)(whole), Acceptance(*wire)(whole)
        if verdicts != (found.given_accepts, not found.given_accepts):
            return found
        return replace(found, instance=whole, inside="")


@dataclass(frozen=True, slots=True)
class _InnerPair:
    """A pair of nested normal forms. `key` is a property name, an item index, or `None` for additional properties."""

    given: NormalForm
    wire: NormalForm
    key: str | int | None
    optional: bool = False

    @property
    def inside(self) -> str:
        return join("", "another" if self.key is None else self.key)

    def around(self, base: JSON, value: JSON) -> JSON:
        """Return `base` with `value` inserted at `key`."""
        if isinstance(self.key, int):
            items = as_list(base)
            return [*items[: self.key], value, *items[self.key + 1 :]]
        return {**as_object(base), "another" if self.key is None else self.key: value}


def _steps(
    kind: str, given: Branch, wire: Branch, pointers: tuple[str, str], forced: frozenset[str]
) -> Iterator[_InnerPair]:
    one, other = given.form("additionalProperties"), wire.form("additionalProperties")
    places = [join(pointer, "additionalProperties") for pointer in pointers]
    if kind == "object" and "patternProperties" not in {**given.keywords, **wire.keywords}:
        for name in (*given.properties, *(name for name in wire.properties if name not in given.properties)):
            at = [join(pointer, "properties", name) for pointer in pointers]
            here = given.properties.get(name) or replace(one or any_form(), pointer=at[0])
            there = wire.properties.get(name) or replace(other or any_form(), pointer=at[1])
            yield _InnerPair(_set_pointer(here, at[0]), _set_pointer(there, at[1]), name, name in forced)
    if kind == "object" and one is not None and other is not None:
        yield _InnerPair(_set_pointer(one, places[0]), _set_pointer(other, places[1]), None)
    if kind == "array":
        tuples = given.keywords.get("prefixItems", ()), wire.keywords.get("prefixItems", ())
        if len(tuples[0]) == len(tuples[1]):
            for at, (here, there) in enumerate(zip(*tuples, strict=True)):
                yield _InnerPair(here, there, at)
            if "items" in {**given.keywords, **wire.keywords}:
                at = [join(pointer, "items") for pointer in pointers]
                here, there = given.form("items") or any_form(), wire.form("items") or any_form()
                yield _InnerPair(_set_pointer(here, at[0]), _set_pointer(there, at[1]), len(tuples[0]))


def _set_pointer(form: NormalForm, pointer: str) -> NormalForm:
    """Set the pointer of a form that has none (those of the schemas `true` and `false`)."""
    return form if form.pointer or form.cycle is not None else replace(form, pointer=pointer)


def _pairs(given: NormalForm, wire: NormalForm) -> Iterator[tuple[str, Branch, Branch]]:
    """Yield the pairs of branches to compare: the only branch of a type on each side, or objects with the same
    properties."""
    for kind in ("array", "object"):
        one, other = given.only(kind), wire.only(kind)
        if one is not None and other is not None:
            yield kind, one, other
        elif kind == "object":
            others = {_names(case): case for case in wire.kinds.get(kind, ())}
            for case in given.kinds.get(kind, ()):
                if _names(case) in others:
                    yield kind, case, others[_names(case)]


def _names(case: Branch) -> tuple[str, ...]:
    marks = (
        f"{name}={form.key}"
        for name, form in case.properties.items()
        if (text := form.only("string")) is not None and "enum" in text.keywords and len(form.kinds) == 1
    )
    return (*sorted(case.properties), *sorted(marks))


def _with_nested_of(given: NormalForm, wire: NormalForm) -> NormalForm:
    """Return `given` with its nested schemas replaced by those of `wire`.

    The nested schemas are compared separately, so only this level's differences remain.
    """
    cases: dict[str, list[Branch]] = {kind: [*own] for kind, own in given.kinds.items()}
    for kind, one, other in _pairs(given, wire):
        at = next(index for index, case in enumerate(cases[kind]) if case is one)
        cases[kind][at] = Branch(_with_inner(one.keywords, other.keywords))
    kinds = {kind: tuple(sorted(own, key=lambda case: case.key)) for kind, own in cases.items()}
    return NormalForm(kinds, given.pointer)


def _with_inner(given: Mapping[str, Any], wire: Mapping[str, Any]) -> dict[str, Any]:
    keywords = dict(given)
    if "patternProperties" not in {**given, **wire}:
        keywords |= {"properties": wire.get("properties", {})}
    if "additionalProperties" in given and "additionalProperties" in wire:
        keywords["additionalProperties"] = wire["additionalProperties"]
    if len(given.get("prefixItems", ())) == len(wire.get("prefixItems", ())):
        keywords = {name: value for name, value in keywords.items() if name not in _ITEMS}
        keywords |= {name: wire[name] for name in _ITEMS if name in wire}
    return keywords


def _keyword(given: NormalForm, wire: NormalForm, value: JSON) -> str:
    kind = next(kind for kind in KINDS if Acceptance(NormalForm({kind: (Branch({}),)}))(value))
    one, other = given.kinds.get(kind, ()), wire.kinds.get(kind, ())
    if len(one) == len(other) == 1:
        values = one[0].comparable, other[0].comparable
        differing = sorted(name for name in {**values[0], **values[1]} if values[0].get(name) != values[1].get(name))
        if differing:
            return "type" if differing[0] == "integer" else differing[0]
    return "enum" if any("enum" in case.keywords for case in (*one, *other)) else "type"


def change(
    given: JSON, wire: JSON, dialect: Dialect = "json-schema", given_dialect: Dialect = "json-schema"
) -> SchemaChange | None:
    """Return the first change that no documented rewrite explains, or `None`.

    Schemas with different normal forms count as changed only if the bounded search finds an instance that one of them
    accepts and the other does not. Invalid schemas are compared as JSON.
    """
    if equal(given, wire):
        return None
    if isinstance(given, dict) and _has_no_parameters(given):
        if wire is None:
            return None
        given = {"type": "object", "properties": {}, **given}  # equivalent long form
    try:
        return _cached_change(json.dumps(given), json.dumps(wire), dialect, given_dialect)
    except RecursionError:
        return SchemaChange("", wire, given)


def version_difference(
    one: JSON, other: JSON, dialect: Dialect = "json-schema", other_dialect: Dialect = "json-schema"
) -> SchemaChange | None:
    """Return the first difference between two requests' versions of one schema, or `None`.

    Changes that an API requires are ignored in either direction. `other` must keep the wording of `one`.
    """
    found = change(one, other, other_dialect, dialect)
    if found is None or found.accepted_by is None or change(other, one, dialect, other_dialect) is not None:
        return found
    return find_wording_change(*_documents(json.dumps(one), json.dumps(other), other_dialect, dialect))


def accepts(schema: JSON, value: JSON) -> bool:
    """Return whether a schema accepts a value, read as JSON Schema or else as OpenAPI. `False` if the schema is
    invalid."""
    text = json.dumps(schema)
    for dialect in _DIALECTS:
        try:
            form = read_form(SchemaDocument(json.loads(text), dialect, nullable='"nullable"' in text))
        except (UnreadableError, RecursionError):
            continue
        return Acceptance(form)(value)
    return False


_DIALECTS: tuple[Dialect, ...] = ("json-schema", "openapi")


@lru_cache(maxsize=1024)  # a conversation sends the same tools with every request
def _cached_change(given_text: str, wire_text: str, dialect: Dialect, given_dialect: Dialect) -> SchemaChange | None:
    given, wire = json.loads(given_text), json.loads(wire_text)
    try:
        documents = _documents(given_text, wire_text, dialect, given_dialect)
        one, other = read_form(documents[0]), read_form(documents[1])
        parting = SchemaComparison(openapi=dialect == "openapi").first(one, other)
        return find_wording_change(*documents) if parting is None else _change_of(parting, given, wire)
    except UnreadableError:
        return SchemaChange("", wire, given)


def _documents(
    given_text: str, wire_text: str, dialect: Dialect, given_dialect: Dialect
) -> tuple[SchemaDocument, SchemaDocument]:
    nullable = '"nullable"' in given_text  # an author who writes OpenAPI means the keyword
    return (
        SchemaDocument(json.loads(given_text), given_dialect, nullable=nullable),
        SchemaDocument(json.loads(wire_text), dialect, nullable=nullable),
    )


def _change_of(parting: SchemaDifference, given: JSON, wire: JSON) -> SchemaChange:
    actual, expected, pointer = resolve(wire, parting.pointer), resolve(given, parting.given_pointer), parting.pointer
    if isinstance(actual, dict) and isinstance(expected, dict):
        for name in (parting.keyword, *_RELATED_KEYWORDS.get(parting.keyword, ())):
            says_it = all(name in node or not _COMBINED & node.keys() for node in (actual, expected))
            if says_it and not equal(actual.get(name), expected.get(name)):
                actual, expected, pointer = actual.get(name), expected.get(name), join(pointer, name)
                break
    return SchemaChange(
        pointer, actual, expected, parting.instance, "given" if parting.given_accepts else "wire", parting.inside
    )


_COMBINED = frozenset({"$ref", "allOf", "anyOf", "oneOf"})
"""Keywords that combine schemas. A keyword that is missing next to one of them may still apply through it."""

_RELATED_KEYWORDS = {
    "type": ("nullable", "anyOf", "oneOf", "enum", "const", "$ref"),
    "enum": ("const", "anyOf", "type", "nullable"),
    "minimum": ("exclusiveMinimum",),
    "maximum": ("exclusiveMaximum",),
}
"""Related keywords to look at if a keyword itself does not show the difference."""


def _has_no_parameters(schema: dict[str, JSON]) -> bool:
    return (
        schema.keys() <= {"type", "properties", "required", "additionalProperties"}
        and schema.get("type", "object") == "object"
        and not schema.get("properties")
        and schema.get("additionalProperties", False) is False
    )
