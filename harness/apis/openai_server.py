"""What OpenAI's server has around both of its APIs: the headers of its answers, and where it looks for a key.

https://developers.openai.com/api/reference/overview (read 2026-11-22).
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.apis.seeded import number, token
from harness.contract.http import HttpRequest

_HEX = "0123456789abcdef"


def headers(seed: str, _model: str) -> Mapping[str, str]:
    """The headers of every answer."""
    return {
        "x-request-id": f"req_{token(seed, 'request', 32, _HEX)}",
        "openai-organization": "harness",
        "openai-processing-ms": str(number(seed, "processing", 200, 2000)),
        "openai-version": "2020-10-01",
        "x-ratelimit-limit-requests": "10000",
        "x-ratelimit-limit-tokens": "2000000",
        "x-ratelimit-remaining-requests": "9999",
        "x-ratelimit-remaining-tokens": "1999000",
        "x-ratelimit-reset-requests": "6ms",
        "x-ratelimit-reset-tokens": "30ms",
    }


def has_key(request: HttpRequest) -> bool:
    """A bearer's key, or Azure's header."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return bool((scheme.lower() == "bearer" and key.strip()) or request.headers.get("api-key"))
