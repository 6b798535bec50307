"""JSON pointers (RFC 6901), resolved."""

from __future__ import annotations

from typing import Any


def resolve(body: Any, pointer: str) -> Any:
    """What a pointer leads to. Raises `LookupError` where it leads nowhere."""
    for key in pointer.split("/")[1:]:
        name = key.replace("~1", "/").replace("~0", "~")
        body = body[int(name)] if isinstance(body, list) else body[name]
    return body
