"""Redrives: an adapter receives recorded responses, and its next request is compared with the recorded one."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from types import TracebackType
from typing import Self, TypeAlias, cast

import httpx2

from harness import plugins
from harness.apis import registry
from harness.apis.api import Api
from harness.apis.conversion import CanonicalReader
from harness.apis.jsonvalue import loads
from harness.apis.view import CallView, MediaView, OpaqueView, PartView, ResultView, SystemView, TextView
from harness.audit.client_edits import undo_edits
from harness.audit.redrive_pairs import (
    RedrivePair,
    accepted_exchanges,
    answered_turns,
    find_pairs,
    match_answered_calls,
    match_issued_calls,
    reader_for,
)
from harness.audit.turn_comparison import (
    Disagreement,
    TurnComparison,
    hosted_items,
    system_items,
    tool_items,
    turn_items,
)
from harness.cassettes.cassette import Cassette
from harness.cassettes.player import one_body
from harness.cassettes.rechunk import recut
from harness.cassettes.transport import HandlerTransport
from harness.equivalence.view_differences import WHOLE_JSON, diff, json_pointer
from harness.model.errors import MalformedResponse
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import (
    JSON,
    ChatRequest,
    ChatResponse,
    Finish,
    Message,
    Opaque,
    Part,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from harness.model.protocols import Capability, Endpoint, Route, StreamingChatClient
from harness.results import PairCounts, PairDisagreement, RedriveResult

OPENING = "…"
"""Text of the first user message in a redrive. It replaces the conversation before the pair, which is not compared and
does not affect the responses.
"""


@dataclass(frozen=True, slots=True)
class DrivenTurn:
    """Result of passing a recorded pair to an adapter.

    `answer` is the recorded response as the adapter read it. `request` is the adapter's next request, which has the
    recorded tool results.
    """

    answer: ChatResponse
    request: HttpRequest


class AdapterDriver:
    """An adapter that receives recorded responses and whose requests are captured."""

    def __init__(self, api: Api) -> None:
        self._sent: list[HttpRequest] = []
        self._response = HttpResponse(200)
        self._http = httpx2.Client(transport=HandlerTransport(self._respond))
        endpoint = Endpoint(api.provider_url, "key-of-nobody", self._http)
        self._client = cast("StreamingChatClient", plugins.adapter(api.targets[0].adapter).connect(endpoint, ""))

    def close(self) -> None:
        """Close the clients."""
        self._client.close()
        self._http.close()

    def whole(self, pair: RedrivePair) -> DrivenTurn:
        """Pass the pair's response to the adapter's `chat`. Return the adapter's answer and its next request.

        A streamed response is converted to a complete body first.

        Raises:
            harness.model.errors.ChatError: the adapter cannot read the response or express the request.
        """
        return self._drive(pair, one_body(pair.i.response), self._client.chat)

    def drive_stream(self, pair: RedrivePair, stream: HttpResponse) -> DrivenTurn:
        """Pass the pair's response to the adapter's `stream`, with `stream` as the HTTP response. Return the adapter's
        answer and its next request.

        The next request is sent without streaming.

        Raises:
            harness.model.errors.ChatError: see `whole`.
        """
        return self._drive(pair, stream, self._finish)

    def _drive(
        self, pair: RedrivePair, response: HttpResponse, ask: Callable[[ChatRequest], ChatResponse]
    ) -> DrivenTurn:
        reader = reader_for(pair.j.wire, pair.j.body, pair.j.request)
        request = _first_request(pair, reader)
        answer = self._ask(response, ask, request)
        results = Message(Role.USER, tuple(_following(pair, reader, answer.message)))
        follow_up = replace(request, messages=(*request.messages, _without_unanswered(pair, answer.message), results))
        self._ask(one_body(pair.i.response), self._client.chat, follow_up)
        return DrivenTurn(answer, self._sent.pop())

    def _ask(
        self, response: HttpResponse, ask: Callable[[ChatRequest], ChatResponse], request: ChatRequest
    ) -> ChatResponse:
        self._response = response
        self._sent.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # SDKs warn of old models, and recordings have them
            return ask(request)

    def _finish(self, request: ChatRequest) -> ChatResponse:
        match list(self._client.stream(request)):
            case [*_, Finish(response)]:
                return response
            case _:
                raise MalformedResponse("the stream ended without Finish, which is its last event")

    def _respond(self, request: HttpRequest) -> HttpResponse:
        self._sent.append(request)
        return self._response


def _first_request(pair: RedrivePair, reader: CanonicalReader) -> ChatRequest:
    system = reader.system()
    opening = (*(Opaque(reader.api, raw) for raw in system.opening), Text(OPENING))
    metadata = {**system.metadata, **reader.hosted_metadata()}
    return ChatRequest(
        pair.j.model,
        (Message(Role.USER, opening),),
        system.text,
        reader.tools(),
        provider_metadata={reader.api: metadata} if metadata else {},
    )


def _following(pair: RedrivePair, reader: CanonicalReader, answer: Message) -> Iterator[Part]:
    """Yield the parts that the recorded client sent after the calls, in order: results, text, media and others.

    Consecutive system texts become raw entries of the conversation.
    """
    results = iter(_results(pair, reader, answer))
    for is_system, group in groupby((entry.part for entry in pair.slice.answers), key=_is_system):
        if is_system:
            texts = (part for part in group if isinstance(part, SystemView))
            yield from (Opaque(reader.api, raw) for raw in reader.entries(texts))
            continue
        for part in group:
            match part:
                case ResultView():
                    yield from islice(results, 1)
                case TextView() | MediaView() | OpaqueView():
                    yield reader.part(part)
                case _:  # a call in the user's turn belongs to the client
                    yield Opaque(reader.api, reader.raw(part))


def _is_system(part: PartView | SystemView) -> bool:
    return isinstance(part, SystemView)


def _without_unanswered(pair: RedrivePair, answer: Message) -> Message:
    """Return the answer without calls that the recorded client did not run, because APIs reject unanswered calls."""
    calls = pair.i.response.calls
    kept = {*match_issued_calls(pair.slice.calls, calls), *match_answered_calls(pair.slice, calls)}
    dropped = [call for at, call in enumerate(_canonical(calls, answer)) if at not in kept]
    return replace(answer, parts=tuple(part for part in answer.parts if not any(part is each for each in dropped)))


def _results(pair: RedrivePair, reader: CanonicalReader, answer: Message) -> list[ToolResult]:
    """Return the results in the order of their calls, without results of calls that the client invented."""
    calls = pair.i.response.calls
    named = [
        (call.id or "", call.name) if known is None else (known.id, known.name)
        for call, known in zip(calls, _canonical(calls, answer), strict=True)
    ]
    converted = [
        (place, reader.result(result, *named[place]))
        for result, place in zip(pair.slice.results, match_answered_calls(pair.slice, calls), strict=True)
        if place is not None
    ]
    return [result for _, result in sorted(converted, key=lambda each: each[0])]


def _canonical(calls: tuple[CallView, ...], answer: Message) -> list[ToolCall | None]:
    """Return the canonical call for each call of the response. An entry is `None` if the adapter treats the call as
    opaque."""
    left = list(answer.tool_calls)
    found: list[ToolCall | None] = []
    for call in calls:
        same = next((each for each in left if _is(each, call)), None)
        if same is not None:
            left.remove(same)
        found.append(same)
    return found


def _is(canonical: ToolCall, call: CallView) -> bool:
    return canonical.name == call.name and call.id in (None, canonical.id)


_FirstDifference: TypeAlias = tuple[str, JSON, JSON]
"""Pointer to the first difference, and both values."""


def disagreements(
    driver: AdapterDriver, pair: RedrivePair, streamed: DrivenTurn, stream: HttpResponse, recuts: int
) -> Iterator[Disagreement]:
    """Yield the differences between the adapter's results for several deliveries of one response.

    The recorded stream is compared with the complete body and with `recuts` other splits of the stream.
    """
    yield from _disagreement("stream-whole", "as a whole body", pair, streamed, partial(driver.whole, pair))
    for number in range(recuts):
        other, way = recut(stream, number, f"{pair.j.wire.name} {pair.i.index}")
        yield from _disagreement("stream-recut", way, pair, streamed, partial(driver.drive_stream, pair, other))


def _disagreement(
    kind: str, way: str, pair: RedrivePair, streamed: DrivenTurn, replay: Callable[[], DrivenTurn]
) -> Iterator[Disagreement]:
    pointer = (pair.slice.spoken or pair.slice.answers)[0].part.pointer
    try:
        difference = _first_difference(streamed, replay())
    except Exception as error:  # noqa: BLE001 - as in a redrive: an adapter may fail in any way at all
        yield Disagreement(pointer, None, {"delivery": way, "error": str(error) or repr(error)}, kind)
        return
    if difference is not None:
        at, one, other = difference
        yield Disagreement(pointer, {"at": at, "value": one}, {"delivery": way, "value": other}, kind)


def _first_difference(one: DrivenTurn, other: DrivenTurn) -> _FirstDifference | None:
    """Return the first difference between the results of two deliveries, or `None` if they are equal.

    Its pointer leads to the innermost value that differs.
    """
    both = {
        "/answer": (_plain(one.answer), _plain(other.answer)),
        "/follow-up": (_request_json(one), _request_json(other)),
    }
    found = ((f"{at}{json_pointer(each.path)}", each) for at, pair in both.items() for each in diff(*pair, WHOLE_JSON))
    return next(((at, each.one, each.other) for at, each in found), None)


def _request_json(driven: DrivenTurn) -> JSON:
    return {"url": driven.request.url, "body": loads(driven.request.body)}


def _plain(value: object) -> JSON:
    if dataclasses.is_dataclass(value):
        fields = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"is": type(value).__name__, **fields}
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case tuple() | list():
            return [_plain(each) for each in cast("Sequence[object]", value)]
        case Mapping():
            return {str(key): _plain(each) for key, each in cast("Mapping[object, object]", value).items()}
        case _:
            return cast("JSON", value)


RECUTS = 3
"""Default number of additional ways to split each stream."""

_ENCRYPTED = re.compile(rb'"encrypted_content"\s*:\s*"([\w+/=-]+)"')


class Redrive:
    """A redrive in progress. Use it as a context manager, because its HTTP clients have to be closed.

    Cassettes are added one by one. A streamed response is sent as recorded, then as a whole body, and then split in
    `recuts` other ways.
    """

    def __init__(self, recuts: int = RECUTS) -> None:
        self._recuts = recuts
        self._drivers: dict[str, AdapterDriver] = {}
        apis = [api.name for api in registry.apis() if _can_redrive(api)]
        self._counts = {api: Counter[str]() for api in apis}
        self._not_redrivable = {api: Counter[str]() for api in apis}
        self._allowances = {api: Counter[str]() for api in apis}
        self._edits = {api: Counter[str]() for api in apis}
        self._disagreements: list[PairDisagreement] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for driver in self._drivers.values():
            driver.close()

    def add(self, file: str, cassette: Cassette) -> None:
        """Redrive the pairs of one cassette. Pairs of APIs that cannot be redriven are skipped.

        Raises:
            harness.model.errors.MissingDependency: the SDK of an API that has pairs is not installed.
        """
        for api, exchanges in accepted_exchanges(cassette).items():
            for pair in find_pairs(exchanges) if api in self._counts else ():
                self._counts[api]["pairs"] += 1
                reason = server_state_field(pair)
                if reason is not None:
                    self._not_redrivable[api][reason] += 1
                    continue
                found = self._drive(pair)
                self._counts[api]["streamed"] += pair.i.response.streamed
                self._counts[api]["agreeing"] += not found.disagreements
                self._counts[api]["edited"] += bool(found.edits)
                self._edits[api].update(found.edits.keys())
                self._allowances[api].update(found.allowances)
                self._disagreements += [_place(file, pair, each) for each in found.disagreements]

    def result(self) -> RedriveResult:
        """Return the result so far."""
        counts = {
            api: PairCounts(
                counter["pairs"],
                counter["agreeing"],
                counter["streamed"],
                dict(self._not_redrivable[api]),
                {kind: count for kind, count in sorted(self._allowances[api].items()) if count},
                counter["edited"],
                dict(sorted(self._edits[api].items())),
            )
            for api, counter in self._counts.items()
        }
        return RedriveResult(counts, tuple(self._disagreements), self._recuts)

    def _drive(self, pair: RedrivePair) -> TurnComparison:
        api = pair.j.wire
        if api.name not in self._drivers:
            self._drivers[api.name] = AdapterDriver(api)
        driver, stream = self._drivers[api.name], _stream(pair)
        try:
            driven = driver.drive_stream(pair, stream) if stream else driver.whole(pair)
            found = compare_requests(pair, driven.request)
        except Exception as error:  # noqa: BLE001 - an adapter may fail in any way at all: one pair, not the audit
            return TurnComparison.failure(pair.slice.answers[0].part.pointer, str(error) or repr(error))
        if stream:
            found.disagreements += disagreements(driver, pair, driven, stream, self._recuts)
        return found


def _can_redrive(api: Api) -> bool:
    """Return whether an API can be redriven: its requests can be read back, and its adapter streams and sends only
    through the given client.

    The last condition ensures that recorded data never leaves the process.
    """
    adapter = plugins.adapter(api.targets[0].adapter)
    return (
        api.canonical_reader is not None
        and adapter.route is Route.CLIENT
        and Capability.STREAMING in adapter.capabilities
    )


def _stream(pair: RedrivePair) -> HttpResponse | None:
    answer = pair.i.answer
    if not pair.i.response.streamed:
        return None
    headers = {name: value for name, value in answer.headers.items() if name == "content-type"}
    return HttpResponse(answer.status, headers, answer.body)


def server_state_field(pair: RedrivePair) -> str | None:
    """Return the field or item kind that makes a follow-up depend on server state, or `None`."""
    kinds = [entry.part.kind for entry in pair.slice.spoken if isinstance(entry.part, OpaqueView)]
    whole = pair.slice.calls and "item_reference" not in kinds
    return None if whole else pair.j.request.stateful


def compare_requests(pair: RedrivePair, produced: HttpRequest) -> TurnComparison:
    """Compare the adapter's next request with the recorded one, request j of the pair."""
    wire, calls = pair.j.wire, pair.i.response.calls
    found = TurnComparison(frozenset(call.id for call in calls if call.id), _replaced_reasoning(pair))
    view = wire.view(produced)
    turns = answered_turns(view, pair.i.response)
    recorded_turn = undo_edits(pair.i.response, pair.slice, _replaced_reasoning(pair))
    found.edits = recorded_turn.edits
    found.turn(recorded_turn.items, turn_items(turns[-1]) if turns else ())
    stated, sent = reader_for(wire, pair.j.body, pair.j.request), reader_for(wire, loads(produced.body), view)
    for items in (system_items, tool_items, hosted_items):
        found.sequence(items(stated), items(sent))
    return found


def _replaced_reasoning(pair: RedrivePair) -> frozenset[str]:
    """Return the encrypted reasoning in earlier events that the last event of the stream replaces."""
    if not pair.i.response.streamed:
        return frozenset()
    last = set(_ENCRYPTED.findall(json.dumps(pair.i.response.body).encode()))
    return frozenset(content.decode() for content in _ENCRYPTED.findall(pair.i.answer.body) if content not in last)


def _place(file: str, pair: RedrivePair, found: Disagreement) -> PairDisagreement:
    return PairDisagreement(
        pair.j.wire.name, file, pair.i.index, pair.j.index, found.pointer, found.recorded, found.produced, found.kind
    )
