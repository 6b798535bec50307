"""Provider: where a response departs from what its API promises, so that nobody looks for it in the adapter.

Stand-ins for a provider (mocks, gateways, compatible servers) depart in these places. Each is a warning: the adapter
has to live with it, and what it makes of it is judged by the other rules.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.view import ResponseView
from harness.contract.model import StopReason
from harness.results import Blame, Kind, Severity
from harness.rules.evidence import Evidence
from harness.rules.reading import Reading
from harness.rules.rule import Check, Flaw, Rule
from harness.scenarios.schema import Subject


def _answers(evidence: Evidence) -> Iterator[tuple[Reading, ResponseView]]:
    for reading in evidence.readings:
        if reading.answer is not None:
            yield reading, reading.answer


def _ids(evidence: Evidence) -> Iterator[Flaw]:
    if evidence.transcript.profile.call_ids is not True:
        return
    for reading, response in _answers(evidence):
        for call in response.calls:
            if not call.id:
                yield Flaw(
                    f"the call of {call.name} came without an id",
                    reading.index,
                    call.pointer,
                    call.id,
                    of_response=True,
                )


def _signatures(evidence: Evidence) -> Iterator[Flaw]:
    if evidence.transcript.profile.thought_signatures != "required":
        return
    for reading, response in _answers(evidence):
        calls = response.calls
        if calls and not any(call.opaque for call in calls):
            yield Flaw("the calls came without a thought signature", reading.index, calls[0].pointer, of_response=True)


def _stop_reasons(evidence: Evidence) -> Iterator[Flaw]:
    for reading, response in _answers(evidence):
        calls = [call for call in response.calls if call.malformed is None]
        if response.stop_reason is StopReason.UNKNOWN:
            yield Flaw(
                f"the API has no stop reason {response.raw_stop_reason!r}",
                reading.index,
                "",
                response.raw_stop_reason,
                of_response=True,
            )
        elif calls and response.stop_reason is StopReason.END_TURN:
            yield Flaw(
                f"the response calls {calls[0].name} and says {response.raw_stop_reason!r}",
                reading.index,
                calls[0].pointer,
                response.raw_stop_reason,
                StopReason.TOOL_USE.value,
                of_response=True,
            )


def _usage(evidence: Evidence) -> Iterator[Flaw]:
    for reading, response in _answers(evidence):
        if response.streamed and evidence.api.traits.counts_when_asked and not _is_counted(reading):
            continue  # stream-requested says that nobody asked (openai-chat-stream-usage)
        unfinished = response.stop_reason in (StopReason.PAUSE, StopReason.REFUSAL)  # blocked, or still at work
        if not unfinished and not response.usage.input_tokens:
            yield Flaw("no input tokens are counted", reading.index, "", response.usage.input_tokens, of_response=True)


def _is_counted(reading: Reading) -> bool:
    return reading.request is not None and reading.request.usage_pointer is not None


def _rule(name: str, requirement: str, source: str, check: Check, because: str) -> Rule:
    """What a provider departs in loses something, and nobody here can mend it: a warning."""
    return Rule(
        name, Subject.RESPONSES, requirement, source, check, Kind.LOSS, because, Severity.WARNING, Blame.PROVIDER
    )


RULES = (
    _rule(
        "provider-id-missing",
        "The API issues an id for each call.",
        "anthropic-call-fields, openai-chat-calls-answered, openai-responses-result-has-call",
        _ids,
        because="nothing says which call a result answers",
    ),
    _rule(
        "provider-signature-missing",
        "Calls carry a thought signature where the profile of the model has them.",
        "gemini-thought-signature",
        _signatures,
        because="the call cannot go back as the API wants it",
    ),
    _rule(
        "provider-stop-reason",
        "The stop reason is a word of the API, and says that there are calls where the API has a word for that.",
        "anthropic-stop-reasons, openai-chat-stop-reasons, openai-responses-stop-reasons, gemini-stop-reasons",
        _stop_reasons,
        because="the caller cannot tell why the model stopped",
    ),
    _rule(
        "provider-usage-missing",
        "The response says how many tokens it took.",
        "anthropic-usage, openai-chat-usage, openai-responses-usage, gemini-usage",
        _usage,
        because="nobody can say what the answer cost",
    ),
)
