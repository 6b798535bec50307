"""OpenAI Chat: answers as streams, and streams folded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from harness.apis import registry
from harness.apis.eventstream import events
from harness.apis.openai_chat import API
from harness.apis.openai_chat.responses import DIALECTS
from harness.apis.openai_chat.server import to_stream
from harness.apis.registry import Profile
from harness.apis.view import ModelStep, RequestView
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import StopReason, Usage
from harness.scenarios.schema import Provocation

MODEL = "gpt-4o"
PROFILE = registry.api("openai-chat").profile_for(MODEL)
STREAM_TYPE = {"content-type": "text/event-stream"}

TWO_CALLS = ModelStep(text="Let me see.", calls=(("get_weather", {"city": "Zürich"}), ("now", {})))
BEHIND = ModelStep(calls=(("now", {"zone": "Europe/Zurich"}), ("now", {"zone": "Europe/Paris"})))
OVERLAPPING = replace(BEHIND, provocations=frozenset({Provocation.INTERLEAVED_CALLS}))


def asked(*, usage: bool) -> RequestView:
    body: dict[str, Any] = {"model": MODEL, "messages": [], "stream": True}
    if usage:
        body["stream_options"] = {"include_usage": True}
    return API.view(HttpRequest("POST", "https://api.openai.com/v1/chat/completions", {}, json.dumps(body).encode()))


def stream(step: ModelStep, seed: str = "a", profile: Profile = PROFILE, *, usage: bool = True) -> HttpResponse:
    return API.build_stream(step, seed, MODEL, profile, asked(usage=usage))


def chunks(response: HttpResponse) -> list[dict[str, Any]]:
    return [json.loads(event.data) for event in events(response.body) if event.data != "[DONE]"]


def deltas(response: HttpResponse) -> Iterator[dict[str, Any]]:
    for chunk in chunks(response):
        for choice in chunk["choices"]:
            yield choice["delta"]


def pieces(response: HttpResponse) -> list[dict[str, Any]]:
    return [piece for delta in deltas(response) for piece in delta.get("tool_calls", ())]


def test_usage_has_a_chunk_of_its_own_only_if_requested() -> None:
    *others, last = chunks(stream(TWO_CALLS))
    assert last["choices"] == []
    assert last["usage"]["prompt_tokens"]
    assert [chunk["usage"] for chunk in others] == [None] * len(others)

    silent = stream(TWO_CALLS, usage=False)
    assert all("usage" not in chunk and chunk["choices"] for chunk in chunks(silent))
    assert API.read(silent).usage == Usage()
    assert API.read(silent).complete


def test_ids_and_names_are_sent_once_and_pieces_have_an_index() -> None:
    sent = pieces(stream(TWO_CALLS))
    assert [piece["index"] for piece in sent if "id" in piece] == [0, 1]
    assert [piece["function"]["arguments"] for piece in sent if "id" in piece] == ["", ""]
    later = [piece for piece in sent if "id" not in piece]
    assert len(later) > 2
    assert all(piece.keys() == {"index", "function"} and piece["function"].keys() == {"arguments"} for piece in later)


def alternates(response: HttpResponse) -> bool:
    """Whether a piece of one call comes behind a piece of the arguments of a later one."""
    order = [piece["index"] for piece in pieces(response) if piece["function"]["arguments"]]
    return order != sorted(order)


def test_pieces_of_calls_alternate_only_if_provoked() -> None:
    assert not any(alternates(stream(BEHIND, str(seed))) for seed in range(40))
    sent = [stream(OVERLAPPING, str(seed)) for seed in range(40)]
    assert all(alternates(one) for one in sent)
    for one in sent:
        assert [piece["index"] for piece in pieces(one) if "id" in piece] == [0, 1]


def test_pieces_fall_inside_of_escapes_and_of_what_looks_like_one_character() -> None:
    step = ModelStep(text="👨‍👩‍👧‍👦", calls=(("now", {"q": 'say "hi"'}),))
    sent = [stream(step, str(seed)) for seed in range(20)]
    assert any(piece["function"]["arguments"].endswith("\\") for one in sent for piece in pieces(one))
    assert any(delta.get("content") == "👨" for one in sent for delta in deltas(one))


def test_an_error_replaces_the_end() -> None:
    body = API.build(TWO_CALLS, "a", MODEL, PROFILE) | {"error": {"message": "down", "code": "server_error"}}
    sent = to_stream(body, "a", usage=True)
    assert b"[DONE]" not in sent
    seen = API.read(HttpResponse(200, STREAM_TYPE, sent))
    assert seen.error is not None
    assert (seen.error.status, seen.error.message, seen.stop_reason) == (200, "down", StopReason.ERROR)


def test_logprobs_of_all_chunks_are_kept() -> None:
    def said(token: str) -> dict[str, Any]:
        logprobs = {"content": [{"token": token, "logprob": -0.5, "bytes": None, "top_logprobs": []}], "refusal": None}
        return {"index": 0, "delta": {"content": token}, "logprobs": logprobs, "finish_reason": None}

    end = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}
    sent = b"".join(b"data: %s\n\n" % json.dumps({"choices": [one]}).encode() for one in (said("a"), said("b"), end))
    body: Any = API.read(HttpResponse(200, STREAM_TYPE, sent)).body
    assert [entry["token"] for entry in body["choices"][0]["logprobs"]["content"]] == ["a", "b"]


# dialects


def spoken(name: str, step: ModelStep = TWO_CALLS, *, usage: bool = True) -> HttpResponse:
    return stream(step, profile=replace(PROFILE, dialect=name), usage=usage)


def test_ids_can_be_empty_absent_or_repeated() -> None:
    assert [piece["id"] for piece in pieces(spoken("empty-ids")) if "id" in piece] == ["", ""]
    assert not any("id" in piece for piece in pieces(spoken("no-ids")))
    repeated = pieces(spoken("repeated-ids"))
    assert len(repeated) > 4
    assert all(piece["id"] and piece["function"]["name"] for piece in repeated)
    assert len({piece["id"] for piece in repeated}) == 2


def test_a_piece_without_a_name_continues_the_last_call() -> None:
    def piece(call_id: str, name: str, arguments: str) -> bytes:
        call = {"index": 0, "id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}).encode() + b"\n\n"

    opened, continued = piece("a", "now", ""), piece("x", "", '{"zone":') + piece("y", "", '"UTC"}')
    other = piece("b", "then", "") + piece("z", "", "{}") + piece("a", "now", " ")
    read = API.read(HttpResponse(200, STREAM_TYPE, opened + continued + other))
    assert [(call.id, call.name, call.arguments) for call in read.calls] == [
        ("a", "now", {"zone": "UTC"}),
        ("b", "then", {}),
    ]


def test_the_index_can_start_at_one_or_be_absent() -> None:
    assert {piece["index"] for piece in pieces(spoken("index-from-one"))} == {1, 2}
    assert not any("index" in piece for piece in pieces(spoken("no-index")))


@pytest.mark.parametrize(
    "name",
    sorted(name for name, dialect in DIALECTS.items() if name not in ("no-index", "one-index") and not dialect.whole),
)
def test_pieces_alternate_in_every_dialect_that_says_their_index(name: str) -> None:
    profile = replace(PROFILE, dialect=name)
    assert any(alternates(stream(OVERLAPPING, str(seed), profile)) for seed in range(40))


def test_no_arguments_can_be_no_text_at_all() -> None:
    (only,) = pieces(spoken("empty-arguments", ModelStep(calls=(("now", {}),))))
    assert only["function"]["arguments"] == ""
    (call,) = API.read(spoken("empty-arguments", ModelStep(calls=(("now", {}),)))).calls
    assert (call.arguments, call.malformed) == ({}, None)


@pytest.mark.parametrize("usage", [True, False])
def test_usage_can_come_early_or_never(usage: bool) -> None:
    first, *_, last = chunks(spoken("early-usage", usage=usage))
    assert first["usage"]["prompt_tokens"]
    assert first["usage"]["completion_tokens"] is None
    assert last["choices"][0]["finish_reason"]
    assert last["usage"]["completion_tokens"]
    assert not any("usage" in chunk for chunk in chunks(spoken("no-usage", usage=usage)))


# traffic
