"""Tool choices: what one lets the model do, whatever word the wire has for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.apis.view import ChoiceView
from harness.contract.model import NamedTool, ToolChoice


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
