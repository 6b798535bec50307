"""OpenAI Chat: answers as streams, and streams folded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.apis import registry
from harness.apis.eventstream import events
from harness.apis.openai_chat import API
from harness.apis.openai_chat.mock import streamed
from harness.apis.openai_chat.responses import DIALECTS
from harness.apis.profiles import Profile
from harness.apis.view import ModelStep, Provocation, RequestView, ResponseView, WireError
from harness.equivalence import view_differences
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import StopReason, Usage
from tests.apis.steps import steps
from tests.traffic import Recorded, needs_traffic, recorded

MODEL = "gpt-4o"
PROFILE = registry.api("openai-chat").profile_for(MODEL)
CONVERSATIONS = ("openai-chat", "openai-compat-chat", "errors/openai-compat-chat")
STREAM_TYPE = {"content-type": "text/event-stream"}

TWO_CALLS = ModelStep(text="Let me see.", calls=(("get_weather", {"city": "Zürich"}), ("now", {})))
BEHIND = ModelStep(calls=(("now", {"zone": "Europe/Zurich"}), ("now", {"zone": "Europe/Paris"})))
OVERLAPPING = replace(BEHIND, provocations=frozenset({Provocation.INTERLEAVED_CALLS}))

_RAW: list[Any] = [
    {"id": "call_9", "type": "custom", "custom": {"name": "shell", "input": "ls -l"}},
    {"reasoning_content": "Zürich is in Switzerland."},
    {"reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}]},
    {"annotations": [{"type": "url_citation", "url_citation": {"url": "https://a.example"}}]},
]
_STOPS = [StopReason.MAX_TOKENS, StopReason.STOP_SEQUENCE, StopReason.REFUSAL, StopReason.END_TURN]
# Two calls of one id cannot be told apart where a server gives all calls one index.
STEPS = steps(_RAW, _STOPS).filter(lambda step: step.raw.count(_RAW[0]) < 2)


def asked(*, usage: bool) -> RequestView:
    body: dict[str, Any] = {"model": MODEL, "messages": [], "stream": True}
    if usage:
        body["stream_options"] = {"include_usage": True}
    return API.view(HttpRequest("POST", "https://api.openai.com/v1/chat/completions", {}, json.dumps(body).encode()))


def whole(step: ModelStep, seed: str = "a", profile: Profile = PROFILE) -> ResponseView:
    body = json.dumps(API.build(step, seed, MODEL, profile)).encode()
    return API.read(HttpResponse(200, {"content-type": "application/json"}, body))


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


def alike(one: ResponseView, other: ResponseView) -> bool:
    return view_differences.alike(replace(one, body=None, streamed=True), replace(other, body=None))


@given(STEPS, st.text(max_size=3), st.sampled_from([None, *DIALECTS]))
def test_a_stream_folds_to_what_the_whole_body_says(step: ModelStep, seed: str, dialect: str | None) -> None:
    assume(
        dialect != "no-index" or len(step.raw) < 2 or step.raw[0] != step.raw[1]
    )  # then ids have to tell calls apart
    profile = replace(PROFILE, dialect=dialect)
    folded = API.read(stream(step, seed, profile))
    expected = whole(step, seed, profile)
    if dialect == "no-usage":
        expected = replace(expected, usage=Usage())
    assert folded.complete
    assert alike(expected, folded)


@given(STEPS, st.text(max_size=3))
def test_the_folded_body_is_the_whole_one_but_for_empty_fields(step: ModelStep, seed: str) -> None:
    expected: Any = whole(step, seed).body
    folded: Any = API.read(stream(step, seed)).body
    (choice,) = expected["choices"]
    message = choice["message"]
    if not message["annotations"]:  # a stream has no empty list of them
        del message["annotations"]
    assert message.get("refusal") != "" or folded["choices"][0]["message"].pop("refusal") is None
    if message["refusal"] == "":
        del message["refusal"]
    assert folded == expected


@given(STEPS)
def test_a_stream_is_a_function_of_its_seed(step: ModelStep) -> None:
    assert stream(step, "a") == stream(step, "a")
    assert stream(step, "a") != stream(step, "b")


@settings(deadline=None)  # the SDK builds its types when they are first used
@given(steps([{"reasoning_content": "hm"}], [StopReason.MAX_TOKENS, StopReason.REFUSAL]), st.booleans())
def test_every_chunk_is_the_sdks(step: ModelStep, usage: bool) -> None:
    chat = pytest.importorskip("openai.types.chat")
    for chunk in chunks(stream(step, usage=usage)):
        parsed = chat.ChatCompletionChunk.model_validate(chunk, strict=True)
        assert not parsed.model_extra
        for choice in parsed.choices:
            assert not choice.model_extra
            assert set(choice.delta.model_extra) <= {"reasoning_content"}
            assert not any(piece.model_extra for piece in choice.delta.tool_calls or ())


def test_tokens_are_counted_in_a_chunk_of_their_own_and_only_if_asked() -> None:
    *others, last = chunks(stream(TWO_CALLS))
    assert last["choices"] == []
    assert last["usage"]["prompt_tokens"]
    assert [chunk["usage"] for chunk in others] == [None] * len(others)

    silent = stream(TWO_CALLS, usage=False)
    assert all("usage" not in chunk and chunk["choices"] for chunk in chunks(silent))
    assert API.read(silent).usage == Usage()
    assert API.read(silent).complete


def test_the_view_of_a_request_says_where_usage_is_asked_for() -> None:
    assert asked(usage=True).usage_pointer == "/stream_options/include_usage"
    assert asked(usage=False).usage_pointer is None


def test_an_only_call_comes_with_the_announcement_and_several_after_it() -> None:
    (first, *_) = deltas(stream(ModelStep(calls=(("now", {}),))))
    assert (first["role"], first["content"]) == ("assistant", None)
    assert first["tool_calls"][0]["function"] == {"name": "now", "arguments": ""}

    (first, second, *_) = deltas(stream(ModelStep(calls=(("now", {}), ("now", {})))))
    assert "tool_calls" not in first
    assert second["tool_calls"][0]["index"] == 0


def test_ids_and_names_come_once_and_pieces_are_told_apart_by_index() -> None:
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


def test_pieces_of_several_calls_alternate_where_it_is_asked_for_and_nowhere_else() -> None:
    assert not any(alternates(stream(BEHIND, str(seed))) for seed in range(40))
    sent = [stream(OVERLAPPING, str(seed)) for seed in range(40)]
    assert all(alternates(one) for one in sent)
    for one in sent:
        assert [piece["index"] for piece in pieces(one) if "id" in piece] == [0, 1]


def test_calls_of_an_answer_that_is_cut_off_come_one_after_another() -> None:
    cut = replace(OVERLAPPING, truncated=True)
    assert not any(alternates(stream(cut, str(seed))) for seed in range(40))


def test_the_finish_reason_comes_beside_an_empty_delta() -> None:
    *others, last = [choice for chunk in chunks(stream(TWO_CALLS)) for choice in chunk["choices"]]
    assert (last["delta"], last["finish_reason"]) == ({}, "tool_calls")
    assert {choice["finish_reason"] for choice in others} == {None}


def test_pieces_fall_inside_of_escapes_and_of_what_looks_like_one_character() -> None:
    step = ModelStep(text="👨‍👩‍👧‍👦", calls=(("now", {"q": 'say "hi"'}),))
    sent = [stream(step, str(seed)) for seed in range(20)]
    assert any(piece["function"]["arguments"].endswith("\\") for one in sent for piece in pieces(one))
    assert any(delta.get("content") == "👨" for one in sent for delta in deltas(one))


@given(STEPS, st.data())
def test_a_stream_that_breaks_off_is_not_complete(step: ModelStep, data: st.DataObject) -> None:
    sent = stream(step, usage=False).body
    ended = sent.index(b'"finish_reason":"')
    cut = data.draw(st.integers(0, ended))
    seen = API.read(HttpResponse(200, STREAM_TYPE, sent[:cut]))
    assert not seen.complete
    assert seen.stop_reason == StopReason.UNKNOWN
    for call, (name, arguments) in zip(seen.calls, () if step.raw else step.calls, strict=False):
        assert call.name == name
        assert call.malformed is not None or call.arguments in ({}, arguments)


def test_a_finish_reason_is_an_end_without_a_sentinel() -> None:
    sent = stream(TWO_CALLS).body.removesuffix(b"data: [DONE]\n\n")
    assert API.read(HttpResponse(200, STREAM_TYPE, sent)).complete


def test_an_error_stands_where_the_end_would() -> None:
    body = API.build(TWO_CALLS, "a", MODEL, PROFILE) | {"error": {"message": "down", "code": "server_error"}}
    sent = streamed(body, "a", usage=True)
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


_ANY: st.SearchStrategy[Any] = st.sampled_from([None, True, -7, 0, 1.5, "", "x", "{}", [], ["x"], {}, {"name": 1}])
_PIECE = st.dictionaries(st.sampled_from(["index", "id", "type", "function", "custom"]), _ANY, max_size=4) | _ANY
_DELTA = st.dictionaries(
    st.sampled_from(["role", "content", "refusal", "function_call", "reasoning"]), _ANY, max_size=3
)
_CHOICE = st.fixed_dictionaries(
    {
        "delta": st.builds(lambda delta, calls: {**delta, "tool_calls": calls}, _DELTA, st.lists(_PIECE, max_size=3))
        | _ANY
    },
    optional=dict.fromkeys(("index", "finish_reason", "logprobs", "error"), _ANY),
)
_CHUNK = st.fixed_dictionaries(
    {"choices": st.lists(_CHOICE | _ANY, max_size=2) | _ANY},
    optional=dict.fromkeys(("object", "model", "usage", "error", "message"), _ANY),
)


@given(st.lists(_CHUNK, max_size=4))
def test_any_chunks_are_read_or_said_to_be_none(sent: list[dict[str, Any]]) -> None:
    body = b"".join(b"data: %s\n\n" % json.dumps(one).encode() for one in sent)
    with suppress(WireError):
        assert API.read(HttpResponse(200, STREAM_TYPE, body)).streamed


@given(st.binary() | st.lists(st.sampled_from([b"data: ", b"{", b"}", b'"', b"\r", b"\n", b"\xff"])).map(b"".join))
def test_any_bytes_are_read_or_said_to_be_no_chunks(body: bytes) -> None:
    with suppress(WireError):
        assert API.read(HttpResponse(200, STREAM_TYPE, body)).streamed


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


def test_a_piece_without_a_name_continues_a_call_whatever_its_id() -> None:
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


def test_a_call_can_come_whole_in_its_first_piece() -> None:
    came = [json.loads(piece["function"]["arguments"]) for piece in pieces(spoken("whole-calls"))]
    assert came == [arguments for _, arguments in TWO_CALLS.calls]


@pytest.mark.parametrize(
    "name",
    sorted(name for name, dialect in DIALECTS.items() if name not in ("no-index", "one-index") and not dialect.whole),
)
def test_pieces_alternate_in_every_dialect_that_says_their_index(name: str) -> None:
    profile = replace(PROFILE, dialect=name)
    assert any(alternates(stream(OVERLAPPING, str(seed), profile)) for seed in range(40))


def test_pieces_without_an_index_are_those_of_the_call_before_them() -> None:
    profile = replace(PROFILE, dialect="no-index")
    for seed in range(40):
        texts: list[str] = []
        for piece in pieces(stream(OVERLAPPING, str(seed), profile)):
            if "id" in piece:
                texts.append("")
            texts[-1] += piece["function"]["arguments"]
        assert [json.loads(text) for text in texts] == [arguments for _, arguments in OVERLAPPING.calls]


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


def test_comments_can_keep_a_stream_alive() -> None:
    sent = spoken("comments").body
    assert sent.startswith(b": ")
    assert sent.count(b"\n: ") + 1 == sent.count(b"data: ")
    assert chunks(spoken("comments")) == chunks(stream(TWO_CALLS))


# traffic


def streams() -> list[Recorded]:
    found = [item for item in recorded(*CONVERSATIONS) if API.read(item.response).streamed]
    assert len(found) > 80
    return found


@needs_traffic
def test_recorded_streams_come_to_their_end_or_to_an_error() -> None:
    for item in streams():
        seen = API.read(item.response)
        assert seen.complete or seen.error, item.path


def _without_blanks(value: Any) -> Any:
    """A message as a stream can say it: what says nothing is not sent."""
    return {key: entry for key, entry in value.items() if entry not in (None, "", [], {})}


@needs_traffic
def test_a_recorded_stream_that_is_written_again_folds_to_the_same_body() -> None:
    for item in streams():
        body: Any = API.read(item.response).body
        again: Any = API.read(HttpResponse(200, STREAM_TYPE, streamed(body, item.path, usage=True))).body
        for one, other in zip(body["choices"], again["choices"], strict=True):
            assert _without_blanks(one.pop("message")) == _without_blanks(other.pop("message")), item.path
            assert one == other, item.path
        assert again == body, item.path


def _paths(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, member in value.items():
            yield f"{path}.{key}"
            yield from _paths(member, f"{path}.{key}")
    elif isinstance(value, list):
        for member in value:
            yield from _paths(member, path)


@needs_traffic
def test_what_a_stream_that_is_written_again_does_not_give_back() -> None:
    lost: set[str] = set()
    for item in streams():
        body: Any = API.read(item.response).body
        again = HttpResponse(200, STREAM_TYPE, streamed(body, item.path, usage=True))
        lost |= {path for chunk in chunks(item.response) for path in _paths(chunk)} - {
            path for chunk in chunks(again) for path in _paths(chunk)
        }
    # Mistral's padding, and what Groq says in its first chunk only, since the last one that speaks of it counts.
    assert lost == {".p", ".x_groq.seed"}
