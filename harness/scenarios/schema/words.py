"""The closed vocabularies of a scenario."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias


class Subject(StrEnum):
    """What a scenario is about, and what rules and difference tables are grouped by."""

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


class Provocation(StrEnum):
    """What no provider was recorded doing, though its documents or the grammar of its streams allow it. A scenario has
    to ask for it: official SDKs break on some of it, and then it hides whatever else there is to find.

    `interleaved-calls`: the pieces of parallel calls come in turns (OpenAI's two APIs give each piece an index, and
    every recording has one call behind the other). `unknown-events`: events of a type that nobody knows (Anthropic
    documents that new ones may come, and that clients are to let them pass). `raw-line-separators`: U+2028, U+2029 and
    U+0085 stand in the JSON as they are, where readers that know lines of Unicode break it (no recording has one).
    `empty-arguments`: the arguments of a call without arguments are an empty text instead of `{}`, whole and streamed;
    servers like OpenAI's Chat API were recorded sending it (openai-chat-no-arguments).
    """

    INTERLEAVED_CALLS = "interleaved-calls"
    UNKNOWN_EVENTS = "unknown-events"
    RAW_LINE_SEPARATORS = "raw-line-separators"
    EMPTY_ARGUMENTS = "empty-arguments"


Variant: TypeAlias = Literal["whole", "stream"]
"""How an answer comes: as one body, or streamed."""

ErrorName: TypeAlias = Literal[
    "iteration-limit",
    "unsupported",
    "malformed-response",
    "connection-failed",
    "invalid-request",
    "authentication-failed",
    "billing-failed",
    "permission-denied",
    "not-found",
    "timed-out",
    "conflict",
    "request-too-large",
    "rate-limited",
    "overloaded",
    "server-error",
]
"""The classes of `harness.contract.errors` by which a turn can end."""
