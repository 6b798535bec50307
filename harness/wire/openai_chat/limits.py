"""What the provider refuses: all limits on one request, in the order in which they are read."""

from __future__ import annotations

from harness.http import HttpRequest
from harness.profiles import Profile
from harness.wire.jsonvalue import loads
from harness.wire.openai_chat import messages, pairing, settings, tools
from harness.wire.openai_chat.chat import Chat
from harness.wire.view import Violation, WireError


def violations(request: HttpRequest, profile: Profile) -> list[Violation]:
    """What the provider refuses or takes with a loss. Never raises: an unreadable body is a violation."""
    try:
        body = loads(request.body)
    except WireError as error:
        return [
            Violation(
                rule="openai-chat-body",
                severity="error",
                message=f"We could not parse the JSON body of your request: {error.reason}.",
                pointer="",
                source="OC-1",
            )
        ]
    if not isinstance(body, dict):
        return [
            Violation(
                rule="openai-chat-body",
                severity="error",
                message="The body of your request must be a JSON object.",
                pointer="",
                source="OC-1",
            )
        ]
    chat = Chat.of(body, request, profile)
    return [found for limits in (messages, pairing, tools, settings) for found in limits.violations(chat)]
