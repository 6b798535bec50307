"""Drives a recorded answer through an adapter: decoded, answered with the recorded results, asked again."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import cast

import httpx2

from harness import catalog
from harness.apis.api import Api
from harness.apis.lift import Lift
from harness.apis.view import CallView, MediaView, OpaqueView, PartView, ResultView, SystemView, TextView
from harness.auditing.redrive.pairs import Pair, issued, lifted, origins
from harness.contract.errors import MalformedResponse
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import (
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
from harness.contract.protocols import Endpoint, StreamingChatClient
from harness.tape.transport import HandlerTransport

OPENING = "…"
"""What the user says first. The conversation before the pair is not compared, and answers do not depend on it."""


@dataclass(frozen=True, slots=True)
class Driven:
    """What an adapter made of response i: its answer, and the request that it sent with the results of request j."""

    answer: ChatResponse
    request: HttpRequest


class Driver:
    """One adapter of an API, and the HTTP that it sees: recorded answers in, its requests out."""

    def __init__(self, api: Api) -> None:
        self._sent: list[HttpRequest] = []
        self._response = HttpResponse(200)
        self._http = httpx2.Client(transport=HandlerTransport(self._play))
        endpoint = Endpoint(api.provider_url, "key-of-nobody", self._http)
        self._client = cast("StreamingChatClient", catalog.adapter(api.targets[0].adapter).connect(endpoint, ""))

    def close(self) -> None:
        """Close the clients."""
        self._client.close()
        self._http.close()

    def whole(self, pair: Pair) -> Driven:
        """What comes of response i by `chat`; of a streamed one as the body that the witness folds it to.

        Raises:
            harness.contract.errors.ChatError: the adapter cannot read the response or express the request.
        """
        return self._driven(pair, _whole(pair), self._client.chat)

    def streamed(self, pair: Pair, stream: HttpResponse) -> Driven:
        """What comes of response i by `stream`, which gets `stream` for an answer. The follow-up is asked whole.

        Raises:
            harness.contract.errors.ChatError: as `whole` does.
        """
        return self._driven(pair, stream, self._finish)

    def _driven(self, pair: Pair, response: HttpResponse, ask: Callable[[ChatRequest], ChatResponse]) -> Driven:
        lift = lifted(pair.j.wire, pair.j.body, pair.j.request)
        asked = _asked(pair, lift)
        answer = self._ask(response, ask, asked)
        results = Message(Role.USER, tuple(_following(pair, lift, answer.message)))
        follow_up = replace(asked, messages=(*asked.messages, _carried(pair, answer.message), results))
        self._ask(_whole(pair), self._client.chat, follow_up)
        return Driven(answer, self._sent.pop())

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

    def _play(self, request: HttpRequest) -> HttpResponse:
        self._sent.append(request)
        return self._response


def _whole(pair: Pair) -> HttpResponse:
    """The recorded response; a stream as the body that the witness folds it to."""
    body = json.dumps(pair.i.response.body).encode()
    return HttpResponse(200, {"content-type": "application/json"}, body)


def _asked(pair: Pair, lift: Lift) -> ChatRequest:
    system = lift.system()
    opening = (*(Opaque(lift.api, raw) for raw in system.opening), Text(OPENING))
    metadata = {**system.metadata, **lift.hosted_metadata()}
    return ChatRequest(
        pair.j.model,
        (Message(Role.USER, opening),),
        system.text,
        lift.tools(),
        provider_metadata={lift.api: metadata} if metadata else {},
    )


def _following(pair: Pair, lift: Lift, answer: Message) -> Iterator[Part]:
    """What follows the calls, in its order. System text is an entry of the conversation of its own."""
    results = iter(_results(pair, lift, answer))
    for is_system, group in groupby((entry.part for entry in pair.slice.answers), key=_is_system):
        if is_system:
            texts = (part for part in group if isinstance(part, SystemView))
            yield from (Opaque(lift.api, raw) for raw in lift.entries(texts))
            continue
        for part in group:
            match part:
                case ResultView():
                    yield from islice(results, 1)
                case TextView() | MediaView() | OpaqueView():
                    yield lift.part(part)
                case _:  # a call in the user's turn: nobody's but the client's
                    yield Opaque(lift.api, lift.raw(part))


def _is_system(part: PartView | SystemView) -> bool:
    return isinstance(part, SystemView)


def _carried(pair: Pair, answer: Message) -> Message:
    """The answer without the calls that the recorded client did not run: no API takes a call that nothing answers."""
    calls = pair.i.response.calls
    kept = {*issued(pair.slice.calls, calls), *origins(pair.slice, calls)}
    dropped = [call for at, call in enumerate(_canonical(calls, answer)) if at not in kept]
    return replace(answer, parts=tuple(part for part in answer.parts if not any(part is each for each in dropped)))


def _results(pair: Pair, lift: Lift, answer: Message) -> list[ToolResult]:
    """The results in the order of their calls, as a tool loop adds them. One that answers no call of the response
    belongs to what the client has made up."""
    calls = pair.i.response.calls
    named = [
        (call.id or "", call.name) if known is None else (known.id, known.name)
        for call, known in zip(calls, _canonical(calls, answer), strict=True)
    ]
    lifted = [
        (place, lift.result(result, *named[place]))
        for result, place in zip(pair.slice.results, origins(pair.slice, calls), strict=True)
        if place is not None
    ]
    return [result for _, result in sorted(lifted, key=lambda each: each[0])]


def _canonical(calls: tuple[CallView, ...], answer: Message) -> list[ToolCall | None]:
    """The canonical call that each call of the response has become, `None` for one that the adapter keeps as it is (its
    arguments are no object, say)."""
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
