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

from harness.apis.targets import Target
from harness.apis.view import TextView
from harness.contract.errors import Unsupported
from harness.contract.model import (
    JSON_INSTRUCTION,
    SYNTHESISED_ID,
    ChatRequest,
    ChatResponse,
    JsonMode,
    JsonSchema,
    Message,
    ResponseFormat,
    Role,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from harness.contract.protocols import Capability, ChatClient
from harness.kit.thread import Thread, run_tool
from harness.scenarios.canonical import settings_of, system_of
from tests.seeds.connected import Connected, connected
from tests.stages import shipped_scenarios, shipped_targets

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
CODE = {
    "src/embedder.py": "\n" * 8 + EMBEDDER,
    "scripts/index.py": "\n" * 56 + "embedder = Embedder(provider)\n",
}


def test_json_mode_is_one_flag_on_every_adapter(target: Target) -> None:
    [first, _] = shipped_scenarios()["seeds-code-search-planner"].turns
    with connected("seeds-code-search-planner", target) as made:
        chat = Chat(made.client, made.template.model)
        answer = chat.chat([Message.user(str(first.user))], None, "auto", made.template.system, json_mode=True)
    assert len(json.loads(answer.text)["questions"]) == 3
    [asked] = made.asked
    native = target.profile.json_mode == "native"
    assert (asked.response_format is not None) is native
    # the texts are those of the caller, and no beginning of an answer is put into the model's mouth
    assert [turn.role for turn in asked.turns] == ["user"]
    texts = [part.text for turn in asked.turns for part in turn.parts if isinstance(part, TextView)]
    assert [text for text in texts if text != JSON_INSTRUCTION] == [first.user]


def test_a_tool_mode_of_none_keeps_the_declarations_and_forbids_the_calls(target: Target) -> None:
    scenario = shipped_scenarios()["seeds-code-search-synthesizer"]
    base = CodeBase({"src/index.py": "\n" * 40 + "def open_index(path: Path) -> Index:\n"})
    with connected("seeds-code-search-synthesizer", target) as made:
        chat, tools = Chat(made.client, made.template.model), declarations(made.template.tools)
        messages = [Message.user(str(scenario.turns[0].user))]
        while (response := chat.chat(messages, tools, "auto", system_of(scenario, 0))).tool_calls:
            messages += [response.message, Message(Role.USER, tuple(map(base.execute, response.tool_calls)))]
        messages += [response.message, Message.user(str(scenario.turns[1].user))]
        last = chat.chat(messages, tools, "none", system_of(scenario, 1))
    assert (last.text, last.tool_calls) == (scenario.turns[1].model[-1].text, ())
    choices = [asked.tool_choice.mode if asked.tool_choice else "auto" for asked in made.asked]  # which is the default
    assert choices == ["auto", "auto", "none"]
    assert [len(asked.tools) for asked in made.asked] == [1, 1, 1]
    assert [[system.text for system in asked.system] for asked in made.asked[1:]] == [
        [system_of(scenario, 0)],
        [system_of(scenario, 1)],
    ]
    assert base.ran == ["search_code"]


def test_every_call_has_an_id_and_its_result_carries_it(target: Target) -> None:
    base = CodeBase({"src/search/indexer.py": "self._store.add(path, start, chunk)  # store.add\n" * 400})
    scenario = shipped_scenarios()["seeds-code-search-researcher"]
    with connected("seeds-code-search-researcher", target) as made:
        thread = Thread(made.template)
        response = thread.send(made.client, str(scenario.turns[0].user), base.execute)
    calls = [call for message in thread.messages for call in message.tool_calls]
    results = [result for message in thread.messages for result in message.tool_results]
    assert len({call.id for call in calls}) == len(calls) == 5
    assert [result.call_id for result in results] == [call.id for call in calls]
    assert all(isinstance(result.content, str) for result in results)
    assert len(base.files["src/search/indexer.py"]) > 16_000
    assert results[3].content == base.files["src/search/indexer.py"]
    assert (results[4].is_error, results[4].content) == (True, "no such file: src/search/storage.py")
    assert response.message is thread.messages[-1]
    # Where the API gives no ids, those that the adapter makes are marked, and stay here
    is_made = [any(SYNTHESISED_ID in fields for fields in _fields(call)) for call in calls]
    assert is_made == [target.profile.call_ids is not True] * 5
    if target.profile.call_ids:
        assert [call.id for call in made.asked[-1].calls] == [call.id for call in calls]


def _fields(call: ToolCall) -> list[dict[str, Any]]:
    return [dict(each) for each in call.provider_metadata.values() if isinstance(each, dict)]


def test_tokens_are_counted_in_one_way(target: Target) -> None:
    with connected("seeds-code-search-planner", target) as made:
        chat = Chat(made.client, made.template.model)
        response = chat.chat([Message.user("Plan.")], None, "auto", None, json_mode=True)
    [answered] = made.answered
    assert (response.usage.input_tokens, response.usage.output_tokens) == (
        answered.usage.input_tokens,
        answered.usage.output_tokens,
    )
    assert response.usage.input_tokens
    assert response.usage.output_tokens


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


def test_what_a_model_cannot_do_is_said_before_anything_is_sent() -> None:
    target = shipped_targets()["gemini-2.5"]
    with connected(PIPELINE.id, target) as made:
        chat, tools = Chat(made.client, made.template.model), declarations(made.template.tools)
        with pytest.raises(Unsupported):
            chat.chat([Message.user("Plan.")], tools, "auto", None, json_mode=True)
        assert made.exchanges == []


def test_a_tool_that_fails_is_a_result_like_any_other() -> None:
    call = ToolCall("c1", "read_file", {"path": "src/none.py"})
    assert run_tool(CodeBase(CODE).execute, call) == ToolResult(
        "c1", "read_file", "no such file: src/none.py", is_error=True
    )
