"""Conversation and exchanges of a cell for reports, with secrets removed and size limited."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import cast

from harness.apis.jsonvalue import loads
from harness.apis.view import RequestView, ResponseView, WireError
from harness.cassettes.redact import Redactor
from harness.equivalence.request_meaning import outline
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import (
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
from harness.platform.exceptions import shorten
from harness.results import (
    Chat,
    ConversationRecord,
    EmbeddingCall,
    EmbeddingTranscript,
    Exchange,
    ExchangeRecord,
    MessageRecord,
    to_writable,
)
from harness.rules.evidence import Evidence, ParsedExchange

_MAX_RUN_CHARS = 256 << 20
_MAX_CONVERSATION_CHARS = 1 << 20
_MAX_TEXT_CHARS = 2000
_MAX_STREAM_CHARS = 20_000
_MAX_NUMBERS = 64


def max_conversation_chars(cells: int) -> int:
    """Return the maximum length of a cell's conversation in a run with this many cells."""
    return min(_MAX_CONVERSATION_CHARS, _MAX_RUN_CHARS // max(cells, 1))


def build_conversation(
    evidence: Evidence,
    redactor: Redactor,
    max_characters: int,
    indices: Iterable[int] | None = None,
    *,
    with_streams: bool = False,
) -> ConversationRecord:
    """Build the conversation of a cell without secrets, in about `max_characters` characters. Bodies beyond the limit
    are omitted.

    `indices` are the numbers of the exchanges, if they do not count from 0. `with_streams` also keeps the raw streams.
    """
    left = max_characters
    words: list[MessageRecord] = []
    for each in _shorten(_cell_messages(evidence), redactor):
        left -= len(each.text)
        words.append(each if left >= 0 else replace(each, text="[left out]"))
    numbers = indices or range(len(evidence.parsed_exchanges))
    exchanges = (
        _show_exchange(number, each, evidence.transcript.chats, redactor, with_stream=with_streams)
        for number, each in zip(numbers, evidence.parsed_exchanges, strict=True)
    )
    return ConversationRecord(tuple(words), limit_bodies(exchanges, left))


def chat_messages(chats: Sequence[Chat], redactor: Redactor) -> tuple[MessageRecord, ...]:
    """Return the messages of these chats, shortened and without secrets."""
    return tuple(_shorten(_chat_messages(chats), redactor))


def _shorten(every: Iterable[MessageRecord], redactor: Redactor) -> Iterator[MessageRecord]:
    for each in _redact(list(every), redactor):
        yield replace(each, text=_text(each.text), name=each.name and _text(each.name), id=each.id and _text(each.id))


def limit_bodies(exchanges: Iterable[ExchangeRecord], max_characters: int) -> tuple[ExchangeRecord, ...]:
    """Limit the bodies of the exchanges to about `max_characters` characters in total. Exchanges beyond the limit are
    kept without bodies.
    """
    left, kept = max_characters, list[ExchangeRecord]()
    for each in exchanges:
        left -= len(each.sent or "") + len(each.received or "") + len(each.stream or "")
        kept.append(
            each if left >= 0 else replace(each, sent=None, received=None, left_out=True, meaning=None, stream=None)
        )
    return tuple(kept)


def _redact(messages: list[MessageRecord], redactor: Redactor) -> list[MessageRecord]:
    """Remove secrets, including those that are split across messages."""
    texts: list[JSON] = [each.text for each in messages]
    whole = cast("list[str]", redactor.value(texts))
    return [redactor.result(replace(each, text=text)) for each, text in zip(messages, whole, strict=True)]


def _show_exchange(
    number: int, parsed: ParsedExchange, chats: Sequence[Chat], redactor: Redactor, *, with_stream: bool
) -> ExchangeRecord:
    exchange, response = parsed.exchange, parsed.exchange.response
    shown = shown_exchange(number, exchange.request, response, parsed.response, redactor)
    asked = chats[exchange.chat].request if exchange.chat is not None and exchange.chat < len(chats) else None
    stream = redactor.response(response).body.decode(errors="replace") if with_stream and response else None
    return replace(
        shown,
        chat=exchange.chat,
        meaning=None if parsed.request is None else _meaning(parsed.request, asked, redactor),
        stream=_stream(stream) if stream and shown.streamed else None,
    )


def _meaning(view: RequestView, asked: ChatRequest | None, redactor: Redactor) -> str:
    return _body([list(line) for line in outline(view, asked)], redactor)


def _stream(text: str) -> str:
    return str(to_writable(shorten(text, _MAX_STREAM_CHARS)))


def shown_exchange(
    number: int, request: HttpRequest, response: HttpResponse | None, view: ResponseView | None, redactor: Redactor
) -> ExchangeRecord:
    """Return an exchange for reports, without secrets. `view` is the parsed response."""
    shown = ExchangeRecord(
        number,
        _text(f"{request.method} {redactor.url(request.url)}"),
        _body(_value(request.body), redactor) if request.body else None,
    )
    if response is None:
        return shown
    # An unparsed body may be a stream with a key split across lines; the response's redactor finds it.
    body = _body(view.body if view is not None else _value(redactor.response(response).body), redactor)
    return replace(shown, status=response.status, received=body, streamed=view is not None and view.streamed)


def with_earlier(conversation: ConversationRecord, earlier: Exchange, redactor: Redactor) -> ConversationRecord:
    """Prepend the last exchange of the target that began the conversation. No finding refers to this exchange."""
    shown = shown_exchange(-1, earlier.request, earlier.response, None, redactor)
    shown = replace(shown, request=f"before the hand-over: {shown.request}")
    return replace(conversation, exchanges=(shown, *conversation.exchanges))


def _value(body: bytes) -> JSON:
    try:
        return loads(body)
    except WireError:
        return body.decode(errors="replace")


def _body(value: JSON, redactor: Redactor) -> str:
    """Return the body on one line. Secrets are removed before it is cut, since half a key is not recognized."""
    return json.dumps(_trim(redactor.value(value)), ensure_ascii=False, separators=(",", ":"))


def _trim(value: JSON) -> JSON:
    """Return the value with long texts and long lists of numbers shortened."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return {_text(key): _trim(member) for key, member in value.items()}
    if isinstance(value, list):
        if len(value) > _MAX_NUMBERS and all(isinstance(member, int | float) for member in value):
            return [*value[:_MAX_NUMBERS], f"[... {len(value) - _MAX_NUMBERS} more numbers]"]
        return [_trim(member) for member in value]
    return value


def _text(text: str) -> str:
    return str(to_writable(shorten(text, _MAX_TEXT_CHARS)))


def _cell_messages(evidence: Evidence) -> Iterator[MessageRecord]:
    transcript = evidence.transcript
    yield from _chat_messages(transcript.chats)
    if isinstance(transcript, EmbeddingTranscript):
        for index, embedded in enumerate(transcript.embedded):
            yield from _embedding_messages(index, embedded)


def _chat_messages(chats: Iterable[Chat]) -> Iterator[MessageRecord]:
    before: Chat | None = None
    for index, chat in enumerate(chats):
        yield from _request_messages(index, chat.request, before)
        if chat.response is not None:
            yield from _part_messages(index, chat.response.message)
        if chat.error is not None or chat.error_text:
            yield MessageRecord(index, "assistant", "error", f"{chat.error or 'IterationLimit'}: {chat.error_text}")
        before = chat


def _request_messages(index: int, request: ChatRequest, before: Chat | None) -> Iterator[MessageRecord]:
    """Yield the messages of a request that are not in the conversation yet."""
    known = 0 if before is None else len(before.request.messages)
    if request.system and (before is None or before.request.system != request.system):
        yield MessageRecord(index, "system", "text", request.system)
    for message in request.messages[known:]:
        if before is None or before.response is None or message != before.response.message:
            yield from _part_messages(index, message)


def _part_messages(index: int, message: Message) -> Iterator[MessageRecord]:
    for part in message.parts:
        made = _part(index, part)
        yield replace(made, by="user") if message.role is Role.USER and made.by == "assistant" else made


def _part(index: int, part: Part) -> MessageRecord:
    match part:
        case Text(text):
            return MessageRecord(index, "assistant", "text", text)
        case Thinking(text):
            return MessageRecord(index, "assistant", "thinking", text)
        case Refusal(text):
            return MessageRecord(index, "assistant", "refusal", text)
        case ToolCall():
            return MessageRecord(index, "assistant", "call", _json(dict(part.arguments)), part.name, part.id)
        case ToolResult():
            return MessageRecord(
                index, "tool", "error" if part.is_error else "result", _content(part), part.name, part.call_id
            )
        case Image() | File():
            return MessageRecord(index, "assistant", "media", _media(part))
        case Opaque(api):
            return MessageRecord(index, "assistant", "state", _json(part.raw), api)


def _content(result: ToolResult) -> str:
    if isinstance(result.content, tuple):
        return "\n".join(_part(0, part).text for part in result.content)
    return _json(result.content)


def _media(part: Image | File) -> str:
    return f"{part.media_type}, {'by address' if part.data is None else f'{len(part.data)} bytes'}"


def _json(value: object) -> str:
    """Return readable JSON, or `repr` for values that are not JSON."""
    return json.dumps(value, ensure_ascii=False, default=repr)


def _embedding_messages(index: int, made: EmbeddingCall) -> Iterator[MessageRecord]:
    for text in made.texts:
        yield MessageRecord(index, "user", "text", text)
    if made.vectors is None:
        yield MessageRecord(index, "assistant", "error", f"{made.error}: {made.error_text}")
    else:
        lengths = " or ".join(map(str, sorted({len(vector) for vector in made.vectors}))) or "no"
        yield MessageRecord(index, "assistant", "state", f"{len(made.vectors)} vectors of {lengths} dimensions")
