"""Sizes that a condition compares: bytes of JSON, schema depth, number of optional properties, image sides."""

from __future__ import annotations

import base64
import binascii
import io
import json

from harness.apis.jsonvalue import resolve
from harness.apis.subschemas import inner, subschemas
from harness.contract.model import JSON

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


def optional_properties(schema: JSON) -> int:
    """Count the properties that are not required, in a schema and all schemas inside it."""
    count = 0
    for _, node in subschemas(schema, ""):
        properties, required = node.get("properties"), node.get("required")
        if isinstance(properties, dict):
            count += len(properties.keys() - {name for name in _list(required) if isinstance(name, str)})
    return count


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []
