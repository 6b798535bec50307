"""Laying provider metadata onto the wire object that it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.contract.model import JSON, ProviderMetadata


def own(metadata: ProviderMetadata) -> dict[str, JSON]:
    """The wire fields of this API among the metadata."""
    fields = metadata.get("gemini")
    return fields if isinstance(fields, dict) else {}


def merged(base: dict[str, JSON], extra: dict[str, JSON]) -> dict[str, JSON]:
    """`base` with `extra` on it: objects merge, lists grow, the rest replaces."""
    result = dict(base)
    for key, value in extra.items():
        old = result.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            result[key] = merged(old, value)
        elif isinstance(old, list) and isinstance(value, list):
            result[key] = [*old, *value]
        else:
            result[key] = value
    return result
