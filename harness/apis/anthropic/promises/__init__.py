"""Answers read strictly: where one departs from what the API promises. See `harness.apis.departure`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.apis.anthropic.promises.stream import streamed
from harness.apis.departure import ERROR_BODY, ERROR_STATUS, FIELDS, STOP_REASON, Departure
from harness.apis.jsonvalue import join
from harness.apis.strictly import (
    body_of,
    counts,
    error_in,
    identified,
    object_itself,
    text_at,
    typed_content,
    worded,
)
from harness.apis.view import RequestView
from harness.contract.http import HttpResponse
from harness.contract.model import JSON

_STOPS = frozenset(
    {
        "end_turn",
        "tool_use",
        "max_tokens",
        "model_context_window_exceeded",
        "stop_sequence",
        "refusal",
        "pause_turn",
    }
)


def departures(response: HttpResponse, request: RequestView) -> Iterator[Departure]:
    """Where an answer to a request departs from what the API promises."""
    whole = body_of(response)
    if response.status >= 400:
        yield from worded(response)
        yield from _error(response)
    elif whole is not None and whole.get("type") != "message" and whole.get("error") is not None:
        yield ERROR_STATUS.broken(f"an error comes with HTTP {response.status}", "/error", actual=whole["error"])
    elif request.stream:
        yield from typed_content(response, stream=True)
        folded = yield from streamed(response)
        if folded is not None:
            yield from _said(folded)
    else:
        yield from typed_content(response, stream=False)
        if whole is None:
            yield FIELDS.broken("the body is no JSON object")
            return
        yield from headed(whole)
        yield from _said(whole)


def _error(response: HttpResponse) -> Iterator[Departure]:
    body = error_in(response)
    error = body.get("error") if body is not None else None
    if body is None or not isinstance(error, dict):
        return  # which is said already
    if body.get("type") != "error":
        yield ERROR_BODY.broken("the body has not the type 'error'", "/type", actual=body.get("type"), expected="error")
    if not isinstance(error.get("type"), str):
        yield ERROR_BODY.broken("the error has no type", "/error/type", actual=error.get("type"))


def headed(message: Mapping[str, JSON], pointer: str = "", event: int | None = None) -> Iterator[Departure]:
    """Of the fields that a message begins with."""
    yield from text_at(message, "id", pointer, event=event)
    yield from text_at(message, "type", pointer, event=event, among={"message"})
    yield from text_at(message, "role", pointer, event=event, among={"assistant"})
    yield from text_at(message, "model", pointer, event=event)
    if not isinstance(message.get("content"), list):
        at = f"{pointer}/content"
        yield FIELDS.broken("the content is no list of blocks", at, event=event, actual=message.get("content"))


def _said(message: Mapping[str, JSON]) -> Iterator[Departure]:
    content, word = message.get("content"), message.get("stop_reason")
    blocks = content if isinstance(content, list) else []
    ids: list[JSON] = []
    for number, block in enumerate(blocks):
        pointer = join("/content", number)
        if not isinstance(block, dict):
            yield FIELDS.broken("a block is no object", pointer, actual=block)
            continue
        yield from text_at(block, "type", pointer)
        if block.get("type") == "text" and not isinstance(block.get("text"), str):
            yield FIELDS.broken("a block of text has none", f"{pointer}/text", actual=block.get("text"))
        if block.get("type") == "tool_use":
            yield from _call(block, pointer, ids, is_cut=word == "max_tokens")
    yield from _stop(word, calls=len(ids))
    usage = message.get("usage")
    yield from counts(usage, ("input_tokens", "output_tokens"), "/usage")
    read = usage.get("cache_read_input_tokens") if isinstance(usage, dict) else None
    if isinstance(usage, dict) and usage.get("input_tokens") == 0 and not read:
        yield from counts(usage, ("input_tokens",), "/usage", least={"input_tokens": 1})


def _call(block: dict[str, JSON], pointer: str, ids: list[JSON], *, is_cut: bool) -> Iterator[Departure]:
    yield from identified(block.get("id"), ids, f"{pointer}/id")
    yield from text_at(block, "name", pointer)
    if not is_cut:
        yield from object_itself(block.get("input"), f"{pointer}/input")


def _stop(word: JSON, *, calls: int) -> Iterator[Departure]:
    pointer = "/stop_reason"
    if word is None:
        yield STOP_REASON.broken("the answer does not say why it stopped", pointer)
    elif not isinstance(word, str) or word not in _STOPS:
        yield STOP_REASON.broken("the API has no such stop reason", pointer, actual=word)
    elif word in ("end_turn", "stop_sequence") and calls:
        said = "the answer has calls, and says that it stopped without"
        yield STOP_REASON.broken(said, pointer, actual=word, expected="tool_use")
    elif word == "tool_use" and not calls:
        yield STOP_REASON.broken("the answer says that it stopped for calls, and has none", pointer, actual=word)
