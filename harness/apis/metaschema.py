"""JSON schemas that are none: what the metaschema has against them."""

from __future__ import annotations

import json
from functools import lru_cache

from harness.apis.subschemas import subschemas
from harness.contract.model import JSON
from harness.scenarios.json_schema import Path, is_simple, schema_error

_NULL_SAYS_SOMETHING = ("type", "default", "const")


def schema_fault(schema: dict[str, JSON], *, lenient: bool = False) -> tuple[Path, str] | None:
    """The first fault of a schema by the draft 2020-12, as keys from its root and a reason, or `None`.

    `lenient`: `items` may be a list, as in older drafts, and of keywords but `type` a null is an absent one. A schema
    that is nested too deeply to be judged has no fault.
    """
    try:
        return _judged(json.dumps(schema), lenient=lenient)
    except RecursionError:
        return None


@lru_cache(maxsize=512)  # a conversation sends the same tools with every request
def _judged(text: str, *, lenient: bool) -> tuple[Path, str] | None:
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
