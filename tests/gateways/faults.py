"""What gateways get wrong, each planted alone: in which scenario it shows, and what it must be called."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from harness.model.http import Delivery, HttpRequest, HttpResponse
from harness.scenarios.schema import Variant
from tests.gateways.toy import Edit, JsonDict, Losing, Passing


@dataclass(frozen=True)
class Fault:
    """A loss: the gateway that has it, and the rule that finds it. `also` are rules that may find it besides."""

    name: str
    target: str
    scenario: str
    gateway: Callable[[], Passing]
    rule: str
    variant: Variant = "whole"
    also: tuple[str, ...] = ()


def _without(*path: str) -> Edit:
    """Drops a field."""

    def edit(body: JsonDict) -> None:
        for key in path[:-1]:
            body = body.get(key, {})
        body.pop(path[-1], None)

    return edit


def _with(value: Any, *path: str) -> Edit:
    """Sets a field that is there."""

    def edit(body: JsonDict) -> None:
        for key in path[:-1]:
            body = body[key]
        if path[-1] in body:
            body[path[-1]] = value

    return edit


def _messages(change: Callable[[JsonDict], None]) -> Edit:
    def edit(body: JsonDict) -> None:
        for message in body["messages"]:
            change(message)

    return edit


def _blocks(kind: str, change: Callable[[JsonDict], None]) -> Edit:
    """Changes the blocks of a type, of requests and answers of the Messages API."""

    def edit(body: JsonDict) -> None:
        messages = body.get("messages", [body])
        for block in (block for message in messages for block in message.get("content", ()) if isinstance(block, dict)):
            if block.get("type") == kind:
                change(block)

    return edit


def _functions(change: Callable[[JsonDict], None]) -> Edit:
    def edit(body: JsonDict) -> None:
        for tool in body.get("tools", ()):
            change(tool["function"])

    return edit


def _stopped(body: JsonDict) -> None:
    for choice in body.get("choices", ()):
        choice["finish_reason"] = "stop"


def _choice(change: Callable[[JsonDict], None]) -> Edit:
    """Changes the message of an answer of Chat."""

    def edit(body: JsonDict) -> None:
        for choice in body.get("choices", ()):
            change(choice["message"])

    return edit


def _rounded(message: JsonDict) -> None:
    for call in message.get("tool_calls") or ():
        arguments = json.loads(call["function"]["arguments"], parse_int=float)
        call["function"]["arguments"] = json.dumps(arguments)


def _without_images(message: JsonDict) -> None:
    if isinstance(message["content"], list):
        message["content"] = [part for part in message["content"] if part["type"] == "text"]


def _without_files(message: JsonDict) -> None:
    message["content"] = [block for block in message["content"] if block["type"] != "document"]


def _one_call(message: JsonDict) -> None:
    if message.get("tool_calls"):
        del message["tool_calls"][1:]


def _swapped(body: JsonDict) -> None:
    tools = [message for message in body["messages"] if message["role"] == "tool"]
    if len(tools) > 1:
        tools[0]["content"], tools[1]["content"] = tools[1]["content"], tools[0]["content"]


def _without_system_turns(body: JsonDict) -> None:
    """litellm issue 36917: a system turn in mid-conversation is left out without an error."""
    first, *rest = body["messages"]
    body["messages"] = [first, *(message for message in rest if message["role"] != "system")]


def _without_text_beside_results(body: JsonDict) -> None:
    for message in body["messages"]:
        blocks = message["content"]
        if isinstance(blocks, list) and any(block["type"] == "tool_result" for block in blocks):
            message["content"] = [block for block in blocks if block["type"] != "text"]


def _new_ids() -> Edit:
    """Another id for each call in each request, the same for a call and its result."""
    numbers = count()

    def edit(body: JsonDict) -> None:
        names: dict[str, str] = {}
        for message in body["messages"]:
            for call in message.get("tool_calls") or ():
                call["id"] = names.setdefault(call["id"], f"call_new{next(numbers)}")
            if message["role"] == "tool":
                message["tool_call_id"] = names[message["tool_call_id"]]

    return edit


def _lost_pairs(message: JsonDict) -> None:
    if message["role"] == "tool":
        message["tool_call_id"] = "call_of_nobody"


def _uncached(body: JsonDict) -> None:
    for block in body["system"]:
        block.pop("cache_control", None)


def _same_id(message: JsonDict) -> None:
    for call in message.get("tool_calls") or ():
        call["id"] = "call_1"


def _without_enum(function: JsonDict) -> None:
    for schema in function["parameters"]["properties"].values():
        schema.pop("enum", None)


def _first_turn_forgotten(body: JsonDict) -> None:
    if len(body["messages"]) > 2:
        del body["messages"][:2]


def _instructed(body: JsonDict) -> None:
    body["messages"].insert(0, {"role": "system", "content": "You are a helpful gateway."})


def _said_by_user(body: JsonDict) -> None:
    body["messages"][0]["role"] = "user"


def _trimmed(message: JsonDict) -> None:
    if message["role"] == "tool":
        message["content"] = message["content"][:10]


def _turning_tools() -> Edit:
    """Another tool is the first one each time."""
    asked = count()

    def turn(body: JsonDict) -> None:
        first = next(asked) % len(body["tools"])
        body["tools"] = body["tools"][first:] + body["tools"][:first]

    return turn


def _timed() -> Edit:
    minutes = count()

    def with_time(body: JsonDict) -> None:
        body["system"] = f"{body['system']} It is 10:{next(minutes):02}."

    return with_time


class _Unwaiting(Passing):
    def response(self, response: HttpResponse) -> HttpResponse:
        return replace(response, headers={k: v for k, v in response.headers.items() if "retry-after" not in k})


class _Failing(Passing):
    """Makes a failure of its own out of any."""

    def response(self, response: HttpResponse) -> HttpResponse:
        return response if response.status < 400 else replace(response, status=500)


class _Streaming(Passing):
    """Answers each request for a stream with HTTP 200, and passes on the body."""

    def response(self, response: HttpResponse) -> HttpResponse:
        return HttpResponse(200, {"content-type": "text/event-stream"}, response.body, response.delivery)


def _unstrict(function: JsonDict) -> None:
    function.pop("strict", None)


class _Silent(Passing):
    """Passes on errors, and not what they say."""

    def response(self, response: HttpResponse) -> HttpResponse:
        if response.status < 400:
            return response
        body = json.loads(response.body)
        body["error"]["message"] = "the upstream has failed"
        return replace(response, body=json.dumps(body).encode())


class _Smoothing(Passing):
    """Ends a stream that broke off as if it were whole."""

    def response(self, response: HttpResponse) -> HttpResponse:
        if response.delivery.ending == "complete":
            return response
        end = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
        whole = response.body[: response.body.rfind(b"\n\n") + 2]
        return HttpResponse(response.status, response.headers, whole + end, Delivery())


_SORRY = HttpResponse(
    200,
    {"content-type": "application/json"},
    b'{"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "any", "choices": [{"index": 0, '
    b'"message": {"role": "assistant", "content": "Sorry."}, "finish_reason": "stop"}]}',
)


class _Pretending(Passing):
    """Answers with a text of its own where the upstream has failed."""

    def response(self, response: HttpResponse) -> HttpResponse:
        is_json = response.headers.get("content-type", "").startswith("application/json")
        return response if response.status < 400 and is_json else _SORRY


class _Quieting(Passing):
    """Puts the end of a stream in the place of the upstream's error."""

    def __init__(self, end: str) -> None:
        super().__init__()
        self._end = end

    def response(self, response: HttpResponse) -> HttpResponse:
        events = response.body.decode().split("\n\n")
        arrived = (self._end if '"error"' in each else each for each in events)
        return replace(response, body="\n\n".join(arrived).encode())


_CHAT_END = 'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]'


SEARCH: list[JsonDict] = [
    {"type": "server_tool_use", "id": "srvtoolu_01", "name": "web_search", "input": {"query": "ferry"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_01",
        "content": [{"type": "web_search_result", "title": "A ferry", "url": "https://example.org", "page_age": None}],
    },
]
THOUGHT: list[JsonDict] = [{"type": "thinking", "thinking": "They greet me.", "signature": "c2lnbmVk"}]


class Adding(Passing):
    """Puts blocks of its own in front of the answers of the Messages API."""

    def __init__(self, blocks: list[JsonDict]) -> None:
        super().__init__()
        self._blocks = blocks

    def response(self, response: HttpResponse) -> HttpResponse:
        if response.status >= 400:
            return response
        if response.headers.get("content-type", "").startswith("application/json"):
            body = json.loads(response.body)
            body["content"] = [*self._blocks, *body["content"]]
            return replace(response, body=json.dumps(body).encode())
        first, *rest = response.body.decode().split("\n\n")
        added = [_event(each) for at, block in enumerate(self._blocks) for each in _block_events(at, block)]
        return replace(response, body="\n\n".join([first, *added, *map(self._moved, rest)]).encode())

    def _moved(self, event: str) -> str:
        head, found, data = event.partition("data: ")
        value = json.loads(data) if found else {}
        if "index" not in value:
            return event
        return f"{head}data: {json.dumps({**value, 'index': value['index'] + len(self._blocks)})}"


def _event(value: JsonDict) -> str:
    return f"event: {value['type']}\ndata: {json.dumps(value)}"


def _block_events(index: int, block: JsonDict) -> list[JsonDict]:
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        {"type": "content_block_stop", "index": index},
    ]


def _reasoned(message: JsonDict) -> None:
    message["reasoning_content"] = "They want to know the weather."


class _Gathering(Passing):
    """Gives whoever asks for a stream one body."""

    def request(self, request: HttpRequest) -> HttpRequest:
        body = json.loads(request.body)
        body.pop("stream", None)
        body.pop("stream_options", None)
        return replace(request, body=json.dumps(body).encode())


class _Remembering(Passing):
    """Answers by itself what it takes for the same question."""

    def __init__(self) -> None:
        super().__init__()
        self._known: HttpResponse | None = None

    def __call__(self, request: HttpRequest) -> HttpResponse:
        self._known = self._known or super().__call__(request)
        return self._known


class _Breaking(Passing):
    """Fails where there are results."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if b'"tool"' in request.body:
            error = b'{"error": {"message": "TypeError: unhashable type", "type": "internal"}}'
            return HttpResponse(500, {"content-type": "application/json"}, error)
        return super().__call__(request)


class _Streamless(Passing):
    """Fails where a stream is wanted, after the upstream has answered."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = super().__call__(request)
        if json.loads(request.body).get("stream"):
            return HttpResponse(500, {"content-type": "application/json"}, b'{"error": {"message": "no streams"}}')
        return response


def _shortened(message: JsonDict) -> None:
    if message["content"]:
        message["content"] = message["content"][:5]


def _chat(name: str, scenario: str, rule: str, sent: Edit | None = None, answered: Edit | None = None) -> Fault:
    return Fault(name, "openai-chat", scenario, lambda: Losing(sent, answered), rule)


def _messages_api(name: str, scenario: str, rule: str, sent: Edit | None = None, answered: Edit | None = None) -> Fault:
    return Fault(name, "anthropic", scenario, lambda: Losing(sent, answered), rule)


def _gemini(name: str, scenario: str, rule: str, sent: Edit | None = None, answered: Edit | None = None) -> Fault:
    return Fault(name, "gemini-3", scenario, lambda: Losing(sent, answered), rule)


FAULTS = (
    _messages_api("system prompt dropped", "system-plain", "gateway-system-prompt", _without("system")),
    _chat("system prompt as the user's", "system-plain", "gateway-system-prompt", _said_by_user),
    _chat("system prompt added", "system-absent", "gateway-system-prompt", _instructed),
    _chat("first turn forgotten", "history-two-turns", "gateway-texts", _first_turn_forgotten),
    _chat("image dropped", "image-from-user", "gateway-media", _messages(_without_images)),
    _chat("tools dropped", "call-single", "gateway-tools", _without("tools")),
    _chat(
        "tool description cut",
        "call-single",
        "gateway-tool-descriptions",
        _functions(lambda function: function.update(description=function["description"][:10])),
    ),
    _chat("schema keyword stripped", "schema-enums", "gateway-tool-schemas", _functions(_without_enum)),
    _chat("tool choice dropped", "choice-required", "gateway-tool-choice", _without("tool_choice")),
    _chat("response format dropped", "json-schema", "gateway-response-format", _without("response_format")),
    _chat(
        "schema of the answer dropped",
        "json-schema",
        "gateway-response-format",
        _with({"type": "json_object"}, "response_format"),
    ),
    _chat("bound changed", "call-not-needed", "gateway-max-tokens", _with(4096, "max_completion_tokens")),
    _gemini(
        "temperature dropped", "gateway-temperature", "gateway-temperature", _without("generationConfig", "temperature")
    ),
    _gemini("top_p dropped", "gateway-top-p", "gateway-top-p", _without("generationConfig", "topP")),
    _messages_api("stop dropped", "gateway-stop", "gateway-stop", _without("stop_sequences")),
    _messages_api("effort dropped", "thinking-tool-loop", "gateway-thinking", _without("output_config")),
    _messages_api("cache marks dropped", "usage-cached-prompt", "gateway-cache-marks", _uncached),
    _chat("one call at a time dropped", "gateway-one-call", "gateway-one-call", _without("parallel_tool_calls")),
    _messages_api("file dropped", "gateway-file", "gateway-media", _messages(_without_files)),
    _chat(
        "system messages behind the first dropped",
        "gateway-system-turn",
        "gateway-system-prompt",
        _without_system_turns,
    ),
    _messages_api(
        "text beside results dropped", "gateway-text-before-result", "gateway-texts", _without_text_beside_results
    ),
    Fault("streams fail", "openai-chat", "call-single", _Streamless, "gateway-answer", "stream"),
    Fault("stream gathered", "openai-chat", "call-single", _Gathering, "gateway-stream", "stream"),
    Fault("ids made anew each time", "openai-chat", "call-sequential", lambda: Losing(_new_ids()), "gateway-call-ids"),
    Fault(
        "tools in the order of completion",
        "openai-chat",
        "prefix-with-media",
        lambda: Losing(_turning_tools()),
        "gateway-prefix",
    ),
    Fault(
        "time in the system prompt",
        "anthropic",
        "prefix-with-media",
        lambda: Losing(_timed()),
        "gateway-prefix",
        also=("gateway-system-prompt",),
    ),
    _chat("results of no call", "call-single", "gateway-results", _messages(_lost_pairs)),
    _chat("results swapped", "call-parallel-same-tool", "gateway-results", _swapped),
    _chat("results cut", "results-escapes", "gateway-results", _messages(_trimmed)),
    _chat("arguments rounded on the way back", "arguments-large-integers", "gateway-arguments", _messages(_rounded)),
    _messages_api(
        "error flag dropped",
        "result-error",
        "gateway-error-flag",
        _blocks("tool_result", lambda block: block.pop("is_error", None)),
    ),
    _messages_api(
        "signature dropped on the way back",
        "thinking-tool-loop",
        "gateway-opaque-state",
        _blocks("thinking", lambda block: block.update(signature="")),
    ),
    _chat("text cut", "call-single", "gateway-answer-text", None, _choice(_shortened)),
    _chat("calls dropped", "call-parallel-same-tool", "gateway-answer-calls", None, _choice(_one_call)),
    _chat("arguments rounded", "arguments-large-integers", "gateway-answer-arguments", None, _choice(_rounded)),
    _chat("one id for all calls", "call-parallel-same-tool", "gateway-answer-ids", None, _choice(_same_id)),
    _messages_api(
        "reasoning hidden",
        "thinking-tool-loop",
        "gateway-answer-thinking",
        None,
        _blocks("thinking", lambda block: block.update(thinking="")),
    ),
    _chat(
        "refusal hidden",
        "stop-refusal",
        "gateway-answer-refusal",
        None,
        _choice(lambda message: message.update(refusal=None)),
    ),
    _messages_api(
        "stop reason made up", "stop-max-tokens", "gateway-answer-stop-reason", None, _with("end_turn", "stop_reason")
    ),
    _chat("calls stop as texts do", "call-single", "gateway-answer-stop-reason", None, _stopped),
    _messages_api(
        "usage zero",
        "call-single",
        "gateway-answer-usage",
        None,
        _with({"input_tokens": 0, "output_tokens": 0}, "usage"),
    ),
    Fault("server tool added", "anthropic", "call-not-needed", lambda: Adding(SEARCH), "gateway-answer-unsent"),
    Fault("reasoning added", "anthropic", "call-single", lambda: Adding(THOUGHT), "gateway-answer-unsent"),
    _chat("reasoning added to Chat", "call-not-needed", "gateway-answer-unsent", None, _choice(_reasoned)),
    Fault("failure without JSON told as an answer", "openai-chat", "body-html", _Pretending, "gateway-error"),
    Fault(
        "error left out of a stream",
        "openai-chat",
        "stream-error-behind-text",
        lambda: _Quieting(_CHAT_END),
        "gateway-error",
        "stream",
    ),
    Fault("retry-after dropped", "openai-chat", "gateway-retry-after", _Unwaiting, "gateway-retry-after"),
    Fault("error text kept back", "anthropic", "error-400", _Silent, "gateway-error-text"),
    _chat("strict dropped", "gateway-strict-tool", "gateway-tool-strict", _functions(_unstrict)),
    Fault("errors made its own", "openai-chat", "gateway-retry-after", _Failing, "gateway-error"),
    Fault("status lost in a stream", "openai-chat", "error-400", _Streaming, "gateway-error", "stream"),
    Fault("cut stream ended", "openai-chat", "connection-cut", _Smoothing, "gateway-answer", "stream"),
    Fault("answered by itself", "openai-chat", "history-two-turns", _Remembering, "gateway-unasked"),
    Fault("breaks", "openai-chat", "call-single", _Breaking, "gateway-answer"),
)
