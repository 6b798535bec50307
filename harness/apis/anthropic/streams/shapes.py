"""The events in which the API and its compatible servers send the calls of a stream, for one that came otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.apis.api import StreamShape
from harness.apis.eventstream import events, written
from harness.apis.jsonvalue import loads
from harness.contract.model import JSON

Fields = dict[str, JSON]


def _read(stream: bytes) -> list[Fields]:
    read = (loads(event.data) for event in events(stream) if event.data.startswith("{"))
    return [event for event in read if isinstance(event, dict)]


def _write(told: Iterable[Fields]) -> bytes:
    return b"".join(written(event, str(event.get("type"))) for event in told)


def _is_argument_delta(event: Fields) -> bool:
    delta = event.get("delta")
    return isinstance(delta, dict) and delta.get("type") == "input_json_delta"


def _in_one_delta(stream: bytes, _seed: str) -> bytes:
    """All arguments of a call in one delta, without an empty one before it."""
    told: list[Fields] = []
    for event in _read(stream):
        last = told[-1] if told else {}
        if _is_argument_delta(event) and _is_argument_delta(last) and event.get("index") == last.get("index"):
            told[-1] = {**last, "delta": _joined(last["delta"], event["delta"])}
        else:
            told.append(event)
    return _write(told)


def _joined(one: JSON, other: JSON) -> JSON:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return one
    return {**one, "partial_json": f"{one.get('partial_json') or ''}{other.get('partial_json') or ''}"}


def _output_tokens_alone(stream: bytes, _seed: str) -> bytes:
    """The last count says only how many tokens were written: the others are those of `message_start`."""
    told = _read(stream)
    first = next((event["message"] for event in told if event.get("type") == "message_start"), None)
    begun = first.get("usage") if isinstance(first, dict) else None
    for at, event in enumerate(told):
        usage = event.get("usage")
        if event.get("type") == "message_delta" and isinstance(usage, dict) and isinstance(begun, dict):
            kept = {key: value for key, value in usage.items() if key == "output_tokens" or begun.get(key) != value}
            told[at] = {**event, "usage": kept}
    return _write(told)


SHAPES: Mapping[str, StreamShape] = {
    "arguments-in-one-delta": StreamShape(_in_one_delta),  # 13 of 22 calls recorded of the API itself
    "output-tokens-alone": StreamShape(
        _output_tokens_alone
    ),  # anthropic-usage: seen at compatible servers and older versions
}
"""By name."""
