"""Adapters for clients without a wrapper, recognised by the parameters of their constructor and of their method."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from harness.bridge.call_log import log_call
from harness.bridge.completions import completion, events, response
from harness.bridge.error_translation import failures
from harness.bridge.openai_messages import Memory, chat_arguments, plain
from harness.model.errors import MalformedResponse, PluginError, Unsupported
from harness.model.messages import ChatRequest, ChatResponse, StreamEvent
from harness.model.protocols import Adapter, Capability, Endpoint

_BASE_URLS = ("base_url", "api_base", "baseurl", "api_url", "url", "endpoint", "host")
_KEYS = ("api_key", "key", "apikey", "token", "auth_token")
_MODELS = ("model", "model_name", "model_id")
_MESSAGES = ("messages", "history", "conversation")
_SYSTEMS = ("system", "system_prompt", "instructions")
_METHODS = ("chat", "complete", "completion", "create", "generate", "invoke", "send", "ask", "run", "query")
_SDK_PATH = ("chat", "completions", "create")

_SYNONYMS = {"max_tokens": ("max_completion_tokens", "max_tokens", "max_output_tokens")}
"""Arguments of OpenAI Chat with other names, in the order of preference."""

_SETTINGS = ("max_tokens", "temperature", "top_p", "stop")

_FROM_ARGUMENTS = {
    "tools": ("tools", "parallel-tool-calls"),
    "tool_choice": ("tool-choice", "forced-tool-choice"),
    "response_format": ("json-mode", "json-schema"),
    "stream": ("streaming",),
}
"""Capabilities that a client has if its method takes an argument."""


@dataclass(frozen=True, slots=True)
class ClientShape:
    """The constructor and the method of a client, and their parameters.

    `make` takes the base URL, the key and the model. `path` leads from the client to its method; it is empty for a
    function. `names` are the parameters of the method. `is_open` is set if the method accepts arbitrary keyword
    arguments. `given` maps `base_url`, `api_key` and `model` to the method's own parameters.
    """

    name: str
    make: Callable[[str, str, str], object]
    path: tuple[str, ...]
    names: frozenset[str]
    is_open: bool
    messages: str
    given: Mapping[str, str]

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities that the parameters of the method suggest."""
        found = ["system-prompt", "history", "truncation"]
        for argument, names in _FROM_ARGUMENTS.items():
            if argument in self.names or (self.is_open and (argument != "stream" or self.path == _SDK_PATH)):
                found += names
        return frozenset(map(Capability, found))

    @property
    def sentence(self) -> str:
        """The call that this shape makes, for a message to the user."""
        named = [each for each in (*self.given.values(), self.messages, "tools", "response_format") if self.takes(each)]
        return f"{'.'.join((self.name, *self.path))}({', '.join(dict.fromkeys(named))})"

    @property
    def lacks_settings(self) -> bool:
        """Return whether the method has no parameter for a limit or a sampling setting. Such a setting is left out."""
        return any(not any(map(self.takes, _SYNONYMS.get(name, (name,)))) for name in _SETTINGS)

    def takes(self, name: str) -> bool:
        """Return whether the method takes a keyword argument."""
        return self.is_open or name in self.names


def recognise(value: object, name: str) -> ClientShape:
    """Return the shape of a class, a factory or a function.

    Raises:
        PluginError: It has no known shape. The message asks for what is missing.
    """
    if not callable(value):
        raise _unknown(name, "it is an object that is connected already. Name its class, or a function that makes it")
    own = _parameters(value)
    if _first(_MESSAGES, own):
        return _shape(name, lambda _url, _key, _model: value, (), value, own)
    if _first(_BASE_URLS, own) is None and not _is_open(value):
        wanted = ", ".join(_BASE_URLS[:3])
        raise _unknown(name, f"it takes no base URL ({wanted} ...), so its requests cannot be redirected")
    make = partial(_make, value)
    client = make("http://127.0.0.1:9/v1", "no-key", "model")
    for path in (_SDK_PATH, *((each,) for each in _METHODS)):
        method = _method(client, path)
        if method is not None and (_first(_MESSAGES, _parameters(method)) or path == _SDK_PATH):
            return _shape(name, make, path, method, _parameters(method))
    raise _unknown(name, f"none of its methods {', '.join(_METHODS[:5])} ... has a parameter 'messages'")


def adapter_for(value: object, name: str, api: str, base_url: Callable[[str], str]) -> Adapter:
    """Return an adapter for a client of a known shape. `base_url` changes the base URL of the API to the client's.

    Raises:
        PluginError: See `recognise`.
    """
    shape = recognise(value, name)

    def connect(endpoint: Endpoint, model: str) -> ShapedClient:
        return ShapedClient(shape, replace(endpoint, base_url=base_url(endpoint.base_url)), model)

    return Adapter(name, api, shape.capabilities, connect)


class ShapedClient:
    """Chat client that calls a client of a known shape."""

    def __init__(self, shape: ClientShape, endpoint: Endpoint, model: str) -> None:
        self._shape = shape
        self._memory = Memory()
        values = {"base_url": endpoint.base_url, "api_key": endpoint.api_key, "model": model}
        self._client = shape.make(endpoint.base_url, endpoint.api_key, model)
        self._given = {shape.given[key]: value for key, value in values.items() if key in shape.given}

    def chat(self, request: ChatRequest) -> ChatResponse:
        """Send a request and return its response."""
        with failures():
            answer = self._call(request)
            return response(as_completion(answer), request, self._memory)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        """Send a request with `stream=True` and yield the events."""
        extra = {"stream_options": {"include_usage": True}} if self._shape.takes("stream_options") else {}
        with failures():
            answer = self._call(request, stream=True, **extra)
            yield from events(cast("Iterable[object]", answer), request, self._memory)

    def close(self) -> None:
        """Close the client, if it can be closed."""
        close = getattr(self._client, "close", None)
        if callable(close):
            close()

    def _call(self, request: ChatRequest, **extra: object) -> object:
        shape = self._shape
        system = _first(_SYSTEMS, shape.names)
        made = chat_arguments(replace(request, system=None) if system else request, self._memory)
        if system and request.system:
            made[system] = request.system
        arguments: dict[str, Any] = {**extra, shape.messages: made.pop("messages")}
        for name, value in made.items():
            known = _first(_SYNONYMS.get(name, (name,)), shape.names)
            if known is None and not shape.is_open:
                if name in _FROM_ARGUMENTS:
                    raise Unsupported(shape.name, name, "its method takes no such argument")
                continue
            arguments[known or _SYNONYMS.get(name, (name,))[0]] = value
        answer = cast("Callable[..., object]", _method(self._client, shape.path))(**self._given, **log_call(arguments))
        return asyncio.run(_awaited(answer)) if inspect.isawaitable(answer) else answer


def as_completion(answer: object) -> object:
    """Return the answer of a client in the form of an OpenAI Chat completion.

    The answer may be a completion, a message, an object with text and calls, a list of content blocks, or a string.

    Raises:
        MalformedResponse: the answer has neither text nor calls.
    """
    if isinstance(answer, str):
        return completion(answer, reason="stop")
    fields = plain(answer)
    if "choices" in fields:
        return answer
    if fields.get("message") is not None and not isinstance(fields["message"], str):
        inner = plain(fields["message"])
        return as_completion({**fields, **inner, "message": None})
    text = next((fields[key] for key in ("text", "content", "output_text", "message", "answer") if fields.get(key)), "")
    found = next((fields[key] for key in ("tool_calls", "calls", "function_calls") if fields.get(key)), ())
    calls = [*cast("Iterable[object]", found)]
    if isinstance(text, list):
        blocks = [plain(block) for block in cast("list[object]", text)]
        calls = calls or [dict(block) for block in blocks if block.get("type") == "tool_use"]
        text = "".join(str(block.get("text") or "") for block in blocks)
    if not text and not calls and not {"text", "content", "tool_calls", "calls"} & fields.keys():
        raise MalformedResponse(f"the client returned {type(answer).__name__}, with no text and no tool calls")
    made = [_call(plain(each)) for each in calls]
    reason = next((fields[key] for key in ("finish_reason", "stop_reason", "stop") if fields.get(key)), None)
    used = plain(fields.get("usage"))
    return completion(
        str(text or ""),
        made,
        reason=str(getattr(reason, "value", reason)) if reason else "tool_calls" if made else "stop",
        model=fields.get("model"),
        read=used.get("prompt_tokens", used.get("input_tokens")),
        written=used.get("completion_tokens", used.get("output_tokens")),
    )


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    inner = plain(call.get("function")) if not isinstance(call.get("function"), str) else {"name": call["function"]}
    either = {**inner, **call}
    arguments = next((either[key] for key in ("arguments", "args", "input", "parameters") if key in either), None)
    return {
        "id": next((either[key] for key in ("id", "call_id", "tool_call_id") if either.get(key)), None),
        "name": either.get("name") or either.get("tool"),
        "args": arguments if isinstance(arguments, str) or arguments is None else json.dumps(arguments),
    }


async def _awaited(answer: Any) -> object:
    return await answer


def _constructor_names(factory: object) -> dict[str, str]:
    """Return the names that a constructor has for the base URL, the key and the model."""
    names, found = _parameters(factory), dict[str, str]()
    for key, known in (("base_url", _BASE_URLS), ("api_key", _KEYS), ("model", _MODELS)):
        name = _first(known, names) or (key if _is_open(factory) and key != "model" else None)
        if name is not None:
            found[key] = name
    return found


def call_code(value: object, shape: ClientShape) -> str:
    """Return code that makes a client's call, as the body of a function with the parameters `base_url`, `model` and
    `arguments`.
    """
    own = {"base_url": "base_url", "api_key": "'none'", "model": "model"}
    called = shape.name.partition(":")[2]
    if shape.path:
        made = ", ".join(f"{name}={own[key]}" for key, name in _constructor_names(value).items())
        called = ".".join((f"{called}({made})", *shape.path))
    given = "".join(f"{name}={own[key]}, " for key, name in shape.given.items())
    return (
        f"answer = {called}({given}**arguments)\nreturn asyncio.run(answer) if inspect.isawaitable(answer) else answer"
    )


def _make(factory: Callable[..., object], base_url: str, api_key: str, model: str) -> object:
    values = {"base_url": base_url, "api_key": api_key, "model": model}
    arguments: dict[str, object] = {name: values[key] for key, name in _constructor_names(factory).items()}
    if "max_retries" in _parameters(factory):
        arguments["max_retries"] = 0
    required = {
        each.name
        for each in inspect.signature(factory).parameters.values()
        if each.default is each.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    }
    if missing := sorted(required - arguments.keys()):
        name = getattr(factory, "__name__", "it")
        raise _unknown(
            name, f"it needs {', '.join(missing)}. Write a function (base_url, api_key, model) that makes it"
        )
    return factory(**arguments)


def _shape(
    name: str,
    make: Callable[[str, str, str], object],
    path: tuple[str, ...],
    method: object,
    names: frozenset[str],
) -> ClientShape:
    given = {"model": _first(_MODELS, names) or ("model" if path == _SDK_PATH else None)}
    if not path:
        given |= {"base_url": _first(_BASE_URLS, names), "api_key": _first(_KEYS, names)}
        if given["base_url"] is None and not _is_open(method):
            raise _unknown(name, "the function takes no base URL, so its requests cannot be redirected")
        given["base_url"] = given["base_url"] or "base_url"
    return ClientShape(
        name,
        make,
        path,
        names,
        _is_open(method),
        _first(_MESSAGES, names) or "messages",
        {key: value for key, value in given.items() if value is not None},
    )


def _method(client: object, path: tuple[str, ...]) -> object | None:
    found: object | None = client
    for name in path:
        found = getattr(found, name, None)
    return found if callable(found) else None


def _parameters(value: object) -> frozenset[str]:
    try:
        return frozenset(inspect.signature(cast("Callable[..., object]", value)).parameters)
    except (TypeError, ValueError):
        return frozenset()


def _is_open(value: object) -> bool:
    try:
        parameters = inspect.signature(cast("Callable[..., object]", value)).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(each.kind is each.VAR_KEYWORD for each in parameters)


def _first(known: Iterable[str], names: frozenset[str]) -> str | None:
    return next((name for name in known if name in names), None)


def _unknown(name: str, reason: str) -> PluginError:
    return PluginError("client", name, f"{reason}.")
