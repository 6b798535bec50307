"""JSON Schema (draft 2020-12) without what a stranger's schema could do with it: the only door to `jsonschema`.

References lead to places inside the schema; nothing is fetched or opened. Patterns are matched within bounds. `$schema`
inside a schema does not change the draft.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple, TypeAlias, cast

from harness.contract.model import JSON
from harness.scenarios.patterns import CostlyPattern

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"})
"""Keywords whose value is an object of schemas."""
_DATA = frozenset({"const", "enum", "default", "examples"})
"""Keywords whose value is data, whatever it looks like."""

_BAD_PATTERN = (CostlyPattern, re.error, OverflowError)
_LITERAL = re.compile(r"\^?[\w-]*(?:\.[*+])?\$?")
"""Patterns that are quick whatever matches them."""

Path: TypeAlias = tuple[str | int, ...]


class UndecidedSchema(Exception):
    """A schema of which it cannot be told whether a value conforms to it."""


def schema_error(schema: Any, *, formats: bool = False) -> tuple[Path, str] | None:
    """Where and why something is not a JSON Schema; its references are not looked at.

    With `formats`, its patterns are read as well.
    """
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - it takes long to import, and few runs need it
    from jsonschema.exceptions import SchemaError  # noqa: PLC0415 - the same

    checker = Draft202012Validator.FORMAT_CHECKER if formats else None
    try:
        Draft202012Validator.check_schema(schema, **({"format_checker": checker} if checker else {}))
    except SchemaError as error:
        return tuple(error.absolute_path), error.message
    return None


def lost_reference(schema: dict[str, JSON]) -> tuple[Path, str] | None:
    """The first reference that leads to no schema inside this one, and its place."""
    from referencing import Registry  # noqa: PLC0415 - it takes long to import, and few schemas have references
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - the same
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415 - the same

    root: Any = _in_one_draft(schema)
    start: Any = Registry[Any]().resolver_with_root(DRAFT202012.create_resource(root))
    left: list[tuple[Any, Path, bool, Any]] = [(root, (), False, start)]
    while left:
        node, at, is_named, resolver = left.pop()
        if isinstance(node, list):
            left += [(each, (*at, index), False, resolver) for index, each in _listed(node)]
        if not isinstance(node, dict):
            continue
        entries: dict[str, Any] = {**node}
        if not is_named:
            inner = resolver
            try:
                inner = resolver.in_subresource(DRAFT202012.create_resource(entries)) if at else resolver
                for keyword in _REFERENCES:
                    if isinstance(entries.get(keyword), str):
                        found = inner.lookup(entries[keyword]).contents
                        if not isinstance(found, dict | bool):
                            return (*at, keyword), str(entries[keyword])
            except (Unresolvable, ValueError, TypeError, AttributeError):
                return next(((*at, each), str(entries[each])) for each in (*_REFERENCES, "$id") if each in entries)
            resolver = inner
        left += [
            (value, (*at, key), not is_named and key in _NAMED, resolver)
            for key, value in entries.items()
            if is_named or key not in _DATA
        ]
    return None


def _listed(values: Any) -> Iterator[tuple[int, Any]]:
    return enumerate(cast("list[Any]", values))


class Failure(NamedTuple):
    """A keyword that a value does not conform to, the schema that has it, and the place of the value."""

    path: Path
    keyword: str
    schema: dict[str, Any]
    value: Any


class Validator:
    """Checks values against one schema.

    Raises:
        UndecidedSchema: in either method: a reference leads out of the schema, it goes round in a circle, or a pattern
            may take too long.
    """

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._made: Any = None

    def errors(self, value: JSON) -> Iterator[tuple[Path, str]]:
        """Where and why a value does not conform."""
        for error in self._errors(value):
            yield tuple(error.absolute_path), error.message

    def failures(self, value: JSON) -> Iterator[Failure]:
        """The keywords that a value does not conform to."""
        for error in self._errors(value):
            yield Failure(tuple(error.absolute_path), error.validator, error.schema, error.instance)

    def _errors(self, value: JSON) -> Iterator[Any]:
        from referencing.exceptions import Unresolvable  # noqa: PLC0415 - it takes long to import

        from harness.scenarios import keywords  # noqa: PLC0415 - the same

        try:
            keywords.followed.count = 0
            yield from self._validator.iter_errors(value)
        except (*_BAD_PATTERN, RecursionError, Unresolvable, ValueError) as error:
            raise UndecidedSchema(str(error)) from None

    def is_valid(self, value: JSON) -> bool:
        """Return whether a value conforms."""
        return next(self.errors(value), None) is None

    @property
    def _validator(self) -> Any:
        if self._made is None:
            from referencing import Registry  # noqa: PLC0415 - it takes long to import

            schema = _in_one_draft(self._schema)
            _check_unevaluated(schema)
            # The default registry would fetch what a reference names.
            self._made = _bounded()(schema, registry=Registry[Any]())
        return self._made


def _in_one_draft(node: Any, *, named: bool = False) -> Any:
    """A schema without `$schema`, by which jsonschema would change to another draft's rules within it."""
    if isinstance(node, list):
        return [_in_one_draft(each) for _, each in _listed(node)]
    if not isinstance(node, dict):
        return node
    entries: dict[str, Any] = {**node}
    return {
        key: value if not named and key in _DATA else _in_one_draft(value, named=not named and key in _NAMED)
        for key, value in entries.items()
        if named or key != "$schema"
    }


@cache
def _bounded() -> Any:
    """The class of jsonschema with keywords of its own for references and for all that matches patterns."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - it takes long to import, and few runs need it

    from harness.scenarios import keywords  # noqa: PLC0415 - the same

    validators: Any = importlib.import_module("jsonschema.validators")  # its types are partial
    return validators.extend(Draft202012Validator, keywords.KEYWORDS)


def _check_unevaluated(schema: Any) -> None:
    """What jsonschema does for `unevaluatedProperties` matches patterns with `re`. Raises `CostlyPattern`."""
    nodes = [*_objects(schema)]
    patterns = [
        each for node in nodes if isinstance(node.get("patternProperties"), dict) for each in node["patternProperties"]
    ]
    costly = next((each for each in patterns if not _LITERAL.fullmatch(each)), None)
    if costly is not None and any("unevaluatedProperties" in node for node in nodes):
        raise CostlyPattern(f"unevaluatedProperties together with the pattern {costly!r} is not supported")


def _objects(node: Any) -> Iterator[dict[str, Any]]:
    """All JSON objects within a value."""
    if isinstance(node, list):
        for _, each in _listed(node):
            yield from _objects(each)
    elif isinstance(node, dict):
        entries: dict[str, Any] = {**node}
        yield entries
        for each in entries.values():
            yield from _objects(each)
