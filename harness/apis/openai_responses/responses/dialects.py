"""What compatible servers do otherwise than OpenAI, named, so that the reference server can speak like them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.apis.profile import Profile


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way to speak. As it stands it is OpenAI's.

    `unique_ids`: call ids are issued once, or else count from `call_0` in every response. `numbered`: events have a
    `sequence_number`. `repeats`: the last event of a stream repeats the items. `sentinel`: behind it comes `[DONE]`.
    """

    unique_ids: bool = True
    numbered: bool = True
    repeats: bool = True
    sentinel: bool = False


OPENAI = Dialect()

DIALECTS: Mapping[str, Dialect] = {
    "reused-ids": Dialect(unique_ids=False),
    "no-numbers": Dialect(numbered=False),  # seen in recorded traffic
    "bare-end": Dialect(repeats=False),
    "sentinel": Dialect(sentinel=True),
}


def dialect_of(profile: Profile) -> Dialect:
    """The dialect that a profile names."""
    return OPENAI if profile.dialect is None else DIALECTS[profile.dialect]
