"""Tools that a provider runs: one under several names of its wire."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.contract.model import JSON

_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_VERSION = re.compile(r"(_preview)?(_\d{8}|_\d{4}_\d{2}_\d{2})?$")
"""What the APIs put behind the name of a tool: `_20250305` at Anthropic, `_preview_2025_03_11` at OpenAI."""


def family(kind: str) -> str:
    """What a tool does, whichever version of it does it: of `web_search_20250305` and `web_search_20260209` a library
    takes the one that it knows. proto's JSON has two spellings of every name."""
    return _VERSION.sub("", _HUMP.sub("_", kind).lower())


def offered(fields: JSON) -> frozenset[str]:
    """The tools among the fields that a caller wants in a body, each by its family: it stands in `type`, or is the name
    of the one field that a tool has (Gemini)."""
    tools = fields.get("tools") if isinstance(fields, Mapping) else None
    found: set[str] = set()
    for tool in tools if isinstance(tools, list) else ():
        kind = tool.get("type") if isinstance(tool, dict) else None
        found |= {kind} if isinstance(kind, str) else {*tool} if isinstance(tool, dict) else set()
    return frozenset(map(family, found))
