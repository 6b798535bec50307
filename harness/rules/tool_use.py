"""Rules about tools: declarations, tool choice, arguments, results and error marks arrive unchanged."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.apis.jsonvalue import as_object, equal, loads
from harness.apis.response_rules import Subject
from harness.apis.view import CallView, JsonView, MediaView, OpaqueView, ResultView, TextView, WireError
from harness.equivalence import request_meaning
from harness.equivalence.request_meaning import tool_families, tool_family
from harness.equivalence.result_meaning import FAILURE_WORDS, core_text, is_plain_result, is_sent_by_item
from harness.equivalence.schema_changes import change
from harness.model.messages import JSON, Text, ToolResult
from harness.results import Kind, ServedTranscript, Severity
from harness.rules.call_matching import MatchedResult, is_named, matched_calls, matched_results, program_results
from harness.rules.evidence import ChatExchange, ClientRequest, Evidence, ExpectedCall, ViolationFields
from harness.rules.instructions import schema_tool
from harness.rules.rule import RuleTable, RuleViolation


def is_verbatim(view: ResultView, result: ToolResult) -> bool:
    """Return whether the payload is exactly the tool's output."""
    if isinstance(result.content, tuple) or len(view.payload) != 1:
        return False
    match view.payload[0]:
        case JsonView(value):
            return equal(value, result.content)
        case TextView(text):
            return text == result.content or _parsed_equal(text, result.content)
        case _:
            return False


def _parsed_equal(text: str, content: JSON) -> bool:
    try:
        return equal(loads(text), content)
    except WireError:
        return False


def shown_payload(view: ResultView) -> JSON:
    """Return the payload of a wire result, formatted for a finding."""
    values = [_shown_part(part) for part in view.payload]
    return values[0] if len(values) == 1 else values


def _shown_part(part: TextView | MediaView | JsonView | OpaqueView) -> JSON:
    match part:
        case TextView():
            return part.text
        case JsonView():
            return part.value
        case MediaView():
            size = f", {len(part.data)} bytes" if part.data is not None else ""
            return f"<{part.media_type}{size}>"
        case OpaqueView():
            return part.raw


def shown_result(result: ToolResult) -> JSON:
    """Return a tool's output, formatted for a finding."""
    if not isinstance(result.content, tuple):
        return result.content
    return [part.text if isinstance(part, Text) else f"<{type(part).__name__.lower()}>" for part in result.content]


_TOOLS = "harness.model.messages: Tool, ToolCall, ToolResult"
RULES = RuleTable(Subject.TOOLS, _TOOLS)


@RULES.add(
    "tools-declared",
    "The tools of the request are declared, and no others.",
    because="the model can call a tool that does not exist, or cannot call one that does",
    remedy="declare exactly the tools of the request in {tools}",
)
def _wrong_declarations(evidence: Evidence) -> Iterator[RuleViolation]:
    for req in evidence.chat_exchanges:
        yield from _wrong_provider_tools(req)
        wanted = [tool.name for tool in req.chat.request.tools]
        asks_for_json = schema_tool(req)
        sent = [tool.name for tool in req.view.tools if tool.kind == "function" and tool is not asks_for_json]
        if sorted(sent) == sorted(wanted):
            continue
        if not sent and req.chat.request.tool_choice == "none":
            continue  # without declarations the model cannot call anything, as `none` requires
        yield req.parsed.violation("the tools of the request differ from the caller's", "", [*sent], [*wanted])


def _wrong_provider_tools(req: ChatExchange) -> Iterator[RuleViolation]:
    """Report provider tools that were added or dropped. The caller requests them in `provider_metadata`."""
    request, api = req.chat.request, req.view.api
    wanted = tool_families(request.provider_metadata.get(api))
    sent = [tool for tool in req.view.tools if tool.kind != "function"]
    uninvited = [tool for tool in sent if tool_family(tool.kind) not in wanted]
    if uninvited and not any(api in tool.provider_metadata for tool in request.tools):
        message = "the request has provider tools that the caller did not request"
        yield req.parsed.violation(message, uninvited[0].pointer, [tool.kind for tool in uninvited], [*sorted(wanted)])
    if missing := wanted - {tool_family(tool.kind) for tool in sent}:
        message = "a provider tool was requested, but is not in the request"
        yield req.parsed.violation(message, "", [tool.kind for tool in sent], [*sorted(missing)])


@RULES.add(
    "tool-declaration-changed",
    "Names, descriptions and schemas of tools are sent unchanged, except for documented rewrites.",
    source=_TOOLS
    + "; anthropic-tool-schema-object, openai-chat-tools-form, openai-responses-tool-form, gemini-schema-fields",
    because="the model reads a different description of the tool",
    remedy="send the name, the description and {parameters} of the tool unchanged",
)
def _declaration_changed(evidence: Evidence) -> Iterator[RuleViolation]:
    kept: set[tuple[int, int]] = set()  # ids of pairs already compared: requests repeat the same objects
    for req in evidence.chat_exchanges:
        sent = {tool.name: tool for tool in req.view.tools if tool.kind == "function"}
        for tool in req.chat.request.tools:
            view = sent.get(tool.name)
            if view is None or (id(tool), id(view)) in kept:
                continue
            is_described = (view.description or "") == tool.description
            if not is_described:
                message = f"the description of {tool.name} was changed"
                yield req.parsed.violation(
                    message, view.pointer, view.description, tool.description, case="description"
                )
            found = change(tool.parameters, view.parameters, view.dialect)
            if found is not None:
                place = found.pointer or "/"
                message = f"the parameters of {tool.name} were changed at {place} of their schema{found.describe()}"
                keyword = "properties" if "/properties/" in place else place.rpartition("/")[2]
                yield req.parsed.violation(message, view.pointer, found.actual, found.expected, case=keyword)
            elif is_described:
                kept.add((id(tool), id(view)))


@RULES.add(
    "tool-choice",
    "The tool choice of the request is sent.",
    source="anthropic-choice-form, openai-chat-choice-form, openai-responses-choice-form, gemini-allowed-names",
    because="the model may choose where it must not, or must call where it may choose",
    remedy="send the tool choice of the request in {choice}",
)
def _choice(evidence: Evidence) -> Iterator[RuleViolation]:
    for req in evidence.chat_exchanges:
        if schema_tool(req) is not None:
            continue  # the choice requests JSON
        request, sent = req.chat.request, req.view.tool_choice
        if request.tool_choice is None and sent is not None and req.is_verbatim(sent.pointer):
            continue  # provider-field-lost compares it
        names = [tool.name for tool in request.tools]
        wanted = request_meaning.canonical_choice(request.tool_choice, names)
        found = request_meaning.wire_choice(sent, names)
        if not req.view.tools and not wanted.forced:
            continue  # the model cannot call anything; tools-declared checks the declarations
        own_fields = request.provider_metadata.get(evidence.transcript.api)
        if sent and isinstance(own_fields, dict) and sent.pointer.split("/")[1] in own_fields:
            continue  # the caller gave the field itself; provider-field-lost checks it
        if found != wanted:
            message = "the tool choice was changed or left out"
            yield req.parsed.violation(
                message,
                sent.pointer if sent else "",
                request_meaning.describe_choice(found, names),
                request_meaning.describe_choice(wanted, names),
            )


def _carried_calls(evidence: Evidence) -> Iterator[tuple[ClientRequest, ExpectedCall, CallView]]:
    for req in evidence.client_requests:
        for call, view in matched_calls(evidence, req):
            if view is not None:
                yield req, call, view


@RULES.add(
    "arguments-changed",
    "The arguments of a call are sent back unchanged.",
    because="the model reads a call that it did not make",
    remedy="send the arguments of an earlier call back unchanged, in {arguments}",
)
def _arguments(evidence: Evidence) -> Iterator[RuleViolation]:
    kept: set[tuple[int, int]] = set()
    for req, expected, call in _carried_calls(evidence):
        if (id(expected), id(call)) in kept:
            continue
        if call.malformed is None and equal(call.arguments, expected.arguments):
            kept.add((id(expected), id(call)))
        else:
            message = f"the arguments of {call.name} ({call.id or 'without id'}) are sent back changed"
            yield req.parsed.violation(
                message,
                call.arguments_pointer,
                call.malformed if call.malformed is not None else call.arguments,
                expected.arguments,
            )


@RULES.add(
    "arguments-no-object",
    "Arguments are an object.",
    source="anthropic-call-fields, openai-chat-call-form, openai-responses-call-form, gemini-function-call-form",
    because="a tool cannot be called with other values",
    remedy="send an object as the arguments of a call, or `{{}}` if there are none",
)
def _arguments_unlike_objects(evidence: Evidence) -> Iterator[RuleViolation]:
    """Report call arguments that are not objects (anthropic-call-fields, openai-chat-call-form,
    openai-responses-call-form, gemini-function-call-form).

    Applies only to transcripts without chats, such as those of audits.
    """
    if evidence.transcript.chats:
        return
    for parsed in evidence.parsed_exchanges:
        for call in parsed.request.calls if parsed.request else ():
            if call.malformed is None and not isinstance(call.arguments, dict):
                message = f"the arguments of {call.name} are not an object"
                yield parsed.violation(message, call.arguments_pointer, call.arguments)


def _answers(evidence: Evidence) -> Iterator[tuple[int, MatchedResult]]:
    for req in evidence.client_requests:
        for answer in matched_results(evidence, req):
            yield req.parsed.index, answer


@RULES.add(
    "result-changed",
    "The result of a tool is sent unchanged.",
    because="the model reads something that the tool did not return",
    remedy="send the tool's return value unchanged, as the content of {result}",
)
def _result_changed(evidence: Evidence) -> Iterator[RuleViolation]:
    is_loop = isinstance(evidence.transcript, ServedTranscript)
    for req in evidence.client_requests:
        for answer in matched_results(evidence, req):
            if answer.is_own or answer.taken_from is not None:
                continue  # reported by result-swapped
            fault, fields = _fault_of_result(answer, is_loop=is_loop)
            message = f"the result of {answer.expected.name} ({answer.view.call_id or 'without id'}) {fault}"
            yield req.parsed.violation(
                message, answer.view.pointer, shown_payload(answer.view), shown_result(answer.given), **fields
            )
        for one, view in program_results(evidence, req):
            shown = shown_payload(view)
            fault = _fault_of_text(shown) if isinstance(shown, str) else ""
            if fault:
                yield req.parsed.violation(f"the result of {one.name} is {fault}", view.pointer, shown)
            elif isinstance(shown, str) and (lost := _text_that_lost_letters(shown, one.arguments)):
                message = f"the result of {one.name} has a text of its call without its letters that are not ASCII"
                yield req.parsed.violation(message, view.pointer, shown, lost, severity=Severity.WARNING)


def _fault_of_result(answer: MatchedResult, *, is_loop: bool) -> tuple[str, ViolationFields]:
    """Describe how a result differs, and return the fields of its violation. A loop may report the failure of a tool in
    its own words.
    """
    if is_sent_by_item(answer.view, answer.given):
        return "is sent as one part for each list item", {"kind": Kind.CONVENTION}  # the effect on models is unknown
    if not is_loop or not answer.given.is_error:
        return "differs from what the tool returned", {}
    text = core_text(answer.view) or ""
    in_words = " " in text and not text.startswith(("{", "["))
    if answer.view.error_mark is not None or in_words or FAILURE_WORDS.search(text):
        return "does not contain the error of the tool", {"severity": Severity.WARNING, "remedy": _REMEDY_OF_ERROR}
    return "does not report that the tool failed", {"remedy": _REMEDY_OF_ERROR}


_REMEDY_OF_ERROR = "send the error's text as the result of a tool that failed"

_PRINTED_OBJECT = re.compile(r"\[object [A-Z]\w*\]|<[\w.<> ]+ at 0x[0-9a-fA-F]+>")
"""Text that JavaScript and Python print for objects without a text form."""


def _fault_of_text(text: str) -> str:
    """Describe the fault in the text of a program's result, or return an empty string. Only the text is checked,
    because the tool's own output is unknown.
    """
    if _PRINTED_OBJECT.fullmatch(text):
        return "the name of an object, without its content"
    try:
        inner = loads(text)
        return "encoded as JSON twice" if isinstance(inner, str) and isinstance(loads(inner), dict | list) else ""
    except WireError:
        return ""


def _text_that_lost_letters(result: str, arguments: JSON) -> str | None:
    """Return the argument of a call whose text a result has without the letters that are not ASCII, or `None`. The tool
    or the code that sends its result lost them.
    """
    for each in as_object(arguments).values():
        if isinstance(each, str) and " " in each and not each.isascii() and each.casefold() not in result.casefold():
            lost = (each.encode("ascii", mode).decode() for mode in ("ignore", "replace"))
            if any(text.casefold() in result.casefold() for text in lost):
                return each
    return None


@RULES.add(
    "result-renamed",
    "A result has the name of the called tool.",
    source="gemini-function-response-form",
    because="the model reads the answer of another tool",
    remedy="give the result the name of its call",
)
def _result_renamed(evidence: Evidence) -> Iterator[RuleViolation]:
    for exchange, answer in _answers(evidence):
        if answer.view.name is not None and not is_named(answer.view.name, answer.expected.name):
            message = f"the result of {answer.expected.name} is sent back under another name"
            yield RuleViolation(message, exchange, answer.view.pointer, answer.view.name, answer.expected.name)


@RULES.add(
    "error-flag",
    "A failed tool's result is marked.",
    source="anthropic-result-is-error, gemini-function-response-form",
    because="the model treats a failure as a result, or a result as a failure",
    remedy="mark the result of a failed tool with {failed}",
)
def _error_mark(evidence: Evidence) -> Iterator[RuleViolation]:
    for exchange, answer in _answers(evidence):
        name, view = answer.expected.name, answer.view
        flagged = evidence.api.traits.flags_errors
        unmarked = answer.given.is_error and view.error_mark is None
        bare = unmarked and is_plain_result(view, answer.given)
        if unmarked and (flagged or bare):
            problem = (
                "is not marked as an error" if bare else "contains the error as text, but not the API's error flag"
            )
            yield RuleViolation(
                f"{name} failed, and its result {problem}",
                exchange,
                view.pointer,
                shown_payload(view),
                "a result that is marked as an error",
                kind=None if flagged else Kind.CONVENTION,
                severity=None if bare else Severity.WARNING,  # the model can read that the tool failed
                case="unmarked",
            )
        if not answer.given.is_error and _is_marked_by_adapter(answer):
            message = f"{name} did not fail, but its result is marked as an error"
            yield RuleViolation(message, exchange, view.pointer, case="marked")


def _is_marked_by_adapter(answer: MatchedResult) -> bool:
    """Return whether the adapter added the error mark, rather than the tool's own output containing it."""
    mark = answer.view.error_mark
    return mark == "flag" or (mark == "error-key" and not is_verbatim(answer.view, answer.given))
