"""A whole message → the event stream that spells it out, for the reference server."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator

from harness.apis import seeded
from harness.contract.model import JSON
from harness.scenarios.schema import Provocation

_AT_THE_END = ("stop_reason", "stop_sequence", "stop_details")
_CUMULATIVE = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
_KNOWN_AT_START = frozenset({*_CUMULATIVE, "cache_creation", "service_tier", "inference_geo"})

_PING: dict[str, JSON] = {"type": "ping"}
_PINGED = frozenset({"content_block_start", "content_block_delta", "content_block_stop"})
"""Events behind which recorded streams have a ping: 18, 9 and 1 of 29. The first event of a stream is none of them."""

_UNKNOWN: dict[str, JSON] = {"type": "of_another_day"}
"""New event types may come at any time, and clients are to let them pass: documented, and in no recording."""


def spell(message: dict[str, JSON], seed: str, provocations: Collection[Provocation] = ()) -> bytes:
    """The event stream of a whole message (anthropic-stream-order). Where it is cut, and what comes between, are
    functions of `seed`.

    All of it is as recorded traffic has it, but for the `provocations`.
    """
    events = _interspersed(_events(message, seed), seed)
    if Provocation.UNKNOWN_EVENTS in provocations:
        events = _with_unknown_events(events)
    return b"".join(_written(event, seed, at) for at, event in enumerate(events))


def _written(event: dict[str, JSON], seed: str, at: int) -> bytes:
    """One event. The provider pads the objects of its events with up to 15 blanks."""
    text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    padding = " " * seeded.number(seed, f"padding {at}", 0, 15)
    return f"event: {event['type']}\ndata: {text[:-1]}{padding}}}\n\n".encode(errors="backslashreplace")


def _interspersed(events: Iterable[dict[str, JSON]], seed: str) -> Iterator[dict[str, JSON]]:
    """The events with a ping here and there, most often behind the first start of a block."""
    pinged = seeded.number(seed, "ping", 0, 2) == 0
    for at, event in enumerate(events):
        yield event
        first_block = event["type"] == "content_block_start" and not pinged
        if first_block or (event["type"] in _PINGED and seeded.number(seed, f"ping {at}", 0, 11) == 0):
            pinged = True
            yield _PING


def _with_unknown_events(events: Iterable[dict[str, JSON]]) -> Iterator[dict[str, JSON]]:
    """One inside a block and one between the blocks and the end: whoever lets the one pass may not the other."""
    begun = False
    for event in events:
        if event["type"] == "message_delta":
            yield _UNKNOWN
        yield event
        if event["type"] == "content_block_start" and not begun:
            begun = True
            yield _UNKNOWN


def _events(message: dict[str, JSON], seed: str) -> Iterator[dict[str, JSON]]:
    usage, content = message.get("usage"), message.get("content")
    counts = usage if isinstance(usage, dict) else {}
    known = {key: value for key, value in counts.items() if key in _KNOWN_AT_START}
    begun: dict[str, JSON] = {"output_tokens": seeded.number(seed, "begun", 1, 8)} if "output_tokens" in known else {}
    nothing_yet: dict[str, JSON] = {key: None for key in _AT_THE_END if key in message}
    yield {"type": "message_start", "message": {**message, **nothing_yet, "content": [], "usage": known | begun}}
    for index, block in enumerate(content if isinstance(content, list) else ()):
        if isinstance(block, dict):
            yield from _block(index, block, seed)
    # Each of the 37 recorded streams repeats the input's counts at the end.
    ended = {key: value for key, value in counts.items() if key in _CUMULATIVE or key not in known}
    yield {
        "type": "message_delta",
        "delta": {key: message[key] for key in _AT_THE_END if key in message},
        "usage": ended,
    }
    yield {"type": "message_stop"}


def _block(index: int, block: dict[str, JSON], seed: str) -> Iterator[dict[str, JSON]]:
    begun, deltas = _taken_apart(block, seed, f"block {index}")
    yield {"type": "content_block_start", "index": index, "content_block": begun}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _taken_apart(block: dict[str, JSON], seed: str, label: str) -> tuple[dict[str, JSON], Iterator[dict[str, JSON]]]:
    """What a block starts as, and its deltas. Results of server tools and blocks of another day start whole."""
    match block:
        case {"type": "text", "text": str(), "citations": list()}:
            return block | {"text": "", "citations": []}, _text(block, seed, label)
        case {"type": "text", "text": str()}:
            return block | {"text": ""}, _text(block, seed, label)
        case {"type": "thinking", "thinking": str(), "signature": str()}:
            return block | {"thinking": "", "signature": ""}, _thinking(block, seed, label)
        case {"type": str(kind), "input": value} if kind.endswith("tool_use"):
            return block | {"input": {}}, _input(value, seed, label)
        case _:
            return block, iter(())


def _text(block: dict[str, JSON], seed: str, label: str) -> Iterator[dict[str, JSON]]:
    citations = block.get("citations")
    for citation in citations if isinstance(citations, list) else ():
        yield {"type": "citations_delta", "citation": citation}
    for fragment in seeded.fragments(str(block["text"]), seed, label):
        yield {"type": "text_delta", "text": fragment}


def _thinking(block: dict[str, JSON], seed: str, label: str) -> Iterator[dict[str, JSON]]:
    for fragment in seeded.fragments(str(block["thinking"]), seed, label):
        yield {"type": "thinking_delta", "thinking": fragment}
    yield {"type": "signature_delta", "signature": block["signature"]}


def _input(value: JSON, seed: str, label: str) -> Iterator[dict[str, JSON]]:
    """The input as JSON text, which models spell with and without escapes. The first fragment is empty, and a call
    without arguments has that one or none (anthropic-stream-arguments). What is no JSON is text as it is."""
    if value == {}:
        fragments = [""] * seeded.number(seed, f"{label} empty", 0, 1)
    else:
        escaped = seeded.number(seed, f"{label} escaped", 0, 2) == 0
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=escaped)
        fragments = ["", *seeded.fragments(text, seed, label)]
    for fragment in fragments:
        yield {"type": "input_json_delta", "partial_json": fragment}
