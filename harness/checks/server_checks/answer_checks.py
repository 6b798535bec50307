"""Checks of answers: where they stop, whole compared with streamed, and refusal of invalid requests."""

from __future__ import annotations

from collections.abc import Callable

from harness.apis.conversion import Body
from harness.apis.response_rules import Subject
from harness.apis.view import OpaqueView
from harness.checks.server_session import (
    WEATHER,
    CheckSession,
    Inconclusive,
    Reply,
    ServerCheck,
    conclusive,
    needs,
)
from harness.model.messages import ChatRequest, Message, NamedTool, StopReason
from harness.results import Severity
from harness.scenarios.schema import StepSpec

PLAIN = "server-text"
"""Id of the check with the simplest request. A server that fails it cannot answer any request."""

_TEXT = "What is the capital of France? Answer in one short sentence."


_LOST_TOKENS = 6
"""Number of tokens that is too high for the overhead of an empty answer."""


def _text(session: CheckSession) -> None:
    refused = "streams do not work" if session.stream else "a plain question is refused"
    reply = session.ask(ChatRequest(messages=[Message.user(_TEXT)]), refused=refused)
    view = conclusive(reply)
    if view.calls:
        said = "the answer calls a tool, and the request declares none"
        session.fail(said, reply, view.calls[0].pointer, actual=view.calls[0].name)
    elif not view.text.strip():
        said = (view.usage.output_tokens or 0) - (view.usage.reasoning_tokens or 0)
        if said < _LOST_TOKENS or any(isinstance(part, OpaqueView) for part in view.parts):
            raise Inconclusive("the model answered nothing")
        session.fail(f"the answer has no text, and counts {said} tokens of it: what was said is lost", reply)


BOUND_TOKENS = 16
"""Token limit for a short answer: the lowest that every API accepts."""

_LONG = "Count from one to two hundred in words, with commas between them, and leave none out."
_MAX_WORD_CHARACTERS = 12
"""Maximum characters of an English token."""


def _length(session: CheckSession) -> None:
    asked = ChatRequest(messages=[Message.user(_LONG)], max_tokens=BOUND_TOKENS)
    reply = session.ask(asked)
    view = reply.view
    if view is None or view.stop_reason is StopReason.MAX_TOKENS:
        return
    if len(view.text) > BOUND_TOKENS * _MAX_WORD_CHARACTERS:
        said = f"the answer is longer than its bound of {BOUND_TOKENS} tokens, and does not say that it was cut"
    elif _fills(reply) and _fills(session.ask(asked)):
        said = f"two answers take their bound of {BOUND_TOKENS} tokens, and do not say that they were cut"
    else:
        raise Inconclusive("the model said less than the bound")
    session.fail(said, reply, actual=view.raw_stop_reason, expected="max_tokens")


def _fills(reply: Reply) -> bool:
    """Return whether an answer uses all tokens of its limit but does not report truncation. One such answer may be a
    coincidence.
    """
    view = reply.view
    if view is None or view.stop_reason is StopReason.MAX_TOKENS:
        return False
    return (view.usage.output_tokens or 0) >= BOUND_TOKENS


_COUNT = "Count from ONE to TEN in capital letters, with commas between the words."
_END = "FIVE"


def _stop(session: CheckSession) -> None:
    asked = ChatRequest(messages=[Message.user(_COUNT)], stop=[_END])
    reply = session.ask(asked, refused="a stop sequence is refused")
    text = conclusive(reply).text
    if _END in text:
        session.fail("the answer goes on where the request has it stop", reply, actual=text)
    elif "FOUR" not in text:
        raise Inconclusive("the model did not count")


OTHERWISE = "the model did not do what the prompt asks for"

_ROUNDS = 5
"""Number of comparisons after which a difference between whole and streamed answers counts as systematic."""


def compare_variants(session: CheckSession, request: ChatRequest, right: Callable[[Reply], bool], said: str) -> None:
    """Check that an answer is correct both whole and streamed.

    A model that sometimes errs does so in both variants. The server is at fault only if one variant is always correct
    and the other always wrong.
    """
    seen: set[tuple[bool, bool]] = set()
    for _ in range(_ROUNDS):
        whole, streamed = (session.ask(request, stream=stream) for stream in (False, True))
        seen.add((right(whole), right(streamed)))
        if seen == {(True, True)}:
            return
        if len(seen) > 1 or seen == {(False, False)}:
            raise Inconclusive(OTHERWISE)
    worse = "streamed" if seen == {(True, False)} else "whole"
    shown = session.replies[-1 if worse == "streamed" else -2]
    better = session.replies[-2 if worse == "streamed" else -1]
    actual, expected = (
        f"{reply.view.text} {[call.name for call in reply.view.calls]}" if reply.view else ""
        for reply in (shown, better)
    )
    session.fail(f"{said}: {worse}, in {_ROUNDS} of {_ROUNDS} answers", shown, actual=actual, expected=expected)


PASSAGE = (
    "The harbour was quiet before sunrise. Seven grey boats lay at the northern pier, and nobody had counted them "
    "since the storm. A boy with a lantern walked from one to the next, wrote seven numbers on a slate, and went home."
)
_REPEAT = f"Repeat the following text word for word, and say nothing else.\n\n{PASSAGE}"


def _same_text(session: CheckSession) -> None:
    request = ChatRequest(messages=[Message.user(_REPEAT)])
    said = "whole and streamed answers differ in their text"
    compare_variants(session, request, lambda reply: conclusive(reply).text.strip() == PASSAGE, said)


_BOTH = "What is the weather in Vienna and in Prague? Call get_weather for both, at once."


def _same_calls(session: CheckSession) -> None:
    request = ChatRequest(messages=[Message.user(_BOTH)], tools=[WEATHER], tool_choice="auto")
    said = "whole and streamed answers differ in their calls"
    compare_variants(session, request, lambda reply: len(conclusive(reply).calls) == 2, said)


CHECKS = (
    ServerCheck(
        id=PLAIN,
        subject=Subject.RESPONSES,
        promise="A plain question gets an answer of text.",
        source="anthropic-response-blocks, openai-chat-message-answer, openai-responses-stop-reasons, gemini-chunks",
        because="there is nothing to show",
        sends="a plain question",
        prompt=_TEXT,
        script=(StepSpec(text="The capital of France is Paris."),),
        play=_text,
    ),
    ServerCheck(
        id="server-length",
        subject=Subject.RESPONSES,
        promise="An answer that reaches its bound is cut there, and says so.",
        source="anthropic-stop-reasons, openai-chat-stop-reasons, openai-responses-stop-reasons, gemini-stop-reasons",
        because="half an answer is taken for a whole one",
        sends=f"a question with a long answer, and a bound of {BOUND_TOKENS} tokens",
        prompt=_LONG,
        script=(StepSpec(text="one, two, three, four,", stop=StopReason.MAX_TOKENS),),
        play=_length,
    ),
    ServerCheck(
        id="server-stop-sequence",
        subject=Subject.RESPONSES,
        promise="An answer stops before the stop sequence that the request names.",
        source="anthropic-stop-reasons, openai-chat-stop-reasons, gemini-stop-reasons",
        because="the caller gets what it wanted to have cut off",
        sends="a question whose answer runs into a stop sequence",
        prompt=_COUNT,
        script=(StepSpec(text="ONE, TWO, THREE, FOUR, ", stop=StopReason.STOP_SEQUENCE),),
        play=_stop,
        lacks=needs("stop_sequences", "the API has no stop sequences"),
    ),
    ServerCheck(
        id="server-same-text",
        subject=Subject.STREAMING,
        promise="The pieces of a stream add up to the text of the whole answer.",
        source="anthropic-stream-order, openai-chat-call-deltas, openai-responses-stream-order, gemini-chunks",
        because="text is lost or doubled on its way",
        sends="a text to be repeated, whole and streamed; up to five times where they differ",
        prompt=_REPEAT,
        script=(StepSpec(text=PASSAGE),),
        play=_same_text,
        variants=("stream",),
    ),
    ServerCheck(
        id="server-same-calls",
        subject=Subject.STREAMING,
        promise="A stream has as many calls as the whole answer.",
        source="anthropic-stream-order, openai-chat-call-deltas, openai-responses-stream-order, gemini-chunks",
        because="calls are lost on their way",
        sends="a question that needs two calls, whole and streamed; up to five times where they differ",
        prompt=_BOTH,
        script=(StepSpec(calls=[{"get_weather": {"city": "Vienna"}}, {"get_weather": {"city": "Prague"}}]),),
        play=_same_calls,
        variants=("stream",),
    ),
)


_SOURCE = "anthropic-error-body, openai-chat-error-body, openai-responses-stream-error, gemini-errors"

_HELLO = "Hello."
_SCRIPT = (StepSpec(text="Hello."),)


def _body(session: CheckSession, text: str = _HELLO) -> Body:
    asked = ChatRequest(model=session.server.model, messages=[Message.user(text)], max_tokens=session.server.longest)
    return session.server.body_of(asked)


def _refused(session: CheckSession, reply: Reply, what: str, *, severity: Severity = Severity.ERROR) -> None:
    """Check that an invalid request is refused as a client error."""
    status = reply.response.status
    if status >= 500:
        said = f"{what} is answered with HTTP {status}, as if the server had failed: clients send it again and again"
        session.fail(said, reply, actual=status, expected=400)
    elif status < 400 and (reply.view is None or reply.view.error is None):
        session.fail(f"{what} is accepted", reply, actual=status, expected=400, severity=severity)


_NO_MODEL = "harness-no-such-model"


def _model(session: CheckSession) -> None:
    body = _body(session)
    named = {**body, "model": _NO_MODEL} if "model" in body else body
    # a server with one model may well answer for any name
    _refused(session, session.send(named, model=_NO_MODEL), "an unknown model", severity=Severity.WARNING)


def _unreadable(session: CheckSession) -> None:
    _refused(session, session.send(b'{"model": "x", "messages": ['), "a body that is not JSON")


def _nothing(session: CheckSession) -> None:
    least = session.server.api.minimal_request
    body = {key: value for key, value in _body(session).items() if least is None or key not in least.body}
    _refused(session, session.send(body), "a request without messages")


_PLEASE = "Say hello, please."


def _taken_or_refused(session: CheckSession, reply: Reply, what: str) -> None:
    """Check that the server survives a request that providers refuse but many servers accept. Record whether it
    accepted the request.
    """
    status, view = reply.response.status, reply.view
    if status >= 500 or view is None:
        said = f"{what} is answered with HTTP {status}: it has to be refused or ignored"
        session.fail(said, reply, actual=status, expected=400)
    else:
        session.record_try(f"accepts {what} silently", came_out=view.error is None)


def _unknown_field(session: CheckSession) -> None:
    reply = session.send({**_body(session, _PLEASE), "harness_unknown_field": True})
    _taken_or_refused(session, reply, "an unknown field")


def _undeclared(session: CheckSession) -> None:
    asked = ChatRequest(
        session.server.model,
        [Message.user(_HELLO)],
        tools=[WEATHER],
        tool_choice=NamedTool("no_such_tool"),
        max_tokens=session.server.longest,
    )
    _taken_or_refused(
        session, session.send(session.server.body_of(asked)), "a tool choice of a tool that is not declared"
    )


FAILURES = (
    ServerCheck(
        id="server-error-model",
        subject=Subject.ERRORS,
        promise="A model that the server does not have is refused.",
        source=_SOURCE,
        because="another model answers than the caller believes",
        sends="a question to an unknown model",
        prompt=_HELLO,
        script=_SCRIPT,
        play=_model,
    ),
    ServerCheck(
        id="server-error-json",
        subject=Subject.ERRORS,
        promise="A body that is no JSON is refused as the client's mistake.",
        source=_SOURCE,
        because="clients take it for a failure of the server, and send it again",
        sends="the beginning of a body",
        prompt=_HELLO,
        script=_SCRIPT,
        play=_unreadable,
    ),
    ServerCheck(
        id="server-error-messages",
        subject=Subject.ERRORS,
        promise="A request without messages is refused as the client's mistake.",
        source=_SOURCE,
        because="clients take it for a failure of the server, and send it again",
        sends="a body without its messages",
        prompt=_HELLO,
        script=_SCRIPT,
        play=_nothing,
    ),
    ServerCheck(
        id="server-error-tool",
        subject=Subject.ERRORS,
        promise="A tool choice of a tool that is not declared is refused, or left alone, and no server fails over it.",
        source="openai-chat-choice-declared, openai-responses-choice-declared, anthropic-choice-form",
        because="clients take it for a failure of the server, and send it again",
        sends="a tool, and a tool choice that names another",
        prompt=_HELLO,
        script=_SCRIPT,
        play=_undeclared,
    ),
    ServerCheck(
        id="server-unknown-field",
        subject=Subject.ERRORS,
        promise="An unknown field is refused or ignored; the server does not fail.",
        source=_SOURCE,
        because="one field of a newer client, and every request fails",
        sends="a question with a field that no API has",
        prompt=_PLEASE,
        script=_SCRIPT,
        play=_unknown_field,
    ),
)
