"""JSON schemas that are none: what the metaschema has against them."""

from __future__ import annotations

import json
from functools import lru_cache

from harness.apis.subschemas import subschemas
from harness.contract.model import JSON
from harness.scenarios.json_schema import Path, schema_error
from harness.scenarios.simple_schema import is_simple


def schema_fault(schema: dict[str, JSON], *, tuples: bool = False) -> tuple[Path, str] | None:
    """The first fault of a schema by the draft 2020-12, as keys from its root and a reason, or `None`.

    With `tuples`, `items` may be a list, as in older drafts. A schema that is nested too deeply to be judged has none.
    """
    try:
        return _judged(json.dumps(schema), tuples=tuples)
    except RecursionError:
        return None


@lru_cache(maxsize=512)  # a conversation sends the same tools with every request
def _judged(text: str, *, tuples: bool) -> tuple[Path, str] | None:
    schema: JSON = json.loads(text)
    if is_simple(schema):
        return None
    for _, node in subschemas(schema, "") if tuples else ():
        if isinstance(node.get("items"), list):
            node["prefixItems"] = node.pop("items")
    return schema_error(schema)
