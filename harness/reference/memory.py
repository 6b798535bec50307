"""What a provider remembers of its own: the opaque state that it issued, and refuses when it comes back altered."""

from __future__ import annotations

from collections.abc import Iterable

from harness.model import JSON
from harness.scenarios.schema import Scenario
from harness.wire.anthropic import limits as anthropic
from harness.wire.gemini import limits as gemini
from harness.wire.gemini.signatures import is_stand_in
from harness.wire.jsonvalue import canonical
from harness.wire.limit import Violation
from harness.wire.view import CallView, OpaqueView, PartView, RequestView, ResponseView, TextView

_THINKING = ("thinking", "redacted_thinking")


class Memory:
    """The opaque state issued so far in one conversation."""

    def __init__(self, scenario: Scenario) -> None:
        self._foreign = bool(scenario.history)
        self._signatures: set[str] = set()
        self._thinking: list[str] = []

    def note(self, response: ResponseView) -> None:
        """Remember what a response has issued. One that was cut is not to be followed by anything; that its signatures
        are the provider's own stays true of it."""
        if response.complete:
            self._thinking = _thinking(response.parts)
        self._signatures.update(
            canonical(part.opaque)
            for part in response.parts
            if isinstance(part, CallView | TextView) and part.opaque is not None
        )

    def objection(self, api: str, view: RequestView) -> Violation | None:
        """What is wrong with the state that a request brings back, as the provider would see it."""
        if api == "anthropic":
            return self._altered_thinking(view)
        if api == "gemini" and not self._foreign:
            return self._altered_signature(view)
        return None

    def _altered_thinking(self, view: RequestView) -> Violation | None:
        if not self._thinking:
            return None
        answers = [turn for turn in view.turns if turn.role == "assistant"]
        if not answers:
            return None
        latest = answers[-1]
        if _thinking(latest.parts) == self._thinking:
            return None
        return anthropic.THINKING_ALTERED.broken(
            f"messages{latest.pointer.replace('/messages', '').replace('/', '.')}: `thinking` blocks in the latest "
            "assistant message cannot be modified; they must remain as they were in the original response.",
            latest.pointer,
            code="invalid_request_error",
        )

    def _altered_signature(self, view: RequestView) -> Violation | None:
        for turn in view.turns:
            for part in turn.parts:
                if isinstance(part, CallView | TextView) and self._is_altered(part.opaque):
                    message = "Corrupted thought signature."
                    return gemini.SIGNATURE_CORRUPTED.broken(
                        message, part.pointer, actual=part.opaque, code="INVALID_ARGUMENT"
                    )
        return None

    def _is_altered(self, opaque: JSON) -> bool:
        return opaque is not None and canonical(opaque) not in self._signatures and not is_stand_in(opaque)


def _thinking(parts: Iterable[PartView]) -> list[str]:
    return [canonical(part.raw) for part in parts if isinstance(part, OpaqueView) and part.kind in _THINKING]
