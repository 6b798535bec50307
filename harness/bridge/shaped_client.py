"""Adapters for clients without a wrapper, whose methods and parameters have a known form."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from itertools import chain
from typing import Any, cast

from harness.adapters.openai_chat.servers import with_accepted_ids
from harness.bridge.call_log import BoundMethod, call
from harness.bridge.client_answers import (
    READS_CALLS,
    events_of,
    has_calls_field,
    keep_own_message,
    read_answer,
    read_stream,
)
from harness.bridge.client_formats import (
    ANTHROPIC,
    ERROR_FLAG,
    FORMS,
    FUNCTION_LISTS,
    GEMINI,
    OPENAI,
    SETTINGS,
    SYNONYMS,
    TOOL_MESSAGES,
    Declaration,
    UnknownKeyError,
    as_annotated,
    choice_as_text,
    first,
    item_class,
    members_of,
    own_classes,
    with_answered_calls,
    with_joined_results,
    with_joined_texts,
    with_own_fields,
    with_own_roles,
    without_answered_calls,
)
from harness.bridge.client_methods import (
    Method,
    prefix_of,
    provider_argument,
    tool_binder,
)
from harness.bridge.client_shapes import (
    OPENAI_APIS,
    TEXT_CALLBACKS,
    ClientShape,
    recognise,
)
from harness.bridge.completions import NO_SETTINGS
from harness.bridge.error_translation import failures
from harness.bridge.openai_messages import Memory
from harness.model.errors import (
    RECOGNISED_CLIENT,
    ChatError,
    HarnessError,
    MalformedResponse,
    Unsupported,
    provider_error,
)
from harness.model.messages import (
    ChatRequest,
    ChatResponse,
    Finish,
    Image,
    Message,
    Role,
    StreamEvent,
    Text,
    TextDelta,
)
from harness.model.protocols import Adapter, Endpoint

Redirected = Callable[[str], AbstractContextManager[None]]
"""Function that returns a context in which the client's requests go to the given base URL."""


def adapter_for(  # noqa: PLR0913 - how a client is reached and called
    value: object,
    name: str,
    api: str,
    base_url: Callable[[str], str],
    *,
    method: str = "",
    form: str | None = None,
    redirected: Redirected = lambda _: nullcontext(),
) -> Adapter:
    """Return an adapter for a client of a known shape.

    `base_url` converts the base URL of the API to the one that the client expects. `form` names the client's message
    format. It is ignored if the client has the methods of a provider's SDK. Requests are sent inside the context that
    `redirected` returns for the API's base URL.

    Raises:
        PluginError: See `recognise`.
    """
    shape = recognise(value, name, method, api)
    if form is not None and not shape.is_sdk and form in FORMS:
        shape = shape.with_format(FORMS[form])
    shape = shape.for_api(api)

    def connect(endpoint: Endpoint, model: str) -> ShapedClient:
        own = replace(endpoint, base_url=base_url(endpoint.base_url))
        return ShapedClient(shape, own, model, api, partial(redirected, endpoint.base_url))

    return Adapter(name, api, shape.capabilities, connect)


class ShapedClient:
    """Chat client that calls a client of a known shape. Asynchronous clients run in one event loop."""

    def __init__(
        self,
        shape: ClientShape,
        endpoint: Endpoint,
        model: str,
        api: str = "",
        redirected: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._shape, self._model, self._memory, self._api = shape, model, Memory(), api or OPENAI.name
        self._redirected, self._server = redirected, endpoint.server
        self._runner = asyncio.Runner()
        self._opened = contextlib.ExitStack()
        values = {"base_url": endpoint.base_url, "api_key": endpoint.api_key, "model": model}
        self._reopen = partial(self._open, *values.values())
        self._client = self._reopen()
        self._sent = 0
        values["model"] = prefix_of(shape.whole) + model
        self._given = {shape.given[key]: value for key, value in values.items() if key in shape.given and value}
        self._given |= provider_argument(shape.whole, api)

    def chat(self, request: ChatRequest) -> ChatResponse:
        """Send a request and return its response."""
        with _failures(self._shape.whole.module), self._redirected():
            answer = self._call(self._shape.whole, self._pass_state(request))
            if isinstance(answer, AsyncIterator):
                answer = iter([*self._synchronous(cast("AsyncIterator[object]", answer))])
            if self._shape.whole.prompt_list is not None and isinstance(answer, list):
                answer = next(iter(cast("list[object]", answer)), None)
            return self._mark_unpassed(self._read(answer, request))

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        """Send a request to the method that streams, or with `stream=True`, and yield the events."""
        method = cast("Method", self._shape.streamed)
        is_asked = method.is_open and method is self._shape.whole and not method.always_streams
        extra: dict[str, object] = {"stream": True} if "stream" in method.names or is_asked else {}
        if "stream_options" in method.names or (is_asked and self._shape.form is OPENAI):
            extra["stream_options"] = {"include_usage": True}
        texts: list[str] = []
        if (callback := first(TEXT_CALLBACKS, method.names)) is not None:
            extra[callback] = texts.append
        with _failures(self._shape.whole.module), self._redirected(), contextlib.ExitStack() as opened:
            answer = self._call(method, self._pass_state(request), **extra)
            if not hasattr(answer, "__iter__") and hasattr(answer, "__enter__"):
                answer = opened.enter_context(cast("AbstractContextManager[object]", answer))
            if not hasattr(answer, "__iter__") and hasattr(answer, "__aenter__"):
                answer = self._run(cast("Any", answer).__aenter__())
            if not hasattr(answer, "__iter__") and hasattr(answer, "__aiter__"):
                answer = self._synchronous(cast("AsyncIterator[object]", answer))
            if not hasattr(answer, "__iter__") or _is_whole(answer) or (texts and isinstance(answer, dict)):
                whole = self._read(cast("object", answer), request)
                yield from events_of(self._mark_unpassed(whole), texts)
                return
            yield from map(TextDelta, texts)
            items = cast("Iterable[object]", [answer] if isinstance(answer, str | Mapping) else answer)
            last = _LastItem(_with_final_answer(items, self._client))
            for event in read_stream(last, request, self._memory, self._api):
                if isinstance(event, Finish):
                    hint = self._shape.messages_hint
                    keep_own_message(last.item, event.response, request, self._memory, self._api, hint)
                yield Finish(self._mark_unpassed(event.response)) if isinstance(event, Finish) else event

    def _read(self, answer: object, request: ChatRequest) -> ChatResponse:
        if isinstance(answer, str) and self._shape.is_sdk:  # its caller reads fields, which a page of HTML lacks
            raise MalformedResponse(f"the client returned a text in place of an answer: {answer[:80]!r}")
        hint, source = self._shape.messages_hint, self._shape.whole.module
        return read_answer(answer, request, self._memory, self._api, hint=hint, source=source)

    def _mark_unpassed(self, answer: ChatResponse) -> ChatResponse:
        """Return a response that reports which settings cannot be passed to the client."""
        missing = self._shape.missing_settings
        return replace(answer, reported={**answer.reported, NO_SETTINGS: missing}) if missing else answer

    def close(self) -> None:
        """Close the client, if it can be closed."""
        with contextlib.suppress(Exception):
            self._opened.close()
            close = next((each for name in ("close", "aclose") if (each := getattr(self._client, name, None))), None)
            if callable(close) and self._shape.whole.path and self._shape.has_base_url:
                self._run(close())
        self._runner.close()

    def _open(self, base_url: str, api_key: str, model: str) -> object:
        client = _in_loop(self._runner, lambda: self._shape.make(base_url, api_key, model))
        if self._shape.whole.path and hasattr(type(client), "__aenter__"):
            return self._run(cast("Any", client).__aenter__())
        if self._shape.whole.path and hasattr(type(client), "__enter__"):
            return self._opened.enter_context(cast("AbstractContextManager[object]", client))
        return client

    def _call(self, method: Method, request: ChatRequest, **extra: object) -> object:
        if self._shape.form is OPENAI and self._api != OPENAI.name and method.module and not method.reads_parts:
            request = with_joined_texts(request, self._memory)  # the client converts each content as a text
        arguments = {**extra, **self._arguments(method, request)}
        client = self._client
        binder = tool_binder(client) if method.path and arguments.get("tools") else None
        if binder is not None:
            bound = {name: arguments.pop(name) for name in ("tools", "tool_choice") if name in arguments}
            client = binder(bound.pop("tools"), **bound)
        if method.packed is not None:
            name, kind = method.packed
            arguments = {name: kind(**arguments)}
        function = BoundMethod(client, method.path) if method.path else client
        try:
            given = {**method.examples, **self._given, **arguments}
            return self._run(call(cast("Callable[..., object]", function), **given))
        except UnknownKeyError as error:
            reason = f"it reads {error.args[0]!r}, which no usual message has"
            raise Unsupported(RECOGNISED_CLIENT, "this message", reason) from error
        except (TypeError, AttributeError, KeyError, ValueError) as error:
            if not any(map(_has_content_parts, request.messages)):
                raise
            if (joined := with_joined_texts(request, self._memory)) != request:
                return self._call(method, joined, **extra)
            reason = f"it raises {type(error).__name__} for them"
            raise Unsupported(RECOGNISED_CLIENT, "a list of content parts", reason) from error

    def _arguments(self, method: Method, request: ChatRequest) -> dict[str, Any]:
        form, arguments = self._shape.form, dict[str, Any]()
        has_flag = self._api not in OPENAI_APIS and self._shape.reads_error_flag
        names = method.names | ({ERROR_FLAG} if has_flag or self._shape.marks_errors else frozenset[str]())
        if "tool_use_id" in method.source and re.search(r"==\s*[\"']tool[\"']", method.source):
            names |= {TOOL_MESSAGES}
        for name, made in form.arguments(request, self._memory, self._model, names).items():
            parameter = method.parameter(name, form)
            if parameter is not None:
                arguments[parameter] = self._argument(method, name, parameter, request, made)
            elif name not in SETTINGS:
                raise Unsupported(RECOGNISED_CLIENT, name, "its method has no such argument")
        tools = method.parameter("tools", form)
        if tools in arguments:
            arguments[tools] = [*map(Declaration, arguments[tools])]
        arguments |= {name: [] for name in method.required & {*SYNONYMS["tools"]} - arguments.keys()}
        arguments |= dict.fromkeys(method.required & {*SYNONYMS["system"]} - arguments.keys(), "")
        given = method.parameter(form.messages, form)
        if form is OPENAI and given in arguments and not self._shape.is_sdk:
            arguments[given] = self._own_messages(arguments[given], request, method)
        if form is OPENAI and given in arguments and self._shape.passes_ids_on:
            arguments[given] = with_accepted_ids(arguments[given], self._server)
        typed = {given, tools}
        instances = {
            name: as_annotated(value, method.hints.get(name)) for name, value in arguments.items() if name in typed
        }
        if form is OPENAI and given in instances:
            _check_instances(instances[given], method.hints.get(given))
            instances[given] = without_answered_calls(instances[given])
        return {**arguments, **instances}

    def _argument(self, method: Method, name: str, parameter: str, request: ChatRequest, made: Any) -> Any:
        """Return an argument of the client's message format in the form that this parameter takes."""
        if name == "tools":
            tools = self._tools(method, parameter, request, made)
            if parameter not in FUNCTION_LISTS and not method.wraps_tools:
                return tools
            lists = (each.get("functionDeclarations", [each.get("function", each)]) for each in tools)
            return [*chain.from_iterable(lists)]
        if parameter == method.prompt_list:
            return [made]
        if name == "thinking" and parameter in method.switches:
            if made.get("type") != "adaptive":
                raise Unsupported(
                    RECOGNISED_CLIENT, "an amount of reasoning", f"{parameter} only switches it on or off"
                )
            return True
        if name in ("tool_choice", "tool_config") and method.takes_choice_as_text(parameter):
            return choice_as_text(request.tool_choice, method.hints.get(parameter), method.module, self._api)
        return made

    def _own_messages(self, messages: list[Any], request: ChatRequest, method: Method) -> list[Any]:
        """Return messages with the client's own roles, and with fields that it can read under its own names. The
        client's own messages are returned unchanged. For a client with classes, a result also has its call.
        """
        source, form = method.module, self._shape.form
        if own_classes(method.hints.get(method.parameter(form.messages, form) or "")):
            return with_own_roles(with_answered_calls(messages, request), source)
        if self._api == ANTHROPIC.name and source and not READS_CALLS.search(source):
            foreign = (each for each in messages if "tool_calls" in each and not self._memory.has_kept(each))
            if next(foreign, None) is not None:
                raise Unsupported(RECOGNISED_CLIENT, "a history with calls", "its messages have no place for them")
        messages = with_joined_results(messages, request, method.class_source)
        return [each if self._memory.has_kept(each) else with_own_fields(each, {}, (), source) for each in messages]

    def _tools(self, method: Method, parameter: str | None, request: ChatRequest, made: Any) -> Any:
        """Return the tools in the format that the client expects. `made` has the format of the messages."""
        form = self._shape.tool_form
        is_bare = parameter in FUNCTION_LISTS or method.wraps_tools
        if is_bare and self._api == GEMINI.name and "parameters" not in method.module:
            form = GEMINI
        return made if form is None else form.arguments(request, self._memory, self._model, method.names)["tools"]

    def _pass_state(self, request: ChatRequest) -> ChatRequest:
        """Return the request without what the client keeps: the earlier messages and the system prompt."""
        if self._shape.keeps_history:
            request = self._last_prompt(request)
        if (name := self._shape.system_attribute) is None:
            return request
        setattr(self._client, name, self._shape.default_system if request.system is None else request.system)
        return replace(request, system=None)

    def _last_prompt(self, request: ChatRequest) -> ChatRequest:
        """Return the request with its last message only. A new conversation gets a new client."""
        if len(request.messages) == 1:
            self._client = self._reopen()
            self._sent = 0
        if len(request.messages) != self._sent + 1:
            raise Unsupported(RECOGNISED_CLIENT, "a history", "it keeps its own")
        self._sent = len(request.messages) + 1
        return replace(request, messages=request.messages[-1:])

    def _run(self, answer: object) -> object:
        return self._runner.run(wait_for(answer)) if inspect.isawaitable(answer) else answer

    def _synchronous(self, items: AsyncIterator[object]) -> Iterator[object]:
        every = aiter(items)
        while True:
            try:
                yield self._runner.run(wait_for(anext(every)))
            except StopAsyncIteration:
                return


class _LastItem(Iterator[object]):
    """An iterator that remembers its last item."""

    def __init__(self, items: Iterator[object]) -> None:
        self._items = items
        self.item: object = None

    def __next__(self) -> object:
        self.item = next(self._items)
        return self.item


def _is_whole(answer: object) -> bool:
    """Return whether an answer is a tuple or a Pydantic model. Both can be iterated, but are no streams."""
    return isinstance(answer, tuple) or hasattr(type(answer), "model_fields")


def _check_instances(messages: Sequence[object], hint: object) -> None:
    """Check that each message is an instance of the client's own classes, if its annotation has only such classes."""
    classes = own_classes(hint)
    if classes and not any(isinstance(each, classes) for each in messages):
        return
    if classes and dict not in members_of(item_class(hint)) and not all(isinstance(each, classes) for each in messages):
        reason = "its classes have no place for a message that it did not write"
        raise Unsupported(RECOGNISED_CLIENT, "a history", reason)


_WORDS_BEFORE = 12
"""Length of the text before a phrase that must also be in the client's source, so that the phrase counts as the
client's own.
"""

_STATUS = re.compile(r"\b([45]\d\d)\b")


def _with_final_answer(items: Iterable[object], client: object) -> Iterator[object]:
    """Yield the items of a stream. If they are only texts, also yield the whole answer: the value that the generator
    returned, or the one that the client has in an attribute since.
    """
    before = {name: id(each) for name, each in getattr(client, "__dict__", {}).items()}
    iterator, is_text = iter(items), True
    while True:
        try:
            item = next(iterator)
        except StopIteration as end:
            answer = end.value
            break
        is_text = is_text and isinstance(item, str)
        yield item
    if answer is None:
        changed = (each for name, each in getattr(client, "__dict__", {}).items() if id(each) != before.get(name))
        answer = next((each for each in changed if has_calls_field(each)), None)
    if is_text and answer is not None:
        yield answer


@contextlib.contextmanager
def _failures(source: str = "") -> Generator[None]:
    """Translate exceptions as `failures` does. Any other exception of the client is translated by the HTTP status in
    its text. Without a status, a `RuntimeError` or an exception of a class that is not built in becomes a `ChatError`.
    """
    try:
        with failures(), _declines(source):
            yield
    except (HarnessError, ChatError):
        raise
    except Exception as error:
        text = str(error)
        if isinstance(error, LookupError | TypeError | AttributeError):
            raise
        found = _STATUS.search(text)
        status = int(found[1]) if found else HTTPStatus.BAD_REQUEST if "invalid_request" in text else None
        if status is not None:
            raise provider_error(status, text) from error
        if isinstance(error, RuntimeError) or type(error).__module__ != "builtins":
            raise ChatError(text) from error
        raise


@contextlib.contextmanager
def _declines(source: str) -> Generator[None]:
    """Raise `Unsupported` if an exception says in words of the client's `source` that something is not supported.

    The same words of a provider, which a client may put into its exception, are an error of the provider.
    """
    try:
        yield
    except Exception as error:
        before, word, _ = (text := str(error)).partition("support")
        if word and before[-_WORDS_BEFORE:] + word in source:
            raise Unsupported(RECOGNISED_CLIENT, "this request", text) from error
        raise


def _in_loop(runner: asyncio.Runner, make: Callable[[], object]) -> object:
    """Make a client, inside an event loop if it needs one."""

    async def made() -> object:
        return make()

    try:
        return make()
    except RuntimeError as error:
        if "event loop" not in str(error):
            raise
        return runner.run(made())


async def wait_for(answer: Any) -> object:
    """Return the result of an awaitable that need not be a coroutine."""
    return await answer


def _has_content_parts(message: Message) -> bool:
    """Return whether the content of a user message is a list: it has images or several texts."""
    texts = [part for part in message.parts if isinstance(part, Text)]
    return any(isinstance(part, Image) for part in message.parts) or (message.role is Role.USER and len(texts) > 1)
