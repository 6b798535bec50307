"""What the provider refuses, and what it takes with a loss."""

from __future__ import annotations

import re

from harness.apis.anthropic import limits
from harness.apis.anthropic.limits.blocks import block_limits
from harness.apis.anthropic.limits.conversation import entries, turns
from harness.apis.anthropic.limits.pairing import pairing_limits
from harness.apis.anthropic.limits.settings import setting_limits
from harness.apis.anthropic.limits.systems import system_limits
from harness.apis.anthropic.limits.terms import terms_of
from harness.apis.anthropic.limits.tools import tool_limits
from harness.apis.anthropic.requests import body_of
from harness.apis.law import Law
from harness.apis.limit import Violation
from harness.apis.view import WireError
from harness.contract.http import HttpRequest

_MOST_BYTES = 32 * 1024 * 1024
_MOST_MESSAGES = 100_000
_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}")


def violations(request: HttpRequest, law: Law) -> list[Violation]:
    """The rules of the Messages API that a request breaks, in the order of the body's parts.

    Shapes come first, so that the first violation is the one that the provider would name.
    """
    if len(request.body) > _MOST_BYTES:
        message = "Request exceeds the maximum size"
        return [limits.BODY_SIZE.broken(message, "", actual=len(request.body), expected=_MOST_BYTES, status=413)]
    try:
        body = body_of(request)
    except WireError as error:
        return [_no_body(f"The request body is not valid JSON: {error.reason}")]
    if not isinstance(body, dict):
        return [_no_body("Input should be a valid dictionary or object to extract fields from")]
    messages = body.get("messages")
    if isinstance(messages, list) and len(messages) > _MOST_MESSAGES:  # before any of them is looked at
        message = f"messages: at most {_MOST_MESSAGES} messages are allowed"
        return [limits.MESSAGES_MANY.broken(message, "/messages", actual=len(messages), expected=_MOST_MESSAGES)]
    terms, conversation = terms_of(request, law), entries(body)
    combined = turns(conversation)
    return [
        *setting_limits(body, conversation, terms),
        *system_limits(body, combined, terms),
        *tool_limits(body),
        *block_limits(body, conversation, terms),
        *pairing_limits(body, conversation, combined),
    ]


def misheaded(request: HttpRequest) -> Violation | None:
    """A version that is missing, or no date. The clouds that host the models take it in the body instead."""
    version = request.headers.get("anthropic-version")
    if not request.headers or b'"anthropic_version"' in request.body:
        return None
    if version is None:
        return limits.VERSION.broken("anthropic-version: header is required", "")
    if _VERSION.fullmatch(version) is None:
        return limits.VERSION.broken(f'anthropic-version: "{version}" is not a valid version', "", actual=version)
    return None


def _no_body(message: str) -> Violation:
    return limits.BODY.broken(message, "")
