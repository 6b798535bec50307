"""Arguments that select the provider in clients for several providers, and provider prefixes of model names."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import partial
from itertools import chain

from harness.bridge.clients.forms import ANTHROPIC, GEMINI, OPENAI, RESPONSES
from harness.bridge.clients.methods import Method
from harness.bridge.clients.names import MODELS, PROVIDERS, first_known

_PROVIDER_NAMES: Mapping[str, tuple[str, ...]] = {
    OPENAI.name: ("openai", "openaichat", "openaicompletions", "chatcompletions", "chatgpt", "gpt"),
    RESPONSES.name: ("openairesponses", "responses", "openai"),
    ANTHROPIC.name: ("anthropic", "claude"),
    GEMINI.name: ("gemini", "google", "googlegenai", "googleai", "genai"),
}
"""API → names of its provider in clients for several providers, in lower case and without punctuation. The best comes
first.
"""

MODEL_PREFIXES: Mapping[str, tuple[str, ...]] = {
    OPENAI.name: ("openai",),
    RESPONSES.name: ("openai",),
    ANTHROPIC.name: ("anthropic", "claude"),
    GEMINI.name: ("gemini", "google"),
}
"""API → prefixes of its models in clients for several providers."""


def providers_of(method: Method) -> dict[str, object]:
    """Return the providers that a method or constructor accepts, by API: members of an enumeration, values of a
    `Literal`, keys of dictionaries in its module or strings in its source. It is empty without a parameter for the
    provider. OpenAI Chat is left out if the code calls only OpenAI Responses.
    """
    name = provider_parameter(method)
    if name is None:
        return {}
    hint = method.hints.get(name, str)
    values = [*_listed_values(hint)]
    if not values and str in (hint, *typing.get_args(hint)):
        literals = dict.fromkeys([*re.findall(r"[\"']([\w-]+)[\"']", method.module), *method.keys])
        values = [each for each in literals if any(_is_provider(each, api) for api in _PROVIDER_NAMES)]
        values = values or ["openai", "anthropic", "gemini"]
    fitting = {api: [each for each in values if _is_provider(each, api)] for api in _PROVIDER_NAMES}
    code = method.with_imports
    if _CALLS_RESPONSES.search(code) and not re.search(_ENDPOINTS[OPENAI.name], code):
        fitting.pop(OPENAI.name, None)
    return {api: min(found, key=partial(_provider_rank, api)) for api, found in fitting.items() if found}


def provider_parameter(method: Method) -> str | None:
    """Return the parameter for the provider. It may be the `name` that a function looks up in a dictionary of its
    module.
    """
    if (name := first_known(PROVIDERS, method.names)) is not None:
        return name
    is_looked_up = "name" in method.required and re.search(r"\w\[name\b|\w\.get\(name\b", method.source)
    is_provider = any(_is_provider(each, api) for each in method.keys for api in _PROVIDER_NAMES)
    return "name" if is_looked_up and is_provider else None


def selectable_providers(method: Method) -> dict[str, object]:
    """Return the providers of a method or constructor, by API, if it gets an argument for the provider or has a default
    one. The argument may also be the model with its provider, or the model alone.
    """
    if routed := routed_providers(method):
        return dict(routed)
    if divided_model(method) is not None:
        prefixes = {api: _known_prefix(method, api) for api in MODEL_PREFIXES}
        return {api: each for api, each in prefixes.items() if each}
    name, known = provider_parameter(method), providers_of(method)
    is_known = name in method.required or name in method.preset or _is_left_open(method, known)
    return known if is_known else {}


def _is_left_open(method: Method, known: Mapping[str, object]) -> bool:
    """Return whether the code names each provider, and its parameter is none by default: another place may set it."""
    name = provider_parameter(method)
    is_none = name not in method.required and method.preset.get(str(name)) is None
    code = method.with_imports
    named = (each for each in known.values() if isinstance(each, str) and re.search(rf"[\"']{each}[\"']", code))
    return is_none and len(known) > 1 and len([*named]) == len(known)


def routed_providers(method: Method) -> dict[str, str]:
    """Return the providers, by API, of a client that chooses one by the start of the model's name. It is empty for
    other clients.
    """
    code = method.with_imports
    tests = " ".join(part for found in _TESTED_PREFIXES.findall(code) for part in found)
    if first_known(MODELS, method.names) is None or not re.search(r"[\"'](gpt|claude|gemini)\b", tests):
        return {}
    found = {api: MODEL_PREFIXES[api][0] for api, endpoint in _ENDPOINTS.items() if re.search(endpoint, code)}
    return found if len(found) > 1 else {}


_TESTED_PREFIXES = re.compile(r"\bmodel\w*\.startswith\(([^)]*\))|([\"']\w+-?[\"']) in \w*model\w*\b")
"""Code that tests for the start of the name of a model."""

_ENDPOINTS = {
    OPENAI.name: r"chat/completions|chat\.completions",
    ANTHROPIC.name: r"/messages\b|\.messages\.(create|stream)",
    GEMINI.name: r"generateContent|generate_content",
}
"""API → code that sends a request to it."""

_CALLS_RESPONSES = re.compile(r"\bresponses\.(create|stream|parse)\b|/responses\b")


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


def _provider_rank(api: str, value: object) -> int:
    return min(place for place, name in enumerate(_PROVIDER_NAMES[api]) if name in _spellings(value))


def _spellings(value: object) -> set[str]:
    """Return the names of a provider in lower case and without punctuation."""
    names = [value.name, value.value] if isinstance(value, Enum) else [value]
    return {re.sub(r"[\W_]", "", each.lower()) for each in names if isinstance(each, str)}


def provider_argument(method: Method, api: str) -> dict[str, object]:
    """Return the argument that selects the provider of an API. Without an API, it is the first provider.

    A default is kept, unless it is the provider of another API. The default `None` is kept without an API.
    """
    name, known = provider_parameter(method), providers_of(method)
    if name is None or not known:
        return {}
    default = method.preset.get(name)
    is_other = default is not None and api in known and not _is_provider(default, api)
    is_other = is_other and any(_is_provider(default, each) for each in _PROVIDER_NAMES)
    is_open = api in known and _is_left_open(method, known)
    if name in method.required or is_other or is_open:
        return {name: known.get(api, next(iter(known.values())))}
    return {}


def _known_prefix(method: Method, api: str) -> str:
    """Return the first prefix of an API's models that is in the class of a method or, if none is there, in its module.
    It is a text, or the name of a method. Return an empty string without one.
    """
    prefixes = [(each, re.compile(rf"(?:[\"']|\bdef _?){each}\b")) for each in MODEL_PREFIXES.get(api, ())]
    codes = (method.class_source, method.module)
    return next((each for code in codes for each, quoted in prefixes if quoted.search(code)), "")


def divided_model(method: Method) -> tuple[str, str] | None:
    """Return the parameter that a method divides into a provider and a model, and the character between
    them, as in `provider, _, model = name.partition("/")`.
    """
    names = "|".join(sorted(method.required | method.preset.keys())) or "(?!)"
    first, last = r"\w*(?:provider|vendor|backend)\w*", r"(?:self\.)?\w*model\w*"
    unpacked = rf"\b(?:{first}, (?:\w+, )?(?:self\.)?\w+|\w+, (?:\w+, )?{last}) ="
    code = method.source or method.class_source
    found = re.search(rf"{unpacked} ({names})\.(?:partition|split)\([\"']([/:])", code)
    return (found[1], found[2]) if found else None


def prefix_of(method: Method, api: str = "") -> str:
    """Return the provider prefix of the method's default model, such as `openai/`, or an empty string. Libraries such
    as LiteLLM need this prefix in model names. It becomes that of `api` if the default belongs to another API.
    """
    default = method.preset.get(first_known(MODELS, method.names) or "", "")
    found = re.match(r"(openai|azure|anthropic|claude|gemini|google|vertex_ai)([/:])", default)
    if found is None:
        divided, known = divided_model(method), _known_prefix(method, api or OPENAI.name)
        return f"{known}{divided[1]}" if divided is not None and known else ""
    is_other = api in MODEL_PREFIXES and not _is_provider(found[1], api)
    is_other = is_other and any(_is_provider(found[1], each) for each in _PROVIDER_NAMES)
    return f"{MODEL_PREFIXES[api][0]}{found[2]}" if is_other else found[0]
