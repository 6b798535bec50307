"""Faults at the events of a stream: what the adapter hands on while an answer arrives, and the answer at its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from jiter import from_json

from harness.contract.model import (
    JSON,
    ArgumentsDelta,
    ChatRequest,
    ChatResponse,
    Finish,
    Part,
    StopReason,
    StreamEvent,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from tests.broken.fault import (
    ALL,
    GEMINI,
    OPENAI,
    THINKING,
    Fault,
    Wrap,
    Wrapped,
    client,
    edited_message,
    finishes,
    sends,
    streams,
)
from tests.broken.places import (
    BODY,
    RESPONSE_ARGUMENTS,
    RESPONSE_CALL,
    RESPONSE_CALL_ID,
    RESPONSE_TEXT,
    Place,
    everywhere,
)
from tests.broken.responses import without_calls

Events = list[StreamEvent]


def each(edit: Callable[[StreamEvent], StreamEvent | None]) -> Wrap:
    """Every event of a stream edited by itself; `None` drops it."""
    return streams(lambda events: [edited for event in events if (edited := edit(event)) is not None])


def renumbered(edit: Callable[[int], int], *kinds: type[StreamEvent]) -> Callable[[StreamEvent], StreamEvent]:
    """Events of these kinds under another number; without any, all that have one."""

    def renumber(event: StreamEvent) -> StreamEvent:
        if isinstance(event, kinds or OF_CALLS) and isinstance(event, OF_CALLS):
            return replace(event, index=edit(event.index))
        return event

    return renumber


OF_CALLS = (ToolCallStart, ArgumentsDelta, ToolCallEnd)


def _finished_twice(events: Events) -> Iterable[StreamEvent]:
    return [*events, events[-1]]


def _unfinished(events: Events) -> Iterable[StreamEvent]:
    return events[:-1]


def _finished_early(events: Events) -> Iterable[StreamEvent]:
    return [*events[:-2], events[-1], events[-2]]


def _text_behind_finish(events: Events) -> Iterable[StreamEvent]:
    return [*events, TextDelta("")]


def _started_late(events: Events) -> Iterator[StreamEvent]:
    """Each call is announced behind the first piece of its arguments."""
    waiting: ToolCallStart | None = None
    for event in events:
        if isinstance(event, ToolCallStart):
            waiting = event
            continue
        yield event
        if waiting is not None:
            yield waiting
            waiting = None


def _ended_early(events: Events) -> Iterator[StreamEvent]:
    """Each call ends where it starts."""
    for event in events:
        if not isinstance(event, ToolCallEnd):
            yield event
        if isinstance(event, ToolCallStart):
            yield ToolCallEnd(event.index)


def _ended_twice(events: Events) -> Iterator[StreamEvent]:
    for event in events:
        yield event
        if isinstance(event, ToolCallEnd):
            yield event


def _started_again(events: Events) -> Iterator[StreamEvent]:
    """Each piece of the arguments announces the call once more."""
    start: StreamEvent | None = None
    for event in events:
        if isinstance(event, ToolCallStart):
            start = event
        elif isinstance(event, ArgumentsDelta) and start is not None:
            yield start
        yield event


def _counted_as_parts(events: Events) -> Iterator[StreamEvent]:
    """Calls have the numbers of the parts of the answer, of which a text is the first."""
    texts = any(isinstance(event, TextDelta) for event in events)
    for event in events:
        yield renumbered(lambda index: index + texts)(event)


def _raw(events: Events) -> Iterator[StreamEvent]:
    """What the wire says, in the place of an event."""
    wire: list[StreamEvent] = [{"type": "ping"}]  # pyright: ignore[reportAssignmentType] - an adapter may be untyped
    yield from (*events[:-1], *wire, events[-1])


def _doubled_texts(events: Events) -> Iterator[StreamEvent]:
    for event in events:
        yield event
        if isinstance(event, TextDelta):
            yield event


def _last_text_lost(events: Events) -> Iterable[StreamEvent]:
    last = [position for position, event in enumerate(events) if isinstance(event, TextDelta)][-1:]
    return [event for position, event in enumerate(events) if position not in last]


def _text_at_the_end(events: Events) -> Iterator[StreamEvent]:
    """The pieces, and behind them the whole text again, as the event that closes it says it."""
    for event in events:
        if isinstance(event, Finish) and event.response.text:
            yield TextDelta(event.response.text)
        yield event


def _of_calls(events: Events, edit: Callable[[int, str], str]) -> Iterator[StreamEvent]:
    """The arguments of each call in one piece, edited: `edit(index, text)`."""
    texts: dict[int, str] = {}
    for event in events:
        if isinstance(event, ArgumentsDelta):
            texts[event.index] = texts.get(event.index, "") + event.text
            continue
        if isinstance(event, ToolCallEnd):
            yield ArgumentsDelta(event.index, edit(event.index, texts.get(event.index, "")))
        yield event


def arguments(edit: Callable[[str], str]) -> Wrap:
    """The arguments of each call come in one piece, edited."""
    return streams(lambda events: _of_calls(events, lambda _, text: edit(text)))


def _parsed_early(text: str) -> str:
    """What can be read before the last digit of the last number is there."""
    return json.dumps(from_json(text.rstrip("}")[:-1].encode(), partial_mode=True))


def _arguments_twice(events: Events) -> Iterator[StreamEvent]:
    """The pieces, and behind them all of them again, as the event that closes the arguments says them."""
    texts: dict[int, str] = {}
    for event in events:
        if isinstance(event, ArgumentsDelta):
            texts[event.index] = texts.get(event.index, "") + event.text
        if isinstance(event, ToolCallEnd):
            yield ArgumentsDelta(event.index, texts.get(event.index, ""))
        yield event


def _arguments_of_a_neighbour(events: Events) -> Iterator[StreamEvent]:
    """A call without arguments gets those of another one."""
    others = "".join(event.text for event in events if isinstance(event, ArgumentsDelta) and event.index == 0)
    return _of_calls(events, lambda _, text: others if text in ("", "{}") else text)


def _exchanged(events: Events) -> Iterator[StreamEvent]:
    """The arguments of the first call are handed on as those of the second, and the other way round."""
    numbers = {0: 1, 1: 0}
    texts: dict[int, str] = {}
    for event in events:
        if isinstance(event, ArgumentsDelta):
            other = numbers.get(event.index, event.index)
            texts[other] = texts.get(other, "") + event.text
        elif isinstance(event, Finish):
            yield from (ArgumentsDelta(index, text) for index, text in texts.items())
            yield from (ToolCallEnd(index) for index in texts)
            yield event
        elif not isinstance(event, ToolCallEnd):
            yield event


def _arguments_of_the_last(events: Events) -> Iterator[StreamEvent]:
    """Whatever arrives belongs to the call that started last."""
    last = 0
    for event in events:
        if isinstance(event, ToolCallStart):
            last = event.index
        yield replace(event, index=last) if isinstance(event, ArgumentsDelta) else event


def _unannounced(event: StreamEvent) -> StreamEvent | None:
    return None if isinstance(event, OF_CALLS) else event


def _renamed(event: StreamEvent) -> StreamEvent:
    return replace(event, name="") if isinstance(event, ToolCallStart) else event


def _with_another_id(event: StreamEvent) -> StreamEvent:
    return replace(event, id=f"call_{event.index}") if isinstance(event, ToolCallStart) else event


def _thought_as_text(event: StreamEvent) -> StreamEvent:
    return TextDelta(event.text) if isinstance(event, ThinkingDelta) else event


def _without_thinking(event: StreamEvent) -> StreamEvent | None:
    return None if isinstance(event, ThinkingDelta) else event


def parts(edit: Callable[[Part], Part | None]) -> Wrap:
    """The parts of the answer at the end of a stream, edited; `None` drops one."""
    return finishes(lambda response: replace(response, message=edited_message(response.message, edit)))


def _with_arguments(part: Part) -> Part | None:
    """Calls count only if they have arguments."""
    return None if isinstance(part, ToolCall) and not part.arguments else part


def _with_floats(part: Part) -> Part:
    """Numbers read as a JavaScript client reads them."""
    if not isinstance(part, ToolCall):
        return part
    return replace(part, arguments=json.loads(json.dumps(part.arguments), parse_int=float))


def _bounded(part: Part) -> Part:
    """Texts in arguments of at most four kilobytes."""
    if not isinstance(part, ToolCall):
        return part
    values: dict[str, JSON] = {k: v[:4096] if isinstance(v, str) else v for k, v in part.arguments.items()}
    return replace(part, arguments=values)


def _without_state(part: Part) -> Part:
    return replace(part, provider_metadata={}) if isinstance(part, Text | Thinking | ToolCall) else part


def _text_lost_before_calls(response: ChatResponse) -> ChatResponse:
    if not response.tool_calls:
        return response
    return replace(response, message=edited_message(response.message, lambda p: None if isinstance(p, Text) else p))


def _calls_first(response: ChatResponse) -> ChatResponse:
    ordered = sorted(response.message.parts, key=lambda part: not isinstance(part, ToolCall))
    return replace(response, message=replace(response.message, parts=tuple(ordered)))


def _empty_worded(response: ChatResponse) -> ChatResponse:
    """No answer is without a text."""
    if response.text or response.tool_calls:
        return response
    return replace(response, message=replace(response.message, parts=(Text("(no content)"),)))


def _output_doubled(response: ChatResponse) -> ChatResponse:
    """The count of the last event and that of the answer, added up."""
    return replace(response, usage=replace(response.usage, output_tokens=2 * (response.usage.output_tokens or 0)))


def _uncounted(_: str, body: dict[str, Any]) -> None:
    body.pop("stream_options")


class _Faking(Wrapped):
    """Asks for the whole answer, and tells it in events."""

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        response = self.chat(request)
        if response.text:
            yield TextDelta(response.text)
        for index, call in enumerate(response.tool_calls):
            yield ToolCallStart(index, call.id, call.name)
            yield ArgumentsDelta(index, json.dumps(call.arguments))
            yield ToolCallEnd(index)
        yield Finish(response)


class _Gathering(Wrapped):
    """Asks for a stream always, and puts it together."""

    def chat(self, request: ChatRequest) -> ChatResponse:
        *_, last = self.stream(request)
        assert isinstance(last, Finish)
        return last.response


def _life_cycle(name: str, wrap: Wrap, scenario: str = "call-single") -> Fault:
    return Fault(name, wrap, scenario, "stream-life-cycle", BODY, 0, variant="stream")


def _told(name: str, wrap: Wrap, scenario: str, rule: str, pointer: Place, *, targets: tuple[str, ...] = ALL) -> Fault:
    return Fault(name, wrap, scenario, rule, pointer, 0, targets, variant="stream")


FAULTS = (
    _life_cycle("finishes-twice", streams(_finished_twice)),
    _life_cycle("finishes-early", streams(_finished_early)),
    _life_cycle("says-more-behind-the-end", streams(_text_behind_finish)),
    _life_cycle("announces-calls-late", streams(_started_late)),
    _life_cycle("announces-calls-again", streams(_started_again)),
    _life_cycle("ends-calls-early", streams(_ended_early)),
    _life_cycle("ends-calls-twice", streams(_ended_twice)),
    _life_cycle("ends-no-call", each(lambda event: None if isinstance(event, ToolCallEnd) else event)),
    _life_cycle("counts-calls-from-one", each(renumbered(lambda index: index + 1))),
    _life_cycle("counts-texts-as-calls", streams(_counted_as_parts), "stream-text-then-calls"),
    _life_cycle("counts-every-call-as-the-first", each(renumbered(lambda _: 0)), "stream-text-then-calls"),
    _life_cycle("changes-numbers-midway", each(renumbered(lambda index: index + 1, ArgumentsDelta))),
    _life_cycle("ends-another-call", each(renumbered(lambda index: index + 1, ToolCallEnd))),
    _life_cycle("hands-on-what-is-no-event", streams(_raw)),
    _told("never-finishes", streams(_unfinished), "call-single", "chat-failure", BODY),
    _told("doubles-texts", streams(_doubled_texts), "call-not-needed", "stream-text", RESPONSE_TEXT),
    _told("repeats-the-text-at-its-end", streams(_text_at_the_end), "call-not-needed", "stream-text", RESPONSE_TEXT),
    _told("loses-the-last-text", streams(_last_text_lost), "call-not-needed", "stream-text", RESPONSE_TEXT),
    _told(
        "tells-thoughts-as-text", each(_thought_as_text), "thinking-tool-loop", "stream-text", BODY, targets=THINKING
    ),
    _told("tells-no-thoughts", each(_without_thinking), "thinking-tool-loop", "stream-text", BODY, targets=THINKING),
    _told("parses-arguments-early", arguments(_parsed_early), "stream-numbers", "stream-arguments", RESPONSE_ARGUMENTS),
    _told("repeats-arguments", streams(_arguments_twice), "call-single", "stream-arguments", RESPONSE_ARGUMENTS),
    _told(
        "loses-arguments",
        each(lambda event: None if isinstance(event, ArgumentsDelta) else event),
        "call-single",
        "stream-arguments",
        RESPONSE_ARGUMENTS,
    ),
    _told(
        "unescapes-arguments-twice",
        arguments(lambda text: text.replace("\\\\", "\\")),
        "stream-nested-escapes",
        "stream-arguments",
        RESPONSE_ARGUMENTS,
    ),
    _told(
        "cuts-long-arguments",
        arguments(lambda text: text[:4096]),
        "stream-long-arguments",
        "stream-arguments",
        RESPONSE_ARGUMENTS,
    ),
    _told(
        "takes-arguments-from-a-neighbour",
        streams(_arguments_of_a_neighbour),
        "stream-parallel-empty-arguments",
        "stream-arguments",
        RESPONSE_ARGUMENTS,
    ),
    _told(
        "exchanges-arguments",
        streams(_exchanged),
        "stream-parallel-long-arguments",
        "stream-arguments",
        RESPONSE_ARGUMENTS,
    ),
    _told(
        "gives-arguments-to-the-last-call",  # calls of the other APIs never overlap
        streams(_arguments_of_the_last),
        "stream-provoked-interleaved-calls",
        "stream-arguments",
        RESPONSE_ARGUMENTS,
        targets=OPENAI,
    ),
    _told("announces-other-ids", each(_with_another_id), "call-single", "stream-call-identity", RESPONSE_CALL_ID),
    _told("announces-no-names", each(_renamed), "call-single", "stream-call-identity", RESPONSE_CALL_ID),
    _told("announces-no-calls", each(_unannounced), "call-single", "stream-call-identity", RESPONSE_CALL_ID),
    _told("announces-calls-that-it-drops", finishes(without_calls), "call-single", "stream-call-identity", BODY),
    _told(
        "drops-calls-without-arguments",
        parts(_with_arguments),
        "stream-parallel-empty-arguments",
        "response-calls",
        RESPONSE_CALL,
    ),
    _told("reads-numbers-as-floats", parts(_with_floats), "stream-numbers", "response-calls", RESPONSE_ARGUMENTS),
    _told("bounds-texts-of-calls", parts(_bounded), "stream-long-arguments", "response-calls", RESPONSE_ARGUMENTS),
    _told(
        "loses-text-before-calls",
        finishes(_text_lost_before_calls),
        "stream-text-then-calls",
        "response-text",
        RESPONSE_TEXT,
    ),
    _told("streams-no-usage", finishes(lambda r: replace(r, usage=Usage())), "call-not-needed", "usage-offered", BODY),
    _told("doubles-usage", finishes(_output_doubled), "call-not-needed", "usage", BODY),
    Fault(
        "words-an-empty-answer",
        finishes(_empty_worded),
        "stream-empty-text",
        "response-text",
        Place(
            "",
            r"/choices/0/message/content|",
            r"/output/\d+/content/\d+(/text)?|",
            r"/candidates/0/content/parts/\d+/text|",
        ),
        variant="stream",
    ),
    _told(
        "streams-another-stop-reason",
        finishes(lambda r: replace(r, stop_reason=StopReason.END_TURN)),
        "call-single",
        "stop-reason",
        BODY,
    ),
    _told(
        "streams-no-raw-stop-reason",
        finishes(lambda r: replace(r, raw_stop_reason=None)),
        "call-single",
        "stream-equals-whole",
        BODY,
    ),
    _told("streams-no-model", finishes(lambda r: replace(r, model=None)), "call-single", "stream-equals-whole", BODY),
    _told(
        "streams-no-state",
        parts(_without_state),
        "thinking-tool-loop",
        "stream-equals-whole",
        BODY,
        targets=("anthropic", "openai-responses", "gemini-3"),
    ),
    _told(
        "streams-calls-first",
        finishes(_calls_first),
        "stream-text-then-calls",
        "stream-equals-whole",
        BODY,
        targets=("anthropic", "openai-responses", *GEMINI),  # a message of Chat has no order of text and calls
    ),
    _told("fakes-a-stream", client(_Faking), "call-single", "stream-requested", BODY),
    Fault("streams-whole-answers", client(_Gathering), "call-single", "stream-requested", BODY, 0),
    _told(
        "has-no-usage-counted",
        sends(_uncounted),
        "call-not-needed",
        "stream-requested",
        everywhere("/stream_options"),
        targets=("openai-chat",),
    ),
)
