"""What released libraries do that is neither wrong nor like the shipped adapters."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NoReturn, TypeVar, cast
from uuid import uuid4

import httpx2

from harness.model.errors import (
    ChatError,
    ConnectionFailed,
    MalformedResponse,
    ProviderError,
    provider_error,
)
from harness.model.messages import (
    JSON_INSTRUCTION,
    ArgumentsDelta,
    ChatRequest,
    ChatResponse,
    Finish,
    Message,
    Opaque,
    Part,
    Refusal,
    Role,
    StopReason,
    StreamEvent,
    Text,
    TextDelta,
    ToolCall,
    ToolCallStart,
    Usage,
)
from harness.model.protocols import Adapter, Capability, ChatClient, Endpoint
from harness.results import Verdict
from tests.broken.fault import (
    ALL,
    GEMINI,
    OPENAI,
    Wrap,
    Wrapped,
    answers,
    client,
    edited_message,
    edited_parts,
    rescues,
    sends,
)
from tests.broken.requests import texts
from tests.unusual.form import Form

T = TypeVar("T")

TOOL = "formatted_output"


def _gathering(*, drops: bool) -> Wrap:
    """The transport always streams; `chat` hands on what it gathered, or loses the text of it."""

    class Gathering(Wrapped):
        def chat(self, request: ChatRequest) -> ChatResponse:
            response = next(each.response for each in self.client.stream(request) if isinstance(each, Finish))
            if not drops:
                return response
            parts = tuple(part for part in response.message.parts if not isinstance(part, Text))
            return replace(response, message=replace(response.message, parts=parts))

    return client(Gathering)


def _schema_by_tool(edit: Callable[[dict[str, Any]], dict[str, Any]]) -> Wrap:
    """The schema of the answer is that of a tool which must be called; the caller's tools stay in reach."""

    def sent(_api: str, body: dict[str, Any]) -> None:
        schema = body.pop("output_config")["format"]["schema"]
        tools = body.setdefault("tools", [])
        body["tool_choice"] = {"type": "any"} if tools else {"type": "tool", "name": TOOL}
        tools.append({"name": TOOL, "description": "The answer.", "input_schema": edit(schema)})
        said = {"type": "text", "text": f"Always answer with the tool {TOOL}."}
        body["system"] = [*body.get("system", []), said]

    return sends(sent)


def _half(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without what it requires."""
    return {key: value for key, value in schema.items() if key != "required"}


def _openapi(edit: Callable[[dict[str, Any]], dict[str, Any]]) -> Wrap:
    """The schema of the answer in proto's JSON, its keys in snake_case."""

    def snake(schema: dict[str, Any]) -> dict[str, Any]:
        changed = {"any_of" if key == "anyOf" else key: value for key, value in schema.items()}
        changed.pop("additionalProperties", None)
        if "properties" in changed:
            changed["property_ordering"] = [*changed["properties"]]
            changed["properties"] = {name: snake(each) for name, each in changed["properties"].items()}
        if "items" in changed:
            changed["items"] = snake(changed["items"])
        return changed

    def sent(_api: str, body: dict[str, Any]) -> None:
        config = body["generationConfig"]
        config["responseSchema"] = snake(edit(config.pop("responseJsonSchema")))

    return sends(sent)


def _nulls(*, drops: bool) -> Wrap:
    """An echoed item comes with the fields of its class that were not there, or without one that was."""

    def sent(_api: str, body: dict[str, Any]) -> None:
        for item in body["input"]:
            if item.get("type") == "web_search_call":
                item["action"] = {"type": "search"} if drops else {**item["action"], "queries": None, "sources": None}

    return sends(sent)


def _from_events(_: MalformedResponse, events: list[StreamEvent]) -> ChatResponse:
    """The answer that the events add up to."""
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    calls = [event for event in events if isinstance(event, ToolCallStart)]
    arguments = "".join(event.text for event in events if isinstance(event, ArgumentsDelta))
    parts = (Text(text), *(ToolCall(call.id, call.name, json.loads(arguments)) for call in calls))
    return ChatResponse(Message(Role.ASSISTANT, parts), StopReason.TOOL_USE, Usage())


def _without_the_end(*, forgets: bool) -> Wrap:
    """A stream that has said why the model stopped is taken for whole; what was asked is in the history, or is not."""

    class Asking(Wrapped):
        def ask(self, request: ChatRequest) -> ChatRequest:
            if not forgets or len(request.messages) == 1:
                return request
            return replace(request, messages=(Message.user("Go on."), *request.messages[1:]))

    def wrap(adapter: Adapter) -> Adapter:
        return client(Asking)(rescues(MalformedResponse, _from_events)(adapter))

    return wrap


def _reminded(*, twice: bool) -> Wrap:
    """The instruction of JSON mode is a message of its own, in requests for JSON alone; the question is another there,
    or it is the same."""

    class Reminding(Wrapped):
        def ask(self, request: ChatRequest) -> ChatRequest:
            if request.response_format is None:
                return request
            first, *more = request.messages
            changed = Message.user(f"{first.text} Please.") if twice else first
            return replace(request, messages=(Message.user(JSON_INSTRUCTION), changed, *more))

    return client(Reminding)


def _in_front_of_results(text: str) -> Wrap:
    """A user message in front of each run of results, as a client has that sends its prompt with every request."""

    def sent(_api: str, body: dict[str, Any]) -> None:
        entries = body["input"]
        kinds = [None, *(entry.get("type") for entry in entries)]
        for place in reversed(range(len(entries))):
            if kinds[place + 1] == "function_call_output" != kinds[place]:
                entries.insert(place, {"role": "user", "content": text})

    return sends(sent)


def _by_array(*, looks_inside: bool = True, mends: bool = False) -> Wrap:
    """A stream of Gemini's is asked for as a JSON array; an error is looked for inside of it, or as an object. What
    ends too early, or in an error, is returned with that error, or as a complete answer."""

    def wrap(adapter: Adapter) -> Adapter:
        def connect(endpoint: Endpoint, model: str) -> ChatClient:
            inner = endpoint.http_client
            assert isinstance(inner, httpx2.Client)
            transport = _Arrays(inner, looks_inside=looks_inside, mends=mends)
            outer = httpx2.Client(transport=transport, trust_env=False)
            return cast("ChatClient", adapter.connect(replace(endpoint, http_client=outer), model))

        return replace(adapter, connect=connect)

    return wrap


class _Arrays(httpx2.BaseTransport):
    """Asks for an array and tells it to the SDK, which knows only events."""

    def __init__(self, inner: httpx2.Client, *, looks_inside: bool, mends: bool) -> None:
        self._inner = inner
        self._looks_inside = looks_inside
        self._mends = mends

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url.copy_remove_param("alt")
        headers = {name: value for name, value in request.headers.items() if name != "content-length"}
        answer = self._inner.request(request.method, url, headers=headers, content=request.read())
        chunks = [*_elements(answer.text)]
        if answer.status_code >= 400:
            if self._looks_inside:
                return httpx2.Response(answer.status_code, json=chunks[0])
            return httpx2.Response(500, json={"error": {}})
        if self._mends:
            chunks = [chunk for chunk in chunks if "error" not in chunk]
            chunks[-1]["candidates"][0]["finishReason"] = "STOP"
        events = "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks)
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=events.encode())


def _elements(array: str) -> Iterator[dict[str, Any]]:
    """The elements of an array as they can be read from its beginning, though its end may be missing."""
    decoder, rest = json.JSONDecoder(), array.removeprefix("[")
    assert rest != array
    while rest.strip(" \r\n,]"):
        element, end = decoder.raw_decode(rest := rest.lstrip(" \r\n,"))
        yield element
        rest = rest[end:]


def _own_parts(*, drops: bool) -> Wrap:
    """Parts without a type are kept as parts of the library's own, each with an id that is another one every time; of
    one that was streamed a value is lost, or all are there."""

    class Keeping(Wrapped):
        def ask(self, request: ChatRequest) -> ChatRequest:
            return edited_parts(request, _given_back)

        def chat(self, request: ChatRequest) -> ChatResponse:
            return _kept(super().chat(request))

        def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
            for event in super().stream(request):
                yield Finish(_kept(event.response, drops=drops)) if isinstance(event, Finish) else event

    return client(Keeping)


def _kept(response: ChatResponse, *, drops: bool = False) -> ChatResponse:
    def keep(part: Part) -> Part:
        if not isinstance(part, Opaque) or not isinstance(part.raw, dict):
            return part
        raw = dict(list(part.raw.items())[:-1]) if drops else part.raw
        return replace(part, raw={"key": uuid4().hex, "fields": json.dumps(raw), "given": json.dumps(part.raw)[::-1]})

    return replace(response, message=edited_message(response.message, keep))


def _given_back(part: Part) -> Part:
    if not isinstance(part, Opaque) or not isinstance(part.raw, dict):
        return part
    return replace(part, raw=json.loads(str(part.raw["given"])[::-1]))


def _as_it_is(adapter: Adapter) -> Adapter:
    return adapter


def _streaming(*, drops: bool) -> Wrap:
    """The same client in `stream`, which loses the text of the answer at its end, or does not."""

    class Streaming(Wrapped):
        def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
            for event in self.client.stream(request):
                if isinstance(event, Finish) and drops:
                    parts = tuple(part for part in event.response.message.parts if not isinstance(part, Text))
                    yield Finish(replace(event.response, message=replace(event.response.message, parts=parts)))
                else:
                    yield event

        def chat(self, request: ChatRequest) -> ChatResponse:
            return next(each.response for each in self.client.stream(request) if isinstance(each, Finish))

    return client(Streaming)


def _with_streamed_refusal(*, cuts: bool) -> Wrap:
    """The same client, which streams the text of a refusal like that of an answer, or only a part of it."""

    class Refusing(Wrapped):
        def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
            for event in self.client.stream(request):
                for part in event.response.message.parts if isinstance(event, Finish) else ():
                    if isinstance(part, Refusal):
                        yield TextDelta(part.text[:9] if cuts else part.text)
                yield event

    return client(Refusing)


def _persisting(*, elsewhere: bool) -> Wrap:
    """What failed is asked twice more, a stream once it is there as a whole; or something else is asked then."""

    class Persisting(Wrapped):
        def chat(self, request: ChatRequest) -> ChatResponse:
            return self._answered(request, self.client.chat)

        def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
            yield from self._answered(request, lambda asked: [*self.client.stream(asked)])

        def _answered(self, request: ChatRequest, ask: Callable[[ChatRequest], T]) -> T:
            for _ in range(2):
                try:
                    return ask(request)
                except ChatError:
                    request = replace(request, max_tokens=16) if elsewhere else request
            return ask(request)

    return client(Persisting)


def _lost(error: ChatError, _: list[StreamEvent]) -> NoReturn:
    """What breaks off is a connection that was lost."""
    raise ConnectionFailed(str(error)) from error


def _waiting(rounded: Callable[[float], float]) -> Wrap:
    """A fraction of a second is rounded to whole seconds."""

    def changed(error: ProviderError, _: list[StreamEvent]) -> NoReturn:
        wait = error.retry_after
        raise provider_error(
            error.status, error.message, code=error.code, retry_after=None if wait is None else rounded(wait)
        ) from error

    return rescues(ProviderError, changed)


def _refusal_as_text(**changes: Any) -> Wrap:
    """The words of a refusal as text, as of libraries that have no part for them."""

    def changed(response: ChatResponse) -> ChatResponse:
        parts = (Text(part.text) if isinstance(part, Refusal) else part for part in response.message.parts)
        return replace(response, message=replace(response.message, parts=tuple(parts)), **changes)

    return answers(changed)


def _named_where_it_is_whole(name: str | None) -> Wrap:
    """Whole answers are of this model, or of the one that was asked."""

    class Naming(Wrapped):
        def chat(self, request: ChatRequest) -> ChatResponse:
            return replace(self.client.chat(request), model=name or request.model)

    return client(Naming)


FORMS = (
    Form(
        "model-asked-where-it-is-whole",
        "model-served",
        ALL,
        _named_where_it_is_whole(None),
        _named_where_it_is_whole("some-model"),
        "stream-equals-whole",
        verdict=Verdict.NOTE,
        notes={"stream-equals-whole"},
        variant="stream",
    ),
    Form(
        "transport-always-streams",
        "stream-text-then-calls",
        ALL,
        _gathering(drops=False),
        _gathering(drops=True),
        "response-text",
        verdict=Verdict.NOTE,
        notes={"stream-requested"},
    ),
    Form(
        "transport-always-streams-streamed",
        "stream-text-then-calls",
        ALL,
        _streaming(drops=False),
        _streaming(drops=True),
        "response-text",
        variant="stream",
    ),
    Form(
        "refusal-streamed-as-text",
        "stop-refusal",
        ("openai-chat", "openai-responses"),
        _with_streamed_refusal(cuts=False),
        _with_streamed_refusal(cuts=True),
        "stream-text",
        variant="stream",
    ),
    Form(
        "schema-by-a-tool-among-others",
        "json-with-tools",
        ("anthropic-opus-5",),
        _schema_by_tool(lambda schema: schema),
        _schema_by_tool(_half),
        "json-mode-ignored",
        replayed={"recorded-request"},
    ),
    Form(
        "schema-in-snake-case",
        "json-schema-optional",
        GEMINI,
        _openapi(lambda schema: schema),
        _openapi(_half),
        "json-schema-changed",
    ),
    Form(
        "nulls-beside-an-echoed-item",
        "history-opaque-parts",
        ("openai-responses",),
        _nulls(drops=False),
        _nulls(drops=True),
        "opaque-state-lost",
        verdict=Verdict.NOTE,
        notes={"opaque-state-lost"},
    ),
    Form(
        "empty-text-in-front-of-results",
        "call-single",
        ("openai-responses",),
        _in_front_of_results(""),
        _in_front_of_results("Go on."),
        "result-misplaced",
    ),
    Form(
        "stream-without-its-mark-of-the-end",
        "stream-ends-behind-call",
        ("anthropic",),
        _without_the_end(forgets=False),
        _without_the_end(forgets=True),
        "text-changed",
        verdict=Verdict.WARN,
        notes={"stream-cut", "stream-life-cycle", "request-unexpected"},
        variant="stream",
    ),
    Form(
        "cut-called-lost",
        "connection-cut-clean",
        ALL,
        rescues(MalformedResponse, _lost),
        rescues(MalformedResponse, _from_events),
        "stream-cut",
        variant="stream",
    ),
    Form(
        "parts-of-its-own",
        "history-opaque-parts",
        ("anthropic", "openai-responses", *GEMINI),
        _own_parts(drops=False),
        _own_parts(drops=True),
        "stream-equals-whole",
        verdict=Verdict.NOTE,
        notes={"stream-equals-whole"},
        variant="stream",
    ),
    Form(
        "reminder-of-json",
        "json-mode-for-one-turn",
        ("openai-chat", "openai-responses"),
        _reminded(twice=False),
        _reminded(twice=True),
        "history-append-only",
    ),
    Form(
        "nullable-answer",
        "unusual-nullable",
        ("openai-chat", "gemini-3"),
        _as_it_is,
        answers(texts(lambda text: text.replace("null", "5"))),
        "json-answer",
    ),
    Form(
        "errors-of-an-array",
        "error-403",
        GEMINI,
        _by_array(),
        _by_array(looks_inside=False),
        "chat-failure",
        variant="stream",
    ),
    Form(
        "array-that-fails",
        "stream-error-behind-text",
        GEMINI,
        _by_array(),
        _by_array(mends=True),
        "chat-failure",
        variant="stream",
    ),
    Form(
        "retries-of-a-cut-answer",
        "connection-cut",
        ALL,
        _persisting(elsewhere=False),
        _persisting(elsewhere=True),
        "one-request-per-chat",
        has=Capability.RETRIES,
    ),
    Form(
        "wait-in-whole-seconds",
        "error-503-retry-after",
        ("anthropic", *OPENAI),
        _waiting(math.ceil),
        _waiting(math.floor),
        "error-retry-after",
    ),
    Form(
        "refusal-as-text",
        "stop-refusal",
        OPENAI,
        _refusal_as_text(),
        _refusal_as_text(stop_reason=StopReason.END_TURN),
        "response-text",
        verdict=Verdict.NOTE,
        notes={"response-text"},
    ),
)
