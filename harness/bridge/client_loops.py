"""Tool loops made from classes and functions that run their tools themselves and have no wrapper.

The annotations, signatures and source of a class show how it takes its tools: as functions, as objects of its own
class, in a registry, or as declarations with a function that executes a call.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Protocol, cast

from harness.bridge.call_log import BoundMethod, call
from harness.bridge.client_answers import has_attributes
from harness.bridge.client_formats import (
    ANTHROPIC,
    FORMS,
    OPENAI,
    SYNONYMS,
    choice_as_text,
    first,
    hints_of,
)
from harness.bridge.client_methods import (
    METHODS,
    MODELS,
    Method,
    attribute_of,
    call_with,
    constructor_names,
    make_client,
    method_of,
    source_of,
    try_to_make,
)
from harness.bridge.client_shapes import keeps_history, system_attribute
from harness.bridge.client_tools import (
    EXECUTORS,
    NO_MESSAGES,
    TOOL_PARAMETERS,
    ClassSource,
    Registrar,
    ToolArgument,
    is_event_method,
    own_classes_in,
    public_methods,
    registrar_by,
    registrar_of,
    runs_tools,
    source_of_class,
    tool_arguments,
    tool_parameters,
    with_values,
)
from harness.bridge.loop_answers import EventList, answer_attributes, application_answer, changed_attributes
from harness.bridge.openai_messages import Memory
from harness.bridge.shaped_client import wait_for
from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.messages import JSON, ChatRequest, ChatResponse, Message, Text, ThinkingSettings, Tool
from harness.model.protocols import PLAIN_LOOP, Capability, Conversation, Endpoint


class ClassDrive(Protocol):
    """A tool loop made from a class (see `harness.model.protocols.Drive`)."""

    @property
    def factory(self) -> type:
        """The class whose instances run the conversation."""
        ...

    @property
    def make(self) -> Callable[..., object]:
        """The class, or a function that creates its instances."""
        ...

    @property
    def api(self) -> str:
        """The API that the instances call."""
        ...

    @property
    def sending(self) -> Method:
        """The method that sends the requests of a turn."""
        ...


def agent_drive(value: object, api: str) -> AgentDrive | FunctionDrive | None:
    """Return a tool loop made from a class or function that runs its tools itself. Return `None` for other values.

    The class needs a method that takes a prompt. Its tools are arguments of that method or of the constructor.
    Otherwise a method registers each tool, either of the class itself or of an object that its constructor creates.
    `value` may also be a function that creates the client. `api` is the API that the client calls.
    """
    if inspect.isfunction(value) and (found := _function_drive(value, api)) is not None:
        return found
    kind = value if inspect.isclass(value) else class_made_by(value, api)
    return None if kind is None else _class_drive(kind, cast("Callable[..., object]", value), api)


def _class_drive(kind: type, make: Callable[..., object], api: str) -> AgentDrive | None:
    """Return a tool loop made from a class that runs its tools itself, and from the class or function that makes it."""
    made, methods = method_of((), make), public_methods(kind)
    if make is not kind and made.is_open and not made.names & TOOL_PARAMETERS:
        made = method_of((), kind)  # the function passes its options on to the class
    run, completing = next(iter(prompt_methods(methods)), None), None
    if run is None and (adders := adding_methods(methods)):
        run, completing = adders[0], resuming_method(methods)
    if run is None or (completing is None and run in adding_methods(methods)):
        return None
    source = source_of_class(kind) if make is kind else f"{source_of(make)}\n{source_of_class(kind)}"
    place = ClassSource(kind, source, run.module)
    hands_over = bool(result_methods(methods, place.source)) or takes_messages(
        [each for each in methods if each is not run]
    )
    made_with, run_with = (tool_arguments(each, place, only_if_clear=hands_over) for each in (made, run))
    registrar = None if hands_over or made_with or run_with else registrar_of(kind, place)
    gets_tools = made_with or run_with or registrar is not None
    return AgentDrive(kind, make, api, run, made_with, run_with, registrar, completing) if gets_tools else None


def class_made_by(value: object, api: str) -> type | None:
    """Return the class of the clients that a function makes from a base URL, a key or a model. Return `None` for other
    values.
    """
    if not inspect.isfunction(value):
        return None
    method = method_of((), value)
    takes_input = method.prompt or any(first(SYNONYMS[key], method.names) for key in ("messages", "contents"))
    if takes_input or not constructor_names(value).keys() & {"base_url", "api_key", "model"}:
        return None
    with suppress(Exception):  # third-party code may fail in any way
        return type(try_to_make(value, api)[1])
    return None


@dataclass(frozen=True, slots=True)
class AgentDrive:
    """Tool loop (`drive` of an adapter) that uses a class which runs its tools itself.

    `make` is the class, or a function that makes a client of it. `made_with` and `prompt_with` map parameters of the
    constructor and of the prompt method to functions that build their tool arguments. `registrar` registers a tool with
    a client. If the prompt method only adds the prompt to the conversation, `completing` is the method that then runs
    it.
    """

    factory: type
    make: Callable[..., object]
    api: str
    prompt: Method
    made_with: Mapping[str, ToolArgument]
    prompt_with: Mapping[str, ToolArgument]
    registrar: Registrar | None
    completing: Method | None = None

    @property
    def sending(self) -> Method:
        """The method that sends the requests."""
        return self.completing or self.prompt

    @property
    def ignored(self) -> tuple[str, ...]:
        """Ids of rules that the class cannot satisfy. Tools that are declared by a Python signature have no
        enumerations and no nested descriptions, and the class may always request streams.
        """
        found = ("loop-tools",) if self._is_by_signature else ()
        return (*found, "stream-requested") if self._streams else found

    @property
    def _is_by_signature(self) -> bool:
        values = [*self.made_with.values(), *self.prompt_with.values(), self.registrar]
        return any(getattr(each, "is_by_signature", False) for each in values)

    @property
    def _streams(self) -> bool:
        """Return whether the class may always request streams. It is only a guess. A method for streams that the class
        itself does not call does not count.
        """
        source = source_of_class(self.factory)
        for each in public_methods(self.factory):
            name = each.path[0]
            if "stream" in name and each.path != self.sending.path and f"self.{name}(" not in source and each.source:
                source = source.replace(each.source, "")
        return _REQUESTS_STREAM.search(source) is not None

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of the loop."""
        found = LoopSettings(self.sending, self.api).capabilities
        found |= {Capability.THINKING} if takes_thinking(self) else set[Capability]()
        return found | {Capability.STREAMING} if self._streams else found

    @property
    def sentence(self) -> str:
        """The way in which the class gets its tools, as text for the user."""
        if self._is_by_signature:
            return "with functions as tools"
        names = [*self.made_with, *self.prompt_with]
        names += (
            ["".join(f"{each}." for each in self.registrar.path) + self.registrar.method.path[0]]
            if self.registrar
            else []
        )
        return f"which runs the tools that it gets by {' and '.join(names)}"

    def __call__(self, endpoint: Endpoint, model: str, conversation: Conversation) -> list[ChatResponse | None]:
        """Run a conversation. Return what the application gets for each turn."""
        check_texts(conversation)
        tools = with_values(conversation.tools, self.prompt.module)
        made_with = {name: make(tools, self.api) for name, make in self.made_with.items()}
        client, per_call = client_with_system(self, endpoint, model, conversation, made_with)
        if len(conversation.turns) > 1 and not _keeps_history(client, self.prompt):
            raise Unsupported(RECOGNISED_CLIENT, "a second turn", "each call of its method is a conversation")
        for tool in tools:
            if self.registrar is not None:
                self.registrar(client, tool, self.api)
        per_call |= {name: make(tools, self.api) for name, make in self.prompt_with.items()}
        per_call |= LoopSettings(self.sending, self.api).arguments(conversation, model)
        prompt = str(self.prompt.prompt)
        answers: list[ChatResponse | None] = []
        with asyncio.Runner() as runner, entered(runner, client) as opened:
            for turn in conversation.turns:
                given, before = {**self.prompt.examples, prompt: prompt_text(turn)}, answer_attributes(opened)
                if self.completing is None:
                    returned = call_method(runner, opened, self.prompt, given | per_call)
                else:
                    call_method(runner, opened, self.prompt, given)
                    returned = call_method(runner, opened, self.completing, per_call)
                changed = changed_attributes(before, answer_attributes(opened))
                answers.append(answer_of_turn(returned, turn, conversation, self.api, self.prompt.module, changed))
        return answers


_REQUESTS_STREAM = re.compile(r"\bstream[\"']?\]?\s*[:=]\s*True\b|\.stream\(|stream_generate|streamGenerate")
"""Code that requests a stream."""


def _function_drive(value: Callable[..., object], api: str) -> FunctionDrive | None:
    """Return a tool loop made from a function that takes a prompt and runs tools. Return `None` for other functions.

    Another function of its module must register the tools, in a list or dictionary of the module.
    """
    run = method_of((), value)
    module = inspect.getmodule(value)
    if module is None or not _takes_only_a_prompt(replace(run, path=(value.__name__,))):
        return None
    members = cast("dict[str, object]", vars(module))
    kept = {name for name, each in members.items() if isinstance(each, dict | list) and not each}
    for name, each in members.items():
        if not inspect.isfunction(each) or each.__module__ != module.__name__ or each is value or name[0] == "_":
            continue
        method = method_of((name,), each)
        registries = [each for each in kept if re.search(rf"\b{each}(\[|\.append\(|\.setdefault\()", method.source)]
        if registries and (registrar := registrar_by(method)) is not None and runs_tools(run.module):
            return FunctionDrive(value, api, run, registrar, members, registries)
    return None


@dataclass(frozen=True, slots=True)
class FunctionDrive:
    """Tool loop made from a function that runs the tools registered in its module.

    `registrar` registers a tool. `registries` are the names in `members` of the lists and dictionaries that store it.
    """

    function: Callable[..., object]
    api: str
    prompt: Method
    registrar: Registrar
    members: Mapping[str, object]
    registries: Sequence[str]

    @property
    def ignored(self) -> tuple[str, ...]:
        """Ids of rules that the function cannot satisfy. Tools that are declared by a Python signature have no
        enumerations and no descriptions of parameters.
        """
        return ("loop-tools",) if self.registrar.is_by_signature else ()

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of the loop."""
        return LoopSettings(self.prompt, self.api).capabilities

    @property
    def sentence(self) -> str:
        """The way in which the function gets its tools, as text for the user."""
        return f"which runs the tools that are registered by {self.registrar.method.path[0]}"

    def __call__(self, endpoint: Endpoint, model: str, conversation: Conversation) -> list[ChatResponse | None]:
        """Run a conversation. Return what the application gets for each turn."""
        check_texts(conversation)
        values = {"base_url": endpoint.base_url, "api_key": endpoint.api_key, "model": model}
        given = {name: values[key] for key, name in constructor_names(self.function).items() if key in values}
        given |= LoopSettings(self.prompt, self.api).arguments(conversation, model)
        read = self.prompt.names | {*_READS_OPTION.findall(self.prompt.source)}
        for known, value in (
            (SYNONYMS["system"], conversation.system),
            (SYNONYMS["max_tokens"], conversation.max_tokens),
        ):
            name = first(known, read)
            if value is not None and name is None:
                raise Unsupported(RECOGNISED_CLIENT, known[0], "it has no such argument")
            given |= {name: value} if value is not None and name is not None else {}
        if len(conversation.turns) > 1:
            history = first(SYNONYMS["messages"], self.prompt.names)
            if history is None:
                raise Unsupported(RECOGNISED_CLIENT, "a second turn", "each call is a conversation")
            given[history] = list[object]()
        for each in self.registries:
            cast("dict[str, object] | list[object]", self.members[each]).clear()
        for tool in conversation.tools:
            self.registrar(SimpleNamespace(**self.members), tool, self.api)
        prompt = str(self.prompt.prompt)
        answers: list[ChatResponse | None] = []
        with asyncio.Runner() as runner:
            for turn in conversation.turns:
                arguments = {prompt: prompt_text(turn), **given}
                returned = _whole(runner, call(self.function, **arguments))
                answers.append(answer_of_turn(returned, turn, conversation, self.api, self.prompt.module))
        return answers


@contextmanager
def entered(runner: asyncio.Runner, client: Any) -> Generator[object]:
    """Return a client, inside its context if it is a context manager."""
    if hasattr(cast("object", type(client)), "__enter__"):
        with client as entered:
            yield entered
    elif hasattr(cast("object", type(client)), "__aenter__"):
        entered_client = runner.run(client.__aenter__())
        try:
            yield entered_client
        finally:
            runner.run(client.__aexit__(None, None, None))
    else:
        yield client


@dataclass(frozen=True, slots=True)
class LoopSettings:
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
        found = {*PLAIN_LOOP, Capability.ANSWERS}
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


def check_texts(conversation: Conversation) -> None:
    """Raise `Unsupported` if a turn of a conversation has parts other than texts."""
    if any(not isinstance(part, Text) for turn in conversation.turns for part in turn.parts):
        raise Unsupported(RECOGNISED_CLIENT, "a message that is not a text", "its method has a prompt")


def prompt_text(turn: Message) -> str:
    """Return the text of a turn."""
    return "".join(part.text for part in turn.parts if isinstance(part, Text))


def client_with_system(
    drive: ClassDrive,
    endpoint: Endpoint,
    model: str,
    conversation: Conversation,
    own: Mapping[str, object],
) -> tuple[object, dict[str, object]]:
    """Create a client. Return it with the argument for the system prompt, if its method takes that prompt and its
    constructor does not.

    If neither takes the system prompt, it is set by another method or as an attribute.
    """
    made = method_of((), drive.make)
    system = _system_argument(made, conversation)
    setters = {
        key: setter
        for key, known in _SETTING_METHODS.items()
        if not first(known, made.names) and (setter := _setting_method(drive.factory, known)) is not None
    }
    has_limit = conversation.max_tokens is not None and "max_tokens" not in setters
    if has_limit and conversation.thinking is None and takes_budget(drive):
        raise Unsupported(RECOGNISED_CLIENT, "max_tokens", "its reasoning has a number of tokens of its own")
    limit = {_limit_argument(drive): conversation.max_tokens} if has_limit else {}
    own = {**system, **{name: each for name, each in limit.items() if name in made.names}, **own}
    own |= thinking_argument(made, conversation.thinking)
    client = make_client(drive.make, endpoint.base_url, endpoint.api_key, model, api=drive.api, **own)
    for name in limit.keys() - made.names:
        setattr(client, name, limit[name])
    values = {"model": model, "system": conversation.system, "max_tokens": conversation.max_tokens}
    for key, setter in setters.items():
        if values[key] is not None:
            changed = call(BoundMethod(client, (setter,)), values[key])
            client = changed if isinstance(changed, type(client)) else client
    per_call = thinking_argument(drive.sending, conversation.thinking)
    if system or not conversation.system or "system" in setters:
        return client, per_call
    if of_call := _system_argument(drive.sending, conversation):
        return client, per_call | of_call
    attribute = system_attribute(client, drive.sending.module)
    if attribute is None:
        raise Unsupported(RECOGNISED_CLIENT, "system", "it has no such argument")
    setattr(client, attribute, conversation.system)
    return client, per_call


def takes_thinking(drive: ClassDrive) -> bool:
    """Return whether a class takes an amount of reasoning, by its constructor or by its method for a prompt."""
    names = method_of((), drive.make).names | drive.sending.names
    return any(first(known, names) for known in _THINKING.values())


def takes_budget(drive: ClassDrive) -> bool:
    """Return whether a class takes a number of tokens for reasoning, or sends one of its own."""
    names = method_of((), drive.make).names | drive.sending.names
    is_sent = re.search(r"budget_?tokens|thinking_?budget", drive.sending.module, re.IGNORECASE)
    return first(_THINKING["budget"], names) is not None or is_sent is not None


def thinking_argument(method: Method, thinking: ThinkingSettings | None) -> dict[str, object]:
    """Return the argument for an amount of reasoning, as a number of tokens or as an effort; `{}` if there is none.

    Raises:
        Unsupported: the method takes only the other kind of amount.
    """
    names = {kind: first(known, method.names) for kind, known in _THINKING.items()}
    if thinking is None or not any(names.values()):
        return {}
    values = {"budget": thinking.budget_tokens, "effort": thinking.effort}
    found: dict[str, object] = {
        name: values[kind] for kind, name in names.items() if name is not None and values[kind] is not None
    }
    if not found:
        raise Unsupported(
            RECOGNISED_CLIENT, "this amount of reasoning", f"it takes {next(filter(None, names.values()))}"
        )
    return found


_THINKING: Mapping[str, tuple[str, ...]] = {
    "budget": ("thinking_budget", "thinking_tokens", "budget_tokens", "thinking_budget_tokens", "reasoning_budget"),
    "effort": ("reasoning_effort", "effort", "thinking_effort", "thinking_level", "reasoning_level"),
}
"""Maps a kind of amount of reasoning to the names of parameters for it."""

_SETTING_METHODS: Mapping[str, tuple[str, ...]] = {
    "model": MODELS,
    "system": SYNONYMS["system"],
    "max_tokens": SYNONYMS["max_tokens"],
}
"""Maps a setting to its names. A method with such a name, perhaps after `with_`, `set_` or `use_`, sets it."""


def _setting_method(factory: type, known: tuple[str, ...]) -> str | None:
    """Return the name of the method of a class that sets one setting, if it has one."""
    for name in (f"{prefix}{each}" for each in known for prefix in ("", "with_", "set_", "use_")):
        method = getattr(factory, name, None)
        if inspect.isfunction(method) and len(method_of((), method).required - {"self"}) == 1:
            return name
    return None


def _system_argument(method: Method, conversation: Conversation) -> dict[str, str]:
    """Return the argument for the system prompt. Without a system prompt, one that has a default is left out."""
    names = method.names & {*SYNONYMS["system"]}
    return dict.fromkeys(names if conversation.system else names & method.required, conversation.system or "")


def _limit_argument(drive: ClassDrive) -> str:
    """Return the constructor's parameter, or the attribute, for the maximum number of tokens of an answer."""
    found = re.search(rf"\bself\.({'|'.join(SYNONYMS['max_tokens'])})\s*=", source_of_class(drive.factory))
    name = first(SYNONYMS["max_tokens"], method_of((), drive.make).names) or (found[1] if found else None)
    if name is None:
        raise Unsupported(RECOGNISED_CLIENT, "max_tokens", "it has no such argument")
    return name


def _keeps_history(client: object, run: Method) -> bool:
    """Return whether a client keeps its conversation, as messages or on the server of the API."""
    own = cast("dict[str, object]", getattr(client, "__dict__", {}))
    lists = (name for name, each in own.items() if isinstance(each, list))
    is_kept = any(re.search("item|content|message|history|turn|thread", name) for name in lists)
    return is_kept or keeps_history(client) or "previous_response_id" in run.module


# Methods of a class that is a tool loop


def prompt_methods(methods: Sequence[Method]) -> list[Method]:
    """Return the methods that require only a prompt and perhaps tools. The most common name comes first."""
    found = [each for each in methods if _takes_only_a_prompt(each)]
    places = {name: place for place, name in enumerate(METHODS)}
    return sorted(found, key=lambda each: (not each.has_usual_prompt, places.get(each.path[0], len(METHODS))))


def adding_methods(methods: Sequence[Method]) -> list[Method]:
    """Return the methods that add the prompt of a user to the conversation and send nothing."""
    named = [each for each in methods if _ADDING.fullmatch(each.path[0])]
    prompts = [(each, each.prompt) for each in named]
    return [each for each, prompt in prompts if prompt is not None and each.required <= {"self", prompt}]


_ADDING = re.compile("(add|append|push)_(user|human)(_message|_text|_turn)?|(add|append|push)_prompt|user(_message)?")


def resuming_method(methods: Sequence[Method]) -> Method | None:
    """Return the method without required parameters that sends the conversation, if there is one."""
    free = {each.path[0]: each for each in methods if each.required <= {"self"}}
    name = first(_RESUMING_METHODS, frozenset(free))
    return None if name is None else free[name]


def _takes_only_a_prompt(method: Method) -> bool:
    prompt = method.prompt
    others = {name for name in method.required if name in TOOL_PARAMETERS or EXECUTORS.fullmatch(name)}
    is_other = RESULT_METHOD.search(method.path[0]) or _SETTERS.match(method.path[0]) or declares_tools(method)
    is_other = is_other or (method.path[0] == "handle" and not method.sends_requests)
    return prompt is not None and method.required <= {"self", prompt, *others, *method.examples} and not is_other


def takes_messages(methods: Sequence[Method]) -> bool:
    """Return whether a method with a common name takes the whole conversation."""
    return any(first(SYNONYMS["messages"], each.names) for each in methods if each.path[0] in METHODS)


_SETTERS = re.compile("set_|add_|load|append|register|remember|count|estimate")


def call_method(runner: asyncio.Runner, client: object, method: Method, arguments: Mapping[str, object]) -> object:
    """Call a method of a client, and return its answer. The items of an iterator are returned as `EventList`."""
    bound = BoundMethod(client, method.path)
    described = cast("Callable[..., object]", attribute_of(client, method.path))
    return _whole(runner, call_with(bound, arguments, described))


def _whole(runner: asyncio.Runner, answer: object) -> object:
    """Return an answer that may be awaitable or an iterator. The items of an iterator are returned as `EventList`.

    An iterator that yields nothing more and has attributes is an object that keeps the answer in them.
    """
    whole = runner.run(wait_for(answer)) if inspect.isawaitable(answer) else answer
    if isinstance(whole, AsyncIterator):
        items = runner.run(_collect(cast("AsyncIterator[object]", whole)))
    elif isinstance(whole, Iterator):
        items = [*cast("Iterator[object]", whole)]
    else:
        return whole
    kept = cast("object", whole)
    return kept if not items and has_attributes(kept) else EventList(items)


def answer_of_turn(  # noqa: PLR0913, PLR0917 - the answer and what is known about its turn
    returned: object,
    turn: Message,
    conversation: Conversation,
    api: str,
    source: str,
    changed: Mapping[str, JSON] | None = None,
) -> ChatResponse | None:
    """Return what the application gets for a turn, or `None` if that is not known.

    `source` is the loop's code, and `changed` are the attributes of its object that the turn changed.
    """
    request = ChatRequest("", (turn,), system=conversation.system, response_format=conversation.response_format)
    return application_answer(returned, request, api, source, changed)


async def _collect(items: AsyncIterator[object]) -> list[object]:
    return [each async for each in items]


def declares_tools(method: Method) -> bool:
    """Return whether a method takes the name and the schema of a tool, and possibly its function."""
    named = tool_parameters(method)
    return {"name", "parameters"} <= named.keys() and method.required <= {"self", *named.values()}


RESULT_METHOD = re.compile(
    "(tool|function|call)_?(result|output|response)s?$|(answer|resolve|complete|finish)_(tool_|function_)?calls?$"
)

_SUBMITTING = re.compile(
    "submit|answer|repl(y|ies)|send|give|provide|resume|continue|respond|feed|post|push|supply|deliver|results?$|return"
    "|tool|complete|resolve|finish|proceed|step|next|ask|run|chat"
)
"""Names of methods that accept results, if the name of one of their parameters means results."""

_RESULTS = re.compile("((tool|function|call)_?)?(results|outputs|responses|returns|answers|values|observations)")

_RESUMING_METHODS = (
    *("resume", "continue_", "proceed", "go_on", "advance", "step", "next", "next_turn", "run", "complete"),
    *("generate", "send", "respond", "answer", "reply", "ask", "chat", "invoke"),
)

_CALL_NAMES = {"call", "tool_call", "function_call", "call_id", "tool_call_id", "tool_use_id"}
"""Names of parameters that can only mean a call or its id."""

CALL_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "call": ("call", "tool_call", "function_call", "tool_use"),
    "id": ("call_id", "tool_call_id", "tool_use_id", "id"),
    "name": ("name", "tool_name", "function_name", "tool"),
    "content": ("result", "output", "content", "value", "response", "text", "data"),
    "is_error": ("is_error", "error", "failed"),
}
"""Maps the parts of a tool result to the names of parameters, fields and keys for them."""


def result_methods(methods: Sequence[Method], source: str) -> list[Method]:
    """Return the methods that accept the results of all calls, or one result with its call.

    A method that the class itself calls may be a step of its own loop. It is returned only if its name is that of a
    method for results. A static method only makes a message, which the caller adds to the history.
    """
    own = [each for each in methods if "self" in each.names and not is_event_method(each)]
    found = [each for each in own if result_parameters(each) or results_parameter(each) is not None]
    return [each for each in found if RESULT_METHOD.search(each.path[0]) or f"self.{each.path[0]}(" not in source]


def result_parameters(method: Method) -> dict[str, str]:
    """Return the parameters of a method that accepts one result, by their meaning; `{}` for one that accepts all."""
    named = {key: name for key, known in CALL_PARAMETERS.items() if (name := first(known, method.names))}
    is_named = RESULT_METHOD.search(method.path[0]) or {named.get("call"), named.get("id")} & _CALL_NAMES
    is_one = is_named and "content" in named and named.keys() & {"id", "call"} and not method.path[0].startswith("on_")
    return named if is_one and method.required <= {"self", *named.values()} else {}


def results_parameter(method: Method) -> str | None:
    """Return the parameter of a method that accepts the results of all calls."""
    required = method.required - {"self", *SYNONYMS["tools"]}
    named = [each for each in sorted(method.names) if _RESULTS.fullmatch(each) and required <= {each}]
    if named and _SUBMITTING.match(method.path[0]):
        return named[0]
    only = next(iter(required)) if len(required) == 1 else None
    if only is None:
        return None
    is_typed = any(map(is_result_class, own_classes_in(method.hints.get(only))))
    return only if is_typed or RESULT_METHOD.search(method.path[0]) else None


def is_result_class(kind: type) -> bool:
    """Return whether a class has fields for a call and for its result."""
    names = hints_of(kind).keys()
    has_call = any({*CALL_PARAMETERS[each]} & names for each in ("call", "id"))
    return has_call and bool({*CALL_PARAMETERS["content"]} & names) and not issubclass(kind, Mapping)
