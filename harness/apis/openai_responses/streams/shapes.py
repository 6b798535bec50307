"""The events in which the API and its compatible servers send the calls of a stream, for one that came otherwise."""

from __future__ import annotations

from collections.abc import Mapping

from harness.apis.api import StreamShape
from harness.apis.eventstream import events, written
from harness.apis.jsonvalue import loads
from harness.contract.model import JSON

_DELTA = "response.function_call_arguments.delta"


def _in_one_delta(stream: bytes, _seed: str) -> bytes:
    """All arguments of a call in one delta."""
    told: list[dict[str, JSON]] = []
    for event in events(stream):
        read = loads(event.data) if event.data.startswith("{") else None
        if not isinstance(read, dict):
            continue
        last = told[-1] if told else {}
        same_item = read.get("item_id") == last.get("item_id")
        if read.get("type") == last.get("type") == _DELTA and same_item:
            told[-1] = {**last, "delta": f"{last.get('delta')}{read.get('delta')}"}
        else:
            told.append(read)
    return b"".join(written(event, str(event.get("type"))) for event in told)


SHAPES: Mapping[str, StreamShape] = {
    "arguments-in-one-delta": StreamShape(_in_one_delta),  # 20 of 32 calls recorded of the API and of xAI
}
"""By name."""
