"""A whole answer → the stream of chunks that spells it out, for the reference server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TypeAlias

from harness.apis import seeded
from harness.contract.model import JSON

_Parts: TypeAlias = list[dict[str, JSON]]

_TEXT = frozenset({"text", "thought", "thoughtSignature"})
_ENDING = frozenset({"finishReason", "finishMessage", "continuationToken"})


def events(body: dict[str, JSON], seed: str) -> bytes:
    """A whole answer as server-sent events. Where it is cut is a function of `seed`."""
    return b"".join(b"data: " + _encoded(chunk) + b"\r\n\r\n" for chunk in _chunks(body, seed))


def array(body: dict[str, JSON], seed: str) -> bytes:
    """The same chunks as a JSON array, which the API streams unless events are asked for."""
    return b"[" + b"\n,\r\n".join(_encoded(chunk, indent=2) for chunk in _chunks(body, seed)) + b"\n]"


def _encoded(chunk: dict[str, JSON], indent: int | None = None) -> bytes:
    return json.dumps(chunk, ensure_ascii=False, indent=indent).encode(errors="backslashreplace")


def _chunks(body: dict[str, JSON], seed: str) -> list[dict[str, JSON]]:
    """Whole responses all (gemini-chunks): each has the fields of the answer, and its usage so far."""
    candidates = [
        chunk for candidate in _objects(body.get("candidates")) for chunk in _candidate_chunks(candidate, seed)
    ]
    if not candidates:
        return [body]
    steps = range(1, len(candidates) + 1)
    usages = [_usage_so_far(body.get("usageMetadata"), step / len(candidates)) for step in steps]
    return [{**body, "candidates": [candidate], **usage} for candidate, usage in zip(candidates, usages, strict=True)]


def _usage_so_far(usage: JSON, share: float) -> dict[str, JSON]:
    """The usage of a chunk, with its share of what the answer counts. The last one's is the answer's."""
    if not isinstance(usage, dict):
        return {}
    counted, total = usage.get("candidatesTokenCount"), usage.get("totalTokenCount")
    if share == 1 or not isinstance(counted, int) or not isinstance(total, int):
        return {"usageMetadata": usage}
    so_far = int(counted * share)
    return {"usageMetadata": usage | {"candidatesTokenCount": so_far, "totalTokenCount": total - counted + so_far}}


def _candidate_chunks(candidate: dict[str, JSON], seed: str) -> Iterator[dict[str, JSON]]:
    """The candidate in pieces, of which the last says why it ends."""
    content = candidate.get("content")
    if not isinstance(content, dict):
        yield candidate
        return
    going_on = {key: value for key, value in candidate.items() if key not in _ENDING}
    *pieces, last = _ended(_pieces(_objects(content.get("parts")), seed), seed)
    for parts in pieces:
        yield {**going_on, "content": {**content, "parts": [*parts]}}
    yield {**candidate, "content": {**content, "parts": [*last]}}


def _pieces(parts: _Parts, seed: str) -> list[_Parts]:
    """The parts of each chunk: text in fragments, calls and all else whole, each in a chunk of its own
    (gemini-calls-whole)."""
    pieces: list[_Parts] = []
    for index, part in enumerate(parts):
        label = f"part {index}"
        if isinstance(part.get("text"), str) and part.keys() <= _TEXT:
            pieces.extend([piece] for piece in _text(part, seed, label))
        else:
            pieces.append([part])
    return pieces


def _ended(pieces: list[_Parts], seed: str) -> list[_Parts]:
    """The pieces with the end that recordings have: an empty part in a chunk of its own or behind the last call, or
    nothing but the finish reason on the last piece."""
    empty: dict[str, JSON] = {"text": ""}
    signed = bool(pieces) and "thoughtSignature" in pieces[-1][-1] and not _is_call(pieces[-1][-1])
    ending = seeded.number(seed, "ending", 0, 2)
    if not pieces or (ending == 0 and not signed):
        return [*pieces, [empty]]
    if ending == 1 and _is_call(pieces[-1][-1]):
        return [*pieces[:-1], [*pieces[-1], empty]]
    return pieces


def _text(part: dict[str, JSON], seed: str, label: str) -> _Parts:
    """A text in fragments. Its signature comes on the first of them (2.5) or on an empty part behind them (3)."""
    plain = {key: value for key, value in part.items() if key != "thoughtSignature"}
    pieces = [plain | {"text": text} for text in seeded.fragments(str(part["text"]), seed, label, longest=40)]
    if plain == part:
        return pieces
    if pieces and seeded.number(seed, f"{label} signed", 0, 2) == 0:
        return [part | pieces[0], *pieces[1:]]
    return [*pieces, part | {"text": ""}]


def _is_call(part: dict[str, JSON]) -> bool:
    return "functionCall" in part


def _objects(value: JSON) -> list[dict[str, JSON]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
