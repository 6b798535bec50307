"""Checks of answers: how they end, whether whole and streamed ones agree, tool choice, JSON, and refusal of invalid
requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.apis.conversion import WireBody
from harness.apis.jsonvalue import loads
from harness.apis.view import OpaqueView, WireError
from harness.checks.server_session import (
    TIME,
    WEATHER,
    CheckSession,
    Inconclusive,
    Reply,
    check_function,
    conclusive,
)
from harness.equivalence.schema_changes import accepts
from harness.model.messages import JSON, ChatRequest, JsonMode, JsonSchema, Message, NamedTool, StopReason
from harness.results import Severity

PLAIN = "server-text"
"""Id of the check with the simplest request. A server that fails it cannot answer any request."""


_LOST_TOKENS = 6
"""Minimum number of output tokens that shows that text was lost. The overhead of an empty answer is smaller."""


@check_function(PLAIN)
def _text(session: CheckSession) -> None:
    refused = "streams do not work" if session.stream else "a plain question is refused"
    reply = session.ask(session.question(), refused=refused)
    view = conclusive(reply)
    if view.calls:
        message = "the answer calls a tool, and the request declares none"
        session.fail(message, reply, view.calls[0].pointer, actual=view.calls[0].name)
    elif not view.text.strip():
        message = (view.usage.output_tokens or 0) - (view.usage.reasoning_tokens or 0)
        if message < _LOST_TOKENS or any(isinstance(part, OpaqueView) for part in view.parts):
            raise Inconclusive("the model answered nothing")
        session.fail(f"the answer has no text, but counts {message} tokens of text, so the text was lost", reply)


BOUND_TOKENS = 16
"""Token limit for a short answer: the lowest that every API accepts."""

_MAX_WORD_CHARACTERS = 12
"""Maximum characters of an English token."""


@check_function("server-length")
def _length(session: CheckSession) -> None:
    request = session.question(max_tokens=BOUND_TOKENS)
    reply = session.ask(request)
    view = reply.view
    if view is None or view.stop_reason is StopReason.MAX_TOKENS:
        return
    if len(view.text) > BOUND_TOKENS * _MAX_WORD_CHARACTERS:
        message = f"the answer is longer than its limit of {BOUND_TOKENS} tokens, and does not say that it was cut"
    elif _fills(reply) and _fills(session.ask(request)):
        message = f"two answers reach their limit of {BOUND_TOKENS} tokens, and do not say that they were cut"
    else:
        raise Inconclusive("the model wrote less than the limit")
    session.fail(message, reply, actual=view.raw_stop_reason, expected="max_tokens")


def _fills(reply: Reply) -> bool:
    """Return whether an answer uses all tokens of its limit but does not report truncation. One such answer may be a
    coincidence.
    """
    view = reply.view
    if view is None or view.stop_reason is StopReason.MAX_TOKENS:
        return False
    return (view.usage.output_tokens or 0) >= BOUND_TOKENS


_END = "FIVE"


@check_function("server-stop-sequence")
def _stop(session: CheckSession) -> None:
    request = session.question(stop=[_END])
    reply = session.ask(request, refused="the server refuses a stop sequence")
    text = conclusive(reply).text
    if _END in text:
        session.fail("the answer continues after the stop sequence", reply, actual=text)
    elif "FOUR" not in text:
        raise Inconclusive("the model did not count")


PROMPT_NOT_FOLLOWED = "the model did not do what the prompt asks for"

_COMPARISONS = 5
"""Number of comparisons after which a difference between whole and streamed answers counts as systematic."""


def compare_variants(session: CheckSession, request: ChatRequest, right: Callable[[Reply], bool], message: str) -> None:
    """Check that an answer is correct both whole and streamed.

    A model that sometimes errs does so in both variants. The server is at fault only if one variant is always correct
    and the other always wrong.
    """
    seen: set[tuple[bool, bool]] = set()
    for _ in range(_COMPARISONS):
        whole, streamed = (session.ask(request, stream=stream) for stream in (False, True))
        seen.add((right(whole), right(streamed)))
        if seen == {(True, True)}:
            return
        if len(seen) > 1 or seen == {(False, False)}:
            raise Inconclusive(PROMPT_NOT_FOLLOWED)
    worse = "streamed" if seen == {(True, False)} else "whole"
    shown = session.replies[-1 if worse == "streamed" else -2]
    better = session.replies[-2 if worse == "streamed" else -1]
    actual, expected = (
        f"{reply.view.text} {[call.name for call in reply.view.calls]}" if reply.view else ""
        for reply in (shown, better)
    )
    session.fail(
        f"{message}: {worse}, in {_COMPARISONS} of {_COMPARISONS} answers", shown, actual=actual, expected=expected
    )


PASSAGE = (
    "The harbour was quiet before sunrise. Seven grey boats lay at the northern pier, and nobody had counted them "
    "since the storm. A boy with a lantern walked from one to the next, wrote seven numbers on a slate, and went home."
)


@check_function("server-same-text")
def _same_text(session: CheckSession) -> None:
    request = session.question()
    message = "whole and streamed answers differ in their text"
    compare_variants(session, request, lambda reply: conclusive(reply).text.strip() == PASSAGE, message)


@check_function("server-same-calls")
def _same_calls(session: CheckSession) -> None:
    request = session.question(tools=[WEATHER], tool_choice="auto")
    message = "whole and streamed answers differ in their calls"
    compare_variants(session, request, lambda reply: len(conclusive(reply).calls) == 2, message)


def _body(session: CheckSession) -> WireBody:
    request = ChatRequest(
        model=session.server.model, messages=[Message.user(session.prompt)], max_tokens=session.server.max_answer_tokens
    )
    return session.server.body_of(request)


def _check_refusal(session: CheckSession, reply: Reply, what: str, *, severity: Severity = Severity.ERROR) -> None:
    """Check that an invalid request is refused as a client error."""
    status = reply.response.status
    if status >= 500:
        message = f"{what} is answered with HTTP {status}, as if the server had failed, so clients retry it"
        session.fail(message, reply, actual=status, expected=400)
    elif status < 400 and (reply.view is None or reply.view.error is None):
        session.fail(f"{what} is accepted", reply, actual=status, expected=400, severity=severity)


_NO_MODEL = "harness-no-such-model"


@check_function("server-error-model")
def _model(session: CheckSession) -> None:
    body = _body(session)
    named = {**body, "model": _NO_MODEL} if "model" in body else body
    # a server with one model may well answer for any name
    _check_refusal(session, session.send(named, model=_NO_MODEL), "an unknown model", severity=Severity.WARNING)


@check_function("server-error-json")
def _unreadable(session: CheckSession) -> None:
    _check_refusal(session, session.send(b'{"model": "x", "messages": ['), "a body that is not JSON")


@check_function("server-error-messages")
def _nothing(session: CheckSession) -> None:
    least = session.server.api.minimal_request
    body = {key: value for key, value in _body(session).items() if least is None or key not in least.body}
    _check_refusal(session, session.send(body), "a request without messages")


def _check_survives(session: CheckSession, reply: Reply, what: str) -> None:
    """Check that the server survives a request that providers refuse but many servers accept. Record whether it
    accepted the request.
    """
    status, view = reply.response.status, reply.view
    if status >= 500 or view is None:
        message = f"{what} is answered with HTTP {status}: it must be refused or ignored"
        session.fail(message, reply, actual=status, expected=400)
    else:
        session.record_try(f"accepts {what} silently", came_out=view.error is None)


@check_function("server-unknown-field")
def _unknown_field(session: CheckSession) -> None:
    reply = session.send({**_body(session), "harness_unknown_field": True})
    _check_survives(session, reply, "an unknown field")


@check_function("server-error-tool")
def _check_undeclared(session: CheckSession) -> None:
    request = ChatRequest(
        session.server.model,
        [Message.user(session.prompt)],
        tools=[WEATHER],
        tool_choice=NamedTool("no_such_tool"),
        max_tokens=session.server.max_answer_tokens,
    )
    _check_survives(
        session, session.send(session.server.body_of(request)), "a tool choice that names an undeclared tool"
    )


def _names(session: CheckSession, request: ChatRequest, refused: str) -> Sequence[str]:
    return [call.name for call in conclusive(session.ask(request, refused=refused)).calls]


@check_function("server-choice-none")
def _none(session: CheckSession) -> None:
    names = _names(
        session, session.question(tools=[WEATHER, TIME], tool_choice="none"), "the tool choice 'none' is refused"
    )
    if names:
        message = "the request forbids calls, and the answer has one"
        session.fail(message, session.replies[-1], actual=[*names], expected=[])


@check_function("server-choice-required")
def _check_required(session: CheckSession) -> None:
    names = _names(
        session,
        session.question(tools=[WEATHER, TIME], tool_choice="required"),
        "the tool choice that requires a call is refused",
    )
    if not names:
        session.fail("the request requires a call, and the answer has none", session.replies[-1])


@check_function("server-choice-named")
def _check_named(session: CheckSession) -> None:
    names = _names(
        session,
        session.question(tools=[WEATHER, TIME], tool_choice=NamedTool(TIME.name)),
        "the tool choice that names a tool is refused",
    )
    if set(names) != {TIME.name}:
        message = f"the request names {TIME.name}, and the answer calls {', '.join(names) or 'nothing'}"
        session.fail(message, session.replies[-1], actual=[*names], expected=[TIME.name])


@check_function("server-choice-one-call")
def _one(session: CheckSession) -> None:
    reply = session.ask(
        session.question(tools=[WEATHER, TIME], tool_choice="auto"),
        refused="the setting that forbids several calls is refused",
        way=["one_call"],
    )
    calls = session.calls(reply)
    if len(calls) > 1:
        message = f"the request forbids several calls in one answer, and there are {len(calls)}"
        session.fail(message, reply, calls[1].pointer, actual=[call.name for call in calls])


def _json(session: CheckSession, request: ChatRequest, refused: str) -> JSON:
    """Return the JSON of an answer. Raises `Inconclusive` if the model calls a tool or stops too early, or after
    reporting that the answer is not JSON.
    """
    reply = session.ask(request, refused=refused)
    view = conclusive(reply)
    if view.calls:
        raise Inconclusive("the model called a tool that the question does not need")
    try:
        return loads(view.text)
    except WireError as damage:
        fenced = " (inside a Markdown code fence)" if view.text.lstrip().startswith("```") else ""
        session.fail(f"the answer must be JSON, but is {damage.reason}{fenced}", reply, actual=view.text)
        raise Inconclusive("the answer is not JSON") from None


@check_function("server-json-mode")
def _mode(session: CheckSession) -> None:
    _check_object(session, session.question(response_format=JsonMode()), "JSON mode is refused")


@check_function("server-json-mode-tools")
def _mode_with_tools(session: CheckSession) -> None:
    request = session.question(tools=[WEATHER], response_format=JsonMode())
    _check_object(session, request, "JSON mode is refused together with tools")


def _check_object(session: CheckSession, request: ChatRequest, refused: str) -> None:
    value = _json(session, request, refused)
    if not isinstance(value, dict):
        session.fail("the answer is JSON, but not an object", session.replies[-1], actual=value)


@check_function("server-json-schema")
def _schema(session: CheckSession) -> None:
    _check_schema(session, session.question(response_format=_ANIMAL), "a JSON schema for the answer is refused")


@check_function("server-json-schema-tools")
def _schema_with_tools(session: CheckSession) -> None:
    request = session.question(tools=[WEATHER], response_format=_ANIMAL)
    _check_schema(session, request, "a JSON schema for the answer is refused together with tools")


def _check_schema(session: CheckSession, request: ChatRequest, refused: str) -> None:
    value = _json(session, request, refused)
    if not accepts(_ANIMAL.schema, value):
        message = "the answer is JSON, but violates the requested schema"
        session.fail(message, session.replies[-1], actual=value, expected=_ANIMAL.schema)


_ANIMAL = JsonSchema(
    {
        "type": "object",
        "properties": {"legs": {"type": "integer"}, "class": {"type": "string", "enum": ["insect", "arachnid"]}},
        "required": ["legs", "class"],
        "additionalProperties": False,
    },
    "animal",
)
