"""JSON Schemas in requests: subschemas, sizes, references and faults."""

from __future__ import annotations

import base64
import binascii
import io
import json
from collections import deque
from collections.abc import Iterable, Iterator
from functools import lru_cache

from harness.apis.jsonvalue import as_list, join, resolve
from harness.documents.json_schema import Path, is_simple, schema_error
from harness.model.messages import JSON

ONE = frozenset({"items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"})
"""Keywords whose value is a schema."""
LISTS = frozenset({"prefixItems", "allOf", "anyOf", "oneOf"})
"""Keywords whose value is a list of schemas."""
MAPS = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
"""Keywords whose value is an object of schemas."""


def inner(schema: dict[str, JSON], pointer: str, keywords: Iterable[str]) -> Iterator[tuple[str, JSON]]:
    """Yield the direct subschemas under these keywords, with their pointers. Values that are not valid schemas are
    included.
    """
    for keyword in keywords:
        value = schema.get(keyword)
        if keyword in ONE:
            if keyword in schema:
                yield join(pointer, keyword), value
        elif keyword in LISTS:
            for index, member in enumerate(as_list(value)):
                yield join(pointer, keyword, index), member
        elif keyword in MAPS:
            for name, member in value.items() if isinstance(value, dict) else ():
                yield join(pointer, keyword, name), member


def subschemas(schema: JSON, pointer: str) -> Iterator[tuple[str, dict[str, JSON]]]:
    """Yield a schema and all schemas inside it, level by level, with their pointers.

    Values of `enum`, `const`, `default` and `examples` are not schemas. There is no recursion, since a schema may be
    nested deeper than Python's stack.
    """
    waiting: deque[tuple[str, JSON]] = deque([(pointer, schema)])
    while waiting:
        place, member = waiting.popleft()
        if isinstance(member, dict):
            yield place, member
            waiting.extend(inner(member, place, member))


_HEADER_CHARS = 64 * 1024
"""Number of base64 characters to decode to find the size of an image. It is large because a JPEG may begin with
metadata.
"""
_IMAGE_STARTS = ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR")
"""First base64 characters of PNG, JPEG, GIF and WebP."""
_CONTAINERS = ("properties", "items", "prefixItems")
_MAX_DEPTH = 100


def json_bytes(value: JSON) -> int:
    """Return the size of a value as compact JSON in UTF-8."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))


def image_side(value: JSON) -> int:
    """Return the longer side of a base64 image in pixels, or 0 for anything else."""
    if not isinstance(value, str) or not value.startswith(_IMAGE_STARTS):
        return 0
    import imagesize  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs] - it imports urllib.request

    try:
        data = base64.b64decode(value[:_HEADER_CHARS] + "===", validate=False)
    except binascii.Error:
        return 0
    width, height = imagesize.get(io.BytesIO(data))  # pyright: ignore[reportUnknownMemberType]
    return max(int(width), int(height), 0)


def schema_depth(schema: JSON) -> int:
    """Return the number of nested objects and arrays, following references. Recursive schemas count as 100."""
    deepest = 0
    waiting: list[tuple[JSON, int]] = [(schema, 0)]
    seen: set[tuple[int, int]] = set()
    while waiting:
        node, depth = waiting.pop()
        if not isinstance(node, dict) or depth > _MAX_DEPTH or (id(node), depth) in seen:
            continue
        seen.add((id(node), depth))
        depth += any(key in node for key in _CONTAINERS) or str(node.get("type")).lower() in ("object", "array")
        deepest = max(deepest, depth)
        keywords = [key for key in node if key not in ("$defs", "definitions")]
        waiting.extend((member, depth) for _, member in inner(node, "", keywords))
        waiting.append((resolve_reference(node, schema), depth))
    return min(deepest, _MAX_DEPTH)


def resolve_reference(node: dict[str, JSON], root: JSON) -> JSON:
    """Return the schema that `$ref` names in the same document, or `None`."""
    reference = node.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    return resolve(root, reference[1:])


_NULL_SAYS_SOMETHING = ("type", "default", "const")


def schema_fault(schema: dict[str, JSON], *, lenient: bool = False) -> tuple[Path, str] | None:
    """Return the path and reason of the first violation of draft 2020-12 in a schema, or `None` if there is none.

    With `lenient`, `items` may be a list, as in older drafts, and most keywords with the value null are ignored. A
    schema that is nested too deeply to be checked counts as valid.
    """
    try:
        return _schema_fault_of(json.dumps(schema), lenient=lenient)
    except RecursionError:
        return None


@lru_cache(maxsize=512)  # each request of a conversation repeats the tools
def _schema_fault_of(text: str, *, lenient: bool) -> tuple[Path, str] | None:
    schema: JSON = json.loads(text)
    if is_simple(schema):
        return None
    for _, node in subschemas(schema, "") if lenient else ():
        for keyword in [key for key, value in node.items() if value is None]:
            if keyword not in _NULL_SAYS_SOMETHING:
                del node[keyword]
        if isinstance(node.get("items"), list):
            node["prefixItems"] = node.pop("items")
    return schema_error(schema)
