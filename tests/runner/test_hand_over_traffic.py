"""Recorded conversations of one API, continued through the shipped adapters of the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import groupby
from typing import cast

import httpx2
import pytest

from harness.apis import registry
from harness.apis.conversion import CanonicalReader
from harness.apis.jsonvalue import loads, parse_body
from harness.apis.view import CallView, ResultView, WireError
from harness.audit.redrive_pairs import reader_for
from harness.cassettes.transport import HandlerTransport
from harness.equivalence.request_meaning import pair_results
from harness.model.errors import ChatError, Unsupported
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON, ChatRequest, Message, Opaque, Part, Role, ToolCall
from harness.model.protocols import ChatClient, Endpoint
from harness.rules.opaque_state import foreign_state, texts_of
from tests.backends import shipped_targets
from tests.traffic import FOLDERS, needs_traffic, recorded

TARGETS = ("anthropic", "openai-chat", "openai-responses", "gemini-4")


def _canonical(reader: CanonicalReader) -> ChatRequest:
    """The recorded request as a caller would give it to an adapter of another API."""
    names: dict[str | None, str] = {}
    messages: list[Message] = []
    for role, turns in groupby(reader.view.turns, lambda turn: turn.role):
        parts = [part for turn in turns for found in turn.parts for part in _part(reader, found, names)]
        if parts:
            messages.append(Message(Role(role), tuple(parts)))
    return ChatRequest("", tuple(messages), reader.system().text, reader.tools(), max_tokens=1024)


def _part(reader: CanonicalReader, found: object, names: dict[str | None, str]) -> Iterator[Part]:
    match found:
        case CallView(malformed=None, arguments=dict()):
            names[found.id] = found.name
            state: dict[str, JSON] = {} if found.opaque is None else {reader.api: {"state": found.opaque}}
            yield ToolCall(found.id or "", found.name, cast("dict[str, JSON]", found.arguments), state)
        case CallView():
            yield Opaque(reader.api, reader.raw(found))
        case ResultView():
            yield reader.result(found, found.call_id or "", found.name or names.get(found.call_id, ""))
        case _:
            yield reader.part(found)  # type: ignore[arg-type]


def _sent(target: str, request: ChatRequest) -> HttpRequest:
    """The request that a target's adapter sends, whatever it makes of the response."""
    sent: list[HttpRequest] = []

    def note(request: HttpRequest) -> HttpResponse:
        sent.append(request)
        return HttpResponse(400, {"content-type": "application/json"}, b"{}")

    chosen = shipped_targets()[target]
    with httpx2.Client(transport=HandlerTransport(note)) as http:
        endpoint = Endpoint(registry.api(chosen.api).provider_url, "key-of-nobody", http)
        with closing(cast("ChatClient", chosen.adapter.connect(endpoint, chosen.model))) as client:
            try:
                client.chat(request)
            except Unsupported:
                raise
            except ChatError:
                pass
    return sent[0]


def _judged(target: str, request: ChatRequest, sent: HttpRequest) -> Iterator[str]:
    """What the target's provider would refuse, and what is paired wrongly or belongs to another API."""
    chosen = shipped_targets()[target]
    wire = registry.api(chosen.api)
    rule_set = wire.services.provider_rules(chosen.profile, chosen.model)
    place = wire.request_builder.conversation if wire.request_builder else "messages"
    for violation in wire.judge(sent, rule_set):
        if violation.severity == "error" and violation.pointer.startswith(f"/{place}"):
            yield violation.limit.id
    pairing = pair_results(wire.view(sent))
    if pairing.orphans:
        yield "a result without a call"
    if len(pairing.calls) != len([call for message in request.messages for call in message.tool_calls]):
        yield "calls left out"
    body = parse_body(sent.body)
    state = {text for api, text in foreign_state(request) if api != chosen.api}
    if any(text in state for _, text in texts_of(body)):
        yield "state of another API"


DECLINED = (
    "the API takes files by their data only",
    "the API takes application/pdf",
    "the API takes no audio/mpeg",
    "the API takes no video/mp4",
    "an empty user message is not supported",
)
"""Reasons for which adapters decline recorded conversations: media that the other API does not take, and a last message
that has only parts of the first API."""


@needs_traffic
@pytest.mark.parametrize("folder", FOLDERS)
def test_a_recorded_conversation_continues_on_the_other_apis(folder: str) -> None:
    wire = registry.api(FOLDERS[folder])
    others = [target for target in TARGETS if shipped_targets()[target].api != wire.name]
    handed, wrong = 0, list[tuple[str, int, str, str]]()
    for exchange in recorded(folder):
        view = None
        with suppress(WireError):
            view = wire.view(exchange.request) if exchange.response.status == 200 else None
        if view is None or view.stateful or len(view.turns) < 2:
            continue
        request = _canonical(reader_for(wire, loads(exchange.request.body), view))
        for target in others:
            try:
                sent = _sent(target, request)
            except Unsupported as declined:
                if not any(reason in str(declined) for reason in DECLINED):
                    wrong.append((exchange.path, exchange.index, target, str(declined)))
                continue
            handed += 1
            wrong += [(exchange.path, exchange.index, target, each) for each in _judged(target, request, sent)]
    assert wrong == []
    assert handed >= 5
