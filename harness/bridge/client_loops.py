"""Tool loops from classes without a wrapper: those whose tools are functions, and those that keep their history."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from keyword import iskeyword
from typing import Any, cast

from harness.bridge.call_log import BoundMethod, call
from harness.bridge.client_answers import OwnCall, own_calls
from harness.bridge.client_formats import FORMS, GEMINI, OPENAI, SYNONYMS, Declaration, as_annotated, first
from harness.bridge.client_shapes import (
    METHODS,
    Method,
    keeps_history,
    make_client,
    method_of,
    system_attribute,
    wait_for,
)
from harness.bridge.openai_messages import Memory
from harness.model.errors import RECOGNISED_CLIENT, ToolFailed, Unsupported
from harness.model.messages import ChatRequest, Message, Role, Text, Tool
from harness.model.protocols import Conversation, ConversationTool, Drive, Endpoint


def agent_drive(value: object, api: str = "") -> Drive | None:
    """Return a function that runs conversations with a class whose tools are Python functions.

    Return `None` for a class of another kind.

    The functions are given to its constructor or to the method that takes a prompt. `api` is the API that it uses.
    """
    if not inspect.isclass(value):
        return None
    made = method_of((), value)
    runs = (method_of((name,), each) for name in METHODS if callable(each := getattr(value, name, None)))
    run = next((each for each in runs if first(SYNONYMS["prompt"], each.names)), None)
    holder = next((each for each in (made, run) if each is not None and first(SYNONYMS["tools"], each.names)), None)
    if run is None or holder is None:
        return None
    tools, prompt = str(first(SYNONYMS["tools"], holder.names)), str(first(SYNONYMS["prompt"], run.names))
    hint = holder.hints.get(tools)
    if "Callable" not in str(hint) and not re.search(r"\.__name__|inspect\.signature", run.module):
        return None

    def drive(endpoint: Endpoint, model: str, conversation: Conversation) -> None:
        given = {tools: _as_functions(conversation.tools, str(hint))}
        own = _system_argument(made, conversation)
        own |= given if holder is made else {}
        agent = make_client(value, endpoint.base_url, endpoint.api_key, model, api=api, **own)
        function = BoundMethod(agent, run.path)
        if len(conversation.turns) > 1 and not keeps_history(agent):
            raise Unsupported(RECOGNISED_CLIENT, "a second turn", "each call of its method is a conversation")
        for turn in conversation.turns:
            text = "".join(part.text for part in turn.parts if isinstance(part, Text))
            answer = call(function, **{prompt: text}, **(given if holder is not made else {}))
            if inspect.isawaitable(answer):
                asyncio.run(cast("Any", wait_for(answer)))

    return drive


def _system_argument(made: Method, conversation: Conversation) -> dict[str, str]:
    """Return the constructor's argument for the system prompt. Without a system prompt, one that has a default is left
    out.
    """
    names = made.names & {*SYNONYMS["system"]}
    return dict.fromkeys(names if conversation.system else names & made.required, conversation.system or "")


def session_drive(value: object, api: str) -> SessionDrive | None:
    """Return a drive that runs conversations with a class that keeps its history. Return `None` for other classes.

    The class has a method for a prompt, and either a method that accepts the results of calls or one that registers a
    tool with its handler. `api` is the API that it uses.
    """
    if not inspect.isclass(value):
        return None
    named = inspect.getmembers(value, inspect.isfunction)
    methods = [method_of((name,), each) for name, each in named if not name.startswith("_")]
    prompts = sorted((each for each in methods if _takes_only_a_prompt(each)), key=_place_among_methods)
    results = next((each for each in methods if _takes_results(each)), None)
    declaring = (each for each in methods if _tool_arguments(each))
    handlers = next((each for each in declaring if results is not None or "handler" in _tool_arguments(each)), None)
    is_stateless = any(first(SYNONYMS["messages"], each.names) for each in methods if each.path[0] in METHODS)
    if not prompts or is_stateless or (results is None and handlers is None):
        return None
    return SessionDrive(value, api, prompts[0], results, handlers, methods)


_RESULT_METHOD = re.compile("(tool|function|call)_?(result|output|response)s?$")
_RESUMING_METHODS = ("resume", "continue_", "proceed", "step", "next", "run", "complete", "generate", "send")
_CALL_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "call": ("call", "tool_call", "function_call", "tool_use"),
    "id": ("call_id", "tool_call_id", "tool_use_id", "id"),
    "name": ("name", "tool_name", "function_name", "tool"),
    "content": ("result", "output", "content", "value", "response", "text", "data"),
    "is_error": ("is_error", "error", "failed"),
}
"""Maps the parts of a tool result to the names of parameters and keys for them."""

_HANDLER_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "name": ("name", "tool_name"),
    "handler": ("handler", "function", "fn", "func", "callback", "run"),
    "description": ("description", "doc"),
    "parameters": ("parameters", "schema", "input_schema", "json_schema", "params"),
}
"""Maps the parts of a tool with a handler to the names of parameters for them."""


def _takes_only_a_prompt(method: Method) -> bool:
    prompt = first(SYNONYMS["prompt"], method.names)
    is_other = _RESULT_METHOD.search(method.path[0]) or _tool_arguments(method)
    return prompt is not None and method.required <= {"self", prompt} and not is_other


def _takes_results(method: Method) -> bool:
    """Return whether a method accepts the results of all calls, or a result with its call."""
    if not _RESULT_METHOD.search(method.path[0]):
        return False
    named, required = _result_parameters(method), method.required - {"self"}
    return required <= {*named.values()} if named else len(required) == 1


def _result_parameters(method: Method) -> dict[str, str]:
    """Return the parameters of a method that accepts one result, by their meaning; `{}` for one that accepts all."""
    named = {key: name for key, known in _CALL_PARAMETERS.items() if (name := first(known, method.names))}
    return named if "content" in named and named.keys() & {"id", "call"} else {}


def _place_among_methods(method: Method) -> int:
    return METHODS.index(method.path[0]) if method.path[0] in METHODS else len(METHODS)


def _tool_arguments(method: Method) -> dict[str, str]:
    """Return the parameters of a method that registers a tool, possibly with its handler, by their meaning."""
    found = {key: name for key, names in _HANDLER_PARAMETERS.items() if (name := first(names, method.names))}
    is_whole = {"name", "parameters"} <= found.keys()
    return found if is_whole and method.required <= {"self", *found.values()} else {}


_BARE_TOOLS = re.compile(
    r"function_?[dD]eclarations[\"']?\s*[:=]\s*(list\()?(self\.)?_?tools\b|\*\*(\w+)[^{}]*\}\s*for \3 in"
)
"""Code that adds the enclosing object of the API to each tool."""

_NO_MESSAGES = (Message(Role.USER, (Text("Hello"),)),)


@dataclass(frozen=True, slots=True)
class SessionDrive:
    """Drive for a class that keeps its history, with its methods for a prompt, for results and for tools."""

    factory: type
    api: str
    prompt: Method
    results: Method | None
    handlers: Method | None
    methods: Sequence[Method]

    @property
    def ignored(self) -> tuple[str, ...]:
        """The rules that the class cannot satisfy."""
        has_flag = self.results is None or "is_error" in self.results.source
        has_flag = has_flag or (self.results is not None and "is_error" in _result_parameters(self.results))
        return () if has_flag else ("error-flag",)

    def __call__(self, endpoint: Endpoint, model: str, conversation: Conversation) -> None:
        """Run a conversation."""
        if any(not isinstance(part, Text) for turn in conversation.turns for part in turn.parts):
            raise Unsupported(RECOGNISED_CLIENT, "a message that is not a text", "its method has a prompt")
        client = self._make_client(endpoint, model, conversation)
        for tool in conversation.tools:
            if self.handlers is not None:
                _register(client, self.handlers, tool)
        prompt = str(first(SYNONYMS["prompt"], self.prompt.names))
        with asyncio.Runner() as runner:
            for turn in conversation.turns:
                text = "".join(part.text for part in turn.parts if isinstance(part, Text))
                answer = _call_method(runner, client, self.prompt, {prompt: text})
                for _ in range(conversation.max_answers):
                    calls = own_calls(answer) or _pending_calls(client)
                    if not calls or self.results is None:
                        break
                    answer = self._submit(runner, client, self.results, conversation, calls)

    def _make_client(self, endpoint: Endpoint, model: str, conversation: Conversation) -> object:
        """Return a new client, with the tools and the system prompt of a conversation."""
        made = method_of((), self.factory)
        own: dict[str, object] = {**_system_argument(made, conversation)}
        tools = first(SYNONYMS["tools"], made.names)
        if conversation.tools and self.handlers is None and tools is None:
            raise Unsupported(RECOGNISED_CLIENT, "tools", "its constructor has no such argument")
        if conversation.tools and self.handlers is None:
            own[str(tools)] = self._declarations(model, conversation)
        client = make_client(self.factory, endpoint.base_url, endpoint.api_key, model, api=self.api, **own)
        if conversation.system and not own.keys() & {*SYNONYMS["system"]}:
            attribute = system_attribute(client, self.prompt.module)
            if attribute is None:
                raise Unsupported(RECOGNISED_CLIENT, "system", "it has no such argument")
            setattr(client, attribute, conversation.system)
        return client

    def _declarations(self, model: str, conversation: Conversation) -> list[dict[str, Any]]:
        """Return the tools in the format that the constructor expects, according to the source of the class."""
        tools = tuple(Tool(each.name, each.description, each.parameters) for each in conversation.tools)
        is_bare = _BARE_TOOLS.search(self.prompt.module) is not None
        if is_bare and self.api != GEMINI.name:
            return [
                {"name": each.name, "description": each.description, "parameters": each.parameters} for each in tools
            ]
        is_read = not is_bare and re.search(r"\bfor \w+ in (self\.)?_?tools\b", self.prompt.module)
        form = OPENAI if is_read else FORMS.get(self.api, OPENAI)
        made = form.arguments(ChatRequest(model, _NO_MESSAGES, tools=tools), Memory(), model, frozenset())
        lists = (each["functionDeclarations"] if is_bare else [each] for each in made["tools"])
        return [*map(Declaration, chain.from_iterable(lists))]

    def _submit(
        self, runner: asyncio.Runner, client: object, method: Method, conversation: Conversation, calls: Sequence[Any]
    ) -> object:
        """Run the tools, give their results to the client, and return its next answer."""
        results = [_result_of(conversation, each, as_value="json.dumps" in method.source) for each in calls]
        if named := _result_parameters(method):
            answer = None
            for each in results:
                answer = _call_method(runner, client, method, {name: each[key] for key, name in named.items()})
            return answer if answer is not None and answer is not client else self._resume(runner, client)
        (name,) = method.required - {"self"}
        return _call_method(runner, client, method, {name: _collection(method, name, results)})

    def _resume(self, runner: asyncio.Runner, client: object) -> object:
        free = {each.path[0]: each for each in self.methods if each.required <= {"self"}}
        if (name := first(_RESUMING_METHODS, frozenset(free))) is None:
            raise Unsupported(RECOGNISED_CLIENT, "results of tools", "no method continues after them")
        return _call_method(runner, client, free[name], {})


def _register(client: object, method: Method, tool: ConversationTool) -> None:
    def handler(*args: Any, **arguments: Any) -> str:
        return tool.text({**(args[0] if args and isinstance(args[0], dict) else {}), **arguments})

    handler.__name__ = tool.name
    parts = {"name": tool.name, "handler": handler, "description": tool.description, "parameters": tool.parameters}
    named = _tool_arguments(method)
    call(BoundMethod(client, method.path), **{name: parts[key] for key, name in named.items()})


def _call_method(runner: asyncio.Runner, client: object, method: Method, arguments: Mapping[str, object]) -> object:
    answer = call(BoundMethod(client, method.path), **arguments)
    answer = runner.run(wait_for(answer)) if inspect.isawaitable(answer) else answer
    return [*cast("Iterator[object]", answer)] if isinstance(answer, Iterator) else answer


def _pending_calls(client: object) -> list[OwnCall]:
    """Return the calls that a client holds in an attribute until they have results."""
    own = cast("dict[str, object]", getattr(client, "__dict__", {}))
    return next(
        (calls for name, each in own.items() if _PENDING.search(name) and (calls := own_calls(each))), list[OwnCall]()
    )


_PENDING = re.compile("pending|calls$")


def _result_of(conversation: Conversation, made: OwnCall, *, as_value: bool) -> dict[str, object]:
    own, call_id, name, arguments = made
    tool = next((each for each in conversation.tools if each.name == name), None)
    found: dict[str, object] = {"call": own, "id": call_id, "name": name, "is_error": tool is None}
    if tool is None:
        return {**found, "content": f"there is no tool {name}"}
    try:
        value = tool.call(arguments) if as_value else tool.text(arguments)
        return {**found, "content": tool.text(arguments) if isinstance(value, tuple) else value}
    except ToolFailed as failed:
        return {**found, "content": str(failed), "is_error": True}


def _collection(method: Method, name: str, results: Sequence[Mapping[str, object]]) -> object:
    """Return all results in the form that a method takes: a dictionary by id, pairs, or a list of objects."""
    hint = str(method.hints.get(name))
    if re.match(r"dict|typing\.(Dict|Mapping)|collections\.abc\.Mapping", hint) or f"{name}.items()" in method.source:
        return {str(each["id"]): each["content"] for each in results}
    if re.search(rf"for \(?\w+, \w+\)? in {name}\b", method.source):
        return [(each["id"], each["content"]) for each in results]
    used = re.findall(r"[\"'](\w+)[\"']", method.source)
    keys = {alias: key for key, known in _CALL_PARAMETERS.items() if key != "call" for alias in known}
    keys = {alias: key for alias, key in keys.items() if alias in used} or keys
    return as_annotated([{alias: each[key] for alias, key in keys.items()} for each in results], method.hints.get(name))


def _as_functions(tools: Sequence[ConversationTool], hint: str) -> object:
    """Return tools as functions: a list, or a dictionary by name, with each declaration if the annotation has it."""
    made = {each.name: _as_function(each) for each in tools}
    if not hint.startswith(("dict", "typing.Dict", "collections.abc.Mapping", "typing.Mapping")):
        return [*made.values()]
    if not re.search("tuple", hint, re.IGNORECASE):
        return made
    declared = [{"name": each.name, "description": each.description, "parameters": each.parameters} for each in tools]
    return {each["name"]: ({"type": "function", "function": each}, made[str(each["name"])]) for each in declared}


_TYPES = {"string": str, "integer": int, "number": float, "boolean": bool}


def _as_function(tool: ConversationTool) -> Callable[..., str]:
    """Return a Python function with the name, the parameters and the description of a tool."""
    fields = cast("Mapping[str, Any]", tool.parameters.get("properties") or {})
    required = cast("Sequence[str]", tool.parameters.get("required") or ())
    if any(
        not name.isidentifier() or iskeyword(name) or each.get("type") not in _TYPES for name, each in fields.items()
    ):
        raise Unsupported(RECOGNISED_CLIENT, tool.name, "no Python function has such a parameter")
    types = {name: _TYPES[each["type"]] for name, each in fields.items()}
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    ordered = sorted(types, key=lambda name: name not in required)
    defaults = {name: inspect.Parameter.empty if name in required else None for name in ordered}
    shape = inspect.Signature(
        [inspect.Parameter(name, kind, default=defaults[name], annotation=types[name]) for name in ordered]
    )

    def function(*args: Any, **kwargs: Any) -> str:
        return tool.text(shape.bind(*args, **kwargs).arguments)

    function.__name__ = function.__qualname__ = tool.name
    function.__doc__ = tool.description
    function.__annotations__ = types
    cast("Any", function).__signature__ = shape
    return function
