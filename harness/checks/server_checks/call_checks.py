"""Checks of calls: ids, arguments, parallel calls."""

from __future__ import annotations

import json

from harness.apis.response_rules import Subject
from harness.apis.view import CallView
from harness.checks.server_checks.answer_checks import OTHERWISE, compare_variants
from harness.checks.server_session import (
    NOTE,
    ORDER,
    PING,
    TABLE,
    WEATHER,
    CheckSession,
    Inconclusive,
    Reply,
    ServerCheck,
    SessionEnded,
    conclusive,
    needs,
)
from harness.equivalence.schema_changes import accepts
from harness.model.messages import JSON, ChatRequest, Message, NamedTool, Tool
from harness.scenarios.schema import StepSpec

CALLED = "calls the tool that it is asked to call"
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


_CALL = "What is the weather in Paris right now? Use get_weather."


def _call(session: CheckSession) -> None:
    asked = ChatRequest(messages=[Message.user(_CALL)], tools=[WEATHER], tool_choice="auto")
    first = session.ask(asked)
    call = _first_call(session, first, WEATHER)
    session.record_try(FITS, came_out=accepts(WEATHER.parameters, call.arguments))
    results = [(each, {"temp_c": 18, "sky": "clear"}) for each in session.calls(first)]
    second = session.send_results(first, results, refused=_OWN_IDS)
    view = conclusive(second)
    if view.calls:
        raise Inconclusive("the model called again, though it had its result")
    session.record_try("uses the result of a tool", came_out="18" in view.text)
    session.send_text(second, "And what is it in Oslo? Use get_weather again.")


_PARALLEL = "What is the weather in Madrid and in Lisbon? Call get_weather for both, at once."


def _parallel(session: CheckSession) -> None:
    first = session.ask(ChatRequest(messages=[Message.user(_PARALLEL)], tools=[WEATHER], tool_choice="auto"))
    conclusive(first)
    calls = first.view.calls if first.view is not None else ()
    session.record_try("calls two tools at once where it is asked to", came_out=len(calls) > 1)
    calls = session.calls(first, 2)
    results = [(call, {"temp_c": 20 + number}) for number, call in enumerate(calls)]
    in_order = any(call.id is None for call in calls)  # then their order is all that tells them apart
    session.send_results(first, results if in_order else results[::-1], refused=_OWN_IDS)


_NO_ARGUMENTS = "Is the service up? Use ping."


def _no_arguments(session: CheckSession) -> None:
    reply = session.ask(ChatRequest(messages=[Message.user(_NO_ARGUMENTS)], tools=[PING], tool_choice="auto"))
    call = _first_call(session, reply, PING)
    if call.malformed is None and call.arguments != {}:
        raise Inconclusive(f"the model made up arguments: {call.arguments}")
    session.send_results(reply, [(each, {"up": True}) for each in session.calls(reply)], refused=_OWN_IDS)


_DIFFERENT = "Is the service up, and what is the weather in Bergen? Call ping and get_weather, both at once."


def _different(session: CheckSession) -> None:
    request = ChatRequest(messages=[Message.user(_DIFFERENT)], tools=[PING, WEATHER], tool_choice="auto")
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


def _mixed(reply: Reply) -> dict[str, CallView]:
    return {call.name: call for call in conclusive(reply).calls}


def _is_mixed(reply: Reply) -> bool:
    calls = _mixed(reply)
    if calls.keys() != {PING.name, WEATHER.name} or len(conclusive(reply).calls) != len(calls):
        return False
    return calls[PING.name].arguments == {} and accepts(WEATHER.parameters, calls[WEATHER.name].arguments)


def _check_mixed(session: CheckSession, reply: Reply) -> None:
    """Report mix-ups between two calls that no model would cause. All other deviations are inconclusive."""
    calls = _mixed(reply)
    for name, call in calls.items():
        if name in (PING.name + WEATHER.name, WEATHER.name + PING.name):
            session.fail("two calls arrive as one, under both names", reply, call.pointer, actual=name)
            raise SessionEnded
    if calls.keys() != {PING.name, WEATHER.name} or any(call.malformed is not None for call in calls.values()):
        raise Inconclusive(OTHERWISE)
    ping, weather = calls[PING.name], calls[WEATHER.name]
    if accepts(WEATHER.parameters, ping.arguments) and weather.arguments == {}:
        said = f"the arguments of {WEATHER.name} arrive at {PING.name}, which has no parameters"
        session.fail(said, reply, ping.arguments_pointer, actual=ping.arguments, expected={})
        raise SessionEnded
    if not _is_mixed(reply):
        raise Inconclusive(OTHERWISE)


NUMBER = 1234567890123456789
"""An integer that a double cannot represent: its last digits become 768, or 800 in JavaScript."""

_REACH = 129
"""Distance within which a number equals `NUMBER` after conversion to a double. Doubles of this size are 256 apart."""

_INTEGER = f"Find the order with the number {NUMBER}. Use find_order."


def _integer(session: CheckSession) -> None:
    reply = session.ask(ChatRequest(messages=[Message.user(_INTEGER)], tools=[ORDER], tool_choice="auto"))
    call = _first_call(session, reply, ORDER)
    given = call.arguments.get("number") if isinstance(call.arguments, dict) else None
    if isinstance(given, int | float) and given != NUMBER and abs(given - NUMBER) < _REACH:
        said = "a large integer is rounded to a double, which no model does"
        session.fail(said, reply, call.arguments_pointer, actual=given, expected=NUMBER)
    elif given != NUMBER and call.malformed is None:
        raise Inconclusive("the model wrote another number")


TEXT = 'C:\\new\\table is "quoted"; naïve 雪\nand a second line'
"""A text that needs every kind of escaping."""

PLAIN = 'Anna said "no".'
"""A text that every model reproduces correctly."""


def _noted(text: str) -> str:
    return f"Save a note with save_note. Its text is exactly what stands between the marks.\n<<<{text}>>>"


def _saved_note(session: CheckSession, text: str) -> tuple[Reply, CallView, JSON]:
    """Return the response, its call, and the text of the saved note."""
    reply = session.ask(ChatRequest(messages=[Message.user(_noted(text))], tools=[NOTE], tool_choice="auto"))
    call = _first_call(session, reply, NOTE)
    return reply, call, call.arguments.get("text") if isinstance(call.arguments, dict) else None


def _twice(text: str) -> set[str]:
    return {json.dumps(text, ensure_ascii=escaped)[1:-1] for escaped in (True, False)}


def _escapes(session: CheckSession) -> None:
    reply, call, given = _saved_note(session, TEXT)
    if isinstance(given, str) and given in _twice(TEXT):
        # a model may do that where it is hard; a server does it everywhere
        _, _, plain = _saved_note(session, PLAIN)
        if not isinstance(plain, str) or plain not in _twice(PLAIN):
            raise Inconclusive("the model escaped the text, which the server does not do to another")
        session.fail("the arguments are escaped twice", reply, call.arguments_pointer, actual=given, expected=TEXT)
    elif given != TEXT and call.malformed is None:
        raise Inconclusive("the model wrote another text")


_STRICT = "Book a table in the garden for dinner, for four. Use book_table."


def _strict(session: CheckSession) -> None:
    forced = session.server.request_builder.keeps_schemas == "forced"
    choice = NamedTool(TABLE.name) if forced else "auto"
    reply = session.ask(ChatRequest(messages=[Message.user(_STRICT)], tools=[TABLE], tool_choice=choice))
    call = _first_call(session, reply, TABLE)
    if call.malformed is None and not accepts(TABLE.parameters, call.arguments):
        said = "the arguments violate the schema, although the API guarantees it for this call"
        session.fail(said, reply, call.arguments_pointer, actual=call.arguments, expected=TABLE.parameters)


_PARIS = StepSpec(calls=[{"get_weather": {"city": "Paris"}}])

CHECKS = (
    ServerCheck(
        id="server-call",
        subject=Subject.ID_MATCHING,
        promise="A call goes back as it came, its result by its id, and the next call has another id.",
        source="anthropic-call-answered-next, openai-chat-calls-answered, openai-responses-result-has-call, "
        "gemini-function-response-form",
        because="no tool loop gets beyond its first step",
        sends="a question that needs a tool, its result, and another question that needs it",
        prompt=_CALL,
        script=(
            _PARIS,
            StepSpec(text="It is 18 °C in Paris, and the sky is clear."),
            StepSpec(calls=[{"get_weather": {"city": "Oslo"}}]),
        ),
        play=_call,
    ),
    ServerCheck(
        id="server-parallel",
        subject=Subject.TOOLS,
        promise="Several calls of one answer arrive, and their results are taken in any order.",
        source="anthropic-results-in-one-message, openai-chat-calls-answered, openai-responses-result-has-call, "
        "gemini-responses-counted",
        because="parallel calls are lost or mixed up",
        sends="a question about two cities, and the results, the last one first",
        prompt=_PARALLEL,
        script=(
            StepSpec(calls=[{"get_weather": {"city": "Madrid"}}, {"get_weather": {"city": "Lisbon"}}]),
            StepSpec(text="Madrid has 20 °C, Lisbon 21 °C."),
        ),
        play=_parallel,
    ),
    ServerCheck(
        id="server-no-arguments",
        subject=Subject.TOOLS,
        promise="A call without arguments has an empty object for them, and goes back.",
        source="anthropic-stream-arguments, openai-chat-no-arguments, gemini-function-call-form",
        because="clients parse nothing as JSON, and break",
        sends="a question that needs a tool without parameters, and its result",
        prompt=_NO_ARGUMENTS,
        script=(StepSpec(calls=[{"ping": {}}]), StepSpec(text="Yes, it is up.")),
        play=_no_arguments,
    ),
    ServerCheck(
        id="server-different-calls",
        subject=Subject.TOOLS,
        promise="Calls of different tools in one answer arrive each with its name and arguments, be there any or none.",
        source="anthropic-stream-arguments, openai-chat-no-arguments, openai-responses-call-form, "
        "gemini-function-call-form",
        because="one of the calls is lost, or gets the arguments of the other",
        sends="a question that needs two tools, one of them without parameters, and the results, the last one first; "
        "of a stream the whole answer as well, up to five times where they differ",
        prompt=_DIFFERENT,
        script=(
            StepSpec(calls=[{"ping": {}}, {"get_weather": {"city": "Bergen"}}]),
            StepSpec(text="The service is up, and Bergen has 12 °C."),
        ),
        play=_different,
    ),
    ServerCheck(
        id="server-integers",
        subject=Subject.TOOLS,
        promise="An integer that no double holds arrives digit by digit.",
        source="https://www.rfc-editor.org/rfc/rfc8259#section-6 (read 2026-11-22)",
        because="the tool is called with another number, and nobody sees it",
        sends=f"a question that needs the integer {NUMBER} as an argument",
        prompt=_INTEGER,
        script=(StepSpec(calls=[{"find_order": {"number": NUMBER}}]),),
        play=_integer,
        lacks=needs("exact_integers", "the API's own arguments hold doubles, no larger integers"),
    ),
    ServerCheck(
        id="server-escapes",
        subject=Subject.TOOLS,
        promise="Quotes, backslashes, line ends and letters beyond ASCII arrive in arguments as they were written.",
        source="https://www.rfc-editor.org/rfc/rfc8259#section-7 (read 2026-11-22)",
        because="the tool is called with another text, and nobody sees it",
        sends="a question that needs such a text as an argument; if it comes escaped twice, another with a plain text",
        prompt=_noted(TEXT),
        script=(StepSpec(calls=[{"save_note": {"text": TEXT}}]),),
        play=_escapes,
    ),
    ServerCheck(
        id="server-strict-arguments",
        subject=Subject.TOOLS,
        promise="Arguments fit the schema where the API promises that: of a strict tool, or on Gemini of a forced one.",
        source="anthropic-strict-closed, openai-chat-strict-schema, openai-responses-strict-default, "
        "gemini-function-call-form",
        because="the tool is called with what it cannot take",
        sends="a question that needs a tool with closed values, whose schema is to be kept",
        prompt=_STRICT,
        script=(StepSpec(calls=[{"book_table": {"place": "garden", "meal": "dinner", "guests": 4}}]),),
        play=_strict,
    ),
)
