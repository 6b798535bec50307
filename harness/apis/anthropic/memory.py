"""The thinking blocks that were issued: those of the latest answer have to come back as they were, and no others may
come."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from harness.apis import memory
from harness.apis.anthropic.conversation import limit
from harness.apis.jsonvalue import canonical
from harness.apis.limit import Violation
from harness.apis.view import OpaqueView, PartView, RequestView, ResponseView, ResultView

_KINDS = ("thinking", "redacted_thinking")


class Memory(memory.Memory):
    """See `harness.apis.memory`."""

    def __init__(self, *, foreign: bool) -> None:
        super().__init__(foreign=foreign)
        self._latest: list[str] = []
        self._issued: set[str] = set()

    def note(self, response: ResponseView) -> None:
        """Remember the thinking of an answer. One that was cut is not to be followed by anything."""
        thinking = _thinking(response.parts)
        self._issued.update(thinking)
        if response.complete:
            self._latest = thinking

    def objection(self, request: RequestView) -> Violation | None:
        """Whether the latest answer comes back with other thinking, or, where its calls are answered, without it; or
        thinking was never issued."""
        return self._altered(request) or self._unknown(request)

    def _unknown(self, request: RequestView) -> Violation | None:
        parts = (part for turn in request.turns for part in turn.parts if isinstance(part, OpaqueView))
        for part in parts if not self.foreign else ():
            if part.kind == "thinking" and canonical(part.raw) not in self._issued:
                place = part.pointer.removeprefix("/").replace("/", ".")
                words = f"{place}: Invalid `signature` in `thinking` block"
                return limit("thinking-signature").broken(words, part.pointer, code="invalid_request_error")
        return None

    def _altered(self, request: RequestView) -> Violation | None:
        answers = [turn for turn in request.turns if turn.role == "assistant"]
        if not self._latest or not answers:
            return None
        latest = answers[-1]
        thinking = _thinking(latest.parts)
        if thinking == self._latest or not (thinking or _returns_results(request)):
            return None
        return limit("thinking-altered").broken(
            f"messages{latest.pointer.replace('/messages', '').replace('/', '.')}: `thinking` blocks in the latest "
            "assistant message cannot be modified; they must remain as they were in the original response.",
            latest.pointer,
            code="invalid_request_error",
        )


def _returns_results(request: RequestView) -> bool:
    """Only then the thinking has to come back at all (anthropic-thinking-verbatim)."""
    latest = takewhile(lambda turn: turn.role != "assistant", reversed(request.turns))
    return any(isinstance(part, ResultView) for turn in latest for part in turn.parts)


def _thinking(parts: Iterable[PartView]) -> list[str]:
    return [canonical(part.raw) for part in parts if isinstance(part, OpaqueView) and part.kind in _KINDS]
