"""Shapes of clients without a wrapper, recognised by the parameters of their constructor and of their methods."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import FunctionType
from typing import cast

from harness import plugins
from harness.bridge.client_formats import (
    ANTHROPIC,
    ERROR_FLAG,
    GEMINI,
    OPENAI,
    PROMPT,
    RESPONSES,
    SETTINGS,
    SYNONYMS,
    Form,
    first,
    lists_calls,
    marks_errors,
    own_classes,
)
from harness.bridge.client_methods import (
    BASE_URLS,
    KEYS,
    KNOWN_PARAMETERS,
    METHODS,
    MODELS,
    TRIED_MODELS,
    Method,
    attribute_of,
    constructor_names,
    default_model,
    method_of,
    public_methods,
    source_of,
    tool_binder,
    try_to_make,
    unknown_client,
    with_parameters_of_delegate,
)
from harness.model.messages import JSON
from harness.model.protocols import Capability

_STREAMS = ("stream", "stream_chat", "chat_stream", "stream_complete", "generate_stream", "astream", "iter_chat")

TEXT_CALLBACKS = ("on_text", "on_token", "on_delta", "on_chunk", "on_text_delta", "text_callback", "token_callback")
"""Names of parameters for a function that gets the texts of a stream."""

_SDKS: Mapping[tuple[str, ...], tuple[Form, tuple[str, ...]]] = {
    ("chat", "completions", "create"): (OPENAI, ("chat", "completions", "stream")),
    ("messages", "create"): (ANTHROPIC, ("messages", "stream")),
    ("responses", "create"): (RESPONSES, ("responses", "stream")),
    ("models", "generate_content"): (GEMINI, ("models", "generate_content_stream")),
    ("generate_content",): (GEMINI, ("generate_content_stream",)),
}
"""Methods of the providers' SDKs, with their form and the method that streams."""

OPENAI_APIS = (OPENAI.name, RESPONSES.name)
"""APIs whose tool results have no error flag. Messages in OpenAI's format have none either."""

_WITHOUT_TOOLS = " (without tools, because no parameter is called 'tools')"
_UNUSED_TOOLS = " (without tools, because its code does not use the parameter {name!r})"


@dataclass(frozen=True, slots=True)
class ClientShape:
    """The constructor and the methods of a client.

    `make` creates the client from the base URL, the key and the model. `given` maps `base_url`, `api_key` and `model`
    to the parameters of the method that accept them. `has_base_url` is unset if neither the constructor nor the method
    accepts a base URL. `model` is a model name that the constructor accepts.

    `tool_form` is the format of the tools, if it is not that of the messages. `unused_tools` is the parameter for tools
    of a function whose code does not use it.

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
    unused_tools: str | None = None

    def with_format(self, form: Form) -> ClientShape:
        """Return the shape of a client that gets its messages in another format. If the class of its messages has a
        list of calls, as in OpenAI's format, only the tools have the other format.
        """
        is_own = form is not OPENAI and lists_calls(self.messages_hint)
        return replace(self, tool_form=form) if is_own else replace(self, form=form)

    def for_api(self, api: str) -> ClientShape:
        """Return the shape of the client for this API.

        A client with messages in OpenAI's format may call another API itself. That API receives the client's `**params`
        unchanged. Such a client gets only the parameters that its source mentions, or that have the same name in both
        APIs.
        """
        is_openai = self.is_sdk or self.form not in (OPENAI, GEMINI) or api in OPENAI_APIS
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
        takes_parts = takes_parts and (self.form is not OPENAI or self.whole.reads_parts)
        found |= {"vision"} if self.is_sdk or (takes_parts and self.whole.mentions_images) else set()
        found |= {"json-with-tools"} if "tools" in found and {"json-mode", "json-schema"} & found else set()
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
    def passes_ids_on(self) -> bool:
        """Return whether the client is the SDK of a provider, whose caller chooses the ids of calls."""
        return self.is_sdk or (len(self.whole.path) > 1 and self.whole.path[0] == _RESOURCE)

    @property
    def is_guess(self) -> bool:
        """Return whether the method was chosen only because of its parameters, not because of its name."""
        path = self.whole.path
        return bool(path) and not self.is_sdk and path[-1] not in (*METHODS, *_STREAMS, "__call__")

    @property
    def needs_schema(self) -> bool:
        """Return whether the method takes a prompt and cannot be called without a schema of the answer."""
        return self.form is PROMPT and first(SYNONYMS["json_schema"], self.whole.required) is not None

    @property
    def sentence(self) -> str:
        """The call that the adapter makes, as text for the user, such as `my_client:Client.chat(messages, tools)`."""
        always = [*self.given.values(), str(self.whole.parameter(self.form.messages, self.form))]
        named = [self.whole.parameter(each, self.form) for each in ("system", "config", "json_mode")]
        taken = [self.whole.parameter(each, self.form) for each in ("tools", "response_format")]
        found = dict.fromkeys([*always, *(each for each in named if each in self.whole.names), *filter(None, taken)])
        lacks = "" if self.form is PROMPT or self.takes("tools") or self.takes("config") else _WITHOUT_TOOLS
        lacks = _UNUSED_TOOLS.format(name=self.unused_tools) if self.unused_tools else lacks
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

    @property
    def may_call_a_model(self) -> bool:
        """Return whether the client takes messages, or a prompt and a model. Other clients may send anything."""
        return self.form is not PROMPT or "model" in self.given

    def takes(self, argument: str) -> bool:
        """Return whether the method has a parameter for an argument of the client's message format."""
        return self.whole.parameter(argument, self.form) is not None


_CALLS_ANOTHER_API = re.compile(r"\.messages\.(create|stream)\b|/messages\b|[gG]enerate_?[cC]ontent")

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
        described = method_of((), value)
        own = described.without_unused(SYNONYMS["tools"])
        if own.receives_by_send:
            raise unknown_client(name, _GENERATOR)
        if _form(described) is not None and not _is_factory(value, described):
            shape = _shape(name, lambda _url, _key, _model: value, own, None, {})
            unused = first(SYNONYMS["tools"], described.names - own.names)
            return replace(shape, model=default_model(value) or shape.model, unused_tools=unused)
    if not callable(value) or not (inspect.isclass(value) or _is_function(value)):
        return _with_methods(value, name, lambda _url, _key, _model: value, method, {})
    make, client, model = try_to_make(value, api)
    if inspect.iscoroutine(client):
        client.close()
        raise unknown_client(
            name, "it has no parameter for messages. Name the function or method that has one, as in MODULE:function"
        )
    names = constructor_names(cast("object", value))
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


_GENERATOR = (
    "it is a generator that gets its messages by 'send'. Write a function 'def chat(messages, tools=None)' that sends "
    "them to it and returns its answer, and name that function. If it keeps the conversation, write a loop of about "
    "ten lines instead: harness help loops"
)


def _is_factory(value: object, method: Method) -> bool:
    """Return whether a function makes a client. Its parameter `user` is no prompt then."""
    return _has_name_of_class(value) and _form(method) is PROMPT


def _has_name_of_class(value: object) -> bool:
    return str(getattr(value, "__name__", ""))[:1].isupper()


def _makes_function(value: object) -> bool:
    """Return whether a function returns a decorator or another function, according to its annotation or its source."""
    try:
        returned = str(inspect.signature(cast("Callable[..., object]", value)).return_annotation)
    except (TypeError, ValueError):
        return False
    return bool(re.search("Callable|Decorator", returned) or _RETURNS_FUNCTION.search(source_of(value)))


_RETURNS_FUNCTION = re.compile(r"\n\s+(?:async )?def (\w+)\((?:.*\n)*\s+return \1\b")


def _is_function(value: object) -> bool:
    return inspect.isroutine(value) or isinstance(value, partial)


def _with_methods(
    client: object, name: str, make: Callable[[str, str, str], object], method: str, own: Mapping[str, str]
) -> ClientShape:
    others = public_methods(client)
    resource = [(_RESOURCE, each) for each in METHODS] if not callable(getattr(client, _RESOURCE, None)) else []
    first_sdk, *sdks = _SDKS
    named = [(each,) for each in (*METHODS, "__call__", *others)]
    paths = [first_sdk, *resource, *sdks, *named]
    streams = [(each,) for each in _STREAMS]
    every = [(method,)] if method else [each for each in paths if each not in streams]
    whole = _first_fitting(client, every) or (None if method else _first_fitting(client, streams))
    if whole is not None:
        streams = [_SDKS[whole.path][1]] if whole.path in _SDKS else [(*whole.path[:-1], each) for each in _STREAMS]
        found = ((path, each) for path in streams if callable(each := attribute_of(client, path)))
        streamed = next((_with_all_parameters(method_of(path, each), client) for path, each in found), None)
        return _shape(name, make, whole, streamed, own)
    if not others or inspect.ismodule(client):
        raise unknown_client(
            name, f"it is {_article(client)} without methods. Name the class or function of the client"
        )
    methods = ", ".join(each for each in others if callable(attribute_of(client, (each,)))) or "none"
    known = ", ".join(SYNONYMS["messages"][:3])
    raise unknown_client(
        name,
        f"none of its methods ({methods}) takes messages (a parameter {known} ...) or a prompt. Which one sends a "
        f"conversation? Write a function 'def chat(messages, tools=None)' that calls it, and name that function. If it "
        f"runs tools itself, write a loop of about ten lines: harness help loops",
    )


def is_value_class(value: object) -> bool:
    """Return whether a value is a class for messages, settings or exceptions, without methods of its own."""
    if not inspect.isclass(value):
        return False
    fields = ("__dataclass_fields__", "_fields", "model_fields", "__total__", "__members__")
    methods = (name for name, each in vars(value).items() if inspect.isfunction(each) and not name.startswith("_"))
    is_value = issubclass(value, BaseException) or any(hasattr(value, each) for each in fields)
    return is_value and next(methods, None) is None


def place_of_candidate(value: object, package: str) -> int | None:
    """Return the rank of a class or function among the possible clients of a package. Lower ranks are more likely.
    Return `None` if it is no client or is imported from another package.

    The rank depends on the parameters: 0 for a base URL, 1 for a key, 2 for a model, 3 for a function that takes
    messages. A function that makes a client has the name of a class, as in `ChatOpenAI`.

    Types are compared without `isinstance`, because that makes a lazy proxy load its object.
    """
    is_class = issubclass(type(value), type)
    is_own = (is_class or type(value) is FunctionType) and f"{value.__module__}.".startswith(f"{package}.")
    if not is_own or (is_class and is_value_class(cast("type", value))):
        return None
    own = method_of((), value)
    if not is_class and (_form(own) not in (None, PROMPT) or not _has_name_of_class(value)):
        return 3 if _form(own) not in (None, PROMPT) and not _makes_function(value) else None
    return next((place for place, known in enumerate((BASE_URLS, KEYS, MODELS)) if first(known, own.names)), None)


_RESOURCE = "chat"
"""Attribute of a client that holds the methods for conversations, as in `client.chat.complete(messages)`."""


def _first_fitting(client: object, paths: Iterable[tuple[str, ...]]) -> Method | None:
    """Return the first method that takes messages, or else the first one that takes a prompt, preferably one with a
    usual name.
    """
    of_prompts: list[Method] = []
    for path in paths:
        if (function := attribute_of(client, path)) is None:
            continue
        method = _with_all_parameters(method_of(path, function), client)
        form = _form(method)
        if form not in (None, PROMPT):
            return method
        of_prompts += [method] if form is PROMPT else []
    return min(of_prompts, key=lambda each: not each.has_usual_prompt, default=None)


def _with_all_parameters(method: Method, client: object) -> Method:
    """Return a method with all parameters that it takes by way of another one.

    These are the parameters of the method that gets its `**options`, and the tools, if another method binds them. If
    the method takes any parameter, `max_tokens` is one of them if the client has an attribute of this name.
    """
    method = with_parameters_of_delegate(client, method)
    names = method.names
    if (binder := tool_binder(client)) is not None and method.path not in _SDKS:
        names |= {"tools"} | ({"tools", "tool_choice"} & method_of((), binder).names)
    if method.is_open and hasattr(client, "max_tokens") and not hasattr(client, "max_completion_tokens"):
        names |= {"max_tokens"}
    return replace(method, names=names)


def _shape(
    name: str,
    make: Callable[[str, str, str], object],
    whole: Method,
    streamed: Method | None,
    own: Mapping[str, str],
) -> ClientShape:
    """Return the shape of a client whose method is known."""
    is_sdk = whole.path in _SDKS
    given = {"model": first(MODELS, whole.names) or ("model" if is_sdk else None)}
    if not own:
        given |= {"base_url": first(BASE_URLS, whole.names), "api_key": first(KEYS, whole.names)}
    is_same = ("stream" in whole.names and (is_sdk or streamed is None or whole.path[0] != _RESOURCE)) or (
        is_sdk and whole.is_open and whole.path[-1] == "create"
    )
    has_callback = first(TEXT_CALLBACKS, whole.names) is not None
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
    if method.receives_by_send or method.takes_conversations:
        return None
    if "contents" in method.names:
        return GEMINI
    if {"input", "instructions"} <= method.names:
        return RESPONSES
    missing = method.required - KNOWN_PARAMETERS - {*SYNONYMS["messages"]}
    if first(SYNONYMS["messages"], method.names) and not missing:
        return OPENAI
    known = {*SYNONYMS["prompt"], *SYNONYMS["json_schema"], method.prompt, *method.examples}
    if method.prompt is not None and missing <= known:
        return PROMPT
    return OPENAI if method.only_list is not None else None


def _article(value: object) -> str:
    return "a module" if inspect.ismodule(value) else f"an object of {type(value).__name__}"
