import json
from dataclasses import replace
from typing import Any

import pytest

from harness.apis.gemini import API
from harness.apis.view import ErrorView, OpaqueView, ResponseView, TextView, WireError
from harness.model.http import HttpResponse
from harness.model.messages import StopReason, Usage
from tests.apis.samples import oddities

JSON_TYPE = "application/json; charset=UTF-8"
USAGE = {"promptTokenCount": 10, "candidatesTokenCount": 3, "totalTokenCount": 13}


def read(body: bytes, *, status: int = 200, content_type: str = JSON_TYPE) -> ResponseView:
    return API.read(HttpResponse(status, {"content-type": content_type}, body))


def whole(body: Any, status: int = 200) -> ResponseView:
    return read(json.dumps(body).encode(), status=status)


def sse(*chunks: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n" for chunk in chunks)


def streamed(*chunks: Any) -> ResponseView:
    return read(sse(*chunks), content_type="text/event-stream")


def chunk(*parts: Any, finish: str | int | None = None, **fields: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": [*parts]}, "index": 0}
    return {"candidates": [candidate | ({"finishReason": finish} if finish else {})], **fields}


def call(name: str, **fields: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, **fields}}


def test_a_whole_answer() -> None:
    thought = {"text": "Hm.", "thought": True}
    signed = {"text": "18 °C", "thoughtSignature": "QUI="}
    body = chunk(thought, signed, finish="STOP", usageMetadata=USAGE, modelVersion="gemini-3.5-flash")
    assert whole(body) == ResponseView(
        api="gemini",
        parts=(
            OpaqueView("thought", thought, "/candidates/0/content/parts/0"),
            TextView("18 °C", "/candidates/0/content/parts/1/text", "QUI="),
        ),
        stop_reason=StopReason.END_TURN,
        raw_stop_reason="STOP",
        usage=Usage(input_tokens=10, output_tokens=3),
        model="gemini-3.5-flash",
        body=body,
    )


@pytest.mark.parametrize(
    ("finish", "parts", "stop_reason"),
    [
        ("STOP", [{"text": "Hi"}], StopReason.END_TURN),
        ("STOP", [{"text": "Hi"}, call("f")], StopReason.TOOL_USE),
        ("MAX_TOKENS", [call("f")], StopReason.MAX_TOKENS),
        ("SAFETY", [], StopReason.REFUSAL),
        ("MODEL_ARMOR", [], StopReason.REFUSAL),
        ("IMAGE_RECITATION", [], StopReason.REFUSAL),
        ("IMAGE_OTHER", [], StopReason.ERROR),
        ("IMAGE_NEW", [], StopReason.REFUSAL),
        ("CONTINUATION", [], StopReason.PAUSE),
        ("MALFORMED_FUNCTION_CALL", [], StopReason.MALFORMED_CALL),
        ("UNEXPECTED_TOOL_CALL", [call("f")], StopReason.MALFORMED_CALL),
        ("OTHER", [], StopReason.ERROR),
        ("SOMETHING_NEW", [], StopReason.UNKNOWN),
        (None, [], StopReason.UNKNOWN),
    ],
)
def test_stop_reasons(finish: str | None, parts: list[Any], stop_reason: StopReason) -> None:
    seen = whole(chunk(*parts, finish=finish))
    assert (seen.stop_reason, seen.raw_stop_reason) == (stop_reason, finish)


@pytest.mark.parametrize(
    ("number", "parts", "stop_reason", "name"),
    [
        (1, [call("f")], StopReason.TOOL_USE, "STOP"),
        (2, [], StopReason.MAX_TOKENS, "MAX_TOKENS"),
        (9, [], StopReason.MALFORMED_CALL, "MALFORMED_FUNCTION_CALL"),
        (99, [], StopReason.UNKNOWN, "99"),
    ],
)
def test_a_reason_may_be_its_number(number: int, parts: list[Any], stop_reason: StopReason, name: str) -> None:
    for seen in (whole(chunk(*parts, finish=number)), streamed(chunk(*parts), chunk(finish=number))):
        assert (seen.stop_reason, seen.raw_stop_reason) == (stop_reason, name)


def test_a_blocked_prompt_has_no_candidates() -> None:
    seen = whole({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}})
    assert (seen.parts, seen.stop_reason, seen.raw_stop_reason) == ((), StopReason.REFUSAL, "SAFETY")
    assert seen.usage == Usage(input_tokens=4)


def test_a_candidate_without_content() -> None:
    seen = whole({"candidates": [{"finishReason": "SAFETY", "finishMessage": "Filtered."}]})
    assert (seen.parts, seen.stop_reason, seen.complete) == ((), StopReason.REFUSAL, True)


def test_usage_is_gross_on_both_sides() -> None:
    counts = {
        "promptTokenCount": 100,
        "toolUsePromptTokenCount": 7,
        "cachedContentTokenCount": 60,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 30,
    }
    assert whole(chunk(finish="STOP", usageMetadata=counts)).usage == Usage(107, 50, 60, None, 30)
    assert whole(chunk(finish="STOP")).usage == Usage()


def test_a_stream_folds_into_the_whole_answer() -> None:
    seen = streamed(
        chunk({"text": "Let ", "thought": True}, usageMetadata={"promptTokenCount": 10}),
        chunk({"text": "me see.", "thought": True}),
        chunk({"text": "It is "}),
        chunk({"text": "18\u2028°C."}, call("now", args={})),
        chunk({"text": ""}, finish="STOP", usageMetadata=USAGE, modelVersion="gemini-3.5-flash"),
    )
    assert seen.body == chunk(
        {"text": "Let me see.", "thought": True},
        {"text": "It is 18\u2028°C."},
        call("now", args={}),
        finish="STOP",
        usageMetadata=USAGE,
        modelVersion="gemini-3.5-flash",
    )
    assert (seen.streamed, seen.complete, seen.stop_reason) == (True, True, StopReason.TOOL_USE)
    assert seen.usage == Usage(10, 3)
    assert [one.pointer for one in seen.calls] == ["/candidates/0/content/parts/2"]


def test_the_signature_of_an_empty_text_sits_on_the_text_before_it() -> None:
    seen = streamed(
        chunk({"text": "18 "}), chunk({"text": "°C"}), chunk({"text": "", "thoughtSignature": "QUI="}, finish="STOP")
    )
    assert seen.text == "18 °C"
    assert [part.opaque for part in seen.parts if isinstance(part, TextView)] == ["QUI="]


def test_calls_of_several_chunks_and_text_between_them_keep_their_order() -> None:
    seen = streamed(
        chunk(call("f", args={"n": 1}, id="a")),
        chunk({"text": "and"}),
        chunk(call("f", args={}, id="b"), finish="STOP"),
    )
    assert [(one.id, one.arguments) for one in seen.calls] == [("a", {"n": 1}), ("b", {})]
    assert [type(part).__name__ for part in seen.parts] == ["CallView", "TextView", "CallView"]


def piece(path: str, **fields: Any) -> dict[str, Any]:
    return {"jsonPath": path, **fields}


def pieces(*partial: Any) -> dict[str, Any]:
    return {"functionCall": {"partialArgs": [*partial], "willContinue": True}}


def test_arguments_that_come_in_pieces() -> None:
    seen = streamed(
        chunk({**call("order", id="a", willContinue=True), "thoughtSignature": "QUI="}),
        chunk(pieces(piece("$.city", stringValue="New ", willContinue=True))),
        chunk(pieces(piece("$.city", stringValue="York"), piece("$.items[0].n", numberValue=2))),
        chunk(pieces(piece("$.items[1]['a b']", boolValue=False), piece("$.none", nullValue="NULL_VALUE"))),
        chunk(pieces(piece("$.far[99999999]", numberValue=1))),
        chunk({"functionCall": {}}),
        chunk(call("now"), finish="STOP"),
    )
    order, now = seen.calls
    arguments = {"city": "New York", "items": [{"n": 2}, {"a b": False}], "none": None, "far": [1]}
    assert (order.id, order.name, order.arguments, order.opaque) == ("a", "order", arguments, "QUI=")
    assert (now.name, now.arguments) == ("now", {})


def test_candidates_fold_apart_by_index() -> None:
    def candidate(index: int, text: str) -> dict[str, Any]:
        return {"content": {"role": "model", "parts": [{"text": text}]}, "index": index}

    seen = streamed(
        {"candidates": [candidate(1, "x"), candidate(0, "a")]},
        {"candidates": [candidate(1, "y")]},
        {"candidates": [candidate(0, "b") | {"finishReason": "STOP"}]},
    )
    assert seen.text == "ab"
    assert isinstance(seen.body, dict)
    assert seen.body["candidates"] == [candidate(0, "ab") | {"finishReason": "STOP"}, candidate(1, "xy")]


ERROR = {"error": {"code": 400, "message": "Corrupted thought signature.", "status": "INVALID_ARGUMENT"}}
ERROR_VIEW = ErrorView(400, "Corrupted thought signature.", "INVALID_ARGUMENT", 400)


def test_an_error_body_plain_and_in_a_list() -> None:
    for body in (ERROR, [ERROR]):
        seen = whole(body, 400)
        assert (seen.error, seen.stop_reason, seen.parts) == (ERROR_VIEW, StopReason.ERROR, ())


def test_an_error_in_mid_stream_keeps_what_came_before() -> None:
    seen = streamed(chunk({"text": "Hi"}), ERROR)
    in_stream = replace(ERROR_VIEW, status=200)
    assert (seen.error, seen.text, seen.stop_reason, seen.complete) == (in_stream, "Hi", StopReason.ERROR, False)


def test_a_refusal_that_is_not_the_providers_becomes_an_error_too() -> None:
    page = read(b"<html>Bad Gateway</html>", status=502, content_type="text/html")
    assert page.error == ErrorView(502, "<html>Bad Gateway</html>", meant=502)
    assert read(b"", status=500, content_type="text/event-stream").error == ErrorView(500, "", meant=500)


@pytest.mark.parametrize("body", [b"", b"null", b'"Hi"', b'{"choices": []}', b"<html>", b"[1]", b"\xff"])
def test_other_bodies_are_wire_errors(body: bytes) -> None:
    with pytest.raises(WireError):
        read(body)


def test_unknown_parts_and_fields_of_an_answer_do_not_vanish() -> None:
    seen = streamed(chunk({"hologram": {"depth": 3}}, finish="STOP"), {"novelty": 1})
    assert seen.parts == (OpaqueView("hologram", {"hologram": {"depth": 3}}, "/candidates/0/content/parts/0"),)
    assert isinstance(seen.body, dict)
    assert seen.body["novelty"] == 1


def test_no_odd_answer_does_more_than_raise_a_wire_error() -> None:
    answer = chunk({"text": "Hi"}, pieces(piece("$.a", stringValue="x")), finish="STOP", usageMetadata=USAGE)
    read_well = 0
    for body in oddities(answer):
        for response in (json.dumps(body).encode(), json.dumps([answer, body]).encode(), sse(answer, body)):
            try:
                read_well += read(response).api == "gemini"
            except WireError:
                continue
    assert read_well > 100
