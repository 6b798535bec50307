"""Rules about responses: the adapter must return what is on the wire.

Some rules are only for wrapped libraries or for providers. `harness.bridge` keeps a library's own values in
`ChatResponse.reported`, so that the wrapper cannot hide a fault. If a provider departs from its API, the finding is a
warning that blames the provider.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from harness.apis.jsonvalue import as_list, as_object, equal, loads_or_none, resolve
from harness.apis.response_rules import Subject
from harness.apis.view import CallView, ResponseView, TextView
from harness.model.messages import JSON, ChatResponse, Refusal, StopReason, Thinking, ToolCall, Usage
from harness.model.protocols import Capability
from harness.platform.exceptions import shorten
from harness.results import Blame, Kind, Severity
from harness.rules.call_matching import cut_calls
from harness.rules.evidence import Evidence, ParsedExchange
from harness.rules.rule import RuleTable, RuleViolation

_ENDS = frozenset({"stop", "completed", "finished", "done"})
"""Stop reasons that libraries use for the end of an answer or for a stop sequence."""

_OTHER_REASONS = frozenset({"other", "unknown"})
"""Words of libraries for any stop reason that is rare."""

_AMBIGUOUS_STOP_REASONS = _ENDS | {"complete", "end_turn", "length", "tool", "tools"}
"""Library stop reasons that may also be part of a provider's stop reason. They are not reported as a changed copy of
it.
"""


def _answers(evidence: Evidence) -> Iterator[tuple[ParsedExchange, ResponseView, ChatResponse]]:
    for index, chat in enumerate(evidence.transcript.chats):
        parsed = evidence.answer(index)
        if parsed is not None and parsed.answer is not None and chat.response is not None:
            yield parsed, parsed.answer, chat.response


_RESPONSE = "harness.model.messages: ChatResponse"
_BRIDGE = "harness.bridge"
RULES = RuleTable(Subject.RESPONSES, "anthropic-usage, openai-chat-usage, openai-responses-usage, gemini-usage")


@RULES.add(
    "response-text",
    "The adapter returns the text of the answer unchanged.",
    source=_RESPONSE,
    because="the caller reads a different text than the model's; the part type of a refusal is only a convention",
    remedy="return all text of the answer, in its order and unchanged",
)
def _text(evidence: Evidence) -> Iterator[RuleViolation]:
    for parsed, wire, given in _answers(evidence):
        if given.text == wire.text:
            continue
        is_empty = wire.stop_reason is StopReason.REFUSAL and not wire.text and not wire.refusal
        with_refusal = is_empty or given.text == wire.text + wire.refusal
        is_refusal = with_refusal and (given.stop_reason is StopReason.REFUSAL or _has_text_only(given))
        reason = ", with the stop reason of a refusal" if given.stop_reason is StopReason.REFUSAL else ""
        refused = f"a refusal is returned as text{reason}"
        message = refused if is_refusal else "the adapter returns a different text than the answer has"
        yield parsed.response_violation(
            message,
            next((part.pointer for part in wire.parts if isinstance(part, TextView)), ""),
            given.text,
            wire.text,
            kind=Kind.CONVENTION if is_refusal else None,
        )


@RULES.add(
    "response-refusal",
    "The adapter returns the text of the model's refusal.",
    source=_RESPONSE,
    because="the caller does not learn why the model declines",
    remedy="return the text of the refusal as a `Refusal` part or a `Text` part",
)
def _refusal(evidence: Evidence) -> Iterator[RuleViolation]:
    for parsed, wire, given in _answers(evidence):
        handed = "".join(part.text for part in given.message.parts if isinstance(part, Refusal))
        # `response-text` reports other texts
        if wire.refusal and handed != wire.refusal and given.text == wire.text:
            message = f"the adapter returns {'another' if handed else 'no'} refusal, and the answer has one"
            pointer = next((each.pointer for each in wire.parts if getattr(each, "kind", "") == "refusal"), "")
            yield parsed.response_violation(message, pointer, handed, wire.refusal)


@RULES.add(
    "response-thinking",
    "The adapter returns the reasoning of the answer unchanged, if it returns any.",
    source=_RESPONSE,
    because="the caller reads a different reasoning than the model's",
    remedy="return each text of the reasoning once, and nothing else, or no `Thinking` part",
)
def _thinking(evidence: Evidence) -> Iterator[RuleViolation]:
    for parsed, wire, given in _answers(evidence):
        handed = [part.text for part in given.message.parts if isinstance(part, Thinking)]
        if not handed or not wire.reasoning:
            continue
        left = "\n".join(handed)
        for text in sorted((text.strip() for text in wire.reasoning), key=len, reverse=True):
            left = left.replace(text, "", 1)
        missing = [text for text in wire.reasoning if text.strip() not in "\n".join(handed)]
        if left.strip() or len(missing) == len(wire.reasoning):
            message = "the adapter returns different reasoning than the answer has"
            yield parsed.response_violation(message, "", "\n".join(handed), [*wire.reasoning])


@RULES.add(
    "response-calls",
    "The adapter returns all calls of the answer, in order, with their arguments.",
    source=_RESPONSE,
    because="the caller runs calls that the model did not make",
    remedy="return each call of the answer, in order, with its id, its name and its parsed arguments",
)
def _calls(evidence: Evidence) -> Iterator[RuleViolation]:
    for parsed, wire, given in _answers(evidence):
        read_ids = {call.id for call in given.tool_calls}
        issued = [
            call for call in wire.calls if call.malformed is None and not (call.free_form and call.id not in read_ids)
        ]
        cut = [call for _, call in cut_calls(wire, given)]  # reported by truncated-call
        whole = [call for call in given.tool_calls if not any(call is other for other in cut)]
        if [call.name for call in issued] != [call.name for call in whole]:
            yield _wrong_calls_violation(parsed, issued, whole, given)
            continue
        issued_ids, returned_ids = [call.id for call in issued], [call.id for call in whole]
        has_unique_ids = len({*issued_ids}) == len(issued_ids)
        if issued_ids != returned_ids and has_unique_ids and {*issued_ids} == {*returned_ids}:
            message = "the adapter returns the calls of the answer in another order"
            yield parsed.response_violation(message, issued[0].pointer, [*returned_ids], [*issued_ids], case="order")
            continue
        for call, returned in zip(issued, whole, strict=True):
            if not call.free_form and not equal(dict(returned.arguments), call.arguments):
                message = f"the adapter returns different arguments of {call.name} than the answer has"
                yield parsed.response_violation(
                    message, call.arguments_pointer, dict(returned.arguments), call.arguments, case="arguments"
                )


def _wrong_calls_violation(
    parsed: ParsedExchange, issued: Sequence[CallView], returned: Sequence[ToolCall], given: ChatResponse
) -> RuleViolation:
    """Return the violation for an adapter that returns other tools' calls, or another number of calls."""
    names = {call.name for call in issued}
    unreadable = [as_object(each) for each in as_list(given.reported.get("unreadable-calls"))]
    broken = next((each for each in unreadable if each.get("name") in names and not _has_object(each)), None)
    if broken is not None:
        message = f"the arguments of {broken['name']} are returned as text that is not a JSON object"
        right: list[JSON] = [call.arguments for call in issued if call.name == broken["name"]]
        return parsed.response_violation(message, issued[0].pointer, broken["arguments"], right, case="arguments")
    message = "the adapter returns different calls than the answer has"
    if len(issued) != len(returned):
        plural = "" if len(issued) == 1 else "s"
        message = f"the answer has {len(issued)} call{plural}, but the adapter returns {len(returned)}"
    return parsed.response_violation(
        message,
        issued[0].pointer if issued else "",
        [call.name for call in returned],
        [call.name for call in issued],
        case="calls",
    )


def _has_object(unreadable: dict[str, JSON]) -> bool:
    """Return whether the arguments of a call that the bridge left out are a JSON object after all."""
    text = unreadable.get("arguments")
    return isinstance(text, str) and isinstance(loads_or_none(text), dict)


@RULES.add(
    "stop-reason",
    "The adapter returns the stop reason of the answer, as a canonical value.",
    source="anthropic-stop-reasons, openai-chat-stop-reasons, openai-responses-stop-reasons, gemini-stop-reasons",
    because="the caller cannot tell why the model stopped",
    remedy="map {stop} to the expected member of `StopReason`",
)
def _stop_reason(evidence: Evidence) -> Iterator[RuleViolation]:
    for parsed, wire, given in _answers(evidence):
        if given.stop_reason != wire.stop_reason:
            word = (given.raw_stop_reason or "").lower()
            one_word = word in _ENDS and wire.stop_reason is StopReason.STOP_SEQUENCE
            absent = given.reported.get("no-stop-reason") is True
            is_rare = wire.stop_reason in (StopReason.MALFORMED_CALL, StopReason.ERROR)
            is_general = is_rare and (given.stop_reason is StopReason.ERROR or word in _OTHER_REASONS)
            is_of_refusal = bool(wire.refusal) and _has_text_only(given)  # `response-refusal` reports its loss
            message = (
                f"the provider's stop reason {wire.raw_stop_reason!r}{_refusal_clause(wire)} means "
                f"{wire.stop_reason.value}, and the adapter reports {'none' if absent else given.stop_reason.value}"
            )
            yield parsed.response_violation(
                message,
                "",
                given.stop_reason.value,
                wire.stop_reason.value,
                kind=Kind.CONVENTION
                if absent or is_of_refusal or is_general or (one_word and given.stop_reason is StopReason.END_TURN)
                else None,
                case=f"{wire.stop_reason.value}: {given.stop_reason.value}",
            )


@RULES.add(
    "raw-stop-reason",
    "The provider's own stop reason is returned unchanged, and not that of an earlier answer.",
    source=_RESPONSE,
    because="a program that reads the provider's value gets a different one; a library may have its own values",
    severity=Severity.WARNING,
    remedy="return {stop} unchanged in `raw_stop_reason`, or `None`",
)
def _raw_stop_reason(evidence: Evidence) -> Iterator[RuleViolation]:
    earlier: set[str] = set()
    for parsed, wire, given in _answers(evidence):
        word, real = (given.raw_stop_reason or "").lower(), (wire.raw_stop_reason or "").lower()
        is_piece = bool(word and real) and (word in real or real in word)
        if word != real and word not in _AMBIGUOUS_STOP_REASONS and (is_piece or word in earlier):
            message = (
                f"the provider's stop reason is {wire.raw_stop_reason!r}, but the adapter returns "
                f"{given.raw_stop_reason!r}"
            )
            yield parsed.response_violation(message, "", given.raw_stop_reason, wire.raw_stop_reason)
        earlier.add(real)


def _has_text_only(given: ChatResponse) -> bool:
    """Return whether the client's answers have no field for a refusal, so the client can only return it as text."""
    return given.reported.get("no-refusal") is True


def _refusal_clause(wire: ResponseView) -> str:
    """Return a clause that quotes the refusal, or an empty string if the answer is not a refusal."""
    is_refusal = wire.stop_reason is StopReason.REFUSAL and wire.refusal
    return f" of a refusal ({shorten(wire.refusal, 100)!r})" if is_refusal else ""


@RULES.add(
    "usage",
    "The adapter returns the token counts of the answer; cached tokens are part of the input.",
    because="the caller's token counts differ from the provider's; a missing count is not wrong",
    remedy="read the counts from {usage}, and include cached tokens in the input tokens",
)
def _usage(evidence: Evidence) -> Iterator[RuleViolation]:
    """Report counts that differ from the provider's. A count that the provider omits may be absent or 0.

    A client's own object may leave out cached tokens from the input and reasoning from the output, as some APIs do.
    """
    for parsed, wire, given in _answers(evidence):
        own = _counts_of_api(wire.usage) if given.reported.get("own-counts") is True else {}
        for name, on_wire, handed in _counts(wire, given):
            if handed is not None and handed != (on_wire or 0) and handed != own.get(name):
                yield parsed.response_violation(f"{name} is not the value in the answer", "", handed, on_wire)


def _counts_of_api(usage: Usage) -> dict[str, int]:
    """Return the input tokens without cached ones, and the output tokens without reasoning."""
    cached = (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    return {
        "input_tokens": (usage.input_tokens or 0) - cached,
        "output_tokens": (usage.output_tokens or 0) - (usage.reasoning_tokens or 0),
    }


@RULES.add(
    "usage-offered",
    "Each count of the answer is returned.",
    kind=Kind.CONVENTION,
    because="this is only a convention: an adapter may choose which counts it returns",
    remedy="return each count in {usage}",
)
def _usage_offered(evidence: Evidence) -> Iterator[RuleViolation]:
    for parsed, wire, given in _answers(evidence):
        for name, on_wire, handed in _counts(wire, given):
            if not on_wire or handed is not None:
                continue
            message = f"the answer has {name}, but the adapter does not return it"
            is_requested = parsed.request is not None and parsed.request.usage_pointer is not None
            if is_requested and given.reported.get("empty-counts") is True:
                message += ", although the request asks for the counts and the answer's field for them is empty"
                yield parsed.response_violation(message, "", None, on_wire, kind=Kind.LOSS)
            elif name in _PRICED_APART and given.usage.input_tokens is not None and not _counts_all_input(given, wire):
                message += ", although it returns input_tokens: the caller computes other costs"
                yield parsed.response_violation(
                    message, "", None, on_wire, kind=Kind.LOSS, severity=Severity.WARNING, case=name
                )
            else:
                yield parsed.response_violation(message, "", None, on_wire)


def _counts_all_input(given: ChatResponse, wire: ResponseView) -> bool:
    """Return whether the input tokens of a client's own object include the cached ones. Then the costs that its caller
    computes are at most too high.
    """
    return given.reported.get("own-counts") is True and given.usage.input_tokens == wire.usage.input_tokens


_PRICED_APART = frozenset({"cache_read_tokens", "cache_write_tokens"})
"""Input token counts that are priced differently from the rest of the input."""


@RULES.add(
    "response-model",
    "The returned model is the one that the answer names.",
    source=_RESPONSE,
    because="the caller assigns the answer and its price to another model; returning the requested name is only a "
    "convention",
    remedy="return the model that the answer names, or `None`",
)
def _model(evidence: Evidence) -> Iterator[RuleViolation]:
    for parsed, wire, given in _answers(evidence):
        if wire.model is None or given.model is None or _is_named(wire.model, given.model):
            continue
        requested = parsed.request.model if parsed.request is not None else None
        is_alias = requested is not None and _is_named(requested, given.model)
        message = (
            "the adapter returns the requested model, but the answer names another one"
            if is_alias
            else "the model that is returned is neither the one that the answer names nor the requested one"
        )
        yield parsed.response_violation(
            message, "", given.model, wire.model, kind=Kind.CONVENTION if is_alias else None
        )


@RULES.add(
    "response-id",
    "The returned id is the one that the provider gave the response.",
    source="harness.model.messages: ChatResponse; openai-responses-previous-response-unknown",
    because="the caller cannot continue the conversation that the provider keeps under this id",
    remedy="return the id of the response as it came in `ChatResponse.id`",
)
def _id(evidence: Evidence) -> Iterator[RuleViolation]:
    able = Capability.PREVIOUS_RESPONSE in evidence.transcript.capabilities
    for parsed, wire, given in _answers(evidence):
        if wire.id is not None and given.id != wire.id and (able or given.id is not None):
            message = f"the adapter returns {'another' if given.id else 'no'} id of the response"
            yield parsed.response_violation(message, "/id", given.id, wire.id)


def _is_named(model: str, name: str) -> bool:
    """Return whether `name` refers to `model`. Routers and SDKs may add the provider's name as a prefix."""
    return name == model or name.endswith((f"/{model}", f":{model}")) or model.endswith(f"/{name}")


def _counts(wire: ResponseView, given: ChatResponse) -> Iterator[tuple[str, int | None, int | None]]:
    """Yield each count: its name, the value in the answer, and the value that the adapter returned."""
    for field in fields(Usage):
        yield field.name, getattr(wire.usage, field.name), getattr(given.usage, field.name)


_LIBRARY_END_WORDS = frozenset({"stop", "end_turn"})
"""Stop reasons that libraries and APIs use for the end of a turn."""
_CALL_STOPS = frozenset({"tool_calls", "tool_use", "function_call"})
"""Stop reasons of answers with calls."""


def _library_answers(evidence: Evidence) -> Iterator[tuple[ParsedExchange, ResponseView, ChatResponse]]:
    for index, chat in enumerate(evidence.transcript.chats):
        parsed = evidence.answer(index)
        if parsed is not None and parsed.response is not None and chat.response is not None:
            yield parsed, parsed.response, chat.response


@RULES.add(
    "library-stop-reason",
    "A library reports that an answer ends in calls if the provider does.",
    source=_BRIDGE + "; anthropic-stop-reasons, openai-chat-stop-reasons",
    because="a loop that follows the stop reason runs none of the calls",
    remedy="have the library report that the answer ended with calls if {stop} says so",
)
def _library_stop_reason(evidence: Evidence) -> Iterator[RuleViolation]:
    for parsed, wire, given in _library_answers(evidence):
        reported, word = (given.raw_stop_reason or "").lower(), (wire.raw_stop_reason or "").lower()
        if reported in _LIBRARY_END_WORDS and word in _CALL_STOPS and given.stop_reason is StopReason.TOOL_USE:
            message = (
                f"the provider's stop reason is {wire.raw_stop_reason!r} for an answer with calls, but the library "
                "returns "
                f"{given.raw_stop_reason!r}"
            )
            yield parsed.response_violation(message, "", given.raw_stop_reason, wire.raw_stop_reason)


@RULES.add(
    "library-empty-arguments",
    "A library returns empty arguments as an empty object.",
    source=_BRIDGE + "; openai-chat-call-form",
    because="a client that parses them gets an error, and runs nothing",
    remedy="have the library return empty arguments as `{{}}`",
)
def _empty_arguments(evidence: Evidence) -> Iterator[RuleViolation]:
    for parsed, wire, given in _library_answers(evidence):
        for place in as_list(given.reported.get("empty-arguments")):
            call = wire.calls[place] if isinstance(place, int) and place < len(wire.calls) else None
            sent = None if call is None or call.malformed is not None else resolve(wire.body, call.arguments_pointer)
            if call is not None and sent not in (None, ""):
                message = f"the library returns no text for the arguments of {call.name}, which is not JSON"
                yield parsed.response_violation(message, call.arguments_pointer, "", sent)


@RULES.add(
    "library-cut-call",
    "A library returns no call that is cut short or malformed.",
    source=_BRIDGE,
    because="its users have to check themselves whether the call is complete",
    severity=Severity.WARNING,
    remedy="drop calls whose arguments are cut or malformed, in the library",
)
def _cut_call(evidence: Evidence) -> Iterator[RuleViolation]:
    for parsed, wire, given in _library_answers(evidence):
        for cut_name in as_list(given.reported.get("unreadable-calls")):
            name = as_object(cut_name).get("name")
            cut = next((call for call in wire.calls if call.malformed is not None and call.name == name), None)
            if cut is not None:
                by_limit = wire.stop_reason is StopReason.MAX_TOKENS
                how = "cut by max_tokens" if by_limit else "whose arguments are not JSON"
                message = f"the library returns a call of {cut.name} {how}"
                yield parsed.response_violation(message, cut.arguments_pointer, cut_name, "no call")


@RULES.add(
    "library-call-indices",
    "A library gives each call of a stream an index of its own.",
    subject=Subject.STREAMING,
    source=_BRIDGE + "; openai-chat-call-deltas",
    because="a client that joins the pieces by index gets one call with the arguments of two",
    remedy="have the library keep the index that each call of the stream has",
)
def _indices(evidence: Evidence) -> Iterator[RuleViolation]:
    for parsed, wire, given in _library_answers(evidence):
        reported = given.reported.get("indices")
        indices: list[JSON] = [index for index in as_list(reported) if index is not None]
        if len(set(map(str, indices))) < len(indices):
            message = "the library gives calls of one stream the same index, so their arguments are joined"
            yield parsed.response_violation(
                message, wire.calls[0].pointer if wire.calls else "", reported, "an index for each call"
            )


_PROVIDER: dict[str, Any] = {"severity": Severity.WARNING, "blame": Blame.PROVIDER}
"""Fields of rules whose violations only the provider can fix."""


def _provider_answers(evidence: Evidence) -> Iterator[tuple[ParsedExchange, ResponseView]]:
    for parsed in evidence.parsed_exchanges:
        if parsed.answer is not None:
            yield parsed, parsed.answer


@RULES.add(
    "provider-id-missing",
    "The API issues an id for each call.",
    source="anthropic-call-fields, openai-chat-calls-answered, openai-responses-result-has-call",
    because="a result cannot be matched to its call",
    **_PROVIDER,
)
def _missing_ids(evidence: Evidence) -> Iterator[RuleViolation]:
    if evidence.transcript.profile.call_ids is not True:
        return
    for parsed, response in _provider_answers(evidence):
        if evidence.rule_set(parsed).service in evidence.api.services.clouds:
            continue  # a cloud may differ: Vertex issued no ids for Gemini 3.5 in July 2026
        for call in response.calls:
            if not call.id and call.id_pointer:
                message = f"the call of {call.name} came without an id"
                yield parsed.response_violation(message, call.pointer, call.id)


@RULES.add(
    "provider-signature-missing",
    "Calls carry a thought signature where the profile of the model has them.",
    source="gemini-thought-signature",
    because="the call cannot be sent back as the API requires",
    **_PROVIDER,
)
def _missing_signatures(evidence: Evidence) -> Iterator[RuleViolation]:
    if evidence.transcript.profile.thought_signatures != "required":
        return
    for parsed, response in _provider_answers(evidence):
        calls = response.calls
        if calls and not any(call.opaque for call in calls):
            yield parsed.response_violation("the calls came without a thought signature", calls[0].pointer)


@RULES.add(
    "provider-stop-reason",
    "The stop reason is documented, and reports calls if the API has a stop reason for them.",
    source="anthropic-stop-reasons, openai-chat-stop-reasons, openai-responses-stop-reasons, gemini-stop-reasons",
    because="the caller cannot tell why the model stopped",
    **_PROVIDER,
)
def _provider_stop_reason(evidence: Evidence) -> Iterator[RuleViolation]:
    for parsed, response in _provider_answers(evidence):
        calls = [call for call in response.calls if call.malformed is None]
        if response.stop_reason is StopReason.UNKNOWN:
            message = f"the API has no stop reason {response.raw_stop_reason!r}"
            yield parsed.response_violation(message, "", response.raw_stop_reason)
        elif calls and response.stop_reason is StopReason.END_TURN:
            message = f"the response calls {calls[0].name} and says {response.raw_stop_reason!r}"
            yield parsed.response_violation(
                message, calls[0].pointer, response.raw_stop_reason, StopReason.TOOL_USE.value
            )


@RULES.add(
    "provider-usage-missing",
    "The response reports its token counts.",
    because="the cost of the answer is unknown",
    **_PROVIDER,
)
def _missing_usage(evidence: Evidence) -> Iterator[RuleViolation]:
    for parsed, response in _provider_answers(evidence):
        is_counted = parsed.request is not None and parsed.request.usage_pointer is not None
        if response.streamed and evidence.api.traits.counts_when_asked and not is_counted:
            continue  # reported by stream-requested (openai-chat-stream-usage)
        unfinished = response.stop_reason in (StopReason.PAUSE, StopReason.REFUSAL)  # blocked, or still running
        if not unfinished and not response.usage.input_tokens:
            yield parsed.response_violation("no input tokens are counted", "", response.usage.input_tokens)
