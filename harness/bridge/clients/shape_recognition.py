"""Recognition of clients and of their shapes, by the parameters of their constructors and methods."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from operator import attrgetter
from types import FunctionType
from typing import Any, Union, cast

from harness import plugins
from harness.bridge.clients.annotations import BUILTIN_MODULES, own_classes_in
from harness.bridge.clients.client_state import keeps_history, setting_attributes, system_attribute
from harness.bridge.clients.constructors import (
    constructor_names,
    default_model,
    returns_one_object,
    try_to_make,
    unknown_client,
)
from harness.bridge.clients.decorated_functions import is_decorated_object
from harness.bridge.clients.forms import GEMINI, OPENAI, PROMPT, RESPONSES, Form
from harness.bridge.clients.invocation import (
    attribute_of,
    conversation_method_names,
    tool_binder,
    with_parameters_of_delegate,
)
from harness.bridge.clients.message_classes import class_with_attributes, dispatched_classes
from harness.bridge.clients.methods import Method, body_method, method_of
from harness.bridge.clients.names import BASE_URLS, KEYS, KNOWN_PARAMETERS, METHODS, MODELS, SYNONYMS, first_known
from harness.bridge.clients.objects import ObjectCopies
from harness.bridge.clients.option_methods import option_methods
from harness.bridge.clients.shapes import (
    RESOURCE,
    SDK_METHODS,
    STREAM_METHODS,
    TEXT_CALLBACKS,
    ClientShape,
    is_sdk_method,
)
from harness.bridge.clients.sources import source_of


def load_client(what: str) -> tuple[object, str]:
    """Import `module:attribute`. A method of a class is returned as the class and the name of the method."""
    value = plugins.import_attribute(what, "client")
    parent, _, method = what.rpartition(".")
    if inspect.isfunction(value) and "." in what.partition(":")[2]:
        owner = plugins.import_attribute(parent, "client")
        if inspect.isclass(owner):
            return owner, method
    return value, ""


def recognise_shape(value: object, name: str, method: str = "", api: str = "") -> ClientShape:
    """Return the shape of a class, a factory, a function or an object with methods. If it serves several providers, the
    shape is that for the provider of `api`, or for the first provider whose client can be created.

    Raises:
        PluginError: It has no known shape. The message asks for what is missing.
    """
    shape = _recognise_value(value, name.removesuffix(f".{method}") if method else name, method, api)
    return replace(shape, provider_api=api)


def _recognise_value(value: object, name: str, method: str, api: str) -> ClientShape:
    if _is_function(value):
        described = method_of((), value)
        own = described.without_unused(SYNONYMS["tools"])
        if own.receives_by_send:
            raise unknown_client(name, _GENERATOR_REASON)
        if form_of_method(described) is not None and not _is_factory(value, described):
            shape = _make_shape(name, lambda _url, _key, _model: value, own, None, {})
            unused = first_known(SYNONYMS["tools"], described.names - own.names)
            return replace(shape, model=default_model(value) or shape.model, unused_tools=unused)
    if not callable(value) or not (inspect.isclass(value) or _is_function(value)):
        shape = _shape_of_object(value, name, lambda _url, _key, _model: value, method, {})
        if shape.form is PROMPT and not inspect.ismodule(value):  # it may keep its conversation
            shape = replace(shape, make=_maker_of_copies(value), keeps_history=keeps_history(value))
            shape = _with_system_attribute(shape, value)
        return replace(shape, is_object=True)
    make, client, model = try_to_make(value, api)
    if inspect.iscoroutine(client) and (client := _client_of_coroutine(client)) is None:
        raise unknown_client(
            name, "it has no parameter for messages. Name the function or method that has one, as in MODULE:function"
        )
    names = constructor_names(cast("object", value))
    if not _is_function(client) and returns_one_object(value, client):
        return _recognise_value(client, name, method, api)
    if _is_function(client) and form_of_method(own := method_of((), client)) is not None:
        return replace(_make_shape(name, make, own, None, names), model=model)
    shape = replace(_shape_of_object(client, name, make, method, names), model=model)
    if shape.form is PROMPT and inspect.isclass(value) and not first_known(SYNONYMS["messages"], shape.whole.names):
        shape = replace(shape, keeps_history=keeps_history(client))
    settings = setting_attributes(client) if inspect.isclass(value) and not shape.is_sdk else {}
    hints = method_of((), cast("type[Any]", type(client))).hints
    return _with_system_attribute(replace(shape, default_settings=settings, attribute_hints=hints), client)


def _client_of_coroutine(client: Coroutine[Any, Any, object]) -> object | None:
    """Return the client that an asynchronous function makes, or `None` if it makes none."""
    with suppress(Exception), asyncio.Runner() as runner:  # the user's function may fail in any way
        made = runner.run(client)
        return made if type(made).__module__ not in BUILTIN_MODULES else None
    return None


def _maker_of_copies(value: object) -> Callable[[str, str, str], object]:
    copies = ObjectCopies(value)

    def make(_base_url: str, _api_key: str, _model: str) -> object:
        return copies()

    return make


def _with_system_attribute(shape: ClientShape, client: object) -> ClientShape:
    """Return the shape with the client's attribute for the system prompt, if its method has no parameter for it."""
    is_in_messages = shape.form is OPENAI and shape.compares_system_role
    if shape.is_sdk or shape.takes("system") or shape.takes("config") or is_in_messages:
        return shape
    if (attribute := system_attribute(client, shape.whole.module)) is None:
        return shape
    return replace(shape, system_attribute=attribute, default_system=attrgetter(attribute)(client))


_GENERATOR_REASON = (
    "it is a generator that gets its messages by 'send'. Write a function 'def chat(messages, tools=None)' that sends "
    "them to it and returns its answer, and name that function. If it keeps the conversation, write a loop of about "
    "ten lines instead: harness help loops"
)


def _is_factory(value: object, method: Method) -> bool:
    """Return whether a function makes a client. Its parameter `user` is no prompt then."""
    return has_name_of_class(value) and form_of_method(method) is PROMPT


def has_name_of_class(value: object) -> bool:
    """Return whether the name of a value begins with a capital letter, as the name of a class does."""
    return str(getattr(value, "__name__", ""))[:1].isupper()


def _is_function(value: object) -> bool:
    return inspect.isroutine(value) or isinstance(value, partial) or is_decorated_object(value)


def _shape_of_object(
    client: object, name: str, make: Callable[[str, str, str], object], method: str, own: Mapping[str, str]
) -> ClientShape:
    others = conversation_method_names(client)
    resource = [(RESOURCE, each) for each in METHODS] if not callable(getattr(client, RESOURCE, None)) else []
    first_sdk, *sdks = SDK_METHODS
    named = [(each,) for each in (*METHODS, "__call__", *others)]
    paths = [first_sdk, *resource, *sdks, *named]
    streams = [(each,) for each in STREAM_METHODS]
    every = [(method,)] if method else [each for each in paths if each not in streams]
    whole = _first_fitting_method(client, every) or (None if method else _first_fitting_method(client, streams))
    whole = whole or _first_body_method(client, every)
    if whole is not None:
        streams = (
            [SDK_METHODS[whole.path][1]]
            if whole.path in SDK_METHODS
            else [(*whole.path[:-1], each) for each in STREAM_METHODS]
        )
        found = ((path, each) for path in streams if callable(each := attribute_of(client, path)))
        streamed = next((_with_all_parameters(method_of(path, each), client) for path, each in found), None)
        return _make_shape(name, make, whole, streamed, own)
    if not others or inspect.ismodule(client):
        raise unknown_client(
            name, f"it is {_kind_with_article(client)} without methods. Name the class or function of the client"
        )
    methods = ", ".join(each for each in others if callable(attribute_of(client, (each,)))) or "none"
    known = ", ".join(SYNONYMS["messages"][:3])
    raise unknown_client(
        name,
        f"none of its methods ({methods}) takes messages (a parameter {known} ...) or a prompt. Which one sends a "
        f"conversation? Write a function 'def chat(messages, tools=None)' that calls it, and name that function. If it "
        f"runs tools itself, write a loop of about ten lines: harness help loops",
    )


def _first_fitting_method(client: object, paths: Iterable[tuple[str, ...]]) -> Method | None:
    """Return the first method that takes messages, or else one that takes a prompt.

    Among the latter, the first one that sends a request comes first, and then one whose prompt has a usual name. A
    method for embeddings or the like comes last.
    """
    of_prompts: list[Method] = []
    for path in paths:
        if (function := attribute_of(client, path)) is None:
            continue
        method = _with_all_parameters(method_of(path, function), client)
        form = form_of_method(method)
        if form not in (None, PROMPT):
            return method
        of_prompts += [method] if form is PROMPT else []
    return min(
        of_prompts,
        key=lambda each: (each.sends_no_conversation, _may_be_a_tool(each), not each.has_usual_prompt),
        default=None,
    )


def _first_body_method(client: object, paths: Iterable[tuple[str, ...]]) -> Method | None:
    """Return the first method of an object that takes the whole body of a request, or `None`."""
    if inspect.ismodule(client):
        return None
    found = ((path, each) for path in paths if (each := attribute_of(client, path)) is not None)
    return next((body for path, each in found if (body := body_method(method_of(path, each))) is not None), None)


def _may_be_a_tool(method: Method) -> bool:
    """Return whether a method has no usual name and sends no request, as the tools of an agent do."""
    return method.path[-1] not in (*METHODS, *STREAM_METHODS, "__call__") and not method.sends_requests


def _with_all_parameters(method: Method, client: object) -> Method:
    """Return a method with all parameters that it takes by way of another one.

    These are the parameters of the method that gets its `**options`, the tools, if another method binds them, and the
    options that other methods set. If the method takes any parameter, `max_tokens` is one of them if the client has an
    attribute of this name.
    """
    method = with_parameters_of_delegate(client, method)
    names, hints = method.names, dict[str, object]()
    if (binder := tool_binder(client)) is not None and not is_sdk_method(method):
        bound = method_of((), binder)
        names |= {"tools"} | ({"tools", "tool_choice"} & bound.names)
        hints = {name: each for name, each in bound.hints.items() if name in names}
    if method.path and not is_sdk_method(method):
        names |= option_methods(client).keys()
    if method.is_open and hasattr(client, "max_tokens") and not hasattr(client, "max_completion_tokens"):
        names |= {"max_tokens"}
    return replace(method, names=names, hints={**hints, **method.hints})


def _with_message_classes(method: Method) -> Method:
    """Return a method with classes of messages and tools that its annotations do not show.

    They are those that its code tells apart, or whose attributes it reads. Without them, the method is unchanged.
    """
    name, tools, own = method.parameter(OPENAI.messages, OPENAI), method.tools_parameter, dict[str, list[type]]()
    if name is None or form_of_method(method) is not OPENAI:
        return method
    if tools is not None and _shows_no_class(method.hints.get(tools)):
        own[tools] = class_with_attributes(method, tools, "name", "parameters")
    if _shows_no_class(method.hints.get(name)):
        own[name] = dispatched_classes(method) or class_with_attributes(method, name, "role", "content")
    found = {name: list[cast("Any", Union)[tuple(each)]] for name, each in own.items() if each}
    return replace(method, hints={**method.hints, **found})


def _shows_no_class(hint: object) -> bool:
    return not own_classes_in(hint) and "dict" not in str(hint).lower() and "Mapping" not in str(hint)


def _make_shape(
    name: str,
    make: Callable[[str, str, str], object],
    whole: Method,
    streamed: Method | None,
    own: Mapping[str, str],
) -> ClientShape:
    """Return the shape of a client whose method is known."""
    is_sdk = is_sdk_method(whole)
    whole, streamed = _with_message_classes(whole), None if streamed is None else _with_message_classes(streamed)
    given = {"model": first_known(MODELS, whole.names) or ("model" if is_sdk or whole.takes_body else None)}
    if not own:
        given |= {"base_url": first_known(BASE_URLS, whole.names), "api_key": first_known(KEYS, whole.names)}
    is_same = ("stream" in whole.names and (is_sdk or streamed is None or whole.path[0] != RESOURCE)) or (
        is_sdk and whole.is_open and whole.path[-1] == "create"
    )
    has_callback = first_known(TEXT_CALLBACKS, whole.names) is not None
    is_same = is_same or (streamed is None and (whole.always_streams or has_callback))
    return ClientShape(
        name,
        make,
        whole,
        whole if is_same else streamed,
        form_of_method(whole) or OPENAI,
        {key: value for key, value in given.items() if value is not None},
        "base_url" in own or given.get("base_url") is not None,
    )


def form_of_method(method: Method) -> Form | None:
    """Return the form of a method, or `None` if it takes neither messages nor a prompt."""
    if is_sdk_method(method):
        return SDK_METHODS[method.path][0]
    if method.receives_by_send or method.takes_conversations:
        return None
    if "contents" in method.names:
        return GEMINI
    if "instructions" in method.names and {"input", "input_items", "items"} & method.names:
        return RESPONSES
    missing = method.required - KNOWN_PARAMETERS - {*SYNONYMS["messages"], method.format_class}
    messages = first_known(SYNONYMS["messages"], method.names)
    if messages is not None and method.hints.get(messages) is not str and not missing:
        return OPENAI
    known = {*SYNONYMS["prompt"], *SYNONYMS["json_schema"], method.prompt, method.text_pairs, *method.example_names}
    if method.prompt is not None and missing <= known:
        return PROMPT
    return OPENAI if method.only_list is not None else None


def _kind_with_article(value: object) -> str:
    return "a module" if inspect.ismodule(value) else f"an object of {type(value).__name__}"


def is_value_class(value: object) -> bool:
    """Return whether a value is a class for messages, settings or exceptions, without methods of its own."""
    if not inspect.isclass(value):
        return False
    fields = ("__dataclass_fields__", "_fields", "model_fields", "__total__", "__members__")
    methods = (name for name, each in vars(value).items() if inspect.isfunction(each) and not name.startswith("_"))
    is_value = issubclass(value, BaseException) or any(hasattr(value, each) for each in fields)
    return is_value and next(methods, None) is None


def rank_of_candidate(value: object, package: str) -> int | None:
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
    if not is_class and (form_of_method(own) not in (None, PROMPT) or not has_name_of_class(value)):
        return 3 if form_of_method(own) not in (None, PROMPT) and not _makes_function(value) else None
    return next((place for place, known in enumerate((BASE_URLS, KEYS, MODELS)) if first_known(known, own.names)), None)


def _makes_function(value: object) -> bool:
    """Return whether a function returns a decorator or another function, according to its annotation or its source."""
    try:
        returned = str(inspect.signature(cast("Callable[..., object]", value)).return_annotation)
    except (TypeError, ValueError):
        return False
    return bool(re.search("Callable|Decorator", returned) or _RETURNS_FUNCTION.search(source_of(value)))


_RETURNS_FUNCTION = re.compile(r"\n\s+(?:async )?def (\w+)\((?:.*\n)*\s+return \1\b")
