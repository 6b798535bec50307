"""Finds differences between two values: neutral views of requests, canonical responses, or JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeAlias, cast

from harness.apis.jsonvalue import equal, join
from harness.apis.view import FormatView, ToolView
from harness.equivalence.schema_changes import version_difference
from harness.equivalence.schema_documents import SchemaChange
from harness.model.messages import JSON

Path: TypeAlias = tuple[str | int, ...]
"""Fields, keys and indices that lead from the root to a value."""


@dataclass(frozen=True, slots=True)
class ViewDifference:
    """A difference between two values.

    `pointer` is the location in the second body. `schema` is set if a schema changed. If two tuples have different
    `lengths`, `one` and `other` are the items beyond the shorter one.
    """

    path: Path
    one: Any
    other: Any
    pointer: str = ""
    schema: SchemaChange | None = None
    lengths: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class DiffPolicy:
    """Rules for which differences count.

    JSON is compared item by item down to `depth` levels; deeper values are compared as a whole. `allows` returns true
    for differences to ignore.
    """

    depth: float = 0
    allows: Callable[[Path, JSON, JSON], bool] = lambda _path, _one, _other: False


VIEWS = DiffPolicy()
"""Default policy: compares schemas by meaning and other JSON values as a whole."""

WHOLE_JSON = DiffPolicy(depth=float("inf"))


def alike(one: object, other: object) -> bool:
    """Return whether two views are equal, ignoring their positions in the body."""
    return next(diff(one, other), None) is None


def diff(
    one: Any, other: Any, policy: DiffPolicy = VIEWS, path: Path = (), pointer: str = ""
) -> Iterator[ViewDifference]:
    """Yield the differences between two values, in field and key order.

    Pointers are not compared. `path` and `pointer` are the location of `one` and `other`.
    """
    here = getattr(other, "pointer", pointer)
    if _is_view(one) and type(one) is type(other):
        yield from _in_views(one, other, policy, path, here)
    elif isinstance(one, tuple) and isinstance(other, tuple):
        yield from _in_tuples(cast("tuple[Any, ...]", one), cast("tuple[Any, ...]", other), policy, path, pointer)
    elif isinstance(one, dict) and isinstance(other, dict) and (policy.depth or _has_views(one, other)):
        yield from _in_mappings(cast("dict[str, Any]", one), cast("dict[str, Any]", other), policy, path, pointer)
    elif (
        policy.depth
        and isinstance(one, list)
        and isinstance(other, list)
        and len(cast("list[Any]", one)) == len(cast("list[Any]", other))
    ):
        inner = replace(policy, depth=policy.depth - 1)
        for at, (left, right) in enumerate(zip(cast("list[Any]", one), cast("list[Any]", other), strict=True)):
            yield from diff(left, right, inner, (*path, at), pointer)
    elif not equal(plain(one), plain(other)) and not policy.allows(path, plain(one), plain(other)):
        yield ViewDifference(path, one, other, here)


def _in_views(one: Any, other: Any, policy: DiffPolicy, path: Path, pointer: str) -> Iterator[ViewDifference]:
    if isinstance(one, ToolView | FormatView):
        changed, other = _schema(one, other, path)
        yield from changed
    for name in _field_names(one):
        own = f"{name.removeprefix('call_')}_pointer"  # a result's `call_id` has its place in `id_pointer`
        below = getattr(other, own, None) or pointer
        yield from diff(getattr(one, name), getattr(other, name), policy, (*path, name), below)


def _in_mappings(
    one: dict[str, Any], other: dict[str, Any], policy: DiffPolicy, path: Path, pointer: str
) -> Iterator[ViewDifference]:
    inner = replace(policy, depth=max(0, policy.depth - 1))
    keys = [*one, *(key for key in other if key not in one)]
    for key in keys if policy.depth else sorted(keys):
        if key in one and key in other:
            yield from diff(one[key], other[key], inner, (*path, key), pointer)
        elif not policy.allows((*path, key), one.get(key), other.get(key)):
            place = getattr(other.get(key), "pointer", pointer)
            yield ViewDifference((*path, key), one.get(key), other.get(key), place)


def _in_tuples(
    one: tuple[Any, ...], other: tuple[Any, ...], policy: DiffPolicy, path: Path, pointer: str
) -> Iterator[ViewDifference]:
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        yield from diff(left, right, policy, (*path, at), pointer)
    if len(one) != len(other):
        first = min(len(one), len(other))
        place = getattr(other[first], "pointer", pointer) if len(other) > first else pointer
        yield ViewDifference(path, one[first:], other[first:], place, lengths=(len(one), len(other)))


def _schema(
    one: ToolView | FormatView, other: ToolView | FormatView, path: Path
) -> tuple[list[ViewDifference], ToolView | FormatView]:
    """Return the differences of a schema, and `other` with the schema replaced by that of `one`."""
    if isinstance(one, ToolView) and isinstance(other, ToolView):
        name, pointer = "parameters", other.pointer
        found = version_difference(one.parameters, other.parameters, one.dialect, other.dialect)
        other = replace(other, parameters=one.parameters, dialect=one.dialect)
    elif isinstance(one, FormatView) and isinstance(other, FormatView):
        name, pointer = "schema", other.schema_pointer
        found = version_difference(one.schema, other.schema, one.dialect, other.dialect)
        mechanism = other.mechanism if one.dialect == other.dialect else one.mechanism  # each dialect has its own
        other = replace(other, schema=one.schema, dialect=one.dialect, mechanism=mechanism)
    else:
        return [], other
    changed = [ViewDifference((*path, name), found.expected, found.actual, pointer, found)] if found is not None else []
    return changed, other


def json_pointer(path: Path) -> str:
    """Return a path into JSON as a JSON pointer."""
    return join("", *path)


def plain(value: Any) -> JSON:
    """Convert a view to JSON. Pointers, fields excluded from comparison and `None` values are left out."""
    if _is_view(value):
        return {name: plain(each) for name in _field_names(value) if (each := getattr(value, name)) is not None}
    if isinstance(value, bytes):
        return f"{len(value)} bytes: {value[:16].hex()}"
    if isinstance(value, tuple | list):
        return [plain(each) for each in cast("tuple[Any, ...]", value)]
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in cast("Mapping[Any, Any]", value).items()}
    return value


def _field_names(view: Any) -> list[str]:
    names = [field.name for field in fields(view) if field.compare]
    return [name for name in names if name != "pointer" and not name.endswith("_pointer")]


def _has_views(*mappings: Any) -> bool:
    return any(_is_view(value) for mapping in mappings for value in mapping.values())


def _is_view(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, type)
