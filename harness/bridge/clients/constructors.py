"""Clients made with the constructors and factories of third-party code."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import is_dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, cast

from harness.bridge.clients.annotations import hints_of, item_class, members_of
from harness.bridge.clients.example_objects import example_maker, implementations
from harness.bridge.clients.invocation import call_with, wait_for
from harness.bridge.clients.methods import Method, method_of, public_methods
from harness.bridge.clients.names import BASE_URLS, KEYS, MODELS, NAMING_PARAMETERS, PROVIDERS, SYNONYMS, first_known
from harness.bridge.clients.provider_arguments import (
    MODEL_PREFIXES,
    divided_model,
    prefix_of,
    provider_argument,
    provider_parameter,
    providers_of,
)
from harness.bridge.clients.sources import merges_options, source_of
from harness.bridge.clients.user_answers import callback_arguments
from harness.model.errors import PluginError

TRIED_MODELS = ("model", "gpt-4.1", "claude-opus-4-8", "gemini-2.5-flash")
"""Model names to try when a client is created for inspection. Some clients look the name up in a table and reject
unknown models.
"""

EXAMPLE_MODELS: Mapping[str, str] = {
    **dict(zip(("openai-chat", "anthropic", "gemini"), TRIED_MODELS[1:], strict=True)),
    "openai-responses": "gpt-5.4",  # it accepts settings for reasoning
}
"""API → model name to try for a client that chooses its provider by the model, or whose default is not known."""


def default_base_url(value: object, provider_url: str) -> str:
    """Return the default base URL of a constructor, or an empty string. Without a default in its signature, it is the
    base URL of the provider with a version in the source of its module.
    """
    method = method_of((), value)
    if default := method.preset.get(first_known(BASE_URLS, method.names) or "", ""):
        return default
    found = re.search(rf"[\"']({re.escape(provider_url)}/v\d\w*)/?[\"']", method.module)
    return found[1] if found else ""


def default_model(value: object) -> str | None:
    """Return the default model of a method or constructor, if it has one."""
    method = method_of((), value)
    return method.preset.get(first_known(MODELS, method.names) or "", "").removeprefix(prefix_of(method)) or None


def configured_model(value: object) -> str | None:
    """Return the default model of a constructor or of its configuration class, if there is one."""
    config = _configuration_parameter(value)
    return default_model(value) or (default_model(config[1]) if config is not None else None)


def configuration_method(value: object) -> Method | None:
    """Return the constructor of the configuration object that a constructor takes, or `None`. Its code includes that of
    the outer class, which reads the configuration.
    """
    if (config := _configuration_parameter(value)) is None:
        return None
    inner = method_of((), config[1])
    return replace(inner, module=f"{inner.module}\n{method_of((), value).module}")


def returns_one_object(value: object, client: object) -> bool:
    """Return whether a function without known parameters returns the same client in each call, as a cached one does."""
    function = cast("Callable[..., object]", value)
    has_parameters = any(constructor_names(value).values())
    if inspect.isclass(value) or not inspect.isfunction(inspect.unwrap(function)) or has_parameters:
        return False
    try:
        return function() is client
    except Exception:  # noqa: BLE001 - the user's function may fail in any way
        return False


def try_to_make(
    value: Callable[..., object], api: str, **extra: object
) -> tuple[Callable[[str, str, str], object], object, str]:
    """Create a client with the first provider, base URL and model that it accepts. Return the function that makes it,
    the client and the model. `extra` are further arguments of its constructor.
    """
    failed: Exception | None = None
    default = default_model(value)
    models = ([default] if default else []) + [*TRIED_MODELS]
    method = method_of((), value)
    needs_provider = provider_parameter(method) in method.required
    apis = [api] if api or not needs_provider else [*providers_of(method), ""]
    for each, base_url in ((each, base) for each in apis for base in ("http://127.0.0.1:9/v1", "http://127.0.0.1:9")):
        make = partial(make_client, value, api=each, **extra)
        for model in models:
            try:
                return make, _enter_context(make(base_url, "no-key", model)), model
            except PluginError:
                raise
            except Exception as error:  # noqa: BLE001 - the user's constructor may fail in any way
                failed = failed or error
        if (without := _make_without_model(make, base_url)) is not None:
            return without[0], without[1], models[0]
    raise failed or AssertionError


def _enter_context(client: Any) -> object:
    """Return the client that a function with the decorator `contextmanager` yields, or an unchanged other client."""
    if type(client).__module__ != contextlib.__name__:
        return client
    if hasattr(client, "__enter__"):
        return client.__enter__()
    with asyncio.Runner() as runner:
        return runner.run(wait_for(client.__aenter__()))


def _make_without_model(
    make: Callable[[str, str, str], object], base_url: str
) -> tuple[Callable[[str, str, str], object], object] | None:
    """Return the function that makes a client without a model, and the client, if its constructor takes either a base
    URL or a model. Its method gets the model then.
    """

    def without(url: str, key: str, _model: str) -> object:
        return make(url, key, "")

    try:
        client = without(base_url, "no-key", "")
    except Exception:  # noqa: BLE001 - the user's constructor may fail in any way
        return None
    return without, client


def constructor_names(factory: object) -> dict[str, str]:
    """Return the parameter names for the base URL, the key and the model, in the constructor or in its configuration
    class.
    """
    config = _configuration_parameter(factory)
    return {**(_own_constructor_names(config[1]) if config else {}), **_own_constructor_names(factory)} or {"": ""}


def constructor_method(factory: object) -> Method:
    """Return a constructor, with the parameters of its configuration class if it takes an object of one."""
    method, config = method_of((), factory), _configuration_parameter(factory)
    if config is None:
        return method
    inner = method_of((), config[1])
    return replace(method, names=method.names | inner.names, hints={**inner.hints, **method.hints})


def _own_constructor_names(factory: object) -> dict[str, str]:
    method, found = method_of((), factory), dict[str, str]()
    names = frozenset(each for each in method.names if not _takes_settings(method.hints.get(each)))
    is_open = method.is_open and not merges_options(factory)
    for key, known in (("base_url", BASE_URLS), ("api_key", KEYS), ("model", MODELS)):
        name = first_known(known, names) or (key if is_open and key != "model" else None)
        if name is not None:
            found[key] = name
    if "model" not in found and (divided := divided_model(method)) is not None:
        found["model"] = divided[0]
    return found


def _takes_settings(hint: object) -> bool:
    """Return whether a parameter takes an object with settings, such as `endpoint: EndpointSettings`, and no text."""
    kinds = [*members_of(hint)]
    return bool(kinds) and all(is_dataclass(each) or hasattr(each, "model_fields") for each in kinds)


def _configuration_parameter(factory: object) -> tuple[str, type] | None:
    """Return the constructor parameter for a configuration object, and the class of that object."""
    if "base_url" in _own_constructor_names(factory):
        return None
    names = method_of((), factory).names
    for name, hint in hints_of(factory).items():
        if name not in names:  # the annotation of an attribute
            continue
        classes = [each for each in (hint, *typing.get_args(hint)) if inspect.isclass(each)]
        for each in [kind for every in classes for kind in (every, *implementations(every))]:
            if name != "return" and _is_configuration(each, is_item=item_class(hint) is each):
                return name, each
    return injected_client(factory)


def _is_configuration(kind: type[Any], *, is_item: bool) -> bool:
    """Return whether a class holds the configuration of a client: a base URL, or the tools or the model of an agent.

    The items of a list, such as tools with a model for their arguments, have no agent's configuration.
    """
    names = method_of((), kind).names
    holds_fields = is_dataclass(kind) or hasattr(kind, "model_fields")
    is_of_agent = holds_fields and bool(names & {"tools", "toolset", "model", "model_name"})
    return first_known(BASE_URLS, names) is not None or (is_of_agent and not is_item and "messages" not in names)


_SDK_CLIENTS = {
    ".chat.completions": ("openai", "OpenAI"),
    ".responses.": ("openai", "OpenAI"),
    ".messages.": ("anthropic", "Anthropic"),
}
"""Method of an SDK's client → its module and the name of its class."""


def injected_client(factory: object) -> tuple[str, type] | None:
    """Return the parameter of a constructor or function for a client of a provider's SDK, recognised by its name, and
    the class of that client.

    The SDK methods that the source of the class or function calls identify the SDK.
    """
    name = next((each for each in method_of((), factory).required if re.search("client|sdk", each)), None)
    source = source_of(factory)
    try:
        module, kind = next(found for call, found in _SDK_CLIENTS.items() if name and call in source)
        return str(name), getattr(importlib.import_module(module), f"Async{kind}" if "await " in source else kind)
    except (StopIteration, ImportError):
        return None


def make_client(
    factory: Callable[..., object], base_url: str, api_key: str, model: str, /, *, api: str = "", **extra: object
) -> object:
    """Return a client that sends its requests to `base_url`. `extra` are further arguments of its constructor.

    Without a base URL, the client uses its default. If the client serves several providers, it gets that of `api`. If
    its constructor rejects the model, the model gets the prefix of its provider, as in `openai/gpt-4.1`.
    """
    method = method_of((), factory)
    values = {"base_url": base_url, "api_key": api_key, "model": prefix_of(method, api) + model}
    arguments: dict[str, object] = {
        name: values[key]
        for key, name in constructor_names(factory).items()
        if key and (name in method.names or method.is_open) and values.get(key, True)
    }
    if "max_retries" in method.names:
        arguments["max_retries"] = 0
    config = _configuration_parameter(factory)
    inner = {name: extra.pop(name) for name in extra.keys() - method.names if config and not method.is_open}
    arguments |= {**provider_argument(method, api), **extra}
    if (chosen := _class_of_provider(factory, method, arguments)) is not None and not chosen.is_open:
        arguments = {name: each for name, each in arguments.items() if name in method.names | chosen.names}
    arguments |= dict.fromkeys(method.required & {*SYNONYMS["system"], *SYNONYMS["tools"]} - arguments.keys())
    if config is not None and "base_url" not in arguments:
        inner = {**provider_argument(configuration_method(factory) or method, api), **inner}
        arguments[config[0]] = make_client(config[1], base_url, api_key, model, api="", **inner)
    unknown = method.required - arguments.keys() - {*PROVIDERS, *BASE_URLS, *KEYS, *MODELS}
    arguments |= _example_arguments(method, unknown) | callback_arguments(method)
    arguments |= _example_objects(factory, method, unknown - arguments.keys(), values)
    if missing := sorted(method.required - arguments.keys()):
        name = getattr(factory, "__name__", "it")
        if inspect.isfunction(factory) and not constructor_names(factory).keys() & {"base_url", "api_key", "model"}:
            raise unknown_client(
                name, f"it takes {', '.join(missing)}, but no messages and no prompt. {_NAME_FUNCTION}"
            )
        raise unknown_client(
            name,
            f"its constructor needs {', '.join(missing)}. Write a function that makes it, as in try_it.py: "
            f"'def make(base_url, api_key, model): return {name}(...)'. Then: harness try try_it:make",
        )
    name = first_known(MODELS, method.names)
    guessed = frozenset(arguments.keys() - method.names) if method.is_open else frozenset[str]()

    def make(**changed: object) -> object:
        return _call_constructor(factory, {**arguments, **changed}, guessed)

    if name not in arguments or arguments[name] != model:
        return make()
    return _call_with_prefixes(make, str(name), model, api)


def _class_of_provider(factory: object, method: Method, arguments: Mapping[str, object]) -> Method | None:
    """Return the constructor that a dictionary of the module has for the provider of a class with `**options`, or
    `None`.

    Such a class may keep its options, and pass them on only later.
    """
    name = provider_parameter(method) if method.is_open else None
    provider = arguments.get(str(name), method.preset.get(str(name)))
    members: dict[str, Any] = getattr(getattr(factory, "__init__", None), "__globals__", {})
    read = {*re.findall(r"\w+", method.class_source)} if inspect.isclass(factory) else ()
    tables = (cast("dict[object, object]", each) for key, each in members.items() if key in read and type(each) is dict)
    found = (each.get(provider) for each in tables)
    return next((method_of((), each) for each in found if inspect.isclass(each)), None)


def _example_objects(
    factory: Callable[..., object], method: Method, names: AbstractSet[str], values: Mapping[str, str]
) -> dict[str, object]:
    """Return objects for those of the required parameters of a constructor for which one can be made."""
    found: dict[str, object] = {}
    for name in names:
        hint = method.hints.get(name)
        if (made := _inner_client(hint, factory, values)) is not None:
            found[name] = made
        elif (make_example := example_maker(name, hint, factory, values)) is not None:
            found[name] = make_example()
    return found


def _inner_client(hint: object, outer: object, values: Mapping[str, str]) -> object | None:
    """Return an instance of a class of the same module that sends the requests of an object, or `None`.

    Its `**options` get nothing, because it may put them into each request.
    """
    module = getattr(outer, "__module__", None)
    if not inspect.isclass(hint) or hint.__module__ != module or inspect.isabstract(hint):
        return None
    method = method_of((), hint)
    given: dict[str, object] = {
        name: values[key] for key, name in constructor_names(hint).items() if name in method.names
    }
    sends = any(each.sends_requests for each in public_methods(hint))
    with contextlib.suppress(Exception):  # the user's constructor may fail in any way
        return call_with(hint, given) if sends and method.required <= given.keys() else None
    return None


_NAME_FUNCTION = (
    "If it calls a model, write a function 'def chat(messages, tools=None)' that calls it and returns its answer, and "
    "name that function"
)


def _call_constructor(
    factory: Callable[..., object], arguments: Mapping[str, object], guessed: AbstractSet[str]
) -> object:
    """Call a constructor. If it passes its `**options` on to code that rejects one of the `guessed` arguments, leave
    that argument out.
    """
    try:
        return call_with(factory, method_of((), factory).packed_arguments(arguments))
    except TypeError as error:
        refused = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if refused is None or refused[1] not in guessed:
            raise
        rest = {name: value for name, value in arguments.items() if name != refused[1]}
        return _call_constructor(factory, rest, guessed - {refused[1]})


def _example_arguments(method: Method, names: AbstractSet[str]) -> dict[str, object]:
    """Return simple values for those parameters of a constructor that name something or limit a number of requests."""
    hints = {name: method.hints[name] for name in names if inspect.isclass(method.hints.get(name))}
    found: dict[str, object] = {name: "example" for name in names & _NAMES if hints.get(name, str) is str}
    return found | {name: _EXAMPLE_LIMIT for name in names if _LIMITS.search(name) and hints.get(name, int) is int}


_NAMES = NAMING_PARAMETERS | {"name", "title", "description", "agent_name", "bot_name", "role", "purpose"}
_LIMITS = re.compile("^(max|limit)_|(^|_)(retries|rounds|steps|turns|iterations)$")
_EXAMPLE_LIMIT = 20


def _call_with_prefixes(make: Callable[..., object], name: str, model: str, api: str) -> object:
    """Call a constructor with a model. If that fails, try the model with the prefixes of its provider."""
    known = MODEL_PREFIXES.get(api, ()) if api else [*chain.from_iterable(MODEL_PREFIXES.values())]
    try:
        return make()
    except Exception:
        for prefix in (f"{each}{sign}" for each in known for sign in "/:"):
            with contextlib.suppress(Exception):
                return make(**{name: prefix + model})
        raise


def unknown_client(name: str, reason: str) -> PluginError:
    """Return the error for a client that cannot be recognised."""
    return PluginError("client", name, f"{reason}.")
