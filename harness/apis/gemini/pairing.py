"""Calls, their results and their thought signatures: count, order of turns, ids and names (gemini-turn-order,
gemini-responses-counted, gemini-thought-signature).

Recordings show that the server reads adjacent model contents as one turn: a step is a run of them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from harness.apis import memory
from harness.apis.gemini.fields import limit
from harness.apis.gemini.proto import canonical
from harness.apis.jsonvalue import canonical as spelled
from harness.apis.limit import Violation
from harness.apis.profile import Profile
from harness.apis.view import CallView, RequestView, ResponseView, ResultView, TextView, TurnView
from harness.contract.model import JSON


class _Turn(NamedTuple):
    """A turn with the calls that it makes and the results that it holds."""

    pointer: str
    role: str
    calls: tuple[CallView, ...]
    results: tuple[ResultView, ...]


def _read(turn: TurnView) -> _Turn:
    calls = tuple(part for part in turn.parts if isinstance(part, CallView) and turn.role == "assistant")
    results = tuple(part for part in turn.parts if isinstance(part, ResultView))
    return _Turn(turn.pointer, turn.role, calls, results)


def pairing_violations(view: RequestView, profile: Profile) -> Iterator[Violation]:
    """Calls out of place, results out of place, and results that do not answer their calls."""
    turns = [*map(_read, view.turns)]
    index = 0
    while index < len(turns):
        turn = turns[index]
        if not turn.calls:
            if turn.results:
                yield _misplaced_result(turn)
            index += 1
            continue
        if index == 0 or turns[index - 1].role == "assistant":
            message = (
                "Please ensure that function call turn comes immediately after a user turn or after a function "
                "response turn."
            )
            broken = limit("call-after-model" if index else "call-misplaced")
            yield broken.broken(message, turn.pointer)
        step = _run(turns, index, lambda turn: bool(turn.calls))
        answers = _run(turns, index + len(step), lambda turn: turn.role == "user" and bool(turn.results))
        yield from _answered(step, answers, profile)
        index += len(step) + len(answers)


def _run(turns: Sequence[_Turn], start: int, belongs: Callable[[_Turn], bool]) -> Sequence[_Turn]:
    end = start
    while end < len(turns) and belongs(turns[end]):
        end += 1
    return turns[start:end]


def _misplaced_result(turn: _Turn) -> Violation:
    message = "Please ensure that function response turn comes immediately after a function call turn."
    return limit("result-misplaced").broken(message, turn.pointer)


def _answered(step: Sequence[_Turn], answers: Sequence[_Turn], profile: Profile) -> Iterator[Violation]:
    calls = [call for turn in step for call in turn.calls]
    results = [result for turn in answers for result in turn.results]
    message = (
        "Please ensure that the number of function response parts is equal to the number of function call parts of the "
        "function call turn."
    )
    if len(calls) != len(results):
        yield limit("result-count").broken(
            message, (answers or step)[-1].pointer, actual=len(results), expected=len(calls)
        )
    if len(answers) > 1:
        yield limit("results-split").broken(
            message, answers[1].pointer, actual=len(answers), expected=1, severity=_severity(profile)
        )
    yield from (_misplaced_result(turn) for turn in step if turn.results)
    yield from _matched(calls, results, profile)


def _severity(profile: Profile) -> Literal["error", "warning"]:
    return "error" if profile.strict_pairing else "warning"


def _matched(calls: list[CallView], results: list[ResultView], profile: Profile) -> Iterator[Violation]:
    """Pairs by id where both have one, what remains by name."""
    waiting = list(calls)
    by_name: list[ResultView] = []
    for result in results:
        call = next((call for call in waiting if call.id and call.id == result.call_id), None)
        if call is None:
            by_name.append(result)
            continue
        waiting.remove(call)
        if result.name != call.name:
            yield _misnamed(result, [call], profile)
    for result in by_name:
        yield from _unpaired_id(result, calls)
        call = next((call for call in waiting if call.name == result.name), None)
        if call is not None:
            waiting.remove(call)
        elif waiting and len(calls) == len(results):
            yield _misnamed(result, waiting, profile)


def _unpaired_id(result: ResultView, calls: list[CallView]) -> Iterator[Violation]:
    if not all(call.id for call in calls):
        return  # a client's own ids on half of a conversation were accepted
    ids = [call.id for call in calls]
    if result.call_id is None:
        message = f"The function response '{result.name}' has no id, its function call has one."
        yield limit("result-id-missing").broken(message, result.id_pointer, actual=None, expected=[*ids])
        return
    broken = limit("result-id-repeated" if result.call_id in ids else "result-id-unknown")
    message = f"The id '{result.call_id}' of a function response is not the id of an unanswered function call."
    yield broken.broken(message, result.id_pointer, actual=result.call_id, expected=[*ids])


def _misnamed(result: ResultView, calls: list[CallView], profile: Profile) -> Violation:
    names: list[JSON] = [call.name for call in calls]
    message = f"The function response '{result.name}' does not match the name of its function call."
    return limit("result-name").broken(
        message, result.pointer, actual=result.name, expected=names, severity=_severity(profile)
    )


_WORDS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
_STAND_INS = frozenset(
    canonical(spelled) for word in _WORDS for spelled in (word, base64.b64encode(word.encode()).decode())
)


def is_stand_in(signature: JSON) -> bool:
    """Whether it is what the provider takes in place of a signature that nobody has (gemini-thought-signature).

    The documents give the words plainly, SDKs send them as base64, in either alphabet, padded or not.
    """
    return canonical(signature) in _STAND_INS


def signature_violations(view: RequestView, profile: Profile, *, vertex: bool) -> Iterator[Violation]:
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
            yield limit("signature-missing").broken(_words(first.name, index + 1, vertex=vertex), first.pointer)


def _opens(turn: TurnView) -> bool:
    return turn.role == "user" and not all(isinstance(part, ResultView) for part in turn.parts)


def _words(name: str, position: int, *, vertex: bool) -> str:
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
