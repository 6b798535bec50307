"""Tool choices, provider tools and models: what they mean, whatever word the wire has for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.apis.view import ChoiceView
from harness.contract.model import JSON, NamedTool, ToolChoice


@dataclass(frozen=True, slots=True)
class Reach:
    """The functions that a model may call, and whether it has to call one of them.

    `required` with one tool is that tool, `ANY` that names all of them is `required`, and without tools nothing can be
    called whatever the choice says. That Gemini's `VALIDATED` checks the arguments as well is no choice.
    """

    tools: frozenset[str]
    forced: bool


def asked(choice: ToolChoice | None, declared: Iterable[str]) -> Reach:
    """What the canonical choice means among the declared functions; none at all is `auto`."""
    every = frozenset(declared)
    if isinstance(choice, NamedTool):
        return Reach(frozenset({choice.name}), forced=True)
    if choice == "none":
        return Reach(frozenset(), forced=False)
    return Reach(every, forced=choice == "required")


def sent(choice: ChoiceView | None, declared: Iterable[str]) -> Reach | None:
    """What the choice of a request means among its functions, `None` if it is one without a canonical meaning."""
    every = frozenset(declared)
    if choice is None:
        return Reach(every, forced=False)
    match choice.mode:
        case "none":
            return Reach(frozenset(), forced=False)
        case "auto" | "required":
            return Reach(every if choice.allowed is None else frozenset(choice.allowed), choice.mode == "required")
        case "named":
            return Reach(frozenset({choice.name or ""}), forced=True)
        case "other":
            return None


def meant(choice: ChoiceView | None, declared: Iterable[str]) -> ChoiceView | None:
    """The one form of all choices that let the model do the same among the declared functions; `None` is `auto`."""
    every = frozenset(declared)
    reach = sent(choice, every)
    if choice is None or reach is None or reach == asked("auto", every):
        return choice if reach is None else None
    if not reach.tools:
        return ChoiceView("none", choice.pointer)
    if reach.forced and len(reach.tools) == 1:
        return ChoiceView("named", choice.pointer, next(iter(reach.tools)))
    allowed = None if reach.tools == every else (*sorted(reach.tools),)
    return ChoiceView("required" if reach.forced else "auto", choice.pointer, allowed=allowed)


def shown(reach: Reach | None, declared: Iterable[str]) -> str:
    """A choice in words, for a finding."""
    if reach is None:
        return "a choice of another kind"
    if not reach.tools:
        return "none"
    if reach.forced and len(reach.tools) == 1:
        return f"named {next(iter(reach.tools))}"
    names = "" if reach.tools == frozenset(declared) else f" among {', '.join(sorted(reach.tools))}"
    return ("required" if reach.forced else "auto") + names


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


_DATED = re.compile(r"([-@](\d{8}|\d{4}-\d{2}-\d{2})|-\d{3}|-preview-\d{2}-\d{2}(\d{2})?)?")
"""What the APIs put behind an alias: `-20250929`, `-2026-03-05`, Vertex's `@20250929`, Gemini's `-001`."""


def is_named(sent: str, wanted: str) -> bool:
    """The name on the wire is that of the wanted model: the same, in its collection (`models/…`), or the dated name for
    which an alias stands. The other way round a version that somebody chose is lost."""
    name = sent.rpartition("models/")[2]
    return name.startswith(wanted) and _DATED.fullmatch(name.removeprefix(wanted)) is not None
