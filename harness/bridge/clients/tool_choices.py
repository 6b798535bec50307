"""Tool choices as the words or names that a client's parameter takes."""

from __future__ import annotations

import re
from enum import Enum
from typing import cast

from harness.bridge.clients.annotations import is_enum, members_of
from harness.bridge.clients.forms import GEMINI, OPENAI_APIS
from harness.bridge.clients.methods import Method
from harness.bridge.clients.sources import fields_given, passed_on
from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.messages import NamedTool, ToolChoice


def takes_choice_as_text(method: Method, parameter: str) -> bool:
    """Return whether the parameter for the tool choice takes a word or the name of a tool, not the API's object. Code
    that reads OpenAI's object takes that one for a named tool, also if it maps the words.
    """
    members = [*members_of(method.hints.get(parameter))]
    if members:
        has_words = any(each is str or isinstance(each, str) or is_enum(each) for each in members)
        return has_words and dict not in members
    places = _places(method, parameter)
    if any(re.search(rf"\b{name}(\[|\.get\()[\"']function[\"']", source) for name, source in places):
        return False
    return parameter == "tool_mode" or any(
        re.search(rf"{_as_name(name)}|{_reads_name(name)}|(\}}|\b[A-Z_]+)\s*(\[|\.get\(){name}\b", source)
        for name, source in places
    )


def _places(method: Method, parameter: str) -> list[tuple[str, str]]:
    """Return the names of the tool choice in the client's code, with the code in which each one is used: the parameter
    in its module, the parameters of the functions of its package that get it, and the fields of objects that get it.
    """
    code = method.with_imports
    fields = [(each, code) for each in fields_given(code, parameter)]
    return [(parameter, method.module), *passed_on(code, parameter), *fields]


def _as_name(parameter: str) -> str:
    """Return the pattern for code that sends a parameter itself, not a part of it, as the name of a tool."""
    names = r"allowed_?[fF]unction_?[nN]ames[\"']?\s*[:=]\s*\["
    return rf"([\"']name[\"']:\s*|{names})(?:\w+\.)*{parameter}\b(?![.\[(])"


def _reads_name(parameter: str) -> str:
    """Return the pattern for code that takes an object with a name for the choice of one tool."""
    return rf"\b{parameter}\.name\b"


def choice_as_text(choice: ToolChoice | None, method: Method, parameter: str, api: str) -> object:
    """Return a tool choice as the word or the name that a parameter takes, according to its annotation or to the
    client's source.

    Raises:
        Unsupported: The annotation lists the words that it takes, and this is none of them. Or it is the name of a
            tool, and the source does not use the parameter as a name.
    """
    name = choice.name if isinstance(choice, NamedTool) else choice
    hint, places = method.hints.get(parameter), _places(method, parameter)
    if isinstance(choice, NamedTool) and any(re.search(_reads_name(each), source) for each, source in places):
        raise Unsupported(RECOGNISED_CLIENT, "the choice of a named tool", "it takes an object that has the name")
    is_name = any(_CHOICE_AS_NAME.search(source) or re.search(_as_name(each), source) for each, source in places)
    if isinstance(choice, NamedTool) and not is_name:
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
    source = "\n".join(each for _, each in places)
    is_mode = api == GEMINI.name and any(re.search(rf"[\"']mode[\"']: ?{each}\b(?!\.)", code) for each, code in places)
    if is_mode:
        return words[0].upper()
    return next((word for word in words if re.search(rf"(?<!: )[\"']{word}[\"']", source)), words[0])


_CHOICE_AS_NAME = re.compile(r"name\w*[\"']?\s*[:=]\s*\[?\s*[\w.]*(choice|mode)\b", re.IGNORECASE)
"""Code that sends a parameter for the tool choice as the name of a tool."""
