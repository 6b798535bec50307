"""Programs that use the arguments of a call as their result."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.apis.fact_files import FactSelection
from harness.apis.improvised_calls import ends_conversation
from harness.apis.view import ToolView
from harness.model.http import HttpRequest
from harness.runner.improvised_router import BASE_PATH, FirstAnswer, ImprovisedRouter
from harness.runner.served_session import SessionOptions
from tests.cli.conftest import Command

PROGRAM = """
import json, os, sys, urllib.request

CHOICES = {"named": {"type": "function", "function": {"name": "record"}}, "required": "required", "auto": "auto"}
kind, last = sys.argv[1:]
text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
tools = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": text}}
    for name in ("record", "look_up", "submit_answer")
]
messages = [{"role": "user", "content": "Read it."}]
while True:
    body = {"model": "gpt-4.1", "messages": messages, "tools": tools, "tool_choice": CHOICES[kind]}
    sent = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps(body).encode(),
        {"authorization": "Bearer none", "content-type": "application/json"},
    )
    choice = json.load(urllib.request.urlopen(sent))["choices"][0]
    if choice["finish_reason"] == "length":
        sys.exit("The answer was cut off.")
    messages.append(choice["message"])
    calls = choice["message"].get("tool_calls") or []
    if not calls:
        messages.append({"role": "user", "content": "Call a tool."})
    found = [each["function"]["arguments"] for each in calls if each["function"]["name"] == last]
    if found:
        print(found[0])
        break
    messages += [{"role": "tool", "tool_call_id": each["id"], "content": "Nothing."} for each in calls]
"""


@pytest.mark.parametrize(
    ("words", "code"),
    [("named record", 0), ("required submit_answer", 0), ("auto submit_answer", 0), ("auto record", 1)],
)
def test_the_arguments_of_a_call_may_be_the_result_of_a_program(
    harness: Command, folder: Path, words: str, code: int
) -> None:
    (folder / "program.py").write_text(PROGRAM)

    done = harness("try", "--command", f"{sys.executable} program.py {words}")

    assert (done.code, "(script-unplayed, " in done.out) == (code, bool(code)), done.out


def calls_of(choice: object, first: FirstAnswer) -> list[list[str]]:
    """Return the names of the tools in each answer to a program with this tool choice."""
    router = ImprovisedRouter(SessionOptions(fact_selection=FactSelection()), lambda _: None, first)
    router.origin = "http://127.0.0.1:1"
    tools = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
        for name in ("finish", "one", "two", "three")
    ]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
    found: list[list[str]] = []
    while not found or found[-1]:
        body = {"model": "gpt-4.1", "messages": messages, "tools": tools, "tool_choice": choice}
        headers = {"authorization": "Bearer none", "content-type": "application/json"}
        url = f"{router.origin}{BASE_PATH}/v1/chat/completions"
        message = json.loads(router(HttpRequest("POST", url, headers, json.dumps(body).encode())).body)["choices"][0]
        messages.append(message["message"])
        calls = message["message"].get("tool_calls") or []
        found.append([each["function"]["name"] for each in calls])
        messages += [{"role": "tool", "tool_call_id": each["id"], "content": "Done."} for each in calls]
    return found


@pytest.mark.parametrize(
    ("choice", "first", "called"),
    [
        ("auto", "one call", [["one"], ["two"], ["finish"], []]),
        ("required", "two calls", [["one", "one"], ["two"], ["three"], ["finish"], []]),
        ({"type": "function", "function": {"name": "two"}}, "two calls", [["two"], []]),
        ({"type": "function", "function": {"name": "finish"}}, "two calls", [["finish"], []]),
    ],
    ids=["auto", "required", "named", "named end"],
)
def test_a_forced_call_is_made(choice: object, first: FirstAnswer, called: list[list[str]]) -> None:
    assert calls_of(choice, first) == called


@pytest.mark.parametrize(
    ("name", "description", "is_end"),
    [
        ("submit_answer", "", True),
        ("finalAnswer", "", True),
        ("respond_to_user", "", True),
        ("say", "Gives the final answer", True),
        ("weather", "The weather", False),
        ("answer_call", "Answers the telephone", False),
    ],
)
def test_the_name_or_the_description_of_a_tool_shows_that_it_ends_the_conversation(
    name: str, description: str, is_end: bool
) -> None:
    assert ends_conversation(ToolView(name, description, {}, "/tools/0")) is is_end
