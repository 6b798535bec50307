"""The neutral view: a wire request or response as the witness reads it, each fact with its JSON pointer.

The same vocabulary for all APIs, so that rules, comparisons and difference tables are written once. A pointer (RFC
6901) leads into the JSON body that the fact was read from; for a folded event stream, into the folded body.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from harness.contract.model import JSON, StopReason, Usage
from harness.scenarios.schema import Provocation


class WireError(Exception):
    """A body that is not of its API. `reason` is a sentence, `pointer` the place."""

    def __init__(self, reason: str, pointer: str = "") -> None:
        super().__init__(f"{pointer or '/'}: {reason}")
        self.reason = reason
        self.pointer = pointer


@dataclass(frozen=True, slots=True)
class TextView:
    """Text. `opaque` is state that sits on it and has to go back (Gemini's thoughtSignature)."""

    text: str
    pointer: str
    opaque: JSON = None


@dataclass(frozen=True, slots=True)
class MediaView:
    """An image, document or other medium, inline (`data`: decoded bytes) or by reference (`uri`)."""

    media_type: str | None
    pointer: str
    data: bytes | None = None
    uri: str | None = None


@dataclass(frozen=True, slots=True)
class JsonView:
    """A JSON value that travels as such, not inside a string (Gemini's functionResponse.response)."""

    value: JSON
    pointer: str


@dataclass(frozen=True, slots=True)
class CallView:
    """A tool call. `id` is what pairs it with its result, or `None` where the wire has none.

    `arguments` is the parsed value, whatever its type. `malformed` holds the raw text if it is no JSON, or if the
    answer may have ended before it was whole: nobody may make such a call. `item_id` is a second id of the carrying
    item (Responses `fc_…`). `opaque` is state that sits on the call (thoughtSignature).
    """

    id: str | None
    name: str
    arguments: JSON
    pointer: str
    id_pointer: str
    arguments_pointer: str
    malformed: str | None = None
    item_id: str | None = None
    opaque: JSON = None


ErrorMark: TypeAlias = Literal["flag", "error-key", "error-text"]
"""How a result says that it is an error: a field of its own, an `error` key in a JSON payload, words in its text."""


@dataclass(frozen=True, slots=True)
class ResultView:
    """A tool result. `call_id` and `name` are what the wire carries (`None`: the wire has none).

    `payload` is the content in order; `error_mark` says how an error is marked, `None` if it is not.
    """

    call_id: str | None
    name: str | None
    payload: tuple[TextView | MediaView | JsonView | OpaqueView, ...]
    pointer: str
    id_pointer: str
    error_mark: ErrorMark | None = None


@dataclass(frozen=True, slots=True)
class OpaqueView:
    """A part that has no type here, or opaque state that has to go back as it came.

    `kind` is the wire's own word (`thinking`, `redacted_thinking`, `reasoning`, `server_tool_use`, …), but for two that
    every API has for what is shown to people: `refusal`, of which `raw` is the words or has them under that name, and
    `thought`. `returns`: the API is known to take it back; of an answer it may also be something that is only shown.
    `labels`: fields of `raw` that carry no state, such as a name for the part. `signature`: state inside of `raw` that
    also counts where it stands on a part beside it.
    """

    kind: str
    raw: JSON
    pointer: str
    returns: bool = True
    labels: frozenset[str] = field(default=frozenset(), compare=False)
    signature: JSON = field(default=None, compare=False)


PartView: TypeAlias = TextView | MediaView | CallView | ResultView | OpaqueView


@dataclass(frozen=True, slots=True)
class TurnView:
    """One entry of the conversation as the wire has it. `wire_role` is the wire's own word for `role`.

    On Responses every input item is an entry; on Chat every tool message is one, with role `user`.
    """

    role: Literal["user", "assistant"]
    parts: tuple[PartView, ...]
    pointer: str
    wire_role: str


@dataclass(frozen=True, slots=True)
class SystemView:
    """System text. `place` is `system`, `instructions`, `systemInstruction`, or `message:<role>`; `before_turn` is the
    number of turns that stand before it (0: at the start)."""

    text: str
    place: str
    pointer: str
    before_turn: int = 0


@dataclass(frozen=True, slots=True)
class ToolView:
    """A tool declaration. `parameters` is the schema as the wire has it (`None`: absent); `dialect` says which language
    it is in. Server tools have `parameters=None` and their wire type in `kind`."""

    name: str
    description: str | None
    parameters: JSON
    pointer: str
    dialect: Literal["json-schema", "openapi"] = "json-schema"
    strict: bool | None = None
    kind: str = "function"


@dataclass(frozen=True, slots=True)
class ChoiceView:
    """A tool choice. `mode` is canonical; `other` is one without a canonical word.

    `name` is the one tool of `named`, `allowed` the tools to which `auto` and `required` are kept (`None`: to none).
    """

    mode: Literal["auto", "none", "required", "named", "other"]
    pointer: str
    name: str | None = None
    allowed: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class FormatView:
    """How the request asks for JSON. `mechanism` is the wire field that does it."""

    kind: Literal["json", "json-schema"]
    mechanism: str
    pointer: str
    schema: JSON = None
    schema_pointer: str = ""
    dialect: Literal["json-schema", "openapi"] = "json-schema"
    strict: bool | None = None


@dataclass(frozen=True, slots=True)
class SettingView:
    """A value that steers the answer."""

    value: JSON
    pointer: str


def _no_settings() -> dict[str, SettingView]:
    return {}


@dataclass(frozen=True)
class RequestView:
    """A whole request.

    `settings` holds those of the canonical ones that the wire carries (max_tokens, temperature, top_p, stop, thinking),
    under canonical names, and what the contract has no name for if it is not as the API has it by itself: `answers`,
    how many are wanted of one question, and `one_call`, that a turn may not call several tools.
    `effort` is how much reasoning is asked for, in the words that all APIs share (`low`), or as a number of tokens; it
    stands somewhere in what `settings` has as thinking, or beside it.
    `stateful` names the field by which the request leans on state that the server keeps (previous_response_id …).
    `usage_pointer` is where a request has a stream count its tokens, which Chat alone wants to be asked for
    (openai-chat-stream-usage). `cache_marks` are the pointers of cache marks on tools and system prompt (`None`: the
    API has none). `stream_format` is the form of a streamed answer (Gemini gives an array unless `alt=sse` asks for
    events).
    """

    api: str
    model: str | None
    system: tuple[SystemView, ...]
    turns: tuple[TurnView, ...]
    tools: tuple[ToolView, ...] = ()
    tool_choice: ChoiceView | None = None
    response_format: FormatView | None = None
    settings: Mapping[str, SettingView] = field(default_factory=_no_settings)
    stream: bool = False
    stateful: str | None = None
    usage_pointer: str | None = None
    cache_marks: tuple[str, ...] | None = None
    stream_format: Literal["events", "json-array"] = "events"
    effort: SettingView | None = field(default=None, compare=False)

    @cached_property
    def calls(self) -> tuple[CallView, ...]:
        """All tool calls, in their order."""
        return tuple(part for turn in self.turns for part in turn.parts if isinstance(part, CallView))

    @cached_property
    def results(self) -> tuple[ResultView, ...]:
        """All tool results, in their order."""
        return tuple(part for turn in self.turns for part in turn.parts if isinstance(part, ResultView))


@dataclass(frozen=True, slots=True)
class ErrorView:
    """An error that a response carries, be it by status or inside HTTP 200.

    `meant` is the status that it stands for: the response's own, or inside HTTP 200 the one that its code comes with
    elsewhere (`None`: its code says nothing). `retry_after` is in seconds; `retry_after_rounded` is what `retry-after`
    says where a header of the API's own says it more exactly: who reads the standard's header alone waits as asked.
    """

    status: int
    message: str
    code: str | None = None
    meant: int | None = None
    retry_after: float | None = None
    retry_after_rounded: float | None = None


@dataclass(frozen=True)
class ResponseView:
    """A response, whole or folded from its event stream. `complete` is false for a stream without its end."""

    api: str
    parts: tuple[PartView, ...]
    stop_reason: StopReason
    raw_stop_reason: str | None
    usage: Usage
    model: str | None
    body: JSON
    streamed: bool = False
    complete: bool = True
    error: ErrorView | None = None

    @cached_property
    def calls(self) -> tuple[CallView, ...]:
        """The tool calls, in their order."""
        return tuple(part for part in self.parts if isinstance(part, CallView))

    @cached_property
    def text(self) -> str:
        """All text, joined without a separator."""
        return "".join(part.text for part in self.parts if isinstance(part, TextView))

    @property
    def refusal(self) -> str:
        """The model's own words for not answering, where the API keeps them apart from the text."""
        raws = [part.raw for part in self.parts if isinstance(part, OpaqueView) and part.kind == "refusal"]
        words = [raw.get("refusal") if isinstance(raw, dict) else raw for raw in raws]
        return "".join(each for each in words if isinstance(each, str))


@dataclass(frozen=True, slots=True)
class Prefix:
    """What of a request a provider may have cached, in tokens, roughly.

    `repeated`: what it has in common with the request before it, from its beginning on. `marked`: its tools and system
    prompt, if a cache mark stands on them; `again`: they are those of the request before.
    """

    repeated: int = 0
    marked: int = 0
    again: bool = False


@dataclass(frozen=True, slots=True)
class ModelStep:
    """What the reference server's model does in one answer, in neutral words. `raw` are wire parts put in verbatim,
    before the text. `truncated`: the answer reaches its bound in the middle of the last call's arguments.
    `provocations`: what its stream does that no provider was recorded doing. `prefix`: what of the request may come out
    of a cache. `served`: what the model calls itself, if not as it was asked."""

    text: str | None = None
    thinking: str | None = None
    calls: tuple[tuple[str, dict[str, JSON]], ...] = ()
    refusal: str | None = None
    stop: StopReason | None = None
    raw: tuple[JSON, ...] = ()
    truncated: bool = False
    provocations: frozenset[Provocation] = frozenset()
    prefix: Prefix = Prefix()
    served: str | None = None
