"""Promises of the API's servers: chunks that are whole responses (gemini-chunks), and where answers have what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.apis.departure import Departure
from harness.apis.gemini.responses import array_chunks, read
from harness.apis.promises import Grammar, Order, Promises, Sent, sent
from harness.apis.view import RequestView, WireError
from harness.contract.http import HttpResponse


class _Order(Order):
    grammar = Grammar(
        stable=("responseId",),
        finish="/candidates/0/finishReason",
        content=("/candidates/0/content/parts",),
    )

    def check(self, event: Sent) -> Iterator[Departure]:
        self.ended = self.ended or bool(self.stop or (event.data or {}).get("promptFeedback"))
        yield from ()


def _events(response: HttpResponse, request: RequestView) -> list[Sent]:
    """Return the chunks of a stream of events, or of a JSON array; of one that is not closed, those that came."""
    if request.stream_format == "events":
        return sent(response)
    try:
        chunks, _ = array_chunks(response.body)
    except (ValueError, WireError):  # it does not begin as an array does, or holds something else
        return []
    return [Sent(at, None, "", chunk) for at, chunk in enumerate(chunks)]


departures = Promises(
    file=Path(__file__).with_suffix(".yaml"),
    read=read,
    order=_Order,
    arguments=("functionCall", "args"),
    usage="/usageMetadata",
    total="totalTokenCount",
    parts=("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount"),
    error_code=True,
    events=_events,
)
"""Checks an answer to a request."""
