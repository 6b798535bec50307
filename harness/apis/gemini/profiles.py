"""Gemini's generations. See `harness.apis.profile`."""

from __future__ import annotations

from harness.apis.profile import Profile
from harness.contract.protocols import Capability

PROFILES = (
    Profile(  # nobody has shown a recording of it, with ids for calls or without
        "gemini-4",
        r"gemini-4.*",
        call_ids=None,
        strict_pairing=True,
        thinking="level",
    ),
    Profile(
        "gemini-3.7",
        r"gemini-3\.[78]\b.*",
        strict_pairing=True,
        thinking="level",
    ),
    Profile(
        "gemini-3.6",
        r"gemini-3\.(6\b|5-flash-lite).*",
        strict_pairing=True,
        thinking="level",
    ),
    Profile(
        "gemini-3-ids",
        r"gemini-3\.[1-9].*",
        strict_pairing=True,
        thinking="level",
    ),
    Profile(
        "gemini-3",
        r"gemini-3.*",
        call_ids=None,
        strict_pairing=True,
        thinking="level",
    ),
    Profile(
        "gemini-2",
        r"gemini-2.*",
        call_ids=False,
        thought_signatures="optional",
        thinking="budget",
        lacks=frozenset({Capability.IMAGE_RESULTS}),
    ),
    Profile("gemini", r".*", call_ids=None, thought_signatures="optional", thinking="budget"),
)
