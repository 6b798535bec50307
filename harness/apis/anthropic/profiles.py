"""Anthropic's generations. See `harness.apis.profile`."""

from __future__ import annotations

from harness.apis.profile import Profile
from harness.contract.protocols import Capability

_NO_BUDGET = frozenset({"enabled"})
_ALWAYS_ON = frozenset({"enabled", "disabled"})
_NOT_FORCED = frozenset({Capability.FORCED_TOOL_CHOICE})
_NO_COMPUTER = frozenset({"computer_20251124"})

PROFILES = (
    Profile(
        "claude-4-5",
        r"claude-((opus|sonnet|haiku)-4(-[0-5])?(-\d{8})?|3-7-.*|sonnet-4-5.*|haiku-4-5.*)",
        system_in_messages="refused",
        thinking="budget",
        thinking_refused=frozenset({"adaptive"}),
        json_mode="emulated",
    ),
    Profile(
        "claude-4-6",
        r"claude-(opus|sonnet)-4-6\b.*",
        prefill="refused",
        system_in_messages="refused",
        thinking="adaptive",
        json_mode="emulated",
    ),
    Profile(
        "claude-4-7",
        r"claude-opus-4-7\b.*",
        prefill="refused",
        sampling="default",
        system_in_messages="refused",
        thinking="adaptive",
        thinking_refused=_NO_BUDGET,
        json_mode="emulated",
    ),
    Profile(
        "claude-4-8",
        r"claude-opus-4-8\b.*",
        prefill="refused",
        sampling="default",
        system_in_messages="taken",
        thinking="adaptive",
        thinking_refused=_NO_BUDGET,
        json_mode="emulated",
    ),
    Profile(
        "claude-sonnet-5",
        r"claude-sonnet-5\b(?!-\d\b).*",
        prefill="refused",
        sampling="default",
        system_in_messages="unclear",
        thinking="adaptive",
        thinking_refused=_NO_BUDGET,
        json_mode="emulated",
    ),
    Profile(
        "claude-fable-5",
        r"claude-(fable|mythos)-5\b(?!-\d\b).*",
        prefill="unclear",
        sampling="default",
        system_in_messages="taken",
        thinking="adaptive",
        thinking_refused=_ALWAYS_ON,
        json_mode="emulated",
    ),
    Profile(
        "claude-opus-5",
        r"claude-opus-5\b(?!-\d\b).*",
        prefill="refused",
        sampling="default",
        system_in_messages="taken",
        thinking="adaptive",
        thinking_refused=_NO_BUDGET,
        thinking_up_to_high=frozenset({"disabled"}),
        json_mode="emulated",
    ),
    Profile(
        "claude-fable-5-1",
        r"claude-(fable|mythos)-5-1\b.*",
        prefill="unclear",
        sampling="unclear",
        system_in_messages="taken",
        thinking="adaptive",
        thinking_refused=_ALWAYS_ON,
        json_mode="emulated",
        lacks=_NOT_FORCED,
    ),
    Profile(
        "claude-opus-5-5",
        r"claude-opus-5-5\b.*",
        prefill="refused",
        sampling="default",
        system_in_messages="taken",
        thinking="adaptive",
        thinking_refused=_ALWAYS_ON,
        tool_types_refused=_NO_COMPUTER,
        json_mode="emulated",
        lacks=_NOT_FORCED,
    ),
    Profile(
        "claude-sonnet-5-5",
        r"claude-sonnet-5-5\b.*",
        prefill="unclear",
        sampling="unclear",
        system_in_messages="taken",
        thinking="adaptive",
        thinking_refused=_ALWAYS_ON,
        thinking_up_to_high=frozenset({"between_tools"}),
        tool_types_refused=_NO_COMPUTER,
        json_mode="emulated",
        lacks=_NOT_FORCED,
    ),
    Profile(
        "claude-haiku-5-5",
        r"claude-haiku-5-5\b.*",
        prefill="refused",
        sampling="default",
        thinking="adaptive",
        thinking_refused=_NO_BUDGET,
        thinking_up_to_high=frozenset({"disabled"}),
        json_mode="emulated",
    ),
    Profile("claude", r".*", prefill=None, thinking="budget", json_mode="emulated"),
)
