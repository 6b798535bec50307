"""Traits and terms of an API, and the opaque state that its provider has issued."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from harness.apis.limits import Violation
from harness.apis.view import RequestView, ResponseView


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiTerms:
    """Words of one API for remedies; the defaults fit any API.

    `results` is the place of a turn's results, `failed` the mark of a failed tool, `state` the state that must come
    back unchanged, `end` the end of a complete stream.
    """

    system: str = "the field of the API that is made for it"
    call: str = "a call"
    call_id: str = "the id of the call"
    arguments: str = "the arguments of the call"
    result: str = "a result"
    result_id: str = "the call's id in the result"
    results: str = "the turn right after the calls"
    failed: str = "the words of the error"
    tools: str = "the declarations of tools"
    parameters: str = "the schema of the tool's parameters"
    choice: str = "the field for the tool choice"
    json: str = "the field for the form of the answer"
    state: str = "the opaque state of the answer"
    stop: str = "the reason why the model stopped"
    usage: str = "the token counts"
    stream: str = "the API's way of asking for a stream"
    end: str = "the event that ends the stream"

    def fill(self, remedy: str) -> str:
        """Replace placeholders such as `{system}` in a remedy by this API's terms."""
        return remedy.format_map(asdict(self)) if "{" in remedy else remedy


Framing: TypeAlias = Literal["byte-order-mark", "comments"]
"""Legal contents of an event stream besides its events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Differences of an API from others.

    `calls_apart`: a message has one field for text and one for calls, without an order between them.
    `flags_errors`: a result has a field for the failure of its tool. Elsewhere the model gets only the error's text.
    `ids_optional`: a call may go back without an id. Elsewhere it is refused (anthropic-call-fields,
    openai-chat-call-form, openai-responses-call-form).
    `one_turn_for_results`: results of parallel calls in several turns are accepted and do harm. Elsewhere they are
    refused (gemini-responses-counted), or each result is an entry.
    `stop_reason_may_end`: the official SDK accepts a stream with a stop reason and without its last event
    (anthropic-stream-cut-unnoticed).
    `counts_when_asked`: a stream counts its tokens only on request (openai-chat-stream-usage).
    `schema_by_tool`: released libraries request a JSON schema by a forced tool.
    `files_are_pdf`: a file of the user is a PDF; the text of other files goes into a text part
    (openai-chat-file-inline-pdf).
    `strict_unless_told`: a tool without `strict` is strict if its schema can be (openai-responses-strict-default).
    `unread_framings`: framings that no recorded stream has and the official SDK cannot read.
    """

    calls_apart: bool = False
    flags_errors: bool = False
    ids_optional: bool = False
    one_turn_for_results: bool = False
    stop_reason_may_end: bool = False
    counts_when_asked: bool = False
    schema_by_tool: bool = False
    files_are_pdf: bool = False
    strict_unless_told: bool = False
    unread_framings: frozenset[Framing] = frozenset()


class IssuedState:
    """The opaque state that an API has issued in one conversation. This base class never objects.

    `foreign`: the conversation began elsewhere, with state that this provider did not issue here.
    """

    def __init__(self, *, foreign: bool) -> None:
        self.foreign = foreign

    def note(self, response: ResponseView) -> None:
        """Record the state in a response."""

    def objection(self, request: RequestView) -> Violation | None:  # noqa: ARG002 - others look at it
        """Return a violation if a request sends state back altered."""
        return None
