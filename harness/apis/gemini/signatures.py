"""Thought signatures: opaque state that comes back with the calls of the current turn (gemini-thought-signature), as
it was issued."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from harness.apis import memory
from harness.apis.gemini.fields import limit
from harness.apis.gemini.requests.proto import canonical
from harness.apis.jsonvalue import canonical as spelled
from harness.apis.limit import Violation
from harness.apis.profile import Profile
from harness.apis.view import CallView, RequestView, ResponseView, ResultView, TextView, TurnView
from harness.contract.model import JSON

_WORDS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
_STAND_INS = frozenset(
    canonical(spelled) for word in _WORDS for spelled in (word, base64.b64encode(word.encode()).decode())
)


def is_stand_in(signature: JSON) -> bool:
    """Whether it is what the provider takes in place of a signature that nobody has (gemini-thought-signature).

    The documents give the words plainly, SDKs send them as base64, in either alphabet, padded or not.
    """
    return canonical(signature) in _STAND_INS


def violations(view: RequestView, profile: Profile, *, vertex: bool) -> Iterator[Violation]:
    """First calls of a step without a signature, where the profile requires one.

    Only the current turn counts: what follows the last user content that holds more than results. Whether a signature
    is the one that was issued is not to be seen here; the documented escapes for foreign history are signatures too.
    """
    if profile.thought_signatures != "required":
        return
    opening = max((index for index, turn in enumerate(view.turns) if _opens(turn)), default=-1)
    for index, turn in enumerate(view.turns[opening + 1 :], opening + 1):
        first = next((part for part in turn.parts if isinstance(part, CallView)), None)
        if first is not None and turn.role == "assistant" and not first.opaque:
            yield limit("signature-missing").broken(_message(first.name, index + 1, vertex=vertex), first.pointer)


def _opens(turn: TurnView) -> bool:
    return turn.role == "user" and not all(isinstance(part, ResultView) for part in turn.parts)


def _message(name: str, position: int, *, vertex: bool) -> str:
    if vertex:
        return (
            f"Unable to submit request because function call `default_api:{name}` in the {position}. content block is "
            "missing a `thought_signature`."
        )
    return (
        "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
        "correctly, and missing thought_signature may lead to degraded model performance. Additional data, function "
        f"call `default_api:{name}` , position {position}."
    )


class Memory(memory.Memory):
    """See `harness.apis.memory`."""

    def __init__(self, *, foreign: bool) -> None:
        super().__init__(foreign=foreign)
        self._signatures: set[str] = set()

    def note(self, response: ResponseView) -> None:
        """Remember the signatures of an answer: they are the provider's own even where it was cut."""
        self._signatures.update(
            spelled(part.opaque)
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
                    return limit("signature-corrupted").broken(
                        message, part.pointer, actual=part.opaque, code="INVALID_ARGUMENT"
                    )
        return None

    def _is_altered(self, opaque: JSON) -> bool:
        return opaque is not None and spelled(opaque) not in self._signatures and not is_stand_in(opaque)
