"""How Gemini streams: what the reference server says, and what is read of streams that break off."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from harness.apis import registry
from harness.apis.gemini import API
from harness.apis.gemini.responses import array_chunks, event_chunks, fold
from harness.apis.gemini.server import array, event_stream
from harness.apis.view import ErrorView, ModelStep, RequestView, ResponseView
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON, StopReason

MODELS = ("gemini-3.5-flash", "gemini-3-flash-preview", "gemini-2.5-flash", "gemini-flash-latest")


def asked(method: str) -> RequestView:
    return API.view(HttpRequest("POST", f"/v1/models/m:{method}", {}, b'{"contents": []}'))


EVENTS, ARRAY = asked("streamGenerateContent?alt=sse"), asked("streamGenerateContent")
TEXT = ModelStep(text="The family 👨‍👩‍👧 says: it is 18 °C in Paris today, which is warm for a day in November.")


def built(step: ModelStep, seed: str = "seed", model: str = MODELS[0], request: RequestView = EVENTS) -> HttpResponse:
    return API.build_stream(step, seed, model, registry.api("gemini").profile_for(model), request)


def whole(step: ModelStep, seed: str = "seed", model: str = MODELS[0]) -> ResponseView:
    body = API.build(step, seed, model, registry.api("gemini").profile_for(model))
    return API.read(HttpResponse(200, {"content-type": "application/json"}, json.dumps(body).encode()))


def chunks(body: bytes) -> list[dict[str, Any]]:
    return array_chunks(body)[0] if body.startswith(b"[") else event_chunks(body)


def parts(chunk: dict[str, Any]) -> list[dict[str, Any]]:
    (candidate,) = chunk["candidates"]
    return candidate.get("content", {}).get("parts", [])


def shape(body: bytes) -> tuple[str, ...]:
    """What each chunk holds, in words: what its parts are, and whether they are signed, empty or the last."""
    return tuple(
        " ".join([*map(_word, parts(chunk)), *(["end"] * ("finishReason" in chunk["candidates"][0]))])
        for chunk in chunks(body)
    )


def _word(part: dict[str, Any]) -> str:
    kind = "empty" if part.get("text") == "" else next(key for key in part if key != "thoughtSignature")
    return f"signed-{kind}" if "thoughtSignature" in part else kind


def shapes(step: ModelStep, model: str = MODELS[0]) -> set[tuple[str, ...]]:
    return {shape(built(step, str(seed), model).body) for seed in range(60)}


def test_the_form_of_a_stream_follows_from_the_path() -> None:
    assert (EVENTS.stream_format, ARRAY.stream_format) == ("events", "json-array")
    assert asked("generateContent").stream_format == "events"
    as_events, as_array = built(TEXT), built(TEXT, request=ARRAY)
    assert as_events.headers == {"content-type": "text/event-stream"}
    assert as_events.body.startswith(b"data: {")
    assert as_events.body.endswith(b"}\r\n\r\n")
    assert as_array.headers == {"content-type": "application/json; charset=UTF-8"}
    assert json.loads(as_array.body) == chunks(as_events.body)
    assert "👨‍👩‍👧"[0].encode() in as_events.body


def test_the_finish_reason_comes_with_or_after_the_last_part() -> None:
    call = ModelStep(calls=(("now", {}),))
    assert shapes(call) == {
        ("signed-functionCall end",),
        ("signed-functionCall empty end",),
        ("signed-functionCall", "empty end"),
    }
    assert shapes(ModelStep(refusal="No.")) == {("end",)}
    assert shapes(ModelStep(text="")) == {("empty end",)}


def test_a_signature_is_on_the_first_piece_of_text_or_on_an_empty_last_one() -> None:
    seen = shapes(TEXT)
    assert {shape[-1] for shape in seen} == {"signed-empty end", "text end", "empty end"}
    assert {shape[0] for shape in seen} == {"text", "signed-text"}
    for shape in seen:
        assert " ".join(shape).count("signed") == 1
    assert {" ".join(shape).count("signed") for shape in shapes(TEXT, "gemini-2.5-flash")} == {0}


def test_usage_grows_and_the_last_is_the_answers() -> None:
    for seed in map(str, range(20)):
        usages = [chunk["usageMetadata"] for chunk in chunks(built(TEXT, seed).body)]
        counts = [usage["candidatesTokenCount"] for usage in usages]
        assert counts == sorted(counts)
        assert counts[0] < counts[-1]
        assert {usage["totalTokenCount"] - usage["candidatesTokenCount"] for usage in usages} == {
            usages[-1]["totalTokenCount"] - counts[-1]
        }
        body = whole(TEXT, seed).body
        assert isinstance(body, dict)
        assert usages[-1] == body["usageMetadata"]


ERROR = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}


@pytest.mark.parametrize(
    "said",
    [
        f"data: {json.dumps(ERROR)}\r\n\r\n",
        f"data: {json.dumps([ERROR])}\r\n\r\n",
        json.dumps(ERROR, indent=2),
        json.dumps([ERROR], indent=2),
    ],
    ids=["event", "list in an event", "bare", "bare list"],
)
def test_an_error_inside_a_stream_however_it_comes(said: str) -> None:
    body = b'data: {"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}\r\n\r\n' + said.encode()
    view = API.read(HttpResponse(200, {"content-type": "text/event-stream"}, body))
    assert view.error == ErrorView(200, "The model is overloaded.", "UNAVAILABLE", 503)
    assert (view.text, view.stop_reason, view.complete) == ("Hi", StopReason.ERROR, False)


def test_lines_that_are_no_field_of_an_event_say_nothing() -> None:
    body = built(TEXT).body
    for said in (b"{not JSON\r\n", b"[\r\n"):
        view = API.read(HttpResponse(200, {"content-type": "text/event-stream"}, body + said))
        assert (view.error, view.complete) == (None, True)


def test_a_chunk_without_a_role_keeps_the_role() -> None:
    body = (
        b'data: {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}}]}\n\n'
        b'data: {"candidates": [{"content": {"parts": [{"text": "!"}]}, "finishReason": "STOP"}]}\n\n'
    )
    view = API.read(HttpResponse(200, {"content-type": "text/event-stream"}, body))
    assert view.body == {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "Hi!"}]}, "finishReason": "STOP"}]
    }


def test_a_signature_after_a_text_is_on_that_text_in_one_body() -> None:
    streamed = [{"text": "It is "}, {"text": "18."}, {"text": "", "thoughtSignature": "c2ln"}]
    assert folded(streamed) == [{"text": "It is 18.", "thoughtSignature": "c2ln"}]


@pytest.mark.parametrize(
    "streamed",
    [
        [{"functionCall": {"name": "now", "args": {}}}, {"text": "", "thoughtSignature": "c2ln"}],
        [{"text": "Hm.", "thought": True}, {"text": "", "thoughtSignature": "c2ln"}],
        [{"text": "It is "}, {"text": "18.", "thoughtSignature": "c2ln"}],
    ],
)
def test_a_signature_without_a_plain_text_before_it_stays_where_it_is(streamed: list[dict[str, Any]]) -> None:
    assert folded(streamed) == streamed


def folded(streamed: list[dict[str, Any]]) -> Any:
    chunks = [{"candidates": [{"content": {"parts": [part], "role": "model"}}]} for part in streamed]
    (candidate,) = cast("list[Any]", fold(chunks)["candidates"])
    return candidate["content"]["parts"]


def test_bodies_without_counts_or_candidates_are_streamed() -> None:
    blocked: dict[str, JSON] = {"promptFeedback": {"blockReason": "SAFETY"}, "modelVersion": "m"}
    assert chunks(event_stream(blocked, "seed")) == chunks(array(blocked, "seed")) == [blocked]
    bare: dict[str, JSON] = {"candidates": [{"content": {"parts": [{"text": "x" * 99}]}, "finishReason": "STOP"}]}
    sent = chunks(event_stream(bare, "seed"))
    assert len(sent) > 2
    assert not any("usageMetadata" in chunk for chunk in sent)
