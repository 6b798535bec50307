"""What the provider refuses: all limits on one request, in the order in which they are read."""

from __future__ import annotations

from harness.http import HttpRequest
from harness.wire.jsonvalue import loads
from harness.wire.law import Law
from harness.wire.limit import Violation
from harness.wire.openai_chat import limits, messages, pairing, settings, tools
from harness.wire.openai_chat.chat import Chat
from harness.wire.view import WireError


def violations(request: HttpRequest, law: Law) -> list[Violation]:
    """What the provider refuses or takes with a loss. Never raises: an unreadable body is a violation."""
    try:
        body = loads(request.body)
    except WireError as error:
        return [limits.BODY.broken(f"We could not parse the JSON body of your request: {error.reason}.", "")]
    if not isinstance(body, dict):
        return [limits.BODY.broken("The body of your request must be a JSON object.", "")]
    chat = Chat(body, law)
    return [found for part in (messages, pairing, tools, settings) for found in part.violations(chat)]
