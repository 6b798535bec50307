"""Events of OpenAI's service and what they tell, for the tests of both adapters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from harness.contract.model import (
    ArgumentsDelta,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallEnd,
    ToolCallStart,
)

DONE = b"data: [DONE]\n\n"


def event(payload: Any, name: str | None = None) -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(payload, ensure_ascii=False)}\n\n".encode()


def text(events: Sequence[StreamEvent]) -> str:
    return "".join(one.text for one in events if isinstance(one, TextDelta))


def thinking(events: Sequence[StreamEvent]) -> str:
    return "".join(one.text for one in events if isinstance(one, ThinkingDelta))


def started(events: Sequence[StreamEvent]) -> list[tuple[str, str]]:
    return [(one.id, one.name) for one in events if isinstance(one, ToolCallStart)]


def ended(events: Sequence[StreamEvent]) -> list[tuple[str, str, Any]]:
    """The calls that came to their end, by index, each started before its deltas and ended behind them."""
    state: dict[int, tuple[str, str, str]] = {}
    done: dict[int, tuple[str, str, Any]] = {}
    for one in events:
        match one:
            case ToolCallStart(index, call_id, name):
                assert index == len(state)
                state[index] = (call_id, name, "")
            case ArgumentsDelta(index, delta):
                assert index not in done
                assert delta
                call_id, name, before = state[index]
                state[index] = (call_id, name, before + delta)
            case ToolCallEnd(index):
                assert index not in done
                call_id, name, arguments = state[index]
                done[index] = (call_id, name, json.loads(arguments or "{}"))
            case _:
                pass
    return [done[index] for index in sorted(done)]
