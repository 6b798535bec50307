"""How Gemini streams: what the reference server says, and what is read of streams that break off."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.apis import registry
from harness.apis.gemini import API
from harness.apis.gemini.mock import array, event_stream
from harness.apis.gemini.responses import array_chunks, event_chunks, fold
from harness.apis.view import ErrorView, ModelStep, OpaqueView, PartView, RequestView, ResponseView, TextView, WireError
from harness.equivalence.view_differences import alike
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON, StopReason
from tests.apis.differing import differing
from tests.apis.steps import steps
from tests.traffic import Recorded, needs_traffic, recorded

MODELS = ("gemini-3.5-flash", "gemini-3-flash-preview", "gemini-2.5-flash", "gemini-flash-latest")
RAW: list[JSON] = [
    {"executableCode": {"language": "PYTHON", "code": "print('°')"}, "thoughtSignature": "QUI="},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "°"}},
    {"inlineData": {"mimeType": "image/png", "data": "QUI="}},
]


def asked(method: str) -> RequestView:
    return API.view(HttpRequest("POST", f"/v1/models/m:{method}", {}, b'{"contents": []}'))


EVENTS, ARRAY = asked("streamGenerateContent?alt=sse"), asked("streamGenerateContent")
TEXT = ModelStep(text="The family 👨‍👩‍👧 says: it is 18 °C in Paris today, which is warm for a day in November.")
CALLS = ModelStep(calls=(("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Tokyo"}), ("now", {})))


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


def joined(view: ResponseView) -> ResponseView:
    """The view with adjacent texts in one, and the signature that one of them has on it: a stream has it on its first
    piece or on an empty one behind it, a whole answer on the text itself. Empty texts and thoughts are not there."""
    kept: list[PartView] = []
    for part in view.parts:
        last = kept[-1] if kept else None
        if isinstance(part, TextView) and isinstance(last, TextView) and None in (part.opaque, last.opaque):
            kept[-1] = TextView(last.text + part.text, "", last.opaque or part.opaque)
        elif not _is_empty(part):
            kept.append(part)
    return replace(view, parts=tuple(kept), body=None, streamed=False)


def _is_empty(part: PartView) -> bool:
    if isinstance(part, TextView):
        return not part.text and part.opaque is None
    return isinstance(part, OpaqueView) and part.raw == {"text": "", "thought": True}


@settings(deadline=None)
@given(
    steps(RAW, [*StopReason]), st.text(max_size=4), st.sampled_from(MODELS), st.sampled_from(["events", "json-array"])
)
def test_a_stream_folds_to_the_whole_answer(step: ModelStep, seed: str, model: str, form: str) -> None:
    response = built(step, seed, model, EVENTS if form == "events" else ARRAY)
    view = API.read(response)
    assert (view.streamed, view.complete) == (True, True)
    assert alike(joined(view), joined(whole(step, seed, model)))


@settings(deadline=None)
@given(steps(RAW, [*StopReason]), st.text(max_size=4), st.sampled_from(MODELS))
def test_every_chunk_is_the_sdk_s_and_a_whole_response(step: ModelStep, seed: str, model: str) -> None:
    types = pytest.importorskip("google.genai.types")
    said = chunks(built(step, seed, model).body)
    for chunk in said:
        types.GenerateContentResponse.model_validate(chunk)  # refuses unknown fields
        assert chunk.keys() == {"candidates", "usageMetadata", "modelVersion", "responseId"}
    assert ["finishReason" in chunk["candidates"][0] for chunk in said] == [False] * (len(said) - 1) + [True]


def test_the_sdk_asks_for_events_and_reads_them() -> None:
    genai = pytest.importorskip("google.genai")
    httpx2 = pytest.importorskip("httpx2")

    def handler(request: Any) -> Any:
        assert API.view(HttpRequest("POST", str(request.url), {}, request.content)).stream_format == "events"
        response = built(CALLS)
        return httpx2.Response(response.status, headers=dict(response.headers), content=response.body)

    with httpx2.Client(transport=httpx2.MockTransport(handler)) as http:
        client = genai.Client(api_key="none", http_options={"httpx_client": http})
        streamed = [*client.models.generate_content_stream(model=MODELS[0], contents="Hi")]
    calls = [(call.id, call.name, call.args) for chunk in streamed for call in chunk.function_calls or ()]
    assert calls == [(call.id, call.name, call.arguments) for call in whole(CALLS).calls]


def test_the_form_is_the_one_that_is_asked_for() -> None:
    assert (EVENTS.stream_format, ARRAY.stream_format) == ("events", "json-array")
    assert asked("generateContent").stream_format == "events"
    as_events, as_array = built(TEXT), built(TEXT, request=ARRAY)
    assert as_events.headers == {"content-type": "text/event-stream"}
    assert as_events.body.startswith(b"data: {")
    assert as_events.body.endswith(b"}\r\n\r\n")
    assert as_array.headers == {"content-type": "application/json; charset=UTF-8"}
    assert json.loads(as_array.body) == chunks(as_events.body)
    assert "👨‍👩‍👧"[0].encode() in as_events.body


def test_calls_come_whole_one_to_a_chunk() -> None:
    assert shapes(CALLS) == {
        ("signed-functionCall", "functionCall", f"functionCall{end}") for end in (" end", " empty end")
    } | {("signed-functionCall", "functionCall", "functionCall", "empty end")}


def test_the_reason_to_end_comes_with_the_last_part_with_an_empty_one_or_behind() -> None:
    call = ModelStep(calls=(("now", {}),))
    assert shapes(call) == {
        ("signed-functionCall end",),
        ("signed-functionCall empty end",),
        ("signed-functionCall", "empty end"),
    }
    assert shapes(ModelStep(refusal="No.")) == {("end",)}
    assert shapes(ModelStep(text="")) == {("empty end",)}


def test_a_signature_comes_on_the_first_piece_of_the_text_or_on_an_empty_part_behind_it() -> None:
    seen = shapes(TEXT)
    assert {shape[-1] for shape in seen} == {"signed-empty end", "text end", "empty end"}
    assert {shape[0] for shape in seen} == {"text", "signed-text"}
    for shape in seen:
        assert " ".join(shape).count("signed") == 1
    assert {" ".join(shape).count("signed") for shape in shapes(TEXT, "gemini-2.5-flash")} == {0}


def test_thoughts_come_in_pieces_too() -> None:
    step = ModelStep(thinking=TEXT.text, text="Hi")
    said = [part for chunk in chunks(built(step).body) for part in parts(chunk) if part.get("thought")]
    assert len(said) > 1
    assert "".join(part["text"] for part in said) == TEXT.text


def test_text_is_cut_between_the_code_points_of_one_picture() -> None:
    ends = {
        part["text"][-1:]
        for seed in range(60)
        for chunk in chunks(built(TEXT, str(seed)).body)
        for part in parts(chunk)
    }
    assert "\u200d" in ends


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


def test_a_blocked_prompt_streams_as_one_chunk() -> None:
    body: dict[str, JSON] = {"promptFeedback": {"blockReason": "SAFETY"}, "modelVersion": "m"}
    assert chunks(event_stream(body, "seed")) == chunks(array(body, "seed")) == [body]


def test_an_answer_without_counts_streams_without_them() -> None:
    body: dict[str, JSON] = {"candidates": [{"content": {"parts": [{"text": "x" * 99}]}, "finishReason": "STOP"}]}
    said = chunks(event_stream(body, "seed"))
    assert len(said) > 2
    assert not any("usageMetadata" in chunk for chunk in said)


def test_half_of_a_surrogate_pair_goes_out_as_an_escape() -> None:
    step = ModelStep(calls=(("f", {"a": "\ud83d"}),), text="\ud83d")
    for request in (EVENTS, ARRAY):
        assert alike(joined(API.read(built(step, request=request))), joined(whole(step)))


def test_a_stream_is_a_function_of_its_seed() -> None:
    assert built(TEXT) == built(TEXT)
    assert built(TEXT).body != built(TEXT, "another").body


@pytest.mark.parametrize("request_view", [EVENTS, ARRAY])
def test_a_stream_cut_anywhere_is_read_up_to_there_and_not_complete(request_view: RequestView) -> None:
    response = built(TEXT, request=request_view)
    end = response.body.rindex(b"}")
    for kept in range(1, end):
        view = API.read(replace(response, body=response.body[:kept]))
        assert (view.complete, view.error) == (False, None)
        assert (TEXT.text or "").startswith(view.text)
    assert API.read(response).complete


@settings(deadline=None)
@given(st.binary(max_size=200), st.integers(0, 400), st.sampled_from([EVENTS, ARRAY]))
def test_bytes_that_are_no_stream_are_read_or_refused(noise: bytes, place: int, request_view: RequestView) -> None:
    response = built(CALLS, request=request_view)
    for broken in (noise, response.body[:place] + noise + response.body[place:]):
        try:
            view = API.read(replace(response, body=broken))
        except WireError:
            continue
        assert view.api == "gemini"


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


def test_a_chunk_that_does_not_repeat_the_role_does_not_take_it_away() -> None:
    body = (
        b'data: {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}}]}\n\n'
        b'data: {"candidates": [{"content": {"parts": [{"text": "!"}]}, "finishReason": "STOP"}]}\n\n'
    )
    view = API.read(HttpResponse(200, {"content-type": "text/event-stream"}, body))
    assert view.body == {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "Hi!"}]}, "finishReason": "STOP"}]
    }


def streams() -> list[Recorded]:
    return [exchange for exchange in recorded("gemini-generateContent") if ":streamGenerate" in exchange.request.url]


def outline(body: bytes) -> Iterator[Any]:
    """What a stream says, wherever it is cut: its parts without the empty ones, plain texts joined; what each chunk
    says beside them; how it ends."""
    said = chunks(body)
    whole_parts: list[dict[str, Any]] = []
    for part in (dict(part) for chunk in said for part in parts(chunk) if part != {"text": ""}):
        if whole_parts and {*part, *whole_parts[-1]} <= {"text", "thought"} and part.keys() == whole_parts[-1].keys():
            whole_parts[-1]["text"] += part["text"]
        else:
            whole_parts.append(part)
    yield whole_parts
    for chunk, ends in ((said[0], False), (said[-1], True)):
        (candidate,) = chunk["candidates"]
        beside = {key: value for key, value in chunk.items() if key != "candidates"}
        ending = {key: value for key, value in candidate.items() if key != "content"} if ends else {}
        yield beside | ending | {"role": candidate["content"]["role"]}


@needs_traffic
def test_a_recorded_stream_that_is_folded_and_spelled_again_folds_to_the_same_body() -> None:
    assert len(streams()) >= 50
    for exchange in streams():
        view = API.read(exchange.response)
        assert isinstance(view.body, dict)
        for seed in ("a", "b", "c"):
            for content_type, body in (
                ("text/event-stream", event_stream(view.body, seed)),
                ("application/json", array(view.body, seed)),
            ):
                again = API.read(HttpResponse(200, {"content-type": content_type}, body))
                assert alike(joined(again), joined(view))
                moved = {path for path in differing(view.body, again.body) if ".parts" not in path}
                assert moved == set()


@needs_traffic
def test_what_a_recorded_stream_loses_when_it_is_spelled_again() -> None:
    """Nothing but the usage before the end, and the place of the signature of a text."""
    lost: set[str] = set()
    for exchange in streams():
        body = API.read(exchange.response).body
        assert isinstance(body, dict)
        for seed in ("a", "b", "c"):
            one, other = list(outline(exchange.response.body)), list(outline(event_stream(body, seed)))
            signed = any("text" in part and "thoughtSignature" in part for part in one[0])
            assert one[0] == other[0] or signed
            lost.update(differing(one[1:], other[1:]))
            assert one[2] == other[2]
    assert {path.split(".")[1] for path in lost} == {"usageMetadata"}


@needs_traffic
def test_a_recorded_stream_that_is_cut_is_not_complete() -> None:
    for number, exchange in enumerate(streams()):
        end = exchange.response.body.rindex(b"}")
        for kept in Random(number).sample(range(1, end), 50):  # noqa: S311 - cuts, no secrets
            view = API.read(replace(exchange.response, body=exchange.response.body[:kept]))
            assert (view.streamed, view.complete, view.error) == (True, False, None)


def test_the_signature_behind_a_text_is_that_text_s_in_one_body() -> None:
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
