"""Declining: an adapter may say no to what it does not declare, before anything is sent, and to nothing else.

What was asked for is read off the canonical request alone: adapters word their `Unsupported` as they like.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.schemas import inner
from harness.contract.errors import Unsupported
from harness.contract.model import (
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
from harness.contract.protocols import Capability
from harness.meaning.choice_meaning import tool_families
from harness.results import Chat, Kind
from harness.rules.evidence import Evidence
from harness.rules.rule import Flaw, Rule
from harness.scenarios.match import error_name
from harness.scenarios.schema import Subject

_PLAIN = frozenset({"type", "properties", "required", "items", "enum", "description", "title", "additionalProperties"})
"""The keywords of a schema that whoever declares tools or JSON schemas is taken to mean."""


def declined(evidence: Evidence) -> Chat | None:
    """The chat, the last one, that ended in `Unsupported` without a request, unless the scenario wants it to."""
    transcript = evidence.transcript
    last = len(transcript.chats) - 1
    chat = transcript.chats[last] if transcript.chats else None
    if chat is None or chat.crashed or chat.error != Unsupported.__name__ or evidence.exchanges(last):
        return None
    expectation = transcript.scenario.turns[chat.turn].expect if transcript.scenario else None
    expected = expectation.errors if expectation else ()
    return None if error_name(Unsupported.__name__) in expected else chat


def reason(evidence: Evidence, chat: Chat) -> str:
    """Why a cell is not applicable in which `chat` was declined."""
    answers = len(evidence.transcript.chats) - 1
    when = (
        f"behind {answers} {'answer' if answers == 1 else 'answers'}, before anything more"
        if answers
        else "before anything"
    )
    return f"the adapter {evidence.transcript.adapter!r} declines {when} is sent: {chat.error_text}"


def _declared(evidence: Evidence) -> Iterator[Flaw]:
    """A request that asks for nothing but what the adapter declares and the model has, and is declined all the same.

    What an earlier request of the conversation had, and was sent, is not why.
    """
    chat = declined(evidence)
    if chat is None:
        return
    sent = [each.request for each in evidence.transcript.chats[:-1]]
    before = {what for request in sent for what in _beyond_capabilities(request)}
    asked = _capabilities(chat.request)
    able = evidence.transcript.capabilities - evidence.transcript.profile.lacks
    if asked - able or {*_beyond_capabilities(chat.request)} - before:
        return
    new = asked - {capability for request in sent for capability in _capabilities(request)} or asked
    names = ", ".join(sorted(new)) or "nothing but a text"
    yield Flaw(
        f"the adapter declines, before anything is sent, what it declares to have ({names}): {chat.error_text}",
        actual=chat.error,
        expected=[*sorted(new)],
    )


def _capabilities(request: ChatRequest) -> frozenset[Capability]:
    """The capabilities that a request makes use of."""
    results = [result for message in request.messages for result in message.tool_results]
    said = [message for message in request.messages if message.role is Role.USER and not message.tool_results]
    choice, form = request.tool_choice, request.response_format
    uses = {
        Capability.SYSTEM_PROMPT: bool(request.system),
        Capability.TOOLS: bool(request.tools) or any(message.tool_calls for message in request.messages),
        Capability.PARALLEL_TOOL_CALLS: any(len(message.tool_calls) > 1 for message in request.messages),
        Capability.TOOL_CHOICE: choice is not None,
        Capability.FORCED_TOOL_CHOICE: choice == "required" or isinstance(choice, NamedTool),
        Capability.JSON_MODE: isinstance(form, JsonMode),
        Capability.JSON_SCHEMA: isinstance(form, JsonSchema),
        Capability.JSON_WITH_TOOLS: form is not None and bool(request.tools),
        Capability.VISION: any(isinstance(part, Image) for message in said for part in message.parts),
        Capability.IMAGE_RESULTS: any(isinstance(part, Image) for result in results for part in _parts(result)),
        Capability.FILES: any(_is_file(part) for message in said for part in message.parts),
        Capability.AUDIO: any(_is_sound(part) for message in said for part in message.parts),
        Capability.THINKING: request.thinking is not None,
        Capability.CACHE_MARKS: request.cache,
        Capability.HISTORY: len(said) > 1,
        Capability.PROVIDER_TOOLS: any(map(tool_families, request.provider_metadata.values())),
    }
    return frozenset(capability for capability, used in uses.items() if used)


def _beyond_capabilities(request: ChatRequest) -> Iterator[str]:
    """What a request has that no capability speaks of, so that nobody can have declared it."""
    yield from (name for name in ("temperature", "top_p", "stop") if getattr(request, name) not in (None, ()))
    if request.thinking is not None and request.thinking.budget_tokens is not None:
        yield "a thinking budget"
    if any(map(_fields_beside_tools, request.provider_metadata.values())) or any(
        tool.provider_metadata for tool in request.tools
    ):
        yield "fields of a provider"
    for tool in request.tools:
        yield from _uncommon(tool.parameters)
    if isinstance(request.response_format, JsonSchema):
        yield from _uncommon(request.response_format.schema)
    for message in request.messages:
        yield from _uncommon_parts(message)


def _fields_beside_tools(fields: JSON) -> bool:
    return not isinstance(fields, dict) or bool(fields.keys() - {"tools"})


def _uncommon_parts(message: Message) -> Iterator[str]:
    if not any(part.text if isinstance(part, Text) else part for part in message.parts):
        yield "a message that says nothing"
    for part in message.parts:
        match part:
            case File() if _is_file(part) or _is_sound(part):
                continue
            case File() | Opaque() | Refusal() | Thinking():
                yield type(part).__name__
            case ToolResult(is_error=True):
                yield "an error result"
            case ToolResult() if len(_parts(part)) > 1:
                yield "a result of several parts"
            case _:
                continue


def _is_file(part: object) -> bool:
    """Return whether a part is a document of the kind that every API takes (openai-chat-file-inline-pdf)."""
    return isinstance(part, File) and part.media_type == "application/pdf"


def _is_sound(part: object) -> bool:
    return isinstance(part, File) and part.media_type in ("audio/wav", "audio/mp3")


def _parts(result: ToolResult) -> tuple[object, ...]:
    return result.content if isinstance(result.content, tuple) else ()


def _uncommon(schema: JSON) -> Iterator[str]:
    """The keywords that are not plain, and uses of plain ones that are not. Without recursion, for any depth."""
    pending: list[JSON] = [schema]
    while pending:
        node = pending.pop()
        if not isinstance(node, dict):
            continue
        yield from (f"the keyword {keyword}" for keyword in node.keys() - _PLAIN)
        if not isinstance(node.get("type", ""), str):
            yield "several types"
        if node.get("additionalProperties", False) is not False:
            yield "an open object"
        pending.extend(each for _, each in inner(node, "", ("properties", "items")))


RULES = (
    Rule(
        "declared-and-declined",
        Subject.REQUESTS,
        "What an adapter declares to have, it does not decline: `Unsupported` is for what it does not declare.",
        "harness.contract.protocols: Capability; harness.contract.errors: Unsupported",
        _declared,
        Kind.LOSS,
        "Nothing of what the caller asked for reaches the model, and the declaration had promised that it would.",
        remedy="send the request, or take what the adapter cannot do out of its capabilities",
    ),
)
