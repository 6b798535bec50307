"""Tool loops from classes without a wrapper: those that run their tools, and those that keep their history.

A class that runs its tools gets them as its annotations, its signatures and its source show: as functions, as objects
of its own class, in a registry, or as declarations with a function that executes a call.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import sys
import typing
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from keyword import iskeyword
from typing import Any, ClassVar, TypeAlias, cast

from harness.bridge.call_log import BoundMethod, call
from harness.bridge.client_answers import OwnCall, own_calls
from harness.bridge.client_formats import (
    ANTHROPIC,
    FORMS,
    GEMINI,
    OPENAI,
    SYNONYMS,
    Declaration,
    as_annotated,
    choice_as_text,
    first,
    hints_of,
    item_class,
)
from harness.bridge.client_methods import METHODS, Method, make_client, method_of
from harness.bridge.client_shapes import keeps_history, system_attribute
from harness.bridge.openai_messages import Memory
from harness.bridge.shaped_client import wait_for
from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.messages import ChatRequest, Message, Role, Text, Tool, ToolCall
from harness.model.protocols import PLAIN_LOOP, Capability, Conversation, ConversationTool, Endpoint

_Tools: TypeAlias = Sequence[ConversationTool]
_ToolArgument: TypeAlias = Callable[[_Tools, str], object]
"""Function that makes the value of a parameter for tools, from the tools and the name of the API."""


def agent_drive(value: object, api: str) -> AgentDrive | None:
    """Return a drive that runs conversations with a class that runs its tools itself. Return `None` for other classes.

    The class has a method for a prompt. It gets its tools by its constructor, by the method for the prompt, or by a
    method that registers a tool, of the class or of an object that its constructor creates. `api` is the API that it
    uses.
    """
    if not inspect.isclass(value):
        return None
    made, methods = method_of((), value), _public_methods(value)
    run = next(iter(_prompt_methods(methods)), None)
    if run is None:
        return None
    place = _Place(value, _source_of_class(value), run.module)
    hands_over = bool(_result_methods(methods, place.source)) or _takes_messages(
        [each for each in methods if each is not run]
    )
    made_with, run_with = (_tool_arguments(each, place, only_if_clear=hands_over) for each in (made, run))
    registrar = None if hands_over or made_with or run_with else _registrar_of(value, place)
    gets_tools = made_with or run_with or registrar is not None
    return AgentDrive(value, api, run, made_with, run_with, registrar) if gets_tools else None


@dataclass(frozen=True, slots=True)
class AgentDrive:
    """Drive for a class that runs its tools itself.

    `made_with` and `prompt_with` make the arguments for tools of its constructor and of its method for a prompt.
    `registrar` registers a tool with a client.
    """

    factory: type
    api: str
    prompt: Method
    made_with: Mapping[str, _ToolArgument]
    prompt_with: Mapping[str, _ToolArgument]
    registrar: _Registrar | None

    @property
    def ignored(self) -> tuple[str, ...]:
        """The rules that the class cannot satisfy: a function has no enumerations and no nested descriptions."""
        values = [*self.made_with.values(), *self.prompt_with.values(), self.registrar]
        return ("loop-tools",) if any(getattr(each, "is_by_signature", False) for each in values) else ()

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of the loop."""
        return _Settings(self.prompt, self.api).capabilities

    @property
    def sentence(self) -> str:
        """The way in which the class gets its tools, as text for the user."""
        if self.ignored:
            return "with functions as tools"
        names = [*self.made_with, *self.prompt_with]
        names += (
            ["".join(f"{each}." for each in self.registrar.path) + self.registrar.method.path[0]]
            if self.registrar
            else []
        )
        return f"which runs the tools that it gets by {' and '.join(names)}"

    def __call__(self, endpoint: Endpoint, model: str, conversation: Conversation) -> None:
        """Run a conversation."""
        _check_texts(conversation)
        made_with = {name: make(conversation.tools, self.api) for name, make in self.made_with.items()}
        client, per_call = _client_with_system(self, endpoint, model, conversation, made_with)
        if len(conversation.turns) > 1 and not _keeps_history(client, self.prompt):
            raise Unsupported(RECOGNISED_CLIENT, "a second turn", "each call of its method is a conversation")
        for tool in conversation.tools:
            if self.registrar is not None:
                self.registrar(client, tool)
        per_call |= {name: make(conversation.tools, self.api) for name, make in self.prompt_with.items()}
        per_call |= _Settings(self.prompt, self.api).arguments(conversation, model)
        prompt = str(first(SYNONYMS["prompt"], self.prompt.names))
        with asyncio.Runner() as runner:
            for turn in conversation.turns:
                _call_method(runner, client, self.prompt, {prompt: _text_of(turn), **per_call})


@dataclass(frozen=True, slots=True)
class _Settings:
    """The settings that a method for a prompt or for results takes: a tool choice, and a format of the answer."""

    method: Method
    api: str

    @property
    def _names(self) -> frozenset[str]:
        """The method's parameters, and the names that its module reads from any keyword arguments."""
        read = _READS_OPTION.findall(self.method.module) if self.method.is_open else list[str]()
        is_class = {name for name, each in self.method.hints.items() if re.search(r"\btype\b|BaseModel", str(each))}
        return (self.method.names | {*read}) - is_class

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of a loop with these settings."""
        found = {*PLAIN_LOOP}
        if first(SYNONYMS["tool_config"], self._names):
            found |= {Capability.TOOL_CHOICE, Capability.FORCED_TOOL_CHOICE, Capability.NAMED_TOOL_CHOICE}
        takes_object = self.api == OPENAI.name and "response_format" in self._names
        if takes_object or (self.api != ANTHROPIC.name and first(SYNONYMS["json_mode"], self._names)):
            found |= {Capability.JSON_MODE}
        if takes_object or first(SYNONYMS["json_schema"], self._names):
            found |= {Capability.JSON_SCHEMA, Capability.JSON_WITH_TOOLS}
        return frozenset(found)

    def arguments(self, conversation: Conversation, model: str) -> dict[str, object]:
        """Return the arguments for the settings of a conversation."""
        tools = tuple(Tool(each.name, each.description, each.parameters) for each in conversation.tools)
        request = ChatRequest(model, _NO_MESSAGES, tools=tools, response_format=conversation.response_format)
        made = OPENAI.arguments(request, Memory(), model, self._names)
        known = {
            "response_format": ("response_format",),
            **{key: SYNONYMS[key] for key in ("json_mode", "json_schema")},
        }
        found = {name: made[key] for key, names in known.items() if key in made and (name := first(names, self._names))}
        name = first(SYNONYMS["tool_config"], self._names)
        if conversation.tool_choice is None or name is None:
            return found
        hint, source = self.method.hints.get(name), self.method.module
        if self.method.takes_choice_as_text(name) or (hint is None and _COMPARES_CHOICE.search(source)):
            return {**found, name: choice_as_text(conversation.tool_choice, hint, source, self.api)}
        request, form = replace(request, tool_choice=conversation.tool_choice), FORMS.get(self.api, OPENAI)
        made = form.arguments(request, Memory(), model, frozenset())
        return {**found, name: made.get("tool_choice", made.get("tool_config"))}


_COMPARES_CHOICE = re.compile(r"\b\w*(choice|mode)\s+(not\s+)?in\b|[\"']name[\"']:\s*\w*(choice|mode)\b")
"""Code that compares the tool choice with words, or sends it as the name of a tool."""

_READS_OPTION = re.compile(r"\b(?:options|opts|kwargs|kw|params|extra|overrides)(?:\.(?:get|pop)\(|\[)[\"'](\w+)[\"']")
"""Code that reads a keyword argument of any name."""


def _check_texts(conversation: Conversation) -> None:
    if any(not isinstance(part, Text) for turn in conversation.turns for part in turn.parts):
        raise Unsupported(RECOGNISED_CLIENT, "a message that is not a text", "its method has a prompt")


def _text_of(turn: Message) -> str:
    return "".join(part.text for part in turn.parts if isinstance(part, Text))


def _client_with_system(
    drive: AgentDrive | SessionDrive,
    endpoint: Endpoint,
    model: str,
    conversation: Conversation,
    own: Mapping[str, object],
) -> tuple[object, dict[str, object]]:
    """Return a new client, and the argument for the system prompt that its method takes if its constructor takes none.

    If neither takes one, the system prompt is set as an attribute.
    """
    made = method_of((), drive.factory)
    system = _system_argument(made, conversation)
    limit = {} if conversation.max_tokens is None else {_limit_argument(drive.factory): conversation.max_tokens}
    own = {**system, **{name: each for name, each in limit.items() if name in made.names}, **own}
    client = make_client(drive.factory, endpoint.base_url, endpoint.api_key, model, api=drive.api, **own)
    for name in limit.keys() - made.names:
        setattr(client, name, limit[name])
    if system or not conversation.system:
        return client, {}
    if per_call := _system_argument(drive.prompt, conversation):
        return client, {**per_call}
    attribute = system_attribute(client, drive.prompt.module)
    if attribute is None:
        raise Unsupported(RECOGNISED_CLIENT, "system", "it has no such argument")
    setattr(client, attribute, conversation.system)
    return client, {}


def _system_argument(method: Method, conversation: Conversation) -> dict[str, str]:
    """Return the argument for the system prompt. Without a system prompt, one that has a default is left out."""
    names = method.names & {*SYNONYMS["system"]}
    return dict.fromkeys(names if conversation.system else names & method.required, conversation.system or "")


def _limit_argument(factory: type) -> str:
    """Return the constructor's parameter, or the attribute, for the maximum number of tokens of an answer."""
    found = re.search(rf"\bself\.({'|'.join(SYNONYMS['max_tokens'])})\s*=", _source_of_class(factory))
    name = first(SYNONYMS["max_tokens"], method_of((), factory).names) or (found[1] if found else None)
    if name is None:
        raise Unsupported(RECOGNISED_CLIENT, "max_tokens", "it has no such argument")
    return name


def _keeps_history(client: object, run: Method) -> bool:
    """Return whether a client keeps its conversation, as messages or on the server of the API."""
    own = cast("dict[str, object]", getattr(client, "__dict__", {}))
    lists = (name for name, each in own.items() if isinstance(each, list))
    is_kept = any(re.search("item|content|message|history|turn|thread", name) for name in lists)
    return is_kept or keeps_history(client) or "previous_response_id" in run.module


# Clients that hand their calls to the caller


def session_drive(value: object, api: str) -> SessionDrive | None:
    """Return a drive that runs conversations with a class that keeps its history. Return `None` for other classes.

    The class has a method for a prompt, and a method that accepts the results of calls. `api` is the API that it uses.
    """
    if not inspect.isclass(value):
        return None
    methods = _public_methods(value)
    prompts = _prompt_methods(methods)
    found = _result_methods(methods, _source_of_class(value))
    results = min(found, key=_place_among_results, default=None)
    if not prompts or results is None or _takes_messages(methods):
        return None
    declaring = next((each for each in methods if _declares_tools(each)), None)
    return SessionDrive(value, api, prompts[0], results, declaring, methods)


def _public_methods(value: type) -> list[Method]:
    named = inspect.getmembers(value, inspect.isfunction)
    return [method_of((name,), each) for name, each in named if not name.startswith("_")]


def _prompt_methods(methods: Sequence[Method]) -> list[Method]:
    """Return the methods that need a prompt and nothing else, except tools. The most usual name is first."""
    found = [each for each in methods if _takes_only_a_prompt(each)]
    return sorted(found, key=lambda each: METHODS.index(each.path[0]) if each.path[0] in METHODS else len(METHODS))


def _takes_only_a_prompt(method: Method) -> bool:
    prompt = first(SYNONYMS["prompt"], method.names)
    others = {name for name in method.required if name in _TOOL_PARAMETERS or _EXECUTORS.fullmatch(name)}
    is_other = _RESULT_METHOD.search(method.path[0]) or _SETTERS.match(method.path[0]) or _declares_tools(method)
    return prompt is not None and method.required <= {"self", prompt, *others} and not is_other


def _takes_messages(methods: Sequence[Method]) -> bool:
    """Return whether a usual method takes the whole conversation."""
    return any(first(SYNONYMS["messages"], each.names) for each in methods if each.path[0] in METHODS)


def _declares_tools(method: Method) -> bool:
    """Return whether a method takes the name and the schema of a tool, and possibly its function."""
    named = _tool_parameters(method)
    return {"name", "parameters"} <= named.keys() and method.required <= {"self", *named.values()}


_SETTERS = re.compile("set_|add_|load|append|register|remember|count|estimate|handle$")
_RESULT_METHOD = re.compile(
    "(tool|function|call)_?(result|output|response)s?$|(answer|resolve|complete|finish)_(tool_|function_)?calls?$"
)
_SUBMITTING = re.compile(
    "submit|answer|repl(y|ies)|send|give|provide|resume|continue|respond|feed|post|push|supply|deliver|results?$|return"
    "|tool|complete|resolve|finish|proceed|step|next|ask|run|chat"
)
"""Names of methods that accept results, if a parameter of theirs is named like results."""

_RESULTS = re.compile("((tool|function|call)_?)?(results|outputs|responses|returns|answers|values|observations)")
_RESUMING_METHODS = (
    *("resume", "continue_", "proceed", "go_on", "advance", "step", "next", "next_turn", "run", "complete"),
    *("generate", "send", "respond", "answer", "reply"),
)
_CALL_NAMES = {"call", "tool_call", "function_call", "call_id", "tool_call_id", "tool_use_id"}
"""Names of parameters that can only mean a call or its id."""
_CALL_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "call": ("call", "tool_call", "function_call", "tool_use"),
    "id": ("call_id", "tool_call_id", "tool_use_id", "id"),
    "name": ("name", "tool_name", "function_name", "tool"),
    "content": ("result", "output", "content", "value", "response", "text", "data"),
    "is_error": ("is_error", "error", "failed"),
}
"""Maps the parts of a tool result to the names of parameters, fields and keys for them."""


def _result_methods(methods: Sequence[Method], source: str) -> list[Method]:
    """Return the methods that accept the results of all calls, or a result with its call.

    One that the class itself calls may be a step of its own loop, so it needs a telling name.
    """
    found = [each for each in methods if _result_parameters(each) or _results_parameter(each) is not None]
    return [each for each in found if _RESULT_METHOD.search(each.path[0]) or f"self.{each.path[0]}(" not in source]


def _place_among_results(method: Method) -> tuple[bool, bool]:
    return not _RESULT_METHOD.search(method.path[0]), "stream" in method.path[0]


def _result_parameters(method: Method) -> dict[str, str]:
    """Return the parameters of a method that accepts one result, by their meaning; `{}` for one that accepts all."""
    named = {key: name for key, known in _CALL_PARAMETERS.items() if (name := first(known, method.names))}
    is_named = _RESULT_METHOD.search(method.path[0]) or {named.get("call"), named.get("id")} & _CALL_NAMES
    is_one = is_named and "content" in named and named.keys() & {"id", "call"} and not method.path[0].startswith("on_")
    return named if is_one and method.required <= {"self", *named.values()} else {}


def _results_parameter(method: Method) -> str | None:
    """Return the parameter of a method that accepts the results of all calls."""
    required = method.required - {"self", *SYNONYMS["tools"]}
    named = [each for each in sorted(method.names) if _RESULTS.fullmatch(each) and required <= {each}]
    if named and _SUBMITTING.match(method.path[0]):
        return named[0]
    only = next(iter(required)) if len(required) == 1 else None
    if only is None:
        return None
    is_typed = any(map(_is_result_class, _own_classes_in(method.hints.get(only))))
    return only if is_typed or _RESULT_METHOD.search(method.path[0]) else None


def _is_result_class(kind: type) -> bool:
    names = hints_of(kind).keys()
    has_call = any({*_CALL_PARAMETERS[each]} & names for each in ("call", "id"))
    return has_call and bool({*_CALL_PARAMETERS["content"]} & names) and not issubclass(kind, Mapping)


@dataclass(frozen=True, slots=True)
class SessionDrive:
    """Drive for a class that keeps its history, with its methods for a prompt, for results and for tools."""

    factory: type
    api: str
    prompt: Method
    results: Method
    declaring: Method | None
    methods: Sequence[Method]

    sentence: ClassVar[str] = "which keeps its history"

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of the loop."""
        return _Settings(self.prompt, self.api).capabilities

    @property
    def ignored(self) -> tuple[str, ...]:
        """The rules that the class cannot satisfy."""
        has_flag = "is_error" in self.results.source or "is_error" in _result_parameters(self.results)
        kinds = _own_classes_in(self.results.hints.get(_results_parameter(self.results) or ""))
        has_flag = has_flag or any({*_CALL_PARAMETERS["is_error"]} & hints_of(each).keys() for each in kinds)
        return () if has_flag else ("error-flag",)

    def __call__(self, endpoint: Endpoint, model: str, conversation: Conversation) -> None:
        """Run a conversation."""
        _check_texts(conversation)
        tools = self._tools(conversation)
        made_with, per_call = (
            {name: tools for name in [first(SYNONYMS["tools"], each.names)] if name and tools is not None}
            for each in (method_of((), self.factory), self.prompt)
        )
        if tools is not None and not made_with and not per_call:
            raise Unsupported(RECOGNISED_CLIENT, "tools", "its constructor has no such argument")
        own = {
            name: as_annotated(each, method_of((), self.factory).hints.get(name)) for name, each in made_with.items()
        }
        client, system = _client_with_system(self, endpoint, model, conversation, own)
        if self.declaring is not None:
            for tool in conversation.tools:
                _Registrar(self.declaring, _tool_parameters(self.declaring))(client, tool)
        settings = _Settings(self.prompt, self.api).arguments(conversation, model)
        prompt = str(first(SYNONYMS["prompt"], self.prompt.names))
        with asyncio.Runner() as runner:
            for turn in conversation.turns:
                arguments = {prompt: _text_of(turn), **system, **settings, **({} if made_with else per_call)}
                answer = _call_method(runner, client, self.prompt, arguments)
                for _ in range(conversation.max_answers):
                    calls = own_calls(answer) or _pending_calls(client)
                    if not calls:
                        break
                    answer = self._submit(runner, client, conversation, calls)

    def _tools(self, conversation: Conversation) -> list[dict[str, Any]] | None:
        """Return the declarations of the tools, unless there are none or a method declares each."""
        is_given = conversation.tools and self.declaring is None
        return _declarations(conversation.tools, self.api, self.prompt.module) if is_given else None

    def _submit(
        self, runner: asyncio.Runner, client: object, conversation: Conversation, calls: Sequence[OwnCall]
    ) -> object:
        """Run the tools, give their results to the client, and return its next answer."""
        method = self.results
        results = [_result_of(conversation, each) for each in calls]
        if named := _result_parameters(method):
            answer = None
            for each in results:
                given = {**each, "content": _content_for(each, method, method.hints.get(named["content"]), self.api)}
                answer = _call_method(runner, client, method, {name: given[key] for key, name in named.items()})
            return answer if answer is not None and answer is not client else self._resume(runner, client)
        name = str(_results_parameter(method))
        per_call = dict[str, object]()
        if (tools := first(SYNONYMS["tools"], method.names)) and conversation.tools:
            per_call[tools] = as_annotated(self._tools(conversation), method.hints.get(tools))
        place = _Place(self.factory, _source_of_class(self.factory), self.prompt.module)
        formats = replace(conversation, tool_choice=None)
        per_call |= _Settings(method, self.api).arguments(formats, "")
        given = _SubmittedResults(method, name, place, self.api)
        return _call_method(runner, client, method, {name: given.collect(results), **per_call})

    def _resume(self, runner: asyncio.Runner, client: object) -> object:
        free = {each.path[0]: each for each in self.methods if each.required <= {"self"}}
        if (name := first(_RESUMING_METHODS, frozenset(free))) is None:
            raise Unsupported(RECOGNISED_CLIENT, "results of tools", "no method continues after them")
        return _call_method(runner, client, free[name], {})


def _call_method(runner: asyncio.Runner, client: object, method: Method, arguments: Mapping[str, object]) -> object:
    answer = call(BoundMethod(client, method.path), **arguments)
    answer = runner.run(wait_for(answer)) if inspect.isawaitable(answer) else answer
    if isinstance(answer, AsyncIterator):
        return runner.run(_collect(cast("AsyncIterator[object]", answer)))
    return [*cast("Iterator[object]", answer)] if isinstance(answer, Iterator) else answer


async def _collect(items: AsyncIterator[object]) -> list[object]:
    return [each async for each in items]


def _pending_calls(client: object) -> list[OwnCall]:
    """Return the calls that a client holds in an attribute until they have results."""
    own = cast("dict[str, object]", getattr(client, "__dict__", {}))
    return next(
        (calls for name, each in own.items() if _PENDING.search(name) and (calls := own_calls(each))), list[OwnCall]()
    )


_PENDING = re.compile("pending|calls$")


def _result_of(conversation: Conversation, made: OwnCall) -> dict[str, Any]:
    """Run the tool of a call. Return the result as text in `content`, and in `value` as JSON."""
    own, call_id, name, arguments = made
    tool = next((each for each in conversation.tools if each.name == name), None)
    found: dict[str, object] = {"call": own, "id": call_id or name, "name": name, "is_error": True}
    if tool is None or arguments is None:
        text = f"there is no tool {name}" if tool is None else "the arguments are no JSON object"
        return {**found, "content": text, "value": text}
    done = tool.run(ToolCall(call_id, name, arguments))
    value = done.text if isinstance(done.content, tuple) else done.content
    return {**found, "content": done.text, "value": value, "is_error": done.is_error}


def _content_for(result: Mapping[str, Any], method: Method, hint: object, api: str) -> object:
    """Return a result as text, or as JSON where the client serialises it or the API takes objects."""
    value, kind = cast("object", result["value"]), typing.get_origin(hint) or hint
    if hint is str:
        return result["content"]
    if inspect.isclass(kind) and issubclass(kind, Mapping):
        return cast("object", value) if isinstance(value, dict) else {"result": value}
    is_any = (hint is Any or hint is object) and (api == GEMINI.name or "isinstance(" in method.source)
    return value if is_any or "json.dumps" in method.source else result["content"]


@dataclass(frozen=True, slots=True)
class _SubmittedResults:
    """The results of all calls, in the form that a method takes."""

    method: Method
    name: str
    place: _Place
    api: str

    def collect(self, results: Sequence[Mapping[str, Any]]) -> object:
        """Return a dictionary by call, pairs, or a list of objects or dictionaries."""
        hint, name = self.method.hints.get(self.name), self.name
        inner = [each for each in typing.get_args(hint) if each is not type(None)]
        is_mapping = re.match(r"dict|typing\.(Dict|Mapping)|collections\.abc\.Mapping", str(hint))
        if is_mapping or re.search(rf"\b{name}(\.items\(|\[[a-z])", self.place.source):
            key, value = inner if len(inner) == _PAIR else (None, None)
            return {_key_of(each, key): self._content(each, value) for each in results}
        pair = next((typing.get_args(each) for each in inner if typing.get_origin(each) is tuple), ())
        if pair or re.search(rf"for \(?\w+, \w+\)? in {name}\b", self.place.source):
            key, value = pair if len(pair) == _PAIR else (None, None)
            return [(_key_of(each, key), self._content(each, value)) for each in results]
        kind = next(filter(_is_result_class, _own_classes_in(hint)), None) or self._unnamed_class()
        if kind is not None:
            return [self._object(each, kind) for each in results]
        used = re.findall(r"[\"'](\w+)[\"']", self.method.source)
        keys = {alias: key for key, known in _CALL_PARAMETERS.items() if key != "call" for alias in known}
        keys = {alias: key for alias, key in keys.items() if alias in used} or keys
        values = [{**each, "content": self._content(each, None)} for each in results]
        return as_annotated([{alias: each[key] for alias, key in keys.items()} for each in values], hint)

    def _content(self, result: Mapping[str, Any], hint: object) -> object:
        return _content_for(result, self.method, hint, self.api)

    def _unnamed_class(self) -> type | None:
        """Return the only class in the module that has the attributes of results that the class reads."""
        each = re.search(rf"\bfor (\w+) in {self.name}\b", self.place.source)
        read = {*re.findall(rf"\b{each[1]}\.(\w+)", self.place.source)} if each else set[str]()
        found = [
            kind for kind in self.place.classes if _is_result_class(kind) and read and read <= hints_of(kind).keys()
        ]
        return found[0] if len(found) == 1 else None

    def _object(self, result: Mapping[str, Any], kind: type) -> object:
        """Return a result as an object of a third-party class, by the names and annotations of its fields."""
        hints, given = hints_of(kind), dict[str, object]()
        for name, each in inspect.signature(kind).parameters.items():
            part = next((key for key, known in _CALL_PARAMETERS.items() if name in known), None)
            hint = hints.get(name)
            if part == "content":
                given[name] = self._content(result, hint)
            elif part == "is_error" and hint in (bool, None):
                given[name] = result["is_error"]
            elif part == "is_error" and result["is_error"]:
                given[name] = result["content"]
            elif part == "call":
                given[name] = result["call"]
            elif part == "id" or (part is None and each.default is each.empty):
                given[name] = _key_of(result, hint)
            elif part == "name":
                given[name] = result["name"]
        return kind(**given)


_PAIR = 2


def _key_of(result: Mapping[str, Any], hint: object) -> object:
    """Return what identifies a call to the client: the call itself or one of its fields if an annotation names its
    class, or the id.
    """
    kinds = tuple(_own_classes_in(hint))
    made = result["call"]
    fields = (getattr(made, name, None) for name in hints_of(cast("object", type(made))))
    own = [each for each in (made, *fields) if kinds and isinstance(each, kinds)]
    return own[0] if own else result["id"]


# How a class gets the tools that it runs


@dataclass(frozen=True, slots=True)
class _Place:
    """The code in which a class is defined: the class, its source and the source of its module."""

    owner: type
    source: str
    module: str

    @property
    def classes(self) -> list[type]:
        """The classes that the module of the class defines."""
        members = vars(sys.modules[self.owner.__module__]).values()
        return [each for each in members if inspect.isclass(each) and each.__module__ == self.owner.__module__]

    @property
    def runs_tools(self) -> bool:
        """Return whether the class calls something with the arguments of a call. A caller may use the rest of the
        module.
        """
        return _RUNS_TOOLS.search(self.source) is not None

    @property
    def reads_signatures(self) -> bool:
        """Return whether the module describes functions by their names and signatures."""
        return _READS_SIGNATURES.search(self.module) is not None


_ARGUMENTS = r"(arguments|args|input|inputs|params|parameters|parsed|tool_args|tool_input)\b"
_RUNS_TOOLS = re.compile(
    rf"\*\*\(?((json\.)?loads\(|[\w.]*\b{_ARGUMENTS}|\w+\[[\"']{_ARGUMENTS})"
    rf"|\b(fn|func|function|handler|callback|run|call|execute|invoke|tool)[\"'\])]*\((\w+\.)?{_ARGUMENTS}"
)
"""Code that calls a tool: `fn(**args)`, `tool.run(**call.input)`, `handlers[name](**json.loads(text))`, `fn(args)`."""

_READS_SIGNATURES = re.compile(
    r"inspect\.signature|get_type_hints|(?<![\w.)])(?!(type|cls|kind|klass|self)\b)\w+\.__name__"
)
"""Code that describes a function. `type(error).__name__` is not such code."""

_EXECUTORS = re.compile(
    r"(execute|run|call|invoke|handle|dispatch)_(tool|function)(_call)?$|(tool_|function_)?(executor|dispatcher|runner)$"
    r"|(tool|function)_(handler|callback)$|dispatch$|on_(tool_|function_)?call$"
)
"""Names of parameters for one function that executes all calls, given a name and arguments."""

_FUNCTION_MAPS = (
    *("functions", "handlers", "tool_functions", "tool_handlers", "callables", "implementations", "tool_map"),
    *("function_map", "tools_map", "tool_impls", "impls", "available_functions"),
)
"""Names of parameters for functions by their names, next to a parameter for declarations."""

_REGISTRIES = ("registry", "tool_registry", "toolkit", "tool_box", "tool_set", "skills", "actions", "abilities")
_TOOL_PARAMETERS = frozenset({*SYNONYMS["tools"], *_FUNCTION_MAPS, *_REGISTRIES})


def _tool_arguments(method: Method, place: _Place, *, only_if_clear: bool) -> dict[str, _ToolArgument]:
    """Return functions that make the arguments for tools of a method, if it gets tools that it can run.

    With `only_if_clear`, the annotations must show that it runs them. Other code may belong to a client that hands
    its calls to the caller.
    """
    executors = [each for each in sorted(method.names) if _EXECUTORS.fullmatch(each) and _may_call(method, each)]
    found = {name: made for name in sorted(method.names) if (made := _clear_argument(name, method, place))}
    if not found and executors:
        found = dict.fromkeys(method.names & {*SYNONYMS["tools"]}, _declarations_of(place.module))
        found |= {name: _ExecutorArgument(_own_classes_in(method.hints.get(name))) for name in executors[:1]}
    if not found and not only_if_clear:
        found = {
            name: made
            for name in sorted(method.names & _TOOL_PARAMETERS)
            if (made := _likely_argument(name, method, place))
        }
    functions = {name: made for name, made in found.items() if isinstance(made, _FunctionsArgument)}
    declared = method.names & {*SYNONYMS["tools"]} - functions.keys()
    if functions and len(declared) == 1:
        found = {name: replace(made, is_by_signature=False) for name, made in functions.items()}
        found |= dict.fromkeys(declared, _declarations_of(place.module))
    return found


def _may_call(method: Method, name: str) -> bool:
    """Return whether a parameter takes a function or an object that executes calls, not one that only observes them."""
    hint = method.hints.get(name)
    returned = next(
        (typing.get_args(each)[-1] for each in (hint, *typing.get_args(hint)) if _is_function_type(each)), 0
    )
    if name.startswith("on_") and (returned is type(None) or (returned == 0 and name not in method.required)):
        return False
    return hint is None or "Callable" in str(hint) or any(map(_executing_method, _own_classes_in(hint)))


def _is_function_type(hint: object) -> bool:
    return typing.get_origin(hint) is cast("object", Callable) and bool(typing.get_args(hint))


def _executing_method(kind: type) -> str | None:
    """Return the method of a class that executes a call, if it has one."""
    names = (each.path[0] for each in _public_methods(kind))
    return next((each for each in names if each in _RUNNING_METHODS or _EXECUTORS.fullmatch(each)), None)


def _clear_argument(name: str, method: Method, place: _Place) -> _ToolArgument | None:
    """Return the function that makes an argument whose annotation, or default class, holds tools to run."""
    hint = method.hints.get(name)
    for kind in _own_classes_in(hint) or _replacements(name, place):
        if (registrar := _registrar_method(kind)) is not None:
            return _RegistryArgument(kind, registrar)
    if name not in _TOOL_PARAMETERS:
        return None
    for kind in _own_classes_in(hint):
        if (maker := _tool_maker(kind, place)) is not None:
            return _ObjectsArgument(maker, _is_mapping(name, hint, place))
    return _FunctionsArgument(str(hint), is_mapping=_is_mapping(name, hint, place)) if "Callable" in str(hint) else None


def _likely_argument(name: str, method: Method, place: _Place) -> _ToolArgument | None:
    """Return the function that makes an argument without a telling annotation, if the source shows that tools run."""
    hint = method.hints.get(name)
    is_mapping, of_dicts = _is_mapping(name, hint, place), re.search(r"\[.*\b[dD]ict|Mapping\[.*\]\]", str(hint))
    if name in _FUNCTION_MAPS and is_mapping and place.runs_tools:
        return _FunctionsArgument(str(hint), is_mapping=True)
    each = re.search(rf"\bfor (\w+) in (?:self\.)?_?{name}\b", place.source)
    reads_name = each is not None and re.search(rf"\b{each[1]}\.name\b", place.source)
    if not of_dicts and place.reads_signatures and not reads_name:
        return _FunctionsArgument(str(hint), is_mapping=is_mapping)
    kinds = [each for each in place.classes if re.search("Tool|Function|Skill|Action", each.__name__)]
    makers = [maker for each in kinds if (maker := _tool_maker(each, place)) is not None]
    if not of_dicts and len(makers) == 1:
        return _ObjectsArgument(makers[0], is_mapping)
    return _ObjectsArgument(None, is_mapping) if place.runs_tools else None


def _is_mapping(name: str, hint: object, place: _Place) -> bool:
    """Return whether a parameter for tools is a dictionary by name, by its annotation or by how the class uses it."""
    if hint is not None and hint is not Any:
        return re.match(r"(\w+\.)*([dD]ict|Mapping|MutableMapping)\b", str(hint).removeprefix("<class '")) is not None
    is_kept = re.search(rf"self\.(\w+)(?::[^=\n]+)?\s*=\s*{name}\b(?!\.)", place.source)
    names = rf"((?<![\w.]){name}|self\.{is_kept[1]})" if is_kept else rf"(?<![\w.]){name}"
    return re.search(rf"{names}(\s+or\s+\{{\}}|\.get\(|\.items\(|\.values\(|\.keys\()", place.source) is not None


def _own_classes_in(hint: object) -> list[type]:
    """Return the third-party classes in an annotation."""
    inner = [found for each in typing.get_args(hint) for found in _own_classes_in(each)]
    is_own = inspect.isclass(hint) and hint.__module__ not in ("builtins", "typing", "collections.abc", "types")
    return [*([cast("type", hint)] if is_own and not typing.get_origin(hint) else []), *inner]


def _replacements(name: str, place: _Place) -> list[type]:
    """Return the class that a constructor instantiates in place of an argument, or the only one with the methods that
    the class calls on it.
    """
    made = re.search(rf"\b{name}\s+(?:or|if\s+{name}\s+is\s+not\s+None\s+else)\s+(\w+)\(", place.source)
    made = made or re.search(rf"\b(\w+)\(\)\s+if\s+(?:{name}\s+is\s+None|not\s+{name})\b", place.source)
    if made:
        return [each for each in place.classes if each.__name__ == made[1]]
    used = {*re.findall(rf"\b_?{name}\.([a-zA-Z]\w*)\b", place.source)} - {*dir(dict), *dir(list)}
    return [each for each in place.classes if used and all(hasattr(each, one) for one in used)][:1]


def _source_of_class(value: type) -> str:
    """Return the source of a class and of its base classes, as far as it is known."""
    found = list[str]()
    for each in value.__mro__[:-1]:
        with suppress(OSError, TypeError):
            found.append(inspect.getsource(each))
    return "\n".join(found)


# Arguments for tools


@dataclass(frozen=True, slots=True)
class _RegistryArgument:
    """A registry of a third-party class with all tools."""

    kind: type
    registrar: _Registrar

    @property
    def is_by_signature(self) -> bool:
        """Return whether the registry describes each tool by its signature."""
        return self.registrar.is_by_signature

    def __call__(self, tools: _Tools, _api: str) -> object:
        registry = call(self.kind)
        for each in tools:
            self.registrar(registry, each)
        return registry


@dataclass(frozen=True, slots=True)
class _ObjectsArgument:
    """Tools as objects of a third-party class, or as declarations that can also be called, in a list or by name."""

    make: _ToolMaker | None
    is_mapping: bool

    @property
    def is_by_signature(self) -> bool:
        """Return whether each object describes its tool by the signature of a function."""
        return getattr(self.make, "is_by_signature", False)

    def __call__(self, tools: _Tools, api: str) -> object:
        made = (
            [*map(self.make, tools)] if self.make else [_CallableTool(each, _declaration(each, api)) for each in tools]
        )
        return {each.name: one for each, one in zip(tools, made, strict=True)} if self.is_mapping else made


@dataclass(frozen=True, slots=True)
class _FunctionsArgument:
    """Tools as functions, in a list or by name. If the annotation has pairs, each function has its declaration."""

    hint: str
    is_mapping: bool
    is_by_signature: bool = True

    def __call__(self, tools: _Tools, _api: str) -> object:
        make = _as_function if self.is_by_signature else _as_handler
        made = {each.name: make(each, self.hint) for each in tools}
        if not self.is_mapping:
            return [*made.values()]
        if not re.search("tuple", self.hint, re.IGNORECASE):
            return made
        return {each.name: (_declaration(each, OPENAI.name), made[each.name]) for each in tools}


def _declarations_of(module: str) -> _ToolArgument:
    return lambda tools, api: _declarations(tools, api, module)


@dataclass(frozen=True, slots=True)
class _ExecutorArgument:
    """A function that executes a call, or an object of a third-party class with such a method."""

    kinds: Sequence[type]

    def __call__(self, tools: _Tools, _api: str) -> object:
        known = {each.name: each for each in tools}

        def execute(*args: Any, **kwargs: Any) -> str:
            values = [*args, *kwargs.values()]
            if len(values) == 1:
                ((_, _, name, arguments),) = own_calls([values[0]])
                return _AwaitableText(known[name].text(arguments or {}))
            name = next(each for each in values if isinstance(each, str) and each in known)
            return _AwaitableText(known[name].text(_parse_arguments(next(each for each in values if each is not name))))

        for kind in self.kinds:
            if (name := _executing_method(kind)) is not None:
                return type(kind.__name__, (kind,), {name: _as_method(execute)})()
        return execute


def _declaration(tool: ConversationTool, api: str) -> dict[str, Any]:
    """Return a tool in the format of an API."""
    form, own = FORMS.get(api, OPENAI), Tool(tool.name, tool.description, tool.parameters)
    made = form.arguments(ChatRequest("", _NO_MESSAGES, tools=(own,)), Memory(), "", frozenset())["tools"][0]
    return made.get("functionDeclarations", [made])[0]


def _declarations(tools: _Tools, api: str, module: str) -> list[dict[str, Any]]:
    """Return tools in the format that a class expects, according to the source of its module."""
    is_bare = _BARE_TOOLS.search(module) is not None
    if is_bare and api != GEMINI.name:
        bare = [{"name": each.name, "description": each.description, "parameters": each.parameters} for each in tools]
        return [*map(Declaration, bare)]
    is_read = not is_bare and re.search(r"\bfor \w+ in (self\.)?_?(tools|functions)\b", module)
    made = [_declaration(each, OPENAI.name if is_read else api) for each in tools]
    if api == GEMINI.name and not is_bare and not is_read:
        made = [{"functionDeclarations": [each]} for each in made]
    return [*map(Declaration, made)]


_BARE_TOOLS = re.compile(
    r"function_?[dD]eclarations[\"']?\s*[:=]\s*(list\()?(self\.)?_?tools\b|\*\*(\w+)[^{}]*\}\s*for \3 in"
    r"|[\"']type[\"']:\s*[\"']function[\"'],\s*[\"']function[\"']:\s*\w+\s*\}"
)
"""Code that adds the enclosing object of the API to each tool."""

_NO_MESSAGES = (Message(Role.USER, (Text("Hello"),)),)


class _CallableTool(Declaration):
    """A declaration that is also a function. Its parts are keys, and attributes, under any usual name.

    Copies and JSON contain only the fields of the API's format.
    """

    def __init__(self, tool: ConversationTool, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self.__dict__.update(_parts_of(tool))

    def __call__(self, *args: Any, **kwargs: Any) -> object:
        return self.__dict__["handler"](*args, **kwargs)

    def __missing__(self, key: str) -> Any:
        try:
            return super().__missing__(key)
        except KeyError:
            return _part(self.__dict__, key)

    def __getattr__(self, name: str) -> Any:
        try:
            return _part(self.__dict__, name)
        except KeyError:
            raise AttributeError(name) from None


def _part(parts: Mapping[str, Any], name: str) -> Any:
    """Return the part of a tool that a parameter or a key of this name means.

    Raises:
        KeyError: The name has no such meaning.
    """
    meaning = next((key for key, names in _TOOL_PARTS.items() if name in names), name)
    return parts[meaning]


def _parts_of(tool: ConversationTool, hint: str = "") -> dict[str, Any]:
    return {
        "name": tool.name,
        "handler": _as_handler(tool, hint),
        "description": tool.description,
        "parameters": tool.parameters,
        "declaration": Declaration(_declaration(tool, OPENAI.name)),
    }


_TOOL_PARTS: Mapping[str, tuple[str, ...]] = {
    "name": ("name", "tool_name", "function_name", "key"),
    "handler": (
        *("handler", "function", "fn", "func", "callback", "run", "callable", "f", "implementation", "impl", "execute"),
        *("call", "invoke", "executor", "action", "target", "coroutine", "method", "fun"),
    ),
    "description": ("description", "doc", "desc", "summary", "help"),
    "parameters": (
        *("parameters", "schema", "input_schema", "json_schema", "params", "parameters_schema", "args_schema"),
        *("parameters_json_schema", "arguments_schema"),
    ),
    "declaration": ("spec", "definition", "declaration", "tool_spec", "tool_definition"),
}
"""Maps the parts of a tool with its function to the names of parameters, fields and keys for them."""


def _tool_parameters(method: Method) -> dict[str, str]:
    """Return the parameters of a method, or of a constructor, that take parts of a tool, by their meaning."""
    found = {part: name for part, names in _TOOL_PARTS.items() if (name := first(names, method.names))}
    if "handler" in found and not _is_of_functions(method.hints.get(found["handler"])):
        del found["handler"]
    return found


def _is_of_functions(hint: object) -> bool:
    return hint is None or hint is Any or "Callable" in str(hint) or "Function" in str(hint)


# Classes for a tool

_ToolMaker: TypeAlias = Callable[[ConversationTool], object]

_RUNNING_METHODS = ("run", "call", "execute", "invoke", "handle", "__call__", "use", "perform", "apply", "arun", "_run")


def _tool_maker(kind: type, place: _Place) -> _ToolMaker | None:
    """Return a function that makes a tool of a class, or of a class that implements it. Return `None` if it cannot."""
    has_name = "name" in {*hints_of(kind), *dir(kind)}
    running = [each for each in _RUNNING_METHODS if callable(vars(kind).get(each))]
    others = [each for each in place.classes if each is not kind and _implements(each, kind)] if running else []
    for each in (kind, *others):
        if {"name", "handler"} <= (named := _tool_parameters(made := method_of((), each))).keys():
            is_whole = made.required <= {*named.values()} and {"parameters", "declaration"} & named.keys()
            return _tested_maker(_Constructed(each, named, str(made.hints.get(named["handler"])))) if is_whole else None
        if named.keys() == {"handler"} and made.required <= {named["handler"]}:
            return _tested_maker(_Constructed(each, named, "", is_by_signature=True))
    return _tested_maker(_Derived(kind, running)) if has_name and running else None


def _implements(kind: type, protocol: type) -> bool:
    """Return whether a class is a subclass, or has the methods of a protocol."""
    if not getattr(protocol, "_is_protocol", False):
        return issubclass(kind, protocol)
    methods = [name for name, each in vars(protocol).items() if inspect.isfunction(each) and name[:1] != "_"]
    return all(callable(getattr(kind, each, None)) for each in methods)


def _tested_maker(make: _ToolMaker) -> _ToolMaker | None:
    """Return a function that makes tools, if it can make one."""
    sample = ConversationTool("look", "Looks.", {"type": "object", "properties": {}}, cast("Any", None))
    try:
        make(sample)
    except Exception:  # noqa: BLE001 - the user's constructor may fail in any way
        return None
    return make


@dataclass(frozen=True, slots=True)
class _Constructed:
    """Makes tools by a constructor, whose parameters are known by their meaning."""

    kind: type
    named: Mapping[str, str]
    hint: str
    is_by_signature: bool = False

    def __call__(self, tool: ConversationTool) -> object:
        parts = _parts_of(tool, self.hint)
        parts["handler"] = _as_function(tool, self.hint) if self.is_by_signature else parts["handler"]
        return call(self.kind, **{name: parts[part] for part, name in self.named.items()})


@dataclass(frozen=True, slots=True)
class _Derived:
    """Makes tools by a subclass, which has the parts of the tool as attributes and a method that runs it."""

    kind: type
    running: Sequence[str]

    def __call__(self, tool: ConversationTool) -> object:
        members = dict[str, object]()
        parts = _parts_of(tool)
        for name in {*hints_of(self.kind), *dir(self.kind)}:
            with suppress(KeyError):
                value, own = _part(parts, name), inspect.getattr_static(self.kind, name, None)
                is_read = inspect.isfunction(own) and name not in self.running
                members[name] = _as_method(_returning(value)) if is_read else value
        for name in self.running:
            is_async = inspect.iscoroutinefunction(getattr(self.kind, name))
            members[name] = _as_method(_as_handler(tool, "Awaitable" if is_async else ""))
        named = _tool_parameters(method_of((), self.kind))
        made = type(self.kind.__name__, (self.kind,), members)
        return made(**{name: parts[part] for part, name in named.items()})


def _as_method(handler: Callable[..., object]) -> Callable[..., object]:
    def method(_self: object, *args: Any, **kwargs: Any) -> object:
        return handler(*args, **kwargs)

    return method


def _returning(value: object) -> Callable[..., object]:
    return lambda: value


# Methods that register a tool


@dataclass(frozen=True, slots=True)
class _Registrar:
    """A method that registers a tool: with its parts, as an object, as a function, or as a decorator.

    `path` leads from the client to the object that has the method. `named` maps parts of a tool to the method's
    parameters. `item` is the parameter for a tool as an object, and `make` makes it.
    """

    method: Method
    named: Mapping[str, str]
    is_decorator: bool = False
    item: str = ""
    make: _ToolMaker | None = None
    path: tuple[str, ...] = ()

    @property
    def is_by_signature(self) -> bool:
        """Return whether a tool is described by the signature of its function."""
        return self.make is None and not self.named.keys() & {"parameters", "declaration"}

    def __call__(self, client: object, tool: ConversationTool) -> None:
        """Register a tool with a client."""
        register = BoundMethod(client, (*self.path, *self.method.path))
        if self.make is not None:
            call(register, **{self.item: self.make(tool)})
            return
        hint = str(self.method.hints.get(self.named.get("handler", "")))
        parts = _parts_of(tool, hint)
        function = _as_function(tool, hint) if self.is_by_signature else parts["handler"]
        parts["handler"] = function
        made = call(register, **{name: parts[part] for part, name in self.named.items()})
        if self.is_decorator:
            cast("Callable[..., object]", made)(function)


_REGISTERING = re.compile(
    r"_?(add|register|tool|use|function|define|declare|include|handle|bind|expose|action|skill|provide|attach|append"
    r"|equip|install|with_tool|on_tool|__call__)(?!.*(message|history|context|hook|callback|listener|middleware|event))"
)
"""Names of methods that register a tool."""


def _registrar_method(kind: type) -> _Registrar | None:
    """Return the method of a class that registers a tool with its function. One that takes its schema is preferred."""
    methods = [each for each in _public_methods(kind) if each.names]
    methods += [method_of(("__call__",), kind.__call__)] if inspect.isfunction(vars(kind).get("__call__")) else []
    found = [made for each in methods for find in _REGISTRATIONS if (made := find(each, kind)) is not None]
    return min(found, key=lambda each: (each.is_by_signature, each.is_decorator), default=None)


def _by_parts(method: Method, _kind: type) -> _Registrar | None:
    named = _tool_parameters(method)
    is_whole = "handler" in named and named.keys() & {"name", "declaration"}
    is_named = named.keys() & {"parameters", "declaration"} or _REGISTERING.match(method.path[0])
    is_fitting = is_whole and is_named and method.required <= {"self", *named.values()}
    return _Registrar(method, named) if is_fitting else None


def _by_object(method: Method, kind: type) -> _Registrar | None:
    required = [*(method.required - {"self"})]
    if len(required) != 1 or not _REGISTERING.match(method.path[0]):
        return None
    kinds = _own_classes_in(method.hints.get(required[0]))
    makers = (_tool_maker(each, _Place(each, "", method.module)) for each in kinds if each is not kind)
    maker = next(filter(None, makers), None)
    if maker is None:
        return None
    is_list = item_class(method.hints.get(required[0])) is not None
    return _Registrar(method, {}, item=required[0], make=(lambda tool: [maker(tool)]) if is_list else maker)


def _by_function(method: Method, _kind: type) -> _Registrar | None:
    """Return a method that takes a function. Its other parameters have defaults."""
    named = _tool_parameters(method)
    is_fitting = "handler" in named and _REGISTERING.match(method.path[0])
    is_fitting = is_fitting and method.required <= {"self", *named.values()}
    return _Registrar(method, named) if is_fitting else None


def _by_decorator(method: Method, _kind: type) -> _Registrar | None:
    """Return a method that returns a decorator."""
    named = {part: name for part, name in _tool_parameters(method).items() if part != "handler"}
    is_made = re.search(r"\n\s+(async )?def (\w+)\(.*\n(.*\n)*\s+return \2\b|return lambda \w+:", method.source)
    is_fitting = is_made and _REGISTERING.match(method.path[0]) and method.required <= {"self", *named.values()}
    is_fitting = is_fitting and not first(_TOOL_PARTS["handler"], method.names)
    return _Registrar(method, named, is_decorator=True) if is_fitting else None


_REGISTRATIONS = (_by_parts, _by_object, _by_function, _by_decorator)


def _registrar_of(value: type, place: _Place) -> _Registrar | None:
    """Return the method that registers a tool with a class, or with an object that its constructor creates."""
    if (found := _registrar_method(value)) is not None:
        return found
    kinds = {each.__name__: each for each in place.classes if each is not value}
    for name, kind in re.findall(r"self\.(\w+)(?::[^=\n]+)?\s*=\s*(\w+)\(", place.source):
        if kind in kinds and name[0] != "_" and (found := _registrar_method(kinds[kind])) is not None:
            return replace(found, path=(name,))
    return None


# Functions


class _AwaitableText(str):
    """Result of a tool. A client may await it or not."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, str]:
        return self
        yield


def _parse_arguments(arguments: object) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(arguments) if isinstance(arguments, str) else arguments)


def _as_handler(tool: ConversationTool, hint: str = "") -> Callable[..., object]:
    """Return a function that runs a tool, given its arguments by name or in a dictionary. It has the tool's signature
    if Python has such parameters. If its annotation is awaitable, it is asynchronous.
    """
    try:
        return _as_function(tool, hint)
    except Unsupported:
        return _with_name(_calling(tool, None), tool, hint)


def _calling(tool: ConversationTool, shape: inspect.Signature | None) -> Callable[..., str]:
    def function(*args: Any, **kwargs: Any) -> str:
        if len(args) == 1 and not kwargs and isinstance(args[0], Mapping):
            return _AwaitableText(tool.text(cast("Mapping[str, Any]", args[0])))
        found = shape.bind(*args, **kwargs).arguments if shape is not None and args else kwargs
        return _AwaitableText(tool.text(found))

    return function


def _with_name(function: Callable[..., str], tool: ConversationTool, hint: str) -> Callable[..., object]:
    async def run(*args: Any, **kwargs: Any) -> str:
        return function(*args, **kwargs)

    made: Any = run if re.search("Awaitable|Coroutine", hint) else function
    made.__name__ = made.__qualname__ = tool.name
    made.__doc__ = tool.description
    return made


_TYPES = {"string": str, "integer": int, "number": float, "boolean": bool}


def _is_parameter(name: str, schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return name.isidentifier() and not iskeyword(name) and isinstance(kind, str) and kind in _TYPES


def _as_function(tool: ConversationTool, hint: str = "") -> Callable[..., object]:
    """Return a Python function with the name, the parameters and the description of a tool."""
    fields = cast("Mapping[str, Any]", tool.parameters.get("properties") or {})
    required = cast("Sequence[str]", tool.parameters.get("required") or ())
    if not all(_is_parameter(name, each) for name, each in fields.items()):
        raise Unsupported(RECOGNISED_CLIENT, tool.name, "no Python function has such a parameter")
    types = {name: _TYPES[each["type"]] for name, each in fields.items()}
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    ordered = sorted(types, key=lambda name: name not in required)
    defaults = {name: inspect.Parameter.empty if name in required else None for name in ordered}
    shape = inspect.Signature(
        [inspect.Parameter(name, kind, default=defaults[name], annotation=types[name]) for name in ordered]
    )
    made: Any = _with_name(_calling(tool, shape), tool, hint)
    made.__annotations__ = types
    made.__signature__ = shape
    return made
