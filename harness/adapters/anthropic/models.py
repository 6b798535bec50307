"""What holds for a model, by its name."""

from __future__ import annotations

import re

_VERSION = re.compile(r"claude-([a-z]+)-(\d+)(?:-(\d{1,2}))?(?!\d)")


def is_adaptive(model: str) -> bool:
    """Claude 4.6 and later (anthropic-thinking-form). Names without a version count as older."""
    return _version(model) >= (4, 6)


def takes_prefill(model: str) -> bool:
    """The conversation may end with the assistant: up to Claude 4.5 (anthropic-no-prefill)."""
    return _version(model) < (4, 6)


def takes_forced_choice(model: str) -> bool:
    """A tool choice may force a call: all but some models of autumn 2026 (anthropic-no-forced-choice)."""
    family = _family(model)
    return (family, _version(model)) not in {
        ("fable", (5, 1)),
        ("mythos", (5, 1)),
        ("opus", (5, 5)),
        ("sonnet", (5, 5)),
    }


def refused_thinking(model: str) -> frozenset[str]:
    """The types of thinking that the model refuses (anthropic-thinking-form, anthropic-no-thinking-budget,
    anthropic-fable-always-thinks, anthropic-opus-5-5-always-thinks, anthropic-sonnet-5-5-always-thinks)."""
    family, version = _family(model), _version(model)
    if version < (4, 6):
        return frozenset({"adaptive"}) if family else frozenset()
    refused = {"enabled"} if version >= (4, 7) else set[str]()
    always_on = family in ("fable", "mythos") or (family in ("opus", "sonnet") and version == (5, 5))
    return frozenset(refused | {"disabled"} if always_on else refused)


def _family(model: str) -> str:
    named = _VERSION.search(model)
    return named[1] if named else ""


def _version(model: str) -> tuple[int, int]:
    named = _VERSION.search(model)
    return (int(named[2]), int(named[3] or 0)) if named else (0, 0)
