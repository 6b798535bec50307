"""Failures that a server reports inside HTTP 200: as its whole answer, in the middle of a stream, or as a response that
failed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.contract.errors import provider_error

if TYPE_CHECKING:
    from harness.contract.errors import ProviderError
    from harness.contract.model import JSON

_STATUSES = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "bio_policy": 400,
    "misalignment_policy_violation": 400,
    "data_residency_mismatch": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "unsupported_country_region_territory": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "overloaded_error": 503,
    "server_is_overloaded": 503,
    "service_unavailable_error": 503,
}
"""The provider's word → the status that it would have come with, had nothing been sent before."""


def reported(error: JSON) -> ProviderError:
    """The error that an answer carries, by the status that it names itself (Groq, OpenRouter), else by its code.

    What says neither is a failure of the server: it had taken the request.
    """
    fields: dict[str, JSON] = error if isinstance(error, dict) else {"message": error}
    texts = [text for key in ("message", "detail") if isinstance(text := fields.get(key), str) and text]
    # an error event has its fields beside its own type, "error" (openai-responses-stream-error)
    codes = [
        said for key in ("code", "type") if isinstance(said := fields.get(key), str | int) and said not in ("", "error")
    ]
    return provider_error(
        next(filter(None, map(_status, (fields.get("status_code"), *codes))), 500),
        texts[0] if texts else "an error without a message",
        code=str(codes[0]) if codes else None,
    )


def _status(said: JSON) -> int | None:
    if isinstance(said, str):
        return _STATUSES.get(said) or (_status(int(said)) if re.fullmatch(r"[45]\d\d", said) else None)
    return said if isinstance(said, int) and 400 <= said < 600 else None
