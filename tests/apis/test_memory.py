from __future__ import annotations

from dataclasses import replace

import pytest

from harness.apis import registry
from harness.apis.limits import Violation
from harness.apis.view import CallView, OpaqueView, PartView, RequestView, ResponseView, ResultView, TextView, TurnView
from harness.model.messages import StopReason, Usage

THOUGHT = OpaqueView("thinking", {"type": "thinking", "thinking": "Hm.", "signature": "abc"}, "/content/0")
CALL = CallView("c1", "get", {}, "/p", "/p/id", "/p/args", opaque="sig-1")

RESULT = ResultView("c1", None, (TextView("4", "/r"),), "/last", "/last/id")


def response(*parts: PartView) -> ResponseView:
    return ResponseView("x", parts, StopReason.END_TURN, None, Usage(), None, {})


def request(*turns: tuple[PartView, ...], then: PartView | None = None) -> RequestView:
    made = tuple(TurnView("assistant", parts, f"/messages/{i}", "assistant") for i, parts in enumerate(turns))
    last = (TurnView("user", (then,), "/last", "user"),) if then else ()
    return RequestView("x", "m", (), (TurnView("user", (TextView("Hi", "/u"),), "/u", "user"), *made, *last))


class Memory:
    """What the providers of all APIs remember of one conversation."""

    def __init__(self, *, foreign: bool = False) -> None:
        self._of = {api.name: api.issued_state(foreign=foreign) for api in registry.apis()}

    def note(self, response: ResponseView) -> None:
        for memory in self._of.values():
            memory.note(response)

    def objection(self, api: str, request: RequestView) -> Violation | None:
        return self._of[api].objection(request)


@pytest.fixture
def memory() -> Memory:
    return Memory()


def test_what_was_issued_may_come_back(memory: Memory) -> None:
    memory.note(response(THOUGHT, CALL))
    assert memory.objection("anthropic", request((THOUGHT, CALL))) is None
    assert memory.objection("gemini", request((THOUGHT, CALL))) is None


def test_of_an_answer_that_was_cut_the_signatures_are_known_and_nothing_has_to_follow(memory: Memory) -> None:
    memory.note(replace(response(THOUGHT, CALL), complete=False))
    assert memory.objection("gemini", request((CALL,))) is None
    assert memory.objection("gemini", request((replace(CALL, opaque="sig-2"),))) is not None
    assert memory.objection("anthropic", request((TextView("Done", "/x"),))) is None


def test_the_order_of_keys_is_no_alteration(memory: Memory) -> None:
    memory.note(response(THOUGHT))
    reordered = replace(THOUGHT, raw={"signature": "abc", "thinking": "Hm.", "type": "thinking"})
    assert memory.objection("anthropic", request((reordered,))) is None


def test_only_the_latest_answer_has_to_keep_its_thinking(memory: Memory) -> None:
    memory.note(response(THOUGHT))
    memory.note(response(TextView("Done", "/content/0")))
    assert memory.objection("anthropic", request((), (TextView("Done", "/x"),))) is None


def test_a_conversation_without_its_answers_is_not_altered(memory: Memory) -> None:
    memory.note(response(THOUGHT))
    assert memory.objection("anthropic", request()) is None


def test_altered_thinking_is_objected_to_where_it_stands(memory: Memory) -> None:
    memory.note(response(THOUGHT))
    objection = memory.objection("anthropic", request((), (), then=RESULT))
    assert objection is not None
    assert (objection.rule, objection.pointer) == ("anthropic-thinking-altered", "/messages/1")


def test_where_no_call_is_answered_thinking_may_stay_away_but_not_come_back_altered(memory: Memory) -> None:
    memory.note(response(THOUGHT))
    question = TextView("And now?", "/last")
    altered = replace(THOUGHT, raw={"type": "thinking", "thinking": "Ha.", "signature": "abc"})
    assert memory.objection("anthropic", request((), then=question)) is None
    assert memory.objection("anthropic", request((altered,), then=question)) is not None


@pytest.mark.parametrize("part", [replace(CALL, opaque="sig-2"), TextView("Hi", "/p", opaque="sig-2")])
def test_a_signature_that_was_never_issued_is_objected_to(memory: Memory, part: PartView) -> None:
    memory.note(response(CALL))
    objection = memory.objection("gemini", request((part,)))
    assert objection is not None
    assert (objection.rule, objection.pointer, objection.actual) == ("gemini-signature-corrupted", "/p", "sig-2")


@pytest.mark.parametrize("word", ["skip_thought_signature_validator", "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I"])
def test_a_documented_stand_in_is_taken_for_a_signature(memory: Memory, word: str) -> None:
    memory.note(response(CALL))
    assert memory.objection("gemini", request((replace(CALL, opaque=word),))) is None
    assert memory.objection("gemini", request((replace(CALL, opaque=word[:-4]),))) is not None


def test_signatures_of_all_answers_are_remembered_and_none_has_to_come_back(memory: Memory) -> None:
    memory.note(response(CALL))
    memory.note(response(replace(CALL, opaque="sig-2")))
    assert memory.objection("gemini", request((CALL,), (replace(CALL, opaque="sig-2"),))) is None
    assert memory.objection("gemini", request((replace(CALL, opaque=None),))) is None


def test_a_history_from_elsewhere_has_signatures_that_nobody_here_issued() -> None:
    assert Memory(foreign=True).objection("gemini", request((CALL,))) is None


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses"])
def test_the_other_apis_have_nothing_to_check(memory: Memory, api: str) -> None:
    memory.note(response(THOUGHT, CALL))
    assert memory.objection(api, request((replace(CALL, opaque="sig-2"),))) is None


def test_an_answer_that_broke_off_has_issued_its_signatures(memory: Memory) -> None:
    memory.note(replace(response(CALL), complete=False))
    assert memory.objection("gemini", request((CALL,))) is None
    assert memory.objection("gemini", request((replace(CALL, opaque="sig-2"),))) is not None


def test_thinking_that_broke_off_is_not_the_latest(memory: Memory) -> None:
    memory.note(response(THOUGHT))
    memory.note(replace(response(replace(THOUGHT, raw={"type": "thinking"})), complete=False))
    assert memory.objection("anthropic", request((THOUGHT,))) is None


def test_thinking_of_an_earlier_answer_may_come_back_and_made_up_thinking_may_not(memory: Memory) -> None:
    memory.note(response(THOUGHT, CALL))
    memory.note(response(TextView("Done", "/content/0")))
    made_up = replace(THOUGHT, raw={"type": "thinking", "thinking": "Hm.", "signature": "xyz"}, pointer="/messages/1/0")
    objection = memory.objection("anthropic", request((made_up, CALL), (TextView("Done", "/x"),)))

    assert memory.objection("anthropic", request((THOUGHT, CALL), (TextView("Done", "/x"),))) is None
    assert objection is not None
    assert (objection.rule, objection.pointer) == ("anthropic-thinking-signature", "/messages/1/0")
    assert objection.message == "messages.1.0: Invalid `signature` in `thinking` block"


def test_thinking_of_a_conversation_from_elsewhere_is_taken_as_it_comes() -> None:
    assert Memory(foreign=True).objection("anthropic", request((THOUGHT,))) is None
