"""Anthropic's generations. See `harness.apis.profile`."""

from __future__ import annotations

from harness.apis.profile import Profile

PROFILES = (
    Profile(
        "claude-4-5",
        r"claude-((opus|sonnet|haiku)-4(-[0-5])?(-\d{8})?|3-7-.*|sonnet-4-5.*|haiku-4-5.*)",
        thinking="budget",
        json_mode="emulated",
    ),
    Profile(
        "claude-4-6",
        r"claude-(opus|sonnet)-4-6\b.*",
        thinking="adaptive",
        json_mode="emulated",
    ),
    Profile(
        "claude-4-7",
        r"claude-opus-4-7\b.*",
        thinking="adaptive",
        json_mode="emulated",
    ),
    Profile(
        "claude-4-8",
        r"claude-opus-4-8\b.*",
        thinking="adaptive",
        json_mode="emulated",
    ),
    Profile(
        "claude-sonnet-5",
        r"claude-sonnet-5\b(?!-\d\b).*",
        thinking="adaptive",
        json_mode="emulated",
    ),
    Profile(
        "claude-fable-5",
        r"claude-(fable|mythos)-5\b(?!-\d\b).*",
        thinking="adaptive",
        json_mode="emulated",
    ),
    Profile(
        "claude-opus-5",
        r"claude-opus-5\b(?!-\d\b).*",
        thinking="adaptive",
        json_mode="emulated",
    ),
    Profile(
        "claude-fable-5-1",
        r"claude-(fable|mythos)-5-1\b.*",
        thinking="adaptive",
        json_mode="emulated",
    ),
    Profile(
        "claude-fable-5-2",
        r"claude-(fable|mythos)-5-2\b.*",
        thinking="adaptive",
        json_mode="emulated",
    ),
    Profile(
        "claude-opus-5-5",
        r"claude-opus-5-5\b.*",
        thinking="adaptive",
        json_mode="emulated",
    ),
    Profile(
        "claude-sonnet-5-5",
        r"claude-sonnet-5-5\b.*",
        thinking="adaptive",
        json_mode="emulated",
    ),
    Profile(
        "claude-haiku-5-5",
        r"claude-haiku-5-5\b.*",
        thinking="adaptive",
        json_mode="emulated",
    ),
    Profile("claude", r".*", prefill=None, thinking="budget", json_mode="emulated"),
)
