"""Rules about the end of a chat or a turn: expectations of the scenario, errors, and declined requests.

An adapter may decline a request that needs undeclared capabilities, before sending anything. The canonical request
alone determines which capabilities it needs.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.jsonvalue import equal
from harness.apis.response_rules import Subject
from harness.apis.schemas import inner
from harness.equivalence.request_meaning import tool_families
from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.messages import (
    JSON,
    ChatRequest,
    File,
    Image,
    JsonMode,
    JsonSchema,
    Message,
    NamedTool,
    Opaque,
    Refusal,
    Role,
    Text,
    Thinking,
    ToolResult,
)
from harness.model.protocols import Capability
from harness.results import Blame, Chat, Kind, Severity
from harness.rules.chat_endings import (
    ExpectedEnding,
    expected_ending,
    failure_of,
    missing_message,
    wrong_ending,
    wrong_wait,
)
from harness.rules.evidence import Evidence
from harness.rules.rule import RuleTable, RuleViolation
from harness.scenarios.match import TurnOutcome, error_name, mismatches
from harness.scenarios.schema import Scenario

_COMMON_KEYWORDS = frozenset(
    {"type", "properties", "required", "items", "enum", "description", "title", "additionalProperties"}
)
"""Schema keywords that every adapter with tools or JSON schemas must support."""


def declined_chat(evidence: Evidence) -> Chat | None:
    """Return the last chat if it raised `Unsupported` without a request, unless the scenario expects that."""
    transcript = evidence.transcript
    last = len(transcript.chats) - 1
    chat = transcript.chats[last] if transcript.chats else None
    if chat is None or chat.crashed or chat.error != Unsupported.__name__ or evidence.exchanges(last):
        return None
    expectation = transcript.scenario.turns[chat.turn].expect if transcript.scenario else None
    expected = expectation.errors if expectation else ()
    return None if error_name(Unsupported.__name__) in expected else chat


def decline_reason(evidence: Evidence, chat: Chat) -> str:
    """Return why a cell with a declined chat is not applicable."""
    when = when_declined(len(evidence.transcript.chats) - 1)
    return f"the adapter {evidence.transcript.adapter!r} declines {when} is sent: {chat.error_text}"


def when_declined(answers: int) -> str:
    """Return the time of a decline after a number of answers, as the part of a sentence before "is sent"."""
    if not answers:
        return "before anything"
    return f"after {answers} {'answer' if answers == 1 else 'answers'}, before anything more"


_EXPECT = "harness.scenarios.schema"
RULES = RuleTable(Subject.ERRORS, _EXPECT)


@RULES.add(
    "declared-and-declined",
    "An adapter does not decline a capability that it declares; `Unsupported` is for the others.",
    subject=Subject.REQUESTS,
    source="harness.model.protocols: Capability; harness.model.errors: Unsupported",
    kind=Kind.LOSS,
    because="the request does not reach the model, although the adapter declares the capability",
    remedy="send the request, or remove the capability from those that the adapter declares",
)
def _declared_but_declined(evidence: Evidence) -> Iterator[RuleViolation]:
    """Report a declined request if the adapter declares, and the model has, all capabilities that the request needs.

    Features that an earlier, sent request already had cannot be the reason.
    """
    chat = declined_chat(evidence)
    if chat is None or (chat.error_text or "").startswith(RECOGNISED_CLIENT):
        return
    sent = [each.request for each in evidence.transcript.chats[:-1]]
    before = {what for request in sent for what in _beyond_capabilities(request)}
    needed = _capabilities(chat.request)
    able = evidence.transcript.capabilities - evidence.transcript.profile.lacks
    if needed - able or {*_beyond_capabilities(chat.request)} - before:
        return
    new = needed - {capability for request in sent for capability in _capabilities(request)} or needed
    names = ", ".join(sorted(new)) or "nothing but a text"
    message = (
        f"the adapter declines a request that needs only capabilities that it declares ({names}): {chat.error_text}"
    )
    yield RuleViolation(message, actual=chat.error, expected=[*sorted(new)])


def _capabilities(request: ChatRequest) -> frozenset[Capability]:
    results = [result for message in request.messages for result in message.tool_results]
    user_messages = [message for message in request.messages if message.role is Role.USER and not message.tool_results]
    choice, form = request.tool_choice, request.response_format
    uses = {
        Capability.SYSTEM_PROMPT: bool(request.system),
        Capability.TOOLS: bool(request.tools) or any(message.tool_calls for message in request.messages),
        Capability.PARALLEL_TOOL_CALLS: any(len(message.tool_calls) > 1 for message in request.messages),
        Capability.TOOL_CHOICE: choice is not None,
        Capability.FORCED_TOOL_CHOICE: choice == "required",
        Capability.NAMED_TOOL_CHOICE: isinstance(choice, NamedTool),
        Capability.JSON_MODE: isinstance(form, JsonMode),
        Capability.JSON_SCHEMA: isinstance(form, JsonSchema),
        Capability.JSON_WITH_TOOLS: form is not None and bool(request.tools),
        Capability.VISION: any(isinstance(part, Image) for message in user_messages for part in message.parts),
        Capability.IMAGE_RESULTS: any(isinstance(part, Image) for result in results for part in _content_parts(result)),
        Capability.FILES: any(_is_file(part) for message in user_messages for part in message.parts),
        Capability.AUDIO: any(_is_audio(part) for message in user_messages for part in message.parts),
        Capability.THINKING: request.thinking is not None,
        Capability.CACHE_MARKS: request.cache,
        Capability.HISTORY: len(user_messages) > 1,
        Capability.PROVIDER_TOOLS: any(map(tool_families, request.provider_metadata.values())),
        Capability.PROVIDER_FIELDS: any(map(_fields_beside_tools, request.provider_metadata.values()))
        or any(tool.provider_metadata for tool in request.tools),
    }
    return frozenset(capability for capability, used in uses.items() if used)


def _beyond_capabilities(request: ChatRequest) -> Iterator[str]:
    """Yield features of a request that no capability covers."""
    yield from (name for name in ("temperature", "top_p", "stop") if getattr(request, name) not in (None, ()))
    if request.thinking is not None and request.thinking.budget_tokens is not None:
        yield "a thinking budget"
    for tool in request.tools:
        yield from _uncommon_keywords(tool.parameters)
        if "/" in tool.name:
            yield "the name of a tool"
    if isinstance(request.response_format, JsonSchema):
        yield from _uncommon_keywords(request.response_format.schema)
    for message in request.messages:
        yield from _uncommon_parts(message)


def _fields_beside_tools(fields: JSON) -> bool:
    return not isinstance(fields, dict) or bool(fields.keys() - {"tools"})


def _uncommon_parts(message: Message) -> Iterator[str]:
    if not any(part.text if isinstance(part, Text) else part for part in message.parts):
        yield "a message without information"
    for part in message.parts:
        match part:
            case File() if _is_file(part) or _is_audio(part):
                continue
            case File() | Opaque() | Refusal() | Thinking():
                yield type(part).__name__
            case ToolResult(is_error=True):
                yield "an error result"
            case ToolResult() if len(_content_parts(part)) > 1:
                yield "a result of several parts"
            case _:
                continue


def _is_file(part: object) -> bool:
    """Return whether a part is a document that every API accepts (openai-chat-file-inline-pdf)."""
    return isinstance(part, File) and part.media_type == "application/pdf"


def _is_audio(part: object) -> bool:
    return isinstance(part, File) and part.media_type in ("audio/wav", "audio/mp3")


def _content_parts(result: ToolResult) -> tuple[object, ...]:
    return result.content if isinstance(result.content, tuple) else ()


def _uncommon_keywords(schema: JSON) -> Iterator[str]:
    """Yield the uncommon keywords of a schema, without recursion because schemas may be deep."""
    pending: list[JSON] = [schema]
    while pending:
        node = pending.pop()
        if not isinstance(node, dict):
            continue
        yield from (f"the keyword {keyword}" for keyword in node.keys() - _COMMON_KEYWORDS)
        if not isinstance(node.get("type", ""), str):
            yield "several types"
        if node.get("additionalProperties", False) is not False:
            yield "an open object"
        pending.extend(each for _, each in inner(node, "", ("properties", "items")))


@RULES.add(
    "chat-failure",
    "If the provider fails, the chat fails with the canonical error for the status or code; else it does not fail.",
    source="harness.model.errors; anthropic-stream-error, openai-responses-stream-error",
    because="the caller treats a failure as an answer, or an answer as a failure",
    also=("chat-refused",),
    remedy="raise the expected class of `harness.model.errors`, and only if there is no complete answer",
)
def _chat_failures(evidence: Evidence) -> Iterator[RuleViolation]:
    declined = declined_chat(evidence)  # reported by declared-and-declined
    for chat, made in enumerate(evidence.transcript.chats):
        flaw = None if made is declined else wrong_ending(evidence, chat)
        if flaw is not None and flaw.rule != "stream-cut":
            yield flaw


@RULES.add(
    "error-retry-after",
    "An error has the provider's waiting time, or none if the provider sent none.",
    source="harness.model.errors: ProviderError",
    because="the caller does not know how long to wait, and retries too early",
    remedy="set the error's `retry_after` to the time in the header or body, or to `None` if neither has one",
)
def _wrong_waits(evidence: Evidence) -> Iterator[RuleViolation]:
    for chat in range(len(evidence.transcript.chats)):
        flaw = wrong_wait(evidence, chat)
        if flaw is not None:
            yield flaw


@RULES.add(
    "error-message",
    "An error has the provider's message.",
    source="harness.model.errors: ProviderError",
    kind=Kind.CONVENTION,
    because="a person who reads the error does not learn what was wrong; programs use its class and status",
    remedy="put the provider's own message into the error's text",
)
def _missing_messages(evidence: Evidence) -> Iterator[RuleViolation]:
    for chat in range(len(evidence.transcript.chats)):
        flaw = missing_message(evidence, chat)
        if flaw is not None:
            yield flaw


def _turns(evidence: Evidence) -> Iterator[tuple[int, Scenario, list[tuple[int, Chat]]]]:
    scenario = evidence.transcript.scenario
    if scenario is not None:
        for turn in range(len(scenario.turns)):
            chats = [(i, chat) for i, chat in enumerate(evidence.transcript.chats) if chat.turn == turn]
            if chats:
                yield turn, scenario, chats


@RULES.add(
    "expectation",
    "The turn ends as the scenario expects.",
    subject=Subject.RESPONSES,
    because="the scenario defines the outcome",
    remedy="compare what the adapter returned with the expectation, which follows from the scenario's answers",
)
def _unmet_expectations(evidence: Evidence) -> Iterator[RuleViolation]:
    for turn, scenario, chats in _turns(evidence):
        expectation = scenario.turns[turn].expect
        index, last = chats[-1]
        if expectation is None:
            continue
        ended = expected_ending(evidence, index)
        unduly = last.error is not None and expectation.error is None
        if unduly or ended.ending == "made-up" or wrong_ending(evidence, index) is not None:
            expectation = expectation.forbidden  # request-unexpected or chat-failure reports the rest
        outcome = TurnOutcome(
            text=last.response.text if last.response else "",
            calls=[call for _, chat in chats if chat.response for call in chat.response.tool_calls],
            stop_reason=last.response.stop_reason if last.response else None,
            error=failure_of(last),
            events=next(iter(evidence.transcript.handled[turn : turn + 1]), ()),
        )
        for mismatch in mismatches(expectation, outcome):
            if mismatch.path == "events" and not evidence.transcript.scripted:
                continue  # a real model may or may not write text before a call; model-choice reports the calls
            if mismatch.path == "error.retry_after" and (
                wrong_wait(evidence, index) is not None
                or _has_no_retry_after(ended)
                or _has_retry_after(ended, mismatch.expected)
            ):
                continue  # reported by error-retry-after, or the API has no such field, or it is rounded to seconds
            if mismatch.path == "stop_reason" and _wire_stop_reason(evidence, index) == mismatch.expected:
                continue  # reported by stop-reason
            if mismatch.path.startswith(("error", "events")) and _has_recovered(evidence, index):
                continue
            message = f"turn {turn}, expect.{mismatch.path}: {mismatch.message}"
            yield RuleViolation(
                message, ended.exchange, None, mismatch.actual, mismatch.expected, blame=evidence.divergence_blame
            )


def _has_no_retry_after(ended: ExpectedEnding) -> bool:
    """Return whether the provider's error has no waiting time. A command-line API has no field for it."""
    return ended.failure is not None and ended.failure.retry_after is None


def _has_retry_after(ended: ExpectedEnding, wait: JSON) -> bool:
    """Return whether the provider's error has this waiting time."""
    return ended.failure is not None and wait is not None and ended.failure.retry_after == wait


def _wire_stop_reason(evidence: Evidence, chat: int) -> str | None:
    parsed = evidence.answer(chat)
    return parsed.answer.stop_reason if parsed is not None and parsed.answer is not None else None


def _has_recovered(evidence: Evidence, chat: int) -> bool:
    declared = Capability.RETRIES in evidence.transcript.capabilities
    return declared and len(evidence.exchanges(chat)) > 1 and evidence.transcript.chats[chat].response is not None


@RULES.add(
    "iteration-bound",
    "The loop ends within its maximum number of answers.",
    subject=Subject.RESPONSES,
    because="an endless loop keeps costing money",
    remedy="send no further request after an answer without calls, and stop at the maximum number of answers",
)
def _iteration_bound(evidence: Evidence) -> Iterator[RuleViolation]:
    for turn, scenario, chats in _turns(evidence):
        expectation = scenario.turns[turn].expect
        if chats[-1][1].limit_reached and (expectation is None or expectation.error is None):
            message = (
                f"turn {turn} reached its limit of {scenario.max_iterations} answers, and the model still calls tools"
            )
            yield RuleViolation(
                message, actual=len(chats), expected=scenario.max_iterations, blame=evidence.divergence_blame
            )


@RULES.add(
    "model-choice",
    "A live model makes the calls of the script.",
    subject=Subject.RESPONSES,
    because="the rest of the conversation differs from the scenario",
    severity=Severity.WARNING,
    blame=Blame.MODEL,
)
def _choice_of_calls(evidence: Evidence) -> Iterator[RuleViolation]:
    """Report calls of a provider's model that differ from the script. The adapter is not to blame."""
    if evidence.transcript.scripted:
        return
    for turn, scenario, chats in _turns(evidence):
        if not any(chat.response for _, chat in chats):
            continue  # without a response, no calls were chosen
        scripted = [call for step in scenario.turns[turn].model for call in step.whole_calls]
        made = [(c.name, c.arguments) for _, chat in chats if chat.response for c in chat.response.tool_calls]
        same = len(made) == len(scripted) and all(
            name == wanted and equal(dict(arguments), expected)
            for (name, arguments), (wanted, expected) in zip(made, scripted, strict=True)
        )
        if not same:
            yield RuleViolation(
                f"turn {turn}: the model chose other calls than the scenario's script",
                actual=[f"{name} {arguments}" for name, arguments in made],
                expected=[f"{name} {arguments}" for name, arguments in scripted],
            )
