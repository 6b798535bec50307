"""The thought signatures that were issued, and no others."""

from __future__ import annotations

from harness.apis import memory
from harness.apis.gemini.limits import SIGNATURE_CORRUPTED
from harness.apis.gemini.limits.signatures import is_stand_in
from harness.apis.jsonvalue import canonical
from harness.apis.limit import Violation
from harness.apis.view import CallView, RequestView, ResponseView, TextView
from harness.contract.model import JSON


class Memory(memory.Memory):
    """See `harness.apis.memory`."""

    def __init__(self, *, foreign: bool) -> None:
        super().__init__(foreign=foreign)
        self._signatures: set[str] = set()

    def note(self, response: ResponseView) -> None:
        """Remember the signatures of an answer: they are the provider's own even where it was cut."""
        self._signatures.update(
            canonical(part.opaque)
            for part in response.parts
            if isinstance(part, CallView | TextView) and part.opaque is not None
        )

    def objection(self, request: RequestView) -> Violation | None:
        """The first signature that was never issued, unless the conversation came from elsewhere."""
        if self.foreign:
            return None
        for turn in request.turns:
            for part in turn.parts:
                if isinstance(part, CallView | TextView) and self._is_altered(part.opaque):
                    message = "Corrupted thought signature."
                    return SIGNATURE_CORRUPTED.broken(
                        message, part.pointer, actual=part.opaque, code="INVALID_ARGUMENT"
                    )
        return None

    def _is_altered(self, opaque: JSON) -> bool:
        return opaque is not None and canonical(opaque) not in self._signatures and not is_stand_in(opaque)
