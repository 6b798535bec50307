"""The scenario file as values. `harness.scenarios.load` reads it; this module says what may stand in it.

Every field's description goes into the JSON Schema that ships for editors.
"""

from __future__ import annotations

import base64
import binascii
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, JsonValue, Tag, field_validator, model_validator

from harness.contract.model import (
    JSON,
    Effort,
    Image,
    JsonMode,
    JsonSchema,
    NamedTool,
    ResponseFormat,
    StopReason,
    Text,
    ThinkingSettings,
    Tool,
    ToolChoice,
)
from harness.contract.protocols import Capability
from harness.scenarios.fields import (
    LIST,
    MAPPING,
    NUMBER,
    TEXT,
    ArgumentsSchema,
    Pattern,
    SchemaObject,
    Strict,
    either,
)


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
    """

    INTERLEAVED_CALLS = "interleaved-calls"
    UNKNOWN_EVENTS = "unknown-events"
    RAW_LINE_SEPARATORS = "raw-line-separators"


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


class ImageSpec(Strict):
    """A picture, as base64 or by its address."""

    media_type: str = Field(description="For example image/png.")
    data: str | None = Field(default=None, description="The bytes, as base64.")
    uri: str | None = Field(default=None, description="Where the picture lies.")

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
    def _has_one_source(self) -> ImageSpec:
        if (self.data is None) == (self.uri is None):
            raise ValueError("give data or uri, and not both.")
        return self


class PartSpec(Strict):
    """One part of a user message or of a tool result: text or an image."""

    text: str | None = None
    image: ImageSpec | None = None

    @model_validator(mode="after")
    def _is_one_part(self) -> PartSpec:
        if (self.text is None) == (self.image is None):
            raise ValueError("give text or image, and not both.")
        return self

    def part(self) -> Text | Image:
        """The canonical part."""
        if self.image is not None:
            data = None if self.image.data is None else base64.b64decode(self.image.data)
            return Image(self.image.media_type, data, self.image.uri)
        return Text(self.text or "")


class ResultSpec(Strict):
    """What a tool answers to arguments that include `when`. Exactly one of return, parts, error, raise."""

    when: dict[str, JsonValue] | None = Field(default=None, description="Arguments this answers; absent: any.")
    return_: JsonValue = Field(default=None, alias="return", description="The result, any JSON value.")
    parts: list[PartSpec] | None = Field(default=None, description="A result of several parts, or with an image.")
    error: JsonValue = Field(default=None, description="A result with the error flag set.")
    raise_: str | None = Field(default=None, alias="raise", description="The tool raises an exception of this text.")

    @model_validator(mode="after")
    def _answers_once(self) -> ResultSpec:
        if len(self.model_fields_set & {"return_", "parts", "error", "raise_"}) != 1:
            raise ValueError("give exactly one of return, parts, error, raise.")
        return self


class ToolSpec(Strict):
    """A tool and what it answers. Its name is one that every API takes (anthropic-tool-name-pattern, openai-chat-names,
    gemini-tool-name-form)."""

    name: str = Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$")
    description: str = ""
    parameters: ArgumentsSchema = Field(
        default_factory=dict, description="JSON Schema of the arguments; absent or {}: the tool takes none."
    )
    results: list[ResultSpec] = Field(
        default_factory=list[ResultSpec], description="The first whose `when` is part of the arguments answers."
    )

    def tool(self) -> Tool:
        """The canonical declaration."""
        return Tool(self.name, self.description, dict(self.parameters))


class NamedToolSpec(Strict):
    """Forces one tool."""

    tool: str


class JsonSchemaSpec(Strict):
    """JSON that conforms to a schema."""

    json_schema: SchemaObject
    name: str = Field(default="response", pattern=r"^[a-zA-Z0-9_-]{1,64}$")


class ThinkingSpec(Strict):
    """Asks the model to reason."""

    effort: Effort | None = None
    budget_tokens: int | None = Field(default=None, ge=1024)


class Settings(Strict):
    """How the model is to answer."""

    tool_choice: (
        Annotated[
            Annotated[Literal["auto", "none", "required"], Tag(TEXT)] | Annotated[NamedToolSpec, Tag(MAPPING)],
            either("auto, none, required or {tool: NAME}"),
        ]
        | None
    ) = Field(
        default=None,
        description="auto, none, required, or {tool: NAME}. A forced choice (required or a named tool) holds for the "
        "first answer of a turn and is auto after it, since the model could never finish the turn otherwise.",
    )
    response_format: (
        Annotated[
            Annotated[Literal["json"], Tag(TEXT)] | Annotated[JsonSchemaSpec, Tag(MAPPING)],
            either("json or {json_schema: SCHEMA}"),
        ]
        | None
    ) = Field(default=None, description="json: JSON of any shape; {json_schema: SCHEMA}: JSON that conforms.")
    max_tokens: int | None = Field(default=None, ge=1, description="Bound of the answer, in tokens.")
    temperature: float | None = Field(default=None, description="Many models of today refuse it.")
    top_p: float | None = Field(default=None, description="Many models of today refuse it.")
    stop: list[str] | None = Field(default=None, description="Texts at which the answer ends.")
    thinking: ThinkingSpec | None = Field(default=None, description="Asks the model to reason.")
    cache: bool = Field(
        default=False, description="Asks for a cache mark on the system prompt and the tools, where the API has one."
    )

    def choice(self) -> ToolChoice | None:
        """The canonical tool choice."""
        return NamedTool(self.tool_choice.tool) if isinstance(self.tool_choice, NamedToolSpec) else self.tool_choice

    def format(self) -> ResponseFormat | None:
        """The canonical response format."""
        if isinstance(self.response_format, JsonSchemaSpec):
            return JsonSchema(dict(self.response_format.json_schema), self.response_format.name)
        return None if self.response_format is None else JsonMode()

    def reasoning(self) -> ThinkingSettings | None:
        """The canonical thinking settings."""
        return None if self.thinking is None else ThinkingSettings(self.thinking.effort, self.thinking.budget_tokens)


class StepSpec(Strict):
    """One answer of the model, as the reference server plays it."""

    text: str | None = None
    thinking: str | None = Field(default=None, description="Reasoning that is shown; its signature is made up.")
    calls: list[dict[str, dict[str, JsonValue]]] = Field(
        default_factory=list[dict[str, dict[str, JsonValue]]],
        description="Calls in their order, each {tool: arguments}.",
    )
    refusal: str | None = None
    stop: StopReason | None = Field(default=None, description="Why the model stops; absent: as the content says.")
    truncated: bool = Field(
        default=False,
        description="The answer reaches its bound in the middle of the last call's arguments, which nobody then makes.",
    )
    raw: dict[str, list[JsonValue]] = Field(
        default_factory=dict, description="Wire parts by API, sent verbatim before the text."
    )
    answers: list[int] | None = Field(
        default=None, description="The order in which the results go back, as indices of calls; absent: as called."
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
        if self.truncated and self.stop not in (None, StopReason.MAX_TOKENS):
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
        """Those that arrive whole, which are the ones that the thread makes."""
        return self.named_calls[:-1] if self.truncated else self.named_calls


class TextMatcher(Strict):
    """How a text has to be. All that is given must hold."""

    equals: str | None = None
    contains: (
        Annotated[Annotated[str, Tag(TEXT)] | Annotated[list[str], Tag(LIST)], either("a text or a list of texts")]
        | None
    ) = None
    matches: Pattern | None = Field(default=None, description="A regular expression, searched.")


class CallMatcher(Strict):
    """A call that has to be among the turn's calls. `arguments` have to be included in the call's."""

    name: str
    arguments: dict[str, JsonValue] | None = None


class ErrorMatcher(Strict):
    """The error in which a turn has to end. All that is given must hold."""

    name: Annotated[
        Annotated[ErrorName, Tag(TEXT)] | Annotated[list[ErrorName], Field(min_length=1), Tag(LIST)],
        either("an error's name or a list of names"),
    ] = Field(description="The error, or those of which it may be one.")
    status: int | None = Field(default=None, description="Its HTTP status, or the one that it stands for.")
    retry_after: float | None = Field(
        default=None, ge=0, description="The seconds that the provider asks to wait; null: it asks for no wait."
    )


HandlerWord: TypeAlias = Annotated[str, Field(pattern=r"^(text|(call|result|error) [^ ]+|done( [a-z-]+)?)$")]
"""One event that a message handler is told of, without what it says."""


class Expectation(Strict):
    """What has to come out of a turn, for models that word things differently. All that is given must hold."""

    text: TextMatcher | None = None
    calls: list[CallMatcher] | None = Field(default=None, description="Calls that must occur, in any order.")
    json_schema: SchemaObject | None = Field(default=None, description="The text is JSON that conforms.")
    stop_reason: StopReason | None = None
    error: (
        Annotated[
            Annotated[ErrorName, Tag(TEXT)] | Annotated[ErrorMatcher, Tag(MAPPING)],
            either("an error's name or {name: NAME, status: …, retry_after: …}"),
        ]
        | None
    ) = Field(default=None, description="The turn ends in this error.")
    events: list[HandlerWord] | None = Field(
        default=None,
        description="What a message handler is told of the turn, all of it and in this order: text, call NAME, result "
        "NAME, error NAME (a result with the error flag), and at the end done, or done ERROR. A provider's model may "
        "choose otherwise.",
    )

    @property
    def errors(self) -> tuple[ErrorName, ...]:
        """The names of which the error has to have one; none if no error is expected."""
        names = self.error.name if isinstance(self.error, ErrorMatcher) else self.error
        if names is None:
            return ()
        return tuple(names) if isinstance(names, list) else (names,)


class TurnSpec(Strict):
    """What the user says, and what the model does until it has answered."""

    user: Annotated[
        Annotated[str, Tag(TEXT)] | Annotated[list[PartSpec], Field(min_length=1), Tag(LIST)],
        either("a text or a list of parts"),
    ] = Field(description="What the user says: a text, or parts.")
    model: list[StepSpec] = Field(min_length=1)
    expect: Expectation | None = None
    system: str | None = Field(default=None, description="Replaces the system prompt from here on; null: none.")
    settings: Settings | None = Field(default=None, description="Replaces the settings for this turn.")


class HistoryCall(Strict):
    """A call of an earlier conversation, with the id that it had there."""

    id: str
    name: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    metadata: dict[str, JsonValue] = Field(
        default_factory=dict, description="provider_metadata of the call, by API, be it one that is not known here."
    )


class HistoryResult(Strict):
    """Its result."""

    call_id: str
    content: JsonValue = None
    is_error: bool = False


class HistoryMessage(Strict):
    """A message of a conversation that came from elsewhere."""

    role: Literal["user", "assistant"]
    text: str | None = None
    thinking: str | None = None
    calls: list[HistoryCall] = Field(default_factory=list[HistoryCall])
    results: list[HistoryResult] = Field(default_factory=list[HistoryResult])
    metadata: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="provider_metadata of the thinking, or of the text where there is none, by API.",
    )


FaultStatus: TypeAlias = Literal[400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529]


class FaultSpec(Strict):
    """Something that goes wrong when an answer is asked for the first time; asked again, it is given.

    Exactly one of status, stream_error, body, connection. The reference server does it.
    """

    answer: int = Field(default=0, ge=0, description="Which of the scenario's answers, counted from 0 over all turns.")
    status: FaultStatus | None = Field(default=None, description="The provider fails with this HTTP status.")
    retry_after: float | None = Field(default=None, ge=0, description="The seconds that the failure asks to wait.")
    stream_error: FaultStatus | None = Field(
        default=None, description="The provider reports an error of this status inside the stream, under HTTP 200."
    )
    body: Literal["empty", "invalid-json", "html", "wrong-type"] | None = Field(
        default=None,
        description="HTTP 200 with an empty body, a body that is no JSON, a page of HTML, or the right body under "
        "another content type.",
    )
    connection: Literal["cut", "cut-clean", "reset", "slow"] | None = Field(
        default=None,
        description="The connection is closed too early, the body ends too early, the connection is reset, or the "
        "bytes come slowly, which is no failure.",
    )
    at: Annotated[
        Annotated[float, Field(ge=0, lt=1), Tag(NUMBER)] | Annotated[Literal["end"], Tag(TEXT)],
        either("a number from 0 to below 1, or end"),
    ] = Field(
        default=0.5,
        description="Where a stream_error or a broken connection comes: the share of the body's bytes that arrive, or "
        "end: all but the event that makes a stream complete.",
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
        """Whether the chat fails by it. Bytes that come slowly, or under another content type, are the answer still."""
        return self.connection != "slow" and self.body != "wrong-type"

    @property
    def is_of_streams(self) -> bool:
        """Whether it can befall a streamed answer only."""
        return self.stream_error is not None or self.at == "end"


class TrimSpec(Strict):
    """What of the history is trimmed between two turns: each result of these tools becomes a note of its length, if it
    is long, and ids and pairs stay."""

    tools: list[str] = Field(min_length=1, description="The tools whose results are trimmed.")


class RecordSpec(Strict):
    """What made the vectors of an index, as far as it is not what the target makes them with. Something is given."""

    provider: str | None = None
    model: str | None = None
    dimensions: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _differs(self) -> RecordSpec:
        if self.provider is None and self.model is None and self.dimensions is None:
            raise ValueError("give provider, model or dimensions, as the index has them.")
        return self


class QuerySpec(Strict):
    """A text that is to be compared with what is in an index."""

    text: str
    indexed_with: RecordSpec | None = Field(
        default=None, description="The index was made by something else: the query is refused, and nothing is sent."
    )


class EmbeddingsSpec(Strict):
    """Texts that are embedded together, as an index, and queries of it, each a text of its own."""

    dimensions: int = Field(ge=1, le=3072, description="The length of every vector.")
    texts: list[str] = Field(min_length=1)
    queries: list[QuerySpec] = Field(default_factory=list[QuerySpec])


Name = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=80)]


class Scenario(Strict):
    """One scenario."""

    version: Literal[1] = Field(description="The version of this file format.")
    id: Name = Field(description="The file's name without its suffix: words of small letters, joined by hyphens.")
    title: str = Field(min_length=1, description="The requirement, as a sentence.")
    covers: list[Subject] = Field(min_length=1, description="What it is about.")
    requires: list[Capability] = Field(
        default_factory=list[Capability],
        description="What a target has to have, exactly as far as the scenario makes use of it. It is not applicable "
        "to a target that lacks one.",
    )
    system: str | None = Field(default=None, description="The system prompt.")
    settings: Settings = Field(default_factory=Settings, description="Hold for each turn without settings of its own.")
    tools: list[ToolSpec] = Field(default_factory=list[ToolSpec], description="What the model may call.")
    history: list[HistoryMessage] = Field(
        default_factory=list[HistoryMessage], description="A conversation from elsewhere, which the turns continue."
    )
    provider_tools: dict[str, Annotated[list[dict[str, JsonValue]], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="Tools that the provider runs, by API, as its wire has them. An answer with calls of such a tool "
        "comes only where it is offered.",
    )
    undeclared_tools: list[str] = Field(
        default_factory=list[str], description="Names that the model calls though no tool is called that."
    )
    turns: list[TurnSpec] = Field(
        default_factory=list[TurnSpec], min_length=1, description="The conversation; absent where there are embeddings."
    )
    embeddings: EmbeddingsSpec | None = Field(default=None, description="What is embedded, in place of turns.")
    max_iterations: int = Field(default=10, ge=1, le=100, description="Bound on the model's answers in one turn.")
    profiles: list[str] | None = Field(default=None, description="Profiles for which it holds; absent: all.")
    variants: list[Variant] | None = Field(
        default=None, min_length=1, description="The variants that make sense; absent: both."
    )
    faults: list[FaultSpec] = Field(
        default_factory=list[FaultSpec], description="What goes wrong on the provider's side, or on the way from it."
    )
    provocations: list[Provocation] = Field(
        default_factory=list[Provocation],
        description="What the reference server does in this scenario that no provider was recorded doing.",
    )
    trim: TrimSpec | None = Field(
        default=None, description="What is trimmed between two turns; absent: the history is append-only."
    )
    scripted: bool = Field(default=False, description="Never sent to a provider: no model does this when asked.")

    @model_validator(mode="after")
    def _plays_something(self) -> Scenario:
        if bool(self.turns) == (self.embeddings is not None):
            raise ValueError("give turns or embeddings, and not both.")
        return self

    def tool_named(self, name: str) -> ToolSpec | None:
        """The tool with this name."""
        return next((tool for tool in self.tools if tool.name == name), None)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the scenario file, which ships for editors as `scenario.schema.json`."""
    schema = Scenario.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "harness scenario"}
