"""What the rules look at: a transcript, each of its exchanges read once by the witness.

`ExpectedCall` is the heart of it. A call that the API issued is taken from the response on the wire, never from what
the adapter made of it; its result is the one that the tool gave when the thread ran the call at that place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from harness.model import JSON, ToolCall, ToolResult
from harness.results import Blame, Chat, Exchange, Transcript
from harness.wire.apis import wire_format
from harness.wire.format import WireFormat
from harness.wire.view import CallView, RequestView, ResponseView, WireError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reading:
    """One exchange as the witness reads it. A side that cannot be read is `None`, with the reason in `unread`."""

    index: int
    exchange: Exchange
    request: RequestView | None
    response: ResponseView | None
    unread: str | None = None


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A call that later requests have to carry, and its result if the tool has answered.

    `id` is the id on the wire, `None` if the API issued none, or an empty one. `foreign` marks a call of a history that
    came from elsewhere: its id may be mapped onto a legal one, one-to-one.
    """

    id: str | None
    name: str
    arguments: JSON
    result: ToolResult | None
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """One chat of the transcript with the exchange that answered it, if its request could be read."""

    index: int
    chat: Chat
    reading: Reading
    view: RequestView


class Evidence:
    """A transcript with all that the rules derive from it, each thing once."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.wire: WireFormat = wire_format(transcript.api)
        self._derived: dict[tuple[object, int], Any] = {}

    @property
    def divergence(self) -> Blame:
        """Who is at fault where the conversation is not the scenario's: the recording of another one, the adapter where
        the answers follow the script, else the model."""
        if self.transcript.stale:
            return Blame.CASSETTE
        return Blame.ADAPTER if self.transcript.scripted else Blame.MODEL

    def once(self, derive: Callable[[Evidence, Asked], T], asked: Asked) -> T:
        """What `derive` makes of a chat: several rules look at the same pairs, and pairing is most of their work."""
        key = (derive, asked.index)
        if key not in self._derived:
            self._derived[key] = derive(self, asked)
        return self._derived[key]

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """All exchanges, read."""
        return tuple(self._read(index, exchange) for index, exchange in enumerate(self.transcript.exchanges))

    def _read(self, index: int, exchange: Exchange) -> Reading:
        request: RequestView | None = None
        response: ResponseView | None = None
        unread: str | None = None
        try:
            request = self.wire.view(exchange.request)
        except WireError as error:
            unread = f"request {error}"
        if exchange.response is not None:
            try:
                response = self.wire.read(exchange.response)
            except WireError as error:
                unread = f"response {error}"
        return Reading(index, exchange, request, response, unread)

    @cached_property
    def asked(self) -> tuple[Asked, ...]:
        """Each chat with its first request that could be read. A chat that sent nothing is left out."""
        first: dict[int, Reading] = {}
        for reading in self.readings:
            if reading.exchange.chat is not None and reading.request is not None:
                first.setdefault(reading.exchange.chat, reading)
        return tuple(
            Asked(index, chat, first[index], view)
            for index, chat in enumerate(self.transcript.chats)
            if index in first and (view := first[index].request) is not None
        )

    def answer(self, chat: int) -> Reading | None:
        """The exchange whose response the adapter gave back: the last one of the chat that has a response."""
        answered = [r for r in self.readings if r.exchange.chat == chat and r.response is not None]
        return answered[-1] if answered else None

    def expected_calls(self, chat: int) -> tuple[ExpectedCall, ...]:
        """The calls that the request of a chat has to carry, in their order."""
        return (*self._foreign_calls, *(call for earlier in range(chat) for call in self._issued[earlier]))

    @cached_property
    def _foreign_calls(self) -> tuple[ExpectedCall, ...]:
        chats = self.transcript.chats
        messages = chats[0].request.messages if chats else ()
        results = {result.call_id: result for message in messages for result in message.tool_results}
        return tuple(
            ExpectedCall(call.id, call.name, dict(call.arguments), results.get(call.id), foreign=True)
            for message in messages
            for call in message.tool_calls
        )

    @cached_property
    def _issued(self) -> tuple[tuple[ExpectedCall, ...], ...]:
        return tuple(tuple(self._issued_by(index)) for index in range(len(self.transcript.chats)))

    def _issued_by(self, chat: int) -> Iterator[ExpectedCall]:
        reading = self.answer(chat)
        if reading is None or reading.response is None or self.transcript.chats[chat].response is None:
            return
        wire_calls = [call for call in reading.response.calls if call.malformed is None]
        for position, view in enumerate(wire_calls):
            result = self._result_of(chat, position, wire_calls)
            yield ExpectedCall(view.id or None, view.name, view.arguments, result)

    def _result_of(self, chat: int, position: int, calls: list[CallView]) -> ToolResult | None:
        """The result of the wire call at `position`: the adapter's call that it became is told by place, or, where
        the adapter lost or shuffled calls, by name and arguments."""
        response = self.transcript.chats[chat].response
        canonical = response.tool_calls if response else ()
        call: ToolCall | None = None
        if len(canonical) == len(calls) and canonical[position].name == calls[position].name:
            call = canonical[position]
        else:
            same = [c for c in canonical if c.name == calls[position].name and c.arguments == calls[position].arguments]
            call = same[0] if same else None
        if call is None:
            return None
        executed = [e.result for e in self.transcript.executions if e.chat == chat and e.call is call]
        return executed[0] if executed else None
