"""The neutral view: a request or response as the wire reader reads it, with a JSON pointer for each part.

All APIs share it, so that rules and comparisons are written once. A pointer (RFC 6901) refers to a place in the JSON
body, or in the folded body of an event stream.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Literal, TypeAlias

from harness.model.messages import JSON, StopReason, Usage


class Provocation(StrEnum):
    """Unusual but valid behaviour that the reference server shows only on request.

    The documentation or the stream grammar allows it, but no recording of a provider contains it. Official SDKs fail on
    some of it, which would hide other findings. Each scenario therefore has to opt in.

    - `interleaved-calls`: chunks of parallel calls alternate. OpenAI's APIs number each chunk, but in recordings one
      call follows the other.
    - `unknown-events`: the stream has events of an unknown type, which clients have to ignore according to Anthropic.
    - `raw-line-separators`: the JSON has unescaped U+2028, U+2029 and U+0085. Readers that split text at these
      characters fail.
    - `empty-arguments`: the arguments of a call without arguments are an empty string instead of `{}`. Some servers
      with OpenAI's Chat API send this (openai-chat-no-arguments). So does OpenAI itself, on both of its APIs
      (openai-responses-no-arguments).
    - `signed-calls`: each parallel call has its own signature. Gemini documents a signature only on the first call, but
      clients have received more (diegosouzapw/OmniRoute#11669).
    - `repeated-ids`: call ids are unique only within a response. Gemini on Vertex repeats some of its short ids within
      a conversation (google/adk-python#6761, decolua/9router#4273).
    - `thinking-blocks`: a response has several reasoning parts, each with its own state. Anthropic documents this, also
      for redacted parts. Clients have joined the parts (topcheer/ggcode#228) or lost a redacted one
      (anomalyco/opencode#38614).
    - `text-blocks`: the text of a response comes in two parts, as the APIs document, mostly next to citations and
      provider tools. Clients have kept only the first (odysseus-dev/odysseus#1255).
    - `vectors-out-of-order`: vectors arrive in a different order than the texts, each with the index of its text.
      OpenAI numbers them and guarantees no order. Clients that rely on the position mix them up (getzep/graphiti#1732,
      pydantic/pydantic-ai#7284).
    - `rare-stop-words`: a response has a documented but rare stop reason, such as `model_context_window_exceeded`.
      Clients have treated it as a normal end (mozilla-ai/any-llm#1306).
    """

    INTERLEAVED_CALLS = "interleaved-calls"
    UNKNOWN_EVENTS = "unknown-events"
    RAW_LINE_SEPARATORS = "raw-line-separators"
    EMPTY_ARGUMENTS = "empty-arguments"
    SIGNED_CALLS = "signed-calls"
    REPEATED_IDS = "repeated-ids"
    THINKING_BLOCKS = "thinking-blocks"
    TEXT_BLOCKS = "text-blocks"
    VECTORS_OUT_OF_ORDER = "vectors-out-of-order"
    RARE_STOP_WORDS = "rare-stop-words"

    @property
    def is_of_streams(self) -> bool:
        """Return whether only streams can show it."""
        return self in (Provocation.INTERLEAVED_CALLS, Provocation.UNKNOWN_EVENTS, Provocation.RAW_LINE_SEPARATORS)


class WireError(Exception):
    """Error for a body that does not conform to its API. `reason` is a sentence, and `pointer` is the location."""

    def __init__(self, reason: str, pointer: str = "") -> None:
        super().__init__(f"{pointer or '/'}: {reason}")
        self.reason = reason
        self.pointer = pointer


@dataclass(frozen=True, slots=True)
class TextView:
    """Text. `opaque` is state of the text that must be sent back (Gemini's thoughtSignature)."""

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

    @staticmethod
    def inline(media_type: str | None, pointer: str, base64_text: str) -> MediaView | None:
        """Return a medium with its data, or `None` if the text is not base64."""
        try:
            return MediaView(media_type, pointer, data=base64.b64decode(base64_text, validate=True))
        except ValueError:  # binascii.Error, or non-ASCII text
            return None


@dataclass(frozen=True, slots=True)
class JsonView:
    """A JSON value that is not encoded in a string (Gemini's functionResponse.response)."""

    value: JSON
    pointer: str


@dataclass(frozen=True, slots=True)
class CallView:
    """A tool call.

    - `id`: pairs the call with its result; `None` if the call has no id.
    - `id_pointer`: empty if this form of call has no id.
    - `arguments`: the parsed value, of any JSON type.
    - `malformed`: the raw arguments if they are not JSON, or if the response may have ended early. Such a call must not
      run.
    - `item_id`: id of the item that contains the call (Responses).
    - `opaque`: state of the call that must be sent back (thoughtSignature).
    - `asynchronous`: the result may come in a later turn.
    - `free_form`: the call passes a text to a custom tool.
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
    asynchronous: bool = False
    free_form: bool = False


ErrorMark: TypeAlias = Literal["flag", "error-key", "error-text"]
"""Form of an error mark in a result: a field, an `error` key in a JSON payload, or words in its text."""


@dataclass(frozen=True, slots=True)
class ResultView:
    """A tool result. `call_id` and `name` are `None` if the wire has none.

    `payload` is the content in order; `error_mark` is the mark of an error, if any.
    """

    call_id: str | None
    name: str | None
    payload: tuple[TextView | MediaView | JsonView | OpaqueView, ...]
    pointer: str
    id_pointer: str
    error_mark: ErrorMark | None = None


@dataclass(frozen=True, slots=True)
class OpaqueView:
    """A part that has no view type of its own, or opaque state that must be sent back unchanged.

    - `kind`: type of the part on the wire, such as `thinking`, `redacted_thinking`, `reasoning` or `server_tool_use`.
      Two kinds are the same in every API: `refusal` and `thought`.
    - `raw`: value of the part. For a refusal, it is the text or an object with the text in `refusal`.
    - `returns`: the API accepts the part in later requests.
    - `labels`: fields of `raw` that may be left out, such as an id.
    - `signature`: state in `raw` that may also be sent back on a neighbouring part.
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
    """A conversation entry on the wire. `wire_role` is the role as the wire format spells it.

    In Responses, every input item is an entry. In Chat, every tool message is an entry with role `user`.
    """

    role: Literal["user", "assistant"]
    parts: tuple[PartView, ...]
    pointer: str
    wire_role: str


@dataclass(frozen=True, slots=True)
class SystemView:
    """System text. `place` is `system`, `instructions`, `systemInstruction`, or `message:<role>`. `before_turn` is the
    number of turns before it."""

    text: str
    place: str
    pointer: str
    before_turn: int = 0


def split_system(
    turns: Iterable[TurnView], roles: Collection[str]
) -> tuple[tuple[SystemView, ...], tuple[TurnView, ...]]:
    """Return the texts of turns with these roles, and the other turns. Parts other than text stay in a turn."""
    system: list[SystemView] = []
    others: list[TurnView] = []
    for turn in turns:
        if turn.wire_role in roles:
            texts = [part for part in turn.parts if isinstance(part, TextView)]
            place = f"message:{turn.wire_role}"
            system += [SystemView(text.text, place, text.pointer, len(others)) for text in texts]
            rest = tuple(part for part in turn.parts if not isinstance(part, TextView))
            others += [TurnView("user", rest, turn.pointer, turn.wire_role)] if rest else []
        else:
            others.append(turn)
    return tuple(system), tuple(others)


@dataclass(frozen=True, slots=True)
class ToolView:
    """A tool declaration. `parameters` is the schema on the wire (`None`: absent), in the language `dialect`. Server
    tools have `parameters=None` and their wire type in `kind`."""

    name: str
    description: str | None
    parameters: JSON
    pointer: str
    dialect: Literal["json-schema", "openapi"] = "json-schema"
    strict: bool | None = None
    kind: str = "function"


@dataclass(frozen=True, slots=True)
class ChoiceView:
    """A tool choice. `mode` is canonical; `other` is a mode that has no canonical name.

    `name` is the tool for the mode `named`. `allowed` lists the tools that `auto` and `required` allow (`None`: all).
    """

    mode: Literal["auto", "none", "required", "named", "other"]
    pointer: str
    name: str | None = None
    allowed: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class FormatView:
    """A requested JSON format. `mechanism` is the wire field that requests it."""

    kind: Literal["json", "json-schema"]
    mechanism: str
    pointer: str
    schema: JSON = None
    schema_pointer: str = ""
    dialect: Literal["json-schema", "openapi"] = "json-schema"
    strict: bool | None = None


@dataclass(frozen=True, slots=True)
class SettingView:
    """The value of a setting in a request, such as `temperature`."""

    value: JSON
    pointer: str


@dataclass(frozen=True, slots=True)
class MismatchView:
    """A request's setting for reasoning whose prefix has changed: refuse the request, or drop the reasoning."""

    treatment: Literal["refuses", "drops-reasoning"]
    pointer: str


@dataclass(frozen=True)
class RequestView:
    """A whole request.

    - `settings`: the canonical settings (max_tokens, temperature, top_p, stop, thinking). Two more are included if they
      differ from the default: `answers` (the number of answers) and `one_call` (at most one call per turn).
    - `effort`: the requested amount of reasoning, as a word that all APIs share (`low`) or in tokens.
    - `stateful`: name of the field that uses state of the server, such as `previous_response_id`.
    - `continues`: id of the response whose conversation the request continues, such as `previous_response_id`.
    - `usage_pointer`: pointer to the field that requests the token counts of a stream. Only Chat needs it
      (openai-chat-stream-usage).
    - `cache_marks`: pointers of cache marks on tools and system prompt (`None`: the API has none).
    - `stream_format`: the form of a streamed response (Gemini sends an array without `alt=sse`).
    - `included`: outputs that the API returns only on request, as named in the request (`None`: the API has none).
    """

    api: str
    model: str | None
    system: tuple[SystemView, ...]
    turns: tuple[TurnView, ...]
    tools: tuple[ToolView, ...] = ()
    tool_choice: ChoiceView | None = None
    response_format: FormatView | None = None
    settings: Mapping[str, SettingView] = field(default_factory=dict[str, SettingView])
    stream: bool = False
    stateful: str | None = None
    usage_pointer: str | None = None
    cache_marks: tuple[str, ...] | None = None
    stream_format: Literal["events", "json-array"] = "events"
    included: frozenset[str] | None = field(default=None, compare=False)
    effort: SettingView | None = field(default=None, compare=False)
    prefix_mismatch: MismatchView | None = field(default=None, compare=False)
    continues: str | None = None

    def renamed_tools(self, tools: Mapping[str, str]) -> dict[str, str]:
        """Map the expected names of tools to the different names under which the request declares them.

        `tools` maps the expected names to descriptions, by which the tools are recognised. An adapter may rename a tool
        whose name the API refuses.
        """
        declared = {tool.name for tool in self.tools}
        left = {name: description for name, description in tools.items() if name not in declared}
        return {name: tool.name for name, text in left.items() for tool in self.tools if tool.description == text}

    def with_names(self, names: Mapping[str, str]) -> RequestView:
        """Return the request with its tools renamed. `names` maps current names to new ones."""
        turns = (replace(turn, parts=tuple(_with_names(part, names) for part in turn.parts)) for turn in self.turns)
        tools = (replace(tool, name=names.get(tool.name, tool.name)) for tool in self.tools)
        return replace(self, turns=tuple(turns), tools=tuple(tools))

    @cached_property
    def calls(self) -> tuple[CallView, ...]:
        """Tool calls in their order."""
        return tuple(part for turn in self.turns for part in turn.parts if isinstance(part, CallView))

    @cached_property
    def results(self) -> tuple[ResultView, ...]:
        """Tool results in their order."""
        return tuple(part for turn in self.turns for part in turn.parts if isinstance(part, ResultView))

    @property
    def enables_reasoning(self) -> bool:
        """Return whether the request itself enables reasoning, or asks for reasoning in encrypted form."""
        found = self.settings.get("thinking")
        value = None if found is None else found.value
        words = [*value.values()] if isinstance(value, Mapping) else [value]
        is_off = any(each in ("disabled", "none", 0) for each in words)
        return (value is not None and not is_off) or "reasoning.encrypted_content" in (self.included or ())


@dataclass(frozen=True, slots=True)
class ErrorView:
    """An error in a response, sent with an error status or inside HTTP 200.

    `meant` is the status that the error corresponds to. It is the status of the response or, inside HTTP 200, the usual
    status of the error code (`None`: unknown). `retry_after` is in seconds. `retry_after_rounded` is the value of
    `retry-after` if another header of the API is more exact.
    """

    status: int
    message: str
    code: str | None = None
    meant: int | None = None
    retry_after: float | None = None
    retry_after_rounded: float | None = None


@dataclass(frozen=True, slots=True)
class ProviderReport:
    """A provider's statement about a request, contained in the response.

    - `effect`: `dropped` (a part of the request was withheld from the model), `tolerated` (a part failed a check, but
      was passed to the model) or `cache-missed` (the prompt cache could not be used).
    - `reason`: the provider's word for the cause, such as `prefix_mismatch`.
    - `pointer`: location of the statement in the response.
    - `part`: pointer to the part in the request, if the statement has one. `item_id` is the id of the part, if the
      statement identifies it by an id.
    - `tokens`: estimated number of input tokens that were not read from the cache.
    """

    effect: Literal["dropped", "tolerated", "cache-missed"]
    reason: str
    pointer: str
    part: str | None = None
    item_id: str | None = None
    tokens: int | None = None


@dataclass(frozen=True)
class ResponseView:
    """A response, whole or folded from its event stream. `complete` is false for a stream without its end.

    `reports` are the provider's statements about the request.
    """

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
    reports: tuple[ProviderReport, ...] = ()

    def with_names(self, names: Mapping[str, str]) -> ResponseView:
        """Return the response with its tools renamed. `names` maps current names to new ones."""
        return replace(self, parts=tuple(_with_names(part, names) for part in self.parts))

    @property
    def id(self) -> str | None:
        """The response's id, with which a later request may continue the conversation that the provider stores."""
        value = self.body.get("id") if isinstance(self.body, dict) else None
        return value if isinstance(value, str) else None

    @cached_property
    def calls(self) -> tuple[CallView, ...]:
        """Tool calls in their order."""
        return tuple(part for part in self.parts if isinstance(part, CallView))

    @cached_property
    def text(self) -> str:
        """Text, joined without a separator."""
        return "".join(part.text for part in self.parts if isinstance(part, TextView))

    @property
    def refusal(self) -> str:
        """The model's refusal text, if the API separates it from other text."""
        raws = [part.raw for part in self.parts if isinstance(part, OpaqueView) and part.kind == "refusal"]
        words = [raw.get("refusal") if isinstance(raw, dict) else raw for raw in raws]
        return "".join(each for each in words if isinstance(each, str))

    @property
    def reasoning(self) -> tuple[str, ...]:
        """The texts of the reasoning that the provider shows, such as the parts of a summary."""
        raws = [part.raw for part in self.parts if isinstance(part, OpaqueView) and part.kind in _REASONING]
        return tuple(text for raw in raws for text in _reasoning_texts(raw) if text.strip())


_REASONING = frozenset({"thinking", "reasoning", "thought"})


def _reasoning_texts(raw: JSON) -> Iterator[str]:
    match raw:
        case str():
            yield raw
        case list():
            for each in raw:
                yield from _reasoning_texts(each)
        case dict():
            for name in ("thinking", "text", "summary", "content"):
                yield from _reasoning_texts(raw.get(name))
        case _:
            pass


@dataclass(frozen=True, slots=True)
class Prefix:
    """Approximate token counts of the parts of a request that a provider may have cached.

    `repeated` counts the beginning that is equal to the beginning of an earlier request. `marked` counts the tokens up
    to the last cache mark. `marked_again` counts the tokens that can be read from the cache: those up to the last cache
    mark of an earlier request in the repeated beginning. A cache mark of this request must follow within a few blocks.
    """

    repeated: int = 0
    marked: int = 0
    marked_again: int = 0


@dataclass(frozen=True, slots=True)
class CacheDiagnosis:
    """Result of comparing a request with the request of an earlier response, for cache diagnostics.

    `is_named` is false if the request names no response, and `is_known` if no response has the requested id. `changed`
    is the first section of the prefix that changed, or a pointer to a changed setting. It is `None` if nothing changed.
    `tokens` is the approximate number of tokens after the change.
    """

    is_known: bool
    changed: str | None = None
    tokens: int = 0
    is_named: bool = True


@dataclass(frozen=True, slots=True)
class ModelStep:
    """A response of the reference server's model, in neutral terms.

    - `raw`: wire parts that are sent verbatim before the text.
    - `truncated`: the response reaches its token limit within the arguments of the last call.
    - `provocations`: unusual behaviour to show; see `Provocation`.
    - `prefix`: token counts of the part of the request that may be cached.
    - `served`: the model's name in the response, if it differs from the requested one.
    - `reports`: statements about the request.
    - `call_fields`: additional wire fields of each call.
    - `diagnosed`: result of the comparison that a request with cache diagnostics requests.
    - `included`: optional outputs that the request selects (`None`: all of them).
    """

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
    reports: tuple[ProviderReport, ...] = ()
    call_fields: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    diagnosed: CacheDiagnosis | None = None
    included: frozenset[str] | None = None

    @property
    def thoughts(self) -> tuple[str, ...]:
        """The visible reasoning as one part, or as two parts with the provocation `thinking-blocks`."""
        return self._parts(self.thinking, Provocation.THINKING_BLOCKS)

    @property
    def texts(self) -> tuple[str, ...]:
        """The text as one part, or as two parts with the provocation `text-blocks`."""
        return self._parts(self.text, Provocation.TEXT_BLOCKS)

    def _parts(self, text: str | None, provocation: Provocation) -> tuple[str, ...]:
        if text is None:
            return ()
        middle = len(text) // 2
        is_divided = provocation in self.provocations and middle > 0
        return (text[:middle], text[middle:]) if is_divided else (text,)


_REDACTED = re.compile(r"redacted|scrubbed|\*{3}|…|^[<\[{].*[>\]}]$", re.IGNORECASE)


def is_redacted_id(value: str) -> bool:
    """Return whether a recorded id was redacted, so that it proves nothing about ids."""
    return _REDACTED.search(value) is not None


def _with_names(part: PartView, names: Mapping[str, str]) -> PartView:
    name = names.get(part.name or "") if isinstance(part, CallView | ResultView) else None
    return part if name is None else replace(part, name=name)
