"""What a test in any language is told of scenarios and conversations, as JSON: it need not read YAML."""

from __future__ import annotations

from harness.apis.view import CallView
from harness.contract.model import JSON, File, Image, Message, Text, ToolCall, ToolResult
from harness.kit.thread import failure
from harness.results import CellResult, Finding
from harness.running.serving.conversation import Conversation
from harness.scenarios.canonical import settings_of, system_of, user_message
from harness.scenarios.schema import Scenario
from harness.scenarios.tools import ToolFailure, Unanswered, UnknownTool, answer, called_before


def scenario_told(scenario: Scenario) -> dict[str, JSON]:
    """What a client has to be given to play a scenario: system prompt, tools, what the user says in each turn."""
    return {
        "id": scenario.id,
        "title": scenario.title,
        "covers": [subject.value for subject in scenario.covers],
        "system": scenario.system,
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.arguments_schema}
            for tool in scenario.tools
        ],
        "turns": [_turn(scenario, index) for index in range(len(scenario.turns))],
    }


def _turn(scenario: Scenario, index: int) -> dict[str, JSON]:
    turn = scenario.turns[index]
    settings = settings_of(scenario, index).model_dump(mode="json", exclude_unset=True, by_alias=True)
    last = turn.model[-1]
    return {
        "user": turn.user if isinstance(turn.user, str) else _parts(user_message(turn)),
        "system": system_of(scenario, index),
        "settings": settings,
        "answer": last.text,
    }


def _parts(message: Message) -> list[JSON]:
    return [part.text if isinstance(part, Text) else {"kind": type(part).__name__.lower()} for part in message.parts]


def conversation_told(conversation: Conversation, cell: CellResult) -> dict[str, JSON]:
    """What has come of a conversation so far: the calls that were issued, each with the result that its tool gives, and
    what is wrong."""
    played, script = conversation.progress
    evidence = conversation.evidence(ended=False)
    answers = (
        (reading.exchange.chat, reading.answer) for reading in evidence.readings if reading.exchange.chat is not None
    )
    calls = [(at, call) for at, answer in answers if answer for call in answer.calls if call.malformed is None]
    return {
        "scenario": scenario_told(conversation.scenario),
        "session": conversation.name,
        "api": conversation.wire.name,
        "requests": conversation.asked,
        "played": played,
        "script": script,
        "streamed": [{"request": number, "way": way} for number, way in conversation.ways.items()],
        "verdict": cell.verdict.value,
        "calls": [_call(conversation.scenario, call, at) for at, call in calls],
        "findings": [finding_told(finding) for finding in cell.findings],
    }


def finding_told(finding: Finding) -> dict[str, JSON]:
    """A finding, as far as somebody needs it who looks for what is wrong."""
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "message": finding.message,
        "request": finding.exchange,
        "pointer": finding.pointer,
        "actual": finding.actual,
        "expected": finding.expected,
    }


def _call(scenario: Scenario, call: CallView, at: int) -> dict[str, JSON]:
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    told = result_told(scenario, ToolCall(call.id or "", call.name, arguments), at)
    return {"id": call.id, "name": call.name, "arguments": call.arguments, "result": told}


def result_told(scenario: Scenario, call: ToolCall, at: int) -> JSON:
    """What the scenario's tool answers to a call of the script's answer `at`; `None` where it has no answer.

    `content` is a JSON value, or where the tool gives parts a list of them; `raises` that the tool fails by raising,
    with what it says.
    """
    try:
        return _result(answer(scenario, call, called_before(scenario, at)))
    except ToolFailure as raised:
        return {**_result(failure(call, raised)), "raises": str(raised)}
    except (UnknownTool, Unanswered):
        return None


def _result(result: ToolResult) -> dict[str, JSON]:
    if not isinstance(result.content, tuple):
        return {"content": result.content, "is_error": result.is_error}
    parts: list[JSON] = []
    for part in result.content:
        if isinstance(part, Text):
            parts.append({"text": part.text})
        elif isinstance(part, Image | File):
            parts.append({"media_type": part.media_type, "uri": part.uri})
    return {"parts": parts, "is_error": result.is_error}
