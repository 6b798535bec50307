"""Tool loops from classes without a wrapper: those that run their tools, and those that keep their history.

A class that runs its tools gets them as its annotations, its signatures and its source show: as functions, as objects
of its own class, in a registry, or as declarations with a function that executes a call.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import typing
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from harness.bridge.call_log import BoundMethod, call
from harness.bridge.client_answers import OwnCall, own_calls
from harness.bridge.client_formats import (
    ANTHROPIC,
    FORMS,
    GEMINI,
    OPENAI,
    SYNONYMS,
    as_annotated,
    choice_as_text,
    first,
    hints_of,
)
from harness.bridge.client_methods import METHODS, Method, make_client, method_of
from harness.bridge.client_shapes import keeps_history, system_attribute
from harness.bridge.client_tools import (
    EXECUTORS,
    NO_MESSAGES,
    TOOL_PARAMETERS,
    ClassSource,
    Registrar,
    ToolArgument,
    declarations,
    own_classes_in,
    public_methods,
    registrar_of,
    source_of_class,
    tool_arguments,
    tool_parameters,
)
from harness.bridge.openai_messages import Memory
from harness.bridge.shaped_client import wait_for
from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.messages import ChatRequest, Message, Text, Tool, ToolCall
from harness.model.protocols import PLAIN_LOOP, Capability, Conversation, Endpoint


def agent_drive(value: object, api: str) -> AgentDrive | None:
    """Return a drive that runs conversations with a class that runs its tools itself. Return `None` for other classes.

    The class has a method for a prompt. It gets its tools by its constructor, by the method for the prompt, or by a
    method that registers a tool, of the class or of an object that its constructor creates. `api` is the API that it
    uses.
    """
    if not inspect.isclass(value):
        return None
    made, methods = method_of((), value), public_methods(value)
    run = next(iter(_prompt_methods(methods)), None)
    if run is None:
        return None
    place = ClassSource(value, source_of_class(value), run.module)
    hands_over = bool(_result_methods(methods, place.source)) or _takes_messages(
        [each for each in methods if each is not run]
    )
    made_with, run_with = (tool_arguments(each, place, only_if_clear=hands_over) for each in (made, run))
    registrar = None if hands_over or made_with or run_with else registrar_of(value, place)
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
    made_with: Mapping[str, ToolArgument]
    prompt_with: Mapping[str, ToolArgument]
    registrar: Registrar | None

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
        request = ChatRequest(model, NO_MESSAGES, tools=tools, response_format=conversation.response_format)
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
    found = re.search(rf"\bself\.({'|'.join(SYNONYMS['max_tokens'])})\s*=", source_of_class(factory))
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
    methods = public_methods(value)
    prompts = _prompt_methods(methods)
    found = _result_methods(methods, source_of_class(value))
    results = min(found, key=_place_among_results, default=None)
    if not prompts or results is None or _takes_messages(methods):
        return None
    declaring = next((each for each in methods if _declares_tools(each)), None)
    return SessionDrive(value, api, prompts[0], results, declaring, methods)


def _prompt_methods(methods: Sequence[Method]) -> list[Method]:
    """Return the methods that need a prompt and nothing else, except tools. The most usual name is first."""
    found = [each for each in methods if _takes_only_a_prompt(each)]
    return sorted(found, key=lambda each: METHODS.index(each.path[0]) if each.path[0] in METHODS else len(METHODS))


def _takes_only_a_prompt(method: Method) -> bool:
    prompt = first(SYNONYMS["prompt"], method.names)
    others = {name for name in method.required if name in TOOL_PARAMETERS or EXECUTORS.fullmatch(name)}
    is_other = _RESULT_METHOD.search(method.path[0]) or _SETTERS.match(method.path[0]) or _declares_tools(method)
    return prompt is not None and method.required <= {"self", prompt, *others} and not is_other


def _takes_messages(methods: Sequence[Method]) -> bool:
    """Return whether a usual method takes the whole conversation."""
    return any(first(SYNONYMS["messages"], each.names) for each in methods if each.path[0] in METHODS)


def _declares_tools(method: Method) -> bool:
    """Return whether a method takes the name and the schema of a tool, and possibly its function."""
    named = tool_parameters(method)
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
    is_typed = any(map(_is_result_class, own_classes_in(method.hints.get(only))))
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
        kinds = own_classes_in(self.results.hints.get(_results_parameter(self.results) or ""))
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
                Registrar(self.declaring, tool_parameters(self.declaring))(client, tool)
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
        return declarations(conversation.tools, self.api, self.prompt.module) if is_given else None

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
        place = ClassSource(self.factory, source_of_class(self.factory), self.prompt.module)
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
    place: ClassSource
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
        kind = next(filter(_is_result_class, own_classes_in(hint)), None) or self._unnamed_class()
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
    kinds = tuple(own_classes_in(hint))
    made = result["call"]
    fields = (getattr(made, name, None) for name in hints_of(cast("object", type(made))))
    own = [each for each in (made, *fields) if kinds and isinstance(each, kinds)]
    return own[0] if own else result["id"]
