"""The toolkit as a thread, a request and a scenario see it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from harness.kit.thread import Thread
from harness.kit.workspace import Workspace
from harness.model.errors import UsageError
from harness.model.messages import ChatRequest, ChatResponse, Message, Role, StopReason, Text, ToolCall, Usage
from tests.kit.workspace.conftest import Place
from tests.scenarios.files import MINIMAL, scenario

PYTHON = {"python": Path(sys.executable)}


class Model:
    """Calls what the test requests, one call an answer, and then says that it is done."""

    def __init__(self, *calls: ToolCall) -> None:
        self.answers = [Message(Role.ASSISTANT, (call,)) for call in calls] + [
            Message(Role.ASSISTANT, (Text("Done."),))
        ]

    def chat(self, request: ChatRequest) -> ChatResponse:
        return ChatResponse(self.answers.pop(0), StopReason.END_TURN, Usage())

    def close(self) -> None:
        pass


def test_a_thread_works_in_the_folder(place: Place) -> None:
    workspace = Workspace(place.root)
    thread = Thread(ChatRequest("m", (), tools=workspace.tools))
    model = Model(
        ToolCall("c1", "list_directory", {"path": "sub"}),
        ToolCall("c2", "write_file", {"path": "sub/new.txt", "content": "new"}),
        ToolCall("c3", "read_file", {"path": "sub/new.txt"}),
        ToolCall("c4", "read_file", {"path": "../outside/file.txt"}),
        ToolCall("c5", "no_such_tool", {}),
    )

    thread.send(model, "Work.", workspace.run)

    results = [result for message in thread.messages for result in message.tool_results]
    assert [(result.call_id, result.name, result.is_error) for result in results] == [
        ("c1", "list_directory", False),
        ("c2", "write_file", False),
        ("c3", "read_file", False),
        ("c4", "read_file", True),
        ("c5", "no_such_tool", True),
    ]
    assert [result.text for result in results[:3]] == ["deep/\nfile.txt", "wrote 3 bytes to sub/new.txt", "new"]


def test_the_tool_s_description_lists_the_programs(place: Place) -> None:
    *_, tool = Workspace(place.root, commands=PYTHON).tools

    assert "there is no shell. Programs: python." in str(tool.parameters)


def test_a_scenario_can_declare_the_tools(place: Place, tmp_path: Path) -> None:
    tools = Workspace(place.root, commands=PYTHON).tools
    declared: list[dict[str, Any]] = [
        {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "results": [{"return": "text"}],
        }
        for tool in tools
    ]
    calls = [{"read_file": {"path": "a"}}]
    turn = {"user": "Read.", "model": [{"calls": calls}, {"text": "Done."}]}

    loaded = scenario(tmp_path, MINIMAL | {"requires": ["tools"], "tools": declared, "turns": [turn]})

    assert [(tool.name, tool.description, tool.parameters) for tool in loaded.tools] == [
        (tool.name, tool.description, tool.parameters) for tool in tools
    ]


@pytest.mark.parametrize("name", ["none", "file.txt"])
def test_a_workspace_is_a_folder(place: Place, name: str) -> None:
    with pytest.raises(UsageError, match=rf"{name}: the workspace must be a folder. Create it first."):
        Workspace(place.root / name)


@pytest.mark.parametrize("bounds", [{"timeout": 0}, {"timeout": -1.0}, {"max_output_bytes": 0}])
def test_bounds_are_positive(place: Place, bounds: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="the timeout and max_output_bytes of a workspace must be greater than 0"):
        Workspace(place.root, **bounds)


def test_the_folder_may_be_given_by_a_link(place: Place) -> None:
    link = place.root.with_name("link")
    link.symlink_to(place.root)

    result = Workspace(str(link)).run(ToolCall("c1", "read_file", {"path": "file.txt"}))

    assert result.content == "inside"
