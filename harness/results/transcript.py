"""What is played: exchanges, chats, tools that ran, embeddings, and the transcript that holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from harness.apis.targets import Profile
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import JSON, ChatRequest, ChatResponse, StreamEvent, ToolCall, ToolResult
from harness.contract.protocols import Capability
from harness.host.exceptions import Origin
from harness.scenarios.schema import Scenario, Variant

Mode: TypeAlias = Literal["replay", "reference", "live", "record", "audit", "serve"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One HTTP request and its response.

    `response` is `None` if none came. `recorded` is the request of the cassette that this one was answered from, in
    replay; `chat` the index of the chat that sent it, `None` in an audit. `at` is when it was noted, in seconds of a
    clock that only goes forward.
    """

    request: HttpRequest
    response: HttpResponse | None
    recorded: HttpRequest | None = None
    chat: int | None = None
    at: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Change:
    """An object of the caller that the adapter changed in place: where it is in the `ChatRequest`, and its values."""

    place: str
    before: JSON
    after: JSON


@dataclass(frozen=True, slots=True)
class Chat:
    """One question to the adapter and what it gave back: a response, or an error by class name and text.

    `turn` is the index of the user turn, `step` that of the answer in this turn. `events` are those of a streamed
    answer, also the ones before an error. `error` is the name of a class of `harness.contract.errors`, or, when
    `crashed`, of what else was raised, with its `traceback`; `origin` is what was raised first, where an error of the
    contract was made of another one; `status` and `retry_after` are those of a `ProviderError`.
    `limit_reached` says that the loop ended behind this chat, at its bound. `request` and `response` are what was given
    and returned, whatever the adapter has done to these objects since; `changes` are what it did to the request.
    """

    turn: int
    step: int
    request: ChatRequest
    response: ChatResponse | None = None
    error: str | None = None
    error_text: str | None = None
    crashed: bool = False
    limit_reached: bool = False
    events: tuple[StreamEvent, ...] = ()
    status: int | None = None
    retry_after: float | None = None
    traceback: str | None = None
    changes: tuple[Change, ...] = ()
    origin: Origin | None = None

    @property
    def raised(self) -> str:
        """The error with who raised it: `the library litellm raises ValueError (as MalformedResponse)`."""
        if self.origin is None:
            return f"the adapter raises {self.error}"
        became = "" if self.origin.error == self.error else f" (as {self.error})"
        return f"{self.origin.raiser} raises {self.origin.error}{became}"

    @property
    def words(self) -> str:
        """The line and the text of what was raised, as the end of a sentence."""
        if self.origin is None:
            return f": {self.error_text}"
        return f"{self.origin.line}: {self.origin.text if self.crashed else self.error_text}"


@dataclass(frozen=True, slots=True)
class Retelling:
    """A streamed cell played again with the same answers, told in another way.

    `variant` is `whole` if each stream came as the one body that it amounts to, `stream` if its bytes came in other
    pieces or another spelling. `way` says how, as the end of a sentence. `shape` names the chunks that it came in, if
    they are other ones (`harness.apis.api.StreamShape`). `printed` is as in `Transcript`.
    """

    way: str
    variant: Variant
    chats: tuple[Chat, ...]
    printed: str = ""
    shape: str = ""


@dataclass(frozen=True, slots=True)
class Embedded:
    """Texts that were given to an embedding provider, and its vectors or what it raised instead.

    `declared` is what the provider says of itself: its name, model and dimensions (`None`: it broke before that).
    `error` is the name of a class of `harness.contract.errors`, or, when `crashed`, of what else was raised, with its
    `traceback`. `refuses` says that the vectors to compare with were made by something else.
    """

    texts: tuple[str, ...]
    declared: tuple[str, str, int] | None
    vectors: tuple[tuple[float, ...], ...] | None = None
    error: str | None = None
    error_text: str | None = None
    crashed: bool = False
    refuses: bool = False
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class ToolExecution:
    """A tool that ran: `chat` is the index of the chat whose response called it.

    `unanswered` says that the scenario has no result for the call; the error result then says so.
    """

    chat: int
    call: ToolCall
    result: ToolResult
    unanswered: bool = False


@dataclass(frozen=True, slots=True)
class Transcript:
    """All that one playing of a cell produced.

    An audit has exchanges only: no scenario, no chats. `scripted` says that the answers follow the scenario's script
    (the reference server and its recordings), so that the script is an expectation. `unplayed` counts exchanges of the
    cassette that no request asked for; `stale` says that the scenario has changed since the cassette was recorded,
    `recorded_by` which adapter recorded it, `too_old` what is to be said if it is older than it may be. `capabilities`
    are the adapter's. `handled` is what a message handler was told of each turn, in the words of
    `harness.scenarios.events`. `printed` is what the adapter printed meanwhile, in a process of its own.
    """

    api: str
    model: str
    profile: Profile
    exchanges: tuple[Exchange, ...]
    mode: Mode
    adapter: str = ""
    variant: Variant = "whole"
    scenario: Scenario | None = None
    chats: tuple[Chat, ...] = ()
    executions: tuple[ToolExecution, ...] = ()
    scripted: bool = False
    unplayed: int = 0
    stale: bool = False
    recorded_by: str | None = None
    too_old: str | None = None
    retellings: tuple[Retelling, ...] = ()
    capabilities: frozenset[Capability] = frozenset()
    handled: tuple[tuple[str, ...], ...] = ()
    printed: str = ""


@dataclass(frozen=True, slots=True)
class EmbeddingTranscript(Transcript):
    """All that one playing of embeddings produced.

    There are no chats: `embedded` are the index and its queries, and the `chat` of an exchange is an index into these.
    """

    embedded: tuple[Embedded, ...] = ()


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """A request, by method and path, that a server has refused for what is around its chat, and why, as a sentence."""

    request: str
    reason: str
    answer: str = ""
    """The status and the words of the refusal."""


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A tool that a loop ran, with the arguments that it gave. `answers`: how many of the script's were given by
    then."""

    name: str
    arguments: dict[str, JSON]
    answers: int


@dataclass(frozen=True, slots=True)
class ServedTranscript(Transcript):
    """All that a client of the reference server has asked in one session.

    Nobody here has played the scenario, so there are no chats and no executions: the `chat` of an exchange is the index
    of the script's answer that it was given, `None` where it got another. `script` is how many answers the script has,
    `played` how many of them were given, `beside` how many requests were answered beside it. `ended` says that no more
    requests will come. `turned_away` are no exchanges, since nobody has looked at their chats. `profiles` are those of
    the models that were asked for beside `model`. `runs` are the tools that ran, as far as they were run here.
    """

    script: int = 0
    played: int = 0
    beside: int = 0
    ended: bool = True
    turned_away: tuple[TurnedAway, ...] = ()
    profiles: Mapping[str, Profile] = field(default_factory=dict[str, Profile])
    runs: tuple[ToolRun, ...] = ()


@dataclass(frozen=True, slots=True)
class DrivenTranscript(ServedTranscript):
    """All that came of a loop which was given a conversation (`harness.contract.loops`) and the base URL of a session.

    What it made of the answers nobody has seen but by what it sent next, and by the tools that it had run: `runs`.
    `failure` is what it raised, or how its process ended; `is_stopped`: that process ended in the middle, or had to be
    ended. `elsewhere` are its requests, in words, that were none of the API that it is said to speak.
    """

    failure: str | None = None
    is_stopped: bool = False
    elsewhere: tuple[str, ...] = ()


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
