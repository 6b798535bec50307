"""The words of refusals, moved to another request or filled into templates, and remedies for what facts refuse."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from pydantic import JsonValue

from harness.apis.condition import Condition
from harness.apis.fact import Fact
from harness.apis.jsonvalue import join, resolve
from harness.contract.model import JSON

_PATH = re.compile(r"\b([a-z_]+)((?:\[\d+\]|\.\d+)(?:\.[A-Za-z_]\w*|\[\d+\]|\.\d+)*)")
"""A place as APIs spell it: `messages[4].tool_calls[0].id`, `messages.92.content.0.tool_use.id`."""

_INDEX = re.compile(r"\d+(?=[\].]|$)")
_LENGTH = re.compile(r"(\bgot an? \w+ with length )\d+")


def said_of(words: str, pointer: str, value: JSON) -> str:
    """The words with this request's indices for those of the one that they were said of, and with the length of
    `value`, which stands at `pointer`. What the words say beyond that stays as it was said."""
    root, *rest = pointer.split("/")[1:] or [""]
    indices = [each for each in rest if each.isdecimal()]

    def at(match: re.Match[str]) -> str:
        if match[1] != root:
            return match[0]
        left = iter(indices)
        return match[1] + _INDEX.sub(lambda index: next(left, index[0]), match[2])

    told = _PATH.sub(at, words)
    return _LENGTH.sub(rf"\g<1>{len(value)}", told) if isinstance(value, str | list) else told


_STEP = re.compile(r"([^.\[\]]+)|\[[^\]]*\]")
_FIELD = re.compile(r"\{(path|parent|value|shown|type|length|model|json|repr)(?::(\^*[\w.]+))?\}")


def filled(message: str, path: str, pointer: str, body: JSON, spelled: Callable[[str], str]) -> str:
    """The message of a breach, with its fields filled. The condition's `path` was met at `pointer`, which ends early
    where something is absent. `{value:name}` is the value of a key inside of what is there, `{value:^name}` beside it.
    """
    whole = full(path, pointer)

    def field(found: re.Match[str]) -> str:
        at = whole
        if found[2]:
            inside = found[2].lstrip("^")
            at = join(at.rsplit("/", up)[0] if (up := len(found[2]) - len(inside)) else at, *inside.split("."))
        if found[1] in ("path", "parent"):
            return spelled(at if found[1] == "path" else at.rpartition("/")[0])
        if found[1] == "model":
            return str(body.get("model")) if isinstance(body, dict) else ""
        return _said(found[1], resolve(body, at) if pointer == whole else None)

    return _FIELD.sub(field, message)


def _said(field: str, value: JSON) -> str:
    match field:
        case "shown":
            return f"'{value}'" if isinstance(value, str) else type_name(value)
        case "type":
            return type_name(value)
        case "json":
            return type(value).__name__
        case "repr":
            return repr(value)
        case "length":
            return str(len(value)) if isinstance(value, str | list) else "0"
        case _:
            return str(value)


def full(path: str, pointer: str) -> str:
    """The pointer of a condition's path, whose elements `pointer` says, although it may end before the path does."""
    steps = [step[1] or "" for step in _STEP.finditer(path)]
    said = pointer.count("/")
    return join(pointer, *steps[said:]) if len(steps) > said else pointer


def bracketed(pointer: str) -> str:
    """A pointer as OpenAI spells it: `/messages/3/role` is `messages[3].role`."""
    keys = (key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:])
    return "".join(f"[{key}]" if key.isdigit() else f".{key}" for key in keys).removeprefix(".")


def type_name(value: JSON) -> str:
    """A JSON type as refusals call it."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case dict():
            return "an object"


_OR = ", or leave it out"

_NEEDED = frozenset({"role", "type", "model", "name"})
"""Keys that an object cannot do without."""

_SCHEMAS = {
    "tools": "the schemas of tools",
    "strict-tools": "the schemas of strict tools",
    "response": "the schema of the answer",
}


_REMEDIES = {
    "is": "send {place} other than {values}, or leave it out",
    "in": "send {place} other than {values}, or leave it out",
    "out": "send {place} as {values}, or leave it out",
    "not_in": "send {place} as {values}",
    "over": "send at most {values} for {place}",
    "under": "send at least {values} for {place}",
    "longer": "keep {place} to a length of {values}",
    "like": "write {place} so that it does not match {values}",
    "kind": "send {place} as another JSON type than {values}, or leave it out",
    "members": "take each value of the type {values} out of {place}",
    "every": "send one {place} that is not {values}",
    "repeated": "give each {place} a value of its own",
    "beside": "leave out what is next to {place}, but for {values}",
    "outside": "use in {place} only what {values} has",
    "bytes": "keep {place} to {values} bytes of JSON",
    "pixels": "send images with sides of at most {values} pixels",
    "deeper": "nest at most {values} levels of objects and arrays in {place}",
    "shared": "leave out {values} beside {place}",
}
"""By the operator of a condition, what no longer meets it."""


def remedy(fact: Fact) -> str:
    """The remedy; empty, if the fact has no conditions."""
    if not fact.when:
        return ""
    first = fact.when[0]
    place = _place(first)
    if first.there is not None or first.longer == 0:
        return f"send {place}" if first.there is False else f"leave out {place}"
    several = isinstance(first.operand, list) and first.operator != "is"
    told = _REMEDIES[first.operator].format(place=place, values=_listed(first.operand if several else [first.operand]))
    return told.removesuffix(_OR) if (first.at or "").rpartition(".")[2] in _NEEDED else told


def _place(condition: Condition) -> str:
    if condition.header is not None:
        return f"the header `{condition.header}`"
    if condition.schemas is not None:
        return f"`{condition.keyword}` in {'the root of ' if condition.root else ''}{_SCHEMAS[condition.schemas]}"
    return f"`{condition.at}`"


def _shown(value: JsonValue) -> str:
    if isinstance(value, float) and value.is_integer():
        return f"`{value:.0f}`"
    return f"`{value}`" if value and isinstance(value, str) else f"`{json.dumps(value, ensure_ascii=False)}`"


def _listed(value: JsonValue) -> str:
    values = value if isinstance(value, list) else []
    *others, last = dict.fromkeys(map(_shown, values)) or ["none"]
    return f"{', '.join(others)} or {last}" if others else last
