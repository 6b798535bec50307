"""Evidence for the rules: a transcript, with each exchange parsed once by the wire reader.

An `ExpectedCall` comes from the response on the wire, not from the adapter's decoded response. Its result is the value
that the tool returned.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, takewhile
from operator import eq
from typing import Any, TypedDict, TypeVar, Unpack

from harness.apis import registry
from harness.apis.api import Api, EmbeddingFormat, EmbeddingView, VectorView, elsewhere, endpoint_violation
from harness.apis.jsonvalue import parse_body, resolve
from harness.apis.limits import Violation
from harness.apis.profiles import RuleSet
from harness.apis.view import CallView, RequestView, ResponseView, TextView, TurnView, WireError
from harness.cassettes.cassette import REFERENCE_URL
from harness.equivalence.request_meaning import Pairing, pair_results
from harness.kit.thread import failure, trimmed_result
from harness.model.http import EXHAUSTED
from harness.model.messages import JSON, Message, Opaque, Role, Text, ToolCall, ToolResult
from harness.results import (
    Blame,
    Chat,
    DrivenTranscript,
    EmbeddingTranscript,
    Exchange,
    Kind,
    ReplayVariant,
    ServedTranscript,
    Severity,
    Transcript,
)
from harness.scenarios.canonical import (
    MissingResult,
    ToolFailure,
    UnknownTool,
    answer,
    called_before,
    history,
    user_message,
)


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """A violation of a rule. `pointer` leads into the request of `exchange`, or into its response if `of_response`.

    `raised` is the class of an unexpected exception. `case` distinguishes several problems of one rule. `rule`, `kind`,
    `severity`, `blame`, `source` and `remedy` override those of the rule.
    """

    message: str
    exchange: int | None = None
    pointer: str | None = None
    actual: JSON = None
    expected: JSON = None
    rule: str | None = None
    kind: Kind | None = None
    severity: Severity | None = None
    blame: Blame | None = None
    source: str | None = None
    of_response: bool = False
    raised: str | None = None
    case: str | None = None
    remedy: str | None = None


class ViolationFields(TypedDict, total=False):
    """The fields of a violation besides its place and values."""

    rule: str | None
    kind: Kind | None
    severity: Severity | None
    blame: Blame | None
    source: str | None
    raised: str | None
    case: str | None
    remedy: str | None


@dataclass(frozen=True)
class ParsedExchange:
    """An exchange parsed by the wire reader. A request or response that cannot be parsed is `None`; `unread` has the
    reason."""

    index: int
    exchange: Exchange
    request: RequestView | None
    response: ResponseView | None
    unread: str | None = None

    @cached_property
    def answer(self) -> ResponseView | None:
        """The response, if it is complete and is not an error."""
        view = self.response
        return None if view is None or view.error is not None or self.is_cut else view

    @cached_property
    def is_cut(self) -> bool:
        """Return whether the response is truncated: the connection broke, or the stream has no end."""
        response, view = self.exchange.response, self.response
        broken = response is not None and response.delivery.ending != "complete"
        return broken or (view is not None and not view.complete)

    @property
    def is_made_up(self) -> bool:
        """Return whether the harness had no recorded or scripted answer left and made one up."""
        return self.exchange.response is not None and EXHAUSTED in self.exchange.response.headers

    def violation(
        self,
        message: str,
        pointer: str = "",
        actual: JSON = None,
        expected: JSON = None,
        **rest: Unpack[ViolationFields],
    ) -> RuleViolation:
        """Return a violation at a location in the request."""
        return RuleViolation(message, self.index, pointer, actual, expected, **rest)

    def response_violation(
        self,
        message: str,
        pointer: str = "",
        actual: JSON = None,
        expected: JSON = None,
        **rest: Unpack[ViolationFields],
    ) -> RuleViolation:
        """Return a violation at a location in the response."""
        return RuleViolation(message, self.index, pointer, actual, expected, of_response=True, **rest)


@dataclass(frozen=True)
class ParsedEmbeddingExchange(ParsedExchange):
    """An exchange for embeddings. A failed one has no vectors."""

    embedding_request: EmbeddingView | None = None
    vectors: tuple[VectorView, ...] | None = None


def parse_exchange(api: Api, index: int, exchange: Exchange) -> ParsedExchange:
    """Parse a chat exchange with the wire reader of its API."""
    request: RequestView | None = None
    response: ResponseView | None = None
    unread: str | None = None
    try:
        request = api.view(exchange.request)
    except WireError as error:
        unread = f"request {error}"
    if exchange.response is not None:
        try:
            response = api.read(exchange.response)
        except WireError as error:
            unread = f"response {error}"
    return ParsedExchange(index, exchange, request, response, unread)


def parse_embedding_exchange(embeddings: EmbeddingFormat, index: int, exchange: Exchange) -> ParsedEmbeddingExchange:
    """Parse an exchange for embeddings."""
    try:
        view = embeddings.view(exchange.request)
    except WireError as error:
        return ParsedEmbeddingExchange(index, exchange, None, None, f"request {error}")
    answered = exchange.response is not None and exchange.response.status < 400
    try:
        vectors = embeddings.read(exchange.response) if answered and exchange.response else None
    except WireError as error:
        return ParsedEmbeddingExchange(index, exchange, None, None, f"response {error}", view)
    return ParsedEmbeddingExchange(index, exchange, None, None, None, view, vectors)


T = TypeVar("T")
H = TypeVar("H", bound="ClientRequest")


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A call that later requests must contain, with its result if the tool has returned one.

    `id` is the id on the wire, or `None` if the API issued none. `foreign` marks a call from another API's history,
    whose id the adapter may replace consistently. Calls of one answer have the same `answer`.
    """

    id: str | None
    name: str
    arguments: JSON
    result: ToolResult | None
    answer: int
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request of the conversation, with its index. It must contain all earlier answers."""

    index: int
    parsed: ParsedExchange
    view: RequestView


@dataclass(frozen=True, slots=True)
class ChatExchange(ClientRequest):
    """A chat with its first parsed request."""

    chat: Chat

    def is_verbatim(self, pointer: str) -> bool:
        """Return whether the caller set the value at a pointer through `provider_metadata`.

        Keys are compared without case and underscores, because protobuf JSON also accepts keys in snake case.
        """
        given = self.chat.request.provider_metadata.get(self.view.api)
        return given is not None and resolve(_with_plain_keys(given), _plain_key(pointer)) is not None

    def is_own_entry(self, pointer: str) -> bool:
        """Return whether a pointer is inside an entry that the caller passed as an `Opaque` part.

        An example is a system message in the middle of the conversation.
        """
        given = [
            part.raw
            for message in self.chat.request.messages
            for part in (message.parts if message.role is Role.USER else ())
            if isinstance(part, Opaque) and part.api == self.view.api
        ]
        entry = "/".join(pointer.split("/")[:3])
        return bool(given) and resolve(parse_body(self.parsed.exchange.request.body), entry) in given


def _plain_key(key: str) -> str:
    return key.replace("_", "").lower()


def _with_plain_keys(value: JSON) -> JSON:
    if isinstance(value, list):
        return [*map(_with_plain_keys, value)]
    if isinstance(value, dict):
        return {_plain_key(key): _with_plain_keys(inner) for key, inner in value.items()}
    return value


class Evidence:
    """A transcript with the values that rules derive from it. Each value is computed once."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.api: Api = registry.api(transcript.api)
        self._derived: dict[tuple[object, int], Any] = {}
        self._pairings: dict[int, Pairing] = {}

    def with_replay_variants(self, replay_variants: tuple[ReplayVariant, ...]) -> Evidence:
        """Return evidence that includes replay variants, reusing the parsed exchanges."""
        made = Evidence(replace(self.transcript, replay_variants=replay_variants))
        made.__dict__["parsed_exchanges"] = self.parsed_exchanges
        return made

    @property
    def divergence_blame(self) -> Blame:
        """Return the blame for a conversation that departs from the scenario."""
        if self.transcript.stale:
            return Blame.CASSETTE
        return Blame.ADAPTER if self.transcript.scripted else Blame.MODEL

    @property
    def is_kept_by_provider(self) -> bool:
        """Return whether the scenario sends only new messages, because the provider keeps the conversation."""
        scenario = self.transcript.scenario
        return scenario is not None and scenario.kept_by_provider

    def compute_once(self, derive: Callable[[Evidence, H], T], req: H) -> T:
        """Return `derive(self, req)`, cached per request, since pairing calls takes most of the rules' time."""
        key = (derive, req.index)
        if key not in self._derived:
            self._derived[key] = derive(self, req)
        return self._derived[key]

    def pairing(self, view: RequestView) -> Pairing:
        """Return the calls of a request, each with its results."""
        known = self._pairings.get(id(view))
        if known is None:
            known = self._pairings[id(view)] = pair_results(view)
        return known

    def new_turns(self, req: ClientRequest) -> Sequence[TurnView]:
        """Return the turns of a request that follow the part repeated from the previous request."""
        return req.view.turns[self._repeated_turn_counts[req.index] :]

    @cached_property
    def _repeated_turn_counts(self) -> Mapping[int, int]:
        found: dict[int, int] = {}
        before: Sequence[TurnView] = ()
        for req in self.client_requests:
            found[req.index] = sum(takewhile(bool, map(eq, before, req.view.turns)))
            before = req.view.turns
        return found

    @cached_property
    def parsed_exchanges(self) -> tuple[ParsedExchange, ...]:
        """The exchanges with what the wire reader reads in them."""
        return tuple(self._read(index, exchange) for index, exchange in enumerate(self.transcript.exchanges))

    def _read(self, index: int, exchange: Exchange) -> ParsedExchange:
        if isinstance(self.transcript, EmbeddingTranscript) and self.api.embeddings is not None:
            return parse_embedding_exchange(self.api.embeddings, index, exchange)
        parsed, scenario = parse_exchange(self.api, index, exchange), self.transcript.scenario
        request, uncommon = parsed.request, {} if scenario is None else scenario.uncommon_names
        if request is None or not uncommon:
            return parsed
        names = {wire: name for name, wire in request.renamed_tools(uncommon).items()}
        response = parsed.response and parsed.response.with_names(names)
        return replace(parsed, request=request.with_names(names), response=response)

    def continued_responses(self, view: RequestView) -> tuple[ResponseView, ...]:
        """Return the responses whose conversation a request continues, the latest first.

        They are empty if the transcript does not have the response that the request names.
        """
        found: list[ResponseView] = []
        while view.continues in self._exchange_by_response_id and len(found) < len(self._exchange_by_response_id):
            asked, answer = self._exchange_by_response_id[view.continues]
            found.append(answer)
            view = asked
        return tuple(found)

    @cached_property
    def _exchange_by_response_id(self) -> Mapping[str | None, tuple[RequestView, ResponseView]]:
        """The request and the response of each answered exchange, by the response's id."""
        read = ((each.request, each.answer) for each in self.parsed_exchanges)
        return {answer.id: (asked, answer) for asked, answer in read if asked and answer and answer.id}

    def violations(self, parsed: ParsedExchange) -> list[Violation]:
        """Return the violations of a request."""
        transcript, request, rule_set = self.transcript, parsed.exchange.request, self.rule_set(parsed)
        embedded = isinstance(transcript, EmbeddingTranscript)
        lost = endpoint_violation(self.api, request, embedded=embedded) if transcript.scripted else None
        if lost is None and (transcript.mode == "replay" or request.url.startswith(REFERENCE_URL)):
            lost = elsewhere(self.api, request, REFERENCE_URL)
        if lost is not None:
            return [lost]
        if embedded:
            return self.api.judge_embeddings(request, rule_set)
        objection = self._state_violations.get(parsed.index)
        return [
            *self.api.judge(request, rule_set),
            *self.api.supported_by_facts([] if objection is None else [objection], rule_set),
        ]

    def is_refused(self, parsed: ParsedExchange) -> bool:
        """Return whether the provider is known to refuse the request. Warnings do not count."""
        return any(violation.severity == "error" for violation in self.violations(parsed))

    def is_left_out_by_caller(self, parsed: ParsedExchange, violation: Violation) -> bool:
        """Return whether a required word is missing because the caller's texts do not contain it either.

        Adapters add the word only by a convention of this project.
        """
        word, chat = violation.limit.word, parsed.exchange.chat
        if word is None or chat is None or self.transcript.scenario is None or not self.transcript.chats:
            return False
        request = self.transcript.chats[chat].request
        if request.response_format is None:
            return False
        texts = (part.text for message in request.messages for part in message.parts if isinstance(part, Text))
        return not any(word in text.lower() for text in (request.system or "", *texts))

    def rule_set(self, parsed: ParsedExchange) -> RuleSet:
        """Return the rule set for a request: the provider's for the reference server, otherwise that of the called
        service."""
        transcript, services = self.transcript, self.api.services
        if isinstance(transcript, ServedTranscript):
            model = self.api.model_of(parsed.exchange.request) or transcript.model
            return services.provider_rules(transcript.profiles.get(model, transcript.profile), model)
        request = parsed.exchange.recorded or parsed.exchange.request
        if transcript.scripted or request.url.startswith(REFERENCE_URL):
            return services.provider_rules(transcript.profile, transcript.model)
        answer = parsed.exchange.response
        return services.rules_at(transcript.profile, transcript.model, request.url, answer.body if answer else b"")

    @cached_property
    def _state_violations(self) -> Mapping[int, Violation]:
        """Violations caused by altered opaque state, by exchange index. The reference server refuses these requests."""
        found: dict[int, Violation] = {}
        scenario = self.transcript.scenario
        if not self.transcript.scripted or scenario is None:
            return found
        memory = self.api.issued_state(foreign=bool(scenario.history), profile=self.transcript.profile)
        for parsed in self.parsed_exchanges:
            objection = None
            if parsed.request is not None:
                memory.receive(parsed.request, parsed.exchange.request)
                objection = memory.objection(parsed.request)
            if objection is not None:
                found[parsed.index] = objection
            if parsed.response is not None and parsed.response.error is None:
                memory.note(parsed.response)
        return found

    @cached_property
    def chat_exchanges(self) -> tuple[ChatExchange, ...]:
        """Each chat with its first parsed request. Chats without a parsed request are omitted."""
        first = self._first
        return tuple(
            ChatExchange(index, first[index], view, chat)
            for index, chat in enumerate(self.transcript.chats)
            if index in first and (view := first[index].request) is not None
        )

    @cached_property
    def client_requests(self) -> tuple[ClientRequest, ...]:
        """The requests of the conversation, including those of a client with its own tool loop."""
        if not isinstance(self.transcript, ServedTranscript):
            return self.chat_exchanges
        first = sorted(self._first.items())
        return tuple(
            ClientRequest(index, parsed, parsed.request) for index, parsed in first if parsed.request is not None
        )

    @cached_property
    def _first(self) -> Mapping[int, ParsedExchange]:
        """The first parsed request of each chat."""
        first: dict[int, ParsedExchange] = {}
        for parsed in self.parsed_exchanges:
            if parsed.exchange.chat is not None and parsed.request is not None:
                first.setdefault(parsed.exchange.chat, parsed)
        return first

    def is_accepted(self, chat: int) -> bool:
        """Return whether the caller received the answer of a chat. A client that continues is assumed to have received
        it."""
        chats = self.transcript.chats
        return chats[chat].response is not None if chats else isinstance(self.transcript, ServedTranscript)

    def exchanges(self, chat: int) -> tuple[ParsedExchange, ...]:
        """Return the exchanges of a chat in order. There are several only if the adapter retried."""
        return self._by_chat.get(chat, ())

    @cached_property
    def issued_ids(self) -> frozenset[str]:
        """The call ids that the API issued."""
        answers = (parsed.response for parsed in self.parsed_exchanges if parsed.response is not None)
        return frozenset(call.id for answer in answers for call in answer.calls if call.id)

    @cached_property
    def _by_chat(self) -> Mapping[int | None, tuple[ParsedExchange, ...]]:
        found: dict[int | None, list[ParsedExchange]] = {}
        for parsed in self.parsed_exchanges:
            found.setdefault(parsed.exchange.chat, []).append(parsed)
        return {chat: tuple(parsed_exchanges) for chat, parsed_exchanges in found.items()}

    def answer(self, chat: int) -> ParsedExchange | None:
        """Return the exchange whose response the adapter returned: the chat's last exchange with a complete answer."""
        return self._answers.get(chat)

    @cached_property
    def _answers(self) -> Mapping[int | None, ParsedExchange]:
        return {parsed.exchange.chat: parsed for parsed in self.parsed_exchanges if parsed.answer is not None}

    def expected_calls(self, chat: int) -> tuple[ExpectedCall, ...]:
        """Return the calls that a chat's request must contain, in order. Results of earlier turns may be trimmed."""
        if isinstance(self.transcript, ServedTranscript):
            first = self.first_answer_sent(chat)
            return (*self._foreign_calls, *(call for at in range(first, chat) for call in self._issued_to_client(at)))
        every = (*self._foreign_calls, *(call for at in range(chat) for call in self._issued[at]))
        trim = self.transcript.scenario.trim if self.transcript.scenario else None
        if trim is None:
            return every
        turn = self.transcript.chats[chat].turn
        old = len(self._foreign_calls) if turn > 0 else 0
        old += sum(len(self._issued[at]) for at in range(chat) if turn > self.transcript.chats[at].turn)
        return (*(_trim(call, trim.tools) for call in every[:old]), *every[old:])

    def left_out_turns(self, chat: int) -> int:
        """Return how many of the oldest turns a loop left out of the request for a scripted answer, as it may to save
        tokens. A loop that keeps no whole earlier turn has lost its history, and the result is 0.
        """
        transcript, scenario = self.transcript, self.transcript.scenario
        if not isinstance(transcript, DrivenTranscript) or scenario is None:
            return 0
        view = self._first[chat].request if chat in self._first else None
        ends = [*accumulate(len(turn.model) for turn in scenario.turns)]
        current = next((turn for turn, end in enumerate(ends) if chat < end), 0)
        parts = [part for turn in view.turns if turn.role == "user" for part in turn.parts] if view is not None else []
        sent = [part.text for part in parts if isinstance(part, TextView)]
        wanted = [user_message(turn).text.strip() for turn in scenario.turns[: current + 1]]
        kept = next((at for at, text in enumerate(wanted) if text and any(text in each for each in sent)), 0)
        return kept if kept < current else 0

    def first_answer_sent(self, chat: int) -> int:
        """Return the index of the first scripted answer that the request for another one must contain."""
        scenario = self.transcript.scenario
        left_out = self.left_out_turns(chat)
        return sum(len(turn.model) for turn in scenario.turns[:left_out]) if scenario is not None else 0

    def _issued_to_client(self, at: int) -> Iterator[ExpectedCall]:
        """Yield the calls of a scripted answer, each with the scenario's result."""
        parsed = self.answer(at)
        for call in parsed.response.calls if parsed and parsed.response else ():
            if call.malformed is None:
                yield ExpectedCall(call.id or None, call.name, call.arguments, self._scripted_result(call, at), at)

    def _scripted_result(self, call: CallView, at: int) -> ToolResult | None:
        """Return the scenario's result for a call of answer `at`, or `None` if it has none."""
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
        calls = [
            (number, call) for number, message in enumerate(messages, -len(messages)) for call in message.tool_calls
        ]
        results = _given_results([call for _, call in calls], messages)
        return tuple(
            ExpectedCall(call.id, call.name, dict(call.arguments), result, number, foreign=True)
            for (number, call), result in zip(calls, results, strict=True)
        )

    @cached_property
    def _issued(self) -> tuple[tuple[ExpectedCall, ...], ...]:
        return tuple(tuple(self._issued_by(index)) for index in range(len(self.transcript.chats)))

    def _issued_by(self, chat: int) -> Iterator[ExpectedCall]:
        parsed = self.answer(chat)
        if parsed is None or parsed.response is None or self.transcript.chats[chat].response is None:
            return
        wire_calls = [call for call in parsed.response.calls if call.malformed is None]
        for position, view in enumerate(wire_calls):
            result = self._result_of(chat, position, wire_calls)
            yield ExpectedCall(view.id or None, view.name, view.arguments, result, chat)

    def _result_of(self, chat: int, position: int, calls: list[CallView]) -> ToolResult | None:
        response, issued = self.transcript.chats[chat].response, calls[position]
        canonical = response.tool_calls if response else ()
        there = canonical[position] if len(canonical) == len(calls) else None
        call = _decoded_call(issued, canonical, there if there is not None and there.name == issued.name else None)
        if call is None:
            return None
        executed = [e.result for e in self.transcript.executions if e.chat == chat and e.call is call]
        return executed[0] if executed else None


def _decoded_call(issued: CallView, canonical: Sequence[ToolCall], there: ToolCall | None) -> ToolCall | None:
    """Return the decoded call for a wire call: by id if unique, otherwise by position, or by name and arguments."""
    if there is not None and there.id == issued.id:
        return there
    kept = [call for call in canonical if issued.id and (call.id, call.name) == (issued.id, issued.name)]
    if len(kept) == 1:
        return kept[0]
    same = (call for call in canonical if call.name == issued.name and call.arguments == issued.arguments)
    return there or next(same, None)


def _given_results(calls: Sequence[ToolCall], messages: Sequence[Message]) -> list[ToolResult | None]:
    """Return the result of each call. Ids may repeat or be empty: a result belongs to the first call with its id and
    name that has no result yet.
    """
    found: list[ToolResult | None] = [None] * len(calls)
    for result in (result for message in messages for result in message.tool_results):
        key = result.call_id, result.name
        place = next((at for at, call in enumerate(calls) if found[at] is None and (call.id, call.name) == key), None)
        if place is not None:
            found[place] = result
    return found


def _trim(call: ExpectedCall, tools: Collection[str]) -> ExpectedCall:
    return call if call.result is None else replace(call, result=trimmed_result(call.result, tools))
