"""Tool choices as the words or names that a client's parameter takes."""

from __future__ import annotations

import re
from enum import Enum
from typing import cast

from harness.bridge.clients.annotations import is_enum, members_of
from harness.bridge.clients.forms import OPENAI_APIS
from harness.bridge.clients.methods import Method
from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.messages import NamedTool, ToolChoice


def takes_choice_as_text(method: Method, parameter: str) -> bool:
    """Return whether the parameter for the tool choice takes a word or the name of a tool, not the API's object."""
    members = [*members_of(method.hints.get(parameter))]
    if members:
        has_words = any(each is str or isinstance(each, str) or is_enum(each) for each in members)
        return has_words and dict not in members
    is_name, is_key = rf"[\"']name[\"']:\s*{parameter}\b", rf"(\}}|\b[A-Z_]+)\s*(\[|\.get\(){parameter}\b"
    return parameter == "tool_mode" or bool(re.search(f"{is_name}|{is_key}", method.module))


def choice_as_text(choice: ToolChoice | None, hint: object, source: str, api: str) -> object:
    """Return a tool choice as the word or the name that a client takes, according to the annotation of its parameter
    or to its source.

    Raises:
        Unsupported: The annotation lists the words that it takes, and this is none of them. Or it is the name of a
            tool, and the source does not use the parameter as a name.
    """
    name = choice.name if isinstance(choice, NamedTool) else choice
    if isinstance(choice, NamedTool) and not _CHOICE_AS_NAME.search(source):
        raise Unsupported(RECOGNISED_CLIENT, "the choice of a named tool", "its source uses no tool choice as a name")
    own = ("required", "any") if api in OPENAI_APIS else ("any", "required")  # as these APIs and the others call it
    words = own if choice == "required" else (str(name),)
    members = [*members_of(hint)]
    enums = [cast("type[Enum]", each) for each in members if is_enum(each)]
    allowed: dict[str, object] = {str(each.value).lower(): each for kind in enums for each in kind}
    allowed |= {each.lower(): each for each in members if isinstance(each, str)}
    if allowed and str not in members:
        if (found := next((allowed[word] for word in words if word in allowed), None)) is None:
            raise Unsupported(RECOGNISED_CLIENT, f"the tool choice {name}", "its parameter takes other words")
        return found
    return next((word for word in words if re.search(rf"(?<!: )[\"']{word}[\"']", source)), words[0])


_CHOICE_AS_NAME = re.compile(r"name\w*[\"']?\s*[:=]\s*\[?\s*[\w.]*(choice|mode)\b", re.IGNORECASE)
"""Code that sends a parameter for the tool choice as the name of a tool."""
