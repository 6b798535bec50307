"""Attributes in which a client keeps its history and its system prompt."""

from __future__ import annotations

import re
from typing import cast

from harness.bridge.clients.names import SYNONYMS, first_known


def system_attribute(client: object, source: str) -> str | None:
    """Return the attribute of a client that holds its system prompt, according to its name or to the source of the
    client's module. Return `None` if there is none that can be set.
    """
    own = cast("dict[str, object]", getattr(client, "__dict__", {}))
    used = [name for found in _SYSTEM_USES.findall(source) for name in found if name]
    name = first_known((*SYNONYMS["system"], *used), frozenset(own))
    if name is None or not isinstance(own[name], str | None):
        return None
    try:
        setattr(client, name, own[name])
    except AttributeError:
        return None
    return name


_SYSTEM_USES = re.compile(
    r"[\"']?\b(?:system|systemInstruction|system_instruction|instructions)[\"']?\]?\s*[:=](?!=)[^\n=]{0,40}?\bself\.(\w+)"
    r"|[\"'](?:system|developer)[\"'],\s*[\"'](?:content|text)[\"']:\s*self\.(\w+)"
)
"""Code that sends an attribute as the system prompt, with the name of the attribute."""


def keeps_history(client: object) -> bool:
    """Return whether a client has a list for the messages of its conversation."""
    own = cast("dict[str, object]", getattr(client, "__dict__", {}))
    return any(isinstance(each, list) for name, each in own.items() if name.lstrip("_") in SYNONYMS["messages"])
