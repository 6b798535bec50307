"""Tools: declarations, arguments and results arrive intact, errors are marked, the tool choice is honoured."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.jsonvalue import equal
from harness.apis.view import CallView, ToolView
from harness.meaning import choice_meaning
from harness.meaning.choice_meaning import tool_families, tool_family
from harness.meaning.result_meaning import is_sent_by_item, says_no_more
from harness.meaning.schema_changes import change
from harness.results import Kind, Severity
from harness.rules.content import content_shown, is_verbatim, shown
from harness.rules.emulation import format_tool
from harness.rules.evidence import Asked, Evidence, ExpectedCall, Heard
from harness.rules.matching import Answer, answers, matched
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject


def _functions(asked: Asked) -> dict[str, ToolView]:
    return {tool.name: tool for tool in asked.view.tools if tool.kind == "function"}


def _undeclared(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.asked:
        yield from _of_the_provider(asked)
        wanted = [tool.name for tool in asked.chat.request.tools]
        asks_for_json = format_tool(asked)
        sent = [tool.name for tool in asked.view.tools if tool.kind == "function" and tool is not asks_for_json]
        if sorted(sent) == sorted(wanted):
            continue
        if not sent and asked.chat.request.tool_choice == "none":
            continue  # without declarations nothing can be called, which is what `none` asks for
        yield Flaw(
            "the tools of the request are not those that were given", asked.reading.index, "", [*sent], [*wanted]
        )


def _of_the_provider(asked: Asked) -> Iterator[Flaw]:
    """Tools that the provider runs, or knows. The contract has none: who wants one says so in fields of the API."""
    request, api = asked.chat.request, asked.view.api
    wanted = tool_families(request.provider_metadata.get(api))
    sent = [tool for tool in asked.view.tools if tool.kind != "function"]
    uninvited = [tool for tool in sent if tool_family(tool.kind) not in wanted]
    if uninvited and not any(api in tool.provider_metadata for tool in request.tools):
        yield Flaw(
            "the request has tools of the provider, for which nobody asked",
            asked.reading.index,
            uninvited[0].pointer,
            [tool.kind for tool in uninvited],
            [*sorted(wanted)],
        )
    if missing := wanted - {tool_family(tool.kind) for tool in sent}:
        yield Flaw(
            "a tool of the provider was asked for and is not in the request",
            asked.reading.index,
            "",
            [tool.kind for tool in sent],
            [*sorted(missing)],
        )


def _declaration_changed(evidence: Evidence) -> Iterator[Flaw]:
    kept: set[tuple[int, int]] = set()  # the same objects, which all requests repeat
    for asked in evidence.asked:
        sent = _functions(asked)
        for tool in asked.chat.request.tools:
            view = sent.get(tool.name)
            if view is None or (id(tool), id(view)) in kept:
                continue
            is_described = (view.description or "") == tool.description
            if not is_described:
                yield Flaw(
                    f"the description of {tool.name} was changed",
                    asked.reading.index,
                    view.pointer,
                    view.description,
                    tool.description,
                )
            found = change(tool.parameters, view.parameters, view.dialect)
            if found is not None:
                place = found.pointer or "/"
                yield Flaw(
                    f"the parameters of {tool.name} were changed at {place} of their schema{found.said()}",
                    asked.reading.index,
                    view.pointer,
                    found.actual,
                    found.expected,
                )
            elif is_described:
                kept.add((id(tool), id(view)))


def _choice(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.asked:
        if format_tool(asked) is not None:
            continue  # the choice is how JSON is asked for
        request, sent = asked.chat.request, asked.view.tool_choice
        names = [tool.name for tool in request.tools]
        wanted = choice_meaning.canonical_meaning(request.tool_choice, names)
        found = choice_meaning.wire_meaning(sent, names)
        if not asked.view.tools and not wanted.forced:
            continue  # nothing can be called; whether that is right, tools-declared says
        if found != wanted:
            yield Flaw(
                "the tool choice of the request is not the one that was given",
                asked.reading.index,
                sent.pointer if sent else "",
                choice_meaning.describe_choice(found, names),
                choice_meaning.describe_choice(wanted, names),
            )


def _carried_calls(evidence: Evidence) -> Iterator[tuple[Heard, ExpectedCall, CallView]]:
    for asked in evidence.heard:
        for call, view in matched(evidence, asked):
            if view is not None:
                yield asked, call, view


def _arguments(evidence: Evidence) -> Iterator[Flaw]:
    kept: set[tuple[int, int]] = set()
    for asked, expected, call in _carried_calls(evidence):
        if (id(expected), id(call)) in kept:
            continue
        if call.malformed is None and equal(call.arguments, expected.arguments):
            kept.add((id(expected), id(call)))
        else:
            yield Flaw(
                f"the arguments of {call.name} ({call.id or 'without id'}) go back changed",
                asked.reading.index,
                call.arguments_pointer,
                call.malformed if call.malformed is not None else call.arguments,
                expected.arguments,
            )


def _arguments_unlike_objects(evidence: Evidence) -> Iterator[Flaw]:
    """In an audit: arguments are an object, whatever the wire wraps it in (anthropic-call-fields,
    openai-chat-call-form, openai-responses-call-form, gemini-function-call-form)."""
    if evidence.transcript.chats:
        return
    for reading in evidence.readings:
        for call in reading.request.calls if reading.request else ():
            if call.malformed is None and not isinstance(call.arguments, dict):
                yield Flaw(
                    f"the arguments of {call.name} are no object", reading.index, call.arguments_pointer, call.arguments
                )


def _answers(evidence: Evidence) -> Iterator[tuple[int, Answer]]:
    for asked in evidence.heard:
        for answer in answers(evidence, asked):
            yield asked.reading.index, answer


def _result_changed(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.heard:
        for answer in answers(evidence, asked):
            if answer.is_own or answer.taken_from is not None:
                continue  # result-swapped says the first
            itemised = is_sent_by_item(answer.view, answer.given)
            fault = "is told as a part for each item of a list" if itemised else "is not what the tool answered"
            yield Flaw(
                f"the result of {answer.expected.name} ({answer.view.call_id or 'without id'}) {fault}",
                asked.reading.index,
                answer.view.pointer,
                shown(answer.view),
                content_shown(answer.given),
                kind=Kind.CONVENTION if itemised else None,  # nobody has seen how a model reads parts
            )


def _result_renamed(evidence: Evidence) -> Iterator[Flaw]:
    for exchange, answer in _answers(evidence):
        if answer.view.name is not None and answer.view.name != answer.expected.name:
            yield Flaw(
                f"the result of {answer.expected.name} goes back under another name",
                exchange,
                answer.view.pointer,
                answer.view.name,
                answer.expected.name,
            )


def _error_mark(evidence: Evidence) -> Iterator[Flaw]:
    for exchange, answer in _answers(evidence):
        name, view = answer.expected.name, answer.view
        flagged = evidence.api.traits.flags_errors
        unmarked = answer.given.is_error and view.error_mark is None
        bare = unmarked and says_no_more(view, answer.given)
        if unmarked and (flagged or bare):
            told = "is not marked as an error" if bare else "says so in words, without the mark that the API has for it"
            yield Flaw(
                f"{name} failed, and its result {told}",
                exchange,
                view.pointer,
                shown(view),
                "a result that is marked as an error",
                kind=None if flagged else Kind.CONVENTION,
                severity=None if bare else Severity.WARNING,  # the model can read that the tool failed
                case="unmarked",
            )
        if not answer.given.is_error and _is_marked_by_adapter(answer):
            message = f"{name} did not fail, and its result is marked as an error"
            yield Flaw(message, exchange, view.pointer, case="marked")


def _is_marked_by_adapter(answer: Answer) -> bool:
    """The mark is none of the tool's own words, which may look like one."""
    mark = answer.view.error_mark
    return mark == "flag" or (mark == "error-key" and not is_verbatim(answer.view, answer.given))


_TOOLS = "harness.contract.model: Tool, ToolCall, ToolResult"

RULES = (
    Rule(
        "tools-declared",
        Subject.TOOLS,
        "The tools that were given are declared, and no others.",
        _TOOLS,
        _undeclared,
        kind=Kind.LOSS,
        because="the model can call what is not there, or cannot call what is",
        remedy="declare exactly the tools of the request in {tools}",
    ),
    Rule(
        "tool-declaration-changed",
        Subject.TOOLS,
        "Names, descriptions and schemas arrive intact but for documented rewrites.",
        _TOOLS
        + "; anthropic-tool-schema-object, openai-chat-tools-form, openai-responses-tool-form, gemini-schema-fields",
        _declaration_changed,
        kind=Kind.LOSS,
        because="the model reads another description of the tool",
        remedy="send name, description and {parameters} of the tool as they were given",
    ),
    Rule(
        "tool-choice",
        Subject.TOOLS,
        "The tool choice is the one that was given.",
        "anthropic-choice-form, openai-chat-choice-form, openai-responses-choice-form, gemini-allowed-names",
        _choice,
        kind=Kind.LOSS,
        because="the model is free where it was bound, or bound where it was free",
        remedy="send the tool choice of the request in {choice}",
    ),
    Rule(
        "arguments-changed",
        Subject.TOOLS,
        "The arguments of a call go back as the model gave them.",
        _TOOLS,
        _arguments,
        kind=Kind.LOSS,
        because="the model reads another call than it made",
        remedy="send the arguments of an earlier call back as the model gave them, in {arguments}",
    ),
    Rule(
        "arguments-no-object",
        Subject.TOOLS,
        "Arguments are an object.",
        "anthropic-call-fields, openai-chat-call-form, openai-responses-call-form, gemini-function-call-form",
        _arguments_unlike_objects,
        kind=Kind.LOSS,
        because="no tool can be called so",
        remedy="send an object as the arguments of a call, `{{}}` where there are none",
    ),
    Rule(
        "result-changed",
        Subject.TOOLS,
        "What the tool answered arrives intact.",
        _TOOLS,
        _result_changed,
        kind=Kind.LOSS,
        because="the model reads another answer than the tool's",
        remedy="send what the tool returned, unchanged, as the content of {result}",
    ),
    Rule(
        "result-renamed",
        Subject.TOOLS,
        "A result bears the name of its call.",
        "gemini-function-response-form",
        _result_renamed,
        kind=Kind.LOSS,
        because="the model reads the answer of another tool",
        remedy="give the result the name of its call",
    ),
    Rule(
        "error-flag",
        Subject.TOOLS,
        "A failed tool's result is marked.",
        "anthropic-result-is-error, gemini-function-response-form",
        _error_mark,
        kind=Kind.LOSS,
        because="the model takes a failure for an answer, or an answer for a failure",
        remedy="mark the result of a failed tool by {failed}",
    ),
)
