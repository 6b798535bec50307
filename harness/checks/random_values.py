"""Random values for conversations: texts, numbers, JSON, and schemas with values that conform to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, TypeAlias, TypeVar

from harness.model.messages import JSON

Schema: TypeAlias = dict[str, Any]
"""A JSON schema."""

Item = TypeVar("Item")

_ODD_TEXTS = (
    *("\u2028", "\u2029", "\u0085", "\u00a0", "\ufeff", "\u200b", "👩‍👩‍👧", "ß\u0301", "日本語", "𝒳", "العربية"),
    *("\\n", '"', "\\", "{{x}}", "{x}", "%s", "<tool_call>", "</s>", "\t", "\r\n", "\n\n", "\x7f", "data: [DONE]\n\n"),
    *("null", "0", "[]", "{}", '{"a": 1}', "```json\n{}\n```", "event: message_stop\n", " ", "é", "e\u0301"),
)
_JSON_TEXTS = ("", "0", "null", "true", "[]", "1.50", "[1.0, 2]", '{"a":1e5}', '{"a": 1, "a": 2}')
"""Texts that are JSON. Some become other texts if they are parsed and written again."""

_CHARACTERS = ((0x20, 0x7E), (0xA1, 0x17F), (0x370, 0x3FF), (0x4E00, 0x4FFF), (0x1F300, 0x1F5FF), (0x2000, 0x206F))
_FIELD_NAMES = (
    "city",
    "a",
    "type",
    "id",
    "name",
    "properties",
    "b_2",
    "X",
    "camelCase",
    "required",
    "items",
    "$x",
    "ü",
)
_INTEGERS = (0, 1, -1, 2**31, -(2**31), 2**53 - 1, 2**53 + 1, -(2**53), 10**15, 2**63 - 1)
_FLOATS = (0.1, -0.5, 1e-7, 1.5e300, 5e-324, 1e22, 3.141592653589793, -2.5, 100.25)
_DEFAULTS: dict[str, JSON] = {"string": "a", "integer": 3, "number": 0.5, "boolean": False}


class RandomValues:
    """Random generator for values. Many of them are unusual, because such values often show faults."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def _maybe(self, chance: float = 0.5) -> bool:
        return self._random.random() < chance

    def _one_of(self, choices: Sequence[Item]) -> Item:
        return self._random.choice(choices)

    def _text(self) -> str:
        """Return a text: short, long or empty. It may contain characters that often confuse parsers."""
        match self._random.randrange(8):
            case 0 | 1:
                return self._one_of(("Hello.", "What is the weather in Oslo?", "18 °C, and rain.", "a", "no"))
            case 2 | 3:
                return f"a{self._one_of(_ODD_TEXTS)}{self._one_of(('x', '', 'ü'))}"
            case 4:
                return "".join(self._characters())
            case 5:
                return self._one_of(_ODD_TEXTS) + self._word()
            case 6:
                return f"{self._word()} " * self._random.choice((3, 3, 3, 3, 3, 3, 12, 40))
            case _:
                return self._word()

    def _large_text(self) -> str:
        """Return a text that is sometimes huge. Only for requests: as a stream, it would have thousands of events."""
        return f"{self._word()} " * 2000 if self._maybe(0.02) else self._text()

    def _word(self) -> str:
        return f"word-{self._random.randrange(10**6)}"

    def _characters(self) -> Iterator[str]:
        for _ in range(self._random.randint(1, 8)):
            yield chr(self._random.randint(*self._one_of(_CHARACTERS)))
        yield "."

    def _integer(self) -> int:
        return self._one_of(_INTEGERS) if self._maybe() else self._random.randint(-1000, 1000)

    def _number(self) -> float:
        return self._one_of(_FLOATS) if self._maybe() else self._integer()

    def _json(self, depth: int = 2) -> JSON:
        match self._random.randrange(9 if depth else 7):
            case 0:
                return None
            case 1:
                return self._maybe()
            case 2:
                return self._integer()
            case 3:
                return self._number()
            case 4:
                return self._one_of(_JSON_TEXTS)
            case 5 | 6:
                return self._text()
            case 7:
                return [self._json(depth - 1) for _ in range(self._random.randint(0, 3))]
            case _:
                names = self._random.sample(_FIELD_NAMES, self._random.randint(0, 3))
                return {name: self._json(depth - 1) for name in names}

    def _parameters(self) -> Schema:
        """Return the schema of a tool's arguments. It may contain a shared or a recursive definition."""
        schema = self._object(2)
        if self._maybe(0.1):
            schema["properties"] |= {"from": {"$ref": "#/$defs/place"}, "to": {"$ref": "#/$defs/place"}}
            schema["$defs"] = {"place": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}}
        elif self._maybe(0.05):
            schema["properties"] |= {"tree": {"$ref": "#/$defs/tree"}}
            trees = {"type": "array", "items": {"$ref": "#/$defs/tree"}}
            schema["$defs"] = {"tree": {"type": "object", "properties": {"trees": trees}}}
        return schema

    def _object(self, depth: int, *, strict: bool = False) -> Schema:
        names = self._random.sample(_FIELD_NAMES, self._random.randint(1, 3))
        properties = {name: self._schema(depth - 1, strict=strict) for name in names}
        schema: Schema = {"type": "object", "properties": properties}
        required = names if strict else [name for name in names if self._maybe(0.7)]
        schema |= {"required": required} if required else {}
        return schema | ({"additionalProperties": False} if strict or self._maybe() else {})

    def _schema(self, depth: int, *, strict: bool) -> Schema:
        kinds = ["string", "integer", "number", "boolean", "enum", *(("array", "object") if depth else ())]
        kind = self._one_of([*kinds, *(() if strict else ("map", "nullable", "types", "const", "bounds"))])
        described: Schema = {"description": self._text()} if self._maybe(0.3) else {}
        if kind in _DEFAULTS and not strict and self._maybe(0.1):
            described["default"] = _DEFAULTS[kind]
        match kind:
            case "enum":
                return {"type": "string", "enum": ["a", "b c", "ü"], **described}
            case "array":
                return {"type": "array", "items": self._schema(depth - 1, strict=strict), **described}
            case "object":
                return self._object(depth, strict=strict) | described
            case "map":
                return {"type": "object", "additionalProperties": {"type": "number"}, **described}
            case "nullable":
                return {"anyOf": [{"type": "string"}, {"type": "null"}], **described}
            case "types":
                return {"type": ["string", "null"], **described}
            case "const":
                return {"type": "string", "const": "fixed", **described}
            case "bounds":
                return {"type": "integer", "minimum": 0, "maximum": 10, **described}
            case _:
                return {"type": kind, **described}

    def _value(self, schema: Mapping[str, Any]) -> JSON:
        """Return a value that conforms to a schema."""
        if schema.keys() & {"const", "enum"}:
            return self._one_of(schema.get("enum") or [schema["const"]])
        if "anyOf" in schema:
            return self._value(self._one_of(schema["anyOf"]))
        match schema.get("type"):
            case "object" if "properties" in schema:
                kept = schema.get("required", ())
                given = {name: each for name, each in schema["properties"].items() if name in kept or self._maybe()}
                return {name: self._value(each) for name, each in given.items()}
            case "object":
                names = self._random.sample(_FIELD_NAMES, self._random.randint(0, 2))
                return {name: self._number() for name in names} if "additionalProperties" in schema else {}
            case "array":
                return [self._value(schema["items"]) for _ in range(self._random.randint(0, 3))]
            case "string" | ["string", "null"]:
                return self._one_of(("", self._text()))
            case "integer":
                return self._random.randint(0, 10) if "minimum" in schema else self._integer()
            case "number":
                return self._number()
            case "null":
                return None
            case _:
                return self._maybe()
