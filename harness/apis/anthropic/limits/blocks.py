"""Messages and their content blocks, each by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from harness.apis.anthropic import limits
from harness.apis.anthropic.limits.conversation import (
    Block,
    Entry,
    blocks,
    dotted,
    is_server_work,
    marked,
    nested,
    objects,
)
from harness.apis.anthropic.limits.shapes import (
    ANY,
    BOOLEAN,
    LIST,
    OBJECT,
    STRING,
    TEXT_OR_LIST,
    Shape,
    member_limits,
)
from harness.apis.anthropic.limits.terms import Surface, Terms
from harness.apis.entries import entrywise
from harness.apis.jsonvalue import join
from harness.apis.limit import Violation, severity_of
from harness.contract.model import JSON

_ROLES = ("user", "assistant", "system")
_MESSAGE = Shape("anthropic-required-fields", {"role": STRING, "content": TEXT_OR_LIST})
_SYSTEM_MESSAGE = Shape(
    "anthropic-system-in-messages",
    {"role": STRING},
    {"content": TEXT_OR_LIST},
    {"clear_at": STRING, "output_config": OBJECT},
)
_CACHE_MARK = Shape("anthropic-four-cache-marks", {"type": STRING}, {"ttl": STRING})
_MOST_CACHE_MARKS = 4

_MARKED = {"type": STRING, "cache_control": OBJECT}
_SHAPES = {
    "text": Shape("anthropic-no-empty-text", {"text": STRING}, {**_MARKED, "citations": LIST}),
    "image": Shape("anthropic-block-fields", {"source": OBJECT}, {**_MARKED, "transformations": ANY}),
    "document": Shape(
        "anthropic-block-fields",
        {"source": OBJECT},
        {**_MARKED, "citations": OBJECT, "context": STRING, "title": STRING},
    ),
    "search_result": Shape(
        "anthropic-block-fields",
        {"source": STRING, "title": STRING, "content": LIST},
        {**_MARKED, "citations": OBJECT},
    ),
    "tool_use": Shape(
        "anthropic-call-fields",
        {"id": STRING, "name": STRING, "input": OBJECT},
        {**_MARKED, "caller": OBJECT, "toolset_name": STRING},
    ),
    "tool_result": Shape(
        "anthropic-block-fields",
        {"tool_use_id": STRING},
        {**_MARKED, "content": TEXT_OR_LIST, "is_error": BOOLEAN, "toolset_name": STRING},
    ),
    "thinking": Shape("anthropic-thinking-verbatim", {"thinking": STRING, "signature": STRING}, {"type": STRING}),
    "redacted_thinking": Shape("anthropic-thinking-verbatim", {"data": STRING}, {"type": STRING}),
    "tool_reference": Shape("anthropic-block-fields", {"tool_name": STRING}, _MARKED),
}
_MEDIA_TYPES = {
    "image": ("image/jpeg", "image/png", "image/gif", "image/webp"),
    "document": ("application/pdf",),
}
_MESSAGE_KINDS = frozenset(_SHAPES) - {"tool_reference"} | {"container_upload"}
_BETA_KINDS = frozenset({"compaction", "fallback", "mcp_tool_listing"})
_SYSTEM_KINDS = frozenset({"text", "tool_addition", "tool_removal"})
_RESULT_KINDS = frozenset({"text", "image", "document", "search_result", "tool_reference", "browser_state"})


def block_limits(body: dict[str, JSON], conversation: list[Entry], terms: Terms) -> Iterator[Violation]:
    """anthropic-call-fields, anthropic-result-content, anthropic-no-empty-text, anthropic-no-empty-text-in-result,
    anthropic-roles, anthropic-no-prefill, anthropic-no-extra-inputs, anthropic-four-cache-marks, and what the version
    of 2026-10-21 took away."""
    for found in _by_itself(terms.surface)(conversation, ""):
        yield from found
    if conversation:
        yield from _last(conversation[-1], terms)
    for entry in conversation[:-1]:
        if not entry.blocks:
            yield from _empty(entry)
    yield from _cache_marks(body, conversation, terms.surface)


@cache
def _by_itself(surface: Surface) -> Callable[[list[Entry], str], Sequence[Sequence[Violation]]]:
    """What is wrong with each message by itself, told once though all requests behind it repeat it."""

    def of(entry: Entry, pointer: str) -> Sequence[Violation]:  # noqa: ARG001 - the entry knows where it stands
        shape = _SYSTEM_MESSAGE if entry.role == "system" else _MESSAGE
        return [*shape.limits(entry.data, entry.pointer, surface), *_entry(entry, surface)]

    return entrywise(of)


def _entry(entry: Entry, surface: Surface) -> Iterator[Violation]:
    if entry.role and entry.role not in _ROLES:
        message = f'messages: Unexpected role "{entry.role}". Allowed roles are "user" or "assistant".'
        yield limits.ROLE.broken(message, join(entry.pointer, "role"), actual=entry.role)
    yield from member_limits(entry.data.get("content"), join(entry.pointer, "content"))
    for block in entry.blocks:
        known = _SYSTEM_KINDS if entry.role == "system" else _MESSAGE_KINDS
        yield from _block(block, known | _BETA_KINDS if surface.beta else known, surface)
        if block.kind == "tool_result":
            yield from member_limits(block.data.get("content"), join(block.pointer, "content"))
        for inner in nested(block):
            yield from _block(inner, _RESULT_KINDS, surface)
        if surface.strict_version:
            yield from _withdrawn(entry, block)


def _block(block: Block, known: frozenset[str], surface: Surface) -> Iterator[Violation]:
    if not block.kind:
        message = f"{block.path}.type: Field required"
        yield limits.FIELD_MISSING.broken(message, block.pointer, expected="type")
    elif block.kind not in known and not (known is not _RESULT_KINDS and is_server_work(block)):
        message = f"{block.path}: Input tag '{block.kind}' found using 'type' does not match any of the expected tags"
        place = join(block.pointer, "type")
        yield limits.BLOCK_TYPE.broken(
            message, place, actual=block.kind, expected=[*sorted(known)], severity=surface.unknown
        )
    elif block.kind in _SHAPES:
        yield from _SHAPES[block.kind].limits(block.data, block.pointer, surface)
    if block.kind in _MEDIA_TYPES:
        yield from _media_type(block)
    if block.kind == "text" and block.data.get("text") == "":
        message = f"{block.path}: text content blocks must be non-empty"
        limit = limits.RESULT_TEXT_EMPTY if known is _RESULT_KINDS else limits.TEXT_EMPTY
        yield limit.broken(message, block.pointer)


def _media_type(block: Block) -> Iterator[Violation]:
    """anthropic-media-types."""
    source, legal = block.data.get("source"), _MEDIA_TYPES[block.kind]
    if not isinstance(source, dict) or source.get("type") != "base64" or source.get("media_type") in legal:
        return
    place = join(block.pointer, "source", "media_type")
    expected = " or ".join(part for part in (", ".join(map(repr, legal[:-1])), repr(legal[-1])) if part)
    message = f"{block.path}.{block.kind}.source.base64.media_type: Input should be {expected}"
    yield limits.MEDIA_TYPE.broken(message, place, actual=source.get("media_type"), expected=[*legal])


def _withdrawn(entry: Entry, block: Block) -> Iterator[Violation]:
    """What the API version 2026-10-21 no longer takes."""
    if entry.role == "assistant" and block.kind == "document":
        message = f"{block.path}: `document` blocks are not permitted in `assistant` messages"
        yield limits.DOCUMENT_ROLE.broken(message, block.pointer)
    inner = blocks(block.data.get("content"), join(block.pointer, "content")) if block.kind == "search_result" else ()
    for text in (block, *inner):
        if entry.role == "user" and text.kind == "text" and text.data.get("citations"):
            message = f"{text.path}.citations: not permitted on `text` blocks in `user` messages"
            place = join(text.pointer, "citations")
            yield limits.USER_CITATIONS.broken(message, place)


def _last(entry: Entry, terms: Terms) -> Iterator[Violation]:
    if entry.role != "assistant":
        yield from _empty(entry)
        return
    severity = severity_of(terms.profile.prefill)
    if is_prefill(entry) and severity:
        message = (
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )
        yield limits.PREFILL.broken(message, entry.pointer, severity=severity)
    last = entry.blocks[-1:]
    if last and last[0].kind == "text" and (last[0].string("text") or "x").isspace():
        message = f"{dotted(entry.pointer)}: final assistant content must contain non-whitespace text"
        yield limits.TEXT_EMPTY.broken(message, last[0].pointer)


def is_prefill(entry: Entry) -> bool:
    """Whether a last message asks the model to go on writing.

    A turn that the provider's own tools paused goes back as it is (stop reason `pause_turn`), and one that ends in
    calls lacks their results.
    """
    return entry.role == "assistant" and not any(
        block.kind == "tool_use" or is_server_work(block) for block in entry.blocks
    )


def _empty(entry: Entry) -> Iterator[Violation]:
    """Only the last assistant message may be empty. A string "" is an empty text block, which is refused as such."""
    if not entry.blocks and entry.role != "system":
        message = (
            f"{dotted(entry.pointer)}: all messages must have non-empty content except for the optional final "
            "assistant message"
        )
        yield limits.MESSAGE_EMPTY.broken(message, entry.pointer)


def _cache_marks(body: dict[str, JSON], conversation: list[Entry], surface: Surface) -> Iterator[Violation]:
    outside = [*objects(body.get("tools"), "/tools"), *objects(body.get("system"), "/system")]
    found = (*marked(outside), *(mark for entry in conversation for mark in entry.marked))
    marks = [(join(place, "cache_control"), data["cache_control"]) for place, data in found]
    if len(marks) > _MOST_CACHE_MARKS:
        message = f"A maximum of {_MOST_CACHE_MARKS} blocks with cache_control may be provided. Found {len(marks)}."
        place = marks[_MOST_CACHE_MARKS][0]
        yield limits.CACHE_MARKS.broken(message, place, actual=len(marks), expected=_MOST_CACHE_MARKS)
    for place, mark in marks:
        if not isinstance(mark, dict):
            continue
        yield from _CACHE_MARK.limits(mark, place, surface)
        if mark.get("type", "ephemeral") != "ephemeral" or mark.get("ttl") not in (None, "5m", "1h"):
            message = f"{dotted(place)}: Input should be {{'type': 'ephemeral', 'ttl': '5m' or '1h'}}"
            yield limits.CACHE_MARK.broken(message, place, actual=mark)
