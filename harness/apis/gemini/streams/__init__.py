"""Streams: every chunk is a whole response (gemini-chunks), as server-sent events or elements of a JSON array."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from harness.apis.eventstream import events, events_of
from harness.apis.gemini.streams.partial_args import whole_calls
from harness.apis.jsonvalue import loads
from harness.apis.view import WireError
from harness.contract.model import JSON

_SEPARATORS = re.compile(r"[ \t\r\n,]*")
_BARE = re.compile(rb"(?:\A|[\r\n])([\[{].*)", re.DOTALL)


def event_chunks(body: bytes) -> list[dict[str, JSON]]:
    """The chunks of an event stream. Raises `WireError`."""
    bare = [*_bare_error(body)]
    sent = events(body) if bare else events_of(body)
    return [*(_chunk(loads(event.data)) for event in sent), *bare]


def _bare_error(body: bytes) -> Iterator[dict[str, JSON]]:
    """An error that stands behind the events as it would without a stream (google-genai: `_RawJsonLineBuffer`)."""
    bare = _BARE.search(body)
    try:
        value = loads(bare[1]) if bare else None
    except WireError:  # lines that are no field say nothing in an event stream
        return
    if value is not None:
        yield _chunk(value)


def array_chunks(body: bytes) -> tuple[list[dict[str, JSON]], bool]:
    """The chunks of a JSON array, and whether it is closed; a chunk that the end of the body cuts off is dropped.

    Raises:
        WireError: a chunk is no object.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        text = body[: error.start].decode()
    decoder = json.JSONDecoder()
    chunks: list[dict[str, JSON]] = []
    position = _next(text, text.index("[") + 1)
    while position < len(text) and text[position] != "]":
        try:
            _, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            break
        chunks.append(_chunk(loads(text[position:end])))
        position = _next(text, end)
    return chunks, text[position : position + 1] == "]"


def _next(text: str, position: int) -> int:
    separators = _SEPARATORS.match(text, position)
    return separators.end() if separators else position


def _chunk(value: JSON) -> dict[str, JSON]:
    """A chunk. Errors are objects too, or lists of one."""
    match value:
        case dict() as chunk:
            return chunk
        case [dict() as chunk]:
            return chunk
        case _:
            raise WireError("a chunk of a stream is no object")


def fold(chunks: Iterable[dict[str, JSON]]) -> dict[str, JSON]:
    """One body from its chunks, as the API's whole answer would be: parts in order, of all other fields the last.

    Adjacent texts without a signature become one. The signature of an empty text belongs to the text that it ends: a
    whole answer has it there, and no such part (recorded are 9 in streams, none in a whole answer). Any other signed
    part stays as it is (gemini-thought-signature).
    """
    body: dict[str, JSON] = {}
    candidates: dict[int, dict[str, JSON]] = {}
    parts: dict[int, list[dict[str, JSON]]] = {}
    for chunk in chunks:
        body |= {name: value for name, value in chunk.items() if name != "candidates"}
        for candidate in _objects(chunk.get("candidates")):
            index = candidate.get("index")
            index = index if isinstance(index, int) else 0
            content = candidate.get("content")
            content = content if isinstance(content, dict) else {}
            known = candidates.setdefault(index, {})
            known |= {name: value for name, value in candidate.items() if name != "content"}
            if content:
                before = known.get("content")
                known["content"] = {**(before if isinstance(before, dict) else {}), **content, "parts": []}
            parts.setdefault(index, []).extend(_objects(content.get("parts")))
    for index, candidate in candidates.items():
        content = candidate.get("content")
        if isinstance(content, dict):
            content["parts"] = [*_joined(parts[index])]
    if candidates:
        body["candidates"] = [candidate for _, candidate in sorted(candidates.items())]
    return body


def _objects(value: JSON) -> list[dict[str, JSON]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _joined(parts: list[dict[str, JSON]]) -> Iterator[JSON]:
    growing: dict[str, JSON] | None = None
    for part in whole_calls(parts):
        text = part.get("text")
        if growing is not None and _ends(growing, part):
            growing["thoughtSignature"] = part.get("thoughtSignature", part.get("thought_signature"))
            growing = None
        elif not isinstance(text, str) or not part.keys() <= {"text", "thought"}:
            growing = None
            yield part
        elif growing is not None and bool(growing.get("thought")) == bool(part.get("thought")):
            growing["text"] = f"{growing['text']}{text}"
        elif text:
            growing = dict(part)
            yield growing


def _ends(text: dict[str, JSON], part: dict[str, JSON]) -> bool:
    """Whether a part is nothing but the signature of the text before it."""
    signed = {*part} - {"text", "thought"} in ({"thoughtSignature"}, {"thought_signature"})
    return signed and part.get("text") == "" and bool(text.get("thought")) == bool(part.get("thought"))
