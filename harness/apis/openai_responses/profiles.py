"""The generations that OpenAI Responses has. See `harness.apis.profile`."""

from __future__ import annotations

from harness.apis.profile import Profile
from harness.contract.protocols import Capability

PROFILES = (
    Profile(
        "gpt-5.6-responses",
        r"(gpt-5\.[26]|gpt-6-astra)\b.*",
        thinking="effort",
        strict_requests=True,
    ),
    Profile(
        "gpt-5-responses",
        r"(gpt-[56]|o[134]).*",
        sampling="unclear",
        thinking="effort",
        strict_requests=True,
    ),
    Profile(
        "gpt-4-responses",
        r"(gpt-4|chatgpt-4).*",
        strict_requests=True,
        lacks=frozenset({Capability.THINKING}),
    ),
    Profile(
        "deepseek-responses",
        r"deepseek.*",
        lacks=frozenset({Capability.THINKING}),
    ),
    Profile("openai-responses", r".*", lacks=frozenset({Capability.THINKING})),
)
