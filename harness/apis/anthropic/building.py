"""Answers of the reference server: whole messages, and the event streams that spell them out."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

from harness.apis import seeded
from harness.apis.api import StreamShape
from harness.apis.eventstream import events, written
from harness.apis.jsonvalue import loads
from harness.apis.profile import Profile
from harness.apis.view import ModelStep, RequestView
from harness.contract.http import HttpResponse
from harness.contract.model import JSON, StopReason
from harness.scenarios.schema import Provocation

_WORDS = {
    StopReason.END_TURN: "end_turn",
    StopReason.TOOL_USE: "tool_use",
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.STOP_SEQUENCE: "stop_sequence",
    StopReason.REFUSAL: "refusal",
    StopReason.PAUSE: "pause_turn",
}


_LEAST_CACHED = 1024
"""Tokens. Documented as the least of any model; some want more."""


def build(step: ModelStep, seed: str, model: str, profile: Profile) -> dict[str, JSON]:
    """The body of a response that says what `step` says. Ids, usage and signatures are functions of `seed`.

    A stop reason that this API has no word for goes out under its canonical name, as an unknown word would come.
    A call that is cut short has the parameters that were whole before: the API holds each one back until it is, and
    closes the JSON (anthropics/anthropic-sdk-python#794), so that what is there parses and is not what was meant.
    """
    stop = step.stop or _derived(step)
    refused = stop is StopReason.REFUSAL
    return {
        "model": model,
        "id": f"msg_01{seeded.token(seed, 'message', 22)}",
        "type": "message",
        "role": "assistant",
        "content": _content(step, seed),
        "stop_reason": _WORDS.get(stop, stop.value),
        "stop_sequence": "\n\nHuman:" if stop is StopReason.STOP_SEQUENCE else None,
        "stop_details": {"type": "refusal", "category": None, "explanation": step.refusal} if refused else None,
        "usage": _usage(step, seed, profile),
    }


def build_stream(step: ModelStep, seed: str, model: str, profile: Profile, _request: RequestView) -> HttpResponse:
    """The same answer as an event stream. The API streams in one way, whatever the request says."""
    return _stream(spell(build(step, seed, model, profile), seed, step.provocations))


def stream_of(body: dict[str, JSON], seed: str, _profile: Profile, _request: RequestView) -> HttpResponse:
    """A whole message as an event stream."""
    return _stream(spell(body, seed))


def _stream(body: bytes) -> HttpResponse:
    return HttpResponse(200, {"content-type": "text/event-stream; charset=utf-8"}, body)


def _derived(step: ModelStep) -> StopReason:
    if step.truncated:
        return StopReason.MAX_TOKENS
    if step.refusal is not None:
        return StopReason.REFUSAL
    return StopReason.TOOL_USE if step.calls else StopReason.END_TURN


def _content(step: ModelStep, seed: str) -> list[JSON]:
    content: list[JSON] = []
    if step.thinking is not None:
        signature = seeded.signature(seed, "thinking")
        content.append({"type": "thinking", "thinking": step.thinking, "signature": signature})
    content.extend(step.raw)
    if step.text:  # the API has no empty text block (anthropic-no-empty-text)
        content.append({"type": "text", "text": step.text})
    for index, (name, arguments) in enumerate(step.calls):
        cut_short = step.truncated and index == len(step.calls) - 1
        content.append(
            {
                "type": "tool_use",
                "id": f"toolu_01{seeded.token(seed, f'call {index}', 22)}",
                "name": name,
                "input": dict(islice(arguments.items(), len(arguments) // 2)) if cut_short else arguments,
                "caller": {"type": "direct"},
            }
        )
    return content


def _usage(step: ModelStep, seed: str, profile: Profile) -> dict[str, JSON]:
    """Counts that an adapter has to sum right: what the cache took or gave is not part of `input_tokens`.

    Only what is marked is cached, and only if it is long enough: written once, read when it comes again. None of the
    170 recorded answers counts any of it without a mark.
    """
    marked = step.prefix.marked if step.prefix.marked >= _LEAST_CACHED else 0
    written = 0 if step.prefix.again else marked
    thought = seeded.number(seed, "thought", 20, 200) if step.thinking is not None else 0
    usage: dict[str, JSON] = {
        "input_tokens": seeded.number(seed, "input", 40, 900),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": marked - written,
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        "output_tokens": thought + seeded.number(seed, "output", 10, 120),
        "service_tier": "standard",
        "inference_geo": "global",
    }
    if profile.thinking == "adaptive":  # the older models do not break their output down
        usage["output_tokens_details"] = {"thinking_tokens": thought}
    return usage


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
