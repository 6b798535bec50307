"""Rules about streaming: events are in order and add up to the response, and a truncated stream is not an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from harness.apis.jsonvalue import equal, loads
from harness.apis.response_rules import Subject
from harness.apis.view import CallView, TextView, WireError
from harness.model.messages import (
    JSON,
    ArgumentsDelta,
    ChatResponse,
    Finish,
    Refusal,
    StreamEvent,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
)
from harness.results import Chat, Kind
from harness.rules.call_matching import cut_calls
from harness.rules.chat_endings import wrong_ending
from harness.rules.evidence import Evidence, ParsedExchange
from harness.rules.rule import RuleTable, RuleViolation


@dataclass(slots=True)
class CallFromEvents:
    """A call in the events of a stream. `start` is `None` if its pieces came without a start event."""

    start: ToolCallStart | None = None
    pieces: list[str] = field(default_factory=list[str])
    ended: bool = False

    @property
    def text(self) -> str:
        """The arguments so far."""
        return "".join(self.pieces)

    @property
    def name(self) -> str:
        """The name of the tool, if known."""
        return self.start.name if self.start else "a call without a start event"


def calls_from_events(events: Iterable[StreamEvent]) -> list[CallFromEvents]:
    """Return the calls of a stream, ordered by their first event.

    An event belongs to the latest call with its index, so a late start or a repeated index loses no piece.
    `stream-life-cycle` checks the order.
    """
    found: list[CallFromEvents] = []
    latest: dict[int, CallFromEvents] = {}

    def belonging(index: int) -> CallFromEvents:
        if index not in latest:
            latest[index] = CallFromEvents()
            found.append(latest[index])
        return latest[index]

    for event in events:
        match event:
            case ToolCallStart(index):
                known = latest.get(index)
                if known is not None and known.start is None:
                    known.start = event
                elif known is None or known.ended or known.start != event:
                    latest[index] = CallFromEvents(event)
                    found.append(latest[index])
            case ArgumentsDelta(index, text):
                belonging(index).pieces.append(text)
            case ToolCallEnd(index):
                belonging(index).ended = True
            case _:
                pass
    return found


@dataclass(frozen=True, slots=True)
class _Streamed:
    index: int
    chat: Chat
    parsed: ParsedExchange | None

    @property
    def exchange(self) -> int | None:
        return self.parsed.index if self.parsed else None

    @property
    def announced(self) -> list[CallFromEvents]:
        return calls_from_events(self.chat.events)

    def returned_calls(self, response: ChatResponse) -> list[tuple[ToolCall, CallFromEvents | None]]:
        """Return the calls of the response, each with its events or `None`.

        Calls are matched by position if the number of started calls, or of ended calls, equals the number of calls in
        the response. If not, they are matched by id. Truncated calls start but do not end.
        """
        every, calls = self.announced, response.tool_calls
        started = [each for each in every if each.start]
        ended = [each for each in started if each.ended]
        for streamed in (started, ended):
            if len(streamed) == len(calls):
                return list(zip(calls, streamed, strict=True))
        by_id = {each.start.id: each for each in started if each.start}
        return [(call, by_id.get(call.id)) for call in calls]

    def is_cut_short(self, streamed: CallFromEvents) -> bool:
        """Return whether the wire has only a part of this call. The rule `truncated-call` reports it."""
        view = self.parsed.response if self.parsed else None
        return view is not None and any(
            call.malformed is not None and call.id and streamed.start and call.id == streamed.start.id
            for call in view.calls
        )

    def place(self, wanted: Callable[[CallView], str], position: int) -> str | None:
        """Return the pointer of the complete call at `position` in the response."""
        if self.parsed is None:
            return None
        view = self.parsed.response
        whole = [call for call in view.calls if call.malformed is None] if view else []
        return wanted(whole[position]) if position < len(whole) else ""


def _streamed_chats(evidence: Evidence) -> Iterator[_Streamed]:
    if evidence.transcript.variant != "stream":
        return
    for index, chat in enumerate(evidence.transcript.chats):
        exchanges = evidence.exchanges(index)
        yield _Streamed(index, chat, exchanges[-1] if exchanges else None)


def _answered_chats(evidence: Evidence) -> Iterator[tuple[_Streamed, ChatResponse]]:
    """Yield the streamed chats with a response. `chat-failure` and `stream-cut` cover the others."""
    for streamed in _streamed_chats(evidence):
        if streamed.chat.response is not None and wrong_ending(evidence, streamed.index) is None:
            yield streamed, streamed.chat.response


_EVENTS = "harness.model.messages: StreamEvent"
RULES = RuleTable(Subject.STREAMING, _EVENTS)


@RULES.add(
    "stream-life-cycle",
    "Each call has a start, its arguments and an end, in that order and with one index; Finish comes last, once.",
    kind=Kind.CONVENTION,
    because="the order of events is a convention; other rules report what is lost",
    remedy="emit the start, the arguments and the end of each call in that order and with one index, and then one "
    "Finish",
)
def _life_cycle(evidence: Evidence) -> Iterator[RuleViolation]:
    for streamed in _streamed_chats(evidence):
        problem = _out_of_order(streamed.chat) or _wrong_end(evidence, streamed)
        if problem is not None:
            at, message = problem
            events = streamed.chat.events
            shown = _event_text(events[at]) if at < len(events) else None
            pointer = None if streamed.parsed is None else ""
            # a caller that has the answer does not expect an error after it
            kind = Kind.LOSS if streamed.chat.response is None and _finishes(streamed.chat) else None
            yield RuleViolation(
                f"chat {streamed.index}, event {at}: {message}", streamed.exchange, pointer, shown, kind=kind
            )


def _finishes(chat: Chat) -> bool:
    return any(isinstance(event, Finish) for event in chat.events)


def _event_text(event: object) -> str:
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
    """Return the first event that is out of order, and the reason."""
    started = 0
    open_: set[int] = set()
    for at, event in enumerate(chat.events):
        why: str | None = None
        match event:
            case ToolCallStart(index):
                why = None if index == started else f"a call starts with the index {index}, but has the index {started}"
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
                why = None if at == len(chat.events) - 1 else "Finish, which must be the last event"
            case TextDelta() | ThinkingDelta():
                pass
            case _:  # an adapter may be untyped
                why = "this is not an event of a stream"
        if why is not None:
            return at, why
    return None


def _wrong_end(evidence: Evidence, streamed: _Streamed) -> tuple[int, str] | None:
    """Return the position of a missing end event, or of a Finish event in a failed chat, with the reason."""
    chat = streamed.chat
    last = len(chat.events) - 1
    finished = bool(chat.events) and isinstance(chat.events[-1], Finish)
    if chat.response is None:
        # if the answer is valid, chat-failure reports that the chat failed
        failed = finished and evidence.answer(streamed.index) is None
        return (last, "Finish, although the stream then fails") if failed else None
    if not finished:
        return last + 1, "the stream ends without Finish"
    for call, from_events in streamed.returned_calls(chat.response):
        if (
            from_events is not None
            and from_events.start
            and not from_events.ended
            and not streamed.is_cut_short(from_events)
        ):
            return last, f"call {from_events.start.index} ({call.name}) is complete, but has no end event before Finish"
    return None


@RULES.add(
    "stream-text",
    "The streamed pieces of text and reasoning add up to those of the response.",
    because="a client that displays the pieces displays a wrong text",
    remedy="emit each piece of text and reasoning once, so that together they equal the response",
)
def _text(evidence: Evidence) -> Iterator[RuleViolation]:
    for streamed, response in _answered_chats(evidence):
        events = streamed.chat.events
        thoughts = "".join(part.text for part in response.message.parts if isinstance(part, Thinking))
        refusal = "".join(part.text for part in response.message.parts if isinstance(part, Refusal))
        text = "".join(event.text for event in events if isinstance(event, TextDelta))
        thought = "".join(event.text for event in events if isinstance(event, ThinkingDelta))
        for what, joined, whole in (("text", text, response.text), ("thinking", thought, thoughts)):
            if joined == whole or (what == "text" and joined == whole + refusal):  # which a user should read, too
                continue
            message = f"the pieces of the {what} do not add up to that of the response"
            pointer = _first_text(streamed.parsed) if what == "text" else ""
            # if all thinking comes at the end, nothing is lost and the answer itself was streamed
            kind = Kind.CONVENTION if what == "thinking" and not thought else None
            place = pointer if streamed.parsed else None
            yield RuleViolation(message, streamed.exchange, place, joined, whole, kind=kind, of_response=True)


def _first_text(parsed: ParsedExchange | None) -> str:
    view = parsed.response if parsed else None
    return next((part.pointer for part in view.parts if isinstance(part, TextView)), "") if view else ""


@RULES.add(
    "stream-arguments",
    "The pieces of a call's arguments add up to its arguments.",
    source=_EVENTS + "; anthropic-stream-arguments, openai-chat-call-deltas, openai-chat-no-arguments, "
    "openai-responses-stream-order",
    because="a client that reads the pieces runs a wrong call",
    remedy="emit each piece of arguments once, with the index of its call, so that together they equal its arguments",
)
def _arguments(evidence: Evidence) -> Iterator[RuleViolation]:
    for streamed in _streamed_chats(evidence):
        response = streamed.chat.response
        calls = streamed.returned_calls(response) if response else []
        known = [from_events for _, from_events in calls]
        for position, (call, from_events) in enumerate(calls):
            if (
                from_events is not None
                and not streamed.is_cut_short(from_events)
                and not _is_json_of(from_events.text, call.arguments)
            ):
                yield RuleViolation(
                    f"the pieces of the arguments of {call.name} do not add up to those of the call",
                    streamed.exchange,
                    streamed.place(lambda view: view.arguments_pointer, position),
                    from_events.text,
                    dict(call.arguments),
                    of_response=True,
                )
        for from_events in streamed.announced:
            if any(from_events.start is other.start for other in known if other) or streamed.is_cut_short(from_events):
                continue
            if from_events.start and from_events.ended and not _is_json_object(from_events.text):
                message = f"the call of {from_events.name} has an end event, but its arguments are not a JSON object"
                yield RuleViolation(
                    message, streamed.exchange, "" if streamed.parsed else None, from_events.text, of_response=True
                )


def _is_json_of(text: str, arguments: dict[str, JSON]) -> bool:
    try:
        return equal(loads(text or "{}"), dict(arguments))
    except WireError:
        return False


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(loads(text or "{}"), dict)
    except WireError:
        return False


@RULES.add(
    "stream-call-identity",
    "A call's first event has the same id and name as the call in the response.",
    source=_EVENTS + "; openai-chat-call-deltas",
    because="a client that reads the pieces answers the wrong call",
    remedy="put the call's id and name into its first event",
)
def _identity(evidence: Evidence) -> Iterator[RuleViolation]:
    for streamed in _streamed_chats(evidence):
        response = streamed.chat.response
        if response is None:
            continue
        calls = streamed.returned_calls(response)
        for position, (call, from_events) in enumerate(calls):
            pointer = streamed.place(lambda view: view.id_pointer, position)
            if from_events is None:
                message = f"the call of {call.name} ({call.id}) is in the response, but has no start event"
                yield RuleViolation(message, streamed.exchange, pointer, None, call.id, of_response=True)
            elif from_events.start and (from_events.start.id, from_events.start.name) != (call.id, call.name):
                yield RuleViolation(
                    f"call {from_events.start.index} starts with a different id or name than in the response",
                    streamed.exchange,
                    pointer,
                    f"{from_events.start.id} {from_events.start.name}",
                    f"{call.id} {call.name}",
                    of_response=True,
                )
        for from_events in streamed.announced:
            lost = from_events.ended and not any(from_events.start is other.start for _, other in calls if other)
            if lost and from_events.start and not streamed.is_cut_short(from_events):
                message = f"call {from_events.start.index} has an end event, but the response has no such call"
                named = f"{from_events.start.id} {from_events.start.name}"
                yield RuleViolation(message, streamed.exchange, "", named, None, of_response=True)


@RULES.add(
    "truncated-call",
    "A call whose arguments are cut short or malformed is not returned, and has no end event.",
    source="harness.model.messages: ToolCall; anthropic-broken-arguments, openai-chat-message-answer",
    because="a tool runs with half of its arguments",
    remedy="do not return a call whose arguments are cut off or not a JSON object, and emit no end event for it",
)
def _truncated_calls(evidence: Evidence) -> Iterator[RuleViolation]:
    """Report truncated calls that are in the response or have an end event, even if the stream failed later."""
    for index, chat in enumerate(evidence.transcript.chats):
        exchanges = evidence.exchanges(index)
        parsed = exchanges[-1] if exchanges else None
        if parsed is None or parsed.response is None:
            continue
        given = cut_calls(parsed.response, chat.response) if chat.response else []
        ended = [from_events for from_events in _Streamed(index, chat, parsed).announced if from_events.ended]
        for call in parsed.response.calls:
            if call.malformed is None:
                continue
            how = _how_accepted(call, [cut for cut, _ in given], ended)
            if how is not None:
                message = (
                    f"the arguments of {call.name} ({call.id or 'without id'}) are cut short or malformed, and {how} "
                    "(response body)"
                )
                remedy = _CUT_CALL_OF_CLIENT if evidence.transcript.is_recognised_client else None
                yield parsed.response_violation(
                    message, call.arguments_pointer, call.malformed, "no call", remedy=remedy
                )


_CUT_CALL_OF_CLIENT = "return the answer without this call, or raise an error that says that it was cut"


def _how_accepted(call: CallView, given: list[CallView], ended: list[CallFromEvents]) -> str | None:
    if any(call is other for other in given):
        return "the adapter returns it as a call"
    if call.id and any(from_events.start and from_events.start.id == call.id for from_events in ended):
        return "the events contain an end for it"
    return None


@RULES.add(
    "stream-cut",
    "An answer that ends too early is an error, never a response.",
    source="anthropic-stream-cut-unnoticed, openai-chat-stream-cut-unnoticed, openai-responses-stream-cut",
    because="the caller treats a part of an answer as the whole",
    remedy="raise MalformedResponse or ConnectionFailed if the stream ends without {end}",
)
def _cut_answers(evidence: Evidence) -> Iterator[RuleViolation]:
    for index in range(len(evidence.transcript.chats)):
        violation = wrong_ending(evidence, index)
        if violation is not None and violation.rule == "stream-cut":
            yield violation


@RULES.add(
    "stream-requested",
    "The request asks for a stream, and for its token counts, if and only if the caller does.",
    source="harness.model.protocols; openai-chat-stream-usage",
    because="the caller waits for a stream or a count that was not requested; collecting a stream loses nothing",
    remedy="request a stream with {stream}, and a whole answer without it",
)
def _wrong_stream_request(evidence: Evidence) -> Iterator[RuleViolation]:
    if not evidence.transcript.chats:
        return
    wanted = evidence.transcript.variant == "stream"
    for parsed in evidence.parsed_exchanges:
        if parsed.request is None:
            continue
        if parsed.request.stream is not wanted:
            message = "the caller wants a streamed answer" if wanted else "the caller wants a whole answer"
            asks = "a stream" if parsed.request.stream else "a whole answer"
            # an adapter that collects a stream still returns what the caller requested
            kind = None if wanted else Kind.CONVENTION
            problem = f"{message}, and the request asks for {asks}"
            yield parsed.violation(problem, "", not wanted, wanted, kind=kind)
        elif wanted and evidence.api.traits.counts_when_asked and parsed.request.usage_pointer is None:
            message = "the request does not ask for the token counts of the stream"
            chat = parsed.exchange.chat
            given = None if chat is None else evidence.transcript.chats[chat].response
            reads_none = given is None or given.reported.get("no-usage") is True
            # other services may always send the counts, and not know the field
            kind = Kind.CONVENTION if reads_none or not evidence.rule_set(parsed).is_own else None
            yield parsed.violation(message, "/stream_options", None, {"include_usage": True}, kind=kind)
