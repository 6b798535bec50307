"""Verbatim wire fields: what `provider_metadata` holds for this API, and how it returns to the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.contract.model import JSON, ProviderMetadata

API: Final = "openai-chat"


def own(metadata: ProviderMetadata) -> dict[str, JSON]:
    """The wire fields of this API; those of other APIs are none of ours."""
    fields = metadata.get(API)
    return fields if isinstance(fields, dict) else {}


def kept(fields: Mapping[str, JSON]) -> dict[str, JSON]:
    """The metadata that holds `fields`; nothing if there are none."""
    return {API: dict(fields)} if fields else {}


def merged(wire: dict[str, JSON], fields: Mapping[str, JSON]) -> dict[str, JSON]:
    """A wire object with verbatim fields put in: objects merge, lists grow, the rest is replaced."""
    result = dict(wire)
    for key, value in fields.items():
        mine = result.get(key)
        if isinstance(mine, dict) and isinstance(value, dict):
            result[key] = merged(mine, value)
        elif isinstance(mine, list) and isinstance(value, list):
            result[key] = [*mine, *value]
        else:
            result[key] = value
    return result
