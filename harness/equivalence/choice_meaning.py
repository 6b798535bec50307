"""Meaning of tool choices, provider tools and model names, independent of their spelling on the wire."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.apis.jsonvalue import as_list, as_object
from harness.apis.view import ChoiceView
from harness.model.messages import JSON, NamedTool, ToolChoice


@dataclass(frozen=True, slots=True)
class ChoiceMeaning:
    """The functions that a model may call, and whether it must call one.

    `required` with one tool means that tool. `ANY` with all names means `required`. Without tools, no call is possible.
    Gemini's `VALIDATED` also checks arguments, which is not part of the choice.
    """

    tools: frozenset[str]
    forced: bool


def canonical_meaning(choice: ToolChoice | None, declared: Iterable[str]) -> ChoiceMeaning:
    """Return the meaning of a canonical choice; `None` is `auto`."""
    every = frozenset(declared)
    if isinstance(choice, NamedTool):
        return ChoiceMeaning(frozenset({choice.name}), forced=True)
    if choice == "none":
        return ChoiceMeaning(frozenset(), forced=False)
    return ChoiceMeaning(every, forced=choice == "required")


def wire_meaning(choice: ChoiceView | None, declared: Iterable[str]) -> ChoiceMeaning | None:
    """Return the meaning of a request's choice, or `None` if no canonical choice has this meaning."""
    every = frozenset(declared)
    if choice is None:
        return ChoiceMeaning(every, forced=False)
    match choice.mode:
        case "none":
            return ChoiceMeaning(frozenset(), forced=False)
        case "auto" | "required":
            return ChoiceMeaning(
                every if choice.allowed is None else frozenset(choice.allowed), choice.mode == "required"
            )
        case "named":
            return ChoiceMeaning(frozenset({choice.name or ""}), forced=True)
        case "other":
            return None


def normal_choice(choice: ChoiceView | None, declared: Iterable[str]) -> ChoiceView | None:
    """Return the normal form of a choice; `None` is `auto`."""
    every = frozenset(declared)
    reach = wire_meaning(choice, every)
    if choice is None or reach is None or reach == canonical_meaning("auto", every):
        return choice if reach is None else None
    if not reach.tools:
        return ChoiceView("none", choice.pointer)
    if reach.forced and len(reach.tools) == 1:
        return ChoiceView("named", choice.pointer, next(iter(reach.tools)))
    allowed = None if reach.tools == every else (*sorted(reach.tools),)
    return ChoiceView("required" if reach.forced else "auto", choice.pointer, allowed=allowed)


def describe_choice(reach: ChoiceMeaning | None, declared: Iterable[str]) -> str:
    """Describe a choice for a finding."""
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
"""Version suffix of a tool: `_20250305` at Anthropic, `_preview_2025_03_11` at OpenAI."""


def tool_family(kind: str) -> str:
    """Return the kind of a tool without its version, because libraries choose the version.

    The result is in snake case, because Protobuf JSON also accepts camel case.
    """
    return _VERSION.sub("", _HUMP.sub("_", kind).lower())


def tool_families(fields: JSON) -> frozenset[str]:
    """Return the families of the tools in body fields, named by `type` or by their only field (Gemini)."""
    tools = fields.get("tools") if isinstance(fields, Mapping) else None
    found: set[str] = set()
    for tool in as_list(tools):
        kind = as_object(tool).get("type")
        found |= {kind} if isinstance(kind, str) else {*tool} if isinstance(tool, dict) else set()
    return frozenset(map(tool_family, found))


_DATED = re.compile(r"([-@](\d{8}|\d{4}-\d{2}-\d{2})|-\d{3}|-preview-\d{2}-\d{2}(\d{2})?)?")
"""Date suffix of a model: `-20250929`, `-2026-03-05`, Vertex's `@20250929`, Gemini's `-001`."""


def is_model_name(wire_meaning: str, wanted: str) -> bool:
    """Return whether a model name on the wire is the wanted one.

    The wire may add the collection (`models/…`) or the date of an alias. It must not drop a date.
    """
    name = wire_meaning.rpartition("models/")[2]
    return name.startswith(wanted) and _DATED.fullmatch(name.removeprefix(wanted)) is not None
