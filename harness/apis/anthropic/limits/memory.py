"""The thinking blocks of the latest answer, which have to come back as they were."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from harness.apis import memory
from harness.apis.anthropic.limits import THINKING_ALTERED
from harness.apis.jsonvalue import canonical
from harness.apis.limit import Violation
from harness.apis.view import OpaqueView, PartView, RequestView, ResponseView, ResultView

_KINDS = ("thinking", "redacted_thinking")


class Memory(memory.Memory):
    """See `harness.apis.memory`."""

    def __init__(self, *, foreign: bool) -> None:
        super().__init__(foreign=foreign)
        self._latest: list[str] = []

    def note(self, response: ResponseView) -> None:
        """Remember the thinking of an answer. One that was cut is not to be followed by anything."""
        if response.complete:
            self._latest = _thinking(response.parts)

    def objection(self, request: RequestView) -> Violation | None:
        """Whether the latest answer comes back with other thinking, or, where its calls are answered, without it."""
        answers = [turn for turn in request.turns if turn.role == "assistant"]
        if not self._latest or not answers:
            return None
        latest = answers[-1]
        thinking = _thinking(latest.parts)
        if thinking == self._latest or not (thinking or _returns_results(request)):
            return None
        return THINKING_ALTERED.broken(
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
