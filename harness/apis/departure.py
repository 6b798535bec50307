"""Where an answer departs from what its API promises, as values: a promise, and a departure from one.

Each wire package reads its own answers strictly in `promises`; `read` folds whatever can be understood, and says
nothing of the rest. A server is judged by this, an adapter never is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from harness.apis.view import RequestView
from harness.contract.http import HttpResponse
from harness.contract.model import JSON
from harness.scenarios.schema import Subject


@dataclass(frozen=True, slots=True)
class Promise:
    """What every answer of a server has to keep to, with a stable kebab-case `id`.

    `sentence` says what must hold, `source` names the facts that say so, of all APIs.
    """

    id: str
    subject: Subject
    sentence: str
    source: str

    def broken(
        self,
        message: str,
        pointer: str = "",
        event: int | None = None,
        actual: JSON = None,
        expected: JSON = None,
    ) -> Departure:
        """A departure from this promise."""
        return Departure(self, message, pointer, event, actual, expected)


@dataclass(frozen=True, slots=True)
class Departure:
    """A promise that an answer breaks.

    `pointer` leads into the body; where there is an `event`, the index of one in a stream, into the JSON of that.
    """

    promise: Promise
    message: str
    pointer: str = ""
    event: int | None = None
    actual: JSON = None
    expected: JSON = None


Strictly = Callable[[HttpResponse, RequestView], Iterator[Departure]]
"""Reads an answer to a request strictly. Never raises: what cannot be read is a departure."""

CONTENT_TYPE = Promise(
    "server-content-type",
    Subject.RESPONSES,
    "The content type says what the body is: JSON, or an event stream where one was asked for.",
    "anthropic-stream-order, openai-chat-call-deltas, openai-responses-stream-order, gemini-chunks",
)
FRAMING = Promise(
    "server-framing",
    Subject.STREAMING,
    "A stream is server-sent events: fields that the grammar has, a blank line behind each, one JSON value in each.",
    "https://html.spec.whatwg.org/multipage/server-sent-events.html (read 2026-11-22)",
)
EVENTS = Promise(
    "server-events",
    Subject.STREAMING,
    "The events of a stream have the names, the numbers and the order of the API, and nothing stands behind its end.",
    "anthropic-stream-order, openai-chat-call-deltas, openai-responses-stream-order, gemini-chunks",
)
END = Promise(
    "server-end",
    Subject.STREAMING,
    "A stream ends as the API's do, so that a cut can be told from an end.",
    "anthropic-stream-order, openai-chat-call-deltas, openai-responses-stream-order, gemini-chunks",
)
FIELDS = Promise(
    "server-fields",
    Subject.RESPONSES,
    "An answer has the fields that each one of the API has, of their types: its id, its model, its role, its parts.",
    "anthropic-response-blocks, openai-chat-message-answer, openai-responses-stop-reasons, gemini-chunks",
)
CALL_ID = Promise(
    "server-call-id",
    Subject.ID_MATCHING,
    "Each call has an id, which no other call of the conversation has, and which stays as it is while it is streamed.",
    "anthropic-call-fields, openai-chat-call-deltas, openai-responses-call-form, gemini-response-ids",
)
INDEX = Promise(
    "server-index",
    Subject.STREAMING,
    "What a stream is put together by, the index of each call, block or item, counts them from 0 and tells them apart.",
    "anthropic-stream-order, openai-chat-call-deltas, openai-responses-stream-order",
)
ARGUMENTS = Promise(
    "server-arguments",
    Subject.TOOLS,
    "The arguments of a call are a JSON object, in the form that the API has: a text, or the object itself.",
    "anthropic-stream-arguments, openai-chat-call-form, openai-responses-call-form, gemini-function-call-form",
)
STOP_REASON = Promise(
    "server-stop-reason",
    Subject.RESPONSES,
    "An answer says once why the model stopped, in a word of the API that fits what the answer has.",
    "anthropic-stop-reasons, openai-chat-stop-reasons, openai-responses-stop-reasons, gemini-stop-reasons",
)
USAGE = Promise(
    "server-usage",
    Subject.RESPONSES,
    "An answer counts its tokens, in whole numbers of which none is negative, and a total is the sum of its parts.",
    "anthropic-usage, openai-chat-usage, openai-chat-stream-usage, openai-responses-usage, gemini-usage",
)
ERROR_BODY = Promise(
    "server-error-body",
    Subject.ERRORS,
    "What the server refuses it says in the API's own error, as JSON, with words that say why.",
    "anthropic-error-body, openai-chat-error-body, openai-responses-stream-error, gemini-errors",
)
ERROR_STATUS = Promise(
    "server-error-status",
    Subject.ERRORS,
    "An error that comes before the answer comes with an HTTP status of 400 or more.",
    "anthropic-error-body, openai-chat-error-body, openai-responses-stream-error, gemini-errors",
)

PROMISES: Mapping[str, Promise] = {
    promise.id: promise
    for promise in (
        CONTENT_TYPE,
        FRAMING,
        EVENTS,
        END,
        FIELDS,
        CALL_ID,
        INDEX,
        ARGUMENTS,
        STOP_REASON,
        USAGE,
        ERROR_BODY,
        ERROR_STATUS,
    )
}
"""All of them, in the order in which they are shown."""
