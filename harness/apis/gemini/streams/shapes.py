"""The chunks in which the API sends the parts of a stream, for one that came otherwise."""

from __future__ import annotations

from collections.abc import Mapping

from harness.apis.api import StreamShape
from harness.apis.eventstream import events, starts_as_one, written
from harness.apis.jsonvalue import loads
from harness.contract.model import JSON


def _parts(chunk: JSON) -> list[JSON]:
    candidates = chunk.get("candidates") if isinstance(chunk, dict) else None
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    content = first.get("content") if isinstance(first, dict) else None
    parts = content.get("parts") if isinstance(content, dict) else None
    return parts if isinstance(parts, list) else []


def _with_parts(chunk: dict[str, JSON], parts: list[JSON]) -> dict[str, JSON]:
    candidates = chunk.get("candidates")
    if not isinstance(candidates, list) or not isinstance(candidates[0], dict):
        return chunk
    content = candidates[0].get("content")
    told: JSON = {**(content if isinstance(content, dict) else {"role": "model"}), "parts": parts}
    return {**chunk, "candidates": [{**candidates[0], "content": told}, *candidates[1:]]}


def _is_call(part: JSON) -> bool:
    return isinstance(part, dict) and "functionCall" in part


def _calls_with_the_end(stream: bytes, _seed: str) -> bytes:
    """All calls in the chunk that says why the model stopped."""
    if not starts_as_one(stream):
        return stream
    read = [chunk for event in events(stream) if isinstance(chunk := loads(event.data), dict)]
    at = next((i for i, chunk in enumerate(read) if any(map(_is_call, _parts(chunk)))), None)
    end = next((i for i, chunk in enumerate(read) if _ends(chunk)), None)
    if at is None or end is None or at >= end:
        return stream
    held = [part for chunk in read[at : end + 1] for part in _parts(chunk)]
    told = [*read[:at], _with_parts(read[end], held), *read[end + 1 :]]
    return b"".join(map(written, told))


def _ends(chunk: dict[str, JSON]) -> bool:
    candidates = chunk.get("candidates")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    return isinstance(first, dict) and first.get("finishReason") is not None


SHAPES: Mapping[str, StreamShape] = {
    "calls-in-the-last-chunk": StreamShape(_calls_with_the_end),  # 16 of 25 calls recorded of the API
}
"""By name."""
