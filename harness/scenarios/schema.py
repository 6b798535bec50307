"""Data model of scenario files. `harness.scenarios.load` reads a file, and `harness.scenarios.validation` checks it.

The JSON Schema for editors, `scenario.schema.json`, is generated from this module with its field descriptions.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, JsonValue, Tag, field_validator, model_validator
from typing_extensions import override

from harness.apis.response_rules import Subject
from harness.apis.view import Provocation
from harness.documents.strict_models import (
    LIST,
    MAPPING,
    NUMBER,
    TEXT,
    ArgumentsSchema,
    Pattern,
    SchemaObject,
    Strict,
    by_json_type,
)
from harness.model.messages import (
    JSON,
    Effort,
    File,
    Image,
    JsonMode,
    JsonSchema,
    NamedTool,
    Opaque,
    ProviderMetadata,
    ResponseFormat,
    StopReason,
    Text,
    ThinkingSettings,
    Tool,
    ToolChoice,
)
from harness.model.protocols import Capability

Variant: TypeAlias = Literal["whole", "stream"]
"""Form of a response: one body, or a stream."""

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
"""Errors that can end a turn, named after the classes of `harness.model.errors`."""


class HistoryCall(Strict):
    """A call in the history, with its original id."""

    id: str
    name: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    metadata: dict[str, JsonValue] = Field(
        default_factory=dict, description="provider_metadata of the call, by API. The API may be unknown to harness."
    )


class HistoryResult(Strict):
    """The result of a call in the history."""

    call_id: str
    content: JsonValue = None
    is_error: bool = False


class HistoryMessage(Strict):
    """A message of the history."""

    role: Literal["user", "assistant"]
    text: str | None = None
    thinking: str | None = None
    calls: list[HistoryCall] = Field(default_factory=list[HistoryCall])
    results: list[HistoryResult] = Field(default_factory=list[HistoryResult])
    metadata: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="provider_metadata of the thinking, by API; of the text if the message has no thinking.",
    )


class TrimSpec(Strict):
    """Trims the history between two turns. Each long result of these tools is replaced by a note of its length. Ids
    and the pairing of calls and results are kept.
    """

    tools: list[str] = Field(min_length=1, description="The tools whose results are trimmed.")


class MediumSpec(Strict):
    """Media, as base64 or by URI."""

    data: str | None = Field(default=None, description="The bytes, as base64.")
    uri: str | None = Field(default=None, description="The address of the media.")

    @field_validator("data")
    @classmethod
    def _is_base64(cls, data: str | None) -> str | None:
        if data is not None:
            try:
                base64.b64decode(data, validate=True)
            except binascii.Error:
                raise ValueError("not base64.") from None
        return data

    @model_validator(mode="after")
    def _has_one_source(self) -> MediumSpec:
        if (self.data is None) == (self.uri is None):
            raise ValueError("give data or uri, and not both.")
        return self

    @property
    def source(self) -> tuple[bytes | None, str | None]:
        """The bytes and the URI; one of them is `None`."""
        return None if self.data is None else base64.b64decode(self.data), self.uri


class ImageSpec(MediumSpec):
    """An image, as base64 or by URI."""

    media_type: str = Field(description="For example image/png.")


class FileSpec(MediumSpec):
    """A document, as base64 or by URI."""

    media_type: Literal["application/pdf", "text/plain"] = Field(
        description="Where an API accepts only PDF files, a text becomes a text part."
    )


class AudioSpec(MediumSpec):
    """Audio, as base64 or by URI."""

    media_type: Literal["audio/wav", "audio/mp3"] = Field(description="The formats that all APIs with audio accept.")


class PartSpec(Strict):
    """Part of a tool result: text or an image."""

    text: str | None = None
    image: ImageSpec | None = None

    @model_validator(mode="after")
    def _is_one_part(self) -> PartSpec:
        kinds = type(self).model_fields
        if sum(getattr(self, kind) is not None for kind in kinds) != 1:
            raise ValueError(f"give one of {', '.join(kinds)}.")
        return self

    def part(self) -> Text | Image | File | Opaque:
        """Return the canonical part."""
        if self.image is not None:
            return Image(self.image.media_type, *self.image.source)
        return Text(self.text or "")


class UserPartSpec(PartSpec):
    """Part of a user message: text, an image, a document, audio, or a part in the wire form of one API."""

    file: FileSpec | None = None
    audio: AudioSpec | None = None
    raw: Annotated[dict[str, dict[str, JsonValue]], Field(min_length=1, max_length=1)] | None = Field(
        default=None, description="A part of one API as in its requests, such as the approval of a call."
    )

    @override
    def part(self) -> Text | Image | File | Opaque:
        if self.raw is not None:
            ((api, raw),) = self.raw.items()
            return Opaque(api, dict(raw))
        medium = self.file or self.audio
        return super().part() if medium is None else File(medium.media_type, *medium.source)


class ResultSpec(Strict):
    """Result of a tool for arguments that include `when`. Exactly one of return, parts, error and raise must be set."""

    when: dict[str, JsonValue] | None = Field(default=None, description="Arguments to match; absent: any.")
    times: int | None = Field(
        default=None,
        ge=1,
        description="Number of calls that get this result before the next matching one applies; absent: no limit.",
    )
    return_: JsonValue = Field(default=None, alias="return", description="The result, any JSON value.")
    parts: list[PartSpec] | None = Field(default=None, description="A result of several parts, or with an image.")
    error: JsonValue = Field(default=None, description="A result with the error flag set.")
    turns_later: int = Field(
        default=0,
        ge=0,
        description="Number of turns after which the result is sent, with the user message. For asynchronous tools.",
    )
    raise_: str | None = Field(default=None, alias="raise", description="The tool raises an exception with this text.")

    @model_validator(mode="after")
    def _answers_once(self) -> ResultSpec:
        if len(self.model_fields_set & {"return_", "parts", "error", "raise_"}) != 1:
            raise ValueError("give exactly one of return, parts, error, raise.")
        return self


VerbatimFields: TypeAlias = dict[str, Annotated[dict[str, JsonValue], Field(min_length=1)]]
"""API name → fields that are sent verbatim."""


def fields_of(fields: VerbatimFields) -> ProviderMetadata:
    """Return verbatim fields in the form of `provider_metadata`."""
    return {api: dict(given) for api, given in fields.items()}


class ToolSpec(Strict):
    """A tool and its results."""

    name: str = Field(
        pattern=r"^[a-zA-Z_][a-zA-Z0-9_/-]{0,63}$",
        description="Every API refuses `/`: an adapter declines such a name, or sends another one.",
    )
    description: str = ""
    parameters: ArgumentsSchema = Field(
        default_factory=dict, description="JSON Schema of the arguments; absent or {}: the tool has no parameters."
    )
    results: list[ResultSpec] = Field(
        default_factory=list[ResultSpec],
        description="The first result whose `when` is part of the arguments and whose `times` are not used up applies.",
    )
    fields: VerbatimFields = Field(
        default_factory=dict, description="Fields of the declaration, by API, that are sent as they stand."
    )
    answered_by: Literal["scenario", "client"] = Field(
        default="scenario",
        description="`client`: the client of `harness serve` runs this tool itself, as a coding agent runs its shell. "
        "Any result is accepted. Only served clients and driven loops can run the scenario.",
    )
    from_turn: int = Field(
        default=0, ge=0, description="Index of the first turn whose requests declare the tool; absent: all declare it."
    )

    @property
    def arguments_schema(self) -> dict[str, JSON]:
        """The JSON Schema of the arguments. For a tool without parameters it is an empty object schema, which all
        APIs accept.
        """
        return dict(self.parameters) or {"type": "object", "properties": {}}

    def tool(self) -> Tool:
        """Return the canonical declaration."""
        return Tool(self.name, self.description, dict(self.parameters), fields_of(self.fields))


class NamedToolSpec(Strict):
    """A tool choice that forces one tool."""

    tool: str


class JsonSchemaSpec(Strict):
    """A response format: JSON that conforms to a schema."""

    json_schema: SchemaObject
    name: str = Field(default="response", pattern=r"^[a-zA-Z0-9_-]{1,64}$")


class ThinkingSpec(Strict):
    """Thinking settings."""

    effort: Effort | None = None
    budget_tokens: int | None = Field(default=None, ge=1024)


class Settings(Strict):
    """Settings of a request."""

    tool_choice: (
        Annotated[
            Annotated[Literal["auto", "none", "required"], Tag(TEXT)] | Annotated[NamedToolSpec, Tag(MAPPING)],
            by_json_type("auto, none, required or {tool: NAME}"),
        ]
        | None
    ) = Field(
        default=None,
        description="auto, none, required, or {tool: NAME}. A forced choice (required or a named tool) applies to the "
        "first answer of a turn. It is auto after that: otherwise the model could never finish the turn.",
    )
    response_format: (
        Annotated[
            Annotated[Literal["json"], Tag(TEXT)] | Annotated[JsonSchemaSpec, Tag(MAPPING)],
            by_json_type("json or {json_schema: SCHEMA}"),
        ]
        | None
    ) = Field(default=None, description="json: any JSON; {json_schema: SCHEMA}: JSON that conforms to the schema.")
    max_tokens: int | None = Field(default=None, ge=1, description="Maximum length of the answer, in tokens.")
    temperature: float | None = Field(default=None, description="Many current models reject it.")
    top_p: float | None = Field(default=None, description="Many current models reject it.")
    stop: list[str] | None = Field(default=None, description="Texts at which the answer ends.")
    thinking: ThinkingSpec | None = Field(default=None, description="Enables reasoning.")
    cache: bool = Field(
        default=False, description="Requests a cache mark on the system prompt and the tools, where the API has one."
    )
    fields: VerbatimFields = Field(
        default_factory=dict, description="Fields of the request's body, by API, that are sent as they stand."
    )

    def choice(self) -> ToolChoice | None:
        """Return the canonical tool choice."""
        return NamedTool(self.tool_choice.tool) if isinstance(self.tool_choice, NamedToolSpec) else self.tool_choice

    def format(self) -> ResponseFormat | None:
        """Return the canonical response format."""
        if isinstance(self.response_format, JsonSchemaSpec):
            return JsonSchema(dict(self.response_format.json_schema), self.response_format.name)
        return None if self.response_format is None else JsonMode()

    def reasoning(self) -> ThinkingSettings | None:
        """Return the canonical thinking settings."""
        return None if self.thinking is None else ThinkingSettings(self.thinking.effort, self.thinking.budget_tokens)


_Texts: TypeAlias = Annotated[
    Annotated[str, Tag(TEXT)] | Annotated[list[str], Tag(LIST)], by_json_type("a text or a list of texts")
]


class TextMatcher(Strict):
    """Conditions on a text. All given conditions must hold."""

    equals: str | None = None
    contains: _Texts | None = None
    not_contains: _Texts | None = Field(default=None, description="Texts none of which may occur.")
    matches: Pattern | None = Field(default=None, description="A regular expression that must match somewhere.")


class CallMatcher(Strict):
    """A call that must occur in the turn. Its arguments must include `arguments`."""

    name: str
    arguments: dict[str, JsonValue] | None = None


class CountMatcher(Strict):
    """Bounds on a number of calls."""

    min: int | None = Field(default=None, ge=0)
    max: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _bounds_something(self) -> CountMatcher:
        if self.min is None and self.max is None:
            raise ValueError("give min, max or both.")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min} is more than max {self.max}.")
        return self

    def allows(self, count: int) -> bool:
        """Return whether a count is within the bounds."""
        return (self.min or 0) <= count and (self.max is None or count <= self.max)


class ErrorMatcher(Strict):
    """The error that must end a turn. All given conditions must hold."""

    name: Annotated[
        Annotated[ErrorName, Tag(TEXT)] | Annotated[list[ErrorName], Field(min_length=1), Tag(LIST)],
        by_json_type("an error's name or a list of names"),
    ] = Field(description="The error, or a list of accepted errors.")
    status: int | None = Field(default=None, description="The HTTP status of the error, or its equivalent.")
    retry_after: float | None = Field(
        default=None, ge=0, description="Seconds that the provider requests to wait; null: none."
    )


HandlerWord: TypeAlias = Annotated[str, Field(pattern=r"^(text|(call|result|error) [^ ]+|done( [a-z-]+)?)$")]
"""Event of a message handler, without its content."""


class Expectation(Strict):
    """Conditions on the outcome of a turn, independent of the model's wording. All given conditions must hold."""

    text: TextMatcher | None = None
    calls: list[CallMatcher] | None = Field(default=None, description="Calls that must occur, in any order.")
    called: (
        dict[
            str,
            Annotated[
                Annotated[int, Field(ge=0), Tag(NUMBER)] | Annotated[CountMatcher, Tag(MAPPING)],
                by_json_type("a number or {min: …, max: …}"),
            ],
        ]
        | None
    ) = Field(default=None, description="Number of calls of each of these tools in the turn.")
    not_called: list[str] | None = Field(default=None, description="Tools that must not be called in the turn.")
    json_schema: SchemaObject | None = Field(default=None, description="The text is JSON that conforms to this schema.")
    stop_reason: StopReason | None = None
    error: (
        Annotated[
            Annotated[ErrorName, Tag(TEXT)] | Annotated[ErrorMatcher, Tag(MAPPING)],
            by_json_type("an error's name or {name: NAME, status: …, retry_after: …}"),
        ]
        | None
    ) = Field(default=None, description="The turn ends in this error.")
    events: list[HandlerWord] | None = Field(
        default=None,
        description="All events that a message handler receives in the turn, in order: text, call NAME, result NAME, "
        "error NAME (a result with the error flag), and at the end done, or done ERROR. A provider's model may behave "
        "differently.",
    )

    @property
    def counts(self) -> dict[str, CountMatcher]:
        """The expected number of calls per tool, as bounds."""
        given = (self.called or {}).items()
        return {name: CountMatcher(min=each, max=each) if isinstance(each, int) else each for name, each in given}

    @property
    def forbidden(self) -> Expectation:
        """The conditions that also apply to a turn that is aborted: the calls that must not occur."""
        most = {name: CountMatcher(max=each.max) for name, each in self.counts.items() if each.max is not None}
        return Expectation(called={**most}, not_called=self.not_called)

    @property
    def errors(self) -> tuple[ErrorName, ...]:
        """The accepted names of the error; empty if no error is expected."""
        names = self.error.name if isinstance(self.error, ErrorMatcher) else self.error
        if names is None:
            return ()
        return tuple(names) if isinstance(names, list) else (names,)


class StepSpec(Strict):
    """A response of the model, as the reference server sends it."""

    text: str | None = None
    thinking: str | None = Field(default=None, description="Visible reasoning; its signature is made up.")
    calls: list[dict[str, dict[str, JsonValue]]] = Field(
        default_factory=list[dict[str, dict[str, JsonValue]]],
        description="Calls in order, each {tool: arguments}.",
    )
    refusal: str | None = None
    stop: StopReason | None = Field(default=None, description="The stop reason; absent: derived from the content.")
    truncated: bool = Field(
        default=False,
        description="The answer hits max_tokens inside the arguments of its last call. That call is not executed. "
        "With `stop: tool_use`, the answer ends as usual, and the arguments are no JSON.",
    )
    served: str | None = Field(
        default=None, min_length=1, description="The model named in the response; absent: the requested one."
    )
    raw: dict[str, list[JsonValue]] = Field(
        default_factory=dict, description="Content parts by API, sent verbatim before the text."
    )
    call_fields: VerbatimFields = Field(
        default_factory=dict,
        description="Fields of this answer's calls, by API, that are sent back with the calls, such as `caller`.",
    )
    answers: list[int] | None = Field(
        default=None, description="The order of the results, as indices of calls; absent: the order of the calls."
    )

    @field_validator("calls")
    @classmethod
    def _name_one_tool(cls, calls: list[dict[str, dict[str, JsonValue]]]) -> list[dict[str, dict[str, JsonValue]]]:
        if any(len(call) != 1 for call in calls):
            raise ValueError("a call is one pair {tool: arguments}.")
        return calls

    @model_validator(mode="after")
    def _says_something(self) -> StepSpec:
        if not self.model_fields_set & {"text", "calls", "refusal", "raw"}:
            raise ValueError('an answer without text, calls, refusal or raw. Write text: "" for an empty one.')
        return self

    @model_validator(mode="after")
    def _cuts_a_call(self) -> StepSpec:
        if self.truncated and not any(self.calls[-1:] and self.calls[-1].values()):
            raise ValueError("truncated cuts the arguments of the last call, and there are none.")
        if self.truncated and self.stop not in (None, StopReason.MAX_TOKENS, StopReason.TOOL_USE):
            raise ValueError(f"a truncated answer stops for max_tokens, not for {self.stop}.")
        if self.stop is StopReason.MALFORMED_CALL and self.calls:
            raise ValueError("an answer that stops for malformed_call has no calls: the one that failed is not given.")
        return self

    @model_validator(mode="after")
    def _orders_its_calls(self) -> StepSpec:
        count = len(self.whole_calls)
        if self.answers is not None and sorted(self.answers) != list(range(count)):
            raise ValueError(f"answers must name each of the {count} calls once, by index from 0.")
        return self

    @property
    def named_calls(self) -> tuple[tuple[str, dict[str, JSON]], ...]:
        """Name and arguments of each call."""
        return tuple(pair for call in self.calls for pair in call.items())

    @property
    def whole_calls(self) -> tuple[tuple[str, dict[str, JSON]], ...]:
        """The calls that are not truncated; only these are executed."""
        return self.named_calls[:-1] if self.truncated else self.named_calls


class TurnSpec(Strict):
    """A user message and the model's responses up to the end of the turn."""

    user: Annotated[
        Annotated[str, Tag(TEXT)] | Annotated[list[UserPartSpec], Field(min_length=1), Tag(LIST)],
        by_json_type("a text or a list of parts"),
    ] = Field(description="The user message: a text, or parts.")
    model: list[StepSpec] = Field(min_length=1)
    expect: Expectation | None = None
    system: str | None = Field(default=None, description="The system prompt from this turn on; null: none.")
    settings: Settings | None = Field(default=None, description="Replaces the settings for this turn.")
    ends_with_call: bool = Field(
        default=False,
        description="The call in the last answer ends the turn without another request, as in libraries that finish "
        "with a tool such as final_answer. Only served clients and driven loops can run the scenario.",
    )


FaultStatus: TypeAlias = Literal[400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529]


class FaultSpec(Strict):
    """A fault of the reference server at the first request for a response. A repeated request succeeds.

    Exactly one of status, stream_error, body and connection must be set.
    """

    answer: int = Field(default=0, ge=0, description="Index of the answer, from 0 over all turns.")
    status: FaultStatus | None = Field(default=None, description="The provider fails with this HTTP status.")
    retry_after: float | None = Field(default=None, ge=0, description="Seconds to wait, as the error response states.")
    stream_error: FaultStatus | None = Field(
        default=None, description="The provider reports an error of this status inside the stream, under HTTP 200."
    )
    body: Literal["empty", "invalid-json", "html", "wrong-type"] | None = Field(
        default=None,
        description="HTTP 200 with an empty body, a body that is not JSON, an HTML page, or the right body under the "
        "wrong content type.",
    )
    connection: Literal["cut", "cut-clean", "reset", "slow"] | None = Field(
        default=None,
        description="The connection closes early (cut), the body ends early (cut-clean), the connection is reset, or "
        "the bytes arrive slowly, which is not a failure.",
    )
    at: Annotated[
        Annotated[float, Field(ge=0, lt=1), Tag(NUMBER)] | Annotated[Literal["end"], Tag(TEXT)],
        by_json_type("a number from 0 to below 1, or end"),
    ] = Field(
        default=0.5,
        description="Position of a stream_error or a broken connection: the fraction of the body's bytes that arrive. "
        "end: all but the event that completes the stream.",
    )

    @model_validator(mode="after")
    def _is_one_fault(self) -> FaultSpec:
        if sum(kind is not None for kind in (self.status, self.stream_error, self.body, self.connection)) != 1:
            raise ValueError("give exactly one of status, stream_error, body, connection.")
        if self.retry_after is not None and self.status is None:
            raise ValueError("retry_after goes with status, and with nothing else.")
        if "at" in self.model_fields_set and self.stream_error is None and self.connection in (None, "slow"):
            raise ValueError("at goes with stream_error and with a connection that breaks, and with nothing else.")
        return self

    @property
    def fails(self) -> bool:
        """Return whether the chat fails. It does not fail if bytes arrive slowly or the content type is wrong."""
        return self.connection != "slow" and self.body != "wrong-type"

    @property
    def is_of_streams(self) -> bool:
        """Return whether the fault exists only for streamed responses."""
        return self.stream_error is not None or self.at == "end"


class RecordSpec(Strict):
    """The embedding model of an index, if it differs from the target's. At least one field must be set."""

    provider: str | None = None
    model: str | None = None
    dimensions: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _differs(self) -> RecordSpec:
        if self.provider is None and self.model is None and self.dimensions is None:
            raise ValueError("give provider, model or dimensions, as the index has them.")
        return self


class QuerySpec(Strict):
    """A text to look up in the index."""

    text: str
    indexed_with: RecordSpec | None = Field(
        default=None, description="The index was made by another model: the query is refused and nothing is sent."
    )


class EmbeddingsSpec(Strict):
    """Texts that are embedded together as an index, and queries that are embedded one by one."""

    dimensions: int = Field(ge=1, le=3072, description="The length of every vector.")
    texts: list[str] = Field(min_length=1)
    queries: list[QuerySpec] = Field(default_factory=list[QuerySpec])


class SideSpec(Strict):
    """The response to an agent's request outside the conversation, such as a request for a title or a summary."""

    text: str = Field(description="The text of the answer.")
    when: str | None = Field(
        default=None,
        min_length=1,
        description="Words that identify such a request, in its instructions or its user message; absent: any request "
        "without the scenario's tools and calls.",
    )


Name = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=80)]


class Scenario(Strict):
    """A scenario file."""

    version: Literal[1] = Field(description="The version of this file format.")
    id: Name = Field(description="The file's name without its suffix: words of small letters, joined by hyphens.")
    title: str = Field(min_length=1, description="The requirement, as a sentence.")
    covers: list[Subject] = Field(min_length=1, description="The subjects of the scenario.")
    requires: list[Capability] = Field(
        default_factory=list[Capability],
        description="Exactly the capabilities that the scenario uses. It is not applicable to a target without them.",
    )
    system: str | None = Field(default=None, description="The system prompt.")
    system_from: Literal["scenario", "client"] = Field(
        default="scenario",
        description="The source of the system prompt at 'harness serve': the scenario, or the client's own.",
    )
    settings: Settings = Field(default_factory=Settings, description="Settings of turns without their own.")
    tools: list[ToolSpec] = Field(default_factory=list[ToolSpec], description="The tools of the conversation.")
    history: list[HistoryMessage] = Field(
        default_factory=list[HistoryMessage], description="An earlier conversation, which the turns continue."
    )
    provider_tools: dict[str, Annotated[list[dict[str, JsonValue]], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="Tools that the provider runs, by API, as in its requests. Answers with calls of such a tool are "
        "sent only where the request offers it.",
    )
    undeclared_tools: list[str] = Field(
        default_factory=list[str], description="Names of tools that the model calls without a declaration."
    )
    turns: list[TurnSpec] = Field(
        default_factory=list[TurnSpec], min_length=1, description="The conversation; absent if there are embeddings."
    )
    embeddings: EmbeddingsSpec | None = Field(default=None, description="Texts to embed, instead of turns.")
    max_iterations: int = Field(default=10, ge=1, le=100, description="Maximum number of answers in one turn.")
    profiles: list[str] | None = Field(default=None, description="Profiles of the scenario; absent: all.")
    variants: list[Variant] | None = Field(
        default=None, min_length=1, description="Variants of the scenario; absent: both."
    )
    faults: list[FaultSpec] = Field(
        default_factory=list[FaultSpec], description="Faults of the provider or of the connection to it."
    )
    provocations: list[Provocation] = Field(
        default_factory=list[Provocation],
        description="Unusual but valid behaviour of the reference server, which no recording of a provider has.",
    )
    trim: TrimSpec | None = Field(
        default=None, description="Trimming of the history between two turns; absent: the history is append-only."
    )
    kept_by_provider: bool = Field(
        default=False,
        description="The provider keeps the conversation, as settings.fields tell it: a request has only the messages "
        "since the last answer. In the fields, '{previous}' is the id of the last response.",
    )
    side: list[SideSpec] = Field(
        default_factory=list[SideSpec],
        description="Answers to requests outside the conversation from a client of 'harness serve'.",
    )
    scripted: bool = Field(default=False, description="Never sent to a provider: no model does this on request.")

    @property
    def uncommon_names(self) -> dict[str, str]:
        """Names of tools that every API refuses, with the descriptions of the tools."""
        return {tool.name: tool.description for tool in self.tools if "/" in tool.name}

    @property
    def apis_with_fields(self) -> frozenset[str]:
        """The APIs for which the request or a tool has verbatim fields."""
        settings = [self.settings, *(turn.settings for turn in self.turns if turn.settings)]
        return frozenset(api for each in (*settings, *self.tools) for api in each.fields)

    @model_validator(mode="after")
    def _check_turns_or_embeddings(self) -> Scenario:
        if bool(self.turns) == (self.embeddings is not None):
            raise ValueError("give turns or embeddings, and not both.")
        return self

    def tool_named(self, name: str) -> ToolSpec | None:
        """Return the tool with this name."""
        return next((tool for tool in self.tools if tool.name == name), None)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the scenario file. It ships for editors as `scenario.schema.json`."""
    schema = Scenario.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "harness scenario"}
