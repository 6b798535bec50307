"""What compatible servers do otherwise than OpenAI, named, so that the reference server can speak like them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from harness.apis.openai_chat.limits import MISTRAL
from harness.apis.profile import Profile
from harness.contract.model import JSON


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way to speak. As it stands it is OpenAI's.

    `ids`: calls have theirs, a short one, an empty one, or none. `repeats`: id, type and name are in every piece of a
    call. `later`: what later pieces have in their place: nothing, empty strings, or a new id and an empty name.
    `whole`: a call is one piece, with all its arguments. `opens_with_arguments`: the piece that opens a call has the
    first of its arguments, which are empty there otherwise. `first_index`: where the calls of a stream are counted
    from; `None`: they have no index. `one_index`: all calls of an answer have the first. `no_arguments`: how a call
    without arguments says so. `usage`: a stream counts its tokens in a chunk of its own if asked, in every chunk as far
    as they are known, or never. `comments`: the stream is kept alive by comments.
    """

    ids: Literal["issued", "short", "empty", "absent"] = "issued"
    repeats: bool = False
    later: Literal["arguments", "blanks", "new-ids"] = "arguments"
    whole: bool = False
    opens_with_arguments: bool = False
    first_index: int | None = 0
    one_index: bool = False
    no_arguments: str = "{}"
    usage: Literal["asked", "early", "never"] = "asked"
    comments: bool = False


OPENAI = Dialect()

DIALECTS: Mapping[str, Dialect] = {
    "empty-ids": Dialect(ids="empty"),  # Gemini's compatible endpoint
    "no-ids": Dialect(ids="absent"),
    "repeated-ids": Dialect(repeats=True),  # openai-chat-call-deltas, seen at OpenRouter
    "whole-calls": Dialect(whole=True),  # openai-chat-call-deltas, seen at Mistral, Groq and Ollama
    "index-from-one": Dialect(first_index=1),  # openai-chat-call-deltas
    "no-index": Dialect(first_index=None),  # openai-chat-call-deltas
    "one-index": Dialect(one_index=True),  # openai-chat-id-per-delta, seen at vLLM and SGLang
    "empty-strings": Dialect(later="blanks"),  # openai-chat-id-per-delta, seen at vLLM
    "id-per-piece": Dialect(later="new-ids"),  # openai-chat-id-per-delta, seen at vLLM
    "arguments-in-opening-piece": Dialect(opens_with_arguments=True),  # openai-chat-call-deltas
    "empty-arguments": Dialect(no_arguments=""),  # openai-chat-no-arguments, seen at Databricks
    "early-usage": Dialect(usage="early"),  # seen at Databricks
    MISTRAL: Dialect(ids="short", whole=True, usage="early"),  # nine characters; usage in the last chunk
    "no-usage": Dialect(usage="never"),
    "comments": Dialect(comments=True),  # seen at OpenRouter
}


def dialect_of(profile: Profile) -> Dialect:
    """The dialect that a profile names."""
    return OPENAI if profile.dialect is None else DIALECTS[profile.dialect]


def call_as(dialect: Dialect, call: JSON) -> JSON:
    """A tool call as the dialect has it."""
    if not isinstance(call, dict):
        return call
    spoken = dict(call)
    if dialect.ids == "short":
        spoken["id"] = str(call.get("id")).removeprefix("call_")[:9]
    elif dialect.ids == "empty":
        spoken["id"] = ""
    elif dialect.ids == "absent":
        spoken.pop("id", None)
    function = call.get("function")
    if isinstance(function, dict) and function.get("arguments") == "{}":
        spoken["function"] = {**function, "arguments": dialect.no_arguments}
    return spoken
