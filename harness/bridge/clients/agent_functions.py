"""Tool loops made from functions that run tools: those that they get as an argument, or those of their module."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import cast

from harness.bridge.clients.constructors import constructor_names
from harness.bridge.clients.invocation import call_with
from harness.bridge.clients.loop_methods import takes_only_a_prompt
from harness.bridge.clients.loop_settings import READS_OPTION, LoopSettings
from harness.bridge.clients.methods import Method, method_of
from harness.bridge.clients.names import SYNONYMS, first_known
from harness.bridge.clients.sources import ClassSource, runs_tools
from harness.bridge.clients.tool_arguments import tool_arguments
from harness.bridge.clients.tool_functions import with_values
from harness.bridge.clients.tool_registration import Registrar, registrar_by
from harness.bridge.clients.tool_values import ToolArgument
from harness.bridge.clients.turns import answer_of_turn, check_texts, prompt_text, whole_answer
from harness.bridge.clients.values import plain_fields
from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.messages import ChatResponse
from harness.model.protocols import Capability, Conversation, Endpoint


def function_drive(value: Callable[..., object], api: str) -> FunctionDrive | None:
    """Return a tool loop made from a function that takes a prompt and tools. Return `None` for other functions.

    The tools are an argument, or another function of its module registers them in a list or dictionary of the module.
    A function that gets them as an argument may also return its calls to the caller; its code need not show that.
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
            return FunctionDrive(value, api, run, {}, registrar, members, registries)
    made = tool_arguments(run, ClassSource(value, run.module, run.module), only_if_clear=False)
    return FunctionDrive(value, api, run, made) if made else None


@dataclass(frozen=True, slots=True)
class FunctionDrive:
    """Tool loop made from a function that runs tools.

    `prompt_with` maps its parameters to functions that build their tool arguments. Without them, `registrar` registers
    a tool. `registries` are the names in `members` of the lists and dictionaries that store it.
    """

    function: Callable[..., object]
    api: str
    prompt: Method
    prompt_with: Mapping[str, ToolArgument]
    registrar: Registrar | None = None
    members: Mapping[str, object] = field(default_factory=dict[str, object])
    registries: Sequence[str] = ()

    @property
    def ignored(self) -> tuple[str, ...]:
        """Ids of rules that the function cannot satisfy. Tools that are declared by a Python signature have no
        enumerations and no descriptions of parameters.
        """
        return ("loop-tools",) if self._is_by_signature else ()

    @property
    def _is_by_signature(self) -> bool:
        values = [*self.prompt_with.values(), self.registrar]
        return any(getattr(each, "is_by_signature", False) for each in values)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of the loop."""
        return LoopSettings(self.prompt, self.api).capabilities

    @property
    def sentence(self) -> str:
        """The way in which the function gets its tools, as text for the user."""
        if self.registrar is not None:
            return f"which runs the tools that are registered by {self.registrar.method.path[0]}"
        if self._is_by_signature:
            return "with functions as tools"
        return f"which runs the tools that it gets by {' and '.join(self.prompt_with)}"

    def __call__(self, endpoint: Endpoint, model: str, conversation: Conversation) -> list[ChatResponse | None]:
        """Run a conversation. Return what the application gets for each turn."""
        check_texts(conversation)
        values = {"base_url": endpoint.base_url, "api_key": endpoint.api_key, "model": model}
        named = constructor_names(self.function).items()
        own = self.prompt.names if not self.prompt.is_open else {name for _, name in named}
        given: dict[str, object] = {name: values[key] for key, name in named if key in values and name in own}
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
        for each in self.registries:
            cast("dict[str, object] | list[object]", self.members[each]).clear()
        tools = with_values(conversation.tools, self.prompt.module) if self.prompt_with else conversation.tools
        for tool in tools:
            if self.registrar is not None:
                self.registrar(SimpleNamespace(**self.members), tool, self.api)
        given |= {name: make(tools, self.api) for name, make in self.prompt_with.items()}
        name = first_known(SYNONYMS["messages"], self.prompt.names) if len(conversation.turns) > 1 else None
        history, prompt = list[object](), str(self.prompt.prompt)
        answers: list[ChatResponse | None] = []
        with asyncio.Runner() as runner:
            for place, turn in enumerate(conversation.turns):
                if place and (name is None or not history):
                    raise Unsupported(RECOGNISED_CLIENT, "a second turn", "each call is a conversation")
                before, kept = [*history], {name: history} if name is not None else {}
                returned = whole_answer(runner, call_with(self.function, {prompt: prompt_text(turn), **given, **kept}))
                answers.append(answer_of_turn(returned, turn, conversation, self.api, self.prompt))
                history = _returned_history(returned) if history == before else history
        return answers


def _returned_history(answer: object) -> list[object]:
    """Return the messages of the conversation in an answer, for the next call. Return no messages if it has none."""
    fields = plain_fields(answer)
    found = (fields[name] for name in SYNONYMS["messages"] if isinstance(fields.get(name), list))
    return cast("list[object]", next(found, None) or [])
