"""JSON Schema (draft 2020-12), safe for untrusted schemas. The only module that imports `jsonschema`.

References are resolved inside the schema only; nothing is fetched or opened. Patterns and references have limits. A
`$schema` inside a schema does not change the draft.

Importing `jsonschema` is slow and most runs do not need it. The imports are therefore inside functions, and simple
schemas are checked without them.

Regular expressions are untrusted as well, so they are matched within limits on time and memory. Most are matched in
linear time by pydantic's engine, Rust's `regex`. It has no lookaround and no backreferences. Patterns that need them
are matched by Python's `re`, if the number of steps is small enough.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from threading import local
from typing import Any, NamedTuple, TypeAlias, cast

from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema

from harness.model.messages import JSON

_parser: Any = importlib.import_module("re._parser")  # the standard library's own, which has no public name

_MAX_STEPS = 10**7
"""Limit on the steps of `re`, which take a fraction of a second."""

_FLAGS = re.compile(r"\(\?([aimsux]+)\)")

_MAX_SMALL_REPEAT = 10
"""Largest repetition count that is treated as fixed-length text."""


class CostlyPattern(Exception):
    """A pattern that cannot be matched against this text within the limits."""


def search(pattern: str, text: str) -> bool:
    """Return whether a pattern matches anywhere in a text.

    Raises:
        CostlyPattern: the limits do not allow a decision.
        re.error, OverflowError, RecursionError: the pattern is not a regular expression.
    """
    validator = _linear(pattern)
    if validator is not None:
        try:
            validator.validate_python(text.encode("utf-8", "replace").decode())  # no lone surrogates
        except ValidationError:
            return False
        return True
    expression, power = _backtracking(pattern)
    if power is None or (len(text) + 1) ** power > _MAX_STEPS:
        raise CostlyPattern(f"the pattern {_shorten(pattern)} may take too long on a text of {len(text)} characters")
    return expression.search(text) is not None


def covers(pattern: str, text: str) -> bool:
    """Return whether a pattern matches the whole text; `.` also matches line breaks. A pattern that is too costly never
    matches.
    """
    flags = _FLAGS.match(pattern)  # Python accepts flags only at the beginning
    letters, rest = (flags[1], pattern[flags.end() :]) if flags else ("", pattern)
    try:
        return search(f"(?s{letters.replace('s', '')})^(?:{rest})$", text)
    except CostlyPattern:
        return False


@lru_cache(maxsize=512)
def _linear(pattern: str) -> SchemaValidator | None:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        return None


@lru_cache(maxsize=512)
def _backtracking(pattern: str) -> tuple[re.Pattern[str], int | None]:
    """Return the compiled pattern and the exponent k for which len(text)**k bounds its steps; `None` if unbounded."""
    expression, tree = re.compile(pattern), _parser.parse(pattern)
    elements = [*tree]
    anchored = bool(elements) and str(elements[0][1]) == "AT_BEGINNING" and not expression.flags & re.MULTILINE
    rest = elements[1:] if anchored else elements
    parts: list[list[int]] = []
    while rest and str(rest[0][0]).startswith("ASSERT"):  # lookaheads at the start are matched one after the other
        parts.append([*_repeats(rest[0], 0)])
        rest = rest[1:]
    parts.append([*_repeats(rest, 0)])
    if any(depth for part in parts for depth in part):
        return expression, None
    return expression, max(map(len, parts)) + (not anchored)


def _repeats(node: Any, depth: int) -> Iterator[int]:
    """Yield the nesting depth of each repeat.

    An alternation inside a repeat is treated as one more repeat, because its branches may overlap and cause
    backtracking. So is a back-reference.
    """
    if isinstance(node, tuple):
        parts = cast("tuple[Any, ...]", node)
        kind = str(parts[0])
        if kind.endswith("_REPEAT"):
            if int(parts[1][1]) > _MAX_SMALL_REPEAT or depth:
                yield depth
            yield from _repeats(parts[1][2], depth + 1)
            return
        if kind.startswith("GROUPREF") or (kind == "BRANCH" and depth):
            yield depth + 1
        node = [*parts]
    if isinstance(node, _parser.SubPattern | list):
        for each in cast("list[Any]", node):
            yield from _repeats(each, depth)


def _shorten(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 60 else f"{pattern[:60]}…")


_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"})
"""Keywords whose value maps names to schemas."""
_DATA = frozenset({"const", "enum", "default", "examples"})
"""Keywords whose value is plain data, even if it looks like a schema."""

_BAD_PATTERN = (CostlyPattern, re.error, OverflowError)
_LITERAL = re.compile(r"\^?[\w-]*(?:\.[*+])?\$?")
"""Patterns that every engine matches quickly."""

_MAX_REFERENCES = 10_000
"""Limit on references followed per value. Without it, chains of schemas that each refer to the next one twice grow
exponentially.
"""

Path: TypeAlias = tuple[str | int, ...]


class UndecidedSchema(Exception):
    """The schema exceeds the limits, so values cannot be checked against it."""


def schema_error(schema: Any, *, formats: bool = False) -> tuple[Path, str] | None:
    """Return the path and reason why a value is not a valid JSON Schema, or `None`. References are not checked.

    With `formats`, its patterns are checked as well.
    """
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - slow
    from jsonschema.exceptions import SchemaError  # noqa: PLC0415 - slow

    checker = Draft202012Validator.FORMAT_CHECKER if formats else None
    try:
        Draft202012Validator.check_schema(schema, **({"format_checker": checker} if checker else {}))
    except SchemaError as error:
        return tuple(error.absolute_path), error.message
    return None


def lost_reference(schema: dict[str, JSON]) -> tuple[Path, str] | None:
    """Return the path and text of the first reference that does not resolve within the schema, or `None`."""
    from referencing import Registry  # noqa: PLC0415 - slow
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - slow
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415 - slow

    root: Any = _in_one_draft(schema)
    start: Any = Registry[Any]().resolver_with_root(DRAFT202012.create_resource(root))
    left: list[tuple[Any, Path, bool, Any]] = [(root, (), False, start)]
    while left:
        node, at, is_named, resolver = left.pop()
        if isinstance(node, list):
            left += [(each, (*at, index), False, resolver) for index, each in _numbered_values(node)]
        if not isinstance(node, dict):
            continue
        entries: dict[str, Any] = {**node}
        if not is_named:
            try:
                resolver = resolver.in_subresource(DRAFT202012.create_resource(entries)) if at else resolver
                lost = _lost_keyword(entries, resolver)
            except (Unresolvable, ValueError, TypeError, AttributeError):
                lost = next(each for each in (*_REFERENCES, "$id") if each in entries)
            if lost is not None:
                return (*at, lost), str(entries[lost])
        left += [
            (value, (*at, key), not is_named and key in _NAMED, resolver)
            for key, value in entries.items()
            if is_named or key not in _DATA
        ]
    return None


def _lost_keyword(entries: Mapping[str, Any], resolver: Any) -> str | None:
    """Return the first reference keyword whose target is not a schema. The resolver raises if there is no target."""
    for keyword in _REFERENCES:
        reference = entries.get(keyword)
        if isinstance(reference, str) and not isinstance(resolver.lookup(reference).contents, dict | bool):
            return keyword
    return None


def _numbered_values(values: Any) -> Iterator[tuple[int, Any]]:
    return enumerate(cast("list[Any]", values))


class SchemaFailure(NamedTuple):
    """A failed validation: the keyword, its schema, and the path of the value."""

    path: Path
    keyword: str
    schema: dict[str, Any]
    value: Any


class Validator:
    """Checks values against one schema.

    Each method raises `UndecidedSchema` if a reference is circular or points outside the schema, or if a pattern may
    take too long.
    """

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._made: Any = None

    def errors(self, value: JSON) -> Iterator[tuple[Path, str]]:
        """Yield the path and the reason of each validation failure."""
        for error in self._errors(value):
            yield tuple(error.absolute_path), error.message

    def failures(self, value: JSON) -> Iterator[SchemaFailure]:
        """Yield each validation failure."""
        for error in self._errors(value):
            yield SchemaFailure(tuple(error.absolute_path), error.validator, error.schema, error.instance)

    def _errors(self, value: JSON) -> Iterator[Any]:
        from referencing.exceptions import Unresolvable  # noqa: PLC0415 - slow

        try:
            _followed.count = 0
            yield from self._validator.iter_errors(value)
        except (*_BAD_PATTERN, RecursionError, Unresolvable, ValueError) as error:
            raise UndecidedSchema(str(error)) from None

    def is_valid(self, value: JSON) -> bool:
        """Return whether a value conforms."""
        return next(self.errors(value), None) is None

    @property
    def _validator(self) -> Any:
        if self._made is None:
            from referencing import Registry  # noqa: PLC0415 - slow

            schema = _in_one_draft(self._schema)
            _check_unevaluated(schema)
            # The default registry would fetch references from the network.
            self._made = _bounded_validator()(schema, registry=Registry[Any]())
        return self._made


def _in_one_draft(node: Any, *, named: bool = False) -> Any:
    """Remove `$schema` from a schema, because it would make jsonschema apply the rules of another draft."""
    if isinstance(node, list):
        return [_in_one_draft(each) for _, each in _numbered_values(node)]
    if not isinstance(node, dict):
        return node
    entries: dict[str, Any] = {**node}
    return {
        key: value if not named and key in _DATA else _in_one_draft(value, named=not named and key in _NAMED)
        for key, value in entries.items()
        if named or key != "$schema"
    }


class _Followed(local):
    """Number of references that the current thread has followed for a value."""

    count = 0


_followed = _Followed()


@cache
def _bounded_validator() -> Any:  # noqa: C901 - keywords share the lazy imports
    """Return jsonschema's validator class with limited versions of the reference and pattern keywords."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - slow
    from jsonschema.exceptions import ValidationError  # noqa: PLC0415 - slow

    known: Any = Draft202012Validator.VALIDATORS

    def reference(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
        _followed.count += 1
        if _followed.count > _MAX_REFERENCES:
            raise CostlyPattern(f"more than {_MAX_REFERENCES} references are followed for one value")
        yield from known["$ref"](validator, wanted, instance, schema) or ()

    def pattern(_: Any, wanted: str, instance: Any, __: Any) -> Iterator[Any]:
        if isinstance(instance, str) and not search(wanted, instance):
            yield ValidationError(f"{instance!r} does not match {wanted!r}")

    def pattern_properties(validator: Any, wanted: Any, instance: Any, _: Any) -> Iterator[Any]:
        for each, inner in wanted.items():
            for name, value in _entries(instance):
                if search(each, name):
                    yield from validator.descend(value, inner, path=name, schema_path=each)

    def additional_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
        patterns = schema.get("patternProperties")
        if not patterns:
            yield from known["additionalProperties"](validator, wanted, instance, schema) or ()
            return
        declared = schema.get("properties", {})
        others = {
            name: value
            for name, value in _entries(instance)
            if name not in declared and not any(search(each, name) for each in patterns)
        }
        if isinstance(wanted, dict):
            for name, value in others.items():
                yield from validator.descend(value, wanted, path=name)
        elif not wanted and others:
            names = ", ".join(sorted(map(repr, others)))
            yield ValidationError(f"Additional properties are not allowed, and no pattern matches {names}")

    keywords = {
        "$ref": reference,
        "pattern": pattern,
        "patternProperties": pattern_properties,
        "additionalProperties": additional_properties,
    }
    validators: Any = importlib.import_module("jsonschema.validators")  # its types are partial
    return validators.extend(Draft202012Validator, keywords)


def _entries(instance: Any) -> list[tuple[str, Any]]:
    return [*cast("dict[str, Any]", instance).items()] if isinstance(instance, dict) else []


def _check_unevaluated(schema: Any) -> None:
    """Reject slow patterns next to `unevaluatedProperties`, because jsonschema matches these with `re`. Raises
    `CostlyPattern`.
    """
    nodes = [*_objects(schema)]
    patterns = [
        each for node in nodes if isinstance(node.get("patternProperties"), dict) for each in node["patternProperties"]
    ]
    costly = next((each for each in patterns if not _LITERAL.fullmatch(each)), None)
    if costly is not None and any("unevaluatedProperties" in node for node in nodes):
        raise CostlyPattern(f"unevaluatedProperties together with the pattern {costly!r} is not supported")


def _objects(node: Any) -> Iterator[dict[str, Any]]:
    """Yield all JSON objects within a value."""
    if isinstance(node, list):
        for _, each in _numbered_values(node):
            yield from _objects(each)
    elif isinstance(node, dict):
        entries: dict[str, Any] = {**node}
        yield entries
        for each in entries.values():
            yield from _objects(each)


_TYPE_NAMES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})


def is_simple(schema: JSON) -> bool:
    """Return whether a value is a valid schema (draft 2020-12) of a simple form. Other schemas need `schema_error`."""
    return isinstance(schema, dict) and all(_is_simple_keyword(key, value) for key, value in schema.items())


def _is_simple_keyword(keyword: str, value: JSON) -> bool:
    check = _SIMPLE_KEYWORDS.get(keyword)
    return check is not None and check(value)


def _is_type(value: JSON) -> bool:
    names: list[JSON] = value if isinstance(value, list) else [value]
    return bool(names) and _are_distinct_strings(names) and _TYPE_NAMES.issuperset(map(str, names))


def _are_distinct_strings(value: JSON) -> bool:
    if not isinstance(value, list):
        return False
    return all(isinstance(each, str) for each in value) and len(set(map(str, value))) == len(value)


def _are_simple(value: JSON) -> bool:
    return isinstance(value, list) and bool(value) and all(map(is_simple, value))


def _is_number(value: JSON) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: JSON) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value: JSON) -> bool:
    return isinstance(value, str)


_SIMPLE_KEYWORDS: dict[str, Callable[[JSON], bool]] = {
    "type": _is_type,
    **dict.fromkeys(("description", "title"), _is_text),
    "properties": lambda value: isinstance(value, dict) and all(map(is_simple, value.values())),
    "items": is_simple,
    "required": _are_distinct_strings,
    "enum": lambda value: isinstance(value, list),
    "additionalProperties": lambda value: isinstance(value, bool) or is_simple(value),
    **dict.fromkeys(("anyOf", "oneOf", "allOf"), _are_simple),
    **dict.fromkeys(("minimum", "maximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_count),
    **dict.fromkeys(("const", "default"), lambda _: True),
}
"""Keywords of simple schemas, with the check of their values."""


def misfits(schema: dict[str, JSON], value: JSON) -> Iterator[tuple[Path, str]]:
    """Yield the path and the reason of each violation of a JSON Schema."""
    if _surely_conforms(schema, value):
        return
    try:
        yield from Validator(schema).errors(value)
    except UndecidedSchema as error:
        yield (), f"the schema cannot be applied: {error}"


def _surely_conforms(schema: JSON, value: JSON) -> bool:
    """Return `True` if a value certainly conforms to a simple schema. `False` means undecided."""
    return isinstance(schema, dict) and all(_surely_follows(keyword, schema, value) for keyword in schema)


def _surely_follows(keyword: str, schema: dict[str, JSON], value: JSON) -> bool:
    wanted = schema[keyword]
    match keyword, wanted, value:
        case "description" | "title", _, _:
            return True
        case "type", str(), _:
            return any(wanted == name and type(value) is kind for name, kind in _SURE_TYPES)
        case "properties", dict(), dict():
            return all(_surely_conforms(inner, value[name]) for name, inner in wanted.items() if name in value)
        case "required", list(), dict():
            return all(name in value for name in wanted)
        case "additionalProperties", bool(), dict():
            declared = schema.get("properties", {})
            return wanted or (isinstance(declared, dict) and value.keys() <= declared.keys())
        case "maxProperties", int(), dict():
            return len(value) <= wanted
        case "items", dict(), list():
            return all(_surely_conforms(wanted, each) for each in value)
        case "enum", list(), str():
            return value in wanted
        case _:
            return False


_SURE_TYPES = (
    ("object", dict),
    ("string", str),
    ("array", list),
    ("boolean", bool),
    ("null", type(None)),
    ("integer", int),
    ("number", int),
    ("number", float),
)
"""Pairs of JSON type and Python type that always match.

Floats are not paired with `integer`, because only some of them (1.0) are integers.
"""
