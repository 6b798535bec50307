"""Streams of the reference server and of recordings, for each API over HTTP."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import httpx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.apis import registry
from harness.apis.eventstream import events
from harness.apis.openai_chat.responses import DIALECTS as CHAT_DIALECTS
from harness.apis.openai_chat.server import SHAPES as CHAT_SHAPES
from harness.apis.openai_responses.responses import DIALECTS as RESPONSES_DIALECTS
from harness.apis.view import ModelStep, OpaqueView, PartView, ResponseView, TextView, WireError
from harness.equivalence.view_differences import alike
from harness.model.http import HttpResponse
from harness.model.messages import JSON, StopReason, Usage
from tests.apis.samples import MODELS, STREAMS, paths, read, steps, streamed, strict_validator, whole
from tests.traffic import needs_traffic, recorded

STEP = ModelStep(text="It is 18 °C in 東京.", thinking="Hm.", calls=(("get_weather", {"city": "Zürich"}), ("now", {})))
DIALECTS = {"openai-chat": [None, *CHAT_DIALECTS], "openai-responses": [None, *RESPONSES_DIALECTS]}
RAW: dict[str, list[JSON]] = {
    "anthropic": [
        {"type": "redacted_thinking", "data": "c2VjcmV0"},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "18 °C"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        {"type": "text", "text": "It is 18 °C.", "citations": [{"type": "memo", "n": 1}, {"type": "memo", "n": 2}]},
    ],
    "openai-chat": [
        {"reasoning_content": "Zürich is in Switzerland."},
        {"id": "call_9", "type": "custom", "custom": {"name": "shell", "input": "ls -l"}},
        {"reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}]},
        {"annotations": [{"type": "url_citation", "url_citation": {"url": "https://a.example"}}]},
    ],
    "openai-responses": [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_9", "name": "shell", "input": "ls -l"},
        {"type": "brand_new", "content": [{"type": "text", "text": "x"}]},
        {"type": "reasoning", "id": "rs_9", "summary": [], "content": [{"type": "reasoning_text", "text": "東京."}]},
    ],
    "gemini": [
        {"executableCode": {"language": "PYTHON", "code": "print('°')"}, "thoughtSignature": "QUI="},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "°"}},
        {"inlineData": {"mimeType": "image/png", "data": "QUI="}},
    ],
}
"""Parts for which the neutral steps have no field. The SDKs know the first of each."""
_CHAT_STOPS = [StopReason.MAX_TOKENS, StopReason.STOP_SEQUENCE, StopReason.REFUSAL, StopReason.END_TURN]
_RESPONSES_STOPS = [StopReason.MAX_TOKENS, StopReason.REFUSAL, StopReason.ERROR, StopReason.END_TURN]
STOPS = {
    "anthropic": [*StopReason],
    "openai-chat": _CHAT_STOPS,
    "openai-responses": _RESPONSES_STOPS,
    "gemini": [*StopReason],
}
STEPS = {api: steps(RAW[api], STOPS[api]) for api in MODELS}


def joined(view: ResponseView) -> ResponseView:
    """Join adjacent texts with the signature that one of them has, and leave empty texts and thoughts out.

    A stream of Gemini has the signature on the first piece of a text or on an empty one after it.
    """
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


@settings(deadline=None, max_examples=60)
@given(data=st.data(), seed=st.text(max_size=3))
@pytest.mark.parametrize("form", STREAMS)
def test_a_stream_folds_to_the_whole_response(form: str, data: st.DataObject, seed: str) -> None:
    api = STREAMS[form].api
    step, dialect = data.draw(STEPS[api]), data.draw(st.sampled_from(DIALECTS.get(api, [None])))
    if api == "openai-chat":  # two calls with one id are one call where all calls have one index, or none
        assume(step.raw.count(RAW[api][1]) < 2)
        assume(dialect != "no-index" or len(step.raw) < 2 or step.raw[0] != step.raw[1])
    profile = replace(registry.api(api).profile_for(MODELS[api]), dialect=dialect)
    folded = registry.api(api).read(streamed(STREAMS[form], step, seed, profile))
    expected = registry.api(api).read(whole(api, step, seed, profile))
    if dialect == "no-usage":
        expected = replace(expected, usage=Usage())
    assert (folded.streamed, folded.complete) == (True, True)
    assert alike(joined(folded), joined(expected))
    if api in {"anthropic", "openai-responses"}:
        assert folded.body == expected.body


def _of_anthropic(said: list[Any]) -> None:
    types = pytest.importorskip("anthropic.types")
    for event in said:
        if event["type"] not in ("ping", "of_another_day"):
            strict_validator(types.RawMessageStreamEvent).validate_json(json.dumps(event), strict=True)


def _of_chat(said: list[Any]) -> None:
    chat = pytest.importorskip("openai.types.chat")
    for chunk in said:
        parsed = chat.ChatCompletionChunk.model_validate(chunk, strict=True)
        assert not parsed.model_extra
        for choice in parsed.choices:
            assert not choice.model_extra
            assert set(choice.delta.model_extra) <= {"reasoning_content"}
            assert not any(piece.model_extra for piece in choice.delta.tool_calls or ())


def _of_responses(said: list[Any]) -> None:
    types = pytest.importorskip("openai.types.responses")
    for index, event in enumerate(said):
        name = "".join(word.capitalize() for word in event["type"].replace(".", "_").split("_"))
        kind = getattr(types, {"Error": "ResponseErrorEvent"}.get(name, f"{name}Event"), None)
        parsed = (kind or getattr(types, name.replace("OutputText", "Text") + "Event")).model_validate(event)
        assert event["sequence_number"] == index
        assert set(parsed.model_extra or ()) <= {"obfuscation"}


def _of_gemini(said: list[Any]) -> None:
    types = pytest.importorskip("google.genai.types")
    for chunk in said:
        types.GenerateContentResponse.model_validate(chunk)  # refuses unknown fields
        assert chunk.keys() == {"candidates", "usageMetadata", "modelVersion", "responseId"}
    assert ["finishReason" in chunk["candidates"][0] for chunk in said] == [False] * (len(said) - 1) + [True]


SDK_CHECKS: dict[str, Callable[[list[Any]], None]] = dict(
    zip(MODELS, (_of_anthropic, _of_chat, _of_responses, _of_gemini), strict=True)
)


@settings(deadline=None, max_examples=40)
@given(data=st.data())
@pytest.mark.parametrize("api", MODELS)
def test_every_event_has_a_type_of_the_sdk(api: str, data: st.DataObject) -> None:
    words = [stop for stop in STOPS[api] if stop.value not in ("error", "malformed_call", "unknown")]
    sent = events(streamed(STREAMS[api], data.draw(steps(RAW[api][:1], words))).body)
    SDK_CHECKS[api]([json.loads(event.data) for event in sent if event.data != "[DONE]"])


# Streams that break off, and bytes that are none


def end_of(form: str, body: bytes) -> int:
    """How much of a stream has to arrive for it to be complete.

    Chat has said all with the finish reason: `[DONE]` and a count of the tokens follow, which some servers leave out
    (openai-chat-stream-usage, openai-chat-stream-cut-unnoticed). Gemini's events end with CRLF twice, of which the last
    byte adds nothing.
    """
    if form == "openai-chat":
        return body.index(b"\n\n", body.index(b'"finish_reason":"')) + 2
    return len(body) - (form == "gemini")


@pytest.mark.parametrize("form", STREAMS)
def test_no_part_of_a_stream_is_complete(form: str) -> None:
    """Cut after every 7th byte and around the end of each event; what was read until then is the start of the text."""
    response = streamed(STREAMS[form], STEP)
    end = end_of(form, response.body)
    first = 1 if form == "gemini as array" else 0  # nothing at all is no array either
    borders = {at + off for at, byte in enumerate(response.body) if byte == 10 for off in (0, 1, 2)}
    for kept in sorted({*range(first, len(response.body), 7), *borders, *range(end - 3, len(response.body) + 1)}):
        view = registry.api(STREAMS[form].api).read(replace(response, body=response.body[:kept]))
        assert (view.streamed, view.complete, view.error) == (True, kept >= end, None), kept
        assert (STEP.text or "").startswith(view.text)


@settings(deadline=None, max_examples=60)
@given(data=st.data(), noise=st.binary(max_size=200), place=st.integers(0, 400))
@pytest.mark.parametrize("form", STREAMS)
def test_any_stream_may_break_off_or_hold_noise(form: str, data: st.DataObject, noise: bytes, place: int) -> None:
    api = STREAMS[form].api
    step = replace(data.draw(steps([None], [StopReason.END_TURN])), raw=(), stop=None)
    response = streamed(STREAMS[form], step)
    kept = data.draw(st.integers(1, end_of(form, response.body) - 1))
    view = registry.api(api).read(replace(response, body=response.body[:kept]))
    assert (view.streamed, view.complete, view.error) == (True, False, None)
    # Anthropic's reason comes before the end, and an array's last chunk may be complete before the array is closed.
    assert view.stop_reason is StopReason.UNKNOWN or api == "anthropic" or form == "gemini as array"
    assert [call.name for call in view.calls] == [name for name, _ in step.calls][: len(view.calls)]
    for broken in (noise, response.body[:place] + noise + response.body[place:]):
        with suppress(WireError):
            assert registry.api(api).read(replace(response, body=broken)).api == api


_VALUES: st.SearchStrategy[Any] = st.sampled_from([None, True, -7, 0, 1.5, "", "x", "{}", [], ["x"], {}, {"text": 1}])


@settings(deadline=None, max_examples=80)
@given(data=st.data())
@pytest.mark.parametrize("form", STREAMS)
def test_odd_values_in_events_are_read_or_refused(form: str, data: st.DataObject) -> None:
    api = STREAMS[form].api
    response = streamed(STREAMS[form], replace(STEP, refusal="No."))
    as_array = form == "gemini as array"
    sent = (
        json.loads(response.body)
        if as_array
        else [json.loads(e.data) for e in events(response.body) if e.data[0] == "{"]
    )
    for _ in range(data.draw(st.integers(1, 3))):
        target: Any = sent
        while isinstance(target, dict | list) and target:
            key = data.draw(st.sampled_from(sorted(target) if isinstance(target, dict) else range(len(target))))
            if not isinstance(target[key], dict | list) or data.draw(st.integers(0, 3)) == 0:
                target[key] = copy.deepcopy(data.draw(_VALUES))
                break
            target = target[key]
    body = json.dumps(sent).encode() if as_array else b"".join(b"data: %s\n\n" % json.dumps(e).encode() for e in sent)
    with suppress(WireError):
        assert registry.api(api).read(replace(response, body=body)).api == api


@pytest.mark.parametrize("form", STREAMS)
def test_an_event_of_broken_json_is_refused(form: str) -> None:
    response = streamed(STREAMS[form], STEP)
    broken = response.body.replace(b"}\n\n", b"\n\n").replace(b"}\r\n\r\n", b"\r\n\r\n")
    if form == "gemini as array":
        assert not registry.api("gemini").read(replace(response, body=broken.removesuffix(b"}\n]"))).complete
        return
    with pytest.raises(WireError, match="not JSON"):
        registry.api(STREAMS[form].api).read(replace(response, body=broken))


@pytest.mark.parametrize(
    "body", [b"<!DOCTYPE html>\n<html>It works: 502</html>\n", b'{"choices": []}', b"[]", b"Bad gateway", b"\xff"]
)
@pytest.mark.parametrize("api", MODELS)
def test_other_bodies_are_no_stream(api: str, body: bytes) -> None:
    with pytest.raises(WireError, match=r"not an event stream|not a GenerateContentResponse|a chunk of a stream is no"):
        read(api, body, **{"content-type": "text/event-stream"})


@pytest.mark.parametrize("content_type", ["text/html", "application/octet-stream", "json"])
@pytest.mark.parametrize("api", MODELS)
def test_the_right_body_with_another_content_type_is_refused(api: str, content_type: str) -> None:
    bodies = [whole(api, STEP), *(streamed(request, STEP) for request in STREAMS.values() if request.api == api)]
    for body in bodies:
        with pytest.raises(WireError, match=r"the content type of the body is '"):
            registry.api(api).read(replace(body, headers={"content-type": content_type}))


@pytest.mark.parametrize("content_type", ["Application/JSON; charset=UTF-8", "application/problem+json", "text/json"])
@pytest.mark.parametrize("api", MODELS)
def test_json_has_several_content_types(api: str, content_type: str) -> None:
    response = replace(whole(api, STEP), headers={"content-type": content_type})
    assert registry.api(api).read(response).text == STEP.text
    for body in (response.body[:-1], streamed(STREAMS[api], STEP).body):
        with pytest.raises(WireError, match="not JSON"):
            registry.api(api).read(replace(response, body=body))


# Other chunks of other servers

CALLS = ModelStep(text="Let me look.", calls=(("get_weather", {"city": "S\u00e3o Paulo", "days": [1, 2]}), ("now", {})))


@pytest.mark.parametrize(("api", "shape"), [(api.name, name) for api in registry.apis() for name in api.stream_shapes])
def test_other_chunks_hold_the_same_response(api: str, shape: str) -> None:
    wire = registry.api(api)
    plain = streamed(STREAMS[api], CALLS)
    respelled = replace(plain, body=wire.stream_shapes[shape].respell(plain.body, "a seed"))
    one, other = wire.read(plain), wire.read(respelled)
    assert respelled != plain
    assert other.complete
    assert alike(other.parts, one.parts)
    assert (other.stop_reason, other.usage) == (one.stop_reason, one.usage)


def _read_by_the_openai_sdk(stream: bytes) -> list[tuple[str, str, str]]:
    openai = pytest.importorskip("openai")
    answer = httpx.Response(200, content=stream, headers={"content-type": "text/event-stream"})
    transport = httpx.MockTransport(lambda _request: answer)
    client = openai.OpenAI(api_key="none", http_client=httpx.Client(transport=transport))
    with client.chat.completions.stream(model="gpt-4o", messages=[{"role": "user", "content": "?"}]) as chat:
        message = chat.get_final_completion().choices[0].message
    return [(call.id, call.function.name, call.function.arguments or "{}") for call in message.tool_calls]


@pytest.mark.parametrize("shape", sorted(CHAT_SHAPES))
def test_a_form_departs_if_the_official_sdk_misreads_its_calls(shape: str) -> None:
    plain = streamed(STREAMS["openai-chat"], CALLS).body
    try:
        misread = _read_by_the_openai_sdk(CHAT_SHAPES[shape].respell(plain, "a seed")) != _read_by_the_openai_sdk(plain)
    except (IndexError, TypeError):
        misread = True
    assert CHAT_SHAPES[shape].departs is (misread or shape == "early-usage")  # the documentation rules out the latter


# Recorded streams

FOLDERS = {
    "anthropic": ("anthropic-messages",),
    "openai-chat": ("openai-chat", "openai-compat-chat", "errors/openai-compat-chat"),
    "openai-responses": ("openai-responses", "openai-compat-responses"),
    "gemini": ("gemini-generateContent",),
}
NOT_REWRITTEN: dict[str, set[str]] = {
    "anthropic": {".delta.partial_json", ".delta.type"},
    "openai-chat": {".p", ".x_groq.seed"},  # Mistral's padding, and a field of Groq's first chunk only
    "openai-responses": set(),
    "gemini": {".candidates.content.parts.text"},
}
"""Fields that are in some recorded streams, and not where they are written again: empty pieces, for the most part."""


def sent_values(response: HttpResponse) -> list[Any]:
    if response.body.startswith(b"["):
        return json.loads(response.body)
    return [json.loads(event.data) for event in events(response.body) if event.data[:1] == "{"]


@needs_traffic
@pytest.mark.parametrize("form", STREAMS)
def test_a_recorded_stream_that_is_written_again_folds_to_the_same_body(form: str) -> None:
    request = STREAMS[form]
    wire = registry.api(request.api)
    count, lost = 0, set[str]()
    for item in recorded(*FOLDERS[request.api]):
        view = wire.read(item.response)
        if not view.streamed:
            continue
        assert view.complete or view.error, item.path
        assert isinstance(view.body, dict)
        again = wire.stream_of(view.body, item.path, wire.profile_for(view.model or ""), request)
        folded = wire.read(again)
        if request.api == "gemini":
            assert alike(joined(folded), joined(view)), item.path
        elif request.api == "openai-chat":
            assert _without_blanks(folded.body) == _without_blanks(view.body), item.path
        else:
            assert folded.body == view.body, item.path
        lost |= {*paths(sent_values(item.response))} - {*paths(sent_values(again))}
        count += 1
    assert count >= 37
    assert lost == NOT_REWRITTEN[request.api]


def _without_blanks(value: Any) -> Any:
    """A body without fields that are empty, which a stream does not send."""
    if isinstance(value, dict):
        return {key: _without_blanks(each) for key, each in value.items() if each not in (None, "", [], {})}
    return [_without_blanks(each) for each in value] if isinstance(value, list) else value
