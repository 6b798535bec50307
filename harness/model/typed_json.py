"""JSON form of union types, for pydantic's `TypeAdapter`: a `type` field names the class.

Bytes are base64. Many languages cannot represent integers beyond 2^53 as JSON numbers. Therefore `arguments` are also
written as text in `arguments_json`, and `content` in `text`. The reader prefers `arguments_json` to `arguments`, and
ignores `text`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast, get_args

if TYPE_CHECKING:
    from pydantic_core import CoreSchema


class ByType:
    """Annotation for a class or a union of classes: pydantic then reads and writes the `type` field. pydantic is only
    imported when it builds a schema.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> CoreSchema:
        from pydantic_core import core_schema as core  # noqa: PLC0415 - applications run without pydantic

        schemas = {type_name(kind): handler.generate_schema(kind) for kind in _kinds(source)}  # type: ignore[attr-defined]
        return core.tagged_union_schema(
            {name: core.no_info_wrap_validator_function(partial(_read, name), each) for name, each in schemas.items()},
            _discriminator(next(iter(schemas)) if len(schemas) == 1 else None),
            serialization=core.wrap_serializer_function_ser_schema(
                partial(_write, _kinds(source)), schema=core.union_schema([*schemas.values()])
            ),
        )


BY_TYPE = ByType()


def type_name(kind: type) -> str:
    """Return the type name of a class: `tool_call_start` for `ToolCallStart`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


def _kinds(source: Any) -> tuple[type, ...]:
    return get_args(source) or (source,)


def _discriminator(default: str | None) -> Callable[[object], Any]:
    """Return the function that reads the type of a value. A JSON object without `type` has the type `default`."""

    def type_of(value: object) -> Any:
        if isinstance(value, Mapping):
            return cast("Mapping[str, Any]", value).get("type", default)
        return type_name(type(value))

    return type_of


def _read(name: str, value: Any, made_of: Callable[[Any], Any]) -> Any:
    if not isinstance(value, Mapping):
        return made_of(value)
    given = {key: each for key, each in cast("Mapping[str, Any]", value).items() if key != "type"}
    if name == "tool_call" and "arguments_json" in given:
        text = given.pop("arguments_json")
        try:
            given["arguments"] = json.loads(text)
        except (TypeError, ValueError) as error:
            raise ValueError(f"its 'arguments_json' is no JSON: {error}") from None
    if name == "tool_result":
        given.pop("text", None)
        if "parts" in given:
            given["content"] = tuple(given.pop("parts"))
    if name in ("image", "file") and given.get("data") is not None:
        given["data"] = base64.b64decode(given["data"], validate=True)
    made = made_of(given)
    if isinstance(given.get("content"), tuple) and not isinstance(made.content, tuple):  # pydantic read JSON
        raise ValueError("its 'parts' are no parts of a result")  # noqa: TRY004 - pydantic reports it with its place
    return made


def _write(kinds: tuple[type, ...], value: Any, fields_of: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    name = type_name(next(kind for kind in kinds if isinstance(value, kind)))
    document = {"type": name, **fields_of(value)}
    if name in ("image", "file") and value.data is not None:
        document["data"] = base64.b64encode(value.data).decode()
    if name == "tool_call":
        document["arguments_json"] = json.dumps(document["arguments"], ensure_ascii=False)
    if name == "tool_result":
        document["text"] = value.text
        if isinstance(value.content, tuple):
            document["parts"] = document.pop("content")
    return document
