"""The code search's design by this library: one protocol for chat, and four agents over it.

Its `ToolCallRequest`, `ToolResult`, `Message` and `ChatResponse` are the canonical ones, and its `ChatClient.chat`,
with `tool_mode` and `json_mode`, is a `ChatRequest`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.apis.registry import Target
from harness.kit.thread import Thread
from harness.model.messages import (
    ChatRequest,
    ChatResponse,
    JsonMode,
    JsonSchema,
    Message,
    ResponseFormat,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from harness.model.protocols import Capability, ChatClient
from harness.scenarios.canonical import settings_of, system_of
from tests.backends import shipped_scenarios, shipped_targets
from tests.seeds.connected import Connected, connected

PIPELINE = shipped_scenarios()["seeds-code-search-pipeline"]


@pytest.fixture(params=shipped_targets())
def target(request: pytest.FixtureRequest) -> Target:
    return shipped_targets()[request.param]


def declarations(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """The design's `ToolRegistry.get_declarations()`: schemas that know no provider."""
    return [{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools]


@dataclass
class Chat:
    """The design's `ChatClient`: what `chat` takes there, on any client here."""

    client: ChatClient
    model: str

    def chat(
        self,
        messages: Sequence[Message],
        tools: Sequence[dict[str, Any]] | None,
        tool_mode: ToolChoice,
        system: str | None,
        *,
        json_mode: bool = False,
    ) -> ChatResponse:
        return self.client.chat(
            ChatRequest(
                self.model,
                tuple(messages),
                system,
                tuple(Tool(**each) for each in tools or ()),
                tool_choice=tool_mode if tools else None,
                response_format=JsonMode() if json_mode else None,
                max_tokens=1024,
            )
        )


@dataclass
class CodeBase:
    """Files in memory, and the tools that search them for real. Every result is a text."""

    files: dict[str, str]
    ran: list[str] = field(default_factory=list[str])

    def execute(self, call: ToolCall) -> ToolResult:
        self.ran.append(call.name)
        return ToolResult(call.id, call.name, getattr(self, call.name)(**call.arguments))

    def search_code(self, query: str, limit: int = 20) -> str:
        hits = [
            f"{path}:{number}: {line.strip()}"
            for path, text in self.files.items()
            for number, line in enumerate(text.splitlines(), 1)
            if query in line
        ]
        return "\n".join(hits[:limit])

    def read_file(self, path: str, start: int = 1, end: int = 10_000) -> str:
        if path not in self.files:
            raise FileNotFoundError(f"no such file: {path}")
        return "".join(self.files[path].splitlines(keepends=True)[start - 1 : end])

    def list_directory(self, path: str) -> str:
        return "\n".join(sorted(name.removeprefix(f"{path}/") for name in self.files if name.startswith(f"{path}/")))


EMBEDDER = "class Embedder:\n    def __init__(self, provider: EmbeddingProvider) -> None:\n        self.ready = True\n"
CODE = {"src/embedder.py": "\n" * 8 + EMBEDDER, "scripts/index.py": "\n" * 56 + "embedder = Embedder(provider)\n"}


@dataclass
class Agents:
    """The design's `MultiAgentOrchestrator`: four agents, each with a conversation of its own, over one client."""

    made: Connected
    base: CodeBase

    def plan(self, question: str) -> list[str]:
        chat = Chat(self.made.client, self.made.template.model)
        answer = chat.chat([Message.user(question)], None, "auto", system_of(PIPELINE, 0), json_mode=True)
        return json.loads(answer.text)["questions"]

    def research(self, questions: list[str]) -> str:
        return self._loop(1, "\n".join(questions), None)

    def synthesize(self, found: str) -> str:
        chat = Chat(self.made.client, self.made.template.model)
        tools = declarations(self.made.template.tools)
        return chat.chat([Message.user(found)], tools, "none", system_of(PIPELINE, 2)).text

    def verify(self, answer: str, response_format: ResponseFormat | None) -> bool:
        return json.loads(self._loop(3, answer, response_format))["verified"]

    def _loop(self, agent: int, text: str, response_format: ResponseFormat | None) -> str:
        model, tools = self.made.template.model, self.made.template.tools
        system = system_of(PIPELINE, agent)
        thread = Thread(ChatRequest(model, (), system, tools, response_format=response_format, max_tokens=1024))
        return thread.send(self.made.client, text, self.base.execute).text


def test_planner_researcher_synthesizer_and_verifier(target: Target) -> None:
    wanted = settings_of(PIPELINE, 3).format()
    assert isinstance(wanted, JsonSchema)
    combines = Capability.JSON_WITH_TOOLS not in target.profile.lacks
    base = CodeBase(CODE)
    with connected(PIPELINE.id, target) as made:
        agents = Agents(made, base)
        questions = agents.plan(str(PIPELINE.turns[0].user))
        found = agents.research(questions)
        answer = agents.synthesize(found)
        assert agents.verify(answer, wanted if combines else None)
    assert questions == ["Where is Embedder defined?", "Where is it made?"]
    assert found == PIPELINE.turns[1].model[-1].text
    assert answer == PIPELINE.turns[2].model[-1].text
    assert base.ran == ["search_code", "search_code", "read_file", "search_code"]
    researcher = made.asked[3]
    sent = [str(result.payload) for result in researcher.results]
    assert "src/embedder.py:9: class Embedder:" in sent[0]
    assert "scripts/index.py:57: embedder = Embedder(provider)" in sent[1]
    assert "def __init__(self, provider: EmbeddingProvider)" in sent[2]
    agents_asked = [asked.system[0].text for asked in made.asked]
    assert agents_asked == [system_of(PIPELINE, agent) for agent in (0, 1, 1, 1, 2, 3, 3)]
    assert [len(asked.turns) for asked in made.asked[4:6]] == [1, 1]  # each agent begins a conversation of its own
