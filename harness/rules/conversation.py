"""The evidence of a cell as it goes into its result, for the reports that show it: its conversation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import cast

from harness.apis.jsonvalue import loads
from harness.apis.view import ResponseView, WireError
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import (
    JSON,
    ChatRequest,
    File,
    Image,
    Message,
    Opaque,
    Part,
    Refusal,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from harness.host.exceptions import shorten
from harness.results import Chat, Conversation, Embedded, EmbeddingTranscript, Said, Sent, to_writable
from harness.rules.evidence import Evidence
from harness.rules.reading import Reading
from harness.tape.redact import Redactor

_RUN = 256 << 20
"""Characters that all conversations of a run may have together: a run of the shipped suite takes a tenth of them."""
_MOST = 1 << 20
"""Characters that a conversation may have, however few cells there are."""
_STRING = 2000
"""Characters that are kept of a text in a body."""
_NUMBERS = 64
"""Numbers that are kept of a list of nothing else, such as an embedding."""


def room(cells: int) -> int:
    """How many characters the conversation of a cell may have, in a run of so many cells."""
    return min(_MOST, _RUN // max(cells, 1))


def conversation(
    evidence: Evidence, redactor: Redactor, most: int, indices: Iterable[int] | None = None
) -> Conversation:
    """What was said in a cell and sent for it, without secrets, in about `most` characters: the bodies of exchanges
    for which there is no room are left out. `indices` are those of the exchanges where they do not count from 0.
    """
    left = most
    words: list[Said] = []
    for each in _shortened(_said(evidence), redactor):
        left -= len(each.text)
        words.append(each if left >= 0 else replace(each, text="[left out]"))
    numbers = indices or range(len(evidence.readings))
    exchanges = (_sent(number, each, redactor) for number, each in zip(numbers, evidence.readings, strict=True))
    return Conversation(tuple(words), fitting(exchanges, left))


def said(chats: Sequence[Chat], redactor: Redactor) -> tuple[Said, ...]:
    """What was said in these chats, without secrets, each thing cut to a length."""
    return tuple(_shortened(_chats(chats), redactor))


def _shortened(every: Iterable[Said], redactor: Redactor) -> Iterator[Said]:
    for each in _redacted(list(every), redactor):
        yield replace(each, text=_text(each.text), name=each.name and _text(each.name), id=each.id and _text(each.id))


def fitting(exchanges: Iterable[Sent], most: int) -> tuple[Sent, ...]:
    """Exchanges in about `most` characters: those for which there is no room are left without their bodies."""
    left, kept = most, list[Sent]()
    for each in exchanges:
        left -= len(each.sent or "") + len(each.received or "")
        kept.append(each if left >= 0 else replace(each, sent=None, received=None, left_out=True))
    return tuple(kept)


def _redacted(said: list[Said], redactor: Redactor) -> list[Said]:
    """What was said, without secrets, be they cut over the parts of a message."""
    texts: list[JSON] = [each.text for each in said]
    whole = cast("list[str]", redactor.value(texts))  # which changes what stands in it, not how much
    return [redactor.result(replace(each, text=text)) for each, text in zip(said, whole, strict=True)]


def _sent(number: int, reading: Reading, redactor: Redactor) -> Sent:
    exchange = reading.exchange
    told = sent(number, exchange.request, exchange.response, reading.response, redactor)
    return replace(told, chat=exchange.chat)


def sent(
    number: int,
    request: HttpRequest,
    response: HttpResponse | None,
    view: ResponseView | None,
    redactor: Redactor,
) -> Sent:
    """An exchange as reports show it, without secrets; `view` is the response as its witness reads it."""
    told = Sent(
        number,
        _text(f"{request.method} {redactor.url(request.url)}"),
        _body(_value(request.body), redactor) if request.body else None,
    )
    if response is None:
        return told
    # What nobody can read may be a stream all the same, with a key cut over its lines: that is found in the response.
    body = _body(view.body if view is not None else _value(redactor.response(response).body), redactor)
    return replace(told, status=response.status, received=body, streamed=view is not None and view.streamed)


def _value(body: bytes) -> JSON:
    try:
        return loads(body)
    except WireError:
        return body.decode(errors="replace")


def _body(value: JSON, redactor: Redactor) -> str:
    """The body on one line. Secrets go first: half a key is not found afterwards."""
    return json.dumps(_trimmed(redactor.value(value)), ensure_ascii=False, separators=(",", ":"))


def _trimmed(value: JSON) -> JSON:
    """The value with its long texts and lists of numbers cut, so that what is left stands where it stood."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return {_text(key): _trimmed(member) for key, member in value.items()}
    if isinstance(value, list):
        if len(value) > _NUMBERS and all(isinstance(member, int | float) for member in value):
            return [*value[:_NUMBERS], f"[... {len(value) - _NUMBERS} more numbers]"]
        return [_trimmed(member) for member in value]
    return value


def _text(text: str) -> str:
    return str(to_writable(shorten(text, _STRING)))


def _said(evidence: Evidence) -> Iterator[Said]:
    transcript = evidence.transcript
    yield from _chats(transcript.chats)
    if isinstance(transcript, EmbeddingTranscript):
        for index, embedded in enumerate(transcript.embedded):
            yield from _embedded(index, embedded)


def _chats(chats: Iterable[Chat]) -> Iterator[Said]:
    before: Chat | None = None
    for index, chat in enumerate(chats):
        yield from _asked(index, chat.request, before)
        if chat.response is not None:
            yield from _message(index, chat.response.message)
        if chat.error is not None or chat.error_text:
            yield Said(index, "assistant", "error", f"{chat.error or 'IterationLimit'}: {chat.error_text}")
        before = chat


def _asked(index: int, request: ChatRequest, before: Chat | None) -> Iterator[Said]:
    """What a request says that the conversation has not said yet."""
    known = 0 if before is None else len(before.request.messages)
    if request.system and (before is None or before.request.system != request.system):
        yield Said(index, "system", "text", request.system)
    for message in request.messages[known:]:
        if before is None or before.response is None or message != before.response.message:
            yield from _message(index, message)


def _message(index: int, message: Message) -> Iterator[Said]:
    for part in message.parts:
        told = _part(index, part)
        yield replace(told, by="user") if message.role is Role.USER and told.by == "assistant" else told


def _part(index: int, part: Part) -> Said:
    match part:
        case Text(text):
            return Said(index, "assistant", "text", text)
        case Thinking(text):
            return Said(index, "assistant", "thinking", text)
        case Refusal(text):
            return Said(index, "assistant", "refusal", text)
        case ToolCall():
            return Said(index, "assistant", "call", _json(dict(part.arguments)), part.name, part.id)
        case ToolResult():
            return Said(index, "tool", "error" if part.is_error else "result", _content(part), part.name, part.call_id)
        case Image() | File():
            return Said(index, "assistant", "media", _media(part))
        case Opaque(api):
            return Said(index, "assistant", "state", _json(part.raw), api)


def _content(result: ToolResult) -> str:
    if isinstance(result.content, tuple):
        return "\n".join(_part(0, part).text for part in result.content)
    return _json(result.content)


def _media(part: Image | File) -> str:
    return f"{part.media_type}, {'by address' if part.data is None else f'{len(part.data)} bytes'}"


def _json(value: object) -> str:
    """As people read it; what is no JSON, which an adapter may hand on all the same, as Python shows it."""
    return json.dumps(value, ensure_ascii=False, default=repr)


def _embedded(index: int, made: Embedded) -> Iterator[Said]:
    for text in made.texts:
        yield Said(index, "user", "text", text)
    if made.vectors is None:
        yield Said(index, "assistant", "error", f"{made.error}: {made.error_text}")
    else:
        lengths = " or ".join(map(str, sorted({len(vector) for vector in made.vectors}))) or "no"
        yield Said(index, "assistant", "state", f"{len(made.vectors)} vectors of {lengths} dimensions")
