"""The scenario file as a whole."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, model_validator

from harness.contract.protocols import Capability
from harness.scenarios.fields import (
    Strict,
)
from harness.scenarios.schema.embeddings import EmbeddingsSpec
from harness.scenarios.schema.faults import FaultSpec
from harness.scenarios.schema.history import HistoryMessage, TrimSpec
from harness.scenarios.schema.settings import Settings
from harness.scenarios.schema.side import SideSpec
from harness.scenarios.schema.tools import ToolSpec
from harness.scenarios.schema.turns import TurnSpec
from harness.scenarios.schema.words import Provocation, Subject, Variant

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
    system_from: Literal["scenario", "client"] = Field(
        default="scenario",
        description="Whose system prompt a client at 'harness serve' sends: that of the scenario, or one of its own.",
    )
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
    side: list[SideSpec] = Field(
        default_factory=list[SideSpec],
        description="What is answered to a client at 'harness serve' that asks beside the conversation.",
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
