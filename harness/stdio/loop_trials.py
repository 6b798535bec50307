"""Choice between the ways in which third-party code may take its tools: a trial shows whether it runs one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, TypeAlias, cast

from harness.apis.improvised_calls import ends_conversation, example_value
from harness.apis.view import ModelStep, RequestView, TextView, ToolView
from harness.bridge.clients.agents import AgentDrive, FunctionDrive, guess_agent, loop_variants, recognise_agent
from harness.bridge.clients.constructors import TRIED_MODELS
from harness.bridge.clients.forms import OPENAI
from harness.bridge.clients.sessions import SessionDrive, recognise_session
from harness.bridge.clients.tool_declarations import BARE
from harness.model.errors import Unsupported
from harness.model.messages import JSON, Message, Role, Text, ToolCall, ToolResult
from harness.model.protocols import Conversation, ConversationTool, Drive, Endpoint, FinalCall
from harness.stdio.answered_requests import requests_with_call, requests_with_steps

ToolLoop: TypeAlias = AgentDrive | FunctionDrive


def loop_of(value: object, api: str) -> ToolLoop | SessionDrive | None:
    """Return the tool loop of a class, a function or an object that calls an API, or `None` if it is none."""
    agent = recognise_agent(value, api)
    session = session_of(value, api) if agent is None else None
    loop = session or tried_loop(value, api) or agent
    continuing = replace(loop, continues=True) if isinstance(loop, AgentDrive) else None
    return continuing if continuing is not None and _continues(continuing, api) else loop


def session_of(value: object, api: str) -> SessionDrive | None:
    """Return the session of a class that keeps its history, with the first format of tools in which one arrives. Return
    `None` for other values.
    """
    session = recognise_session(value, api)
    if session is None:
        return None
    forms = (replace(session, form=form) for form in ("", api, BARE, OPENAI.name))
    return next((each for each in forms if _try(each, api).is_declared), session)


def _continues(loop: AgentDrive, api: str) -> bool:
    """Return whether the second request of a loop has the first turn, if both turns have no calls."""
    conversation = replace(_GREETING, turns=(*_GREETING.turns, Message(Role.USER, (Text("Again"),))))
    steps = [ModelStep(text="Welcome"), ModelStep(text="Goodbye")]
    requests = requests_with_steps(lambda url: loop(Endpoint(url, "no-key"), TRIED_MODELS[0], conversation), api, steps)
    texts = [
        part.text
        for request in requests[1:]
        for turn in request.turns
        for part in turn.parts
        if isinstance(part, TextView)
    ]
    return len(requests) == len(steps) and texts == ["Hello", "Welcome", "Again"]


def tried_loop(value: object, api: str) -> ToolLoop | None:
    """Return the first loop of `possible_loops` that runs a tool, or `None`. The time for the trials is limited.

    The loop of a recognised agent need not pass the right arguments: that would be a defect of the agent. A loop over
    the conversation of its caller need not declare the whole tool if no other loop does.
    """
    began, agent = (time.monotonic(), time.process_time()), recognise_agent(value, api)
    if agent is not None and _try(agent, api).is_run:
        return agent
    others = (each for each in possible_loops(value, api) if each != agent)
    faulty: ToolLoop | None = None
    for each in takewhile(lambda _: not _is_too_long_since(*began), others):
        trial = _try(each, api)
        if trial.is_right:
            return each
        if faulty is None and each.conversation is not None and trial.is_answered:
            faulty = each
    return None if agent is not None else faulty


def _is_too_long_since(began: float, began_of_process: float) -> bool:
    """Return whether trials used too much time of the processor, or waited for too long, as for a repeated request."""
    waited, used = time.monotonic() - began, time.process_time() - began_of_process
    return used > _MAX_PROCESS_SECONDS or waited > _MAX_SECONDS


_MAX_PROCESS_SECONDS, _MAX_SECONDS = 2, 5


def possible_loops(value: object, api: str) -> Iterator[ToolLoop]:
    """Yield the tool loops that a class, a function or an object may be, the likeliest one first."""
    yield from filter(None, (recognise_agent(value, api), guess_agent(value, api)))
    yield from loop_variants(value, api)


def final_call_of(loop: Drive, api: str) -> FinalCall | None:
    """Return the call that has to end each turn of a loop: that of its own tool, such as `final_answer`. Return `None`
    if a text ends a turn.
    """
    failed, requests = False, list[RequestView]()

    def send(url: str) -> object:
        nonlocal failed
        try:
            return loop(Endpoint(url, "no-key"), TRIED_MODELS[0], _GREETING)
        except Exception:
            failed = True
            raise

    requests = requests_with_steps(send, api, [ModelStep(text="Hello")])
    own = [each for request in requests[:1] for each in request.tools if ends_conversation(each)]
    return _final_call(own[0]) if len(own) == 1 and (failed or len(requests) > 1) else None


def _final_call(tool: ToolView) -> FinalCall | None:
    """Return a call of a tool that takes a text, or `None` if the tool takes none."""
    schema = cast("Mapping[str, Any]", tool.parameters or {})
    properties = cast("Mapping[str, Any]", schema.get("properties") or {})
    required = cast("Sequence[str]", schema.get("required") or ())
    texts = [name for name, each in properties.items() if example_value(each, {}) == _EXAMPLE_TEXT]
    argument = next((each for each in required if each in texts), next(iter(texts), None))
    if argument is None:
        return None
    others = cast("Mapping[str, JSON]", example_value(cast("JSON", schema), {}))
    return FinalCall(tool.name, argument, {name: each for name, each in others.items() if name != argument})


_EXAMPLE_TEXT = example_value({"type": "string"}, {})


@dataclass(frozen=True, slots=True)
class _ToolTrial:
    """Requests of a loop that gets a tool, and the calls that it runs.

    `failure` is not `None` if it raises an exception. It is the reason if harness cannot call a part of the loop.
    """

    requests: Sequence[RequestView]
    calls: Sequence[ToolCall]
    failure: str | None

    @property
    def is_run(self) -> bool:
        """Return whether the tool is declared with its parameter, and run."""
        return bool(self.calls) and any(each.name == _NAME and _has_parameter(each) for each in self._declared)

    @property
    def is_right(self) -> bool:
        """Return whether the tool is declared with all of its parts, and run with the arguments of its call."""
        return self.is_declared and self.is_answered

    @property
    def is_declared(self) -> bool:
        """Return whether the tool is declared with all of its parts."""
        return any(
            (each.name, each.description) == (_NAME, _DESCRIPTION) and _has_parameter(each) for each in self._declared
        )

    @property
    def is_answered(self) -> bool:
        """Return whether the tool is declared by its name, run with the arguments of its call, and answered."""
        is_declared = any(each.name == _NAME for each in self._declared)
        return is_declared and len(self.requests) > 1 and [each.arguments for each in self.calls] == [_ARGUMENTS]

    @property
    def _declared(self) -> Sequence[ToolView]:
        return self.requests[0].tools if self.requests else ()


def _has_parameter(tool: ToolView) -> bool:
    schema = tool.parameters if isinstance(tool.parameters, Mapping) else {}
    return _PARAMETER in cast("Mapping[str, JSON]", schema.get("properties") or {})


def obstacle_of(session: SessionDrive, api: str) -> str:
    """Return why harness cannot run the tools of a session, or an empty text. Its caller gets no call that harness can
    read, or a part of the session is unknown. Any other exception would be a defect of the session.
    """
    trial = _try(session, api)
    if trial.failure:
        return trial.failure if trial.requests else ""
    is_lost = trial.failure is None and len(trial.requests) == 1 and not trial.calls
    return f"after an answer with a call, {session.prompt.path[0]} returned no call that harness can read" * is_lost


def _try(loop: ToolLoop | SessionDrive, api: str) -> _ToolTrial:
    calls = list[ToolCall]()

    def run(call: ToolCall) -> ToolResult:
        calls.append(call)
        return ToolResult("", call.name, "Nothing.")

    conversation = replace(_GREETING, tools=(ConversationTool(_NAME, _DESCRIPTION, _SCHEMA, run),))
    failures = list[str]()  # no exceptions, whose frames would keep the connections of the loop open

    def send(url: str) -> None:
        try:
            loop(Endpoint(url, "no-key"), TRIED_MODELS[0], conversation)
        except Exception as error:
            failures.append(error.reason if isinstance(error, Unsupported) else "")
            raise

    requests = requests_with_call(send, api, _NAME, _ARGUMENTS)
    return _ToolTrial(requests, calls, next(iter(failures), None))


_GREETING = Conversation(turns=(Message(Role.USER, (Text("Hello"),)),))
_NAME, _DESCRIPTION, _PARAMETER = "look", "Looks.", "place"
_SCHEMA: dict[str, JSON] = {
    "type": "object",
    "properties": {_PARAMETER: {"type": "string"}},
    "required": [_PARAMETER],
}
_ARGUMENTS: dict[str, JSON] = {_PARAMETER: "here"}
"""Arguments of the call in a trial."""
