"""What was said in a cell and what went over the wire, as reports show it: texts, without secrets, cut to a length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Speaker: TypeAlias = Literal["system", "user", "assistant", "tool"]
Saying: TypeAlias = Literal["text", "thinking", "refusal", "call", "result", "error", "media", "state"]


@dataclass(frozen=True, slots=True)
class Said:
    """One thing that was said in the words of the canonical contract.

    `chat` is the index of the chat that brought it into the conversation. `text` holds the arguments of a call and the
    content of a result as JSON; `name` and `id` are theirs. An `error` is what the adapter raised, or what a tool did.
    """

    chat: int
    by: Speaker
    what: Saying
    text: str
    name: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """One exchange: a request, and its response.

    `index` is that of the exchange in its cell, in an audit that of the interaction in its file, as findings have it.
    `sent` and `received` are the bodies as JSON, and a body that is none as a JSON text; those of a stream are the one
    body that it amounts to. `status` is `None` if no response came. `left_out` says that there was no room for the
    bodies.
    """

    index: int
    request: str
    sent: str | None = None
    status: int | None = None
    received: str | None = None
    streamed: bool = False
    chat: int | None = None
    left_out: bool = False


@dataclass(frozen=True, slots=True)
class Conversation:
    """What was said in a cell, and its exchanges. An audit, and a serving, know the exchanges only."""

    said: tuple[Said, ...] = ()
    exchanges: tuple[Sent, ...] = ()
