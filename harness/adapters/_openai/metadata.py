"""Verbatim wire fields: what `provider_metadata` holds for an API, and how it returns to the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from harness.contract.model import JSON, ProviderMetadata


def own(metadata: ProviderMetadata, api: str) -> dict[str, JSON]:
    """The wire fields of this API; those of other APIs are none of its business."""
    fields = metadata.get(api)
    return fields if isinstance(fields, dict) else {}


def parted(fields: Mapping[str, JSON], taken: AbstractSet[str]) -> tuple[dict[str, JSON], dict[str, JSON]]:
    """The fields that go back to where they came from (`taken`), and those that are only shown."""
    back = {key: value for key, value in fields.items() if key in taken}
    return back, {key: value for key, value in fields.items() if key not in taken}


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
