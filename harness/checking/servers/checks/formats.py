"""Checks of JSON mode and of schemas, with tools and without."""

from __future__ import annotations

from harness.apis.jsonvalue import loads
from harness.apis.view import WireError
from harness.checking.servers.check import Check
from harness.checking.servers.server import Server
from harness.checking.servers.talk import Inconclusive, Talk, helpful
from harness.checking.servers.tools import WEATHER
from harness.contract.model import JSON, ChatRequest, JsonMode, JsonSchema, Message
from harness.meaning.schemas import accepts
from harness.scenarios.schema import StepSpec, Subject

_SOURCE = "anthropic-output-format, openai-chat-word-json, openai-responses-format-form, gemini-json-output"


def _json(talk: Talk, request: ChatRequest, refused: str) -> JSON:
    """The JSON of an answer. Raises `Inconclusive`: the model calls a tool, or has stopped too early."""
    reply = talk.ask(request, refused=refused)
    view = helpful(reply)
    if view.calls:
        raise Inconclusive("the model called a tool that the question does not need")
    try:
        return loads(view.text)
    except WireError as damage:
        fenced = " (it stands in a fence of Markdown)" if view.text.lstrip().startswith("```") else ""
        talk.flaw(f"the answer is to be JSON, and is {damage.reason}{fenced}", reply, actual=view.text)
        raise Inconclusive("the answer is no JSON") from None


_MODE = "Which country is Madrid in? Answer with a JSON object that has the keys city and country."


def _mode(talk: Talk) -> None:
    asked = ChatRequest(messages=[Message.user(_MODE)], response_format=JsonMode())
    value = _json(talk, asked, "JSON mode is refused")
    if not isinstance(value, dict):
        talk.flaw("the answer is JSON, and no object", talk.replies[-1], actual=value)


_MODE_TOOLS = "Which country is Lisbon in? Answer with a JSON object that has the key country. No tool is needed."


def _mode_beside_tools(talk: Talk) -> None:
    asked = ChatRequest(messages=[Message.user(_MODE_TOOLS)], tools=[WEATHER], response_format=JsonMode())
    value = _json(talk, asked, "JSON mode is refused beside tools")
    if not isinstance(value, dict):
        talk.flaw("the answer is JSON, and no object", talk.replies[-1], actual=value)


_SCHEMA: dict[str, JSON] = {
    "type": "object",
    "properties": {"legs": {"type": "integer"}, "class": {"type": "string", "enum": ["insect", "arachnid"]}},
    "required": ["legs", "class"],
    "additionalProperties": False,
}


def _kept(talk: Talk, request: ChatRequest, refused: str) -> None:
    value = _json(talk, request, refused)
    if not accepts(_SCHEMA, value):
        said = "the answer is JSON, and does not fit the schema that it is to keep"
        talk.flaw(said, talk.replies[-1], actual=value, expected=_SCHEMA)


_SPIDER = "How many legs has a spider, and of which class is it?"


def _schema(talk: Talk) -> None:
    asked = ChatRequest(messages=[Message.user(_SPIDER)], response_format=JsonSchema(_SCHEMA, "animal"))
    _kept(talk, asked, "a JSON schema for the answer is refused")


_ANT = "How many legs has an ant, and of which class is it? No tool is needed."


def _beside_tools(talk: Talk) -> None:
    schema = JsonSchema(_SCHEMA, "animal")
    asked = ChatRequest(messages=[Message.user(_ANT)], tools=[WEATHER], response_format=schema)
    _kept(talk, asked, "a JSON schema for the answer is refused beside tools")


def _unless_native(server: Server, *names: str) -> str | None:
    has = all(getattr(server.profile, name) == "native" for name in names)
    return None if has else "the API has none of its own with this model: adapters emulate it"


CHECKS = (
    Check(
        id="server-json-mode",
        subject=Subject.JSON_MODE,
        promise="In JSON mode the answer is a JSON object, and nothing stands around it.",
        source=_SOURCE,
        because="who parses the answer breaks",
        sends="a question, and the setting for JSON without a schema",
        prompt=_MODE,
        script=(StepSpec(text='{"city":"Madrid","country":"Spain"}'),),
        play=_mode,
        lacks=lambda server: _unless_native(server, "json_mode"),
    ),
    Check(
        id="server-json-mode-tools",
        subject=Subject.JSON_MODE,
        promise="JSON mode holds beside tools, too.",
        source=f"{_SOURCE}, gemini-json-with-functions-taken",
        because="who parses the answer breaks",
        sends="a question that needs no tool, with a tool and the setting for JSON without a schema",
        prompt=_MODE_TOOLS,
        script=(StepSpec(text='{"country":"Portugal"}'),),
        play=_mode_beside_tools,
        lacks=lambda server: _unless_native(server, "json_mode", "json_with_tools"),
    ),
    Check(
        id="server-json-schema",
        subject=Subject.JSON_MODE,
        promise="The answer fits the JSON schema that the request gives for it.",
        source=_SOURCE,
        because="who reads the answer by the schema breaks, or reads what is not there",
        sends="a question, and a strict schema for the answer",
        prompt=_SPIDER,
        script=(StepSpec(text='{"legs":8,"class":"arachnid"}'),),
        play=_schema,
        lacks=lambda server: _unless_native(server, "json_schema"),
    ),
    Check(
        id="server-json-schema-tools",
        subject=Subject.JSON_MODE,
        promise="The schema for the answer holds beside tools, too.",
        source=f"{_SOURCE}, openai-chat-groq-json-schema-with-tools, gemini-json-with-functions-taken",
        because="an agent that ends with a structured answer does not get one",
        sends="a question that needs no tool, with a tool and a strict schema for the answer",
        prompt=_ANT,
        script=(StepSpec(text='{"legs":6,"class":"insect"}'),),
        play=_beside_tools,
        lacks=lambda server: _unless_native(server, "json_schema", "json_with_tools"),
    ),
)
