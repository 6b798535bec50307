"""Adapters for clients without a wrapper, recognised by the parameters of their constructor and of their methods."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import re
import typing
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from http import HTTPStatus
from itertools import chain
from typing import Any, cast

from harness import plugins
from harness.bridge.call_log import BoundMethod, call
from harness.bridge.client_answers import READS_CALLS, events_of, has_calls_field, read_answer, read_stream
from harness.bridge.client_formats import (
    ANTHROPIC,
    ERROR_FLAG,
    FORMS,
    FUNCTION_LISTS,
    GEMINI,
    OPENAI,
    PROMPT,
    RESPONSES,
    SETTINGS,
    SYNONYMS,
    TOOL_MESSAGES,
    Declaration,
    Form,
    as_annotated,
    choice_as_text,
    first,
    hints_of,
    is_enum,
    item_class,
    lists_calls,
    marks_errors,
    members_of,
    own_classes,
    with_joined_texts,
    with_own_fields,
    with_own_roles,
)
from harness.bridge.completions import NO_SETTINGS
from harness.bridge.error_translation import failures
from harness.bridge.openai_messages import Memory
from harness.model.errors import (
    RECOGNISED_CLIENT,
    ChatError,
    HarnessError,
    PluginError,
    Unsupported,
    provider_error,
)
from harness.model.messages import (
    JSON,
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
from harness.model.protocols import Adapter, Capability, Endpoint

_BASE_URLS = ("base_url", "api_base", "baseurl", "api_url", "url", "endpoint", "host")
_KEYS = ("api_key", "key", "apikey", "token", "auth_token")
_MODELS = ("model", "model_name", "model_id", "model_spec", "spec")
_PROVIDERS = ("provider", "vendor", "llm_provider", "provider_name", "backend")
METHODS = ("chat", "complete", "completion", "create", "generate", "invoke", "send", "ask", "run", "query")
_STREAMS = ("stream", "stream_chat", "chat_stream", "stream_complete", "generate_stream", "astream", "iter_chat")

_OPENAI_PARAMETERS = ("tools", "tool_choice", "response_format", "max_tokens", "temperature", "top_p", "stop", "stream")
_ANTHROPIC_SETTINGS = frozenset({"max_tokens", "temperature", "top_p"})

_TEXT_CALLBACKS = ("on_text", "on_token", "on_delta", "on_chunk", "on_text_delta", "text_callback", "token_callback")
"""Names of parameters for a function that gets the texts of a stream."""

_SDKS: Mapping[tuple[str, ...], tuple[Form, tuple[str, ...]]] = {
    ("chat", "completions", "create"): (OPENAI, ("chat", "completions", "stream")),
    ("messages", "create"): (ANTHROPIC, ("messages", "stream")),
    ("responses", "create"): (RESPONSES, ("responses", "stream")),
    ("models", "generate_content"): (GEMINI, ("models", "generate_content_stream")),
    ("generate_content",): (GEMINI, ("generate_content_stream",)),
}
"""Methods of the providers' SDKs, with their form and the method that streams."""

TRIED_MODELS = ("model", "gpt-4.1", "claude-opus-4-8", "gemini-2.5-flash")
"""Model names to try when a client is created for inspection. Some clients look the name up in a table and reject
unknown models.
"""

_PROVIDER_NAMES: Mapping[str, tuple[str, ...]] = {
    OPENAI.name: ("openai", "openaichat", "openaicompletions", "chatcompletions", "chatgpt", "gpt"),
    RESPONSES.name: ("openairesponses", "responses", "openai"),
    ANTHROPIC.name: ("anthropic", "claude"),
    GEMINI.name: ("gemini", "google", "googlegenai", "googleai", "genai"),
}
"""API → names of its provider in clients for several providers, in lower case and without punctuation. The best comes
first.
"""

OPENAI_APIS = (OPENAI.name, RESPONSES.name)
"""APIs whose tool results have no error flag. Messages in OpenAI's format have none either."""

_WITHOUT_TOOLS = " (without tools, because no parameter is called 'tools')"

Redirected = Callable[[str], AbstractContextManager[None]]
"""Function that returns a context in which the client's requests go to the given base URL."""


@dataclass(frozen=True, slots=True)
class Method:
    """A client's method, as a path of attribute names from the client, with the names of its parameters.

    The path of a plain function is empty. `is_open` is set if the method accepts any keyword argument. `required` holds
    the parameters without a default, and `preset` the defaults that are non-empty strings. `hints` holds the
    annotations, `source` the source code, `class_source` that of its class and `module` that of its module, if they are
    known.

    If the method takes a single object that holds the messages, `packed` is its parameter and the class of that object.
    The names are then the fields of the class.
    """

    path: tuple[str, ...]
    names: frozenset[str]
    is_open: bool
    required: frozenset[str] = frozenset()
    preset: Mapping[str, str] = field(default_factory=dict[str, str])
    hints: Mapping[str, object] = field(default_factory=dict[str, object])
    source: str = ""
    module: str = ""
    class_source: str = ""
    packed: tuple[str, type] | None = None

    def parameter(self, name: str, form: Form) -> str | None:
        """Return the name of the parameter for an argument of this message format, or `None` if the method has none."""
        known = SYNONYMS["contents" if name == form.messages == "contents" else name] if name in SYNONYMS else (name,)
        found = first(known, self.names) or (self.only_list if name == form.messages else None)
        return found or (known[0] if self.is_open else None)

    def without_open_parameters(self, api: str) -> Method:
        """Return the method without its `**params`, but with the parameters among them that its source mentions or that
        this API has as well.
        """
        if not self.is_open:
            return self
        mentioned = {name for name in _OPENAI_PARAMETERS if re.search(rf"[\"']{name}[\"']", self.source)}
        same = _ANTHROPIC_SETTINGS if api == ANTHROPIC.name else frozenset[str]()
        return replace(self, names=self.names | mentioned | same, is_open=False)

    @property
    def always_streams(self) -> bool:
        """Return whether each call of the method requests a stream."""
        return bool(
            re.search(r"\byield\b|[\"']?\bstream[\"']?\s*[:=]\s*True|stream_generate|streamGenerate", self.source)
        )

    @property
    def mentions_images(self) -> bool:
        """Return whether the client's module mentions images. If not, the client is not expected to send them."""
        return bool(re.search(r"image|inline_?data", self.module, re.IGNORECASE))

    @property
    def reads_parts(self) -> bool:
        """Return whether the source of the client's module handles content that is a list of parts."""
        return self.mentions_images or bool(re.search(r"isinstance\([^)]*content[^)]*(list|str)\b", self.module))

    @property
    def wraps_tools(self) -> bool:
        """Return whether the client wraps each given function in a tool object of the API, according to the source of
        the method. If the method does not read the tools itself, use the source of its class.
        """
        tools = first(SYNONYMS["tools"], self.names)
        if tools is None:
            return False
        given = rf"([\w.]+\.)?{tools}\b"
        is_read = re.search(
            rf"\bin {given}|[\"']?\w*[tT]ools[\"']?\]?\s*[:=]\s*(list\()?{given}(?!\s*[,)])", self.source
        )
        each = rf"[\"']function[\"']:\s*(dict\(|\{{\*\*)?(?P<one>\w+)[)}}\s]*\}}\s*for (?P=one) in {given}"
        wraps = rf"function_?[dD]eclarations[\"']?\s*[:=]\s*(list\()?{given}|{each}"
        return bool(re.search(wraps, self.source if is_read else self.class_source))

    def takes_choice_as_text(self, parameter: str) -> bool:
        """Return whether the parameter for the tool choice takes a word or the name of a tool, not the API's object."""
        members = [*members_of(self.hints.get(parameter))]
        if members:
            has_words = any(each is str or isinstance(each, str) or is_enum(each) for each in members)
            return has_words and dict not in members
        return parameter == "tool_mode" or bool(re.search(rf"[\"']name[\"']:\s*{parameter}\b", self.module))

    @property
    def only_list(self) -> str | None:
        """The only required parameter that has no known name, if its annotation is a list or the method takes tools."""
        unknown = self.required - _KNOWN
        name = next(iter(unknown)) if len(unknown) == 1 else None
        is_list = name is not None and item_class(self.hints.get(name)) is not None
        return name if is_list or first(SYNONYMS["tools"], self.names) else None


@dataclass(frozen=True, slots=True)
class ClientShape:
    """The constructor and the methods of a client.

    `make` creates the client from the base URL, the key and the model. `given` maps `base_url`, `api_key` and `model`
    to the parameters of the method that accept them. `has_base_url` is unset if neither the constructor nor the method
    accepts a base URL. `model` is a model name that the constructor accepts.

    `tool_form` is the format of the tools, if it is not that of the messages.

    If `keeps_history` is set, the client stores the conversation and accepts one prompt at a time.

    `system_attribute` is the client's attribute for the system prompt, if its method has no parameter for it, and
    `default_system` the value that the constructor gives it.
    """

    name: str
    make: Callable[[str, str, str], object]
    whole: Method
    streamed: Method | None
    form: Form
    given: Mapping[str, str]
    has_base_url: bool = True
    model: str = TRIED_MODELS[0]
    keeps_history: bool = False
    system_attribute: str | None = None
    default_system: str | None = None
    tool_form: Form | None = None

    def with_format(self, form: Form) -> ClientShape:
        """Return the shape of a client that gets its messages in another format. If the class of its messages has a
        list of calls, as in OpenAI's format, only the tools have the other format.
        """
        is_own = form is not OPENAI and lists_calls(self.messages_hint)
        return replace(self, tool_form=form) if is_own else replace(self, form=form)

    def for_api(self, api: str) -> ClientShape:
        """Return the shape of a client of this API. If its messages have OpenAI's format and it calls another API
        itself, then what its methods accept as `**params` reaches that API unchanged. So they are given only the
        parameters that they mention or that have the same name in both.
        """
        is_openai = self.is_sdk or self.form is not OPENAI or api in OPENAI_APIS
        if is_openai or not _CALLS_ANOTHER_API.search(self.whole.module):
            return self
        streamed = None if self.streamed is None else self.streamed.without_open_parameters(api)
        return replace(self, whole=self.whole.without_open_parameters(api), streamed=streamed)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities that the parameters of the method suggest."""
        found = {
            each
            for argument, names in self.form.capabilities.items()
            if not argument or (self.takes(argument) and (argument != "thinking" or self.handles_thinking))
            for each in names
        }
        found |= {"retries"}  # the user's own HTTP client or SDK may retry
        found |= {"streaming"} if self.streamed is not None else set()
        takes_parts = self.form is not PROMPT and not own_classes(self.messages_hint)
        found |= {"vision"} if self.is_sdk or (takes_parts and self.whole.mentions_images) else set()
        found |= {"json-with-tools"} if {"tools", "json-schema"} <= found else set()
        found |= {"history"} if self.keeps_history else set()
        found |= {"system-prompt"} if self.system_attribute else set()
        return frozenset(map(Capability, found))

    @property
    def handles_thinking(self) -> bool:
        """Return whether the client is an SDK or mentions thinking. Others pass the setting on, but lose the result."""
        return self.is_sdk or not self.whole.module or "thinking" in self.whole.module

    @property
    def is_sdk(self) -> bool:
        """Return whether the method has the path of a method in a provider's SDK, so that it uses the SDK's format."""
        return self.whole.path in _SDKS

    @property
    def sentence(self) -> str:
        """The call that the adapter makes, as text for the user, such as `my_client:Client.chat(messages, tools)`."""
        always = [*self.given.values(), str(self.whole.parameter(self.form.messages, self.form))]
        named = [self.whole.parameter(each, self.form) for each in ("system", "config", "json_mode")]
        taken = [self.whole.parameter(each, self.form) for each in ("tools", "response_format")]
        found = dict.fromkeys([*always, *(each for each in named if each in self.whole.names), *filter(None, taken)])
        lacks = "" if self.form is PROMPT or self.takes("tools") or self.takes("config") else _WITHOUT_TOOLS
        return f"{'.'.join((self.name, *self.whole.path))}({', '.join(map(str, found))}){lacks}"

    @property
    def missing_settings(self) -> list[JSON]:
        """The settings that the method has no parameter for. They are left out."""
        if self.takes("config") or self.takes("generation_config"):
            return []
        found: list[JSON] = [SETTINGS[each] for each in self.form.settings if not self.takes(each)]
        return [*found, "effort"] if self.form is ANTHROPIC and not self.takes("output_config") else found

    @property
    def marks_errors(self) -> bool:
        """Return whether the class of the client's messages can mark a result as an error."""
        return marks_errors(self.messages_hint)

    @property
    def reads_error_flag(self) -> bool:
        """Return whether the client's module reads an error flag from a dictionary."""
        return bool(_READS_ERROR_FLAG.search(self.whole.module))

    @property
    def messages_hint(self) -> object:
        """The annotation of the parameter for messages."""
        return self.whole.hints.get(self.whole.parameter(self.form.messages, self.form) or "")

    @property
    def has_default_system(self) -> bool:
        """Return whether the client sends a system prompt of its own if the caller gives none."""
        return self.whole.parameter("system", self.form) in self.whole.preset or bool(self.default_system)

    def takes(self, argument: str) -> bool:
        """Return whether the method has a parameter for an argument of the client's message format."""
        return self.whole.parameter(argument, self.form) is not None


_CALLS_ANOTHER_API = re.compile(r"\.messages\.(create|stream)\b|/messages\b|generate_?[cC]ontent")

_READS_ERROR_FLAG = re.compile(rf"get\([\"']{ERROR_FLAG}[\"']|\w\[[\"']{ERROR_FLAG}[\"']\](?!\s*=[^=])")


def load(what: str) -> tuple[object, str]:
    """Import `module:attribute`. A method of a class is returned as the class and the name of the method."""
    value = plugins.import_attribute(what, "client")
    parent, _, method = what.rpartition(".")
    if inspect.isfunction(value) and "." in what.partition(":")[2]:
        owner = plugins.import_attribute(parent, "client")
        if inspect.isclass(owner):
            return owner, method
    return value, ""


def recognise(value: object, name: str, method: str = "", api: str = "") -> ClientShape:
    """Return the shape of a class, a factory, a function or an object with methods. If it serves several providers, the
    shape is that for the provider of `api`, or for the first provider whose client can be created.

    Raises:
        PluginError: It has no known shape. The message asks for what is missing.
    """
    name = name.removesuffix(f".{method}") if method else name
    if _is_function(value):
        own = method_of((), value)
        if _form(own) is not None:
            shape = _shape(name, lambda _url, _key, _model: value, own, None, {})
            return replace(shape, model=default_model(value) or shape.model)
    if not callable(value) or not (inspect.isclass(value) or _is_function(value)):
        return _with_methods(value, name, lambda _url, _key, _model: value, method, {})
    make, client, model = _try_to_make(value, api)
    if inspect.iscoroutine(client):
        client.close()
        raise _unknown(
            name, "it has no parameter for messages. Name the function or method that has one, as in MODULE:function"
        )
    names = _constructor_names(cast("object", value))
    if inspect.isroutine(client) and _form(own := method_of((), client)) is not None:
        return replace(_shape(name, make, own, None, names), model=model)
    shape = replace(_with_methods(client, name, make, method, names), model=model)
    if shape.form is PROMPT and inspect.isclass(value) and not first(SYNONYMS["messages"], shape.whole.names):
        shape = replace(shape, keeps_history=keeps_history(client))
    return _with_system_attribute(shape, client)


def _with_system_attribute(shape: ClientShape, client: object) -> ClientShape:
    """Return the shape with the client's attribute for the system prompt, if its method has no parameter for it."""
    is_in_messages = shape.form is OPENAI and _COMPARES_SYSTEM_ROLE.search(shape.whole.module)
    if shape.is_sdk or shape.takes("system") or shape.takes("config") or is_in_messages:
        return shape
    if (attribute := system_attribute(client, shape.whole.module)) is None:
        return shape
    return replace(shape, system_attribute=attribute, default_system=getattr(client, attribute))


def system_attribute(client: object, source: str) -> str | None:
    """Return the attribute of a client that holds its system prompt, according to its name or to the source of the
    client's module. Return `None` if there is none that can be set.
    """
    own = cast("dict[str, object]", getattr(client, "__dict__", {}))
    used = [name for found in _SYSTEM_USES.findall(source) for name in found if name]
    name = first((*SYNONYMS["system"], *used), frozenset(own))
    if name is None or not isinstance(own[name], str | None):
        return None
    try:
        setattr(client, name, own[name])
    except AttributeError:
        return None
    return name


_SYSTEM_USES = re.compile(
    r"[\"']?\b(?:system|systemInstruction|system_instruction|instructions)[\"']?\]?\s*[:=](?!=)[^\n=]{0,40}?\bself\.(\w+)"
    r"|[\"'](?:system|developer)[\"'],\s*[\"'](?:content|text)[\"']:\s*self\.(\w+)"
)
"""Code that sends an attribute as the system prompt, with the name of the attribute."""

_COMPARES_SYSTEM_ROLE = re.compile(r"(?:==|!=|\bin\b|\bcase\b)[^\n]{0,40}?[\"'](?:system|developer)[\"']")
"""Code that looks for a system prompt among the messages."""


def keeps_history(client: object) -> bool:
    """Return whether a client has a list for the messages of its conversation."""
    own = cast("dict[str, object]", getattr(client, "__dict__", {}))
    return any(isinstance(each, list) for name, each in own.items() if name.lstrip("_") in SYNONYMS["messages"])


def _is_function(value: object) -> bool:
    return inspect.isroutine(value) or isinstance(value, partial)


def default_base_url(value: object, provider_url: str) -> str:
    """Return the default base URL of a constructor, or an empty string. Without a default in its signature, it is the
    base URL of the provider with a version in the source of its module.
    """
    method = method_of((), value)
    if default := method.preset.get(first(_BASE_URLS, method.names) or "", ""):
        return default
    found = re.search(rf"[\"']({re.escape(provider_url)}/v\d\w*)/?[\"']", method.module)
    return found[1] if found else ""


def default_model(value: object) -> str | None:
    """Return the default model of a method or constructor, if it has one."""
    method = method_of((), value)
    return method.preset.get(first(_MODELS, method.names) or "", "").removeprefix(_prefix(method)) or None


def _try_to_make(value: Callable[..., object], api: str) -> tuple[Callable[[str, str, str], object], object, str]:
    """Create a client with the first provider, base URL and model that it accepts. Return the function that makes it,
    the client and the model.
    """
    failed: Exception | None = None
    default = default_model(value)
    models = ([default] if default else []) + [*TRIED_MODELS]
    method = method_of((), value)
    needs_provider = first(_PROVIDERS, method.names) in method.required
    apis = [api] if api or not needs_provider else [*providers_of(method), ""]
    for each, base_url in ((each, base) for each in apis for base in ("http://127.0.0.1:9/v1", "http://127.0.0.1:9")):
        make = partial(make_client, value, api=each)
        for model in models:
            try:
                return make, make(base_url, "no-key", model), model
            except PluginError:
                raise
            except Exception as error:  # noqa: BLE001 - the user's constructor may fail in any way
                failed = failed or error
    raise failed or AssertionError


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
        self._redirected = redirected
        self._runner = asyncio.Runner()
        self._opened = contextlib.ExitStack()
        values = {"base_url": endpoint.base_url, "api_key": endpoint.api_key, "model": model}
        self._reopen = partial(self._open, *values.values())
        self._client = self._reopen()
        self._sent = 0
        values["model"] = _prefix(shape.whole) + model
        self._given = {shape.given[key]: value for key, value in values.items() if key in shape.given}
        self._given |= provider_argument(shape.whole, api)

    def chat(self, request: ChatRequest) -> ChatResponse:
        """Send a request and return its response."""
        with _failures(self._shape.whole.module), self._redirected():
            answer = self._call(self._shape.whole, self._pass_state(request))
            if isinstance(answer, AsyncIterator):
                answer = iter([*self._synchronous(cast("AsyncIterator[object]", answer))])
            return self._mark_unpassed(self._read(answer, request))

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        """Send a request to the method that streams, or with `stream=True`, and yield the events."""
        method = cast("Method", self._shape.streamed)
        is_asked = method.is_open and method is self._shape.whole and not method.always_streams
        extra: dict[str, object] = {"stream": True} if "stream" in method.names or is_asked else {}
        if "stream_options" in method.names or (is_asked and self._shape.form is OPENAI):
            extra["stream_options"] = {"include_usage": True}
        texts: list[str] = []
        if (callback := first(_TEXT_CALLBACKS, method.names)) is not None:
            extra[callback] = texts.append
        with _failures(self._shape.whole.module), self._redirected(), contextlib.ExitStack() as opened:
            answer = self._call(method, self._pass_state(request), **extra)
            if not hasattr(answer, "__iter__") and hasattr(answer, "__enter__"):
                answer = opened.enter_context(cast("AbstractContextManager[object]", answer))
            if not hasattr(answer, "__iter__") and hasattr(answer, "__aenter__"):
                answer = self._run(cast("Any", answer).__aenter__())
            if not hasattr(answer, "__iter__") and hasattr(answer, "__aiter__"):
                answer = self._synchronous(cast("AsyncIterator[object]", answer))
            if not hasattr(answer, "__iter__"):
                yield from events_of(self._mark_unpassed(self._read(answer, request)), texts)
                return
            yield from map(TextDelta, texts)
            items = cast("Iterable[object]", [answer] if isinstance(answer, str | Mapping) else answer)
            items = _with_final_answer(items, self._client)
            for event in read_stream(items, request, self._memory, self._api):
                yield Finish(self._mark_unpassed(event.response)) if isinstance(event, Finish) else event

    def _read(self, answer: object, request: ChatRequest) -> ChatResponse:
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
        if self._shape.whole.path and hasattr(client, "__aenter__"):
            return self._run(cast("Any", client).__aenter__())
        if self._shape.whole.path and hasattr(client, "__enter__"):
            return self._opened.enter_context(cast("AbstractContextManager[object]", client))
        return client

    def _call(self, method: Method, request: ChatRequest, **extra: object) -> object:
        if self._shape.form is OPENAI and self._api != OPENAI.name and method.module and not method.reads_parts:
            request = with_joined_texts(request, self._memory)  # the client converts each content as a text
        arguments = {**extra, **self._arguments(method, request)}
        client = self._client
        binder = _binder(client) if method.path and arguments.get("tools") else None
        if binder is not None:
            bound = {name: arguments.pop(name) for name in ("tools", "tool_choice") if name in arguments}
            client = binder(bound.pop("tools"), **bound)
        if method.packed is not None:
            name, kind = method.packed
            arguments = {name: kind(**arguments)}
        function = BoundMethod(client, method.path) if method.path else client
        try:
            return self._run(call(cast("Callable[..., object]", function), **self._given, **arguments))
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
            arguments[given] = self._own_messages(arguments[given], method.hints.get(given), method.module)
        typed = {given, tools}
        instances = {
            name: as_annotated(value, method.hints.get(name)) for name, value in arguments.items() if name in typed
        }
        if form is OPENAI and given in instances:
            _check_instances(instances[given], method.hints.get(given))
        return {**arguments, **instances}

    def _argument(self, method: Method, name: str, parameter: str, request: ChatRequest, made: Any) -> Any:
        """Return an argument of the client's message format in the form that this parameter takes."""
        if name == "tools":
            tools = self._tools(method, parameter, request, made)
            if parameter not in FUNCTION_LISTS and not method.wraps_tools:
                return tools
            lists = (each.get("functionDeclarations", [each.get("function", each)]) for each in tools)
            return [*chain.from_iterable(lists)]
        if name in ("tool_choice", "tool_config") and method.takes_choice_as_text(parameter):
            return choice_as_text(request.tool_choice, method.hints.get(parameter), method.module, self._api)
        return made

    def _own_messages(self, messages: list[Any], hint: object, source: str) -> list[Any]:
        """Return messages with the client's own roles, and with fields that it can read under its own names. The
        client's own messages are returned unchanged.
        """
        if own_classes(hint):
            return with_own_roles(messages, source)
        if self._api == ANTHROPIC.name and source and not READS_CALLS.search(source):
            foreign = (each for each in messages if "tool_calls" in each and not self._memory.has_kept(each))
            if next(foreign, None) is not None:
                raise Unsupported(RECOGNISED_CLIENT, "a history with calls", "its messages have no place for them")
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


def _check_instances(messages: Sequence[object], hint: object) -> None:
    """Check that each message is an instance of the client's own classes, if its annotation has only such classes."""
    classes = own_classes(hint)
    if classes and not any(isinstance(each, classes) for each in messages):
        return
    if classes and dict not in members_of(item_class(hint)) and not all(isinstance(each, classes) for each in messages):
        reason = "its classes have no place for a message that it did not write"
        raise Unsupported(RECOGNISED_CLIENT, "a history", reason)


_TEXT_START = 12
"""Number of characters that show that a text is a literal of the client's source."""

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
    """Raise `Unsupported` for an exception with a text of the client's `source` that something is not supported."""
    try:
        yield
    except Exception as error:
        if "support" in (text := str(error)) and text[:_TEXT_START] in source:
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


def _with_methods(
    client: object, name: str, make: Callable[[str, str, str], object], method: str, own: Mapping[str, str]
) -> ClientShape:
    paths = [*_SDKS, *((each,) for each in METHODS), ("__call__",)]
    others = [each for each in dir(client) if not each.startswith("_")]
    found = [
        method_of(path, each)
        for path in ([(method,)] if method else [*paths, *((each,) for each in others)])
        if callable(each := _attribute(client, path))
    ]
    found = [each for each in found if each.path not in {(name,) for name in _STREAMS}] or found
    found = [_with_parameters_of_delegate(client, each) for each in found]
    fitting = [each for each in found if _form(each) is not None]
    fitting = [each for each in fitting if _form(each) is not PROMPT] or fitting
    if fitting:
        whole = fitting[0]
        if (binder := _binder(client)) is not None and whole.path not in _SDKS:
            bound = {"tools", "tool_choice"} & method_of((), binder).names
            whole = replace(whole, names=whole.names | {"tools"} | bound)
        streams = [_SDKS[whole.path][1]] if whole.path in _SDKS else [(each,) for each in _STREAMS]
        streamed = next((method_of(path, each) for path in streams if callable(each := _attribute(client, path))), None)
        return _shape(name, make, whole, streamed, own)
    if not others or inspect.ismodule(client):
        raise _unknown(name, f"it is {_article(client)} without methods. Name the class or function of the client")
    methods = ", ".join(each for each in others if callable(_attribute(client, (each,)))) or "none"
    known = ", ".join(SYNONYMS["messages"][:3])
    raise _unknown(
        name,
        f"none of its methods ({methods}) takes messages (a parameter {known} ...) or a prompt. Which one sends a "
        f"conversation? Write a function 'def chat(messages, tools=None)' that calls it, and name that function",
    )


def _shape(
    name: str,
    make: Callable[[str, str, str], object],
    whole: Method,
    streamed: Method | None,
    own: Mapping[str, str],
) -> ClientShape:
    """Return the shape of a client whose method is known."""
    is_sdk = whole.path in _SDKS
    given = {"model": first(_MODELS, whole.names) or ("model" if is_sdk else None)}
    if not own:
        given |= {"base_url": first(_BASE_URLS, whole.names), "api_key": first(_KEYS, whole.names)}
    is_same = "stream" in whole.names or (is_sdk and whole.is_open and whole.path[-1] == "create")
    has_callback = first(_TEXT_CALLBACKS, whole.names) is not None
    is_same = is_same or (streamed is None and (whole.always_streams or has_callback))
    return ClientShape(
        name,
        make,
        whole,
        whole if is_same else streamed,
        _form(whole) or OPENAI,
        {key: value for key, value in given.items() if value is not None},
        "base_url" in own or given.get("base_url") is not None,
    )


def _form(method: Method) -> Form | None:
    """Return the form of a method, or `None` if it takes neither messages nor a prompt."""
    if method.path in _SDKS:
        return _SDKS[method.path][0]
    if "contents" in method.names:
        return GEMINI
    if {"input", "instructions"} <= method.names:
        return RESPONSES
    missing = method.required - _KNOWN - {*SYNONYMS["messages"]}
    if first(SYNONYMS["messages"], method.names) and not missing:
        return OPENAI
    if first(SYNONYMS["prompt"], method.names) and missing <= {*SYNONYMS["prompt"]}:
        return PROMPT
    return OPENAI if method.only_list is not None else None


_KNOWN = frozenset({*_BASE_URLS, *_KEYS, *_MODELS, *_PROVIDERS, *SYNONYMS["tools"], *SYNONYMS["system"], "max_tokens"})
"""Known names of parameters that do not hold messages."""


def _constructor_names(factory: object) -> dict[str, str]:
    """Return the parameter names for the base URL, the key and the model, in the constructor or in its configuration
    class.
    """
    config = _config(factory)
    return {**(_own_names(config[1]) if config else {}), **_own_names(factory)} or {"": ""}


def _own_names(factory: object) -> dict[str, str]:
    method, found = method_of((), factory), dict[str, str]()
    for key, known in (("base_url", _BASE_URLS), ("api_key", _KEYS), ("model", _MODELS)):
        name = first(known, method.names) or (key if method.is_open and key != "model" else None)
        if name is not None:
            found[key] = name
    return found


def _config(factory: object) -> tuple[str, type] | None:
    """Return the constructor parameter for a configuration object with a base URL, and the class of the object."""
    if "base_url" in _own_names(factory):
        return None
    for name, hint in hints_of(factory).items():
        classes = [each for each in (hint, *typing.get_args(hint)) if inspect.isclass(each)]
        for each in classes:
            if first(_BASE_URLS, method_of((), each).names) and name != "return":
                return name, each
    return _injected_parameter(factory)


_SDK_CLIENTS = {
    ".chat.completions": ("openai", "OpenAI"),
    ".responses.": ("openai", "OpenAI"),
    ".messages.": ("anthropic", "Anthropic"),
}
"""Method of an SDK's client → its module and the name of its class."""


def _injected_parameter(factory: object) -> tuple[str, type] | None:
    """Return the constructor parameter for a client of a provider's SDK, recognised by its name, and the class of that
    client.

    The SDK methods that the source of the class calls identify the SDK.
    """
    name = next((each for each in method_of((), factory).required if re.search("client|sdk", each)), None)
    try:
        source = inspect.getsource(cast("type", factory))
        module, kind = next(found for call, found in _SDK_CLIENTS.items() if name and call in source)
        return str(name), getattr(importlib.import_module(module), f"Async{kind}" if "await " in source else kind)
    except (OSError, TypeError, StopIteration, ImportError):
        return None


def make_client(
    factory: Callable[..., object], base_url: str, api_key: str, model: str, *, api: str = "", **extra: object
) -> object:
    """Return a client that sends its requests to `base_url`. `extra` are further arguments of its constructor.

    If the client serves several providers, it gets that of `api`. If its constructor rejects the model, the model gets
    the prefix of its provider, as in `openai/gpt-4.1`.
    """
    method = method_of((), factory)
    values = {"base_url": base_url, "api_key": api_key, "model": _prefix(method, api) + model}
    arguments: dict[str, object] = {
        name: values[key] for key, name in _constructor_names(factory).items() if name in method.names or method.is_open
    }
    arguments.pop("", None)
    if "max_retries" in method.names:
        arguments["max_retries"] = 0
    config = _config(factory)
    arguments |= {**provider_argument(method, api), **extra}
    arguments |= dict.fromkeys(method.required & {*SYNONYMS["system"], *SYNONYMS["tools"]} - arguments.keys())
    if config is not None and "base_url" not in arguments:
        arguments[config[0]] = make_client(config[1], base_url, api_key, model)
    if missing := sorted(method.required - arguments.keys()):
        name = getattr(factory, "__name__", "it")
        raise _unknown(
            name,
            f"its constructor needs {', '.join(missing)}. Write a function that makes it, as in try_it.py: "
            f"'def make(base_url, api_key, model): return {name}(...)'. Then: harness try try_it:make",
        )
    name = first(_MODELS, method.names)
    if name not in arguments or arguments[name] != model:
        return call(factory, **arguments)
    return _call_with_prefixes(partial(call, factory, **arguments), str(name), model, api)


def _call_with_prefixes(make: Callable[..., object], name: str, model: str, api: str) -> object:
    """Call a constructor with a model. If that fails, try the model with the prefixes of its provider."""
    known = _PREFIXES.get(api, ()) if api else [*chain.from_iterable(_PREFIXES.values())]
    try:
        return make()
    except Exception:
        for prefix in (f"{each}{sign}" for each in known for sign in "/:"):
            with contextlib.suppress(Exception):
                return make(**{name: prefix + model})
        raise


_PREFIXES: Mapping[str, tuple[str, ...]] = {
    OPENAI.name: ("openai",),
    RESPONSES.name: ("openai",),
    ANTHROPIC.name: ("anthropic", "claude"),
    GEMINI.name: ("gemini", "google"),
}
"""API → prefixes of its models in clients for several providers."""


def providers_of(method: Method) -> dict[str, object]:
    """Return the providers that a method or constructor accepts, by API: members of an enumeration, values of a
    `Literal`, or strings in the source of its module. It is empty without a parameter for the provider.
    """
    name = first(_PROVIDERS, method.names)
    if name is None:
        return {}
    hint = method.hints.get(name, str)
    values = [*_listed_values(hint)]
    if not values and str in (hint, *typing.get_args(hint)):
        literals = dict.fromkeys(re.findall(r"[\"']([\w-]+)[\"']", method.module))
        values = [each for each in literals if any(_is_provider(each, api) for api in _PROVIDER_NAMES)]
        values = values or ["openai", "anthropic", "gemini"]
    fitting = {api: [each for each in values if _is_provider(each, api)] for api in _PROVIDER_NAMES}
    return {api: min(found, key=partial(_provider_place, api)) for api, found in fitting.items() if found}


def _listed_values(hint: object) -> Iterator[object]:
    """Yield the members of the enumerations and the values of the literals in an annotation."""
    if inspect.isclass(hint) and issubclass(hint, Enum):
        yield from hint
    elif typing.get_origin(hint) is typing.Literal:
        yield from typing.get_args(hint)
    else:
        yield from chain.from_iterable(map(_listed_values, typing.get_args(hint)))


def _is_provider(value: object, api: str) -> bool:
    return bool(_spellings(value) & {*_PROVIDER_NAMES[api]})


def _provider_place(api: str, value: object) -> int:
    return min(place for place, name in enumerate(_PROVIDER_NAMES[api]) if name in _spellings(value))


def _spellings(value: object) -> set[str]:
    """Return the names of a provider in lower case and without punctuation."""
    names = [value.name, value.value] if isinstance(value, Enum) else [value]
    return {re.sub(r"[\W_]", "", each.lower()) for each in names if isinstance(each, str)}


def provider_argument(method: Method, api: str) -> dict[str, object]:
    """Return the argument that selects the provider of an API. Without an API, it is the first provider.

    A default is kept, unless it is the provider of another API.
    """
    name, known = first(_PROVIDERS, method.names), providers_of(method)
    if name is None or not known:
        return {}
    default = method.preset.get(name)
    is_other = default is not None and api in known and not _is_provider(default, api)
    is_other = is_other and any(_is_provider(default, each) for each in _PROVIDER_NAMES)
    if name in method.required or is_other:
        return {name: known.get(api, next(iter(known.values())))}
    return {}


def _prefix(method: Method, api: str = "") -> str:
    """Return the provider prefix of the method's default model, such as `openai/`, or an empty string. Libraries such
    as LiteLLM need this prefix in model names. It becomes that of `api` if the default belongs to another API.
    """
    default = method.preset.get(first(_MODELS, method.names) or "", "")
    found = re.match(r"(openai|azure|anthropic|claude|gemini|google|vertex_ai)([/:])", default)
    if found is None:
        return ""
    is_other = api in _PREFIXES and not _is_provider(found[1], api)
    is_other = is_other and any(_is_provider(found[1], each) for each in _PROVIDER_NAMES)
    return f"{_PREFIXES[api][0]}{found[2]}" if is_other else found[0]


def _has_content_parts(message: Message) -> bool:
    """Return whether the content of a user message is a list: it has images or several texts."""
    texts = [part for part in message.parts if isinstance(part, Text)]
    return any(isinstance(part, Image) for part in message.parts) or (message.role is Role.USER and len(texts) > 1)


def _binder(client: object) -> Callable[..., object] | None:
    """Return the method of a client that returns another client with tools, if it has one."""
    return next((each for name in ("bind_tools", "with_tools") if callable(each := getattr(client, name, None))), None)


def _attribute(client: object, path: tuple[str, ...]) -> object | None:
    found: object | None = client
    try:
        for name in path:
            found = getattr(found, name, None)
    except Exception:  # noqa: BLE001 - a property of the user's class may fail in any way
        return None
    return found if callable(found) else None


def method_of(path: tuple[str, ...], value: object) -> Method:
    """Return a method, or the constructor of a class, with the parameters in its signature and source."""
    try:
        parameters = inspect.signature(cast("Callable[..., object]", value)).parameters.values()
    except (TypeError, ValueError):
        return Method(path, frozenset(), is_open=False)
    named = [each for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    required, hints = [each.name for each in named if each.default is each.empty], _hints_of(value)
    kind = hints.get(required[0]) if len(required) == 1 else None
    if inspect.isclass(kind) and first(SYNONYMS["messages"], fields := frozenset(hints_of(kind))):
        own = method_of(path, kind)
        return replace(
            own, names=own.names & fields, source=_source_of(value), class_source=own.module, packed=(required[0], kind)
        )
    return Method(
        path,
        frozenset(each.name for each in named),
        any(each.kind is each.VAR_KEYWORD for each in parameters),
        frozenset(required),
        {each.name: each.default for each in named if isinstance(each.default, str) and each.default},
        hints,
        "" if inspect.isclass(value) else _source_of(value),
        _source_of(inspect.getmodule(value)),
        _source_of(type(value.__self__) if inspect.ismethod(value) else value),
    )


def _hints_of(value: object) -> Mapping[str, object]:
    """Return the annotations of a function, class or method. A method without any has those of the one it overrides."""
    found = hints_of(value)
    if found or not inspect.ismethod(value):
        return found
    bases = (vars(each).get(value.__name__) for each in type(value.__self__).__mro__)
    return next((hints for each in bases if (hints := hints_of(each))), found)


def _with_parameters_of_delegate(client: object, method: Method) -> Method:
    """Return a method that passes its `**options` on to another method of the client with that method's parameters."""
    found = re.search(r"\bself\.(\w+)\([^()]*\*\*", method.source) if method.is_open else None
    delegate = None if found is None else _attribute(client, (found[1],))
    if delegate is None:
        return method
    other = method_of((), delegate)
    return replace(
        method, names=method.names | other.names, is_open=other.is_open, hints={**other.hints, **method.hints}
    )


def _source_of(value: object) -> str:
    try:
        return inspect.getsource(cast("Any", value))
    except (OSError, TypeError):
        return ""


def _article(value: object) -> str:
    return "a module" if inspect.ismodule(value) else f"an object of {type(value).__name__}"


def _unknown(name: str, reason: str) -> PluginError:
    return PluginError("client", name, f"{reason}.")
