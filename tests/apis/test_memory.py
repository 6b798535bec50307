from __future__ import annotations

from dataclasses import replace

import pytest

from harness.apis import registry
from harness.apis.profiles import IssuedState
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


def memory(*responses: ResponseView, foreign: bool = False) -> dict[str, IssuedState]:
    """What the provider of each API remembers of a conversation with these responses."""
    states = {api.name: api.issued_state(foreign=foreign) for api in registry.apis()}
    for state in states.values():
        for each in responses:
            state.note(each)
    return states


A, G, R = "anthropic", "gemini", "openai-responses"
UNKNOWN = "openai-responses-previous-response"
STORED = replace(response(CALL), body={"id": "resp_1"})
DONE = TextView("Done", "/content/0")
QUESTION = TextView("And now?", "/last")
OTHER = replace(CALL, opaque="sig-2")
ALTERED = replace(THOUGHT, raw={"type": "thinking", "thinking": "Ha.", "signature": "abc"})
MADE_UP = replace(THOUGHT, raw={"type": "thinking", "thinking": "Hm.", "signature": "xyz"}, pointer="/messages/1/0")
REORDERED = replace(THOUGHT, raw={"signature": "abc", "thinking": "Hm.", "type": "thinking"})
STAND_INS = ("skip_thought_signature_validator", "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I")
CUT = replace(response(THOUGHT, CALL), complete=False)
BROKEN_OFF = replace(response(replace(THOUGHT, raw={"type": "thinking"})), complete=False)


@pytest.mark.parametrize(
    ("api", "issued", "asked", "rule", "pointer"),
    [
        *((api, [response(THOUGHT, CALL)], request((THOUGHT, CALL)), None, "") for api in (A, G)),
        (A, [response(THOUGHT)], request((REORDERED,)), None, ""),
        # Only the latest response has to keep its thinking, and only where a call is answered.
        (A, [response(THOUGHT), response(DONE)], request((), (DONE,)), None, ""),
        (A, [response(THOUGHT)], request(), None, ""),
        (A, [response(THOUGHT)], request((), (), then=RESULT), "anthropic-thinking-altered", "/messages/1"),
        (A, [response(THOUGHT)], request((), then=QUESTION), None, ""),
        (A, [response(THOUGHT)], request((ALTERED,), then=QUESTION), "anthropic-thinking-altered", "/messages/0"),
        (A, [response(THOUGHT, CALL), response(DONE)], request((THOUGHT, CALL), (DONE,)), None, ""),
        (
            A,
            [response(THOUGHT, CALL), response(DONE)],
            request((MADE_UP, CALL), (DONE,)),
            "anthropic-thinking-signature",
            "/messages/1/0",
        ),
        # Of a response that broke off, the signatures are known, and nothing has to come back.
        (A, [CUT], request((DONE,)), None, ""),
        (A, [response(THOUGHT), BROKEN_OFF], request((THOUGHT,)), None, ""),
        (G, [CUT], request((CALL,)), None, ""),
        (G, [CUT], request((OTHER,)), "gemini-signature-corrupted", "/p"),
        *(
            (G, [response(CALL)], request((part,)), "gemini-signature-corrupted", "/p")
            for part in (OTHER, TextView("Hi", "/p", opaque="sig-2"))
        ),
        # Signatures of all responses are remembered, and none has to come back.
        (G, [response(CALL), response(OTHER)], request((CALL,), (OTHER,)), None, ""),
        (G, [response(CALL)], request((replace(CALL, opaque=None),)), None, ""),
        *((G, [response(CALL)], request((replace(CALL, opaque=word),)), None, "") for word in STAND_INS),
        *(
            (G, [response(CALL)], request((replace(CALL, opaque=word[:-4]),)), "gemini-signature-corrupted", "/p")
            for word in STAND_INS
        ),
        *((api, [response(THOUGHT, CALL)], request((OTHER,)), None, "") for api in ("openai-chat", R)),
        # A stored response is continued by its id, and its calls have results.
        (R, [STORED], replace(request(then=RESULT), continues="resp_1"), None, ""),
        (R, [STORED], replace(request(then=QUESTION), continues="resp_1"), "openai-responses-result-missing", "/input"),
        (R, [STORED], replace(request(then=RESULT), continues="resp_2"), UNKNOWN, "/previous_response_id"),
    ],
)
def test_issued_state_comes_back_unaltered(
    api: str, issued: list[ResponseView], asked: RequestView, rule: str | None, pointer: str
) -> None:
    objection = memory(*issued)[api].objection(asked)
    if rule is None:
        assert objection is None
    else:
        assert objection is not None
        assert (objection.rule, objection.pointer) == (rule, pointer)


def test_a_history_from_elsewhere_has_state_that_was_not_issued_here() -> None:
    elsewhere = memory(foreign=True)
    assert elsewhere[A].objection(request((THOUGHT,))) is None
    assert elsewhere[G].objection(request((CALL,))) is None


def test_an_objection_has_the_words_of_the_provider() -> None:
    made_up = memory(response(THOUGHT, CALL), response(DONE))[A].objection(request((MADE_UP, CALL), (DONE,)))
    assert made_up is not None
    assert made_up.message == "messages.1.0: Invalid `signature` in `thinking` block"
