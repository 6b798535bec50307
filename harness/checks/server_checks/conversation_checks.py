"""Checks of conversations: calls and their results, prompts, and histories from another server."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace

from harness.apis.view import CallView
from harness.checks.server_checks.answer_checks import PROMPT_NOT_FOLLOWED, compare_variants
from harness.checks.server_session import (
    NOTE,
    ORDER,
    PING,
    TABLE,
    WEATHER,
    CheckSession,
    Inconclusive,
    Reply,
    SessionEnded,
    check_function,
    conclusive,
)
from harness.equivalence.schema_changes import accepts
from harness.model.messages import JSON, ChatRequest, Message, NamedTool, Role, Tool, ToolCall, ToolResult

CALLED = "calls the tool that the prompt asks for"
FITS = "makes arguments that fit the schema of a tool that is not strict"

_OWN_IDS = "the server refuses results under the ids that it issued itself"


def _first_call(session: CheckSession, reply: Reply, tool: Tool) -> CallView:
    """Return the first call of a tool, or raise `Inconclusive`."""
    view = conclusive(reply)
    call = next((call for call in view.calls if call.name == tool.name), None)
    session.record_try(CALLED, came_out=call is not None)
    if call is None:
        names = ", ".join(call.name for call in view.calls)
        raise Inconclusive(f"the model called {names or 'nothing'} instead of {tool.name}")
    return call


@check_function("server-call")
def _call(session: CheckSession) -> None:
    request = session.question(tools=[WEATHER], tool_choice="auto")
    first = session.ask(request)
    call = _first_call(session, first, WEATHER)
    session.record_try(FITS, came_out=accepts(WEATHER.parameters, call.arguments))
    results = [(each, {"temp_c": 18, "sky": "clear"}) for each in session.calls(first)]
    second = session.send_results(first, results, refused=_OWN_IDS)
    view = conclusive(second)
    if view.calls:
        raise Inconclusive("the model repeated a call although it had the result")
    session.record_try("uses the result of a tool", came_out="18" in view.text)
    session.send_text(second, "And what is it in Oslo? Use get_weather again.")


@check_function("server-parallel")
def _parallel(session: CheckSession) -> None:
    first = session.ask(session.question(tools=[WEATHER], tool_choice="auto"))
    conclusive(first)
    calls = first.view.calls if first.view is not None else ()
    session.record_try("makes two calls at once if the prompt asks for it", came_out=len(calls) > 1)
    calls = session.calls(first, 2)
    results = [(call, {"temp_c": 20 + number}) for number, call in enumerate(calls)]
    in_order = any(call.id is None for call in calls)  # then their order is all that tells them apart
    session.send_results(first, results if in_order else results[::-1], refused=_OWN_IDS)


@check_function("server-no-arguments")
def _no_arguments(session: CheckSession) -> None:
    reply = session.ask(session.question(tools=[PING], tool_choice="auto"))
    call = _first_call(session, reply, PING)
    if call.malformed is None and call.arguments != {}:
        raise Inconclusive(f"the model made up arguments: {call.arguments}")
    session.send_results(reply, [(each, {"up": True}) for each in session.calls(reply)], refused=_OWN_IDS)


@check_function("server-different-calls")
def _different(session: CheckSession) -> None:
    request = session.question(tools=[PING, WEATHER], tool_choice="auto")
    if session.stream:
        compare_variants(session, request, _is_mixed, "whole and streamed answers differ in their calls")
        reply = session.replies[-1]
    else:
        reply = session.ask(request)
        _check_mixed(session, reply)
    results = {PING.name: {"up": True}, WEATHER.name: {"temp_c": 12}}
    calls = session.calls(reply, 2)
    in_order = any(call.id is None for call in calls)
    answered = [(call, results[call.name]) for call in (calls if in_order else calls[::-1])]
    session.send_results(reply, answered, refused=_OWN_IDS)


def _calls_by_name(reply: Reply) -> dict[str, CallView]:
    return {call.name: call for call in conclusive(reply).calls}


def _is_mixed(reply: Reply) -> bool:
    calls = _calls_by_name(reply)
    if calls.keys() != {PING.name, WEATHER.name} or len(conclusive(reply).calls) != len(calls):
        return False
    return calls[PING.name].arguments == {} and accepts(WEATHER.parameters, calls[WEATHER.name].arguments)


def _check_mixed(session: CheckSession, reply: Reply) -> None:
    """Report mix-ups between two calls that no model would cause. All other deviations are inconclusive."""
    calls = _calls_by_name(reply)
    for name, call in calls.items():
        if name in (PING.name + WEATHER.name, WEATHER.name + PING.name):
            session.fail("two calls arrive as one, under both names", reply, call.pointer, actual=name)
            raise SessionEnded
    if calls.keys() != {PING.name, WEATHER.name} or any(call.malformed is not None for call in calls.values()):
        raise Inconclusive(PROMPT_NOT_FOLLOWED)
    ping, weather = calls[PING.name], calls[WEATHER.name]
    if accepts(WEATHER.parameters, ping.arguments) and weather.arguments == {}:
        message = f"{PING.name} has no parameters, but gets the arguments of {WEATHER.name}"
        session.fail(message, reply, ping.arguments_pointer, actual=ping.arguments, expected={})
        raise SessionEnded
    if not _is_mixed(reply):
        raise Inconclusive(PROMPT_NOT_FOLLOWED)


NUMBER = 1234567890123456789
"""An integer that a double cannot represent: its last digits become 768, or 800 in JavaScript."""

_MAX_ROUNDING_ERROR = 129
"""Distance within which a number equals `NUMBER` after conversion to a double. Doubles of this size are 256 apart."""


@check_function("server-integers")
def _integer(session: CheckSession) -> None:
    reply = session.ask(session.question(tools=[ORDER], tool_choice="auto"))
    call = _first_call(session, reply, ORDER)
    given = call.arguments.get("number") if isinstance(call.arguments, dict) else None
    if isinstance(given, int | float) and given != NUMBER and abs(given - NUMBER) < _MAX_ROUNDING_ERROR:
        message = "a large integer is rounded to a double, which no model does"
        session.fail(message, reply, call.arguments_pointer, actual=given, expected=NUMBER)
    elif given != NUMBER and call.malformed is None:
        raise Inconclusive("the model wrote another number")


TEXT = 'C:\\new\\table is "quoted"; naïve 雪\nand a second line'
"""A text that needs every kind of escaping."""

PLAIN = 'Anna said "no".'
"""A text that every model reproduces correctly."""


def _note(text: str) -> str:
    return f"Save a note with save_note. Its text is exactly what stands between the marks.\n<<<{text}>>>"


def _saved_note(session: CheckSession, text: str) -> tuple[Reply, CallView, JSON]:
    """Return the response, its call, and the text of the saved note."""
    reply = session.ask(ChatRequest(messages=[Message.user(_note(text))], tools=[NOTE], tool_choice="auto"))
    call = _first_call(session, reply, NOTE)
    return reply, call, call.arguments.get("text") if isinstance(call.arguments, dict) else None


def _twice(text: str) -> set[str]:
    return {json.dumps(text, ensure_ascii=escaped)[1:-1] for escaped in (True, False)}


@check_function("server-escapes")
def _escapes(session: CheckSession) -> None:
    reply, call, given = _saved_note(session, TEXT)
    if isinstance(given, str) and given in _twice(TEXT):
        # a model may do that where it is hard; a server does it everywhere
        _, _, plain = _saved_note(session, PLAIN)
        if not isinstance(plain, str) or plain not in _twice(PLAIN):
            raise Inconclusive("the model escaped the text; the server does not escape another one")
        session.fail("the arguments are escaped twice", reply, call.arguments_pointer, actual=given, expected=TEXT)
    elif given != TEXT and call.malformed is None:
        raise Inconclusive("the model wrote another text")


@check_function("server-strict-arguments")
def _strict(session: CheckSession) -> None:
    forced = session.server.request_builder.keeps_schemas == "forced"
    choice = NamedTool(TABLE.name) if forced else "auto"
    reply = session.ask(session.question(tools=[TABLE], tool_choice=choice))
    call = _first_call(session, reply, TABLE)
    if call.malformed is None and not accepts(TABLE.parameters, call.arguments):
        message = "the arguments violate the schema, although the API guarantees it for this call"
        session.fail(message, reply, call.arguments_pointer, actual=call.arguments, expected=TABLE.parameters)


_WORD = "HARBOUR-7"
_SYSTEM = f"End every answer with the word {_WORD}, whatever is asked."
_FOLLOWED, _OBEYED = "follows the system prompt", "follows the developer's prompt"


def _check_instruction(session: CheckSession, name: str, way: Sequence[str], refused: str) -> None:
    """Check that the model follows the system prompt. If it does not, use the prompt's token count to see whether it
    arrived."""
    request = session.question(system=_SYSTEM)
    view = conclusive(session.ask(request, refused=refused, way=way))
    session.record_try(name, came_out=_WORD in view.text)
    if _WORD in view.text:
        return
    without = conclusive(session.ask(replace(request, system=None))).usage.input_tokens
    counted = view.usage.input_tokens
    if counted is not None and without is not None and counted >= without + _MIN_PROMPT_TOKENS:
        raise Inconclusive(
            f"the model does not follow the prompt, although {counted - without} tokens of it are counted"
        )


_MIN_PROMPT_TOKENS = 8
"""Minimum number of tokens that the system prompt adds to a request."""


@check_function("server-system")
def _system(session: CheckSession) -> None:
    _check_instruction(session, _FOLLOWED, (), "the system prompt is refused")


@check_function("server-developer")
def _developer(session: CheckSession) -> None:
    _check_instruction(session, _OBEYED, ("developer",), "a developer message is refused")


@check_function("server-parts")
def _parts(session: CheckSession) -> None:
    request = session.question()
    reply = session.ask(request, refused="a user message whose content is a list of parts is refused", way=["parted"])
    view = conclusive(reply)
    session.record_try(
        "reads a text that is sent as a list of parts", came_out="13" in view.text or "thirteen" in view.text
    )


_STRINGS = "reads texts that are sent as plain strings"


@check_function("server-strings")
def _plain(session: CheckSession) -> None:
    history = [Message.user("My animal is the otter."), Message(Role.ASSISTANT, "I shall remember it.")]
    request = ChatRequest(messages=[*history, Message.user(session.prompt)])
    reply = session.ask(request, refused="messages whose content is a plain string are refused", way=["plain"])
    session.record_try(_STRINGS, came_out="otter" in conclusive(reply).text.casefold())


FOREIGN = "call_9pBQ4xTz7Kfe21Lm"
"""A call id issued by another server, with only characters that every API accepts."""

_ASKED = "What is the weather in Kyoto?"


def _foreign_history_request(result: str, *, failed: bool, question: str) -> ChatRequest:
    call, arguments = WEATHER.name, {"city": "Kyoto"}
    return ChatRequest(
        messages=[
            Message.user(_ASKED),
            Message(Role.ASSISTANT, [ToolCall(FOREIGN, call, {**arguments})]),
            Message(Role.USER, [ToolResult(FOREIGN, call, result, is_error=failed)]),
            Message(Role.ASSISTANT, "That was the weather service."),
            Message.user(question),
        ],
        tools=[WEATHER],
    )


@check_function("server-history")
def _history(session: CheckSession) -> None:
    request = _foreign_history_request("21 °C and dry", failed=False, question=session.prompt)
    plain = replace(request, messages=[request.messages[0], *request.messages[-2:]])

    def refused() -> str:
        if session.refuses(plain):
            return "a conversation that another server began is refused, even without calls"
        return "a conversation is refused because a call has another server's id"

    reply = session.ask(request, refused=refused)
    session.record_try("reads the conversation before", came_out="kyoto" in conclusive(reply).text.casefold())


_NO = re.compile(r"\bno\b", re.IGNORECASE)


@check_function("server-result-error")
def _check_failed(session: CheckSession) -> None:
    request = _foreign_history_request("the station is offline", failed=True, question=session.prompt)

    def refused() -> str:
        if session.refuses(_foreign_history_request("the station is offline", failed=False, question=session.prompt)):
            raise Inconclusive("the same conversation is also refused if the tool has not failed")
        return "a conversation with the result of a failed tool is refused"

    reply = session.ask(request, refused=refused)
    session.record_try("understands that a tool has failed", came_out=_NO.search(conclusive(reply).text) is not None)
