"""What the rules look at: a transcript, each of its exchanges read once by the witness.

`ExpectedCall` is the heart of it. A call that the API issued is taken from the response on the wire, never from what
the adapter made of it; its result is the one that the tool gave when the thread ran the call at that place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from operator import eq
from typing import Any, TypeVar

from harness import catalog
from harness.apis.api import Api, elsewhere, endpoint_violation
from harness.apis.limits import Violation
from harness.apis.services import RuleSet
from harness.apis.view import CallView, RequestView, TurnView
from harness.contract.model import JSON, Text, ToolCall, ToolResult
from harness.kit.thread import failure
from harness.kit.trimming import trimmed_result
from harness.meaning.request_meaning import Pairing, pair_results
from harness.results import Blame, Chat, EmbeddingTranscript, Exchange, ReplayVariant, ServedTranscript, Transcript
from harness.rules.reading import Reading, read, read_embedding
from harness.scenarios.canonical import MissingResult, ToolFailure, UnknownTool, answer, called_before, history
from harness.tape.cassette import REFERENCE_URL

T = TypeVar("T")
H = TypeVar("H", bound="Heard")


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A call that later requests have to carry, and its result if the tool has answered.

    `id` is the id on the wire, `None` if the API issued none, or an empty one. `foreign` marks a call of a history that
    came from elsewhere: its id may be mapped onto a legal one, one-to-one. Calls of one answer have the same `answer`.
    """

    id: str | None
    name: str
    arguments: JSON
    result: ToolResult | None
    answer: int
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class Heard:
    """A request of the conversation, and which it is: what it has to carry follows from the answers before it."""

    index: int
    reading: Reading
    view: RequestView


@dataclass(frozen=True, slots=True)
class Asked(Heard):
    """One chat of the transcript with the exchange that answered it, if its request could be read."""

    chat: Chat


class Evidence:
    """A transcript with all that the rules derive from it, each thing once."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.api: Api = catalog.api(transcript.api)
        self._derived: dict[tuple[object, int], Any] = {}
        self._pairings: dict[int, Pairing] = {}

    def retold(self, retellings: tuple[ReplayVariant, ...]) -> Evidence:
        """The evidence with the retellings that were made of it; what was read is not read again."""
        told = Evidence(replace(self.transcript, retellings=retellings))
        told.__dict__["readings"] = self.readings
        return told

    @property
    def divergence(self) -> Blame:
        """Who is at fault where the conversation is not the scenario's: the recording of another one, the adapter where
        the answers follow the script, else the model."""
        if self.transcript.stale:
            return Blame.CASSETTE
        return Blame.ADAPTER if self.transcript.scripted else Blame.MODEL

    def once(self, derive: Callable[[Evidence, H], T], asked: H) -> T:
        """What `derive` makes of a request: several rules look at the same pairs, and pairing is most of their work."""
        key = (derive, asked.index)
        if key not in self._derived:
            self._derived[key] = derive(self, asked)
        return self._derived[key]

    def pairing(self, view: RequestView) -> Pairing:
        """The calls of one of the requests with their results."""
        known = self._pairings.get(id(view))
        if known is None:
            known = self._pairings[id(view)] = pair_results(view)
        return known

    def new_turns(self, asked: Heard) -> Sequence[TurnView]:
        """The turns of a request behind those that it repeats of the request before it."""
        return asked.view.turns[self._repeated[asked.index] :]

    @cached_property
    def _repeated(self) -> Mapping[int, int]:
        found: dict[int, int] = {}
        before: Sequence[TurnView] = ()
        for asked in self.heard:
            found[asked.index] = sum(takewhile(bool, map(eq, before, asked.view.turns)))
            before = asked.view.turns
        return found

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """All exchanges, read."""
        return tuple(self._read(index, exchange) for index, exchange in enumerate(self.transcript.exchanges))

    def _read(self, index: int, exchange: Exchange) -> Reading:
        if isinstance(self.transcript, EmbeddingTranscript) and self.api.embeddings is not None:
            return read_embedding(self.api.embeddings, index, exchange)
        return read(self.api, index, exchange)

    def violations(self, reading: Reading) -> list[Violation]:
        """What the provider refuses in a request, or takes with a loss."""
        transcript, request, law = self.transcript, reading.exchange.request, self.law(reading)
        embedded = isinstance(transcript, EmbeddingTranscript)
        lost = endpoint_violation(self.api, request, embedded=embedded) if transcript.scripted else None
        if lost is None and (transcript.mode == "replay" or request.url.startswith(REFERENCE_URL)):
            lost = elsewhere(self.api, request, REFERENCE_URL)
        if lost is not None:
            return [lost]
        if embedded:
            return self.api.judge_embeddings(request, law)
        objection = self._objections.get(reading.index)
        return [
            *self.api.judge(request, law),
            *self.api.supported_by_facts([] if objection is None else [objection], law),
        ]

    def is_refused(self, reading: Reading) -> bool:
        """The provider refuses the request. What it takes with a loss, or is only said to refuse, makes none faulty."""
        return any(violation.severity == "error" for violation in self.violations(reading))

    def is_left_out_by_caller(self, reading: Reading, violation: Violation) -> bool:
        """Check that a request lacks a word that the scenario does not say either. To add it is our own convention."""
        word, chat = violation.limit.word, reading.exchange.chat
        if word is None or chat is None or self.transcript.scenario is None or not self.transcript.chats:
            return False
        request = self.transcript.chats[chat].request
        if request.response_format is None:
            return False  # nobody has asked for what needs the word
        texts = (part.text for message in request.messages for part in message.parts if isinstance(part, Text))
        return not any(word in text.lower() for text in (request.system or "", *texts))

    def law(self, reading: Reading) -> RuleSet:
        """Whose rules a request is held to: the provider's own where the reference server answers or answered, else
        those of the service that was asked, or was when it was recorded."""
        transcript, services = self.transcript, self.api.services
        if isinstance(transcript, ServedTranscript):
            model = self.api.model_of(reading.exchange.request) or transcript.model
            return services.provider_rules(transcript.profiles.get(model, transcript.profile), model)
        asked = reading.exchange.recorded or reading.exchange.request
        if transcript.scripted or asked.url.startswith(REFERENCE_URL):
            return services.provider_rules(transcript.profile, transcript.model)
        return services.rules_at(transcript.profile, transcript.model, asked.url)

    @cached_property
    def _objections(self) -> Mapping[int, Violation]:
        """By exchange, what the reference server has against the state that a request brings back."""
        found: dict[int, Violation] = {}
        scenario = self.transcript.scenario
        if not self.transcript.scripted or scenario is None:
            return found
        memory = self.api.issued_state(foreign=bool(scenario.history))
        for reading in self.readings:
            objection = memory.objection(reading.request) if reading.request else None
            if objection is not None:
                found[reading.index] = objection
            if reading.response is not None and reading.response.error is None:
                memory.note(reading.response)
        return found

    @cached_property
    def asked(self) -> tuple[Asked, ...]:
        """Each chat with its first request that could be read. A chat that sent nothing is left out."""
        first = self._first
        return tuple(
            Asked(index, first[index], view, chat)
            for index, chat in enumerate(self.transcript.chats)
            if index in first and (view := first[index].request) is not None
        )

    @cached_property
    def heard(self) -> tuple[Heard, ...]:
        """The requests of the conversation: those of the chats, or of a client whose chats nobody here has seen."""
        if not isinstance(self.transcript, ServedTranscript):
            return self.asked
        first = sorted(self._first.items())
        return tuple(Heard(index, reading, reading.request) for index, reading in first if reading.request is not None)

    @cached_property
    def _first(self) -> Mapping[int, Reading]:
        """By chat its first request that could be read."""
        first: dict[int, Reading] = {}
        for reading in self.readings:
            if reading.exchange.chat is not None and reading.request is not None:
                first.setdefault(reading.exchange.chat, reading)
        return first

    def is_taken(self, chat: int) -> bool:
        """Whether the answer of a chat has reached the caller: whoever asks on from elsewhere is taken to have it."""
        chats = self.transcript.chats
        return chats[chat].response is not None if chats else isinstance(self.transcript, ServedTranscript)

    def exchanges(self, chat: int) -> tuple[Reading, ...]:
        """The exchanges of a chat, in their order: one, unless the adapter sent again what had failed."""
        return self._by_chat.get(chat, ())

    @cached_property
    def issued_ids(self) -> frozenset[str]:
        """The ids of calls that the API issued in this playing."""
        answers = (reading.response for reading in self.readings if reading.response is not None)
        return frozenset(call.id for answer in answers for call in answer.calls if call.id)

    @cached_property
    def _by_chat(self) -> Mapping[int | None, tuple[Reading, ...]]:
        found: dict[int | None, list[Reading]] = {}
        for reading in self.readings:
            found.setdefault(reading.exchange.chat, []).append(reading)
        return {chat: tuple(readings) for chat, readings in found.items()}

    def answer(self, chat: int) -> Reading | None:
        """The exchange whose response the adapter gave back: the last one of the chat with a whole answer."""
        return self._answers.get(chat)

    @cached_property
    def _answers(self) -> Mapping[int | None, Reading]:
        return {reading.exchange.chat: reading for reading in self.readings if reading.answer is not None}

    def expected_calls(self, chat: int) -> tuple[ExpectedCall, ...]:
        """The calls that a chat has to carry, in their order; results of earlier turns may be trimmed."""
        if isinstance(self.transcript, ServedTranscript):
            return (*self._foreign_calls, *(call for at in range(chat) for call in self._issued_to_client(at)))
        every = (*self._foreign_calls, *(call for at in range(chat) for call in self._issued[at]))
        trim = self.transcript.scenario.trim if self.transcript.scenario else None
        if trim is None:
            return every
        turn = self.transcript.chats[chat].turn
        old = len(self._foreign_calls) if turn > 0 else 0
        old += sum(len(self._issued[at]) for at in range(chat) if turn > self.transcript.chats[at].turn)
        return (*(_trimmed(call, trim.tools) for call in every[:old]), *every[old:])

    def _issued_to_client(self, at: int) -> Iterator[ExpectedCall]:
        """The calls of an answer of the script, each with what the scenario's tool says to it: the client runs it."""
        reading = self.answer(at)
        for call in reading.response.calls if reading and reading.response else ():
            if call.malformed is None:
                yield ExpectedCall(call.id or None, call.name, call.arguments, self._scripted_result(call, at), at)

    def _scripted_result(self, call: CallView, at: int) -> ToolResult | None:
        """What the scenario has its tool answer to a call of answer `at`; `None` where the client says it in words of
        its own."""
        scenario = self.transcript.scenario
        if scenario is None or not isinstance(call.arguments, dict):
            return None
        issued = ToolCall(call.id or "", call.name, call.arguments)
        try:
            return answer(scenario, issued, called_before(scenario, at))
        except ToolFailure as raised:
            return failure(issued, raised)
        except (UnknownTool, MissingResult):
            return None

    @cached_property
    def _foreign_calls(self) -> tuple[ExpectedCall, ...]:
        transcript, chats = self.transcript, self.transcript.chats
        messages = chats[0].request.messages if chats else ()
        if isinstance(transcript, ServedTranscript) and transcript.scenario is not None:
            messages = history(transcript.scenario)
        results = {result.call_id: result for message in messages for result in message.tool_results}
        return tuple(
            ExpectedCall(call.id, call.name, dict(call.arguments), results.get(call.id), number, foreign=True)
            for number, message in enumerate(messages, -len(messages))
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
            yield ExpectedCall(view.id or None, view.name, view.arguments, result, chat)

    def _result_of(self, chat: int, position: int, calls: list[CallView]) -> ToolResult | None:
        """The result of the wire call at `position`."""
        response, issued = self.transcript.chats[chat].response, calls[position]
        canonical = response.tool_calls if response else ()
        there = canonical[position] if len(canonical) == len(calls) else None
        call = _became(issued, canonical, there if there is not None and there.name == issued.name else None)
        if call is None:
            return None
        executed = [e.result for e in self.transcript.executions if e.chat == chat and e.call is call]
        return executed[0] if executed else None


def _became(issued: CallView, canonical: Sequence[ToolCall], there: ToolCall | None) -> ToolCall | None:
    """The adapter's call that a wire call became: told by its id, where one alone has that, else by place, or, where
    the adapter lost or shuffled calls, by name and arguments."""
    if there is not None and there.id == issued.id:
        return there
    kept = [call for call in canonical if issued.id and (call.id, call.name) == (issued.id, issued.name)]
    if len(kept) == 1:
        return kept[0]
    same = (call for call in canonical if call.name == issued.name and call.arguments == issued.arguments)
    return there or next(same, None)


def _trimmed(call: ExpectedCall, tools: Collection[str]) -> ExpectedCall:
    return call if call.result is None else replace(call, result=trimmed_result(call.result, tools))
