"""Errors, arguments and ends of streams in the answers of both APIs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.adapters._common import loads
from harness.model.errors import MalformedResponse, ProviderError, provider_error

if TYPE_CHECKING:
    from harness.model.messages import JSON

DONE = "[DONE]"
"""Data of the event that ends a stream of Chat Completions."""

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
"""Error code → HTTP status that the error has outside a stream."""


def error_in(error: JSON) -> ProviderError:
    """Return the exception for an error in a response body. Its status comes from the error's own status (Groq,
    OpenRouter) or from its code.

    An error with neither counts as a server failure, because the server had already accepted the request.
    """
    fields: dict[str, JSON] = error if isinstance(error, dict) else {"message": error}
    texts = [text for key in ("message", "detail") if isinstance(text := fields.get(key), str) and text]
    # the fields of an error event are next to its type, "error" (openai-responses-stream-error)
    codes = [
        code for key in ("code", "type") if isinstance(code := fields.get(key), str | int) and code not in ("", "error")
    ]
    return provider_error(
        next(filter(None, map(_status, (fields.get("status_code"), *codes))), 500),
        texts[0] if texts else "an error without a message",
        code=str(codes[0]) if codes else None,
    )


def _status(code: JSON) -> int | None:
    if isinstance(code, str):
        return _STATUSES.get(code) or (_status(int(code)) if re.fullmatch(r"[45]\d\d", code) else None)
    return code if isinstance(code, int) and 400 <= code < 600 else None


def arguments_in(text: JSON) -> dict[str, JSON] | None:
    """Parse the arguments of a call; return `None` if the text is not a JSON object."""
    try:
        arguments = loads(text) if isinstance(text, str) else None
    except MalformedResponse:
        return None
    return arguments if isinstance(arguments, dict) else None
