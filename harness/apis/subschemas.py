"""Schemas inside a JSON Schema, wherever a keyword has a place for one, and sizes that conditions compare.

Values of `enum`, `const`, `default` and `examples` are no schemas. Without recursion: a schema may be nested more
deeply than Python's stack.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
from collections import deque
from collections.abc import Iterable, Iterator

from harness.apis.jsonvalue import join, resolve
from harness.contract.model import JSON

ONE = frozenset({"items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"})
"""Keywords whose value is a schema."""
LISTS = frozenset({"prefixItems", "allOf", "anyOf", "oneOf"})
"""Keywords whose value is a list of schemas."""
MAPS = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
"""Keywords whose value is an object of schemas."""


def inner(schema: dict[str, JSON], pointer: str, keywords: Iterable[str]) -> Iterator[tuple[str, JSON]]:
    """What stands where these keywords of a schema have schemas, each with its pointer, keyword by keyword.

    What is no schema, though one should stand there, is among it.
    """
    for keyword in keywords:
        value = schema.get(keyword)
        if keyword in ONE:
            if keyword in schema:
                yield join(pointer, keyword), value
        elif keyword in LISTS:
            for index, member in enumerate(value if isinstance(value, list) else ()):
                yield join(pointer, keyword, index), member
        elif keyword in MAPS:
            for name, member in value.items() if isinstance(value, dict) else ():
                yield join(pointer, keyword, name), member


def subschemas(schema: JSON, pointer: str) -> Iterator[tuple[str, dict[str, JSON]]]:
    """A schema and all schemas inside it, level by level, each with its pointer."""
    waiting: deque[tuple[str, JSON]] = deque([(pointer, schema)])
    while waiting:
        place, member = waiting.popleft()
        if isinstance(member, dict):
            yield place, member
            waiting.extend(inner(member, place, member))


_HEADER_CHARS = 64 * 1024
"""Base64 characters that are decoded to read the size of an image. A JPEG may carry metadata in front of it."""
_IMAGE_STARTS = ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR")
"""Beginnings of PNG, JPEG, GIF and WebP in base64."""
_CONTAINERS = ("properties", "items", "prefixItems")
"""Keywords of objects and arrays."""
_MAX_DEPTH = 100


def json_bytes(value: JSON) -> int:
    """Return the size of a value as compact JSON in UTF-8."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))


def image_side(value: JSON) -> int:
    """Return the longer side, in pixels, of an image in base64; 0 for anything else."""
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
    """Return in how many levels the objects and arrays of a schema nest, with its references followed.

    A schema that refers to itself nests without end, which is reported as 100 levels.
    """
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
        waiting.append((referenced(node, schema), depth))
    return min(deepest, _MAX_DEPTH)


def referenced(node: dict[str, JSON], root: JSON) -> JSON:
    """Return the schema that `$ref` of a schema names inside the same document, or `None`."""
    reference = node.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    return resolve(root, reference[1:])
