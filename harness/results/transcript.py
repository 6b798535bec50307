"""The transcript of a cell: exchanges, chats, tool runs and embeddings, and the conversation in the form that reports
show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from harness.apis.profiles import Profile
from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON, ChatRequest, ChatResponse, StreamEvent, ToolCall, ToolResult
from harness.model.protocols import Capability
from harness.platform.exceptions import ExceptionOrigin
from harness.scenarios.schema import Scenario, Variant

Mode: TypeAlias = Literal["replay", "reference", "live", "record", "audit", "serve"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """An HTTP request and its response.

    `response` is `None` if no response arrived. In replay, `recorded` is the matching request of the cassette. `chat`
    is the index of the chat that sent the request, or `None` in an audit. `at` is the time in seconds on a monotonic
    clock.
    """

    request: HttpRequest
    response: HttpResponse | None
    recorded: HttpRequest | None = None
    chat: int | None = None
    at: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class InPlaceChange:
    """An in-place change that the adapter made to one of the caller's objects: the path in the `ChatRequest`, and the
    values before and after.
    """

    place: str
    before: JSON
    after: JSON


@dataclass(frozen=True, slots=True)
class Chat:
    """A request to the adapter, and its result: a response, or an error by class name and text.

    `turn` is the index of the user turn, and `step` the index of the response in this turn. `events` holds the events
    of a streamed response, including those before an error. `error` is the name of a class of `harness.model.errors`.
    If `crashed` is set, it is the name of another exception, and `traceback` is set. `origin` describes the exception
    that caused the error. `status` and `retry_after` are those of a `ProviderError`. `limit_reached` is set if the loop
    ended after this chat because of its iteration limit. `request` and `response` show the original state, even if the
    adapter changed the objects later. `changes` lists its changes to the request.
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
    changes: tuple[InPlaceChange, ...] = ()
    origin: ExceptionOrigin | None = None

    @property
    def raised(self) -> str:
        """A clause with the error and the code that raised it: `the library litellm raises ValueError (as
        MalformedResponse)`.
        """
        if self.origin is None:
            return f"the adapter raises {self.error}"
        became = "" if self.origin.error == self.error_class else f" (as {self.error})"
        return f"{self.origin.raiser} raises {self.origin.error}{became}"

    @property
    def words(self) -> str:
        """The source line, if known, and the error message, to be appended to a sentence."""
        if self.origin is None:
            return f": {self.error_text}"
        text = self.origin.text if self.crashed or self._is_own_wording else self.error_text
        return f"{self.origin.line}: {text}"

    @property
    def error_class(self) -> str | None:
        """The name of the class that the code under test raised."""
        return self.origin.error if self.origin is not None and self._is_own_wording else self.error

    @property
    def _is_own_wording(self) -> bool:
        """Return whether the error is how `harness` understood an exception of a client that it recognised."""
        return self.error == Unsupported.__name__ and (self.error_text or "").startswith(RECOGNISED_CLIENT)


@dataclass(frozen=True, slots=True)
class ReplayVariant:
    """A streamed cell repeated with the same responses in another form.

    `variant` is `whole` if each stream was joined to one body, and `stream` if its bytes were sent in other chunks or
    another spelling. `way` is a phrase that describes the form. `shape` names the chunking, if it differs
    (`harness.apis.api.StreamShape`). `printed` is as in `Transcript`. `responses` are the streams in the other form.
    """

    way: str
    variant: Variant
    chats: tuple[Chat, ...]
    printed: str = ""
    shape: str = ""
    responses: tuple[HttpResponse, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class EmbeddingCall:
    """Texts given to an embedding provider, with its vectors or its exception.

    `declared` holds the provider's name, model and dimensions, or `None` if the provider failed before reporting them.
    `error` is the name of a class of `harness.model.errors`. If `crashed` is set, it is the name of another exception,
    and `traceback` is set. `refuses` is set if the index was made with another model, so that the query must be
    refused.
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
    """A tool run.

    `chat` is the index of the chat whose response contained the call. `unanswered` is set if the scenario has no result
    for the call; the tool then returned an error result that says so.
    """

    chat: int
    call: ToolCall
    result: ToolResult
    unanswered: bool = False


@dataclass(frozen=True, slots=True)
class Transcript:
    """The transcript of one run of a cell.

    In an audit it has only exchanges. `scripted` is set if the responses follow the scenario's script, so that the
    script is an expectation. `unplayed` counts unused exchanges of the cassette. `stale` is set if the scenario changed
    after the recording. `recorded_by` is the adapter that made the recording. `too_old` is a message if the recording
    exceeds its maximum age. `capabilities` are those of the adapter. `handled` holds the events that a message handler
    received in each turn, as in `harness.scenarios.canonical`. `printed` is the adapter's output, if it ran in another
    process.
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
    replay_variants: tuple[ReplayVariant, ...] = ()
    capabilities: frozenset[Capability] = frozenset()
    handled: tuple[tuple[str, ...], ...] = ()
    printed: str = ""

    @property
    def is_recognised_client(self) -> bool:
        """Return whether the code is a client without an adapter. Its name is then MODULE:ATTRIBUTE."""
        return ":" in self.adapter


@dataclass(frozen=True, slots=True)
class EmbeddingTranscript(Transcript):
    """The transcript of an embeddings cell.

    It has no chats. `embedded` holds the embedding of the index and of its queries. The `chat` of an exchange is an
    index into `embedded`.
    """

    embedded: tuple[EmbeddingCall, ...] = ()


@dataclass(frozen=True, slots=True)
class RejectedRequest:
    """A request that a server rejected for a reason unrelated to its chat: its method and path, and the reason."""

    request: str
    reason: str
    answer: str = ""
    """The status and error message of the response that rejected the request."""


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A tool that a loop ran, with its arguments.

    `answers` is the number of script responses sent before the run.
    """

    name: str
    arguments: dict[str, JSON]
    answers: int


@dataclass(frozen=True, slots=True)
class ServedTranscript(Transcript):
    """The requests that a client sent to the reference server in one session.

    The client ran the scenario, so there are no chats and no tool executions. The `chat` of an exchange is the index of
    the script's response that the client received, or `None` for another response. `script` is the number of responses
    in the script, `played` the number sent, and `beside` the number of requests that received another response. `ended`
    is set if no more requests will come. `rejected_requests` are not exchanges. `profiles` are those of requested
    models other than `model`. `runs` holds the tool runs that harness could observe.
    """

    script: int = 0
    played: int = 0
    beside: int = 0
    ended: bool = True
    rejected_requests: tuple[RejectedRequest, ...] = ()
    profiles: Mapping[str, Profile] = field(default_factory=dict[str, Profile])
    runs: tuple[ToolRun, ...] = ()


@dataclass(frozen=True, slots=True)
class DrivenTranscript(ServedTranscript):
    """The transcript of a tool loop that received a `harness.Conversation` and the base URL of a session.

    The loop's behaviour is visible in its requests and in `runs`. `failure` is its exception, or the way its process
    ended. `is_stopped` is set if the process ended early or was stopped, and `is_late` if that was because of its time
    limit. `elsewhere` describes requests to APIs other than the loop's own. `answers` has the answer that the loop
    returned for each turn, if it returns answers. It is `None` if it cannot be expressed as a response.
    """

    failure: str | None = None
    is_stopped: bool = False
    is_late: bool = False
    elsewhere: tuple[str, ...] = ()
    answers: tuple[ChatResponse | None, ...] = ()


Speaker: TypeAlias = Literal["system", "user", "assistant", "tool"]
RecordKind: TypeAlias = Literal["text", "thinking", "refusal", "call", "result", "error", "media", "state"]


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """A message or part of one, in canonical terms.

    `chat` is the index of the chat that added it. `text` holds the arguments of a call as JSON, or the content of a
    result. `name` and `id` are those of the call or result. For opaque state, `name` is its API. If `what` is `error`,
    the text is an exception of the adapter or the error result of a tool.
    """

    chat: int
    by: Speaker
    what: RecordKind
    text: str
    name: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class ExchangeRecord:
    """An exchange in the form that reports show.

    `index` is the index of the exchange in its cell, or of the interaction in its file, as in findings. `sent` and
    `received` are the bodies as JSON. A stream is shown as one body, and a body that is not JSON is shown as a JSON
    string. `status` is `None` without a response. `left_out` is set if the bodies exceeded the limit. `meaning` has the
    content of the request in neutral terms, as a JSON list: each entry has a label, a value and its pointer in `sent`
    (`harness.equivalence.request_meaning`). `stream` is the raw stream of a cell that did not pass.
    """

    index: int
    request: str
    sent: str | None = None
    status: int | None = None
    received: str | None = None
    streamed: bool = False
    chat: int | None = None
    left_out: bool = False
    meaning: str | None = None
    stream: str | None = None


@dataclass(frozen=True, slots=True)
class ConversationRecord:
    """The messages and exchanges of a cell. An audit and a served session have only exchanges."""

    said: tuple[MessageRecord, ...] = ()
    exchanges: tuple[ExchangeRecord, ...] = ()
