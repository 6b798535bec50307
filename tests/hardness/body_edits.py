"""Edits of JSON bodies: each changes all values of one path of one kind of body in the same way, as a bug would.

A path is a JSON pointer with `*` for an index. `*{tool_use}` is an entry of that type or role. In JSON Schemas `**` is
any depth, and in JSON inside a string `~` is the value of that JSON.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

Pointer: TypeAlias = tuple[str | int, ...]
Which: TypeAlias = Literal["each", "first", "last"]

_SCHEMAS = {"input_schema", "parameters", "schema", "parametersJsonSchema", "responseJsonSchema"}
_NAMED = {"properties", "$defs", "definitions", "patternProperties", "dependentSchemas", "dependentRequired"}
_NESTED = {"items", "anyOf", "oneOf", "allOf", "prefixItems", "additionalProperties", "not", "if", "then", "else"}
_DATA = {"args", "response", "~", "arguments"}
_PART_KEYS = ("functionCall", "functionResponse", "inlineData", "fileData", "executableCode", "thought", "text")


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """A change of the values at a path: of each, or only of the first or last one in a body that has several."""

    path: str
    operator: str
    which: Which = "each"

    def __str__(self) -> str:
        return f"{self.operator}{'' if self.which == 'each' else '-' + self.which} {self.path}"


# --- JSON inside strings ---


def unpacked(value: Any) -> Any:
    """Return a copy with `{"~": value, "~text": string}` in place of each string that holds a JSON object or array."""
    if isinstance(value, dict):
        return {key: unpacked(each) for key, each in value.items()}
    if isinstance(value, list):
        return [unpacked(each) for each in value]
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return {"~": json.loads(value), "~text": value}
        except ValueError:
            return value
    return value


def packed(value: Any) -> Any:
    """Return a copy with the strings in place again. One whose JSON is unchanged keeps its spelling."""
    if isinstance(value, dict):
        if "~text" in value:
            inner, text = value["~"], value["~text"]
            return text if json.loads(text) == inner else json.dumps(inner, ensure_ascii=False)
        return {key: packed(each) for key, each in value.items()}
    return [packed(each) for each in value] if isinstance(value, list) else value


# --- paths ---


def paths(document: Any) -> dict[str, list[Pointer]]:
    """Return the pointers of all values of an unpacked document by their paths."""
    found: dict[str, list[Pointer]] = {}
    for path, pointer in _walk(document, "", (), None):
        found.setdefault(path, []).append(pointer)
    return found


def _walk(node: Any, path: str, pointer: Pointer, base: str | None) -> Iterator[tuple[str, Pointer]]:
    """`base` is the path of the innermost schema or free-form value around the node; `#` ends that of a schema."""
    items: Any = ()
    if isinstance(node, dict):
        items = [(key, each) for key, each in node.items() if key != "~text"]
    elif isinstance(node, list):
        items = list(enumerate(node))
    for key, value in items:
        inside = base
        if base is None:
            step = f"*{_label(value)}" if isinstance(key, int) else key
            here = f"{path}/{step}"
            if key in _SCHEMAS and isinstance(value, dict):
                inside = here + "#"
            elif key in _DATA or (key == "input" and isinstance(value, dict)):
                inside = None if path.endswith("*{finish}") else here
        elif base.endswith("#"):
            here, inside = _in_schema(key, path, base, pointer)
        elif key == "~":
            here = path
        else:
            here = f"{base}/*" if path == base else f"{base}/**"
        if key != "~":
            yield here, (*pointer, key)
        yield from _walk(value, here, (*pointer, key), inside)


def _in_schema(key: str | int, path: str, base: str, pointer: Pointer) -> tuple[str, str]:
    root = base[:-1]
    holder = pointer[-1]
    if isinstance(key, int) or holder in _NAMED:
        return f"{path}/*", base
    deep = path != root and (path.endswith("/*") or path.rsplit("/", 1)[-1] in _NESTED)
    return (f"{root}/**/{key}" if deep else f"{path}/{key}"), base


def _label(value: Any) -> str:
    if not isinstance(value, dict):
        return ""
    label = value.get("type") or value.get("role") or next((key for key in _PART_KEYS if key in value), "")
    return f"{{{label}}}" if isinstance(label, str) and label else ""


def at(document: Any, pointer: Pointer) -> Any:
    """Return the value at a pointer.

    Raises:
        LookupError: There is none.
    """
    for step in pointer:
        try:
            document = {}[step] if isinstance(document, str) else document[step]
        except TypeError:
            raise LookupError(step) from None
    return document


# --- operators ---

NOTHING: Any = object()
"""The result of an operator that does not apply."""


def _cut(value: Any) -> Any:
    if isinstance(value, str | list) and len(value) > 1:
        return value[: len(value) // 2]
    if isinstance(value, dict) and len(value) > 1:
        return dict(list(value.items())[: len(value) // 2])
    return NOTHING


def _trim(value: Any) -> Any:
    return value[:-1] if isinstance(value, str | list) and len(value) > 1 else NOTHING


def _behead(value: Any) -> Any:
    return value[len(value) // 2 :] if isinstance(value, str | list) and len(value) > 1 else NOTHING


def _wrapped(value: Any) -> Any:
    return NOTHING if isinstance(value, str | list) else [value]  # `retype` wraps strings


def _empty(value: Any) -> Any:
    return type(value)() if isinstance(value, str | list | dict) and value else NOTHING


def _retyped(value: Any) -> Any:
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case str():
            return int(value) if value.isdecimal() and value.isascii() else [value]
        case list():
            return value[0] if len(value) == 1 else json.dumps(packed(value), ensure_ascii=False)
        case dict():
            return json.dumps(packed(value), ensure_ascii=False)
        case _:
            return "null"


def _other(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case _:
            return NOTHING


def _doubled(value: Any) -> Any:
    return value + value if isinstance(value, str) and value else NOTHING


def _reversed(value: Any) -> Any:
    return value[::-1] if isinstance(value, list) else NOTHING


def _rotated(value: Any) -> Any:
    return [*value[1:], value[0]] if isinstance(value, list) and len(value) > 2 else NOTHING


def _respelled(change: Callable[[str], str]) -> Callable[[Any], Any]:
    return lambda value: change(value) if isinstance(value, str) else NOTHING


VALUES: dict[str, Callable[[Any], Any]] = {
    "cut": _cut,
    "trim": _trim,
    "behead": _behead,
    "empty": _empty,
    "null": lambda _: None,
    "retype": _retyped,
    "wrap": _wrapped,
    "other": _other,
    "double": _doubled,
    "reorder": _reversed,
    "rotate": _rotated,
    "strip": _respelled(str.strip),
    "ascii": _respelled(lambda text: text.encode("ascii", "replace").decode()),
    "normalize": _respelled(lambda text: unicodedata.normalize("NFKC", text)),
    "lower": _respelled(str.lower),
    "escape": _respelled(lambda text: text.replace("&", "&amp;").replace("<", "&lt;").replace("\n", "\\n")),
}
"""Operators that replace a value by another one."""


def _renamed(key: str) -> str:
    return key[:-1] if key.endswith("s") and len(key) > 2 else key + "s"


def _other_case(key: str) -> str:
    """Return the name in camel case if it is in snake case, and the other way round."""
    if "_" in key.strip("_"):
        return re.sub(r"_(\w)", lambda found: found[1].upper(), key)
    return re.sub(r"([A-Z])", lambda found: "_" + found[1].lower(), key)


def _drop(document: Any, pointer: Pointer) -> bool:
    del at(document, pointer[:-1])[pointer[-1]]
    return True


def _duplicate(document: Any, pointer: Pointer) -> bool:
    """Repeat an entry of a list, or a field in the next object around its own."""
    holder, step = at(document, pointer[:-1]), pointer[-1]
    if isinstance(step, int):
        holder.insert(step, holder[step])
        return True
    around = _around(document, pointer)
    if around is None:
        return False
    around[str(step)] = deepcopy(holder[step])
    return True


def _rename(document: Any, pointer: Pointer) -> bool:
    return _name_again(document, pointer, _renamed)


def _change_case(document: Any, pointer: Pointer) -> bool:
    return _name_again(document, pointer, _other_case)


def _name_again(document: Any, pointer: Pointer, name: Callable[[str], str]) -> bool:
    holder, step = at(document, pointer[:-1]), pointer[-1]
    if not isinstance(step, str) or name(step) == step:
        return False
    items = [(name(key) if key == step else key, value) for key, value in holder.items()]
    holder.clear()
    holder.update(items)
    return True


def _around(document: Any, pointer: Pointer) -> dict[str, Any] | None:
    """Return the next object around that of a field, unless it has a field of that name."""
    above = next((n for n in range(len(pointer) - 2, -1, -1) if isinstance(at(document, pointer[:n]), dict)), None)
    if above is None or not isinstance(pointer[-1], str):
        return None
    around = at(document, pointer[:above])
    return None if pointer[-1] in around else around


def _hoist(document: Any, pointer: Pointer) -> bool:
    """Move a field to the next object around its own."""
    around = _around(document, pointer)
    if around is None:
        return False
    around[str(pointer[-1])] = at(document, pointer[:-1]).pop(pointer[-1])
    return True


def _sink(document: Any, pointer: Pointer) -> bool:
    """Move a field into the first object next to it."""
    holder, step = at(document, pointer[:-1]), pointer[-1]
    if not isinstance(holder, dict):
        return False
    into = next((value for key, value in holder.items() if key != step and isinstance(value, dict)), None)
    if into is None or step in into or "~text" in into:
        return False
    into[step] = holder.pop(step)
    return True


def _exchange(document: Any, pointer: Pointer) -> bool:
    """Exchange a field's value with that of the next field of the same type."""
    holder, step = at(document, pointer[:-1]), pointer[-1]
    if not isinstance(holder, dict):
        return False
    names = list(holder)
    after = names[names.index(step) + 1 :] if isinstance(step, str) else []
    other = next((name for name in after if type(holder[name]) is type(holder[step]) and name != "~text"), None)
    if other is None or holder[other] == holder[step]:
        return False
    holder[step], holder[other] = holder[other], holder[step]
    return True


PLACES: dict[str, Callable[[Any, Pointer], bool]] = {
    "drop": _drop,
    "duplicate": _duplicate,
    "rename": _rename,
    "change-case": _change_case,
    "hoist": _hoist,
    "sink": _sink,
    "exchange": _exchange,
}
"""Operators that change the object or array around a value. They return whether they applied."""


def _swap(document: Any, pointers: list[Pointer]) -> bool:
    """Swap the values of two places of the same path: the first two that differ."""
    one = pointers[0]
    other = next((each for each in pointers if at(document, each) != at(document, one)), None)
    if other is None or other[: len(one)] == one:
        return False
    first, second = at(document, one), at(document, other)
    at(document, one[:-1])[one[-1]], at(document, other[:-1])[other[-1]] = second, first
    return True


def _repeat(document: Any, pointers: list[Pointer]) -> bool:
    """Use the first value of a path at all its places."""
    first = json.dumps(at(document, pointers[0]))
    for pointer in pointers[1:]:
        try:
            at(document, pointer)
        except LookupError:  # it was inside an earlier one
            continue
        at(document, pointer[:-1])[pointer[-1]] = json.loads(first)
    return True


def _adopt(document: Any, pointers: list[Pointer]) -> bool:
    """Move the last entry of a list to the end of the list before it: to another message, for example."""
    last = pointers[-1]
    before = next((each for each in reversed(pointers) if each[:-1] != last[:-1]), None)
    if before is None or not isinstance(last[-1], int) or last[: len(before)] == before:
        return False
    entries = at(document, before[:-1])
    if not isinstance(entries, list):
        return False
    entries.append(at(document, last[:-1]).pop(last[-1]))
    return True


def _defer(document: Any, pointers: list[Pointer]) -> bool:
    """Move the first entry of a list to the start of the list after it."""
    first = pointers[0]
    after = next((each for each in pointers if each[:-1] != first[:-1]), None)
    if after is None or not isinstance(first[-1], int) or after[: len(first)] == first:
        return False
    entries = at(document, after[:-1])
    if not isinstance(entries, list):
        return False
    entries.insert(0, at(document, first[:-1]).pop(first[-1]))
    return True


GROUPS: dict[str, Callable[[Any, list[Pointer]], bool]] = {
    "swap": _swap,
    "repeat": _repeat,
    "adopt": _adopt,
    "defer": _defer,
}
"""Operators on all values of a path together."""

OPERATORS = (*VALUES, *PLACES, *GROUPS, "previous")


def edits(path: str, *, several: bool) -> Iterator[Edit]:
    """Yield all edits of a path."""
    for operator in OPERATORS:
        yield Edit(path, operator)
        if several and operator in (*VALUES, "drop", "duplicate", "rename", "change-case", "hoist", "sink", "previous"):
            yield Edit(path, operator, "first")
            yield Edit(path, operator, "last")


def apply(edit: Edit, body: Any, previous: Any = None) -> Any:
    """Return an edited copy of a body, or `NOTHING` if the edit changes nothing.

    `previous` is the body before it in the same conversation, for the operator `previous`.
    """
    text = _text(body)
    pointers = _pointers(text).get(edit.path, [])
    if not pointers or (edit.which != "each" and len(pointers) < 2):
        return NOTHING
    document = unpacked(json.loads(text))
    chosen = {"each": pointers, "first": pointers[:1], "last": pointers[-1:]}[edit.which]
    if edit.operator in GROUPS:
        changed = len(pointers) > 1 and GROUPS[edit.operator](document, chosen)
    elif edit.operator == "previous":
        changed = previous is not None and _taken(document, chosen, previous, edit)
    else:
        changed = _each(document, chosen, edit.operator)
    if not changed:
        return NOTHING
    edited = packed(document)
    return NOTHING if _text(edited) == text else edited


@lru_cache(2000)
def _pointers(text: str) -> dict[str, list[Pointer]]:
    return paths(unpacked(json.loads(text)))


def _text(value: Any) -> str:
    return json.dumps(value)  # so that true is not 1, and the order of fields counts


def _each(document: Any, pointers: list[Pointer], operator: str) -> bool:
    changed = False
    for pointer in reversed(pointers):  # entries that are removed leave those before them in place
        try:
            value = at(document, pointer)
        except LookupError:
            continue
        if operator in PLACES:
            changed |= PLACES[operator](document, pointer)
            continue
        if operator == "reorder" and pointer[-1] == "properties" and isinstance(value, dict):
            new: Any = dict(reversed(value.items()))  # models answer in the order of the schema
        else:
            new = VALUES[operator](packed(value) if isinstance(value, dict) and "~text" in value else value)
        if new is not NOTHING:
            at(document, pointer[:-1])[pointer[-1]] = new
            changed = True
    return changed


def _taken(document: Any, pointers: list[Pointer], previous: Any, edit: Edit) -> bool:
    text = _text(previous)
    earlier = _pointers(text).get(edit.path, [])
    before = unpacked(json.loads(text))
    if edit.which != "each":
        if not earlier:
            return False
        sources = [earlier[0 if edit.which == "first" else -1]]
    else:
        sources = pointers
    changed = False
    for pointer, source in zip(pointers, sources, strict=True):
        try:
            value = at(before, source)
            at(document, pointer[:-1])[pointer[-1]] = value
        except LookupError:
            continue
        changed = True
    return changed
