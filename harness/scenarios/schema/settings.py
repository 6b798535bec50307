"""What a request asks for beside its messages."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag

from harness.contract.model import (
    Effort,
    JsonMode,
    JsonSchema,
    NamedTool,
    ResponseFormat,
    ThinkingSettings,
    ToolChoice,
)
from harness.scenarios.fields import (
    MAPPING,
    TEXT,
    SchemaObject,
    Strict,
    either,
)


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
