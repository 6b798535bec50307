"""Checks of what a server says to requests that are wrong."""

from __future__ import annotations

from harness.apis.questions import Body
from harness.checking.servers.check import Check
from harness.checking.servers.talk import Reply, Talk
from harness.checking.servers.tools import WEATHER
from harness.contract.model import ChatRequest, Message, NamedTool
from harness.results import Severity
from harness.scenarios.schema import StepSpec, Subject

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


CHECKS = (
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
