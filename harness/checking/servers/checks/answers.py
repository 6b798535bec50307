"""Checks of answers: where they stop, whole against streamed, and refusals of what is wrong."""

from __future__ import annotations

from collections.abc import Callable

from harness.apis.questions import Body
from harness.apis.view import OpaqueView
from harness.checking.servers.server import Server
from harness.checking.servers.talk import WEATHER, Check, Inconclusive, Reply, Talk, helpful
from harness.contract.model import ChatRequest, Message, NamedTool, StopReason
from harness.results import Severity
from harness.scenarios.schema import StepSpec, Subject

PLAIN = "server-text"
"""The check with the plainest request: who answers that with an error answers nothing."""

_TEXT = "What is the capital of France? Answer in one short sentence."


_LOST = 6
"""Tokens of an answer that cannot be only the end of it and what models write around."""


def _text(talk: Talk) -> None:
    refused = "streams do not work" if talk.stream else "a plain question is refused"
    reply = talk.ask(ChatRequest(messages=[Message.user(_TEXT)]), refused=refused)
    view = helpful(reply)
    if view.calls:
        said = "the answer calls a tool, and the request declares none"
        talk.flaw(said, reply, view.calls[0].pointer, actual=view.calls[0].name)
    elif not view.text.strip():
        said = (view.usage.output_tokens or 0) - (view.usage.reasoning_tokens or 0)
        if said < _LOST or any(isinstance(part, OpaqueView) for part in view.parts):
            raise Inconclusive("the model said nothing")
        talk.flaw(f"the answer has no text, and counts {said} tokens of it: what was said is lost", reply)


BOUND = 16
"""Tokens of a short answer: the least that every API takes."""

_LONG = "Count from one to two hundred in words, with commas between them, and leave none out."
_WORD = 12
"""Characters that no token of English is longer than."""


def _length(talk: Talk) -> None:
    asked = ChatRequest(messages=[Message.user(_LONG)], max_tokens=BOUND)
    reply = talk.ask(asked)
    view = reply.view
    if view is None or view.stop_reason is StopReason.MAX_TOKENS:
        return
    if len(view.text) > BOUND * _WORD:
        said = f"the answer is longer than its bound of {BOUND} tokens, and does not say that it was cut"
    elif _fills(reply) and _fills(talk.ask(asked)):
        said = f"two answers take their bound of {BOUND} tokens, and do not say that they were cut"
    else:
        raise Inconclusive("the model said less than the bound")
    talk.flaw(said, reply, actual=view.raw_stop_reason, expected="max_tokens")


def _fills(reply: Reply) -> bool:
    """Whether an answer takes all the tokens that it may, and says that it came to its end: one answer may do so."""
    view = reply.view
    if view is None or view.stop_reason is StopReason.MAX_TOKENS:
        return False
    return (view.usage.output_tokens or 0) >= BOUND


_COUNT = "Count from ONE to TEN in capital letters, with commas between the words."
_END = "FIVE"


def _stop(talk: Talk) -> None:
    asked = ChatRequest(messages=[Message.user(_COUNT)], stop=[_END])
    reply = talk.ask(asked, refused="a stop sequence is refused")
    text = helpful(reply).text
    if _END in text:
        talk.flaw("the answer goes on where the request has it stop", reply, actual=text)
    elif "FOUR" not in text:
        raise Inconclusive("the model did not count")


def _no_stop(server: Server) -> str | None:
    return None if server.questions.stop_sequences else "the API has no stop sequences"


OTHERWISE = "the model answered otherwise than it was asked to"

_ROUNDS = 5
"""How often an answer is asked for whole and streamed, before their difference is held to be no chance."""


def compared(talk: Talk, request: ChatRequest, right: Callable[[Reply], bool], said: str) -> None:
    """Whether an answer is right whole and streamed. A model that errs now and then errs in both: only where every
    whole answer is right and every streamed one is wrong, or the reverse, is it the server."""
    seen: set[tuple[bool, bool]] = set()
    for _ in range(_ROUNDS):
        whole, streamed = (talk.ask(request, stream=stream) for stream in (False, True))
        seen.add((right(whole), right(streamed)))
        if seen == {(True, True)}:
            return
        if len(seen) > 1 or seen == {(False, False)}:
            raise Inconclusive(OTHERWISE)
    worse = "streamed" if seen == {(True, False)} else "whole"
    shown = talk.replies[-1 if worse == "streamed" else -2]
    better = talk.replies[-2 if worse == "streamed" else -1]
    actual, expected = (
        f"{reply.view.text} {[call.name for call in reply.view.calls]}" if reply.view else ""
        for reply in (shown, better)
    )
    talk.flaw(f"{said}: {worse}, in {_ROUNDS} of {_ROUNDS} answers", shown, actual=actual, expected=expected)


PASSAGE = (
    "The harbour was quiet before sunrise. Seven grey boats lay at the northern pier, and nobody had counted them "
    "since the storm. A boy with a lantern walked from one to the next, wrote seven numbers on a slate, and went home."
)
_REPEAT = f"Repeat the following text word for word, and say nothing else.\n\n{PASSAGE}"


def _same_text(talk: Talk) -> None:
    request = ChatRequest(messages=[Message.user(_REPEAT)])
    said = "the text of the answer is not what it is the other way"
    compared(talk, request, lambda reply: helpful(reply).text.strip() == PASSAGE, said)


_BOTH = "What is the weather in Vienna and in Prague? Call get_weather for both, at once."


def _same_calls(talk: Talk) -> None:
    request = ChatRequest(messages=[Message.user(_BOTH)], tools=[WEATHER], tool_choice="auto")
    said = "the answer does not have the two calls that it has the other way"
    compared(talk, request, lambda reply: len(helpful(reply).calls) == 2, said)


CHECKS = (
    Check(
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
    Check(
        id="server-length",
        subject=Subject.RESPONSES,
        promise="An answer that reaches its bound is cut there, and says so.",
        source="anthropic-stop-reasons, openai-chat-stop-reasons, openai-responses-stop-reasons, gemini-stop-reasons",
        because="half an answer is taken for a whole one",
        sends=f"a question with a long answer, and a bound of {BOUND} tokens",
        prompt=_LONG,
        script=(StepSpec(text="one, two, three, four,", stop=StopReason.MAX_TOKENS),),
        play=_length,
    ),
    Check(
        id="server-stop-sequence",
        subject=Subject.RESPONSES,
        promise="An answer stops before the stop sequence that the request names.",
        source="anthropic-stop-reasons, openai-chat-stop-reasons, gemini-stop-reasons",
        because="the caller gets what it wanted to have cut off",
        sends="a question whose answer runs into a stop sequence",
        prompt=_COUNT,
        script=(StepSpec(text="ONE, TWO, THREE, FOUR, ", stop=StopReason.STOP_SEQUENCE),),
        play=_stop,
        lacks=_no_stop,
    ),
    Check(
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
    Check(
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


def _body(talk: Talk, text: str = _HELLO) -> Body:
    asked = ChatRequest(model=talk.server.model, messages=[Message.user(text)], max_tokens=talk.server.longest)
    return talk.server.written(asked)


def _refused(talk: Talk, reply: Reply, what: str, *, severity: Severity = Severity.ERROR) -> None:
    """Whether a request that is wrong is refused as the client's mistake."""
    status = reply.response.status
    if status >= 500:
        said = f"{what} is answered with HTTP {status}, as if the server had failed: clients send it again and again"
        talk.flaw(said, reply, actual=status, expected=400)
    elif status < 400 and (reply.view is None or reply.view.error is None):
        talk.flaw(f"{what} is answered as if all were well", reply, actual=status, expected=400, severity=severity)


_NO_MODEL = "harness-no-such-model"


def _model(talk: Talk) -> None:
    body = _body(talk)
    named = {**body, "model": _NO_MODEL} if "model" in body else body
    # a server with one model may well answer for any name
    _refused(talk, talk.send(named, model=_NO_MODEL), "a model that nobody has", severity=Severity.WARNING)


def _unreadable(talk: Talk) -> None:
    _refused(talk, talk.send(b'{"model": "x", "messages": ['), "a body that is no JSON")


def _nothing(talk: Talk) -> None:
    least = talk.server.api.smallest
    body = {key: value for key, value in _body(talk).items() if least is None or key not in least.body}
    _refused(talk, talk.send(body), "a request without messages")


_PLEASE = "Say hello, please."


def _taken_or_refused(talk: Talk, reply: Reply, what: str) -> None:
    """Whether the server lives with what providers refuse and many servers leave alone. Which it is is counted."""
    status, view = reply.response.status, reply.view
    if status >= 500 or view is None:
        said = f"{what} is answered with HTTP {status}: it is to be refused, or left alone"
        talk.flaw(said, reply, actual=status, expected=400)
    else:
        talk.count(f"takes {what}, and says nothing", came_out=view.error is None)


def _unknown_field(talk: Talk) -> None:
    reply = talk.send({**_body(talk, _PLEASE), "harness_unknown_field": True})
    _taken_or_refused(talk, reply, "a field that nobody knows")


def _undeclared(talk: Talk) -> None:
    asked = ChatRequest(
        talk.server.model,
        [Message.user(_HELLO)],
        tools=[WEATHER],
        tool_choice=NamedTool("no_such_tool"),
        max_tokens=talk.server.longest,
    )
    _taken_or_refused(talk, talk.send(talk.server.written(asked)), "a tool choice of a tool that is not declared")


FAILURES = (
    Check(
        id="server-error-model",
        subject=Subject.ERRORS,
        promise="A model that the server does not have is refused.",
        source=_SOURCE,
        because="another model answers than the caller believes",
        sends="a question to a model that nobody has",
        prompt=_HELLO,
        script=_SCRIPT,
        play=_model,
    ),
    Check(
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
    Check(
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
    Check(
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
    Check(
        id="server-unknown-field",
        subject=Subject.ERRORS,
        promise="A field that nobody knows is refused or left alone; the server does not fail over it.",
        source=_SOURCE,
        because="one field of a newer client, and every request fails",
        sends="a question with a field that no API has",
        prompt=_PLEASE,
        script=_SCRIPT,
        play=_unknown_field,
    ),
)
