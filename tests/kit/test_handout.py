"""Calls that the caller runs, and conversations that continue with their results."""

from __future__ import annotations

import pytest

from harness.kit.handlers import CollectingHandler, Done
from harness.kit.thread import Handout, Thread, UnknownCall
from harness.model.errors import HarnessError, IterationLimit, RateLimited
from harness.model.messages import ChatRequest, Message, StopReason, ToolCall, ToolResult
from tests.kit.test_thread import Model, call, says


def result(made: ToolCall, content: str = "ok") -> ToolResult:
    return ToolResult(made.id, made.name, content)


def handout(*script: object, limit: int = 10) -> tuple[Handout, Thread, Model, CollectingHandler]:
    model, handler = Model(script), CollectingHandler()  # type: ignore[arg-type]
    thread = Thread(ChatRequest("m", ()), max_iterations=limit)
    return Handout(thread, model, handler), thread, model, handler


def results_of(thread: Thread) -> list[tuple[str, object, bool]]:
    return [(r.call_id, r.content, r.is_error) for message in thread.messages for r in message.tool_results]


def test_a_turn_without_calls_answers_at_once() -> None:
    made, thread, _, handler = handout(says("Hello"))
    answer = made.send("Hi")
    assert answer is not None
    assert (answer.text, made.waiting, len(thread.messages)) == ("Hello", (), 2)
    assert handler.events[-1] == Done()


def test_calls_after_a_pause_are_handed_out() -> None:
    made, thread, model, handler = handout(says("Hm.", stop=StopReason.PAUSE), says("", call(1)), says("Done"))
    assert made.send("Go") is None
    assert (made.waiting, len(model.requests)) == ((call(1),), 2)
    answer = made.take(result(call(1)))
    assert answer is not None
    assert [message.text for message in thread.messages if message.text] == ["Go", "Hm.", "Done"]
    assert handler.events[-1] == Done()


def test_results_in_any_order_go_back_in_call_order() -> None:
    made, thread, model, _ = handout(says("", call(1), call(2), call(3)), says("", call(4)), says("Done"))
    assert made.send("Go") is None
    assert made.waiting == (call(1), call(2), call(3))
    assert made.take(result(call(3))) is None
    assert made.waiting == (call(1), call(2))
    assert len(model.requests) == 1  # no request while a call waits
    assert made.take(result(call(2)), result(call(1))) is None
    assert made.waiting == (call(4),)
    answer = made.take(result(call(4)))
    assert answer is not None
    assert answer.text == "Done"
    assert [call_id for call_id, _, _ in results_of(thread)] == ["c1", "c2", "c3", "c4"]


def test_an_unknown_result_is_refused_with_all_others() -> None:
    made, _, _, _ = handout(says("", call(1), call(2)), says("Done"))
    made.send("Go")
    with pytest.raises(UnknownCall, match=r"no call 'c9' waits for a result. Waiting: 'c1', 'c2'\."):
        made.take(result(call(1)), result(call(9)))
    assert made.waiting == (call(1), call(2))
    with pytest.raises(UnknownCall, match="no call 'c1' waits"):
        made.take(result(call(1)), result(call(1), "twice"))
    assert made.waiting == (call(1), call(2))


def test_nothing_is_sent_while_calls_wait() -> None:
    made, thread, _, _ = handout(says("", call(1)), says("Done"))
    made.send("Go")
    with pytest.raises(HarnessError, match="1 calls wait for results"):
        made.send("And?")
    assert len(thread.messages) == 2


def test_after_an_abandoned_turn_the_next_one_works() -> None:
    made, thread, _, handler = handout(says("", call(1), call(2), call(3)), says("Fine"))
    made.send("Go")
    made.take(result(call(2)))
    made.abandon()
    assert results_of(thread) == [
        ("c1", "no result: the turn was abandoned", True),
        ("c2", "ok", False),
        ("c3", "no result: the turn was abandoned", True),
    ]
    assert handler.events[-1] == Done()
    answer = made.send("And now?")
    assert answer is not None
    assert answer.text == "Fine"
    made.abandon()  # nothing to do
    assert thread.messages[-1] == Message.user("And now?") or thread.messages[-1].text == "Fine"


def test_a_failure_ends_the_turn_and_the_history_is_kept() -> None:
    error = RateLimited(429, "slow down")
    made, thread, _, handler = handout(says("", call(1)), error, says("Fine"))
    made.send("Go")
    with pytest.raises(RateLimited):
        made.take(result(call(1)))
    assert results_of(thread) == [("c1", "ok", False)]
    assert handler.events[-1] == Done(error)
    answer = made.send("Again")
    assert answer is not None
    assert answer.text == "Fine"


def test_the_bound_holds() -> None:
    made, thread, _, handler = handout(says("", call(1)), says("", call(2)), limit=2)
    made.send("Go")
    made.take(result(call(1)))
    with pytest.raises(IterationLimit):
        made.take(result(call(2)))
    assert [call_id for call_id, _, _ in results_of(thread)] == ["c1", "c2"]
    assert isinstance(handler.events[-1], Done)
    assert isinstance(handler.events[-1].error, IterationLimit)


def test_abandoning_at_the_bound_is_no_error() -> None:
    made, thread, _, _ = handout(says("", call(1)), limit=1)
    made.send("Go")
    made.abandon()
    assert len(results_of(thread)) == 1
