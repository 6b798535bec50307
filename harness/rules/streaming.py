"""Streaming: it is asked for, its events are in order and add up to the response, and what is cut is no answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.apis.jsonvalue import equal, loads
from harness.apis.view import CallView, TextView, WireError
from harness.contract.model import (
    JSON,
    ArgumentsDelta,
    ChatResponse,
    Finish,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
)
from harness.results import Chat, Kind
from harness.rules.announced import Announced, announced
from harness.rules.evidence import Evidence
from harness.rules.failures import judged
from harness.rules.matching import cut_calls
from harness.rules.reading import Reading
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject


@dataclass(frozen=True, slots=True)
class _Streamed:
    """A streamed chat with the exchange that answered it."""

    index: int
    chat: Chat
    reading: Reading | None

    @property
    def exchange(self) -> int | None:
        return self.reading.index if self.reading else None

    @property
    def announced(self) -> list[Announced]:
        """The calls of the events."""
        return announced(self.chat.events)

    def handed_on(self, response: ChatResponse) -> list[tuple[ToolCall, Announced | None]]:
        """The calls of the response, each with the events that told of it: those of the same place. Calls that were
        cut short are announced as well, and have no end."""
        every, calls = self.announced, response.tool_calls
        started = [each for each in every if each.start]
        ended = [each for each in started if each.ended]
        for told in (started, ended):
            if len(told) == len(calls):
                return list(zip(calls, told, strict=True))
        by_id = {each.start.id: each for each in started if each.start}
        return [(call, by_id.get(call.id)) for call in calls]

    def is_cut_short(self, told: Announced) -> bool:
        """The wire has this call, and not all of it: `truncated-call` says what is wrong with it."""
        view = self.reading.response if self.reading else None
        return view is not None and any(
            call.malformed is not None and call.id and told.start and call.id == told.start.id for call in view.calls
        )

    def place(self, wanted: Callable[[CallView], str], position: int) -> str | None:
        """Where the whole call at `position` stands in the folded body."""
        if self.reading is None:
            return None
        view = self.reading.response
        whole = [call for call in view.calls if call.malformed is None] if view else []
        return wanted(whole[position]) if position < len(whole) else ""


def _streamed(evidence: Evidence) -> Iterator[_Streamed]:
    if evidence.transcript.variant != "stream":
        return
    for index, chat in enumerate(evidence.transcript.chats):
        exchanges = evidence.exchanges(index)
        yield _Streamed(index, chat, exchanges[-1] if exchanges else None)


def _answered(evidence: Evidence) -> Iterator[tuple[_Streamed, ChatResponse]]:
    """The streamed chats that came to a response. One of an answer that was none is `chat-failure`'s or
    `stream-cut`'s."""
    for streamed in _streamed(evidence):
        if streamed.chat.response is not None and judged(evidence, streamed.index) is None:
            yield streamed, streamed.chat.response


def _life_cycle(evidence: Evidence) -> Iterator[Flaw]:
    for streamed in _streamed(evidence):
        problem = _out_of_order(streamed.chat) or _unfinished(evidence, streamed)
        if problem is not None:
            at, message = problem
            events = streamed.chat.events
            shown = _shown(events[at]) if at < len(events) else None
            pointer = None if streamed.reading is None else ""
            # who has the answer does not look for the error that comes behind it
            kind = Kind.LOSS if streamed.chat.response is None and _finishes(streamed.chat) else None
            yield Flaw(f"chat {streamed.index}, event {at}: {message}", streamed.exchange, pointer, shown, kind=kind)


def _finishes(chat: Chat) -> bool:
    return any(isinstance(event, Finish) for event in chat.events)


def _shown(event: object) -> str:
    """An event in words."""
    match event:
        case ToolCallStart(index, call_id, name):
            return f"the start of call {index}: {name} ({call_id})"
        case ArgumentsDelta(index, text):
            return f"a piece of the arguments of call {index}: {text}"
        case ToolCallEnd(index):
            return f"the end of call {index}"
        case TextDelta(text):
            return f"a piece of the text: {text}"
        case ThinkingDelta(text):
            return f"a piece of the thinking: {text}"
        case Finish():
            return "Finish"
        case _:  # an adapter may be untyped
            return f"an object of the class {type(event).__name__}"


def _out_of_order(chat: Chat) -> tuple[int, str] | None:
    """The first event that cannot stand where it stands, and why."""
    started = 0
    open_: set[int] = set()
    for at, event in enumerate(chat.events):
        why: str | None = None
        match event:
            case ToolCallStart(index):
                why = None if index == started else f"a call starts as number {index}, and it is number {started}"
                started += 1
                open_.add(index)
            case ArgumentsDelta(index) | ToolCallEnd(index):
                what = "arguments" if isinstance(event, ArgumentsDelta) else "the end"
                if index not in open_:
                    has = "has ended" if 0 <= index < started else "has not started"
                    why = f"{what} of call {index}, which {has}"
                if isinstance(event, ToolCallEnd):
                    open_.discard(index)
            case Finish():
                why = None if at == len(chat.events) - 1 else "Finish, which is the last event"
            case TextDelta() | ThinkingDelta():
                pass
            case _:  # an adapter may be untyped
                why = "this is no event of a stream"
        if why is not None:
            return at, why
    return None


def _unfinished(evidence: Evidence, streamed: _Streamed) -> tuple[int, str] | None:
    """What is missing at the end, or stands there though the chat failed."""
    chat = streamed.chat
    last = len(chat.events) - 1
    finished = bool(chat.events) and isinstance(chat.events[-1], Finish)
    if chat.response is None:
        # where the answer is good, chat-failure says that it should not have failed
        failed = finished and evidence.answer(streamed.index) is None
        return (last, "Finish, though the stream then fails") if failed else None
    if not finished:
        return last + 1, "the stream ends without Finish"
    for call, told in streamed.handed_on(chat.response):
        if told is not None and told.start and not told.ended and not streamed.is_cut_short(told):
            return last, f"call {told.start.index} ({call.name}) is whole, and has no end before Finish"
    return None


def _text(evidence: Evidence) -> Iterator[Flaw]:
    for streamed, response in _answered(evidence):
        events = streamed.chat.events
        thoughts = "".join(part.text for part in response.message.parts if isinstance(part, Thinking))
        said = "".join(event.text for event in events if isinstance(event, TextDelta))
        thought = "".join(event.text for event in events if isinstance(event, ThinkingDelta))
        for what, joined, whole in (("text", said, response.text), ("thinking", thought, thoughts)):
            if joined == whole:
                continue
            message = f"the pieces of the {what} do not add up to that of the response"
            pointer = _first_text(streamed.reading) if what == "text" else ""
            # who shows thinking at the end only has lost none of it, and the rest of the answer came in pieces
            kind = Kind.CONVENTION if what == "thinking" and not thought else None
            place = pointer if streamed.reading else None
            yield Flaw(message, streamed.exchange, place, joined, whole, kind=kind, of_response=True)


def _first_text(reading: Reading | None) -> str:
    view = reading.response if reading else None
    return next((part.pointer for part in view.parts if isinstance(part, TextView)), "") if view else ""


def _arguments(evidence: Evidence) -> Iterator[Flaw]:
    for streamed in _streamed(evidence):
        response = streamed.chat.response
        calls = streamed.handed_on(response) if response else []
        known = [told for _, told in calls]
        for position, (call, told) in enumerate(calls):
            if told is not None and not streamed.is_cut_short(told) and not _spells(told.text, call.arguments):
                yield Flaw(
                    f"the pieces of the arguments of {call.name} do not add up to those of the call",
                    streamed.exchange,
                    streamed.place(lambda view: view.arguments_pointer, position),
                    told.text,
                    dict(call.arguments),
                    of_response=True,
                )
        for told in streamed.announced:
            if any(told.start is other.start for other in known if other) or streamed.is_cut_short(told):
                continue
            if told.start and told.ended and not _is_whole(told.text):
                yield Flaw(
                    f"the call of {told.name} has ended, and its arguments are no JSON object",
                    streamed.exchange,
                    "" if streamed.reading else None,
                    told.text,
                    of_response=True,
                )


def _spells(text: str, arguments: dict[str, JSON]) -> bool:
    try:
        return equal(loads(text or "{}"), dict(arguments))
    except WireError:
        return False


def _is_whole(text: str) -> bool:
    try:
        return isinstance(loads(text or "{}"), dict)
    except WireError:
        return False


def _identity(evidence: Evidence) -> Iterator[Flaw]:
    for streamed in _streamed(evidence):
        response = streamed.chat.response
        if response is None:
            continue
        calls = streamed.handed_on(response)
        for position, (call, told) in enumerate(calls):
            pointer = streamed.place(lambda view: view.id_pointer, position)
            if told is None:
                message = f"the call of {call.name} ({call.id}) is in the response, and no event announced it"
                yield Flaw(message, streamed.exchange, pointer, None, call.id, of_response=True)
            elif told.start and (told.start.id, told.start.name) != (call.id, call.name):
                yield Flaw(
                    f"call {told.start.index} starts as another than the response has",
                    streamed.exchange,
                    pointer,
                    f"{told.start.id} {told.start.name}",
                    f"{call.id} {call.name}",
                    of_response=True,
                )
        for told in streamed.announced:
            lost = told.ended and not any(told.start is other.start for _, other in calls if other)
            if lost and told.start and not streamed.is_cut_short(told):
                message = f"call {told.start.index} has ended, and the response has no such call"
                told_of = f"{told.start.id} {told.start.name}"
                yield Flaw(message, streamed.exchange, "", told_of, None, of_response=True)


def _truncated(evidence: Evidence) -> Iterator[Flaw]:
    """A response's calls, and for a stream also the ends of calls, be it one that failed later."""
    for index, chat in enumerate(evidence.transcript.chats):
        exchanges = evidence.exchanges(index)
        reading = exchanges[-1] if exchanges else None
        if reading is None or reading.response is None:
            continue
        given = cut_calls(reading.response, chat.response) if chat.response else []
        ended = [told for told in _Streamed(index, chat, reading).announced if told.ended]
        for call in reading.response.calls:
            if call.malformed is None:
                continue
            how = _taken_for_whole(call, [cut for cut, _ in given], ended)
            if how is not None:
                yield Flaw(
                    f"the arguments of {call.name} ({call.id or 'without id'}) are cut short or malformed, and {how} "
                    "(response body)",
                    reading.index,
                    call.arguments_pointer,
                    how,
                    call.malformed,
                    of_response=True,
                )


def _taken_for_whole(call: CallView, given: list[CallView], ended: list[Announced]) -> str | None:
    if any(call is other for other in given):
        return "the adapter hands it on as a call"
    if call.id and any(told.start and told.start.id == call.id for told in ended):
        return "the events have an end of it"
    return None


def _cut(evidence: Evidence) -> Iterator[Flaw]:
    for index in range(len(evidence.transcript.chats)):
        flaw = judged(evidence, index)
        if flaw is not None and flaw.rule == "stream-cut":
            yield flaw


def _requested(evidence: Evidence) -> Iterator[Flaw]:
    if not evidence.transcript.chats:
        return
    wanted = evidence.transcript.variant == "stream"
    for reading in evidence.readings:
        if reading.request is None:
            continue
        if reading.request.stream is not wanted:
            message = "the answer is to be streamed" if wanted else "the answer is to come whole"
            asks = "a stream" if reading.request.stream else "a whole answer"
            # who gathers a stream and hands it on whole gives the caller what was asked for
            kind = None if wanted else Kind.CONVENTION
            flaw = f"{message}, and the request asks for {asks}"
            yield Flaw(flaw, reading.index, "", not wanted, wanted, kind=kind)
        elif wanted and evidence.api.traits.counts_when_asked and reading.request.usage_pointer is None:
            message = "the request does not ask for the tokens of its stream to be counted"
            yield Flaw(message, reading.index, "/stream_options", None, {"include_usage": True})


_EVENTS = "harness.contract.model: StreamEvent"

RULES = (
    Rule(
        "stream-life-cycle",
        Subject.STREAMING,
        "Each call starts, arrives and ends, in that order and under one number; Finish comes last, once.",
        _EVENTS,
        _life_cycle,
        kind=Kind.CONVENTION,
        because="the order of our events is ours; what gets lost by it other rules say",
        remedy="emit start, arguments and end of each call in that order under one index, and one Finish, the last",
    ),
    Rule(
        "stream-text",
        Subject.STREAMING,
        "The pieces of text and thinking add up to the response's.",
        _EVENTS,
        _text,
        kind=Kind.LOSS,
        because="who shows the pieces shows another text than the answer",
        remedy="emit each piece of text and thinking once: together they are the response's",
    ),
    Rule(
        "stream-arguments",
        Subject.STREAMING,
        "The pieces of a call's arguments add up to its arguments.",
        _EVENTS + "; anthropic-stream-arguments, openai-chat-call-deltas, openai-chat-no-arguments, "
        "openai-responses-stream-order",
        _arguments,
        kind=Kind.LOSS,
        because="who reads the pieces runs another call than the answer's",
        remedy="emit each piece of arguments once, under the index of its call: together they are its arguments",
    ),
    Rule(
        "stream-call-identity",
        Subject.STREAMING,
        "A call starts with the id and the name that it has in the response.",
        _EVENTS + "; openai-chat-call-deltas",
        _identity,
        kind=Kind.LOSS,
        because="who reads the pieces answers another call",
        remedy="start a call with the id and the name that it has in the response",
    ),
    Rule(
        "truncated-call",
        Subject.STREAMING,
        "A call whose arguments are cut short or malformed is handed on as none, and has no end.",
        "harness.contract.model: ToolCall; anthropic-broken-arguments, openai-chat-message-answer",
        _truncated,
        kind=Kind.LOSS,
        because="a tool runs with half of its arguments",
        remedy="return no call whose arguments are cut or no JSON object, and emit no end for it",
    ),
    Rule(
        "stream-cut",
        Subject.STREAMING,
        "An answer that ends too early is an error, never a response.",
        "anthropic-stream-cut-unnoticed, openai-chat-stream-cut-unnoticed, openai-responses-stream-cut",
        _cut,
        kind=Kind.LOSS,
        because="half of an answer passes for all of it",
        remedy="raise MalformedResponse or ConnectionFailed where the stream ends without {end}",
    ),
    Rule(
        "stream-requested",
        Subject.STREAMING,
        "A streamed answer is asked for as one, its token count as well, and a whole one as a whole.",
        "harness.contract.protocols; openai-chat-stream-usage",
        _requested,
        kind=Kind.LOSS,
        because="the caller waits for pieces, or for a count, that nobody asked for; of a stream that is gathered "
        "nothing is lost",
        remedy="ask for a streamed answer by {stream}, and for a whole one without it",
    ),
)
