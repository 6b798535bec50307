"""What Anthropic answers: read whole and streamed, built, refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from harness.apis import registry
from harness.apis.anthropic import API
from harness.apis.limits import Limit
from harness.apis.view import CallView, ErrorView, ModelStep, OpaqueView, Prefix, ResponseView, TextView, WireError
from harness.model.http import HttpResponse
from harness.model.messages import StopReason, Usage
from tests.apis.hardened import validator

PROFILE = registry.api("anthropic").profile_for("claude-opus-5")
USAGE = {
    "input_tokens": 10,
    "cache_creation_input_tokens": 200,
    "cache_read_input_tokens": 3000,
    "output_tokens": 50,
    "output_tokens_details": {"thinking_tokens": 20},
}
STREAM = {"content-type": "text/event-stream; charset=utf-8"}


def message(*content: Any, **fields: Any) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5",
        "content": list(content),
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": USAGE,
        **fields,
    }


def read(body: Any, status: int = 200) -> ResponseView:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return API.read(HttpResponse(status, {"content-type": "application/json"}, raw))


def stream(*events: Any, end: str = "\n\n") -> bytes:
    names = [event["type"] if isinstance(event, dict) else "message" for event in events]
    lines = (f"event: {name}\ndata: {json.dumps(event)}{end}" for name, event in zip(names, events, strict=True))
    return "".join(lines).encode()


def streamed(*events: Any) -> ResponseView:
    return API.read(HttpResponse(200, STREAM, stream(*events)))


def start(**fields: Any) -> dict[str, Any]:
    usage = {**USAGE, "output_tokens": 1, "output_tokens_details": None}
    return {"type": "message_start", "message": message(stop_reason=None, usage=usage, **fields)}


def block(index: int, content_block: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content_block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(index: int, *fragments: str) -> list[dict[str, Any]]:
    deltas = ({"type": "text_delta", "text": fragment} for fragment in fragments)
    return block(index, {"type": "text", "text": ""}, *deltas)


def call(index: int, call_id: str, *fragments: str) -> list[dict[str, Any]]:
    deltas = ({"type": "input_json_delta", "partial_json": fragment} for fragment in fragments)
    return block(index, {"type": "tool_use", "id": call_id, "name": "f", "input": {}}, *deltas)


def finish(reason: str = "end_turn") -> list[dict[str, Any]]:
    usage = {"output_tokens": 50, "output_tokens_details": {"thinking_tokens": 20}}
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


PING = {"type": "ping"}


def test_a_whole_message() -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    body = message(
        thinking,
        {"type": "text", "text": "I look.", "citations": None},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"n": 1}, "caller": {"type": "direct"}},
        {"type": "of another day"},
        stop_reason="tool_use",
    )
    assert read(body) == ResponseView(
        api="anthropic",
        parts=(
            OpaqueView("thinking", thinking, "/content/0"),
            TextView("I look.", "/content/1/text"),
            CallView("toolu_1", "f", {"n": 1}, "/content/2", "/content/2/id", "/content/2/input"),
            OpaqueView("of another day", {"type": "of another day"}, "/content/3"),
        ),
        stop_reason=StopReason.TOOL_USE,
        raw_stop_reason="tool_use",
        usage=Usage(3210, 50, 3000, 200, 20),
        model="claude-opus-5",
        body=body,
    )


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        ("end_turn", StopReason.END_TURN),
        ("tool_use", StopReason.TOOL_USE),
        ("max_tokens", StopReason.MAX_TOKENS),
        ("model_context_window_exceeded", StopReason.MAX_TOKENS),
        ("stop_sequence", StopReason.STOP_SEQUENCE),
        ("refusal", StopReason.REFUSAL),
        ("pause_turn", StopReason.PAUSE),
        ("of another day", StopReason.UNKNOWN),
        (None, StopReason.UNKNOWN),
    ],
)
def test_stop_reasons(raw: str | None, canonical: StopReason) -> None:
    view = read(message(stop_reason=raw))
    assert (view.stop_reason, view.raw_stop_reason) == (canonical, raw)


def test_usage_that_is_not_said_is_none() -> None:
    assert read(message(usage={"input_tokens": 7, "output_tokens": 2})).usage == Usage(7, 2)
    assert read(message(usage={"input_tokens": 7, "cache_read_input_tokens": None})).usage == Usage(7)
    assert read(message(usage=None)).usage == Usage()


def test_a_refusal_says_why() -> None:
    details = {"type": "refusal", "category": None, "explanation": "No."}
    view = read(message(stop_reason="refusal", stop_details=details))
    assert view.parts == (OpaqueView("refusal", details, "/stop_details"),)


def test_a_stream_folds_into_the_whole_message() -> None:
    view = streamed(
        start(),
        PING,
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "H"},
            {"type": "thinking_delta", "thinking": "m."},
            {"type": "signature_delta", "signature": "old"},
            {"type": "signature_delta", "signature": "c2ln"},
        ),
        *text(1, "Line\u2028separator ", "and 18 °C"),
        *call(2, "a", "", '{"ci', 'ty": "Par', 'is"}'),
        PING,
        *call(3, "b"),
        *call(4, "c", ""),
        *finish("tool_use"),
    )
    assert view.body == message(
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "text", "text": "Line\u2028separator and 18 °C"},
        {"type": "tool_use", "id": "a", "name": "f", "input": {"city": "Paris"}},
        {"type": "tool_use", "id": "b", "name": "f", "input": {}},
        {"type": "tool_use", "id": "c", "name": "f", "input": {}},
        stop_reason="tool_use",
    )
    assert (view.streamed, view.complete, view.error) == (True, True, None)
    assert view.stop_reason is StopReason.TOOL_USE
    assert view.usage == Usage(3210, 50, 3000, 200, 20)
    assert [item.arguments for item in view.calls] == [{"city": "Paris"}, {}, {}]


def test_interleaved_blocks_are_folded_by_index() -> None:
    first, second = call(0, "a", '{"n":', "1}"), call(1, "b", '{"n":', "2}")
    mixed = [event for pair in zip(first, second, strict=True) for event in pair]
    view = streamed(start(), *mixed, *finish("tool_use"))
    assert [(item.id, item.arguments) for item in view.calls] == [("a", {"n": 1}), ("b", {"n": 2})]


def test_citations_append_and_unknown_deltas_are_kept() -> None:
    citing = {"type": "text", "text": "", "citations": []}
    cites = [{"type": "citations_delta", "citation": {"n": n}} for n in (1, 2)]
    later = [{"type": "memo_delta", "memo": word} for word in ("a", "b")]
    view = streamed(start(), *block(0, citing, *cites), *block(1, {"type": "memo"}, *later), *finish())
    assert view.body["content"] == [
        {"type": "text", "text": "", "citations": [{"n": 1}, {"n": 2}]},
        {"type": "memo", "memo": "ab"},
    ]


@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n", "\r\r"])
def test_every_line_end_is_one(end: str) -> None:
    body = stream(start(), *text(0, "x"), *finish(), end=end)
    assert API.read(HttpResponse(200, STREAM, body)).text == "x"


def test_arguments_cut_by_max_tokens_are_malformed() -> None:
    view = streamed(start(), *call(0, "a", '{"city": "Par'), *finish("max_tokens"))
    assert (view.calls[0].arguments, view.calls[0].malformed) == (None, '{"city": "Par')
    assert view.complete


def test_a_cut_stream_is_not_complete() -> None:
    whole = [start(), *text(0, "a", "b"), *finish()]
    for kept in range(1, len(whole)):
        view = streamed(*whole[:kept])
        assert not view.complete
    assert streamed(*whole[:3]).text == "a"
    assert streamed(*whole).complete


def test_usage_stays_where_the_end_says_nothing_new() -> None:
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    assert streamed(start(), end, {"type": "message_stop"}).usage == Usage(3210, 1, 3000, 200)


def test_an_error_in_a_stream() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    view = streamed(start(), *text(0, "a"), error)
    assert view.error == ErrorView(200, "Overloaded", "overloaded_error", 529)
    assert (view.text, view.stop_reason, view.complete) == ("a", StopReason.ERROR, False)
    assert streamed(error).error == ErrorView(200, "Overloaded", "overloaded_error", 529)


def test_errors() -> None:
    body = {"type": "error", "error": {"type": "not_found_error", "message": "model: x"}, "request_id": "req_1"}
    view = read(body, 404)
    assert (view.error, view.body) == (ErrorView(404, "model: x", "not_found_error", 404), body)
    assert read(body).error == ErrorView(200, "model: x", "not_found_error", 404)
    assert read({"message": "no"}, 400).error == ErrorView(400, "no", meant=400)
    assert read(b"<html>Bad gateway</html>", 502).error == ErrorView(502, "<html>Bad gateway</html>", meant=502)
    assert read([], 500).error == ErrorView(500, "[]", meant=500)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"content": "text"}', b'{"choices": []}'])
def test_what_is_no_message(body: bytes) -> None:
    with pytest.raises(WireError):
        read(body)


@pytest.mark.parametrize(
    "events",
    [
        [PING, {"type": "of another day"}],
        [start(), {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}],
        [start(), {"type": "content_block_start", "index": "0", "content_block": {}}],
        [{"type": "message_start", "message": None}],
        [["message_start"]],
    ],
)
def test_what_is_no_stream(events: list[Any]) -> None:
    with pytest.raises(WireError):
        streamed(*events)


STEPS = [
    ModelStep(text="Hello."),
    ModelStep(calls=(("f", {}),)),
    ModelStep(text="I look.", thinking="Hm.", calls=(("f", {"n": 2**60}), ("f", {"city": "Köln"}))),
    ModelStep(thinking="", text="x"),
    ModelStep(refusal="No."),
    ModelStep(text="Cut", stop=StopReason.MAX_TOKENS),
    ModelStep(text="x", stop=StopReason.STOP_SEQUENCE),
    ModelStep(text="", stop=StopReason.END_TURN),
    ModelStep(
        text="found",
        stop=StopReason.PAUSE,
        raw=({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},),
    ),
]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("model", ["claude-opus-5", "claude-sonnet-4-5"])
def test_what_is_built_is_read_back(step: ModelStep, model: str) -> None:
    body = API.build(step, "seed", model, registry.api("anthropic").profile_for(model))
    view = read(body)
    assert view.text == (step.text or "")
    assert [(item.name, item.arguments) for item in view.calls] == list(step.calls)
    assert view.model == model
    derived = StopReason.REFUSAL if step.refusal else StopReason.TOOL_USE if step.calls else StopReason.END_TURN
    assert view.stop_reason is (step.stop or derived)
    kinds = [part.kind for part in view.parts if isinstance(part, OpaqueView)]
    thinking, refusal = ["thinking"] * (step.thinking is not None), ["refusal"] * (step.refusal is not None)
    assert kinds == [*thinking, *(raw["type"] for raw in step.raw), *refusal]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("model", ["claude-opus-5", "claude-sonnet-4-5"])
def test_what_is_built_is_the_sdk_s(step: ModelStep, model: str) -> None:
    types = pytest.importorskip("anthropic.types")
    body = API.build(step, "seed", model, registry.api("anthropic").profile_for(model))
    validator(types.Message).validate_json(json.dumps(body), strict=True)


def test_the_sdk_s_types_can_say_no() -> None:
    types = pytest.importorskip("anthropic.types")
    for wrong in ({"stop_reason": "of another day"}, {"content": [{"type": "text"}]}, {"usage": {}}, {"id": None}):
        body = {**API.build(STEPS[0], "seed", "claude-opus-5", PROFILE), **wrong}
        with pytest.raises(ValidationError):
            validator(types.Message).validate_json(json.dumps(body), strict=True)


def test_parts_stand_in_the_order_of_the_contract() -> None:
    raw = {"type": "redacted_thinking", "data": "x"}
    step = ModelStep(text="t", thinking="h", calls=(("f", {}),), raw=(raw,))
    content: Any = API.build(step, "seed", "claude-opus-5", PROFILE)["content"]
    assert [part["type"] for part in content] == ["thinking", "redacted_thinking", "text", "tool_use"]
    assert content[0]["signature"]
    assert content[1] == raw


def test_ids_and_usage_are_functions_of_the_seed() -> None:
    step = ModelStep(thinking="h", calls=(("f", {}), ("f", {})))
    one, same, other = (API.build(step, seed, "claude-opus-5", PROFILE) for seed in ("1", "1", "2"))
    assert one == same
    assert one["id"] != other["id"]
    ids = {item.id for body in (one, other) for item in read(body).calls}
    assert len(ids) == 4
    assert all(str(found).startswith("toolu_01") and len(str(found)) == 30 for found in ids)


@pytest.mark.parametrize(
    ("prefix", "read_", "written"),
    [
        (Prefix(), 0, 0),
        (Prefix(repeated=5000), 0, 0),  # nothing is cached unless it is marked
        (Prefix(marked=900), 0, 0),  # nor if it is short
        (Prefix(marked=2000), 0, 2000),
        (Prefix(marked=2000, again=True), 2000, 0),
    ],
)
def test_usage_has_what_an_adapter_could_forget_to_sum(prefix: Prefix, read_: int, written: int) -> None:
    step = replace(STEPS[2], prefix=prefix)
    for seed in range(10):
        usage = read(API.build(step, str(seed), "claude-opus-5", PROFILE)).usage
        assert (usage.cache_read_tokens, usage.cache_write_tokens) == (read_, written)
        assert (usage.reasoning_tokens or 0) < (usage.output_tokens or 0)
        assert (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0) < (usage.input_tokens or 0)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, None, "invalid_request_error"),
        (413, None, "request_too_large"),
        (429, None, "rate_limit_error"),
        (500, None, "api_error"),
        (529, None, "overloaded_error"),
        (400, "of_its_own", "of_its_own"),
    ],
)
def test_refusals(status: int, code: str | None, kind: str) -> None:
    violation = Limit("rule", "", "anthropic-call-answered-next").broken(
        "messages.0: no — never", "/messages/0", status=status, code=code
    )
    response = API.refuse(violation)
    body = json.loads(response.body)
    assert response.status == status
    assert response.headers == {"content-type": "application/json", "request-id": body["request_id"]}
    assert body["request_id"].startswith("req_011")
    assert body["error"] == {"type": kind, "message": "messages.0: no — never"}
    assert API.read(response).error == ErrorView(status, "messages.0: no — never", kind, status)
    assert API.refuse(violation) == response


def test_the_sdk_understands_a_refusal() -> None:
    anthropic = pytest.importorskip("anthropic")
    httpx2 = pytest.importorskip("httpx2")
    refusal = API.refuse(Limit("rule", "", "anthropic-required-fields").broken("no", "", status=413))

    def handler(request: Any) -> Any:
        return httpx2.Response(refusal.status, headers=dict(refusal.headers), content=refusal.body)

    with (
        httpx2.Client(transport=httpx2.MockTransport(handler)) as http,
        anthropic.Anthropic(api_key="none", http_client=http, max_retries=0) as client,
        pytest.raises(anthropic.APIStatusError) as caught,
    ):
        client.messages.create(model="claude-opus-5", max_tokens=1, messages=[{"role": "user", "content": "Hi"}])
    assert caught.value.status_code == 413
    assert caught.value.type == "request_too_large"
    assert caught.value.request_id == refusal.headers["request-id"]
