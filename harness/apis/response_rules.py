"""Rules that every response of a server must keep, and violations of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from harness.apis.view import RequestView
from harness.model.http import HttpResponse
from harness.model.messages import JSON


class Subject(StrEnum):
    """Subject of a scenario or rule. Reports group rules, and the differences between targets, by subject."""

    ID_MATCHING = "id-matching"
    SYSTEM_PROMPT = "system-prompt"
    JSON_MODE = "json-mode"
    TOOLS = "tools"
    HISTORY = "history"
    RESPONSES = "responses"
    LIMITS = "limits"
    REQUESTS = "requests"
    STREAMING = "streaming"
    ERRORS = "errors"
    EMBEDDINGS = "embeddings"


@dataclass(frozen=True, slots=True)
class ResponseRule:
    """A requirement on every response of a server, with a stable kebab-case `id`.

    `sentence` states the requirement, and `source` names its facts in all APIs.
    """

    id: str
    subject: Subject
    sentence: str
    source: str

    def make_violation(
        self, message: str, pointer: str = "", event: int | None = None, actual: JSON = None, expected: JSON = None
    ) -> ResponseViolation:
        """Return a violation of this rule."""
        return ResponseViolation(self, message, pointer, event, actual, expected)


@dataclass(frozen=True, slots=True)
class ResponseViolation:
    """A violation of a response rule.

    `pointer` leads into the body or, with an `event`, into the JSON of the event with this index.
    """

    rule: ResponseRule
    message: str
    pointer: str = ""
    event: int | None = None
    actual: JSON = None
    expected: JSON = None


ResponseCheck = Callable[[HttpResponse, RequestView], Iterator[ResponseViolation]]
"""Checks a response to a request. Never raises: an unreadable response is a violation."""

CONTENT_TYPE = ResponseRule(
    "server-content-type",
    Subject.RESPONSES,
    "The content type matches the body: JSON, or an event stream where the request asks for one.",
    "anthropic-stream-order, openai-chat-call-deltas, openai-responses-stream-order, gemini-chunks",
)
FRAMING = ResponseRule(
    "server-framing",
    Subject.STREAMING,
    "A stream consists of server-sent events: known fields, a blank line after each event, one JSON value in each.",
    "https://html.spec.whatwg.org/multipage/server-sent-events.html (read 2026-11-22)",
)
EVENTS = ResponseRule(
    "server-events",
    Subject.STREAMING,
    "The events of a stream have the names, the numbers and the order of the API, and nothing follows its end.",
    "anthropic-stream-order, openai-chat-call-deltas, openai-responses-stream-order, gemini-chunks",
)
END = ResponseRule(
    "server-end",
    Subject.STREAMING,
    "A stream ends as the API's do, so that clients can detect a truncated one.",
    "anthropic-stream-order, openai-chat-call-deltas, openai-responses-stream-order, gemini-chunks",
)
FIELDS = ResponseRule(
    "server-fields",
    Subject.RESPONSES,
    "An answer has the fields of every answer of the API, with their types: id, model, role, parts.",
    "anthropic-response-blocks, openai-chat-message-answer, openai-responses-stop-reasons, gemini-chunks",
)
CALL_ID = ResponseRule(
    "server-call-id",
    Subject.ID_MATCHING,
    "Each call has an id that is unique in the conversation and does not change while it is streamed.",
    "anthropic-call-fields, openai-chat-call-deltas, openai-responses-call-form, gemini-response-ids",
)
INDEX = ResponseRule(
    "server-index",
    Subject.STREAMING,
    "The indices of calls, blocks or items in a stream count from 0 and are unique.",
    "anthropic-stream-order, openai-chat-call-deltas, openai-responses-stream-order",
)
ARGUMENTS = ResponseRule(
    "server-arguments",
    Subject.TOOLS,
    "The arguments of a call are a JSON object in the form of the API: a text, or the object itself.",
    "anthropic-stream-arguments, openai-chat-call-form, openai-responses-call-form, gemini-function-call-form",
)
STOP_REASON = ResponseRule(
    "server-stop-reason",
    Subject.RESPONSES,
    "An answer has one stop reason, which is a word of the API and fits the answer.",
    "anthropic-stop-reasons, openai-chat-stop-reasons, openai-responses-stop-reasons, gemini-stop-reasons",
)
USAGE = ResponseRule(
    "server-usage",
    Subject.RESPONSES,
    "An answer has token counts: whole numbers, none negative, and a total that is the sum of its parts.",
    "anthropic-usage, openai-chat-usage, openai-chat-stream-usage, openai-responses-usage, gemini-usage",
)
ERROR_BODY = ResponseRule(
    "server-error-body",
    Subject.ERRORS,
    "A refusal is an error of the API, as JSON, with the reason as text.",
    "anthropic-error-body, openai-chat-error-body, openai-responses-stream-error, gemini-errors",
)
ERROR_STATUS = ResponseRule(
    "server-error-status",
    Subject.ERRORS,
    "An error before the answer has an HTTP status of 400 or more.",
    "anthropic-error-body, openai-chat-error-body, openai-responses-stream-error, gemini-errors",
)

RESPONSE_RULES: Mapping[str, ResponseRule] = {
    rule.id: rule
    for rule in (
        *(CONTENT_TYPE, FRAMING, EVENTS, END, FIELDS, CALL_ID, INDEX),
        *(ARGUMENTS, STOP_REASON, USAGE, ERROR_BODY, ERROR_STATUS),
    )
}
"""Rules by id, in the order of reports."""
