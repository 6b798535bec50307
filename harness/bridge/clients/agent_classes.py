"""Tool loops made from classes that run their tools themselves and have no wrapper."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from harness.bridge.clients.agent_functions import FunctionDrive, function_drive
from harness.bridge.clients.client_state import keeps_history
from harness.bridge.clients.constructors import class_made_by
from harness.bridge.clients.loop_answers import answer_attributes, changed_attributes
from harness.bridge.clients.loop_clients import client_with_settings, takes_thinking
from harness.bridge.clients.loop_methods import (
    adding_methods,
    prompt_methods,
    result_methods,
    resuming_method,
    takes_messages,
)
from harness.bridge.clients.loop_settings import LoopSettings
from harness.bridge.clients.methods import Method, method_of, public_methods
from harness.bridge.clients.names import TOOL_PARAMETERS
from harness.bridge.clients.sources import ClassSource, source_of, source_of_class
from harness.bridge.clients.tool_arguments import tool_arguments
from harness.bridge.clients.tool_functions import with_values
from harness.bridge.clients.tool_registration import Registrar, registrar_of
from harness.bridge.clients.tool_values import ToolArgument
from harness.bridge.clients.turns import answer_of_turn, call_method, check_texts, entered, prompt_text
from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.messages import ChatResponse
from harness.model.protocols import Capability, Conversation, Endpoint


def agent_drive(value: object, api: str) -> AgentDrive | FunctionDrive | None:
    """Return a tool loop made from a class or function that runs its tools itself. Return `None` for other values.

    The class needs a method that takes a prompt. Its tools are arguments of that method or of the constructor.
    Otherwise a method registers each tool, either of the class itself or of an object that its constructor creates.
    `value` may also be a function that creates the client. `api` is the API that the client calls.
    """
    if inspect.isfunction(value) and (found := function_drive(value, api)) is not None:
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
        client, per_call = client_with_settings(self, endpoint, model, conversation, made_with)
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
                answers.append(answer_of_turn(returned, turn, conversation, self.api, self.prompt, opened, changed))
        return answers


_REQUESTS_STREAM = re.compile(r"\bstream[\"']?\]?\s*[:=]\s*True\b|\.stream\(|stream_generate|streamGenerate")
"""Code that requests a stream."""


def _keeps_history(client: object, run: Method) -> bool:
    """Return whether a client keeps its conversation, as messages or on the server of the API."""
    own = cast("dict[str, object]", getattr(client, "__dict__", {}))
    lists = (name for name, each in own.items() if isinstance(each, list))
    is_kept = any(re.search("item|content|message|history|turn|thread", name) for name in lists)
    return is_kept or keeps_history(client) or "previous_response_id" in run.module
