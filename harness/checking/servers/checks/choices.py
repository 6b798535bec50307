"""Checks of tool choice, in all its forms."""

from __future__ import annotations

from collections.abc import Sequence

from harness.checking.servers.check import Check
from harness.checking.servers.server import Server
from harness.checking.servers.talk import Talk, helpful
from harness.checking.servers.tools import TIME, WEATHER
from harness.contract.model import ChatRequest, Message, NamedTool, ToolChoice
from harness.scenarios.schema import StepSpec, Subject

_SOURCE = "anthropic-choice-form, openai-chat-choice-form, openai-responses-choice-form, gemini-function-call-form"


def _asked(text: str, choice: ToolChoice) -> ChatRequest:
    return ChatRequest(messages=[Message.user(text)], tools=[WEATHER, TIME], tool_choice=choice)


def _names(talk: Talk, request: ChatRequest, refused: str) -> Sequence[str]:
    """The names of what is called, once the tool choice was taken."""
    return [call.name for call in helpful(talk.ask(request, refused=refused)).calls]


_NONE = "What is the weather in Lima? Use get_weather."


def _none(talk: Talk) -> None:
    names = _names(talk, _asked(_NONE, "none"), "the tool choice 'none' is refused")
    if names:
        said = "the request forbids calls, and the answer has one"
        talk.flaw(said, talk.replies[-1], actual=[*names], expected=[])


_REQUIRED = "Say hello."


def _required(talk: Talk) -> None:
    names = _names(talk, _asked(_REQUIRED, "required"), "the tool choice that requires a call is refused")
    if not names:
        talk.flaw("the request requires a call, and the answer has none", talk.replies[-1])


_NAMED = "What is the weather in Cairo? Use get_weather."


def _named(talk: Talk) -> None:
    names = _names(talk, _asked(_NAMED, NamedTool(TIME.name)), "the choice of one tool by its name is refused")
    if set(names) != {TIME.name}:
        said = f"the request names {TIME.name}, and the answer calls {', '.join(names) or 'nothing'}"
        talk.flaw(said, talk.replies[-1], actual=[*names], expected=[TIME.name])


_ONE = "What is the weather in Rome and in Bern? Call get_weather for both, at once."


def _one(talk: Talk) -> None:
    reply = talk.ask(_asked(_ONE, "auto"), refused="the switch that forbids several calls is refused", way=["one_call"])
    calls = talk.calls(reply)
    if len(calls) > 1:
        said = f"the request forbids several calls in one answer, and there are {len(calls)}"
        talk.flaw(said, reply, calls[1].pointer, actual=[call.name for call in calls])


def _no_switch(server: Server) -> str | None:
    return None if server.questions.one_call is not None else "the API has no switch for it"


CHECKS = (
    Check(
        id="server-choice-none",
        subject=Subject.TOOLS,
        promise="Where the request forbids calls the answer has none.",
        source=_SOURCE,
        because="a tool is called where the caller has no way to run it",
        sends="a question that asks for a tool, and the tool choice 'none'",
        prompt=_NONE,
        script=(StepSpec(text="I cannot look that up at the moment."),),
        play=_none,
    ),
    Check(
        id="server-choice-required",
        subject=Subject.TOOLS,
        promise="Where the request requires a call the answer has one.",
        source=_SOURCE,
        because="the caller waits for a call that does not come",
        sends="a question that needs no tool, and the tool choice that requires one",
        prompt=_REQUIRED,
        script=(StepSpec(calls=[{"get_time": {"city": "London"}}]),),
        play=_required,
    ),
    Check(
        id="server-choice-named",
        subject=Subject.TOOLS,
        promise="Where the request names a tool the answer calls this one.",
        source=_SOURCE,
        because="another tool is called than the caller has chosen",
        sends="a question that asks for one tool, and a tool choice that names another",
        prompt=_NAMED,
        script=(StepSpec(calls=[{"get_time": {"city": "Cairo"}}]),),
        play=_named,
    ),
    Check(
        id="server-choice-one-call",
        subject=Subject.TOOLS,
        promise="Where the request forbids several calls in one answer there is one at most.",
        source="anthropic-parallel-switch, openai-chat-o4-mini-parallel, openai-responses-choice-form",
        because="tools run at once that the caller wanted one after the other",
        sends="a question about two cities, and the switch that forbids several calls",
        prompt=_ONE,
        script=(StepSpec(calls=[{"get_weather": {"city": "Rome"}}]),),
        play=_one,
        lacks=_no_switch,
    ),
)
