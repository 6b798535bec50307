"""Tool loops made from functions that run the tools registered in their module."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import cast

from harness.bridge.call_log import call
from harness.bridge.clients.constructors import constructor_names
from harness.bridge.clients.loop_methods import takes_only_a_prompt
from harness.bridge.clients.loop_settings import READS_OPTION, LoopSettings
from harness.bridge.clients.methods import Method, method_of
from harness.bridge.clients.names import SYNONYMS, first_known
from harness.bridge.clients.sources import runs_tools
from harness.bridge.clients.tool_registration import Registrar, registrar_by
from harness.bridge.clients.turns import answer_of_turn, check_texts, prompt_text, whole_answer
from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.messages import ChatResponse
from harness.model.protocols import Capability, Conversation, Endpoint


def function_drive(value: Callable[..., object], api: str) -> FunctionDrive | None:
    """Return a tool loop made from a function that takes a prompt and runs tools. Return `None` for other functions.

    Another function of its module must register the tools, in a list or dictionary of the module.
    """
    run = method_of((), value)
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
        read = self.prompt.names | {*READS_OPTION.findall(self.prompt.source)}
        for known, value in (
            (SYNONYMS["system"], conversation.system),
            (SYNONYMS["max_tokens"], conversation.max_tokens),
        ):
            name = first_known(known, read)
            if value is not None and name is None:
                raise Unsupported(RECOGNISED_CLIENT, known[0], "it has no such argument")
            given |= {name: value} if value is not None and name is not None else {}
        if len(conversation.turns) > 1:
            history = first_known(SYNONYMS["messages"], self.prompt.names)
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
                returned = whole_answer(runner, call(self.function, **arguments))
                answers.append(answer_of_turn(returned, turn, conversation, self.api, self.prompt.module))
        return answers
