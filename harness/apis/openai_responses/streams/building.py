"""A whole body → the events in which the API would have streamed it (openai-responses-stream-order), each as recorded
traffic has it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, groupby
from typing import TypeAlias

from harness.apis.eventstream import written
from harness.apis.openai_responses.requests.items import item_kind, string
from harness.apis.openai_responses.responses.building import build
from harness.apis.openai_responses.responses.dialects import OPENAI, Dialect, dialect_of
from harness.apis.openai_responses.streams import FIELDS, TERMINAL, TEXTS
from harness.apis.profile import Profile
from harness.apis.seeded import fragments, number, signature, token
from harness.apis.view import ModelStep, RequestView
from harness.contract.http import HttpResponse
from harness.contract.model import JSON
from harness.scenarios.schema import Provocation

Fields: TypeAlias = dict[str, JSON]

_UNKNOWN_YET = ("completed_at", "error", "incomplete_details", "usage")
"""Fields of a response that are null until it has ended."""

_STRINGS = {"function_call": "response.function_call_arguments", "custom_tool_call": "response.custom_tool_call_input"}
"""Type of an item → the family of the events that bring its one long string."""

_LISTS = {
    "content": ("response.content_part", "content_index"),
    "summary": ("response.reasoning_summary_part", "summary_index"),
}
"""List of an item → the family of the events that open and close its parts, and what counts them."""

_PARTS = {(where, kind): (family, key) for family, (where, kind, key) in TEXTS.items()}


def build_stream(step: ModelStep, seed: str, model: str, profile: Profile, request: RequestView) -> HttpResponse:
    """What `build` says, as a stream. One that pauses has no end, since the API has none for it.

    Calls come one after another, as in every recording; where the step's provocations ask for it all are opened first,
    and then their events come as it happens, each with the index of its item.
    """
    del request  # whatever it asks for, the stream says all that the body does
    body = build(step, seed, model, profile)
    at_once = Provocation.INTERLEAVED_CALLS in step.provocations
    return _stream(streamed(body, seed, dialect_of(profile), at_once=at_once))


def stream_of(body: Fields, seed: str, profile: Profile, _request: RequestView) -> HttpResponse:
    """A whole body as a stream."""
    return _stream(streamed(body, seed, dialect_of(profile)))


def _stream(body: bytes) -> HttpResponse:
    return HttpResponse(200, {"content-type": "text/event-stream; charset=utf-8"}, body)


def streamed(body: Fields, seed: str, dialect: Dialect = OPENAI, *, at_once: bool = False) -> bytes:
    """The stream that folds to `body`; `at_once` says whether calls are open together."""
    sent: list[bytes] = []
    for index, (kind, fields) in enumerate(_events(body, seed, dialect, at_once=at_once)):
        event: Fields = {"type": kind, **fields}
        if kind.endswith(".delta"):
            event["obfuscation"] = token(seed, f"padding {index}", number(seed, f"padding of {index}", 1, 16))
        if dialect.numbered:
            event["sequence_number"] = index
        sent.append(written(event, kind))
    return b"".join([*sent, b"data: [DONE]\n\n" if dialect.sentinel else b""])


def _events(body: Fields, seed: str, dialect: Dialect, *, at_once: bool) -> Iterator[tuple[str, Fields]]:
    begun = {**body, **{key: None for key in _UNKNOWN_YET if key in body}, "status": "in_progress", "output": []}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    output = body.get("output")
    items = [(index, item) for index, item in enumerate(output if isinstance(output, list) else ())]
    dicts = [(index, item) for index, item in items if isinstance(item, dict)]
    whole = body.get("status") == "completed"  # an answer that was cut off is cut off in its last item
    for is_call, run in groupby(dicts, lambda entry: item_kind(entry[1]) in _STRINGS):
        lanes = [_item(item, index, f"{seed} {index}") for index, item in run]
        yield from _woven(lanes, seed) if at_once and is_call and whole else chain.from_iterable(lanes)
    end = f"response.{body.get('status')}"
    if end in TERMINAL:
        yield end, {"response": body if dialect.repeats else {**body, "output": []}}


def _woven(lanes: list[Iterator[tuple[str, Fields]]], seed: str) -> Iterator[tuple[str, Fields]]:
    """Items that are open at once: all begin, in their order, then their events come as it happens."""
    for lane in lanes:
        yield next(lane)
    waiting, turn = list(lanes), 0
    while waiting:
        lane = waiting[number(seed, f"turn {turn}", 0, len(waiting) - 1)]
        event = next(lane, None)
        if event is None:
            waiting.remove(lane)
        else:
            yield event
        turn += 1


def _item(item: Fields, index: int, seed: str) -> Iterator[tuple[str, Fields]]:
    kind = item_kind(item)
    family = _STRINGS.get(kind, "")
    key = FIELDS.get(family, "")
    written_out = isinstance(item.get(key), str)
    lists = [where for where in _LISTS if isinstance(item.get(where), list)] if kind in ("message", "reasoning") else []
    begun: Fields = {**item, **{where: [] for where in lists}}
    if "status" in item:
        begun["status"] = "in_progress"
    if written_out:
        begun[key] = ""
    if item.get(
        "encrypted_content"
    ):  # each event encrypts the state anew, and the first may lack some of it (openai-responses-reasoning-back)
        begun["encrypted_content"] = signature(seed, "unfinished", 120)
    place: Fields = {"output_index": index}
    yield "response.output_item.added", {"item": begun, **place}
    place = {"item_id": item.get("id"), **place}
    for where in lists:
        yield from _list(item[where], where, place, seed)
    if written_out:
        yield from _text(family, key, item, place, seed)
    yield "response.output_item.done", {"item": item, "output_index": index}


def _list(parts: JSON, where: str, place: Fields, seed: str) -> Iterator[tuple[str, Fields]]:
    family, counter = _LISTS[where]
    for index, part in enumerate(parts if isinstance(parts, list) else ()):
        if not isinstance(part, dict):
            continue
        here: Fields = {**place, counter: index}
        texts, key = _PARTS.get((where, str(part.get("type"))), ("", ""))
        said = isinstance(part.get(key), str)
        begun: Fields = {**part, key: ""} if said else {**part}
        if "annotations" in part:
            begun["annotations"] = []
        yield f"{family}.added", {**here, "part": begun}
        if said:
            yield from _text(texts, key, part, here, f"{seed} {where} {index}")
        yield f"{family}.done", {**here, "part": part}


def _text(family: str, key: str, holder: Fields, place: Fields, seed: str) -> Iterator[tuple[str, Fields]]:
    """The pieces of a string and the whole of it, without which a call does that was cut off."""
    text = string(holder.get(key)) or ""
    logprobs: Fields = {"logprobs": []} if family == "response.output_text" else {}
    for piece in fragments(text, seed, key):
        yield f"{family}.delta", {**place, "delta": piece, **logprobs}
    if holder.get("status") not in ("incomplete", "in_progress"):
        yield f"{family}.done", {**place, key: text, **logprobs}
