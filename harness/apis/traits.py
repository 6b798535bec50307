"""In what an API is unlike others, where rules look at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Framing: TypeAlias = Literal["byte-order-mark", "comments"]
"""What is legal in an event stream beside its events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Each is named for what is so where it is set.

    `calls_apart`: a message has a field for its text and one for its calls, and so no order between them.
    `flags_errors`: a result has a field that says that its tool failed. Elsewhere the words of the error are all that a
    model gets.
    `ids_optional`: a call may go back without an id. Elsewhere none is taken (anthropic-call-fields,
    openai-chat-call-form, openai-responses-call-form).
    `one_turn_for_results`: the results of parallel calls spread over turns are taken and do harm. Elsewhere they are
    refused (gemini-responses-counted), or each is an entry of its own.
    `stop_reason_may_end`: the official SDK takes a stream that has its stop reason and not its last event
    (anthropic-stream-cut-unnoticed), and no captured stream shows what the service means by it.
    `counts_when_asked`: the tokens of a stream are counted only if the request says so (openai-chat-stream-usage).
    `schema_by_tool`: a JSON schema is asked for by a tool that has to be called, as released libraries do.
    `files_are_pdf`: a file of the user is a PDF; the text of another file goes into a text part
    (openai-chat-file-inline-pdf).
    `strict_unless_told`: a tool that does not say whether it is strict is, where its schema can be
    (openai-responses-strict-default).
    `unread_framings`: what no recorded stream of the API has and its official SDK cannot read.
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


PLAIN = Traits()
"""Of an API that is unlike others in none of this."""
