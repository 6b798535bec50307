"""Adapters for clients without a wrapper, whose methods and parameters have a known form."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Any, cast

from harness.bridge.call_log import BoundMethod
from harness.bridge.clients.answer_fields import computed_fields, has_calls_field, returned_error
from harness.bridge.clients.answers import events_of, keep_own_message, read_answer, read_stream
from harness.bridge.clients.caller_messages import returned_messages
from harness.bridge.clients.client_state import set_attribute
from harness.bridge.clients.forms import FORMS, OPENAI, PROMPT
from harness.bridge.clients.invocation import attribute_of, call_with, result_of_call, wait_for
from harness.bridge.clients.message_dictionaries import with_joined_texts
from harness.bridge.clients.methods import Method
from harness.bridge.clients.names import SYNONYMS, first_known
from harness.bridge.clients.objects import open_object
from harness.bridge.clients.option_methods import with_options
from harness.bridge.clients.own_keys import UnknownKeyError
from harness.bridge.clients.provider_arguments import prefix_of, provider_argument
from harness.bridge.clients.request_arguments import CallersMessages, RequestArguments
from harness.bridge.clients.shape_recognition import recognise_shape
from harness.bridge.clients.shapes import TEXT_CALLBACKS, ClientShape
from harness.bridge.clients.stream_objects import final_answer, is_complete, keeps_answer, pieces_method
from harness.bridge.clients.values import items_of, plain_fields
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
from harness.model.messages import ChatRequest, ChatResponse, Finish, Image, Message, Role, StreamEvent, Text, TextDelta
from harness.model.protocols import Adapter, Endpoint
from harness.platform.exceptions import is_raised_on_purpose

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
    shape = recognise_shape(value, name, method, api)
    if form is not None and not shape.is_sdk and form in FORMS:
        shape = shape.with_format(FORMS[form])
    shape = shape.for_api(api)

    def connect(endpoint: Endpoint, model: str) -> ShapedClient:
        own = replace(endpoint, base_url=base_url(endpoint.base_url))
        return ShapedClient(shape, own, model, api, partial(redirected, endpoint.base_url))

    return Adapter(name, api, shape.capabilities_for(api), connect)


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
        self._redirected = redirected
        self._arguments = RequestArguments(shape, self._memory, model, self._api, endpoint.server)
        self._callers_messages = CallersMessages()
        self._runner = asyncio.Runner()
        self._opened = contextlib.ExitStack()
        self._context: object = None
        values = {"base_url": endpoint.base_url, "api_key": endpoint.api_key, "model": model}
        self._reopen = partial(self._open, *values.values())
        self._client = self._reopen()
        self._sent = 0
        self._keeps_returned = False
        self._returned = list[object]()
        self._examples: dict[str, object] | None = None
        self._filled: object = None
        self._final: Callable[[], object] | None = None
        values["model"] = prefix_of(shape.whole) + model
        self._given = {shape.given[key]: value for key, value in values.items() if key in shape.given and value}
        self._given |= provider_argument(shape.whole, shape.provider_api)

    def reuse_for_prompts(self) -> None:
        """Send each prompt of a conversation to the same client, even if nothing shows that it keeps its history. If it
        takes the history and returns messages, it gets these with the next prompt.
        """
        self._keeps_returned = self._shape.form is PROMPT
        is_prompt = self._shape.form is PROMPT and first_known(SYNONYMS["messages"], self._shape.whole.names) is None
        self._shape = replace(self._shape, keeps_history=is_prompt or self._shape.keeps_history)

    def chat(self, request: ChatRequest) -> ChatResponse:
        """Send a request and return its response."""
        whole = self._shape.whole
        with (
            client_failures(whole.module),
            _refused_options(whole),
            self._redirected(),
            contextlib.ExitStack() as opened,
        ):
            answer = self._call(whole, self._pass_state(request))
            if whole.always_streams or any(hasattr(answer, each) for each in ("__anext__", "__enter__", "__aenter__")):
                answer = self._open_stream(answer, opened, is_stream=whole.always_streams)
            if whole.prompt_list is not None and isinstance(answer, list):
                answer = next(iter(cast("list[object]", answer)), None)
            return self._mark_unpassed(self._read(self._with_filled(answer), request))

    def _open_stream(self, answer: Any, opened: contextlib.ExitStack, *, is_stream: bool) -> object:
        """Return an answer that may be a stream. If it is a context manager, it is entered. An object with a method for
        its pieces is returned as these pieces. Its fields are the whole answer at their end.
        """
        if not hasattr(answer, "__iter__") and not keeps_answer(answer):
            if hasattr(answer, "__enter__"):
                answer, is_stream = opened.enter_context(answer), True
            elif hasattr(answer, "__aenter__"):
                answer, is_stream = opened.enter_context(self._entered(answer)), True
        if is_stream and keeps_answer(answer):
            self._filled = answer
        elif is_stream and (final := final_answer(answer)) is not None:
            self._final = lambda: self._run(final())
        is_iterable = hasattr(answer, "__iter__") or hasattr(answer, "__aiter__")
        pieces = pieces_method(answer) if is_stream and not is_iterable else None
        answer = answer if pieces is None else pieces()
        is_async = not hasattr(answer, "__iter__") and hasattr(answer, "__aiter__")
        return self._synchronous(answer) if is_async else answer

    @contextlib.contextmanager
    def _entered(self, stream: AbstractAsyncContextManager[object]) -> Generator[object]:
        """Enter and leave an asynchronous context manager in the client's event loop."""
        answer = self._run(stream.__aenter__())
        try:
            yield answer
        except BaseException as error:
            if not self._run(stream.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            self._run(stream.__aexit__(None, None, None))

    def _with_filled(self, answer: object) -> object:
        """Return the object that the method filled, if the answer itself is at most a text. A generator of texts also
        yields the whole answer at its end.
        """
        if self._is_stream(answer):
            return _with_final_answer(cast("Iterable[object]", answer), self._client, self._filled, self._final)
        is_filled = self._filled is not None and (answer is None or isinstance(answer, str))
        return self._filled if is_filled else cast("object", answer)

    def _is_stream(self, answer: object) -> bool:
        """Return whether an answer is a generator, or can be iterated while the whole answer is in an object."""
        is_kept = self._final is not None or (self._filled is not None and answer is self._filled)
        if inspect.isgenerator(answer) or (self._filled is not None and isinstance(answer, Iterator)):
            return True
        return is_kept and hasattr(answer, "__iter__") and not isinstance(answer, str | Mapping)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        """Send a request to the method that streams, or with `stream=True`, and yield the events."""
        method = cast("Method", self._shape.streamed)
        is_asked = method.is_open and method is self._shape.whole and not method.always_streams
        extra: dict[str, object] = {"stream": True} if "stream" in method.names or is_asked else {}
        if "stream_options" in method.names or (is_asked and self._shape.form is OPENAI):
            extra["stream_options"] = {"include_usage": True}
        texts: list[str] = []
        if (callback := first_known(TEXT_CALLBACKS, method.names)) is not None:
            is_awaited = re.search(rf"\bawait\s+(?:self\.)?_?{callback}\(", method.module)
            extra[callback] = AwaitedTexts(texts).append if is_awaited else texts.append
        failures_of_client = client_failures(self._shape.whole.module)
        with failures_of_client, _refused_options(method), self._redirected(), contextlib.ExitStack() as opened:
            answer = self._call(method, self._pass_state(request), **extra)
            answer = self._open_stream(answer, opened, is_stream=True)
            is_whole = not hasattr(answer, "__iter__") or is_complete(answer)
            if is_whole or (callback is not None and isinstance(answer, dict)):
                whole = self._read(self._with_filled(cast("object", answer)), request)
                yield from events_of(self._mark_unpassed(whole), texts)
                return
            yield from map(TextDelta, texts)
            items = cast("Iterable[object]", [answer] if isinstance(answer, str | Mapping) else answer)
            last = _LastItem(_with_final_answer(items, self._client, self._filled, self._final))
            hint, source = self._shape.messages_hint, self._shape.whole.module
            for event in read_stream(last, request, self._memory, self._api, source):
                if isinstance(event, Finish):
                    keep_own_message(last.item, event.response, request, self._memory, self._api, hint, source)
                yield Finish(self._mark_unpassed(event.response)) if isinstance(event, Finish) else event

    def _read(self, answer: object, request: ChatRequest) -> ChatResponse:
        reads_fields = self._shape.is_sdk or self._shape.whole.returns_only_objects
        if isinstance(answer, str) and reads_fields:  # a page of HTML has no fields
            raise MalformedResponse(f"the client returned a text in place of an answer: {answer[:80]!r}")
        if (error := returned_error(answer)) is not None:
            raise error
        hint, source = self._shape.messages_hint, self._shape.whole.module
        return read_answer(answer, request, self._memory, self._api, hint=hint, source=source)

    def _mark_unpassed(self, answer: ChatResponse) -> ChatResponse:
        """Return a response that reports which settings cannot be passed to the client."""
        missing = self._shape.missing_settings
        return replace(answer, reported={**answer.reported, NO_SETTINGS: missing}) if missing else answer

    def close(self) -> None:
        """Close the client, if it can be closed and was created here."""
        with contextlib.suppress(Exception):
            self._opened.close()
            close = next((each for name in ("close", "aclose") if (each := getattr(self._client, name, None))), None)
            if callable(close) and self._shape.whole.path and self._shape.has_base_url and not self._shape.is_object:
                self._run(close())
        self._runner.close()

    def _open(self, base_url: str, api_key: str, model: str) -> object:
        client = _make_in_loop(self._runner, lambda: self._shape.make(base_url, api_key, model))
        client = self._run(client) if inspect.iscoroutine(client) else client
        if self._shape.is_object:
            return open_object(self._runner, client)
        if hasattr(type(client), "__aenter__"):
            self._context = client  # a generator would end without it
            return self._run(cast("Any", client).__aenter__())
        if hasattr(type(client), "__enter__"):
            return self._opened.enter_context(cast("AbstractContextManager[object]", client))
        return client

    def _call(self, method: Method, request: ChatRequest, **extra: object) -> object:
        self._filled = self._final = None
        if self._shape.form is OPENAI and self._api != OPENAI.name and method.module and not method.reads_parts:
            request = with_joined_texts(request, self._memory)  # the client converts each content as a text
        arguments = {**extra, **self._arguments.build(method, request)}
        name = method.parameter(self._shape.form.messages, self._shape.form)
        if isinstance(given := arguments.get(str(name)), list) and not self._shape.is_sdk:
            arguments[str(name)] = self._callers_messages.for_request(cast("list[Any]", given), request)
        client = self._client
        if self._shape.default_settings:
            for name, value in self._arguments.attributes(method, request).items():
                setattr(client, name, value)
        if method.path and not self._shape.is_sdk:
            client = with_options(client, method.path, arguments)
        function = BoundMethod(client, method.path) if method.path else client
        arguments |= self._object_to_fill(method) | self._returned_history(method)
        before = len(items_of(arguments.get(str(name))) or ())
        try:
            is_continued = self._shape.keeps_history and self._examples is not None
            self._examples = self._examples if is_continued else method.examples
            given = method.packed_arguments({**(self._examples or {}), **self._given, **arguments})
            described = attribute_of(client, method.path) if method.path else client
            made = call_with(cast("Callable[..., object]", function), given, cast("Callable[..., object]", described))
            answer = self._run(made)
            self._returned = returned_messages(answer) if self._keeps_returned else []
            return _added_to_conversation(answer, method, str(name), before)
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

    def _object_to_fill(self, method: Method) -> dict[str, object]:
        """Return the argument for a new object that the method fills with its answer, if it has such a parameter."""
        if method.filled is None:
            return {}
        name, kind = method.filled
        self._filled = kind()
        return {name: self._filled}

    def _returned_history(self, method: Method) -> dict[str, object]:
        """Return the argument for the messages that the previous call returned, if the method takes them."""
        name = first_known(SYNONYMS["messages"], method.names) if self._returned else None
        return {} if name is None else {name: self._returned}

    def _pass_state(self, request: ChatRequest) -> ChatRequest:
        """Return the request without what the client keeps: the earlier messages and the system prompt."""
        if self._shape.keeps_history:
            request = self._last_prompt(request)
        if (name := self._shape.system_attribute) is None:
            return request
        set_attribute(self._client, name, self._shape.default_system if request.system is None else request.system)
        return replace(request, system=None)

    def _last_prompt(self, request: ChatRequest) -> ChatRequest:
        """Return the request with its last message only. A new conversation gets a new client."""
        if len(request.messages) == 1:
            self._client = self._reopen()
            self._sent, self._examples = 0, None
        if len(request.messages) != self._sent + 1:
            raise Unsupported(RECOGNISED_CLIENT, "a history", "it keeps its own")
        self._sent = len(request.messages) + 1
        return replace(request, messages=request.messages[-1:])

    def _run(self, answer: object) -> object:
        return result_of_call(self._runner, answer)

    def _synchronous(self, items: AsyncIterator[object]) -> Iterator[object]:
        every = aiter(items)
        while True:
            try:
                yield self._runner.run(wait_for(anext(every)))
            except StopAsyncIteration:
                return


@dataclass(frozen=True, slots=True)
class AwaitedTexts:
    """The texts that a client gives to an asynchronous callback."""

    texts: list[str]

    async def append(self, text: str) -> None:
        """Keep a text."""
        self.texts.append(text)


class _LastItem(Iterator[object]):
    """An iterator that remembers its last item."""

    def __init__(self, items: Iterator[object]) -> None:
        self._items = items
        self.item: object = None

    def __next__(self) -> object:
        self.item = next(self._items)
        return self.item


def _with_final_answer(
    items: Iterable[object], client: object, filled: object, final: Callable[[], object] | None
) -> Iterator[object]:
    """Yield the items of a stream. If they are only texts, also yield the whole answer.

    This is the value that the generator returned, the object that it `filled`, the value of the stream's method
    `final`, or the value that the client has in an attribute since.
    """
    before = {name: id(each) for name, each in getattr(client, "__dict__", {}).items()}
    iterator, is_text = iter(items), True
    while True:
        try:
            item = next(iterator)
        except StopIteration as end:
            answer = filled if end.value is None else end.value
            break
        is_text = is_text and isinstance(item, str)
        yield item
    if answer is None and is_text and final is not None:
        answer = final()
    if answer is None:
        changed = (each for name, each in getattr(client, "__dict__", {}).items() if id(each) != before.get(name))
        answer = next((each for each in changed if has_calls_field(each)), None)
    if is_text and answer is not None:
        yield answer


def _added_to_conversation(answer: object, method: Method, name: str, before: int) -> object:
    """Return what a method added to the conversation that it got and returned, with the other fields of it. Return any
    other answer unchanged. `name` is the field for the messages, of which there were `before`.
    """
    items = items_of(getattr(answer, name, None))
    if items is None or method.packed is None or not isinstance(answer, method.packed[1]):
        return answer
    fields, added = {**computed_fields(answer), **plain_fields(answer)}, items[before:]
    others = (name, *SYNONYMS["system"], *SYNONYMS["tools"])
    rest = {key: each for key, each in fields.items() if key not in others}
    is_item = any("type" in plain_fields(each) for each in added)  # of OpenAI Responses
    return {**rest, "output": added} if is_item or len(added) != 1 else {**rest, "message": added[0]}


def _make_in_loop(runner: asyncio.Runner, make: Callable[[], object]) -> object:
    """Make a client, inside an event loop if it needs one."""

    async def made() -> object:
        return make()

    try:
        return make()
    except RuntimeError as error:
        if "event loop" not in str(error):
            raise
        return runner.run(made())


def _has_content_parts(message: Message) -> bool:
    """Return whether the content of a user message is a list: it has images or several texts."""
    texts = [part for part in message.parts if isinstance(part, Text)]
    return any(isinstance(part, Image) for part in message.parts) or (message.role is Role.USER and len(texts) > 1)


_MIN_COMMON_LENGTH = 12
"""Length of the text before a phrase that must also be in the client's source, so that the phrase counts as the
client's own.
"""

_HTTP_STATUS = re.compile(r"\b([45]\d\d)\b")


@contextlib.contextmanager
def client_failures(source: str = "") -> Generator[None]:
    """Translate exceptions as `failures` does. Any other exception of the client is translated by the HTTP status in
    its text. Without a status, a `RuntimeError`, an exception of a class that is not built in and one that the client
    raises itself become a `ChatError`.
    """
    try:
        with failures(), _unsupported_requests(source):
            yield
    except MalformedResponse as error:
        cause = error.__cause__
        if cause is None or not is_raised_on_purpose(cause):
            raise
        raise _error_of_text(str(cause)) from cause
    except (HarnessError, ChatError):
        raise
    except Exception as error:
        if isinstance(error, LookupError | TypeError | AttributeError):
            raise
        found = _error_of_text(str(error))
        is_own = isinstance(error, RuntimeError) or type(error).__module__ != "builtins" or is_raised_on_purpose(error)
        if is_own or type(found) is not ChatError:
            raise found from error
        raise


def _error_of_text(text: str) -> ChatError:
    """Return the error that the text of an exception means: that of its HTTP status, if it has one."""
    found = _HTTP_STATUS.search(text)
    status = int(found[1]) if found else HTTPStatus.BAD_REQUEST if "invalid_request" in text else None
    return ChatError(text) if status is None else provider_error(status, text)


@contextlib.contextmanager
def _refused_options(method: Method) -> Generator[None]:
    """Raise `Unsupported` if an exception names an argument which a method accepts only as one of its `**options`.

    Do the same if the method refuses an optional parameter in its own words. An error that a provider returned is no
    such exception.
    """
    try:
        yield
    except Exception as error:
        if hasattr(error, "status_code") or hasattr(error, "response"):
            raise
        refused = _REFUSED_ARGUMENT.search(str(error))
        if refused is not None and method.is_open and refused[1] not in method.names:
            raise Unsupported(RECOGNISED_CLIENT, f"the option {refused[1]!r}", str(error)) from error
        if (name := _refused_parameter(error, method)) is not None:
            raise Unsupported(RECOGNISED_CLIENT, f"{name} here", str(error)) from error
        raise


def _refused_parameter(error: Exception, method: Method) -> str | None:
    """Return the optional parameter that an exception names in the words of the client's module."""
    if not isinstance(error, ValueError | NotImplementedError):
        return None
    text = str(error)
    for found in re.finditer(r"\w+", text):
        start, end = found.span()
        around = (text[max(start - _MIN_OWN_LENGTH, 0) : end], text[start : end + _MIN_OWN_LENGTH])
        own = any(len(each) == end - start + _MIN_OWN_LENGTH and each in method.module for each in around)
        if own and found[0] in method.names - method.required:
            return found[0]
    return None


_MIN_OWN_LENGTH = 6
"""Number of characters beside a parameter's name that must also be in the client's source."""

_REFUSED_ARGUMENT = re.compile(r"\bargument '(\w+)'", re.IGNORECASE)


@contextlib.contextmanager
def _unsupported_requests(source: str) -> Generator[None]:
    """Raise `Unsupported` if an exception says in words of the client's `source` that something is not supported.

    The same words of a provider, which a client may put into its exception, are an error of the provider.
    """
    try:
        yield
    except Unsupported:
        raise
    except Exception as error:
        before, word, _ = (text := str(error)).partition("support")
        if word and before[-_MIN_COMMON_LENGTH:] + word in source:
            raise Unsupported(RECOGNISED_CLIENT, "this request", text) from error
        raise
