from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.adapters.gemini import ADAPTER
from harness.adapters.gemini.chunks import chunks
from harness.apis.gemini import API
from harness.contract import errors
from harness.contract.model import (
    SYNTHESISED_ID,
    ArgumentsDelta,
    ChatRequest,
    Finish,
    Image,
    Message,
    Opaque,
    Role,
    StopReason,
    StreamEvent,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Tool,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
    ToolResult,
    Usage,
)
from harness.contract.protocols import Capability
from harness.rules.outline import Issued, of_responses
from tests.adapters.streamed import BASE, Pieces, Player, Server, cut, random_cuts, response, until_error
from tests.traffic import needs_traffic, recorded

MODEL = "gemini-3.6-flash"
ASKED = ChatRequest(MODEL, (Message.user("hi"),))
CALL = {"functionCall": {"id": "c1", "name": "f", "args": {"city": "Köln"}}, "thoughtSignature": "a+/b"}
JSON_OBJECTS = st.dictionaries(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=5,
    ),
    max_size=3,
)


def chunk(*parts: Any, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "gemini-3.6-flash-001", "responseId": "r1", **fields}


def sse(*said: Any) -> bytes:
    """Chunks as events; `bytes` stand for themselves."""
    return b"".join(
        each if isinstance(each, bytes) else f"data: {json.dumps(each, ensure_ascii=False)}\r\n\r\n".encode()
        for each in said
    )


def array(*said: Any) -> bytes:
    """Chunks as the elements of an array, in the API's spelling."""
    return f"[{','.join(json.dumps(each, ensure_ascii=False, indent=2) + chr(10) for each in said)}]".encode()


def played(*said: Any, encode: Any = sse) -> list[StreamEvent]:
    return Player(ADAPTER, MODEL).stream(encode(*said))


def broken(body: bytes) -> tuple[list[StreamEvent], errors.ChatError]:
    return until_error(Server(Pieces([body])).client(ADAPTER, MODEL).stream(ASKED))


# The request


def test_the_adapter_streams() -> None:
    assert Capability.STREAMING in ADAPTER.capabilities


@pytest.mark.parametrize("base", ["", "/v1beta"])
def test_a_streamed_request_is_the_same_at_another_path(base: str) -> None:
    request = ChatRequest(
        MODEL,
        (Message.user("hi"),),
        system="Be brief.",
        tools=(Tool("f", "", {}),),
        stop=("END",),
        provider_metadata={"gemini": {"future": 1}},
    )
    whole, streamed = Server(json.dumps(chunk(finish="STOP")).encode()), Server(sse(chunk(finish="STOP")))
    whole.client(ADAPTER, MODEL, BASE + base).chat(request)
    response(list(streamed.client(ADAPTER, MODEL, BASE + base).stream(request)))
    assert streamed.body == whole.body
    expected = str(whole.requests[0].url).replace(":generateContent", ":streamGenerateContent?alt=sse")
    assert str(streamed.requests[0].url) == expected
    assert streamed.requests[0].headers["x-goog-api-key"] == "key-1"


def test_nothing_is_sent_before_the_first_event_is_asked_for_nor_if_the_request_cannot_be_made() -> None:
    server = Server(sse(chunk(finish="STOP")))
    stream = server.client(ADAPTER, MODEL).stream(ChatRequest(MODEL, (Message.user(""),)))
    with pytest.raises(errors.Unsupported):
        next(stream)
    server.client(ADAPTER, MODEL).stream(ASKED)
    assert server.requests == []


def test_the_callers_http_client_builds_the_request_and_stays_open() -> None:
    server = Server(sse(chunk(finish="STOP")))
    server.http.headers["x-of-the-caller"] = "yes"
    client = server.client(ADAPTER, MODEL)
    response(list(client.stream(ASKED)))
    client.close()
    assert server.requests[0].headers["x-of-the-caller"] == "yes"
    assert not server.http.is_closed


def test_nothing_of_the_environment_reaches_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_API_VERSION", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.setenv(name, "poison")
    monkeypatch.setenv("GOOGLE_GENAI_CLIENT_MODE", "replay")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    for name in ("GOOGLE_GEMINI_BASE_URL", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://poison.invalid:1")
    server = Server(sse(chunk(finish="STOP")))
    response(list(server.client(ADAPTER, MODEL).stream(ASKED)))
    (request,) = server.requests
    assert "poison" not in f"{request.url} {request.headers.raw} {request.content.decode()}".lower()
    assert str(request.url).startswith(f"{BASE}/v1/")


# Events


@pytest.mark.parametrize("encode", [sse, array])
def test_text_arrives_in_its_pieces_and_is_one_part_in_the_end(encode: Any) -> None:
    events = played(
        chunk({"text": "Grüß "}),
        chunk({"text": ""}),
        chunk({"text": "dich"}, {"text": "!"}, finish="STOP"),
        encode=encode,
    )
    assert events[:-1] == [TextDelta("Grüß "), TextDelta("dich"), TextDelta("!")]
    answer = response(events)
    assert answer.message.parts == (Text("Grüß dich!"),)
    assert (answer.stop_reason, answer.model) == (StopReason.END_TURN, "gemini-3.6-flash-001")


@pytest.mark.parametrize("encode", [sse, array])
def test_events_come_while_the_body_arrives(encode: Any) -> None:
    body = encode(chunk({"text": "a"}), chunk({"text": "b"}, finish="STOP"))
    pieces = Pieces([body[:10], body[10 : body.index(b'"b"')], body[body.index(b'"b"') :]])
    stream = Server(pieces).client(ADAPTER, MODEL).stream(ASKED)
    assert next(stream) == TextDelta("a")
    assert pieces.taken == 2


def test_a_call_comes_whole_and_the_finish_reason_later() -> None:
    events = played(chunk({"text": "So"}), chunk(CALL), chunk({"text": ""}, finish="STOP", finishMessage="called"))
    assert events[:-1] == [
        TextDelta("So"),
        ToolCallStart(0, "c1", "f"),
        ArgumentsDelta(0, '{"city":"Köln"}'),
        ToolCallEnd(0),
    ]
    answer = response(events)
    signed = {"gemini": {"thoughtSignature": "a+/b"}}
    assert answer.message.parts == (Text("So"), ToolCall("c1", "f", {"city": "Köln"}, signed))
    assert answer.stop_reason is StopReason.TOOL_USE


def test_one_call_in_each_chunk() -> None:
    calls = [chunk({"functionCall": {"name": f"f{number}", "id": f"c{number}"}}) for number in range(3)]
    answer = response(played(*calls, chunk(finish="STOP")))
    assert [(each.id, each.name, each.arguments) for each in answer.tool_calls] == [
        ("c0", "f0", {}),
        ("c1", "f1", {}),
        ("c2", "f2", {}),
    ]


def test_calls_without_ids_are_named_alike_in_events_and_answer() -> None:
    history = (
        Message.user("hi"),
        Message(Role.ASSISTANT, (ToolCall("call_3_1", "f", {}),)),
        Message(Role.USER, (ToolResult("call_3_1", "f", 1),)),
    )
    parts = [{"functionCall": {"name": "f"}}, {"functionCall": {"name": "f", "id": ""}}]
    server = Server(sse(chunk(parts[0]), chunk(parts[1], finish="STOP")))
    events = list(server.client(ADAPTER, MODEL).stream(ChatRequest(MODEL, history)))
    assert [event.id for event in events if isinstance(event, ToolCallStart)] == ["call_3_0", "call_3_1_"]
    assert all(call.provider_metadata["harness"] == {SYNTHESISED_ID: True} for call in response(events).tool_calls)


def test_thoughts_are_apart_from_text() -> None:
    events = played(
        chunk({"text": "Let ", "thought": True}),
        chunk({"text": "me", "thought": True}),
        chunk({"text": "So", "thought": False}, {"text": "!"}, finish="STOP"),
    )
    assert events[:-1] == [ThinkingDelta("Let "), ThinkingDelta("me"), TextDelta("So"), TextDelta("!")]
    assert response(events).message.parts == (
        Thinking("Let me", {"gemini": {"thought": True}}),
        Text("So!", {"gemini": {"thought": False}}),
    )


def test_a_part_with_a_signature_stays_a_part_of_its_own_even_if_it_is_empty() -> None:
    events = played(
        chunk({"text": "a"}, {"text": "b", "thoughtSignature": "s1"}),
        chunk({"text": "c"}),
        chunk({"text": "", "thoughtSignature": "s2"}, finish="STOP"),
    )
    assert events[:-1] == [TextDelta("a"), TextDelta("b"), TextDelta("c")]
    assert response(events).message.parts == (
        Text("a"),
        Text("b", {"gemini": {"thoughtSignature": "s1"}}),
        Text("c"),
        Text("", {"gemini": {"thoughtSignature": "s2"}}),
    )


def test_parts_without_a_delta_are_in_the_answer() -> None:
    picture = {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}
    code = {"executableCode": {"language": "PYTHON", "code": "1"}}
    events = played(chunk(picture), chunk(code, {"brandNew": 1}, finish="STOP"))
    assert events[:-1] == []
    assert response(events).message.parts == (
        Image("image/png", b"\x89PNG"),
        Opaque("gemini", code),
        Opaque("gemini", {"brandNew": 1}),
    )


def test_the_last_usage_counts() -> None:
    finish = played(
        chunk({"text": "a"}, usageMetadata={"promptTokenCount": 3, "thoughtsTokenCount": 9}),
        chunk(finish="STOP", usageMetadata={"promptTokenCount": 4, "candidatesTokenCount": 2}),
        {"modelVersion": None, "usageMetadata": None},
    )[-1]
    assert isinstance(finish, Finish)
    assert finish.response.usage == Usage(4, 2)
    assert finish.response.model == "gemini-3.6-flash-001"


def test_only_the_first_candidate_is_read() -> None:
    second = {"index": 1, "content": {"parts": [{"text": "no"}]}, "finishReason": "SAFETY"}
    first = chunk({"text": "yes"}, finish="STOP")["candidates"][0]
    events = played({"candidates": [second, first]}, {"candidates": [second]})
    assert events[:-1] == [TextDelta("yes")]
    assert response(events).stop_reason is StopReason.END_TURN


@pytest.mark.parametrize("said", [[], [chunk({"text": "a"})]])
def test_a_block_ends_a_stream(said: list[Any]) -> None:
    finish = played(*said, {"promptFeedback": {"blockReason": "OTHER"}})[-1]
    assert isinstance(finish, Finish)
    assert finish.response.stop_reason is StopReason.REFUSAL
    assert finish.response.raw_stop_reason == "OTHER"
    assert finish.response.text == "a" * len(said)


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("MAX_TOKENS", StopReason.MAX_TOKENS),
        ("MALFORMED_FUNCTION_CALL", StopReason.MALFORMED_CALL),
        ("SAFETY", StopReason.REFUSAL),
        ("BRAND_NEW", StopReason.UNKNOWN),
    ],
)
def test_an_end_without_content(finish: str, reason: StopReason) -> None:
    answer = response(played({"candidates": [{"finishReason": finish, "index": 0}]}))
    assert (answer.message.parts, answer.stop_reason) == ((), reason)


@pytest.mark.parametrize(
    "call",
    [
        {"name": "f", "willContinue": True},
        {"name": "f", "partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}]},
        {"name": "f", "args": "{}"},
        {"args": {}},
    ],
)
def test_a_call_that_is_not_whole_is_none(call: dict[str, Any]) -> None:
    events = played(chunk({"functionCall": call}, finish="STOP"))
    assert events[:-1] == []
    answer = response(events)
    assert answer.message.parts == (Opaque("gemini", {"functionCall": call}),)
    assert answer.stop_reason is StopReason.MALFORMED_CALL


# Streams that break


WHOLE = (chunk({"text": "H\u2028ä"}), chunk(CALL), chunk({"text": '\\"{[', "thoughtSignature": "s"}, finish="STOP"))


@pytest.mark.parametrize("encode", [sse, array])
def test_every_cut_before_the_end_is_an_error(encode: Any) -> None:
    body = encode(*WHOLE)
    player = Player(ADAPTER, MODEL)
    whole = player.stream(body)
    for length in range(len(body) - 1):  # the last LF of all is no more than a CR has said
        with pytest.raises(errors.MalformedResponse):
            player.stream(body[:length])
    seen, _ = broken(body[:-10])
    assert seen == whole[: len(seen)] != []


@pytest.mark.parametrize("encode", [sse, array])
def test_a_cut_behind_the_finish_reason_is_an_error_too(encode: Any) -> None:
    body = encode(*WHOLE, {"usageMetadata": {"promptTokenCount": 3}})
    for length in range(body.index(b"STOP") + 10, len(body) - 1):
        if body[:length] not in (sse(*WHOLE), sse(*WHOLE)[:-1]):  # nothing says that an event is missing
            assert isinstance(broken(body[:length])[1], errors.MalformedResponse)


def test_a_stream_that_ends_between_events_before_its_finish_reason() -> None:
    seen, error = broken(sse(*WHOLE[:-1]))
    assert isinstance(error, errors.MalformedResponse)
    assert seen[0] == TextDelta("H\u2028ä")
    assert not any(isinstance(event, Finish) for event in seen)


@pytest.mark.parametrize("failure", [httpx2.ReadError("reset"), httpx2.ReadTimeout("slow"), OSError("reset")])
def test_a_connection_that_breaks_in_mid_stream(failure: Exception) -> None:
    server = Server(Pieces([sse(*WHOLE)], failure))
    seen, error = until_error(server.client(ADAPTER, MODEL).stream(ASKED))
    assert isinstance(error, errors.ConnectionFailed)
    assert seen[0] == TextDelta("H\u2028ä")
    assert not any(isinstance(event, Finish) for event in seen)
    assert len(server.requests) == 1


@pytest.mark.parametrize("pieces", [Pieces([sse(*WHOLE)], errors.CassetteError("c.yaml", "cut")), None])
def test_errors_of_our_tree_pass_from_the_transport(pieces: Pieces | None) -> None:
    server = Server(pieces or errors.CassetteError("c.yaml", "cut"))
    with pytest.raises(errors.CassetteError):
        list(server.client(ADAPTER, MODEL).stream(ASKED))


OVERLOADED = {"error": {"code": 503, "message": "Busy.", "status": "UNAVAILABLE"}}


@pytest.mark.parametrize(
    "body",
    [
        sse(WHOLE[0], OVERLOADED, *WHOLE[1:]),
        sse(WHOLE[0], OVERLOADED),
        array(WHOLE[0], OVERLOADED),
        array(OVERLOADED),
        json.dumps(OVERLOADED).encode(),
        sse(*WHOLE, OVERLOADED),
    ],
)
def test_an_error_in_mid_stream(body: bytes) -> None:
    seen, error = broken(body)
    assert error == errors.Overloaded(503, "Busy.", "UNAVAILABLE")
    assert not any(isinstance(event, Finish) for event in seen)


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        (
            {
                "code": 429,
                "message": "Slow.",
                "status": "RESOURCE_EXHAUSTED",
                "details": [{"@type": "…/google.rpc.RetryInfo", "retryDelay": "34.5s"}],
            },
            errors.RateLimited(429, "Slow.", "RESOURCE_EXHAUSTED", 34.5),
        ),
        ({"code": 13, "message": "No.", "status": "INTERNAL"}, errors.ServerError(500, "No.", "INTERNAL")),
        ({}, errors.ServerError(500, "{}")),
        ("No.", errors.ServerError(500, '"No."')),
    ],
)
def test_what_an_error_in_mid_stream_says(details: Any, expected: errors.ProviderError) -> None:
    assert broken(sse({"error": details}))[1] == expected


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" \r\n",
        b"<html>Bad gateway</html>\n\n",
        b"data: <html>\n\n",
        b"data: []\n\n",
        b"data: \xff\n\n",
        b"{}",
        b"[]",
        b"[1]",
        b"{",
        b"}",
        b'{"candidates": [}',
        b"[" + json.dumps(chunk(finish="STOP")).encode(),
        b"[" + json.dumps(chunk(finish="STOP")).encode() + b"] and more",
        json.dumps(chunk(finish="STOP")).encode() + b"]",
        sse(chunk({"text": "a"}), chunk({"text": "b"}, finish=None)),
        sse({"candidates": None, "promptFeedback": {}}),
        sse({"candidates": [1, {"content": 1}, {"content": {"parts": 1}}]}),
    ],
)
def test_what_is_no_stream_of_this_api(body: bytes) -> None:
    assert isinstance(broken(body)[1], errors.MalformedResponse)


def test_refusals_come_as_they_do_without_streaming() -> None:
    refusal = {"error": {"code": 429, "message": "Slow.", "status": "RESOURCE_EXHAUSTED"}}
    server = Server(httpx2.Response(429, headers={"retry-after": "7"}, json=refusal))
    _, error = until_error(server.client(ADAPTER, MODEL).stream(ASKED))
    assert error == errors.RateLimited(429, "Slow.", "RESOURCE_EXHAUSTED", 7.0)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "answer", [httpx2.Response(307, headers={"location": "http://elsewhere.invalid/"}), httpx2.ConnectError("refused")]
)
def test_no_answer(answer: Any) -> None:
    server = Server(answer)
    _, error = until_error(server.client(ADAPTER, MODEL).stream(ASKED))
    assert isinstance(error, errors.ConnectionFailed)
    assert len(server.requests) == 1


def test_a_stream_that_is_left_early_gives_its_connection_back() -> None:
    body = Pieces([sse(each) for each in WHOLE])
    stream = Server(body).client(ADAPTER, MODEL).stream(ASKED)
    assert next(stream) == TextDelta("H\u2028ä")
    assert not body.closed
    stream.close()  # type: ignore[attr-defined]
    assert body.closed


# Bytes


def test_spelling_and_cuts_make_no_difference() -> None:
    spoken = (chunk({"text": 'a\u2028b\u0085c\u2029 – 日本 😀 \\ " } ] {'}), *WHOLE[1:])
    player = Player(ADAPTER, MODEL)
    expected = player.stream(sse(*spoken))
    body = sse(*spoken)
    spelled = [
        body,
        body.replace(b"\r\n", b"\n"),
        body.replace(b"\r\n", b"\r"),
        b"\n\xef\xbb\xbf" + body,
        body.replace(b"data:", b": keep-alive\n\nid: 1\nevent: message\ndata:") + b": bye",
        body.replace(b"data: ", b"data:"),
        body.replace(b"data: {", b"data: {\r\ndata: "),
        array(*spoken),
        b"\n [ " + b" ,\r\n ".join(json.dumps(each).encode() for each in spoken) + b" ]\n",
    ]
    for spelling in spelled:
        assert player.stream(spelling) == expected
        assert player.stream(*(spelling[place : place + 1] for place in range(len(spelling)))) == expected
    for spelling in (body, spelled[-1]):
        for place in range(len(spelling)):
            assert player.stream(spelling[:place], spelling[place:]) == expected


def test_empty_pieces_make_no_difference() -> None:
    body = sse(*WHOLE).replace(b"data: {", b"data: {\r\ndata: ")
    pieces = [piece for place in range(len(body)) for piece in (b"", body[place : place + 1])]
    assert list(chunks(pieces)) == list(WHOLE)


def test_an_event_does_not_wait_for_the_byte_behind_its_end() -> None:
    pieces = Pieces([sse(WHOLE[0]).replace(b"\r\n", b"\r"), b"\r"])
    assert next(Server(pieces).client(ADAPTER, MODEL).stream(ASKED)) == TextDelta("H\u2028ä")
    assert pieces.taken == 1


@st.composite
def spoken(draw: st.DrawFn) -> tuple[bytes, dict[str, Any], list[int]]:
    """A stream, the body that it says, and places to cut it at."""
    said: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for index in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            written = draw(st.text(min_size=1))
            borders = [0, *sorted(draw(st.lists(st.integers(0, len(written)), max_size=4))), len(written)]
            said += [chunk({"text": written[begin:end]}) for begin, end in pairwise(borders)]
            signed = {"text": "", "thoughtSignature": f"s{index}"}
            said.append(chunk(signed))
            parts += [{"text": written}, signed]
        else:
            call = {"functionCall": {"name": "f", "args": draw(JSON_OBJECTS)}}
            said.append(chunk(call))
            parts.append(call)
    usage = {"usageMetadata": {"promptTokenCount": draw(st.integers(0, 9))}}
    reason = draw(st.sampled_from(["STOP", "MAX_TOKENS", "NEW"]))
    said.append(chunk(finish=reason, **usage))
    body = draw(st.sampled_from([sse, array]))(*said)
    return body, chunk(*parts, finish=reason, **usage), draw(st.lists(st.integers(0, len(body)), max_size=20))


PLAYER = Player(ADAPTER, MODEL)


@settings(deadline=None, max_examples=150)
@given(spoken())
def test_streamed_equals_whole_however_it_is_cut(case: tuple[bytes, dict[str, Any], list[int]]) -> None:
    body, whole, places = case
    events = PLAYER.stream(body)
    assert response(events) == PLAYER.chat(whole)
    assert PLAYER.stream(*cut(body, places)) == events


TOKENS = st.sampled_from(
    [sse(each) for each in WHOLE]
    + [json.dumps(each).encode() for each in WHOLE]
    + [b"[", b"]", b"{", b"}", b",", b'"', b"\\", b"\r", b"\n", b"data: "]
)


@settings(deadline=None, max_examples=300)
@given(st.lists(TOKENS | st.binary(max_size=12)))
def test_arbitrary_bytes_give_events_or_an_error(pieces: list[bytes]) -> None:
    def outcome(*cuts: bytes) -> Any:
        try:
            return PLAYER.stream(*cuts)
        except errors.ChatError as error:
            return error

    result = outcome(*pieces)
    assert outcome(b"".join(pieces)) == result
    if isinstance(result, list):
        response(result)


@needs_traffic
def test_recorded_streams_end_as_they_would_whole() -> None:
    count = 0
    for exchange in recorded("gemini-generateContent"):
        view = API.read(exchange.response)
        if not view.streamed:
            continue
        count += 1
        events = PLAYER.stream(exchange.response.body)
        # as one body, the signature of an empty text behind a text sits on that text
        assert not [*of_responses(response(events), PLAYER.chat(view.body), Issued())], exchange.path
        for pieces in random_cuts(exchange.response.body, 50):
            assert PLAYER.stream(*pieces) == events, exchange.path
    assert count == 50
