"""What the provider refuses: all limits on one request, in the order in which they are read."""

from __future__ import annotations

from harness.apis.bodies import parsed
from harness.apis.law import Law
from harness.apis.limit import Violation
from harness.apis.openai_chat import limits
from harness.apis.openai_chat.limits import messages, pairing, settings, tools
from harness.apis.openai_chat.limits.chat import Chat
from harness.apis.view import WireError
from harness.contract.http import HttpRequest


def violations(request: HttpRequest, law: Law) -> list[Violation]:
    """What the provider refuses or takes with a loss. Never raises: an unreadable body is a violation."""
    try:
        body = parsed(request.body)
    except WireError as error:
        return [limits.BODY.broken(f"We could not parse the JSON body of your request: {error.reason}.", "")]
    if not isinstance(body, dict):
        return [limits.BODY.broken("The body of your request must be a JSON object.", "")]
    chat = Chat(body, law)
    return [found for part in (messages, pairing, tools, settings) for found in part.violations(chat)]
