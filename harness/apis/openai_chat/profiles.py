"""The generations that OpenAI Chat has, and what compatible servers are. See `harness.apis.profile`."""

from __future__ import annotations

from harness.apis.profile import Profile
from harness.contract.protocols import Capability

_LACKS = frozenset({Capability.THINKING, Capability.AUDIO})
"""What the models that are not made for sound do not take (openai-chat-audio-models)."""

PROFILES = (
    Profile(
        "gpt-6-astra-chat",
        r"gpt-6-astra.*",
        reasons_by_default=True,
        lacks=_LACKS,
    ),
    Profile(
        "gpt-6.1-chat",
        r"gpt-6\.[12].*",
        sampling="unclear",
        reasons_by_default=True,
        lacks=_LACKS,
    ),
    Profile(
        "gpt-5.5-chat",
        r"gpt-(5\.[5-9]|6).*",
        sampling="unclear",
        reasons_by_default=True,
        lacks=_LACKS,
    ),
    Profile(
        "gpt-5-chat",
        r"gpt-5\.4.*",
        lacks=_LACKS,
    ),
    Profile(
        "o1-preview-chat",
        r"o1-(mini|preview).*",
        sampling="unclear",
        reasons_by_default=True,
        lacks=_LACKS,
    ),
    Profile(
        "gpt-5-mini-chat",
        r"gpt-5-(mini|nano).*",
        reasons_by_default=True,
        lacks=_LACKS,
    ),
    Profile(
        "o-series-chat",
        r"(o[134]|gpt-5(\.[1-3])?)(-(?!chat).*)?",
        sampling="unclear",
        reasons_by_default=True,
        lacks=_LACKS,
    ),
    Profile(
        "mistral-chat",
        r"(mistral|ministral|magistral|codestral|devstral|pixtral)-.*",
        lacks=_LACKS,
        dialect="mistral",
    ),
    Profile("openai-chat", r".*", lacks=frozenset({Capability.THINKING})),
)
