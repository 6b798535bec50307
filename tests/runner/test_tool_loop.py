"""One cell run through fake clients: what is asked, what is noted, and that the client is closed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from harness.apis import registry
from harness.apis.registry import Target
from harness.model.errors import CassetteError, InvalidRequest, MalformedResponse, RateLimited
from harness.model.messages import (
    ChatRequest,
    ChatResponse,
    Finish,
    JsonMode,
    Message,
    Part,
    Role,
    StopReason,
    StreamEvent,
    Text,
    TextDelta,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
    ToolResult,
    Usage,
)
from harness.model.protocols import Adapter, Connect, Endpoint
from harness.runner.tool_loop import DEFAULT_MAX_TOKENS, ScenarioRun, run_scenario
from harness.scenarios.schema import Scenario, Variant
from tests.scenarios.files import WITH_TOOLS, changed, scenario

Answer = ChatResponse | Exception


def says(text: str, *calls: ToolCall) -> ChatResponse:
    parts = (Text(text), *calls) if text else calls
    return ChatResponse(Message(Role.ASSISTANT, parts), StopReason.END_TURN, Usage())


def call(number: int, name: str = "get_weather", **arguments: Any) -> ToolCall:
    return ToolCall(f"c{number}", name, arguments)


class Client:
    def __init__(self, script: Sequence[Answer]) -> None:
        self.script = list(script)
        self.requests: list[ChatRequest] = []
        self.events: list[str] = []

    def chat(self, request: ChatRequest) -> ChatResponse:
        self.events.append("chat")
        self.requests.append(request)
        answer: Any = self.script[len(self.requests) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        self.events.append("stream")
        self.requests.append(request)
        answer = self.script[len(self.requests) - 1]
        yield TextDelta("So")
        if isinstance(answer, Exception):
            raise answer
        for index, made in enumerate(answer.tool_calls):
            yield ToolCallStart(index, made.id, made.name)
            yield ToolCallEnd(index)
        yield Finish(answer)

    def close(self) -> None:
        self.events.append("close")


class AsyncClient:
    def __init__(self, client: Client) -> None:
        self.client = client
        self.loops: list[asyncio.AbstractEventLoop] = []
        self.lock = asyncio.Lock()

    async def chat(self, request: ChatRequest) -> ChatResponse:
        async with self.lock:
            await asyncio.sleep(0)
            self.loops.append(asyncio.get_running_loop())
            return self.client.chat(request)

    async def stream(self, request: ChatRequest) -> AsyncIterator[StreamEvent]:
        self.loops.append(asyncio.get_running_loop())
        for event in self.client.stream(request):
            await asyncio.sleep(0)
            yield event

    async def close(self) -> None:
        self.loops.append(asyncio.get_running_loop())
        self.client.close()


def target(connect: Connect) -> Target:
    adapter = Adapter("fake", "anthropic", frozenset(), connect)
    return Target("fake", adapter, "claude-opus-5-5", registry.api("anthropic").profile_for("claude-opus-5-5"), "fake")


def run_with(
    scenario: Scenario, client: Any, begin: Callable[[int], None] = lambda chat: None, variant: Variant = "whole"
) -> ScenarioRun:
    return run_scenario(
        scenario, target(lambda endpoint, model: client), Endpoint("http://127.0.0.1:9", "key"), begin, variant
    )


Made = Callable[[dict[str, Any]], Scenario]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return lambda content: scenario(tmp_path, content)


@pytest.fixture(params=[lambda client: client, AsyncClient], ids=["sync", "async"])
def either(request: pytest.FixtureRequest) -> Callable[[Client], Any]:
    wrap: Callable[[Client], Any] = request.param
    return wrap


def test_a_cell_is_run_and_recorded(made: Made, either: Callable[[Client], Any]) -> None:
    client = Client([says("", call(1, city="Paris")), says("18 degrees")])
    begun: list[tuple[int, int]] = []
    outcome = run_with(made(WITH_TOOLS), either(client), lambda chat: begun.append((chat, len(client.requests))))
    assert client.events == ["chat", "chat", "close"]
    assert begun == [(0, 0), (1, 1)]  # called before anything is sent
    assert [(chat.turn, chat.step, chat.error) for chat in outcome.chats] == [(0, 0, None), (0, 1, None)]
    assert [chat.response for chat in outcome.chats] == client.script
    assert [chat.request for chat in outcome.chats] == client.requests
    (execution,) = outcome.executions
    assert (execution.chat, execution.call, execution.result.content) == (0, call(1, city="Paris"), {"temp_c": 18})
    assert not execution.unanswered


def test_an_asynchronous_client_lives_and_is_closed_in_one_event_loop(made: Made) -> None:
    client = AsyncClient(Client([says("", call(1, city="Paris")), says("18 degrees")]))
    run_with(made(WITH_TOOLS), client)
    assert len(client.loops) == 3
    assert len(set(client.loops)) == 1
    assert client.loops[0].is_closed()


def test_a_chat_error_ends_the_cell_and_is_noted(made: Made, either: Callable[[Client], Any]) -> None:
    more = changed(WITH_TOOLS, "turns.1", {"user": "And now?", "model": [{"text": "Fine"}]})
    content = {**more, "requires": ["tools", "history"]}
    client = Client([says("", call(1, city="Paris")), InvalidRequest(400, "no"), says("never asked")])
    outcome = run_with(made(content), either(client))
    assert client.events == ["chat", "chat", "close"]
    last = outcome.chats[-1]
    assert (last.response, last.error, last.error_text, last.crashed) == (None, "InvalidRequest", "HTTP 400: no", False)
    assert len(outcome.executions) == 1


def part(made: Part) -> ChatResponse:
    return replace(says(""), message=Message(Role.ASSISTANT, (made,)))


CRASHES: list[tuple[Any, str, str]] = [
    (KeyError("id"), "KeyError", r"'id' \(.*test_tool_loop\.py, line \d+\)"),
    (
        lambda: replace(says(""), message=Message(cast("Any", "model"), "Hi")),
        "InvalidValue",
        r"Message\.role: 'model' is not a role\. Allowed: 'user', 'assistant'\. \(.*test_tool_loop\.py, line \d+\)",
    ),
    (None, "TypeError", "chat returned a NoneType, not a ChatResponse"),
    (
        part(ToolCall("c1", "get_weather", cast("Any", '{"city": "Par'))),
        "TypeError",
        "chat returned a str as ToolCall.arguments, expected Mapping",
    ),
    (
        part(ToolCall(cast("Any", None), "get_weather", {})),
        "TypeError",
        "chat returned a NoneType as ToolCall.id, expected str",
    ),
    (part(Text(cast("Any", ["18"]))), "TypeError", "chat returned a list as Text.text, expected str"),
]


@pytest.mark.parametrize(("answer", "error", "text"), CRASHES)
def test_a_crash_is_noted_with_its_line_and_what_is_wrong(
    made: Made, either: Callable[[Client], Any], answer: Any, error: str, text: str
) -> None:
    client = Client([answer])
    (chat,) = run_with(made(WITH_TOOLS), either(client)).chats
    assert (chat.error, chat.crashed, chat.response) == (error, True, None)
    assert re.fullmatch(text, chat.error_text or "")
    assert client.events == ["chat", "close"]


def test_what_is_no_client_is_said_to_be_none(made: Made) -> None:
    with pytest.raises(TypeError, match="connect returned a str, and a client has to have chat and close"):
        run_with(made(WITH_TOOLS), "a client")


def test_an_error_of_the_harness_passes_and_the_client_is_closed(made: Made, either: Callable[[Client], Any]) -> None:
    client = Client([CassetteError("c.yaml", "disk full")])
    with pytest.raises(CassetteError):
        run_with(made(WITH_TOOLS), either(client))
    assert client.events == ["chat", "close"]


def test_a_streamed_cell_keeps_the_events(made: Made, either: Callable[[Client], Any]) -> None:
    client = Client([says("", call(1, city="Paris")), says("18 degrees")])
    outcome = run_with(made(WITH_TOOLS), either(client), variant="stream")
    assert client.events == ["stream", "stream", "close"]
    assert [chat.response for chat in outcome.chats] == client.script
    assert outcome.chats[0].events == (
        TextDelta("So"),
        ToolCallStart(0, "c1", "get_weather"),
        ToolCallEnd(0),
        Finish(says("", call(1, city="Paris"))),
    )
    assert [execution.call.id for execution in outcome.executions] == ["c1"]


def test_a_stream_that_breaks_off_keeps_what_came_before(made: Made, either: Callable[[Client], Any]) -> None:
    (chat,) = run_with(made(WITH_TOOLS), either(Client([MalformedResponse("cut")])), variant="stream").chats
    assert (chat.error, chat.crashed, chat.events) == ("MalformedResponse", False, (TextDelta("So"),))


def test_a_stream_without_an_end_is_said_to_have_none(made: Made) -> None:
    class Endless(Client):
        def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
            yield TextDelta("So")

    (chat,) = run_with(made(WITH_TOOLS), Endless([]), variant="stream").chats
    assert (chat.crashed, chat.events) == (True, (TextDelta("So"),))
    assert chat.error_text == "the stream ended without Finish, which is its last event"


def test_an_error_is_noted_by_its_canonical_class_with_what_the_provider_said(made: Made) -> None:
    class TooFast(RateLimited):
        pass

    (chat,) = run_with(made(WITH_TOOLS), Client([TooFast(429, "slow down", retry_after=7.5)])).chats
    assert (chat.error, chat.status, chat.retry_after, chat.crashed) == ("RateLimited", 429, 7.5, False)


PARALLEL = changed(
    WITH_TOOLS,
    "turns.0.model.0",
    {"calls": [{"get_weather": {"city": "Paris"}}, {"get_weather": {"city": "Rome"}}], "answers": [1, 0]},
)


def sent_back(made: Made, content: dict[str, Any], *calls: ToolCall) -> list[str]:
    client = Client([says("", *calls), says("18")])
    outcome = run_with(made(content), client)
    assert [execution.call for execution in outcome.executions] == list(calls)  # tools run as called
    return [result.call_id for result in client.requests[1].messages[-1].tool_results]


def test_results_go_back_in_the_order_of_the_script(made: Made) -> None:
    calls = [call(1, city="Paris"), call(2, city="Rome")]
    content = {**PARALLEL, "requires": ["tools", "parallel-tool-calls"]}
    assert sent_back(made, content, *calls) == ["c2", "c1"]
    without_order = deepcopy(content)
    del without_order["turns"][0]["model"][0]["answers"]
    assert sent_back(made, without_order, *calls) == ["c1", "c2"]


def test_an_order_for_another_number_of_calls_is_let_be(made: Made) -> None:
    content = {**PARALLEL, "requires": ["tools", "parallel-tool-calls"]}
    assert sent_back(made, content, call(1, city="Paris")) == ["c1"]
    three = [call(number, city="Rome") for number in (1, 2, 3)]
    assert sent_back(made, content, *three) == ["c1", "c2", "c3"]


def test_what_the_tools_answer(made: Made) -> None:
    content = changed(WITH_TOOLS, "tools.0.results", [{"when": {"city": "Paris"}, "raise": "station offline"}])
    client = Client([says("", call(1, city="Paris"), call(2, "nobody"), call(3, city="Rome")), says("Sorry")])
    outcome = run_with(made(content), client)
    assert [(e.result.is_error, e.unanswered, e.result.content) for e in outcome.executions] == [
        (True, False, "station offline"),
        (True, False, "unknown tool 'nobody'. Known: get_weather."),
        (
            True,
            True,
            (
                "scenario 'with-tools': the tool 'get_weather' has no result for the arguments {\"city\": \"Rome\"}. "
                "Add one to its results, or one without when, which matches all others."
            ),
        ),
    ]


TURNS = {
    "version": 1,
    "id": "turns",
    "title": "Each turn has its own",
    "covers": ["system-prompt"],
    "requires": ["system-prompt", "json-mode", "history"],
    "system": "One.",
    "settings": {"max_tokens": 7},
    "history": [{"role": "user", "text": "Earlier"}, {"role": "assistant", "text": "Indeed"}],
    "turns": [
        {"user": "A", "model": [{"text": "a"}]},
        {"user": "B", "model": [{"text": "{}"}], "system": "Two.", "settings": {"response_format": "json"}},
        {"user": [{"text": "C"}, {"text": "D"}], "model": [{"text": "c"}]},
        {"user": "E", "model": [{"text": "e"}], "system": None},
    ],
}


def test_each_turn_has_its_system_prompt_and_settings_and_all_share_one_history(made: Made) -> None:
    client = Client([says("a"), says("{}"), says("c"), says("e")])
    run_with(made(TURNS), client)
    assert [(r.system, r.response_format, r.max_tokens) for r in client.requests] == [
        ("One.", None, 7),
        ("Two.", JsonMode(), DEFAULT_MAX_TOKENS),
        ("Two.", None, 7),
        (None, None, 7),
    ]
    assert [message.text for message in client.requests[3].messages] == [
        "Earlier",
        "Indeed",
        "A",
        "a",
        "B",
        "{}",
        "CD",
        "c",
        "E",
    ]
    assert len(client.requests[2].messages[6].parts) == 2


def test_the_events_of_a_handler_are_recorded_for_each_turn(made: Made, either: Callable[[Client], Any]) -> None:
    loop = {"user": "Go", "model": [{"calls": [{"get_weather": {"city": "Paris"}}]}] * 2}
    content = {
        **WITH_TOOLS,
        "requires": ["tools", "history"],
        "max_iterations": 2,
        "turns": [
            {**loop, "expect": {"error": "iteration-limit"}},
            {"user": "And now?", "model": [{"text": "Fine"}]},
            {"user": "Sure?", "model": [{"text": "Yes"}]},
        ],
    }
    first, second = says("So", call(1, city="Paris")), says("", call(2, "nobody"))
    client = Client([first, second, says("Fine"), RateLimited(429, "slow down")])
    assert run_with(made(content), either(client)).handled == (
        ("text", "call get_weather", "result get_weather", "call nobody", "error nobody", "done iteration-limit"),
        ("text", "done"),
        ("done rate-limited",),
    )


def test_the_loop_that_is_judged_is_the_one_that_ships(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """What breaks `Thread` for an application breaks what is asked here."""

    def broken(_tool: object, asked: ToolCall) -> ToolResult:
        return ToolResult(asked.id, asked.name, "something else")

    client = Client([says("", call(1, city="Paris")), says("18")])
    monkeypatch.setattr("harness.kit.thread.run_tool", broken)
    run_with(made(WITH_TOOLS), client)
    assert [result.content for result in client.requests[1].messages[-1].tool_results] == ["something else"]
