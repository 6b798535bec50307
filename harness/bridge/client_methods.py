"""Parameters of the constructors and the methods of third-party clients, and clients made with them."""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, is_dataclass, replace
from enum import Enum
from functools import cached_property, lru_cache, partial
from itertools import chain
from typing import Any, cast

from harness.bridge.call_log import call
from harness.bridge.client_formats import (
    ANTHROPIC,
    GEMINI,
    OPENAI,
    RESPONSES,
    SYNONYMS,
    Form,
    first,
    hints_of,
    is_enum,
    item_class,
    members_of,
)
from harness.model.errors import PluginError

BASE_URLS = (
    *("base_url", "api_base", "baseurl", "api_url", "api_root", "server_url", "url", "endpoint", "host"),
    *("openai_url", "anthropic_url", "gemini_url"),
)

KEYS = ("api_key", "key", "apikey", "token", "auth_token")

MODELS = ("model", "model_name", "model_id", "ai_model_id", "model_spec", "spec")

PROVIDERS = ("provider", "vendor", "llm_provider", "provider_name", "backend")

METHODS = ("chat", "complete", "completion", "create", "generate", "invoke", "send", "ask", "run", "query")

_OPENAI_PARAMETERS = ("tools", "tool_choice", "response_format", "max_tokens", "temperature", "top_p", "stop", "stream")

_ANTHROPIC_SETTINGS = frozenset({"max_tokens", "temperature", "top_p"})

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


@dataclass(frozen=True, slots=True)
class Method:
    """A client's method, as a path of attribute names from the client, with the names of its parameters.

    The path of a plain function is empty. `is_open` is set if the method accepts any keyword argument. `required` holds
    the parameters without a default, and `preset` the defaults that are non-empty strings. `hints` holds the
    annotations, `source` the source code, `class_source` that of its class and `module` that of its module, if they are
    known. `keys` holds the keys of the dictionaries of its module, if the method has a parameter for the provider.

    If the method takes a single object that holds the messages, `packed` is its parameter and the class of that object.
    The names are then the fields of the class. `annotations` holds the source of the annotations, which `hints` lacks
    if they name something that only type checkers import. `variadic` is the name of `*values` in the signature,
    and `switches` holds the parameters that are `True` or `False`, by their defaults or annotations.
    """

    path: tuple[str, ...]
    names: frozenset[str]
    is_open: bool
    required: frozenset[str] = frozenset()
    preset: Mapping[str, str] = field(default_factory=dict[str, str])
    hints: Mapping[str, object] = field(default_factory=dict[str, object])
    source: str = ""
    module: str = ""
    keys: tuple[str, ...] = ()
    class_source: str = ""
    packed: tuple[str, type] | None = None
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    variadic: str = ""
    switches: frozenset[str] = frozenset()

    def parameter(self, name: str, form: Form) -> str | None:
        """Return the name of the parameter for an argument of this message format, or `None` if the method has none."""
        known = SYNONYMS["contents" if name == form.messages == "contents" else name] if name in SYNONYMS else (name,)
        if name == "prompt":
            return self.prompt or (known[0] if self.is_open else None)
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
    def prompt(self) -> str | None:
        """The parameter for the text of the user.

        If none has a usual name, it is the only required parameter of a method that sends a request.
        """
        usual = first(SYNONYMS["prompt"], self.required) or first(SYNONYMS["prompt"], self._text_names)
        usual = usual or self._texts_by_place
        unknown = self.required - KNOWN_PARAMETERS - _NAMING_PARAMETERS
        unknown -= {"self", *SYNONYMS["messages"], *SYNONYMS["json_schema"]}
        if usual is not None or len(unknown) != 1:
            return usual
        name = next(iter(unknown))
        is_text = str in members_of(self.hints.get(name, str)) or name not in self.hints
        is_text = is_text and re.search(r"\bstr\b|_empty", self.annotations.get(name, "str")) is not None
        is_text = is_text and (str in members_of(self.hints.get(name)) or not _LISTS.search(name))
        return name if is_text and self.sends_requests else None

    @property
    def _text_names(self) -> frozenset[str]:
        """The parameters that may hold any text. One that is annotated with a choice of words or a switch may not."""
        return frozenset(each for each in self.names if not _NO_TEXT.match(self.annotations.get(each, "")))

    @property
    def _texts_by_place(self) -> str | None:
        """The parameter `*values`, if the method takes its texts by place, as in `chat(*content: str)`."""
        is_text = re.search(r"\bstr\b", self.annotations.get(self.variadic, "")) is not None
        is_chat = bool(self.path) and self.path[-1].removesuffix("_async") in (*METHODS, "stream", "__call__")
        return self.variadic if is_text and is_chat and not self.required - {"self"} else None

    def without_unused(self, names: Iterable[str]) -> Method:
        """Return the method without those of these parameters that have a default and that its code never reads."""
        try:
            tree = ast.parse(textwrap.dedent(self.source))
        except SyntaxError:
            return self
        read = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
        is_known = any(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in tree.body)
        if not is_known or read & {"locals", "vars"}:
            return self
        return replace(self, names=self.names - ({*names} - self.required - read))

    @property
    def examples(self) -> dict[str, object]:
        """Values for required parameters that name something, such as the user or the channel of a message."""
        names = self.required & _NAMING_PARAMETERS
        return {name: 1 if self.hints.get(name) is int else "example" for name in names}

    @property
    def has_usual_prompt(self) -> bool:
        """Return whether the parameter for the text of the user has a usual name."""
        return first(SYNONYMS["prompt"], self._text_names) is not None or self._texts_by_place is not None

    @property
    def sends_requests(self) -> bool:
        """Return whether the method sends a request, itself or by another function of its module."""
        known, left, seen = functions_in(self.module), [self.source], set[str]()
        while left:
            source = left.pop()
            if _SENDS.search(source):
                return True
            called = {*_CALLED.findall(source)} & known.keys() - seen
            seen |= called
            left += [known[each] for each in called]
        return False

    @property
    def prompt_list(self) -> str | None:
        """The parameter for a list of prompts, if the method takes several prompts at once."""
        name = first(("prompts", "questions"), self.names)
        return name if name is not None and item_class(self.hints.get(name)) in (None, str) else None

    @property
    def receives_by_send(self) -> bool:
        """Return whether the method is a generator that its caller sends the messages to."""
        return re.search(r"=\s*\(?yield\b", self.source) is not None

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
        tested = "" if self.mentions_images else r"content[^)]*"
        return re.search(rf"image_url|isinstance\([^)]*{tested}\b(list|str)\b", self.module) is not None

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
        converted = rf"\[[\w.]+\((?P<two>\w+)\)\s*for (?P=two) in {given}"
        wraps = rf"function_?[dD]eclarations[\"']?\s*[:=]\s*((list\()?{given}|{converted})|{each}"
        source = self.source if is_read else self.class_source
        items = {found[1] for found in re.finditer(rf"\bfor (\w+) in {given}", source)}
        reads_names = any(re.search(rf"\b{item}(\[|\.get\()[\"']name[\"']", source) for item in items)
        makes_declarations = reads_names and re.search(r"function_?[dD]eclarations", source) is not None
        return re.search(wraps, source) is not None or makes_declarations

    def takes_choice_as_text(self, parameter: str) -> bool:
        """Return whether the parameter for the tool choice takes a word or the name of a tool, not the API's object."""
        members = [*members_of(self.hints.get(parameter))]
        if members:
            has_words = any(each is str or isinstance(each, str) or is_enum(each) for each in members)
            return has_words and dict not in members
        is_name, is_key = rf"[\"']name[\"']:\s*{parameter}\b", rf"(\}}|\b[A-Z_]+)\s*(\[|\.get\(){parameter}\b"
        return parameter == "tool_mode" or bool(re.search(f"{is_name}|{is_key}", self.module))

    @property
    def takes_conversations(self) -> bool:
        """Return whether the parameter for messages is annotated as a list of lists, for several conversations."""
        name = first(SYNONYMS["messages"], self.names)
        return name is not None and _LIST_OF_LISTS.match(self.annotations.get(name, "")) is not None

    @property
    def only_list(self) -> str | None:
        """The only required parameter that has no known name, if its annotation is a list or the method takes tools."""
        unknown = self.required - KNOWN_PARAMETERS
        name = next(iter(unknown)) if len(unknown) == 1 else None
        is_list = name is not None and item_class(self.hints.get(name)) not in (None, str)
        return name if is_list or first(SYNONYMS["tools"], self.names) else None


_NAMING_PARAMETERS = frozenset(
    [
        *("user_id", "channel_id", "chat_id", "session_id", "conversation_id", "thread_id", "room_id", "customer_id"),
        *("author", "channel", "chat", "session", "session_key", "username", "user_name", "speaker", "sender"),
    ]
)
"""Names of parameters that name something and may have any value."""

_LISTS = re.compile(r"(^|_)(items|inputs|entries|parts|contents|dialogue)$")
"""Names of parameters that are lists of messages, unless an annotation says otherwise."""

_NO_TEXT = re.compile(r"(?:typing\.)?(?:Optional\[)?(?:(?:typing\.)?Literal\[|bool\b|<class 'bool'>)")
"""Start of the annotation of a parameter that takes no text of the user."""

_CALLED = re.compile(r"\b(\w+)\(")
_SENDS = re.compile(
    r"\.(create|stream|parse|post|request|urlopen|generate_content\w*|send_message\w*|a?completion|complete)\(|\burlopen\("
)
"""Code that sends a request by an SDK or an HTTP client."""


@lru_cache(maxsize=64)
def functions_in(source: str) -> Mapping[str, str]:
    """Return the sources of the functions and methods that the source of a module defines, by name."""
    try:
        nodes = [
            each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
    except SyntaxError:
        return {}
    return {each.name: "\n".join(source.splitlines()[each.lineno - 1 : each.end_lineno]) for each in nodes}


_LIST_OF_LISTS = re.compile(r"(?:[\w.]*\.)?(?:list|List|Sequence|Iterable)\[(?:[\w.]*\.)?(?:list|List|Sequence)\[")


def default_base_url(value: object, provider_url: str) -> str:
    """Return the default base URL of a constructor, or an empty string. Without a default in its signature, it is the
    base URL of the provider with a version in the source of its module.
    """
    method = method_of((), value)
    if default := method.preset.get(first(BASE_URLS, method.names) or "", ""):
        return default
    found = re.search(rf"[\"']({re.escape(provider_url)}/v\d\w*)/?[\"']", method.module)
    return found[1] if found else ""


def default_model(value: object) -> str | None:
    """Return the default model of a method or constructor, if it has one."""
    method = method_of((), value)
    return method.preset.get(first(MODELS, method.names) or "", "").removeprefix(prefix_of(method)) or None


def configured_model(value: object) -> str | None:
    """Return the default model of a constructor or of its configuration class, if there is one."""
    config = _config(value)
    return default_model(value) or (default_model(config[1]) if config is not None else None)


def try_to_make(value: Callable[..., object], api: str) -> tuple[Callable[[str, str, str], object], object, str]:
    """Create a client with the first provider, base URL and model that it accepts. Return the function that makes it,
    the client and the model.
    """
    failed: Exception | None = None
    default = default_model(value)
    models = ([default] if default else []) + [*TRIED_MODELS]
    method = method_of((), value)
    needs_provider = _provider_parameter(method) in method.required
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
        if (without := _make_without_model(make, base_url)) is not None:
            return without[0], without[1], models[0]
    raise failed or AssertionError


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


KNOWN_PARAMETERS = frozenset(
    {*BASE_URLS, *KEYS, *MODELS, *PROVIDERS, *SYNONYMS["tools"], *SYNONYMS["system"], "max_tokens"}
)
"""Known names of parameters that do not hold messages."""


def constructor_names(factory: object) -> dict[str, str]:
    """Return the parameter names for the base URL, the key and the model, in the constructor or in its configuration
    class.
    """
    config = _config(factory)
    return {**(_own_names(config[1]) if config else {}), **_own_names(factory)} or {"": ""}


def _own_names(factory: object) -> dict[str, str]:
    method, found = method_of((), factory), dict[str, str]()
    for key, known in (("base_url", BASE_URLS), ("api_key", KEYS), ("model", MODELS)):
        name = first(known, method.names) or (key if method.is_open and key != "model" else None)
        if name is not None:
            found[key] = name
    return found


def _config(factory: object) -> tuple[str, type] | None:
    """Return the constructor parameter for a configuration object with a base URL, and the class of the object."""
    if "base_url" in _own_names(factory):
        return None
    names = method_of((), factory).names
    for name, hint in hints_of(factory).items():
        if name not in names:  # the annotation of an attribute
            continue
        classes = [each for each in (hint, *typing.get_args(hint)) if inspect.isclass(each)]
        for each in classes:
            if first(BASE_URLS, method_of((), each).names) and name != "return":
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
    source = source_of(factory)
    try:
        module, kind = next(found for call, found in _SDK_CLIENTS.items() if name and call in source)
        return str(name), getattr(importlib.import_module(module), f"Async{kind}" if "await " in source else kind)
    except (StopIteration, ImportError):
        return None


def make_client(
    factory: Callable[..., object], base_url: str, api_key: str, model: str, *, api: str = "", **extra: object
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
        if (name in method.names or method.is_open) and values.get(key, True)
    }
    arguments.pop("", None)
    if "max_retries" in method.names:
        arguments["max_retries"] = 0
    config = _config(factory)
    arguments |= {**provider_argument(method, api), **extra}
    arguments |= dict.fromkeys(method.required & {*SYNONYMS["system"], *SYNONYMS["tools"]} - arguments.keys())
    if config is not None and "base_url" not in arguments:
        arguments[config[0]] = make_client(config[1], base_url, api_key, model)
    unknown = method.required - arguments.keys() - {*PROVIDERS, *BASE_URLS, *KEYS, *MODELS}
    arguments |= _example_arguments(method, unknown)
    if missing := sorted(method.required - arguments.keys()):
        name = getattr(factory, "__name__", "it")
        raise unknown_client(
            name,
            f"its constructor needs {', '.join(missing)}. Write a function that makes it, as in try_it.py: "
            f"'def make(base_url, api_key, model): return {name}(...)'. Then: harness try try_it:make",
        )
    name = first(MODELS, method.names)
    guessed = frozenset(arguments.keys() - method.names) if method.is_open else frozenset[str]()

    def make(**changed: object) -> object:
        return _call_constructor(factory, {**arguments, **changed}, guessed)

    if name not in arguments or arguments[name] != model:
        return make()
    return _call_with_prefixes(make, str(name), model, api)


def _call_constructor(
    factory: Callable[..., object], arguments: Mapping[str, object], guessed: AbstractSet[str]
) -> object:
    """Call a constructor. If it passes its `**options` on to code that rejects one of the `guessed` arguments, leave
    that argument out.
    """
    try:
        return call_with(factory, arguments)
    except TypeError as error:
        refused = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if refused is None or refused[1] not in guessed:
            raise
        rest = {name: value for name, value in arguments.items() if name != refused[1]}
        return _call_constructor(factory, rest, guessed - {refused[1]})


def _example_arguments(method: Method, names: AbstractSet[str]) -> dict[str, object]:
    """Return simple values for those parameters of a constructor whose annotations are classes of simple fields."""
    hints = {name: method.hints[name] for name in names if inspect.isclass(method.hints.get(name))}
    found = {name: _example(cast("type", hint)) for name, hint in hints.items() if is_dataclass(hint)}
    return {name: value for name, value in found.items() if value is not None}


def _example(kind: type) -> object | None:
    """Return an instance of a dataclass with a simple value in each required field, or `None` if that fails."""
    method = method_of((), kind)
    values = {name: _SIMPLE_VALUES.get(method.hints.get(name)) for name in method.required}
    with contextlib.suppress(Exception):  # the user's class may reject any value
        return kind(**values) if None not in values.values() else None
    return None


_SIMPLE_VALUES: Mapping[object, object] = {str: "example", int: 1, float: 1.0, bool: False}
"""Type → a value for a field about which nothing else is known."""


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
    `Literal`, keys of dictionaries in its module or strings in its source. It is empty without a parameter for the
    provider.
    """
    name = _provider_parameter(method)
    if name is None:
        return {}
    hint = method.hints.get(name, str)
    values = [*_listed_values(hint)]
    if not values and str in (hint, *typing.get_args(hint)):
        literals = dict.fromkeys([*re.findall(r"[\"']([\w-]+)[\"']", method.module), *method.keys])
        values = [each for each in literals if any(_is_provider(each, api) for api in _PROVIDER_NAMES)]
        values = values or ["openai", "anthropic", "gemini"]
    fitting = {api: [each for each in values if _is_provider(each, api)] for api in _PROVIDER_NAMES}
    return {api: min(found, key=partial(_provider_place, api)) for api, found in fitting.items() if found}


def _provider_parameter(method: Method) -> str | None:
    """Return the parameter for the provider. It may be the `name` that a function looks up in a dictionary of its
    module.
    """
    if (name := first(PROVIDERS, method.names)) is not None:
        return name
    is_looked_up = "name" in method.required and re.search(r"\w\[name\b|\w\.get\(name\b", method.source)
    is_provider = any(_is_provider(each, api) for each in method.keys for api in _PROVIDER_NAMES)
    return "name" if is_looked_up and is_provider else None


def selectable_providers(method: Method) -> dict[str, object]:
    """Return the providers of a method or constructor, by API, if it gets an argument for the provider or has a default
    one.
    """
    name = _provider_parameter(method)
    return providers_of(method) if name in method.required or name in method.preset else {}


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
    name, known = _provider_parameter(method), providers_of(method)
    if name is None or not known:
        return {}
    default = method.preset.get(name)
    is_other = default is not None and api in known and not _is_provider(default, api)
    is_other = is_other and any(_is_provider(default, each) for each in _PROVIDER_NAMES)
    if name in method.required or is_other:
        return {name: known.get(api, next(iter(known.values())))}
    return {}


def prefix_of(method: Method, api: str = "") -> str:
    """Return the provider prefix of the method's default model, such as `openai/`, or an empty string. Libraries such
    as LiteLLM need this prefix in model names. It becomes that of `api` if the default belongs to another API.
    """
    default = method.preset.get(first(MODELS, method.names) or "", "")
    found = re.match(r"(openai|azure|anthropic|claude|gemini|google|vertex_ai)([/:])", default)
    if found is None:
        return ""
    is_other = api in _PREFIXES and not _is_provider(found[1], api)
    is_other = is_other and any(_is_provider(found[1], each) for each in _PROVIDER_NAMES)
    return f"{_PREFIXES[api][0]}{found[2]}" if is_other else found[0]


def tool_binder(client: object) -> Callable[..., object] | None:
    """Return the method of a client that returns another client with tools, if it has one."""
    return next((each for name in ("bind_tools", "with_tools") if callable(each := getattr(client, name, None))), None)


def public_methods(client: object) -> list[str]:
    """Return the names of a client's public methods that may send a conversation. Its properties are not evaluated,
    because that may take long.
    """
    names = [each for each in dir(client) if not each.startswith("_") and not _SENDS_NO_CONVERSATION.match(each)]
    kinds = property, cached_property
    return [each for each in names if not isinstance(inspect.getattr_static(client, each, None), kinds)]


_SENDS_NO_CONVERSATION = re.compile(
    r"a?(set|get|add|append|register|count|with)_|\w*batch|model_(construct|parametrized|validate)"
)
"""Start of the names of methods that change a client, or that send several conversations at once."""


def attribute_of(client: object, path: tuple[str, ...]) -> object | None:
    """Return the function at a path of attributes from a client, or `None`."""
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
    if inspect.isclass(value) and (delegate := _constructor_delegate(value)) is not None:
        own, other = method_of(path, value.__init__), method_of((), delegate)
        return replace(
            own,
            names=(own.names | other.names) - {"self"},
            is_open=other.is_open,
            required=own.required - {"self"},
            preset={**other.preset, **own.preset},
            hints={**other.hints, **hints},
            source="",
            class_source=source_of(value),
        )
    unpacked = _unpacked_fields(parameters, hints)
    has_provider = any(each.name in (*PROVIDERS, "name") for each in named)
    kind = hints.get(required[0]) if len(required) == 1 else None
    if inspect.isclass(kind) and first(SYNONYMS["messages"], fields := frozenset(hints_of(kind))):
        own = method_of(path, kind)
        return replace(
            own, names=own.names & fields, source=source_of(value), class_source=own.module, packed=(required[0], kind)
        )
    return Method(
        path,
        frozenset(each.name for each in named) | unpacked,
        not unpacked and any(each.kind is each.VAR_KEYWORD for each in parameters),
        frozenset(required),
        {each.name: each.default for each in named if isinstance(each.default, str) and each.default},
        hints,
        "" if inspect.isclass(value) else source_of(value),
        source_of(inspect.getmodule(value)),
        _keys_of_dictionaries(inspect.getmodule(value)) if has_provider else (),
        source_of(type(value.__self__) if inspect.ismethod(value) else value),
        annotations={each.name: str(each.annotation) for each in parameters},
        switches=frozenset(
            each.name for each in named if isinstance(each.default, bool) or hints.get(each.name) is bool
        ),
        variadic=next((each.name for each in parameters if each.kind is each.VAR_POSITIONAL), ""),
    )


def call_with(
    function: Callable[..., object], arguments: Mapping[str, object], described: Callable[..., object] | None = None
) -> object:
    """Call third-party code with arguments by name. The list for its `*values` is passed as single arguments.

    `described` has the signature, if `function` itself does not show it.
    """
    signature = [*inspect.signature(described or function).parameters.values()]
    kinds = [each.kind for each in signature]
    place = kinds.index(inspect.Parameter.VAR_POSITIONAL) if inspect.Parameter.VAR_POSITIONAL in kinds else None
    if place is None or signature[place].name not in arguments:
        return call(function, **arguments)
    by_place = [arguments.get(each.name, each.default) for each in signature[:place]]
    given = arguments[signature[place].name]
    values = [given] if isinstance(given, str) else cast("list[object]", given)
    placed = {each.name for each in signature[: place + 1]}
    by_name = {name: value for name, value in arguments.items() if name not in placed}
    return call(function, *by_place, *values, **by_name)


def _constructor_delegate(kind: type) -> Callable[..., object] | None:
    """Return the method that the constructor of a class passes its `**options` on to, if there is one."""
    constructor = vars(kind).get("__init__")
    found = re.search(r"\bself\.(\w+)\([^()]*\*\*", source_of(constructor)) if constructor is not None else None
    method = getattr(kind, found[1], None) if found else None
    return method if inspect.isfunction(method) else None


def _keys_of_dictionaries(module: object) -> tuple[str, ...]:
    """Return the texts that are keys of the dictionaries of a module."""
    members = {**getattr(module, "__dict__", {})}  # a copy, because reading a member may import others
    tables = [cast("dict[object, object]", each) for each in members.values() if isinstance(each, dict)]
    return tuple(key for each in tables for key in [*each] if isinstance(key, str))


def _unpacked_fields(parameters: Iterable[inspect.Parameter], hints: Mapping[str, object]) -> frozenset[str]:
    """Return the keys of `options` in a signature with `**options: Unpack[Options]`."""
    kinds = (typing.get_args(hints.get(each.name)) for each in parameters if each.kind is each.VAR_KEYWORD)
    return frozenset(name for found in kinds for kind in found if hasattr(kind, "__total__") for name in hints_of(kind))


def _hints_of(value: object) -> Mapping[str, object]:
    """Return the annotations of a function, class or method. A method without any has those of the one it overrides."""
    found = hints_of(value)
    if found or not inspect.ismethod(value):
        return found
    bases = (vars(each).get(value.__name__) for each in type(value.__self__).__mro__)
    return next((hints for each in bases if (hints := hints_of(each))), found)


def with_parameters_of_delegate(client: object, method: Method) -> Method:
    """Return a method that passes its `**options` on to another method of the client with that method's parameters."""
    found = re.search(r"\bself\.(\w+)\([^()]*\*\*", method.source) if method.is_open else None
    delegate = None if found is None else attribute_of(client, (found[1],))
    if delegate is None:
        return method
    other = method_of((), delegate)
    return replace(
        method, names=method.names | other.names, is_open=other.is_open, hints={**other.hints, **method.hints}
    )


def source_of(value: object) -> str:
    """Return the source of a class, function, method or module, or an empty text if there is none."""
    try:
        return _read_source(value.__func__ if inspect.ismethod(value) else value)
    except (OSError, TypeError):
        return ""


@lru_cache(maxsize=512)
def _read_source(value: object) -> str:
    """Return the source of a value. For each class, Python before 3.13 parses the whole module."""
    return inspect.getsource(cast("Any", value))


def unknown_client(name: str, reason: str) -> PluginError:
    """Return the error for a client that cannot be recognised."""
    return PluginError("client", name, f"{reason}.")
