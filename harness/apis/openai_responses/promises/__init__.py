"""Answers read strictly: where one departs from what the API promises. See `harness.apis.departure`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.apis.departure import ERROR_STATUS, FIELDS, STOP_REASON, Departure
from harness.apis.jsonvalue import join
from harness.apis.openai_responses.promises.stream import streamed
from harness.apis.strictly import (
    body_of,
    counts,
    identified,
    number_at,
    object_in,
    sums,
    text_at,
    typed_content,
    worded,
)
from harness.apis.view import RequestView
from harness.contract.http import HttpResponse
from harness.contract.model import JSON

_STATUSES = frozenset({"completed", "incomplete", "in_progress", "queued", "failed", "cancelled"})


def departures(response: HttpResponse, request: RequestView) -> Iterator[Departure]:
    """Where an answer to a request departs from what the API promises."""
    whole = body_of(response)
    if response.status >= 400:
        yield from worded(response)
    elif whole is not None and whole.get("error") is not None:
        yield ERROR_STATUS.broken(f"an error comes with HTTP {response.status}", "/error", actual=whole["error"])
    elif request.stream:
        yield from typed_content(response, stream=True)
        ended = yield from streamed(response)
        if ended is not None:
            yield from _answer(ended)
    else:
        yield from typed_content(response, stream=False)
        if whole is None:
            yield FIELDS.broken("the body is no JSON object")
        else:
            yield from _answer(whole)


def _answer(body: Mapping[str, JSON]) -> Iterator[Departure]:
    yield from text_at(body, "id")
    yield from text_at(body, "object", among={"response"})
    yield from text_at(body, "model")
    yield from number_at(body, "created_at", real=True)
    output, status = body.get("output"), body.get("status")
    if not isinstance(output, list):
        yield FIELDS.broken("the output is no list of items", "/output", actual=output)
        output = []
    ids: list[JSON] = []
    for number, item in enumerate(output):
        pointer = join("/output", number)
        if not isinstance(item, dict):
            yield FIELDS.broken("an item is no object", pointer, actual=item)
            continue
        yield from text_at(item, "type", pointer)
        if item.get("type") == "message":
            yield from _message(item, pointer)
        elif item.get("type") == "function_call":
            is_cut = status == "incomplete" and number == len(output) - 1
            yield from _call(item, pointer, ids, is_cut=is_cut)
    yield from _stop(body)
    names = ("input_tokens", "output_tokens", "total_tokens")
    yield from counts(body.get("usage"), names, "/usage", least={"input_tokens": 1})
    yield from sums(body.get("usage"), "total_tokens", names[:2], "/usage")


def _message(item: dict[str, JSON], pointer: str) -> Iterator[Departure]:
    yield from text_at(item, "id", pointer)
    yield from text_at(item, "role", pointer, among={"assistant"})
    content = item.get("content")
    if not isinstance(content, list):
        yield FIELDS.broken("the content of a message is no list of parts", f"{pointer}/content", actual=content)
        return
    for number, part in enumerate(content):
        at = join(f"{pointer}/content", number)
        if not isinstance(part, dict):
            yield FIELDS.broken("a part is no object", at, actual=part)
        elif part.get("type") == "output_text" and not isinstance(part.get("text"), str):
            yield FIELDS.broken("a part of text has none", f"{at}/text", actual=part.get("text"))


def _call(item: dict[str, JSON], pointer: str, ids: list[JSON], *, is_cut: bool) -> Iterator[Departure]:
    yield from identified(item.get("call_id"), ids, f"{pointer}/call_id", "call_id")
    yield from text_at(item, "name", pointer)
    if not is_cut:
        yield from object_in(item.get("arguments"), f"{pointer}/arguments")


def _stop(body: Mapping[str, JSON]) -> Iterator[Departure]:
    status, details = body.get("status"), body.get("incomplete_details")
    if not isinstance(status, str) or status not in _STATUSES:
        said = "the answer does not say its status" if status is None else "the API has no such status"
        yield STOP_REASON.broken(said, "/status", actual=status)
    elif status == "incomplete" and not (isinstance(details, dict) and details.get("reason")):
        said = "the answer is incomplete, and does not say why"
        yield STOP_REASON.broken(said, "/incomplete_details", actual=details)
    elif status in ("in_progress", "queued"):
        yield STOP_REASON.broken("the answer has ended, and says that it has not", "/status", actual=status)
