"""The faults, one by one: those that a server of any API can have, and those of each API's own form."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from harness.apis.view import ModelStep, RequestView, TextView
from harness.checks.server_checks.answer_checks import BOUND_TOKENS, PASSAGE
from harness.checks.server_checks.conversation_checks import NUMBER
from harness.model.http import Delivery, HttpResponse
from tests.servers.faulty import (
    APIS,
    Change,
    Fault,
    Json,
    failing,
    headed,
    in_body,
    in_bytes,
    in_each,
    in_stream,
    instead,
    mode,
    refusing,
    said,
)

CHAT, RESPONSES, MESSAGES, GEMINI = ("openai-chat",), ("openai-responses",), ("anthropic",), ("gemini",)
OPENAI = (*CHAT, *RESPONSES)


def _fault(
    name: str, change: Change, *found_by: str, apis: tuple[str, ...] = APIS, seen_in: tuple[str, ...] = ()
) -> Fault:
    return Fault(name, change, frozenset(f"server-{rule}" for rule in found_by), apis, seen_in)


def _call(name: str, **arguments: Any) -> ModelStep:
    return ModelStep(calls=((name, arguments),))


def _asks(text: str) -> Callable[[RequestView], bool]:
    return lambda view: text in said(view)


def _has_results(view: RequestView) -> bool:
    return bool(view.results)


def _is_foreign(view: RequestView) -> bool:
    return any(call.id == "call_9pBQ4xTz7Kfe21Lm" for call in view.calls)


def _is_string(view: RequestView) -> bool:
    return any(part.pointer.endswith("/content") for turn in view.turns for part in turn.parts)


def _is_parted(view: RequestView) -> bool:
    texts = [part for turn in view.turns if turn.role == "user" for part in turn.parts if isinstance(part, TextView)]
    return any(text.pointer.endswith("/text") for text in texts)


def _role(wanted: str) -> Callable[[RequestView], bool]:
    return lambda view: any(system.place == f"message:{wanted}" for system in view.system)


def _doubly(view: RequestView) -> ModelStep:
    text = said(view).partition("<<<")[2].removesuffix(">>>")
    return _call("save_note", text=json.dumps(text)[1:-1])


_WEATHER = _call("get_weather", city="Paris")
_TWO = ModelStep(calls=(("get_weather", {"city": "Rome"}), ("get_weather", {"city": "Bern"})))
_PROSE = ModelStep(text="Here you are, with pleasure.")

ANYWHERE = (
    _fault("none is ignored", instead(lambda view: mode(view) == "none", _WEATHER), "choice-none"),
    _fault("required is ignored", instead(lambda view: mode(view) == "required", _PROSE), "choice-required"),
    _fault(
        "another tool than the named one is called",
        instead(lambda view: mode(view) == "named" and "Cairo" in said(view), _call("get_weather", city="Cairo")),
        "choice-named",
    ),
    _fault(
        "several calls where one is allowed",
        instead(lambda view: "one_call" in view.settings, _TWO),
        "choice-one-call",
        apis=(*OPENAI, *MESSAGES),
    ),
    _fault(
        "JSON mode gives a fence",
        instead(
            lambda view: view.response_format is not None and view.response_format.kind == "json",
            ModelStep(text='```json\n{"city": "Madrid"}\n```'),
        ),
        "json-mode",
        apis=(*OPENAI, *GEMINI),
    ),
    _fault(
        "JSON mode is ignored beside tools",
        instead(
            lambda view: bool(view.tools) and view.response_format is not None and view.response_format.kind == "json",
            _PROSE,
        ),
        "json-mode-tools",
        apis=(*OPENAI, *GEMINI),
    ),
    _fault("plain strings are refused", refusing(_is_string), "strings", apis=MESSAGES),
    _fault("lists of parts are refused", refusing(_is_parted), "parts", apis=OPENAI),
    _fault(
        "the schema is ignored",
        instead(lambda view: view.response_format is not None and not view.tools, ModelStep(text='{"legs": "eight"}')),
        "json-schema",
    ),
    _fault(
        "the schema is ignored beside tools",
        instead(lambda view: view.response_format is not None and bool(view.tools), _PROSE),
        "json-schema-tools",
    ),
    _fault("the system prompt is dropped", instead(_asks("two and two"), ModelStep(text="Four.")), "system"),
    _fault("own ids are refused", refusing(_has_results), "call", "parallel"),
    _fault("foreign ids are refused", refusing(_is_foreign), "history"),
    _fault(
        "parallel calls are dropped when streamed",
        instead(lambda view: view.stream and "Vienna" in said(view), _call("get_weather", city="Vienna")),
        "same-calls",
    ),
    _fault(
        "a call without arguments is dropped when streamed",
        instead(lambda view: view.stream and "Bergen" in said(view), _call("get_weather", city="Bergen")),
        "different-calls",
    ),
    _fault(
        "arguments arrive at the call that has none",
        instead(
            lambda view: not view.stream and not view.results and "Bergen" in said(view),
            ModelStep(calls=(("ping", {"city": "Bergen"}), ("get_weather", {}))),
        ),
        "different-calls",
    ),
    _fault(
        "different calls arrive as one",
        instead(
            lambda view: not view.stream and not view.results and "Bergen" in said(view),
            _call("pingget_weather", city="Bergen"),
        ),
        "different-calls",
    ),
    _fault(
        "the text is cut when streamed",
        instead(lambda view: view.stream and PASSAGE in said(view), ModelStep(text=PASSAGE[:-9])),
        "same-text",
    ),
    _fault(
        "a large integer is rounded",
        instead(_asks(str(NUMBER)), _call("find_order", number=int(float(NUMBER)))),
        "integers",
        apis=(*OPENAI, *MESSAGES),
    ),
    _fault("escapes are doubled", instead(_asks("<<<"), _doubly), "escapes"),
    _fault(
        "strict arguments do not fit",
        instead(_asks("book_table"), _call("book_table", place="roof", meal="dinner", guests="four")),
        "strict-arguments",
    ),
    _fault(
        "the bound is not kept", instead(_asks("Count from one"), ModelStep(text="one, two, three, " * 30)), "length"
    ),
    _fault(
        "the stop sequence is ignored",
        instead(_asks("Count from ONE"), ModelStep(text="ONE, TWO, THREE, FOUR, FIVE, SIX")),
        "stop-sequence",
        apis=(*CHAT, *MESSAGES, *GEMINI),
    ),
    _fault(
        "the text is lost",
        in_body(lambda body: body["choices"][0]["message"].update(content=None)),
        "text",
        apis=CHAT,
    ),
    _fault("errors have no body", failing(lambda response: replace(response, body=b"")), "error-body"),
    _fault("errors come as 200", failing(lambda response: replace(response, status=200)), "error-status"),
    _fault(
        "errors come as 500", failing(lambda response: replace(response, status=500)), "error-json", "error-messages"
    ),
    _fault("the error is a text", in_body(lambda body: body.update(error="bad request"), failed=True), "error-body"),
    _fault("a stream is called JSON", headed("content-type", "application/json", stream=True), "content-type"),
    _fault("JSON is called text", headed("content-type", "text/plain", stream=False), "content-type"),
    _fault(
        "no blank line between events",
        in_bytes(lambda body: body.replace(b"\r\n\r\n", b"\r\n").replace(b"\n\n", b"\n")),
        "framing",
    ),
    _fault("a keep-alive that is no comment", in_bytes(lambda body: b"PROCESSING\n\n" + body), "framing"),
    _fault(
        "the data is no JSON",
        in_bytes(lambda body: body.replace(b"}\n\n", b"\n\n", 1).replace(b"}\r\n\r\n", b"\r\n\r\n", 1)),
        "framing",
    ),
    _fault(
        "streams are closed early",
        lambda _api, view, response: (
            replace(response, body=response.body[: len(response.body) // 2], delivery=Delivery(ending="cut"))
            if view is not None and view.stream
            else response
        ),
        "end",
    ),
    _fault("whole answers are cut", in_bytes(lambda body: body[:-3], stream=False), "fields"),
    _fault("the model is empty", in_body(lambda body: body.update(model="")), "fields", apis=OPENAI),
    _fault("tokens are not counted", in_body(lambda body: body.pop("usage")), "usage", apis=OPENAI),
)


# --- Chat Completions ---


def _calls(body: Json) -> list[Json]:
    return body["choices"][0]["message"].get("tool_calls") or []


def _each_call(change: Callable[[Json], object]) -> Change:
    return in_body(lambda body: [change(call) for call in _calls(body)])


def _pieces(chunk: Json) -> list[Json]:
    return [
        piece for choice in chunk["choices"] for piece in choice["delta"].get("tool_calls") or [] if choice.get("delta")
    ]


def _each_piece(change: Callable[[Json], object]) -> Change:
    return in_each(lambda chunk: [change(piece) for piece in _pieces(chunk)])


def _merged(sent: list[Json]) -> list[Json]:
    """The second call goes on in the first."""
    for chunk in sent:
        for piece in _pieces(chunk):
            if piece["index"] == 1:
                piece["index"] = 0
                piece.pop("id", None)
                piece.pop("type", None)
                piece["function"].pop("name", None)
    return sent


def _another_id(sent: list[Json]) -> list[Json]:
    for number, chunk in enumerate(sent):
        for piece in _pieces(chunk):
            piece["id"] = f"call_{number}"
    return sent


def _repeating(*, name: bool) -> Change:
    """Each piece of a call has the id of the call again, or its name."""

    def repeated(sent: list[Json]) -> list[Json]:
        first: dict[int, Json] = {}
        for piece in (piece for chunk in sent for piece in _pieces(chunk)):
            begun = first.setdefault(piece["index"], piece)
            if name:
                piece["function"]["name"] = begun["function"]["name"]
            else:
                piece["id"] = begun["id"]
        return sent

    return in_stream(repeated)


def _doubled(sent: list[Json]) -> list[Json]:
    """Each chunk with a piece of text comes twice."""
    return [
        chunk
        for each in sent
        for chunk in ([each, each] if each["choices"] and each["choices"][0]["delta"].get("content") else [each])
    ]


def _says_stop(body: Json) -> None:
    if _calls(body):
        body["choices"][0]["finish_reason"] = "stop"


def _finish(word: object) -> Callable[[Json], object]:
    return lambda chunk: [choice.update(finish_reason=word) for choice in chunk["choices"] if choice["finish_reason"]]


def _usage(**counts: object) -> Callable[[Json], object]:
    return lambda body: body["usage"].update(counts)


ON_CHAT = (
    _fault("every streamed call has index 0", _each_piece(lambda piece: piece.update(index=0)), "index", apis=CHAT),
    _fault("two calls are merged in one index", in_stream(_merged), "arguments", "same-calls", apis=CHAT),
    _fault("streamed ids are empty", _each_piece(lambda p: "id" in p and p.update(id="")), "call-id", apis=CHAT),
    _fault("ids change between deltas", in_stream(_another_id), "call-id", apis=CHAT),
    _fault("every piece of a call has its id", _repeating(name=False), "call-id", apis=CHAT),
    _fault(
        "each answer begins its ids anew",
        in_body(lambda body: [call.update(id=f"call_{number}") for number, call in enumerate(_calls(body))]),
        "call-id",
        "call",
        apis=CHAT,
    ),
    _fault(
        "arguments are Python",
        _each_call(lambda call: call["function"].update(arguments="{'city': 'Paris'}")),
        "arguments",
        apis=CHAT,
    ),
    _fault(
        "arguments are an object",
        _each_call(lambda call: call["function"].update(arguments=json.loads(call["function"]["arguments"]))),
        "arguments",
        apis=CHAT,
    ),
    _fault(
        "no arguments are an empty text",
        _each_call(lambda call: call["function"]["arguments"] == "{}" and call["function"].update(arguments="")),
        "arguments",
        apis=CHAT,
        seen_in=("server-no-arguments",),
    ),
    _fault("there is no [DONE]", in_stream(lambda sent: sent, end=False), "end", apis=CHAT),
    _fault(
        "something comes behind [DONE]", in_bytes(lambda body: body + b'data: {"choices": []}\n\n'), "events", apis=CHAT
    ),
    _fault("streams have no finish reason", in_each(_finish(None)), "stop-reason", apis=CHAT),
    _fault("calls stop with 'stop'", in_body(_says_stop), "stop-reason", apis=CHAT),
    _fault("streams do not count", in_stream(lambda sent: [c for c in sent if c["choices"]]), "usage", apis=CHAT),
    _fault("a count is negative", in_body(_usage(completion_tokens=-1)), "usage", apis=CHAT),
    _fault(
        "the first delta has no role",
        in_each(lambda chunk: [choice["delta"].pop("role", None) for choice in chunk["choices"]]),
        "fields",
        apis=CHAT,
    ),
    _fault(
        "the id changes from chunk to chunk",
        in_stream(lambda sent: [chunk | {"id": f"c-{at}"} for at, chunk in enumerate(sent)]),
        "fields",
        apis=CHAT,
    ),
    _fault("pieces of text come twice", in_stream(_doubled), "same-text", apis=CHAT),
    _fault("the developer is refused", refusing(_role("developer")), "developer", apis=OPENAI),
    _fault(
        "an unknown field breaks the server", refusing(_asks("Say hello, please."), 500), "unknown-field", apis=CHAT
    ),
    _fault(
        "an error in the stream",
        in_stream(lambda _: [{"error": {"message": "out of memory", "code": 500}}]),
        "error-status",
        apis=CHAT,
    ),
)

# --- Messages ---


def _blocks(change: Callable[[Json], object]) -> Change:
    return in_body(lambda body: [change(block) for block in body["content"] if block["type"] == "tool_use"])


def _indices(number: Callable[[int], int]) -> Change:
    return in_each(lambda event: "index" in event and event.update(index=number(event["index"])))


def _nameless(body: bytes) -> bytes:
    return b"".join(line + b"\n" for line in body.split(b"\n")[:-1] if not line.startswith(b"event:"))


def _without(*kinds: str) -> Change:
    return in_stream(lambda sent: [event for event in sent if event["type"] not in kinds])


ON_MESSAGES = (
    _fault(
        "a tool_use begins without an input",
        in_each(lambda data: data.get("content_block", {}).pop("input", None)),
        "fields",
        apis=MESSAGES,
    ),
    _fault("events have no names", in_bytes(_nameless), "events", apis=(*MESSAGES, *RESPONSES)),
    _fault("every block has index 0", _indices(lambda _: 0), "index", apis=MESSAGES),
    _fault("blocks are not closed", _without("content_block_stop"), "events", apis=MESSAGES),
    _fault("there is no message_stop", _without("message_stop"), "end", apis=MESSAGES),
    _fault(
        "input is a text",
        _blocks(lambda block: block.update(input=json.dumps(block["input"]))),
        "arguments",
        apis=MESSAGES,
    ),
    _fault("calls have no id (Messages)", _blocks(lambda block: block.pop("id")), "call-id", apis=MESSAGES),
    _fault(
        "calls stop with end_turn",
        in_body(lambda body: body.update(stop_reason="end_turn")),
        "stop-reason",
        apis=MESSAGES,
    ),
    _fault("Chat's end behind the stream", in_bytes(lambda body: body + b"data: [DONE]\n\n"), "events", apis=MESSAGES),
    _fault("errors have no type", in_body(lambda body: body.pop("type"), failed=True), "error-body", apis=MESSAGES),
)

# --- Responses ---


def _items(change: Callable[[Json], object]) -> Change:
    return in_body(lambda body: [change(item) for item in body["output"] if item["type"] == "function_call"])


def _unbound(api: str, view: RequestView | None, response: HttpResponse) -> HttpResponse:
    """A truncated answer looks complete, as llama.cpp does."""
    counting = _asks("Count from one to two hundred")
    if view is None or view.stream or not counting(view):
        return response

    def full(body: Json) -> None:
        body["usage"].update(output_tokens=BOUND_TOKENS, total_tokens=body["usage"]["input_tokens"] + BOUND_TOKENS)

    return in_body(full)(api, view, instead(counting, ModelStep(text="one, two, three"))(api, view, response))


ON_RESPONSES = (
    _fault("sequence numbers do not grow", in_each(lambda e: e.update(sequence_number=0)), "events", apis=RESPONSES),
    _fault("there is no response.completed", _without("response.completed"), "end", apis=RESPONSES),
    _fault(
        "every item has index 0",
        in_each(lambda e: "output_index" in e and e.update(output_index=0)),
        "index",
        "events",
        apis=RESPONSES,
    ),
    _fault("calls have no call_id", _items(lambda item: item.pop("call_id")), "call-id", apis=RESPONSES),
    _fault(
        "arguments are an object (Responses)",
        _items(lambda item: item.update(arguments={})),
        "arguments",
        apis=RESPONSES,
    ),
    _fault(
        "no event has an output_index", in_each(lambda data: data.pop("output_index", None)), "index", apis=RESPONSES
    ),
    _fault("a bound that is met is not told", _unbound, "length", apis=RESPONSES),
    _fault("the total is no sum (Responses)", in_body(_usage(total_tokens=1)), "usage", apis=RESPONSES),
    _fault("the status is unknown", in_body(lambda body: body.update(status="done")), "stop-reason", apis=RESPONSES),
)

# --- Gemini ---


def _function_calls(body: Json) -> list[Json]:
    parts = body["candidates"][0].get("content", {}).get("parts", [])
    return [part["functionCall"] for part in parts if "functionCall" in part]


def _behind(sent: list[Json]) -> list[Json]:
    """The parts come behind the finish reason."""
    sent[0]["candidates"][0]["finishReason"] = "STOP"
    return [*sent, sent[0]]


ON_GEMINI = (
    _fault(
        "args are a text",
        in_body(lambda body: [call.update(args=json.dumps(call["args"])) for call in _function_calls(body)]),
        "arguments",
        apis=GEMINI,
    ),
    _fault(
        "both calls have one id (Gemini)",
        in_body(lambda body: [call.update(id="one") for call in _function_calls(body)]),
        "call-id",
        apis=GEMINI,
    ),
    _fault(
        "there is no finishReason",
        in_each(lambda chunk: chunk["candidates"][0].pop("finishReason", None)),
        "end",
        apis=GEMINI,
    ),
    _fault("parts come behind the finishReason", in_stream(_behind), "events", apis=GEMINI),
    _fault(
        "the total is no sum (Gemini)",
        in_body(lambda body: body["usageMetadata"].update(totalTokenCount=1)),
        "usage",
        apis=GEMINI,
    ),
    _fault(
        "the code of the error is another",
        in_body(lambda body: body["error"].update(code=999), failed=True),
        "error-body",
        apis=GEMINI,
    ),
    _fault(
        "the role is assistant",
        in_body(lambda body: body["candidates"][0]["content"].update(role="assistant")),
        "fields",
        apis=GEMINI,
    ),
)

FAULTS = (*ANYWHERE, *ON_CHAT, *ON_MESSAGES, *ON_RESPONSES, *ON_GEMINI)
