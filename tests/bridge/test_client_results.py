"""Results of tools in the forms that methods and messages take."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from harness.bridge.clients.forms import ANTHROPIC
from harness.bridge.clients.loop_methods import results_parameter
from harness.bridge.clients.methods import Method, method_of
from harness.bridge.clients.sent_tools import names_converted_to_tools
from harness.bridge.clients.shape_recognition import load_client, recognise_shape
from harness.bridge.clients.shaped_client import ShapedClient
from harness.bridge.clients.sources import ClassSource
from harness.bridge.clients.submitted_results import SubmittedResults
from harness.model.messages import ChatRequest, Message, Role, Text, Tool, ToolCall, ToolResult
from harness.model.protocols import Endpoint

HERE = Endpoint("http://127.0.0.1:9/v1", "no-key")
HELLO = Message(Role.USER, (Text("Hello"),))
RESULT = {"call": {}, "id": "call_1", "name": "look", "content": "blue", "value": "blue", "is_error": True}


class Talk:
    turns: list[Any]

    def say(self, text: str | None = None, *, tool_results: Iterable[tuple[str, str, bool]] = ()) -> str:
        self.turns += [*tool_results, text]
        return str(self.turns)

    def ask(self, text: str, tool_results: Any = None) -> str:
        self.turns += [{"type": "tool_result", "id": i, "content": output} for i, output, failed in tool_results or []]
        if text:
            self.turns.append(text)
        return str(self.turns)

    def need(self, text: str, tool_results: Any = None) -> str:
        self.turns += [*(tool_results or []), text]
        return str(self.turns)

    def forget(self, text: str | None = None, tool_results: Any = None) -> str:
        return str([*(tool_results or []), text])


def _method(name: str) -> Method:
    return method_of((name,), getattr(Talk, name))


def test_a_method_for_a_prompt_may_take_the_results_later() -> None:
    found = {name: results_parameter(_method(name)) for name in ("say", "ask", "need", "forget")}

    assert found == {"say": "tool_results", "ask": "tool_results", "need": None, "forget": None}


@pytest.mark.parametrize("name", ["say", "ask"])
def test_a_result_may_be_a_tuple_with_its_failure_but_not_its_name(name: str) -> None:
    code = ClassSource(Talk, "", "")

    assert SubmittedResults(_method(name), "tool_results", code, "anthropic").collect([RESULT]) == [
        ("call_1", "blue", True)
    ]


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ('body["tools"] = specs', {"specs"}),
        ('body = {"tools": [convert(each) for each in specs]}', {"specs"}),
        ('made = list(specs or ())\nbody["tools"] = [{"functionDeclarations": made}]', {"made", "specs"}),
        ("send(tools=tuple(specs) if specs else None)", {"specs"}),
        ("send(tools=[*specs])", {"specs"}),
        ('body["tools"] = [{"type": "file_search", "vector_store_ids": specs}]', set()),
        ('body["files"] = specs', set()),
        ("body[", set()),
    ],
)
def test_the_code_shows_which_values_are_the_tools(code: str, names: set[str]) -> None:
    assert names_converted_to_tools(code) == names


CLIENT = """
def content(m):
    if m.get("native"):
        return m["native"]
    if m.get("results"):
        parts = [{"id": r["id"], "name": r["name"], "response": r["response"]} for r in m["results"]]
        return {"role": "user", "parts": [{"functionResponse": each} for each in parts]}
    return {"role": m["role"], "parts": [{"text": m["text"]}]}


def chat(messages, *, declarations=(), **generation):
    body = {"contents": [content(m) for m in messages], "generationConfig": generation}
    body["tools"] = [{"functionDeclarations": list(declarations)}]
    SENT.append(body)
    native = {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c2ln"}]}
    calls = [each["functionCall"] for each in native["parts"]]
    return {"role": "assistant", "text": "", "calls": calls, "native": native, "finish": "STOP"}

SENT = []
# /v1beta/models/gemini:generateContent
"""


def test_messages_of_geminis_client_may_be_its_own_dictionaries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gemini_dictionaries.py").write_text(CLIENT)
    monkeypatch.syspath_prepend(tmp_path)
    value, _ = load_client("gemini_dictionaries:chat")
    shape = recognise_shape(value, "mine").for_api("gemini")
    client = ShapedClient(shape, HERE, "gemini", "gemini")
    tool = Tool("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})

    answer = client.chat(ChatRequest("gemini", (HELLO,), tools=(tool,), max_tokens=9))
    results = Message(Role.USER, (ToolResult(answer.tool_calls[0].id, "look", "blue"),))
    client.chat(ChatRequest("gemini", (HELLO, answer.message, results)))

    first, second = sys.modules["gemini_dictionaries"].SENT
    assert shape.whole.parameter("tools", shape.form) == "declarations"
    assert [each["name"] for each in first["tools"][0]["functionDeclarations"]] == ["look"]
    assert "tools" not in first["generationConfig"]
    assert re.search("thoughtSignature", json.dumps(second["contents"][1]))
    assert second["contents"][2]["parts"][0]["functionResponse"]["response"] == {"result": "blue"}
    assert isinstance(answer.tool_calls[0], ToolCall)


HELPED = """
def chat(messages, system="", tools=None):
    SENT.append(messages)
    return {"content": [{"type": "text", "text": "Fine."}], "stop_reason": "end_turn"}

SENT = []
"""

ALL_RESULTS = """
def tool_results(results):
    return {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": call_id, "content": output, "is_error": failed, "by": "all"}
        for call_id, output, failed in results
    ]}
"""

ONE_RESULT = """
def tool_result(call_id, output, is_error=False):
    return {"type": "tool_result", "tool_use_id": call_id, "content": output, "is_error": is_error, "by": "one"}
"""

OTHER_IDS = ALL_RESULTS.replace('call_id, "content', "'other', \"content")
FAILING = ONE_RESULT.replace("    return", "    raise KeyError(call_id)\n    return")
OWN_STEP = ONE_RESULT + "def step(messages):\n    return tool_result('1', '')\n"


@pytest.mark.parametrize(
    ("name", "helper", "by"),
    [
        ("all", ALL_RESULTS, "all"),
        ("one", ONE_RESULT, "one"),
        ("none", "", None),
        ("two", ALL_RESULTS + ONE_RESULT, None),
        ("ids", OTHER_IDS, None),
        ("failing", FAILING, None),
        ("own", OWN_STEP, None),
    ],
)
def test_a_function_of_the_module_makes_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, helper: str, by: str | None
) -> None:
    module = f"helped_by_{name}"
    (tmp_path / f"{module}.py").write_text(HELPED + helper)
    monkeypatch.syspath_prepend(tmp_path)
    value, _ = load_client(f"{module}:chat")
    shape = recognise_shape(value, "mine").with_format(ANTHROPIC).for_api("anthropic")
    calls = Message(Role.ASSISTANT, (ToolCall("a", "look", {}), ToolCall("b", "look", {})))
    results = ToolResult("a", "look", "blue"), ToolResult("b", "look", "no sky", is_error=True)

    ShapedClient(shape, HERE, "claude", "anthropic").chat(
        ChatRequest("claude", (HELLO, calls, Message(Role.USER, (*results, Text("And?")))))
    )

    *blocks, text = sys.modules[module].SENT[0][-1]["content"]
    assert [each["tool_use_id"] for each in blocks] == ["a", "b"]
    assert [each.get("is_error", False) for each in blocks] == [False, True]
    assert [each.get("by") for each in blocks] == [by, by]
    assert text["text"] == "And?"
