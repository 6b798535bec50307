"""Remedies for requests that a fact refuses, derived from its first condition."""

from __future__ import annotations

import json

from pydantic import JsonValue

from harness.apis.condition import Condition
from harness.apis.fact import Fact

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
    "optional": "leave at most {values} properties out of `required` in {place}",
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
