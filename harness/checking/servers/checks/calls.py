"""Checks of calls: their ids, their arguments, several of them."""

from __future__ import annotations

import json

from harness.apis.view import CallView
from harness.checking.servers.checks.answers import OTHERWISE, compared
from harness.checking.servers.server import Server
from harness.checking.servers.talk import (
    NOTE,
    ORDER,
    PING,
    TABLE,
    WEATHER,
    Check,
    Ended,
    Inconclusive,
    Reply,
    Talk,
    helpful,
)
from harness.contract.model import JSON, ChatRequest, Message, NamedTool, Tool
from harness.meaning.schemas import accepts
from harness.scenarios.schema import StepSpec, Subject

CALLED = "calls the tool that it is asked to call"
FITS = "makes arguments that fit the schema of a tool that is not strict"

_OWN_IDS = "the results are refused by the ids that the server has issued itself"


def _called(talk: Talk, reply: Reply, tool: Tool) -> CallView:
    """The first call of an answer, which is to be one of this tool."""
    view = helpful(reply)
    call = next((call for call in view.calls if call.name == tool.name), None)
    talk.count(CALLED, came_out=call is not None)
    if call is None:
        names = ", ".join(call.name for call in view.calls)
        raise Inconclusive(f"the model called {names or 'nothing'} instead of {tool.name}")
    return call


_CALL = "What is the weather in Paris right now? Use get_weather."


def _call(talk: Talk) -> None:
    asked = ChatRequest(messages=[Message.user(_CALL)], tools=[WEATHER], tool_choice="auto")
    first = talk.ask(asked)
    call = _called(talk, first, WEATHER)
    talk.count(FITS, came_out=accepts(WEATHER.parameters, call.arguments))
    results = [(each, {"temp_c": 18, "sky": "clear"}) for each in talk.calls(first)]
    second = talk.go_on(first, results, refused=_OWN_IDS)
    view = helpful(second)
    if view.calls:
        raise Inconclusive("the model called again, though it had its result")
    talk.count("uses the result of a tool", came_out="18" in view.text)
    talk.say(second, "And what is it in Oslo? Use get_weather again.")


_PARALLEL = "What is the weather in Madrid and in Lisbon? Call get_weather for both, at once."


def _parallel(talk: Talk) -> None:
    first = talk.ask(ChatRequest(messages=[Message.user(_PARALLEL)], tools=[WEATHER], tool_choice="auto"))
    helpful(first)
    calls = first.view.calls if first.view is not None else ()
    talk.count("calls two tools at once where it is asked to", came_out=len(calls) > 1)
    calls = talk.calls(first, 2)
    results = [(call, {"temp_c": 20 + number}) for number, call in enumerate(calls)]
    in_order = any(call.id is None for call in calls)  # then their order is all that tells them apart
    talk.go_on(first, results if in_order else results[::-1], refused=_OWN_IDS)


_NO_ARGUMENTS = "Is the service up? Use ping."


def _no_arguments(talk: Talk) -> None:
    reply = talk.ask(ChatRequest(messages=[Message.user(_NO_ARGUMENTS)], tools=[PING], tool_choice="auto"))
    call = _called(talk, reply, PING)
    if call.malformed is None and call.arguments != {}:
        raise Inconclusive(f"the model made up arguments: {call.arguments}")
    talk.go_on(reply, [(each, {"up": True}) for each in talk.calls(reply)], refused=_OWN_IDS)


_DIFFERENT = "Is the service up, and what is the weather in Bergen? Call ping and get_weather, both at once."


def _different(talk: Talk) -> None:
    request = ChatRequest(messages=[Message.user(_DIFFERENT)], tools=[PING, WEATHER], tool_choice="auto")
    if talk.stream:
        compared(talk, request, _is_mixed, "the answer does not have both calls as it has them the other way")
        reply = talk.replies[-1]
    else:
        reply = talk.ask(request)
        _check_mixed(talk, reply)
    results = {PING.name: {"up": True}, WEATHER.name: {"temp_c": 12}}
    calls = talk.calls(reply, 2)
    in_order = any(call.id is None for call in calls)
    answered = [(call, results[call.name]) for call in (calls if in_order else calls[::-1])]
    talk.go_on(reply, answered, refused=_OWN_IDS)


def _mixed(reply: Reply) -> dict[str, CallView]:
    return {call.name: call for call in helpful(reply).calls}


def _is_mixed(reply: Reply) -> bool:
    calls = _mixed(reply)
    if calls.keys() != {PING.name, WEATHER.name} or len(helpful(reply).calls) != len(calls):
        return False
    return calls[PING.name].arguments == {} and accepts(WEATHER.parameters, calls[WEATHER.name].arguments)


def _check_mixed(talk: Talk, reply: Reply) -> None:
    """Report what no model does, and leave the rest to it."""
    calls = _mixed(reply)
    for name, call in calls.items():
        if name in (PING.name + WEATHER.name, WEATHER.name + PING.name):
            talk.flaw("two calls arrive as one, under both names", reply, call.pointer, actual=name)
            raise Ended
    if calls.keys() != {PING.name, WEATHER.name} or any(call.malformed is not None for call in calls.values()):
        raise Inconclusive(OTHERWISE)
    ping, weather = calls[PING.name], calls[WEATHER.name]
    if accepts(WEATHER.parameters, ping.arguments) and weather.arguments == {}:
        said = f"the arguments of {WEATHER.name} arrive at {PING.name}, which has no parameters"
        talk.flaw(said, reply, ping.arguments_pointer, actual=ping.arguments, expected={})
        raise Ended
    if not _is_mixed(reply):
        raise Inconclusive(OTHERWISE)


NUMBER = 1234567890123456789
"""An integer that is easy to copy, and whose last digits a double does not hold: they become 768, or where JavaScript
writes it 800."""

_REACH = 129
"""Doubles are 256 apart there: what is nearer is the number as a double, however it is written."""

_INTEGER = f"Find the order with the number {NUMBER}. Use find_order."


def _integer(talk: Talk) -> None:
    reply = talk.ask(ChatRequest(messages=[Message.user(_INTEGER)], tools=[ORDER], tool_choice="auto"))
    call = _called(talk, reply, ORDER)
    given = call.arguments.get("number") if isinstance(call.arguments, dict) else None
    if isinstance(given, int | float) and given != NUMBER and abs(given - NUMBER) < _REACH:
        said = "a large integer is rounded to a double on its way: no model errs so"
        talk.flaw(said, reply, call.arguments_pointer, actual=given, expected=NUMBER)
    elif given != NUMBER and call.malformed is None:
        raise Inconclusive("the model wrote another number")


def _no_integers(server: Server) -> str | None:
    return None if server.questions.exact_integers else "the API's own arguments hold doubles, no larger integers"


TEXT = 'C:\\new\\table is "quoted"; naïve 雪\nand a second line'
"""A text in which every kind of escape is needed."""

PLAIN = 'Anna said "no".'
"""A text that no model gets wrong."""


def _noted(text: str) -> str:
    return f"Save a note with save_note. Its text is exactly what stands between the marks.\n<<<{text}>>>"


def _saved(talk: Talk, text: str) -> tuple[Reply, CallView, JSON]:
    """The text of the note that an answer saves."""
    reply = talk.ask(ChatRequest(messages=[Message.user(_noted(text))], tools=[NOTE], tool_choice="auto"))
    call = _called(talk, reply, NOTE)
    return reply, call, call.arguments.get("text") if isinstance(call.arguments, dict) else None


def _twice(text: str) -> set[str]:
    return {json.dumps(text, ensure_ascii=escaped)[1:-1] for escaped in (True, False)}


def _escapes(talk: Talk) -> None:
    reply, call, given = _saved(talk, TEXT)
    if isinstance(given, str) and given in _twice(TEXT):
        # a model may do that where it is hard; a server does it everywhere
        _, _, plain = _saved(talk, PLAIN)
        if not isinstance(plain, str) or plain not in _twice(PLAIN):
            raise Inconclusive("the model escaped the text, which the server does not do to another")
        talk.flaw("the arguments are escaped twice", reply, call.arguments_pointer, actual=given, expected=TEXT)
    elif given != TEXT and call.malformed is None:
        raise Inconclusive("the model wrote another text")


_STRICT = "Book a table in the garden for dinner, for four. Use book_table."


def _strict(talk: Talk) -> None:
    forced = talk.server.questions.keeps_schemas == "forced"
    choice = NamedTool(TABLE.name) if forced else "auto"
    reply = talk.ask(ChatRequest(messages=[Message.user(_STRICT)], tools=[TABLE], tool_choice=choice))
    call = _called(talk, reply, TABLE)
    if call.malformed is None and not accepts(TABLE.parameters, call.arguments):
        said = "the arguments do not fit the schema, which the API promises of this call"
        talk.flaw(said, reply, call.arguments_pointer, actual=call.arguments, expected=TABLE.parameters)


_PARIS = StepSpec(calls=[{"get_weather": {"city": "Paris"}}])

CHECKS = (
    Check(
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
    Check(
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
    Check(
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
    Check(
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
    Check(
        id="server-integers",
        subject=Subject.TOOLS,
        promise="An integer that no double holds arrives digit by digit.",
        source="https://www.rfc-editor.org/rfc/rfc8259#section-6 (read 2026-11-22)",
        because="the tool is called with another number, and nobody sees it",
        sends=f"a question that needs the integer {NUMBER} as an argument",
        prompt=_INTEGER,
        script=(StepSpec(calls=[{"find_order": {"number": NUMBER}}]),),
        play=_integer,
        lacks=_no_integers,
    ),
    Check(
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
    Check(
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
