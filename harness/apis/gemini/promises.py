"""Answers read strictly: where one departs from what the API promises. See `harness.apis.departure`.

Keys are read as the API writes them, in camelCase.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.apis.departure import (
    END,
    ERROR_BODY,
    ERROR_STATUS,
    EVENTS,
    FIELDS,
    STOP_REASON,
    Departure,
)
from harness.apis.gemini.streams import array_chunks
from harness.apis.jsonvalue import join
from harness.apis.strictly import (
    DONE,
    Sent,
    body_of,
    counts,
    error_in,
    framing,
    identified,
    object_itself,
    sent,
    sums,
    text_at,
    typed_content,
    worded,
)
from harness.apis.view import RequestView, WireError
from harness.contract.http import HttpResponse
from harness.contract.model import JSON

_PARTS = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount")


def departures(response: HttpResponse, request: RequestView) -> Iterator[Departure]:
    """Where an answer to a request departs from what the API promises."""
    whole = body_of(response)
    if response.status >= 400:
        yield from worded(response)
        yield from _error(response)
    elif whole is not None and whole.get("error") is not None:
        yield ERROR_STATUS.broken(f"an error comes with HTTP {response.status}", "/error", actual=whole["error"])
    elif request.stream:
        is_array = request.stream_format == "json-array"
        yield from typed_content(response, stream=not is_array)
        yield from () if is_array else framing(response)
        yield from _streamed(_elements(response) if is_array else sent(response))
    else:
        yield from typed_content(response, stream=False)
        if whole is None:
            yield FIELDS.broken("the body is no JSON object")
            return
        yield from _chunk(whole, None, [])
        yield from _ended([whole], None)


def _error(response: HttpResponse) -> Iterator[Departure]:
    body = error_in(response)
    error = body.get("error") if body is not None else None
    if not isinstance(error, dict):
        return  # which is said already
    if error.get("code") != response.status:
        said = "the code of the error is not the status of the answer"
        yield ERROR_BODY.broken(said, "/error/code", actual=error.get("code"), expected=response.status)
    if not isinstance(error.get("status"), str):
        yield ERROR_BODY.broken("the error does not name its status", "/error/status", actual=error.get("status"))


def _elements(response: HttpResponse) -> list[Sent]:
    """The chunks of a stream that is a JSON array; of one that is not closed, those that came."""
    try:
        chunks, _ = array_chunks(response.body)
    except (ValueError, WireError):  # it does not begin as an array does, or holds something else
        return []
    return [Sent(at, None, "", chunk) for at, chunk in enumerate(chunks)]


def _streamed(came: Sequence[Sent]) -> Iterator[Departure]:
    """Each chunk is a whole response (gemini-chunks); the last one says why the answer stopped."""
    chunks: list[dict[str, JSON]] = []
    ids: list[JSON] = []
    flawed: set[str] = set()
    for event in came:
        if event.text == DONE:
            yield EVENTS.broken("the API has no such event", event=event.index, actual=DONE)
        if event.data is None:
            continue
        if event.data.get("error") is not None:
            said = "an error comes inside a stream whose status says that all is well"
            yield ERROR_STATUS.broken(said, "/error", event=event.index, actual=event.data["error"])
            return
        if _stopped(chunks) and _parts_of(event.data):
            said = "parts come behind the finish reason: clients have stopped reading"
            yield EVENTS.broken(said, "/candidates/0/content", event=event.index)
        chunks.append(event.data)
        for found in _chunk(event.data, event.index, ids):
            if found.message not in flawed:  # what is wrong with every chunk is said of the first
                flawed.add(found.message)
                yield found
    names = {text for chunk in chunks if isinstance(text := chunk.get("responseId"), str)}
    if len(names) > 1:
        yield FIELDS.broken("the chunks of one answer have several ids", "/responseId", actual=[*sorted(names)])
    yield from _ended(chunks, len(came) - 1 if came else None)


def _stopped(chunks: Sequence[Mapping[str, JSON]]) -> bool:
    return any((_candidate(chunk) or {}).get("finishReason") for chunk in chunks)


def _candidate(body: Mapping[str, JSON]) -> dict[str, JSON] | None:
    candidates = body.get("candidates")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    return first if isinstance(first, dict) else None


def _parts_of(body: Mapping[str, JSON]) -> list[JSON]:
    content = (_candidate(body) or {}).get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    return parts if isinstance(parts, list) else []


def _chunk(body: Mapping[str, JSON], event: int | None, ids: list[JSON]) -> Iterator[Departure]:
    """Of a whole answer, or one chunk. `ids` are those of the calls so far."""
    yield from text_at(body, "modelVersion", event=event)
    candidate = _candidate(body)
    content = candidate.get("content") if candidate else None
    if isinstance(content, dict):
        yield from text_at(content, "role", "/candidates/0/content", event=event, among={"model"})
    for number, part in enumerate(_parts_of(body)):
        pointer = join("/candidates/0/content/parts", number)
        if not isinstance(part, dict):
            yield FIELDS.broken("a part is no object", pointer, event=event, actual=part)
            continue
        if "text" in part and not isinstance(part["text"], str):
            yield FIELDS.broken("a part of text has none", f"{pointer}/text", event=event, actual=part["text"])
        call = part.get("functionCall")
        if isinstance(call, dict):
            yield from _call(call, f"{pointer}/functionCall", event, ids)


def _call(call: dict[str, JSON], pointer: str, event: int | None, ids: list[JSON]) -> Iterator[Departure]:
    """A call. It may have no id (gemini-response-ids), and no arguments."""
    yield from text_at(call, "name", pointer, event=event)
    if "id" in call:
        yield from identified(call["id"], ids, f"{pointer}/id", event=event)
    yield from object_itself(call.get("args", {}), f"{pointer}/args", event=event)


def _ended(chunks: Sequence[Mapping[str, JSON]], last: int | None) -> Iterator[Departure]:
    """How the answer ends, and what it took."""
    if not any(_candidate(chunk) or chunk.get("promptFeedback") for chunk in chunks):
        yield FIELDS.broken("there are no candidates", "/candidates")
        return
    if any(chunk.get("promptFeedback") for chunk in chunks):
        return
    reasons = [reason for chunk in chunks if (reason := (_candidate(chunk) or {}).get("finishReason")) is not None]
    pointer = "/candidates/0/finishReason"
    if not reasons:
        promise = STOP_REASON if last is None else END
        yield promise.broken(
            "the answer does not say why it stopped, so that a cut looks the same", pointer, event=last
        )
    elif not all(isinstance(reason, str) and reason.isupper() for reason in reasons):
        yield STOP_REASON.broken("the API has no such finish reason", pointer, event=last, actual=[*reasons])
    usage = chunks[-1].get("usageMetadata")
    needed = ("promptTokenCount", "totalTokenCount")
    yield from counts(usage, needed, "/usageMetadata", event=last, least={"promptTokenCount": 1})
    if isinstance(usage, dict):
        told = tuple(name for name in _PARTS if name in usage)
        yield from counts(usage, told[1:], "/usageMetadata", event=last)
        yield from sums(usage, "totalTokenCount", told, "/usageMetadata", event=last)
