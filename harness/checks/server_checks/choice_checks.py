"""Checks of tool choice, JSON mode and response schemas."""

from __future__ import annotations

from collections.abc import Sequence

from harness.apis.jsonvalue import loads
from harness.apis.response_rules import Subject
from harness.apis.view import WireError
from harness.checks.server_session import (
    TIME,
    WEATHER,
    CheckSession,
    Inconclusive,
    ServerCheck,
    ServerUnderTest,
    conclusive,
    needs,
)
from harness.equivalence.schema_changes import accepts
from harness.model.messages import JSON, ChatRequest, JsonMode, JsonSchema, Message, NamedTool, ToolChoice
from harness.scenarios.schema import StepSpec

_SOURCE = "anthropic-choice-form, openai-chat-choice-form, openai-responses-choice-form, gemini-function-call-form"


def _choice_request(text: str, choice: ToolChoice) -> ChatRequest:
    return ChatRequest(messages=[Message.user(text)], tools=[WEATHER, TIME], tool_choice=choice)


def _names(session: CheckSession, request: ChatRequest, refused: str) -> Sequence[str]:
    """Return the names of the called tools."""
    return [call.name for call in conclusive(session.ask(request, refused=refused)).calls]


_NONE = "What is the weather in Lima? Use get_weather."


def _none(session: CheckSession) -> None:
    names = _names(session, _choice_request(_NONE, "none"), "the tool choice 'none' is refused")
    if names:
        said = "the request forbids calls, and the answer has one"
        session.fail(said, session.replies[-1], actual=[*names], expected=[])


_REQUIRED = "Say hello."


def _required(session: CheckSession) -> None:
    names = _names(session, _choice_request(_REQUIRED, "required"), "the tool choice that requires a call is refused")
    if not names:
        session.fail("the request requires a call, and the answer has none", session.replies[-1])


_NAMED = "What is the weather in Cairo? Use get_weather."


def _named(session: CheckSession) -> None:
    names = _names(
        session, _choice_request(_NAMED, NamedTool(TIME.name)), "the choice of one tool by its name is refused"
    )
    if set(names) != {TIME.name}:
        said = f"the request names {TIME.name}, and the answer calls {', '.join(names) or 'nothing'}"
        session.fail(said, session.replies[-1], actual=[*names], expected=[TIME.name])


_ONE = "What is the weather in Rome and in Bern? Call get_weather for both, at once."


def _one(session: CheckSession) -> None:
    reply = session.ask(
        _choice_request(_ONE, "auto"), refused="the switch that forbids several calls is refused", way=["one_call"]
    )
    calls = session.calls(reply)
    if len(calls) > 1:
        said = f"the request forbids several calls in one answer, and there are {len(calls)}"
        session.fail(said, reply, calls[1].pointer, actual=[call.name for call in calls])


CHECKS = (
    ServerCheck(
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
    ServerCheck(
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
    ServerCheck(
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
    ServerCheck(
        id="server-choice-one-call",
        subject=Subject.TOOLS,
        promise="Where the request forbids several calls in one answer there is one at most.",
        source="anthropic-parallel-switch, openai-chat-o4-mini-parallel, openai-responses-choice-form",
        because="tools run at once that the caller wanted one after the other",
        sends="a question about two cities, and the switch that forbids several calls",
        prompt=_ONE,
        script=(StepSpec(calls=[{"get_weather": {"city": "Rome"}}]),),
        play=_one,
        lacks=needs("one_call", "the API has no switch for it"),
    ),
)


_FORMAT_SOURCE = "anthropic-output-format, openai-chat-word-json, openai-responses-format-form, gemini-json-output"


def _json(session: CheckSession, request: ChatRequest, refused: str) -> JSON:
    """Return the JSON of an answer. Raises `Inconclusive` if the model calls a tool or stops too early."""
    reply = session.ask(request, refused=refused)
    view = conclusive(reply)
    if view.calls:
        raise Inconclusive("the model called a tool that the question does not need")
    try:
        return loads(view.text)
    except WireError as damage:
        fenced = " (it stands in a fence of Markdown)" if view.text.lstrip().startswith("```") else ""
        session.fail(f"the answer is to be JSON, and is {damage.reason}{fenced}", reply, actual=view.text)
        raise Inconclusive("the answer is no JSON") from None


_MODE = "Which country is Madrid in? Answer with a JSON object that has the keys city and country."


def _mode(session: CheckSession) -> None:
    asked = ChatRequest(messages=[Message.user(_MODE)], response_format=JsonMode())
    value = _json(session, asked, "JSON mode is refused")
    if not isinstance(value, dict):
        session.fail("the answer is JSON, but not an object", session.replies[-1], actual=value)


_MODE_TOOLS = "Which country is Lisbon in? Answer with a JSON object that has the key country. No tool is needed."


def _mode_with_tools(session: CheckSession) -> None:
    asked = ChatRequest(messages=[Message.user(_MODE_TOOLS)], tools=[WEATHER], response_format=JsonMode())
    value = _json(session, asked, "JSON mode is refused together with tools")
    if not isinstance(value, dict):
        session.fail("the answer is JSON, but not an object", session.replies[-1], actual=value)


_SCHEMA: dict[str, JSON] = {
    "type": "object",
    "properties": {"legs": {"type": "integer"}, "class": {"type": "string", "enum": ["insect", "arachnid"]}},
    "required": ["legs", "class"],
    "additionalProperties": False,
}


def _kept(session: CheckSession, request: ChatRequest, refused: str) -> None:
    value = _json(session, request, refused)
    if not accepts(_SCHEMA, value):
        said = "the answer is JSON, but violates the requested schema"
        session.fail(said, session.replies[-1], actual=value, expected=_SCHEMA)


_SPIDER = "How many legs has a spider, and of which class is it?"


def _schema(session: CheckSession) -> None:
    asked = ChatRequest(messages=[Message.user(_SPIDER)], response_format=JsonSchema(_SCHEMA, "animal"))
    _kept(session, asked, "a JSON schema for the answer is refused")


_ANT = "How many legs has an ant, and of which class is it? No tool is needed."


def _schema_with_tools(session: CheckSession) -> None:
    schema = JsonSchema(_SCHEMA, "animal")
    asked = ChatRequest(messages=[Message.user(_ANT)], tools=[WEATHER], response_format=schema)
    _kept(session, asked, "a JSON schema for the answer is refused together with tools")


def _unless_native(server: ServerUnderTest, *names: str) -> str | None:
    has = all(getattr(server.profile, name) == "native" for name in names)
    return None if has else "the API has none of its own with this model: adapters emulate it"


FORMATS = (
    ServerCheck(
        id="server-json-mode",
        subject=Subject.JSON_MODE,
        promise="In JSON mode the answer is a JSON object, and nothing stands around it.",
        source=_FORMAT_SOURCE,
        because="who parses the answer breaks",
        sends="a question, and the setting for JSON without a schema",
        prompt=_MODE,
        script=(StepSpec(text='{"city":"Madrid","country":"Spain"}'),),
        play=_mode,
        lacks=lambda server: _unless_native(server, "json_mode"),
    ),
    ServerCheck(
        id="server-json-mode-tools",
        subject=Subject.JSON_MODE,
        promise="JSON mode holds together with tools, too.",
        source=f"{_FORMAT_SOURCE}, gemini-json-with-functions-taken",
        because="who parses the answer breaks",
        sends="a question that needs no tool, with a tool and the setting for JSON without a schema",
        prompt=_MODE_TOOLS,
        script=(StepSpec(text='{"country":"Portugal"}'),),
        play=_mode_with_tools,
        lacks=lambda server: _unless_native(server, "json_mode", "json_with_tools"),
    ),
    ServerCheck(
        id="server-json-schema",
        subject=Subject.JSON_MODE,
        promise="The answer fits the JSON schema that the request gives for it.",
        source=_FORMAT_SOURCE,
        because="who reads the answer by the schema breaks, or reads what is not there",
        sends="a question, and a strict schema for the answer",
        prompt=_SPIDER,
        script=(StepSpec(text='{"legs":8,"class":"arachnid"}'),),
        play=_schema,
        lacks=lambda server: _unless_native(server, "json_schema"),
    ),
    ServerCheck(
        id="server-json-schema-tools",
        subject=Subject.JSON_MODE,
        promise="The schema for the answer holds together with tools, too.",
        source=f"{_FORMAT_SOURCE}, openai-chat-groq-json-schema-with-tools, gemini-json-with-functions-taken",
        because="an agent that ends with a structured answer does not get one",
        sends="a question that needs no tool, with a tool and a strict schema for the answer",
        prompt=_ANT,
        script=(StepSpec(text='{"legs":6,"class":"insect"}'),),
        play=_schema_with_tools,
        lacks=lambda server: _unless_native(server, "json_schema", "json_with_tools"),
    ),
)
