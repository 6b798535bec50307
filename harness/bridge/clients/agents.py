"""Tool loops made from classes and functions that run their tools themselves and have no wrapper."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import cast

from harness.bridge.call_log import call
from harness.bridge.clients.caller_messages import (
    CallerConversation,
    CallerMessages,
    caller_messages,
    returned_messages,
)
from harness.bridge.clients.client_makers import ClientMaker, made_by, maker_of
from harness.bridge.clients.client_state import keeps_history, variables_of
from harness.bridge.clients.constructors import (
    constructor_method,
    constructor_names,
    injected_client,
    make_client,
)
from harness.bridge.clients.invocation import call_with
from harness.bridge.clients.loop_methods import (
    adding_methods,
    prompt_methods,
    requires_only,
    result_methods,
    resuming_method,
    takes_messages,
    takes_only_a_prompt,
)
from harness.bridge.clients.loop_settings import (
    READS_OPTION,
    LoopSettings,
    client_with_settings,
    settings_of_constructor,
    takes_thinking,
)
from harness.bridge.clients.methods import Method, method_of
from harness.bridge.clients.names import EXECUTORS, SYNONYMS, TOOL_PARAMETERS, first_known
from harness.bridge.clients.own_tools import PackageCode, own_registrar, own_tool_argument
from harness.bridge.clients.sources import ClassSource, runs_tools, source_of
from harness.bridge.clients.tool_arguments import ToolArgument, tool_arguments
from harness.bridge.clients.tool_functions import adapted_tools, with_strict_schemas
from harness.bridge.clients.tool_registration import Registrar, registrar_by, registrar_of
from harness.bridge.clients.tool_variants import attribute_variants, tool_variants
from harness.bridge.clients.turns import (
    answer_attributes,
    answer_of_turn,
    call_method,
    changed_attributes,
    check_texts,
    prompt_text,
    whole_answer,
    without_tool_errors,
)
from harness.bridge.clients.user_answers import callback_arguments, confirmed_questions
from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.messages import ChatResponse
from harness.model.protocols import Capability, Conversation, Endpoint


def recognise_agent(value: object, api: str) -> AgentDrive | FunctionDrive | None:
    """Return a tool loop made from a class or function that runs its tools itself. Return `None` for other values.

    The class needs a method that takes a prompt. Its tools are arguments of that method or of the constructor.
    Otherwise a method registers each tool, either of the class itself or of an object that its constructor creates.
    `value` may also be a function that creates the client, or such a client. The client of a function may be a function
    itself. `api` is the API that the client calls.
    """
    if inspect.isfunction(value) and (found := recognise_function_loop(value, api)) is not None:
        return found
    maker = maker_of(value, api)
    return None if maker is None else _drive_of(maker, api)


def guess_agent(value: object, api: str) -> AgentDrive | None:
    """Return a tool loop made from a class that gets its tools by parameters or methods with names of its own.

    What its package does with them shows that they are tools. It is only a guess: a trial must show that a tool arrives
    in a request and that its calls are run. `value` and `api` are those of `recognise_agent`.
    """
    maker = maker_of(value, api)
    if maker is None or (kind := maker.client_class) is None:
        return None
    loop = _methods_of_class(maker, kind)
    if loop is None or loop.may_return_calls:
        return None
    package, method = PackageCode.around(kind), getattr(kind, loop.prompt.path[0])
    constructor_tools = own_tool_argument(maker.make, loop.constructor, loop.code, package)
    prompt_tools = {} if constructor_tools else own_tool_argument(method, loop.prompt, loop.code, package)
    registrar = None if constructor_tools or prompt_tools else own_registrar(maker.made_class or kind, package)
    return loop.drive(api, constructor_tools, prompt_tools, registrar)


def loop_variants(value: object, api: str) -> Iterator[AgentDrive | FunctionDrive]:
    """Yield tool loops that give a class or function its tools in further ways. A trial must show which one is right.

    `value` and `api` are those of `recognise_agent`.
    """
    if inspect.isfunction(value):
        yield from _variants_of_function(value, api)
    maker = maker_of(value, api)
    if maker is None or (kind := maker.client_class) is None:
        return
    yield from _loops_over_conversations(maker, kind, api)
    loop = _methods_of_class(maker, kind)
    if loop is None or loop.may_return_calls or not _ANSWERS_CALLS.search(loop.prompt.with_imports):
        return
    for each in tool_variants(maker.make, loop.constructor, loop.code, api):
        yield AgentDrive(maker, api, loop.prompt, each, {}, None, loop.completing)
    for each in tool_variants(getattr(kind, loop.prompt.path[0]), loop.prompt, loop.code, api):
        yield AgentDrive(maker, api, loop.prompt, {}, each, None, loop.completing)
    for each in attribute_variants(kind, loop.code, api) if not maker.opening else ():
        yield AgentDrive(maker, api, loop.prompt, {}, {}, None, loop.completing, attribute_tools=each)


def _variants_of_function(value: Callable[..., object], api: str) -> Iterator[FunctionDrive]:
    run = _method_of_function(value)
    code = ClassSource(value, run.module, run.module)
    if takes_only_a_prompt(replace(run, path=(value.__name__,))):
        given = tool_variants(value, run, code, api) if _ANSWERS_CALLS.search(run.with_imports) else ()
        yield from (FunctionDrive(value, api, run, each) for each in given)
        return
    for said in _callers_messages(run, api):
        for each in _ways_to_give_tools(value, run, code, api):
            if said.parameter not in each and requires_only(run, said.parameter, each):
                yield FunctionDrive(value, api, run, each, conversation=said)


def _loops_over_conversations(maker: ClientMaker, kind: type, api: str) -> Iterator[AgentDrive]:
    """Yield the tool loops of a class whose methods take the caller's conversation, and run tools."""
    for run in maker.methods:
        code, constructor = ClassSource(kind, maker.class_source, run.module), constructor_method(maker.make)
        for said in _callers_messages(run, api):
            for each in _ways_to_give_tools(getattr(kind, run.path[0]), run, code, api):
                if said.parameter not in each and requires_only(run, said.parameter, each):
                    yield AgentDrive(maker, api, run, {}, each, None, conversation=said)
            if not requires_only(run, said.parameter):
                continue
            for each in _ways_to_give_tools(maker.make, constructor, code, api):
                yield AgentDrive(maker, api, run, each, {}, None, conversation=said)


def _callers_messages(run: Method, api: str) -> Iterator[CallerMessages]:
    """Yield the ways in which a method or function may get its caller's messages, if it may run tools."""
    may_run = runs_tools(run.called_source) or any(map(EXECUTORS.fullmatch, run.names))
    if may_run and _ANSWERS_CALLS.search(run.with_imports):
        yield from caller_messages(run, api)


def _ways_to_give_tools(
    function: Callable[..., object], method: Method, code: ClassSource, api: str
) -> Iterator[Mapping[str, ToolArgument]]:
    usual = tool_arguments(method, code, only_if_clear=False)
    yield from filter(None, (usual, *tool_variants(function, method, code, api)))


_ANSWERS_CALLS = re.compile(r"tool_call_id|tool_use_id|function_call_output|function_?response", re.IGNORECASE)
"""Code that sends the result of a call."""


def _drive_of(maker: ClientMaker, api: str) -> AgentDrive | None:
    """Return a tool loop made from clients that run their tools themselves. Return `None` for other clients."""
    kind = maker.client_class
    loop = _methods_of_function(maker, api) if kind is None else _methods_of_class(maker, kind)
    if loop is None:
        return None
    constructor_tools, prompt_tools = (
        tool_arguments(each, loop.code, only_if_clear=loop.may_return_calls) for each in (loop.constructor, loop.prompt)
    )
    is_unclear = loop.may_return_calls and loop.completing is None
    registrar = None
    if kind is not None and not (is_unclear or constructor_tools or prompt_tools):
        registrar = registrar_of(maker.made_class or kind, loop.code) or registrar_of(kind, loop.code)
    return loop.drive(api, constructor_tools, prompt_tools, registrar)


@dataclass(frozen=True, slots=True)
class _LoopMethods:
    """Constructor of a class, its method for a prompt, and the code that may show that it runs tools.

    If the method only adds the prompt to the conversation, `completing` is the method that then sends it.
    `may_return_calls` is set if the class may return its calls to the caller. `constructor` may be a function that
    makes the instances.
    """

    maker: ClientMaker
    constructor: Method
    prompt: Method
    completing: Method | None
    code: ClassSource
    may_return_calls: bool

    def drive(
        self,
        api: str,
        constructor_tools: Mapping[str, ToolArgument],
        prompt_tools: Mapping[str, ToolArgument],
        registrar: Registrar | None,
    ) -> AgentDrive | None:
        """Return the tool loop, or `None` if nothing takes tools."""
        if not constructor_tools and not prompt_tools and registrar is None:
            return None
        return AgentDrive(self.maker, api, self.prompt, constructor_tools, prompt_tools, registrar, self.completing)


def _methods_of_class(maker: ClientMaker, kind: type) -> _LoopMethods | None:
    """Return the methods of a class that take a prompt and run it, or `None` if there are none."""
    constructor, methods = constructor_method(maker.make), maker.methods
    if not maker.is_class and constructor.is_open and not constructor.names & TOOL_PARAMETERS:
        constructor = method_of((), kind)  # the function passes its options on to the class
    adders = adding_methods(methods)
    run, completing = next((each for each in prompt_methods(methods) if each not in adders), None), None
    if run is None and adders:
        run, completing = adders[0], resuming_method(methods)
    if run is None or (completing is None and run in adders):
        return None
    source = maker.class_source if maker.is_class else f"{source_of(maker.make)}\n{maker.class_source}"
    code = ClassSource(kind, source, run.module)
    may_return_calls = bool(result_methods(methods, code.source)) or takes_messages(
        [each for each in methods if each is not run]
    )
    return _LoopMethods(maker, constructor, run, completing, code, may_return_calls)


def _methods_of_function(maker: ClientMaker, api: str) -> _LoopMethods | None:
    """Return the function that another one makes. Return `None` if it takes no prompt."""
    function = cast("Callable[..., object]", made_by(maker.make, api))
    constructor, run = method_of((), maker.make), method_of((), function)
    if not takes_only_a_prompt(replace(run, path=(function.__name__,))):
        return None
    code = ClassSource(maker.make, constructor.source, constructor.module, constructor.called_source)
    return _LoopMethods(maker, constructor, run, None, code, may_return_calls=False)


@dataclass(frozen=True, slots=True)
class AgentDrive:
    """Tool loop (`drive` of an adapter) that uses a class which runs its tools itself.

    `constructor_tools` and `prompt_tools` map parameters of the constructor and of the prompt method to functions that
    build their tool arguments. `registrar` registers a tool with a client. If the prompt method only adds the prompt to
    the conversation, `completing` is the method that then sends it. `continues` is set if a trial has shown that its
    calls continue one conversation. `attribute_tools` maps attributes of the client to functions that build their
    values. `conversation` is the parameter for the caller's messages, if the method takes them in place of a prompt.
    """

    maker: ClientMaker
    api: str
    prompt: Method
    constructor_tools: Mapping[str, ToolArgument]
    prompt_tools: Mapping[str, ToolArgument]
    registrar: Registrar | None
    completing: Method | None = None
    continues: bool = False
    attribute_tools: Mapping[str, ToolArgument] = field(default_factory=dict[str, "ToolArgument"])
    conversation: CallerMessages | None = None

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
        given = (self.constructor_tools, self.prompt_tools, self.attribute_tools)
        values = [*(value for each in given for value in each.values()), self.registrar]
        return any(getattr(each, "is_by_signature", False) for each in values)

    @property
    def _streams(self) -> bool:
        """Return whether the class may always request streams. It is only a guess. A method for streams that the class
        itself does not call does not count.
        """
        is_function = self.maker.client_class is None
        source = method_of((), self.maker.make).called_source if is_function else self.maker.class_source
        for each in self.maker.methods:
            name = each.path[0]
            if "stream" in name and each.path != self.sending.path and f"self.{name}(" not in source and each.source:
                source = source.replace(each.source, "")
        return _REQUESTS_STREAM.search(source) is not None

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of the loop."""
        found = LoopSettings(self.sending, self.api).capabilities | settings_of_constructor(self).capabilities
        found |= {Capability.THINKING} if takes_thinking(self) else set[Capability]()
        return found | {Capability.STREAMING} if self._streams else found

    @property
    def may_be_client(self) -> bool:
        """Return whether a trial must show that the calls are not returned to the caller."""
        return self.maker.client_class is None

    @property
    def sentence(self) -> str:
        """The way in which the class gets its tools, as text for the user."""
        opened = f", in the session that {self.maker.opening} opens" if self.maker.opening else ""
        if self._is_by_signature:
            return f"with functions as tools{opened}"
        names = [*self.constructor_tools, *self.prompt_tools, *self.attribute_tools]
        names += (
            ["".join(f"{each}." for each in self.registrar.path) + self.registrar.method.path[0]]
            if self.registrar
            else []
        )
        return f"which runs the tools that it gets by {' and '.join(names)}{opened}"

    def __call__(self, endpoint: Endpoint, model: str, conversation: Conversation) -> list[ChatResponse | None]:
        """Run a conversation. Return what the application gets for each turn."""
        check_texts(conversation)
        tools = adapted_tools(with_strict_schemas(conversation.tools, self.prompt.with_imports), self.prompt.module)
        constructor_tools = {name: make(tools, self.api) for name, make in self.constructor_tools.items()}
        client, per_call, system = self._client(endpoint, model, conversation, constructor_tools)
        examples = self.prompt.examples
        for name, make in self.attribute_tools.items():
            call(setattr, client, name, make(tools, self.api))
        for tool in tools:
            if self.registrar is not None:
                client = self.registrar(client, tool, self.api)
        per_call |= {name: make(tools, self.api) for name, make in self.prompt_tools.items()}
        per_call |= callback_arguments(self.prompt)
        per_call |= LoopSettings(self.sending, self.api).arguments(conversation, model)
        said = CallerConversation(self.conversation, self.prompt, system) if self.conversation else None
        answers = list[ChatResponse | None]()
        with (
            without_tool_errors(),
            confirmed_questions(),
            asyncio.Runner() as runner,
            self.maker.opened(runner, client) as opened,
        ):
            holders = [client, opened, *examples.values()]
            is_kept = said or self.continues or any(_keeps_history(each, self.prompt) for each in holders)
            if len(conversation.turns) > 1 and not is_kept:
                raise Unsupported(RECOGNISED_CLIENT, "a second turn", "each call of its method is a conversation")
            for turn in conversation.turns:
                text = {str(self.prompt.prompt): prompt_text(turn)}
                given, before = examples | (said.argument(turn) if said else text), answer_attributes(opened)
                if self.completing is None:
                    returned = call_method(runner, opened, self.prompt, given | per_call)
                else:
                    asked = call_method(runner, opened, self.prompt, given)
                    is_copy = isinstance(asked, type(opened)) and asked is not opened
                    if is_copy and len(conversation.turns) > 1:
                        raise Unsupported(RECOGNISED_CLIENT, "a second turn", "each of its copies is a conversation")
                    returned = call_method(runner, asked if is_copy else opened, self.completing, per_call)
                if said is not None:
                    said.update(returned)
                changed = changed_attributes(before, answer_attributes(opened))
                answers.append(answer_of_turn(returned, turn, conversation, self.api, self.prompt, opened, changed))
        return answers

    def _client(
        self, endpoint: Endpoint, model: str, conversation: Conversation, own: Mapping[str, object]
    ) -> tuple[object, dict[str, object], str | None]:
        """Return a client, the arguments for its method, and the system prompt if its messages have to carry it."""
        try:
            return *client_with_settings(self, endpoint, model, conversation, own), None
        except Unsupported as error:
            if self.conversation is None or not self.conversation.takes_system or error.feature != "system":
                raise
        without = replace(conversation, system=None)
        return *client_with_settings(self, endpoint, model, without, own), conversation.system


_REQUESTS_STREAM = re.compile(r"\bstream[\"']?\]?\s*[:=]\s*True\b|\.stream\(|stream_generate|streamGenerate")
"""Code that requests a stream."""


def _keeps_history(client: object, run: Method) -> bool:
    """Return whether a client keeps its conversation, as messages or on the server of the API."""
    lists = (name for name, each in variables_of(client).items() if isinstance(each, list))
    is_kept = any(re.search("item|content|message|history|turn|thread", name) for name in lists)
    return is_kept or keeps_history(client) or "previous_response_id" in run.module


def recognise_function_loop(value: Callable[..., object], api: str) -> FunctionDrive | None:
    """Return a tool loop made from a function that takes a prompt and tools. Return `None` for other functions.

    The tools are an argument, or another function of its module registers them in a list or dictionary of the module.
    A function that gets them as an argument may also return its calls to the caller; its code need not show that.
    """
    run = _method_of_function(value)
    module = inspect.getmodule(value)
    if module is None or not takes_only_a_prompt(replace(run, path=(value.__name__,))):
        return None
    members = cast("dict[str, object]", vars(module))
    kept = {name for name, each in members.items() if isinstance(each, dict | list) and not each}
    for name, each in members.items():
        if not inspect.isfunction(each) or each.__module__ != module.__name__ or each is value or name[0] == "_":
            continue
        method = method_of((name,), each)
        registries = [each for each in kept if re.search(rf"\b{each}(\[|\.append\(|\.setdefault\()", method.source)]
        if registries and (registrar := registrar_by(method)) is not None and runs_tools(run.module):
            return FunctionDrive(value, api, run, {}, registrar, members, registries)
    made = tool_arguments(run, ClassSource(value, run.module, run.module), only_if_clear=False)
    return FunctionDrive(value, api, run, made) if made else None


def _method_of_function(value: Callable[..., object]) -> Method:
    """Return a function as a method that does not require the client of an SDK, because a `FunctionDrive` makes it."""
    run, client = method_of((), value), injected_client(value)
    return run if client is None else replace(run, required=run.required - {client[0]})


@dataclass(frozen=True, slots=True)
class FunctionDrive:
    """Tool loop made from a function that runs tools.

    `prompt_tools` maps its parameters to functions that build their tool arguments. Without them, `registrar` registers
    a tool. `registries` are the names in `members` of the lists and dictionaries that store it. `conversation` is the
    parameter for the caller's messages, if the function takes them in place of a prompt.
    """

    function: Callable[..., object]
    api: str
    prompt: Method
    prompt_tools: Mapping[str, ToolArgument]
    registrar: Registrar | None = None
    members: Mapping[str, object] = field(default_factory=dict[str, object])
    registries: Sequence[str] = ()
    conversation: CallerMessages | None = None

    @property
    def ignored(self) -> tuple[str, ...]:
        """Ids of rules that the function cannot satisfy. Tools that are declared by a Python signature have no
        enumerations and no descriptions of parameters.
        """
        return ("loop-tools",) if self._is_by_signature else ()

    @property
    def _is_by_signature(self) -> bool:
        values = [*self.prompt_tools.values(), self.registrar]
        return any(getattr(each, "is_by_signature", False) for each in values)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of the loop."""
        return LoopSettings(self.prompt, self.api).capabilities

    @property
    def may_be_client(self) -> bool:
        """Return whether a trial must show that the calls are not returned to the caller."""
        return self.registrar is None

    @property
    def sentence(self) -> str:
        """The way in which the function gets its tools, as text for the user."""
        if self.registrar is not None:
            return f"which runs the tools that are registered by {self.registrar.method.path[0]}"
        if self._is_by_signature:
            return "with functions as tools"
        return f"which runs the tools that it gets by {' and '.join(self.prompt_tools)}"

    def __call__(self, endpoint: Endpoint, model: str, conversation: Conversation) -> list[ChatResponse | None]:
        """Run a conversation. Return what the application gets for each turn."""
        check_texts(conversation)
        values = {"base_url": endpoint.base_url, "api_key": endpoint.api_key, "model": model}
        named = constructor_names(self.function).items()
        own = self.prompt.names if not self.prompt.is_open else {name for _, name in named}
        given: dict[str, object] = {name: values[key] for key, name in named if key in values and name in own}
        if (client := injected_client(self.function)) is not None:
            given[client[0]] = make_client(client[1], endpoint.base_url, endpoint.api_key, model)
        given |= self.prompt.examples | callback_arguments(self.prompt)
        given |= LoopSettings(self.prompt, self.api).arguments(conversation, model)
        settings, system = self._settings(conversation)
        given |= settings
        for each in self.registries:
            cast("dict[str, object] | list[object]", self.members[each]).clear()
        tools = with_strict_schemas(conversation.tools, self.prompt.with_imports)
        tools = adapted_tools(tools, self.prompt.module) if self.prompt_tools else tools
        for tool in tools:
            if self.registrar is not None:
                self.registrar(SimpleNamespace(**self.members), tool, self.api)
        given |= {name: make(tools, self.api) for name, make in self.prompt_tools.items()}
        name = first_known(SYNONYMS["messages"], self.prompt.names) if len(conversation.turns) > 1 else None
        said = CallerConversation(self.conversation, self.prompt, system) if self.conversation else None
        history, answers = list[object](), list[ChatResponse | None]()
        with without_tool_errors(), confirmed_questions(), asyncio.Runner() as runner:
            for place, turn in enumerate(conversation.turns):
                is_kept = said is not None or self.prompt.holds_conversation or (name is not None and bool(history))
                if place and not is_kept:
                    raise Unsupported(RECOGNISED_CLIENT, "a second turn", "each call is a conversation")
                before, kept = [*history], {name: history} if name is not None else {}
                asked = said.argument(turn) if said else {str(self.prompt.prompt): prompt_text(turn), **kept}
                returned = whole_answer(runner, call_with(self.function, {**given, **asked}))
                answers.append(answer_of_turn(returned, turn, conversation, self.api, self.prompt))
                if said is not None:
                    said.update(returned)
                elif history == before:
                    history = returned_messages(returned)
        return answers

    def _settings(self, conversation: Conversation) -> tuple[dict[str, object], str | None]:
        """Return the arguments for the settings, and the system prompt if the caller's messages have to carry it."""
        read = self.prompt.names | {*READS_OPTION.findall(self.prompt.source)}
        wanted: dict[str, object] = {"system": conversation.system, "max_tokens": conversation.max_tokens}
        names = {key: first_known(SYNONYMS[key], read) for key in wanted}
        unknown = [key for key, value in wanted.items() if value is not None and names[key] is None]
        is_message = unknown == ["system"] and self.conversation is not None and self.conversation.takes_system
        if unknown and not is_message:
            raise Unsupported(RECOGNISED_CLIENT, unknown[0], "it has no such argument")
        given: dict[str, object] = {
            name: wanted[key] for key, name in names.items() if name is not None and wanted[key] is not None
        }
        return given, conversation.system if is_message else None
