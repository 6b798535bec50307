"""Responses: what the adapter hands on is what the wire says: text, calls, stop reason, usage, model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from harness.apis.jsonvalue import equal
from harness.apis.view import ResponseView, TextView
from harness.contract.model import ChatResponse, StopReason, Usage
from harness.host.exceptions import shorten
from harness.results import Kind
from harness.rules.evidence import Evidence
from harness.rules.matching import cut_calls
from harness.rules.reading import Reading
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject

_ENDS = frozenset({"stop", "completed", "finished", "done"})
"""Words of libraries, as that of OpenAI's form, for an answer that came to its end or to a stop sequence."""


def _answers(evidence: Evidence) -> Iterator[tuple[Reading, ResponseView, ChatResponse]]:
    for index, chat in enumerate(evidence.transcript.chats):
        reading = evidence.answer(index)
        if reading is not None and reading.answer is not None and chat.response is not None:
            yield reading, reading.answer, chat.response


def _text(evidence: Evidence) -> Iterator[Flaw]:
    for reading, wire, given in _answers(evidence):
        if given.text == wire.text:
            continue
        # the stop reason tells the caller what the words are: nobody takes them for an answer
        told = given.stop_reason is StopReason.REFUSAL and given.text == wire.text + wire.refusal
        refused = "the words of a refusal are handed on as text, beside a stop reason that says so"
        yield Flaw(
            refused if told else "the text that the adapter hands on is not the answer's",
            reading.index,
            next((part.pointer for part in wire.parts if isinstance(part, TextView)), ""),
            given.text,
            wire.text,
            kind=Kind.CONVENTION if told else None,
            of_response=True,
        )


def _calls(evidence: Evidence) -> Iterator[Flaw]:
    for reading, wire, given in _answers(evidence):
        issued = [call for call in wire.calls if call.malformed is None]
        cut = [call for _, call in cut_calls(wire, given)]  # truncated-call says what is wrong with these
        whole = [call for call in given.tool_calls if not any(call is other for other in cut)]
        if [call.name for call in issued] != [call.name for call in whole]:
            yield Flaw(
                "the calls that the adapter hands on are not the answer's",
                reading.index,
                issued[0].pointer if issued else "",
                [call.name for call in whole],
                [call.name for call in issued],
                of_response=True,
            )
            continue
        told, taken = [call.id for call in issued], [call.id for call in whole]
        if told != taken and len({*told}) == len(told) and {*told} == {*taken}:
            message = "the calls that the adapter hands on stand in another order than the answer's"
            yield Flaw(message, reading.index, issued[0].pointer, [*taken], [*told], of_response=True)
            continue
        for call, handed in zip(issued, whole, strict=True):
            if not equal(dict(handed.arguments), call.arguments):
                yield Flaw(
                    f"the arguments of {call.name} that the adapter hands on are not the answer's",
                    reading.index,
                    call.arguments_pointer,
                    dict(handed.arguments),
                    call.arguments,
                    of_response=True,
                )


def _stop_reason(evidence: Evidence) -> Iterator[Flaw]:
    for reading, wire, given in _answers(evidence):
        if given.stop_reason != wire.stop_reason:
            word = (given.raw_stop_reason or "").lower()
            one_word = word in _ENDS and wire.stop_reason is StopReason.STOP_SEQUENCE
            yield Flaw(
                f"the provider's stop reason {wire.raw_stop_reason!r}{_of_a_refusal(wire)} means "
                f"{wire.stop_reason.value}, and the adapter reports {given.stop_reason.value}",
                reading.index,
                "",
                given.stop_reason.value,
                wire.stop_reason.value,
                of_response=True,
                kind=Kind.CONVENTION if one_word and given.stop_reason is StopReason.END_TURN else None,
                case=f"{wire.stop_reason.value}: {given.stop_reason.value}",
            )


def _of_a_refusal(wire: ResponseView) -> str:
    """The refusal that the stop reason follows from, where the API has none of its own for it."""
    told = wire.stop_reason is StopReason.REFUSAL and wire.refusal
    return f" of a refusal ({shorten(wire.refusal, 100)!r})" if told else ""


def _usage(evidence: Evidence) -> Iterator[Flaw]:
    """A count that is handed on is the one that the provider gave; one that it left out may be absent or 0."""
    for reading, name, said, handed in _counts(evidence):
        if handed is not None and handed != (said or 0):
            yield Flaw(f"{name} is not what the answer says", reading.index, "", handed, said, of_response=True)


def _usage_offered(evidence: Evidence) -> Iterator[Flaw]:
    for reading, name, said, handed in _counts(evidence):
        if said and handed is None:
            yield Flaw(
                f"the answer says {name}, and it is not handed on", reading.index, "", None, said, of_response=True
            )


def _model(evidence: Evidence) -> Iterator[Flaw]:
    """A model that is handed on is the one that answered, as the answer calls it."""
    for reading, wire, given in _answers(evidence):
        if wire.model is None or given.model is None or _is_named(wire.model, given.model):
            continue
        asked = reading.request.model if reading.request is not None else None
        told = asked is not None and _is_named(asked, given.model)
        yield Flaw(
            "the model that was asked for is handed on, and another one says that it has answered"
            if told
            else "the model that is handed on is neither the one that answered nor the one that was asked",
            reading.index,
            "",
            given.model,
            wire.model,
            kind=Kind.CONVENTION if told else None,
            of_response=True,
        )


def _is_named(model: str, name: str) -> bool:
    """Whether a name is a model's: routers and SDKs put their own word for the provider before it."""
    return name == model or name.endswith((f"/{model}", f":{model}")) or model.endswith(f"/{name}")


def _counts(evidence: Evidence) -> Iterator[tuple[Reading, str, int | None, int | None]]:
    """Each count by its name: what the answer says, and what the adapter hands on."""
    for reading, wire, given in _answers(evidence):
        for field in fields(Usage):
            yield reading, field.name, getattr(wire.usage, field.name), getattr(given.usage, field.name)


_RESPONSE = "harness.contract.model: ChatResponse"

RULES = (
    Rule(
        "response-text",
        Subject.RESPONSES,
        "The text is the answer's, to the code point.",
        _RESPONSE,
        _text,
        kind=Kind.LOSS,
        because="the caller reads other words than the model said; which part the words of a refusal are is ours",
        remedy="return all text of the answer, in its order and unchanged",
    ),
    Rule(
        "response-calls",
        Subject.RESPONSES,
        "The calls are the answer's: all, in order, with their arguments.",
        _RESPONSE,
        _calls,
        kind=Kind.LOSS,
        because="the caller runs other calls than the model made",
        remedy="return each call of the answer with its id, its name and {arguments} parsed, in the answer's order",
    ),
    Rule(
        "stop-reason",
        Subject.RESPONSES,
        "The stop reason is the wire's, in canonical words.",
        "anthropic-stop-reasons, openai-chat-stop-reasons, openai-responses-stop-reasons, gemini-stop-reasons",
        _stop_reason,
        kind=Kind.LOSS,
        because="the caller cannot tell why the model stopped",
        remedy="map {stop} to the word of `StopReason` that is expected",
    ),
    Rule(
        "usage",
        Subject.RESPONSES,
        "The usage is the wire's, counted in one convention.",
        "anthropic-usage, openai-chat-usage, openai-responses-usage, gemini-usage",
        _usage,
        kind=Kind.LOSS,
        because="the caller reckons with other numbers than the provider; one that is not offered is no wrong number",
        remedy="read the counts from {usage}, and count cached tokens among the input",
    ),
    Rule(
        "usage-offered",
        Subject.RESPONSES,
        "Each count that the answer says is handed on.",
        "anthropic-usage, openai-chat-usage, openai-responses-usage, gemini-usage",
        _usage_offered,
        kind=Kind.CONVENTION,
        because="which counters an adapter offers is its own affair, and nobody reckons with one that is not there",
        remedy="return each count that {usage} has",
    ),
    Rule(
        "response-model",
        Subject.RESPONSES,
        "A model that is handed on is the one that says it has answered.",
        _RESPONSE,
        _model,
        kind=Kind.LOSS,
        because="the caller takes the answer for another model's, and its price too; to hand on the one "
        "that was asked for is the adapter's own affair",
        remedy="return the model that the answer names, or none",
    ),
)
