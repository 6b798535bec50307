"""What a provider remembers of its own: the opaque state that it issued, and refuses when it comes back altered."""

from __future__ import annotations

from harness.apis.limit import Violation
from harness.apis.view import RequestView, ResponseView


class Memory:
    """The state issued so far in one conversation, by an API that objects to nothing: others have one of their own.

    `foreign`: the conversation came from elsewhere, with state that this provider never issued here.
    """

    def __init__(self, *, foreign: bool) -> None:
        self.foreign = foreign

    def note(self, response: ResponseView) -> None:
        """Remember what a response has issued."""

    def objection(self, request: RequestView) -> Violation | None:  # noqa: ARG002 - others look at it
        """What is wrong with the state that a request brings back, as the provider would see it."""
        return None
