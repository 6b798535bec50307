"""The tool loop. Every case runs through both drivers: what one does, the other does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from harness.kit.handlers import CollectingHandler, Done, TextEvent
from harness.kit.thread import Ask, Later, RunTool, Thread, ask, failure
from harness.model.errors import ConnectionFailed, IterationLimit, RateLimited
from harness.model.messages import (
    ChatRequest,
    ChatResponse,
    Image,
    Message,
    NamedTool,
    Role,
    StopReason,
    Text,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
)
from harness.model.protocols import MessageHandler

TEMPLATE = ChatRequest("m", (), max_tokens=100)
Tool = Callable[[ToolCall], ToolResult | Later]
Send = Callable[..., ChatResponse]


def says(text: str, *calls: ToolCall, stop: StopReason = StopReason.END_TURN) -> ChatResponse:
    parts = (Text(text), *calls) if text else calls
    return ChatResponse(Message(Role.ASSISTANT, parts), stop, Usage())


def call(number: int, name: str = "add") -> ToolCall:
    return ToolCall(f"c{number}", name, {"n": number})


@dataclass
class Model:
    """Answers by a script; an exception in it is raised."""

    script: Sequence[ChatResponse | BaseException]
    requests: list[ChatRequest] = field(default_factory=list)

    def chat(self, request: ChatRequest) -> ChatResponse:
        self.requests.append(request)
        answer = self.script[len(self.requests) - 1]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self) -> None:
        pass


class AsyncModel:
    def __init__(self, model: Model) -> None:
        self._model = model

    async def chat(self, request: ChatRequest) -> ChatResponse:
        await asyncio.sleep(0)
        return self._model.chat(request)

    async def close(self) -> None:
        pass


def send_sync(thread: Thread, model: Model, user: str | Message, tool: Tool, *handler: MessageHandler) -> ChatResponse:
    return thread.send(model, user, tool, *handler)


def send_async(thread: Thread, model: Model, user: str | Message, tool: Tool, *handler: MessageHandler) -> ChatResponse:
    async def run(call: ToolCall) -> ToolResult | Later:
        await asyncio.sleep(0)
        return tool(call)

    return asyncio.run(thread.send_async(AsyncModel(model), user, run, *handler))


@pytest.fixture(params=[send_sync, send_async], ids=["sync", "async"])
def send(request: pytest.FixtureRequest) -> Send:
    driver: Send = request.param
    return driver


def echo(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, call.name, call.arguments)


@dataclass
class Log:
    """A handler that records its events, and raises at one of them."""

    raise_at: str = ""
    events: list[Any] = field(default_factory=list)

    def _log(self, name: str, what: object) -> None:
        self.events.append((name, what))
        if f"{name} {what}" == self.raise_at:
            raise ZeroDivisionError(self.raise_at)

    def on_text(self, text: str) -> None:
        self._log("text", text)

    def on_tool_use(self, call: ToolCall) -> None:
        self._log("use", call.id)

    def on_tool_result(self, result: ToolResult) -> None:
        self._log("result", result.call_id)

    def on_done(self, error: BaseException | None = None) -> None:
        self._log("done", type(error).__name__ if error else None)


class Watching(Log):
    """A handler with `on_pause`."""

    def on_pause(self, response: ChatResponse) -> None:
        self._log("pause", response.text)


def is_valid(messages: Sequence[Message]) -> bool:
    """Return whether each call has exactly one result, in the next message, and there are no other results."""
    for before, message in zip((None, *messages), (*messages, None), strict=True):
        called = [c.id for c in before.tool_calls] if before else []
        answered = [r.call_id for r in message.tool_results] if message else []
        if sorted(called) != sorted(answered):
            return False
    return True


def test_an_answer_without_calls_ends_the_turn(send: Send) -> None:
    thread = Thread(TEMPLATE)
    model = Model([says("Hi")])
    assert send(thread, model, "Hello", echo).text == "Hi"
    assert model.requests == [replace(TEMPLATE, messages=(Message.user("Hello"),))]
    assert thread.messages == (Message.user("Hello"), says("Hi").message)


def test_results_share_a_message_in_the_order_of_calls(send: Send) -> None:
    thread = Thread(TEMPLATE)
    model = Model([says("Wait.", call(1), call(2, "sub")), says("Done")])
    send(thread, model, "Go", echo)
    assert thread.messages == (
        Message.user("Go"),
        says("Wait.", call(1), call(2, "sub")).message,
        Message(Role.USER, (ToolResult("c1", "add", {"n": 1}), ToolResult("c2", "sub", {"n": 2}))),
        says("Done").message,
    )
    assert model.requests[1].messages == thread.messages[:3]


def test_a_later_result_comes_with_a_later_message(send: Send) -> None:
    thread = Thread(TEMPLATE)
    model = Model([says("Begun.", call(1), call(2, "sub")), says("One."), says("Booked.")])

    def tool(called: ToolCall) -> ToolResult | Later:
        return Later() if called.name == "add" else echo(called)

    assert send(thread, model, "Go", tool).text == "One."  # the other call has a result
    assert thread.messages[2] == Message(Role.USER, (ToolResult("c2", "sub", {"n": 2}),))
    late = Message(Role.USER, (ToolResult("c1", "add", {"n": 1}), Text("And now?")))
    assert send(thread, model, late, echo).text == "Booked."
    assert model.requests[-1].messages[-1] == late


def test_a_turn_ends_if_all_results_come_later(send: Send) -> None:
    thread = Thread(TEMPLATE)
    assert send(thread, Model([says("Begun.", call(1))]), "Go", lambda _call: Later()).text == "Begun."
    assert thread.messages == (Message.user("Go"), says("Begun.", call(1)).message)


@pytest.mark.parametrize("stop", list(StopReason))
def test_the_loop_follows_the_calls_and_not_the_stop_reason(send: Send, stop: StopReason) -> None:
    model = Model([says("", call(1), stop=stop), says("Done", stop=stop), says("Done")])
    assert send(Thread(TEMPLATE), model, "Go", echo).text == "Done"
    assert len(model.requests) == (3 if stop is StopReason.PAUSE else 2)


def test_after_a_pause_the_history_is_sent_again(send: Send) -> None:
    thread, handler = Thread(TEMPLATE), Watching()
    paused = says("One so far.", stop=StopReason.PAUSE)
    model = Model([paused, says("", call(1)), says("Two.")])
    assert send(thread, model, "Count", echo, handler).text == "Two."
    assert [len(request.messages) for request in model.requests] == [1, 2, 4]
    assert model.requests[1].messages[-1] == paused.message
    assert model.requests[2].messages[:2] == model.requests[1].messages
    reported = [("text", "One so far."), ("pause", "One so far."), ("use", "c1"), ("result", "c1"), ("text", "Two.")]
    assert handler.events == [*reported, ("done", None)]


def test_pauses_count_towards_the_bound(send: Send) -> None:
    thread = Thread(TEMPLATE, max_iterations=2)
    model = Model([says("One.", stop=StopReason.PAUSE), says("Two.", stop=StopReason.PAUSE), says("Three.")])
    with pytest.raises(IterationLimit) as raised:
        send(thread, model, "Count", echo)
    assert str(raised.value) == "the model has paused again after 2 iterations"
    assert [message.text for message in thread.messages] == ["Count", "One.", "Two."]
    assert send(thread, model, "Go on", echo).text == "Three."


def test_an_empty_pause_is_returned(send: Send) -> None:
    thread, model = Thread(TEMPLATE), Model([says("", stop=StopReason.PAUSE)])
    assert send(thread, model, "Go", echo).stop_reason is StopReason.PAUSE
    assert len(model.requests) == 1


def test_a_handler_that_raises_at_a_pause_loses_nothing(send: Send) -> None:
    class Stopping(Watching):
        def on_pause(self, response: ChatResponse) -> None:
            raise KeyboardInterrupt

    thread, model = Thread(TEMPLATE), Model([says("One.", stop=StopReason.PAUSE), says("Two.")])
    with pytest.raises(KeyboardInterrupt):
        send(thread, model, "Count", echo, Stopping())
    assert [message.text for message in thread.messages] == ["Count", "One."]
    assert len(model.requests) == 1


@pytest.mark.parametrize(("raised", "text"), [(ValueError("no such city"), "no such city"), (KeyError(), "KeyError")])
def test_a_tool_that_raises_becomes_an_error_result(send: Send, raised: Exception, text: str) -> None:
    def tool(call: ToolCall) -> ToolResult:
        if call.id == "c1":
            raise raised
        return echo(call)

    thread = Thread(TEMPLATE)
    send(thread, Model([says("", call(1), call(2)), says("Done")]), "Go", tool)
    assert thread.messages[2].parts == (ToolResult("c1", "add", text, is_error=True), ToolResult("c2", "add", {"n": 2}))
    assert failure(call(1), raised) == ToolResult("c1", "add", text, is_error=True)


def test_after_the_iteration_limit_the_next_turn_works(send: Send) -> None:
    thread = Thread(TEMPLATE, max_iterations=2)
    model = Model([says("", call(1)), says("", call(2)), says("Fine")])
    with pytest.raises(IterationLimit) as raised:
        send(thread, model, "Go", echo)
    assert raised.value.limit == 2
    assert str(raised.value) == "the model still calls tools after 2 iterations"
    assert len(thread.messages) == 5
    assert is_valid(thread.messages)
    assert send(thread, model, "And now?", echo).text == "Fine"
    assert model.requests[2].messages == thread.messages[:-1]


@pytest.mark.parametrize("choice", ["required", NamedTool("add")])
def test_a_forced_choice_holds_for_the_first_response_only(send: Send, choice: ToolChoice) -> None:
    thread = Thread(replace(TEMPLATE, tool_choice=choice))
    model = Model([says("", call(1)), says("", call(2)), says("One"), says("", call(3)), says("Two")])
    send(thread, model, "Go", echo)
    send(thread, model, "Again", echo)
    assert [request.tool_choice for request in model.requests] == [choice, "auto", "auto", choice, "auto"]


def test_the_messages_of_the_template_are_the_start(send: Send) -> None:
    start = (Message.user("Earlier"), says("Indeed").message)
    thread = Thread(replace(TEMPLATE, messages=start))
    assert thread.template.messages == ()
    model = Model([says("Hi")])
    send(thread, model, Message.user("Hello"), echo)
    assert model.requests[0].messages == (*start, Message.user("Hello"))


def test_the_template_may_be_replaced_between_turns(send: Send) -> None:
    thread = Thread(replace(TEMPLATE, system="Be brief."))
    model = Model([says("One"), says("Two")])
    send(thread, model, "Go", echo)
    thread.template = replace(thread.template, system=None, model="other")
    send(thread, model, "Again", echo)
    assert [(request.system, request.model) for request in model.requests] == [("Be brief.", "m"), (None, "other")]
    assert len(model.requests[1].messages) == 3


def test_a_handler_receives_all_events_in_order(send: Send) -> None:
    log = Log()
    send(Thread(TEMPLATE), Model([says("Wait.", call(1), call(2)), says("", call(3)), says("Done")]), "Go", echo, log)
    assert log.events == [
        ("text", "Wait."),
        ("use", "c1"),
        ("result", "c1"),
        ("use", "c2"),
        ("result", "c2"),
        ("use", "c3"),
        ("result", "c3"),
        ("text", "Done"),
        ("done", None),
    ]


@pytest.mark.parametrize("error", [ConnectionFailed("reset"), RateLimited(429, "slow down"), KeyError("id")])
def test_a_chat_that_fails_ends_the_turn_and_keeps_the_history(send: Send, error: Exception) -> None:
    thread, log = Thread(TEMPLATE), Log()
    model = Model([says("", call(1)), error, says("Fine")])
    with pytest.raises(type(error)):
        send(thread, model, "Go", echo, log)
    assert log.events == [("use", "c1"), ("result", "c1"), ("done", type(error).__name__)]
    assert len(thread.messages) == 3
    assert send(thread, model, "And now?", echo).text == "Fine"
    assert is_valid(thread.messages)


def test_stop_iteration_of_a_client_does_not_end_the_turn(send: Send) -> None:
    with pytest.raises((StopIteration, RuntimeError)):
        send(Thread(TEMPLATE), Model([StopIteration("nothing")]), "Go", echo)


@pytest.mark.parametrize(
    ("raise_at", "answered"),
    [("text Wait.", []), ("use c1", []), ("result c1", ["c1"]), ("use c2", ["c1"]), ("result c2", ["c1", "c2"])],
)
def test_a_handler_that_raises_loses_nothing_of_the_history(send: Send, raise_at: str, answered: list[str]) -> None:
    thread, log, ran = Thread(TEMPLATE), Log(raise_at), list[str]()

    def tool(call: ToolCall) -> ToolResult:
        ran.append(call.id)
        return echo(call)

    model = Model([says("Wait.", call(1), call(2)), says("Fine")])
    with pytest.raises(ZeroDivisionError, match=raise_at):
        send(thread, model, "Go", tool, log)
    assert log.events[-1] == ("done", "ZeroDivisionError")
    assert ran == answered
    assert thread.messages[1] == model.script[0].message  # type: ignore[union-attr]
    assert [result.call_id for result in thread.messages[2].tool_results if not result.is_error] == answered
    missing = [result for result in thread.messages[2].tool_results if result.is_error]
    assert all(result.content == "no result: the turn was interrupted" for result in missing)
    assert is_valid(thread.messages)
    assert send(thread, model, "And now?", echo).text == "Fine"


def test_a_handler_that_raises_when_done_hides_no_error(send: Send) -> None:
    thread = Thread(TEMPLATE)
    with pytest.raises(ZeroDivisionError) as raised:
        send(thread, Model([RateLimited(429, "slow down")]), "Go", echo, Log("done RateLimited"))
    assert isinstance(raised.value.__context__, RateLimited)
    with pytest.raises(ZeroDivisionError):
        send(thread, Model([says("Done")]), "Go", echo, Log("done None"))
    assert thread.messages[-1] == says("Done").message


def test_an_interrupted_tool_leaves_a_history_that_can_go_on(send: Send) -> None:
    thread, log = Thread(TEMPLATE), Log()

    def tool(call: ToolCall) -> ToolResult:
        if call.id == "c2":
            raise KeyboardInterrupt
        return echo(call)

    model = Model([says("", call(1), call(2), call(3)), says("Fine")])
    with pytest.raises(KeyboardInterrupt):
        send(thread, model, "Go", tool, log)
    assert [result.is_error for result in thread.messages[2].tool_results] == [False, True, True]
    assert log.events[-1] == ("done", "KeyboardInterrupt")
    assert send(thread, model, "And now?", echo).text == "Fine"
    assert is_valid(thread.messages)


def test_a_cancelled_turn_leaves_a_history_that_can_go_on() -> None:
    thread, log = Thread(TEMPLATE), Log()
    begun = asyncio.Event()

    async def tool(call: ToolCall) -> ToolResult:
        begun.set()
        await asyncio.sleep(60)
        return echo(call)

    async def cancelled() -> None:
        turn = asyncio.create_task(thread.send_async(AsyncModel(Model([says("", call(1))])), "Go", tool, log))
        await begun.wait()
        turn.cancel()
        await turn

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert log.events[-1] == ("done", "CancelledError")
    assert is_valid(thread.messages)


def test_the_generator_rejects_other_values() -> None:
    thread = Thread(TEMPLATE)
    turn = thread.turn(Message.user("Go"))
    assert next(turn) == Ask(replace(TEMPLATE, messages=(Message.user("Go"),)))
    assert turn.send(says("", call(1))) == RunTool(call(1))
    with pytest.raises(TypeError, match="a RunTool expects a ToolResult"):
        turn.send(says("?"))
    assert is_valid(thread.messages)
    turn = thread.turn(Message.user("Go"))
    next(turn)
    with pytest.raises(TypeError, match="an Ask expects a ChatResponse"):
        turn.send(ToolResult("c1", "add", 1))


def test_a_template_without_a_bound_gets_the_default() -> None:
    model = Model([says("a"), says("b")])
    thread = Thread(ChatRequest("m", ()))
    thread.send(model, "Go", lambda made: failure(made, ValueError()))
    thread.template = replace(thread.template, max_tokens=5)
    thread.send(model, "Go", lambda made: failure(made, ValueError()))
    assert [request.max_tokens for request in model.requests] == [8192, 5]


@pytest.mark.parametrize("send", [send_sync, send_async], ids=["sync", "async"])
def test_another_model_may_answer_one_message(send: Send) -> None:
    model = Model([says("", call(1)), says("a"), says("b")])
    thread = Thread(TEMPLATE)
    tool: Tool = lambda made: ToolResult(made.id, made.name, "ok")  # noqa: E731
    if send is send_sync:
        thread.send(model, "Go", tool, model="other")
    else:

        async def run(made: ToolCall) -> ToolResult:
            return tool(made)

        asyncio.run(thread.send_async(AsyncModel(model), "Go", run, model="other"))
    send(thread, model, "Go", tool)
    assert [request.model for request in model.requests] == ["other", "other", "m"]


def test_the_state_is_handed_to_the_tools() -> None:
    state: list[str] = []

    def tool(made: ToolCall, given: list[str]) -> ToolResult:
        given.append(made.id)
        return ToolResult(made.id, made.name, len(given))

    async def slow(made: ToolCall, given: list[str]) -> ToolResult:
        return tool(made, given)

    thread = Thread(TEMPLATE, state=state)
    thread.send(Model([says("", call(1), call(2)), says("a")]), "Go", tool)
    asyncio.run(thread.send_async(AsyncModel(Model([says("", call(3)), says("a")])), "Go", slow))
    assert state == ["c1", "c2", "c3"]


def test_ask_without_tools_refuses_calls() -> None:
    model = Model([says("", call(1)), says("Sorry")])
    assert ask(model, "1 + 2?") == "Sorry"
    (result,) = model.requests[1].messages[-1].tool_results
    assert (result.is_error, result.content) == (True, "there is no tool 'add'")
    model = Model([says("", call(1)), says("So")])
    ask(model, "How warm?", state={"temp": 18})
    assert model.requests[1].messages[-1].tool_results[0].text == "there is no tool 'add'"


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        ("18 °C", "18 °C"),
        (None, None),
        ({"temp_c": 18, "sky": ["clear"]}, {"temp_c": 18, "sky": ["clear"]}),
        ((1, 2), [1, 2]),
        ([], []),
        (Text("So"), (Text("So"),)),
        ([Text("So"), Image("image/png", b"P")], (Text("So"), Image("image/png", b"P"))),
        (ToolResult("c1", "add", "itself", is_error=False), "itself"),
    ],
)
def test_a_tool_may_return_a_plain_value(send: Send, answer: object, content: object) -> None:
    thread = Thread(TEMPLATE)
    send(thread, Model([says("", call(1)), says("Done")]), "Go", lambda call: answer)
    assert thread.messages[2] == Message(Role.USER, (ToolResult("c1", "add", content),))


@pytest.mark.parametrize("answer", [object(), {1, 2}, float("nan"), [Text("So"), "and so on"], {"at": b"1"}])
def test_a_return_value_without_json_is_an_error_result(send: Send, answer: object) -> None:
    thread = Thread(TEMPLATE)
    send(thread, Model([says("", call(1)), says("Done")]), "Go", lambda call: answer)
    (result,) = thread.messages[2].tool_results
    said = f"the tool 'add' returned a {type(answer).__name__}, which is neither JSON nor parts: "
    assert result.is_error
    assert result.text.startswith(said)


class Counting(Log):
    def on_usage(self, usage: Usage) -> None:
        self._log("usage", usage.input_tokens)


def paid(response: ChatResponse, tokens: int) -> ChatResponse:
    return replace(response, usage=Usage(tokens, cache_read_tokens=tokens))


def test_the_usage_of_a_turn_is_the_sum_of_its_responses(send: Send) -> None:
    thread, handler, collecting = Thread(TEMPLATE), Counting(), CollectingHandler()
    script = [paid(says("", call(1)), 10), paid(says("", call(2)), 20), paid(says("Done"), 30)]
    assert send(thread, Model(script), "Go", echo, handler).usage == Usage(60, cache_read_tokens=60)
    assert [what for name, what in handler.events if name == "usage"] == [10, 30, 60]
    assert send(thread, Model([paid(says("Again"), 5)]), "Go", echo, collecting).usage.input_tokens == 5
    assert collecting.events == [TextEvent("Again"), Done(None, Usage(5, cache_read_tokens=5))]
    send(thread, Model([paid(says("Again"), 7)]), "Go", echo, collecting)
    assert collecting.usage.input_tokens == 12


def test_usage_is_reported_when_a_turn_fails(send: Send) -> None:
    handler = CollectingHandler()
    thread = Thread(TEMPLATE, max_iterations=2)
    with pytest.raises(IterationLimit) as raised:
        send(thread, Model([paid(says("", call(1)), 10), paid(says("", call(2)), 20)]), "Go", echo, handler)
    assert handler.events[-1] == Done(raised.value, Usage(30, cache_read_tokens=30))
    with pytest.raises(RateLimited) as limited:
        send(thread, Model([RateLimited(429, "slow down")]), "Go", echo, handler)
    assert handler.events[-1] == Done(limited.value)


def test_a_handler_that_raises_at_the_usage_loses_nothing(send: Send) -> None:
    thread = Thread(TEMPLATE)
    with pytest.raises(ZeroDivisionError):
        send(thread, Model([paid(says("", call(1)), 10)]), "Go", echo, Counting(raise_at="usage 10"))
    assert is_valid(thread.messages)


def test_one_question_takes_state_and_model() -> None:
    model = Model([says("", call(1)), says("18")])

    def look_up(call: ToolCall, state: dict[str, int]) -> int:
        return state["temp"]

    assert ask(model, "How warm?", TEMPLATE, look_up, state={"temp": 18}, model="other") == "18"
    assert [request.model for request in model.requests] == ["other", "other"]
    assert model.requests[1].messages[-1].tool_results[0].content == 18
