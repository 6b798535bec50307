"""What the user says, and what the model of the script answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue, Tag, field_validator, model_validator

from harness.contract.model import (
    JSON,
    StopReason,
)
from harness.scenarios.fields import (
    LIST,
    TEXT,
    Strict,
    either,
)
from harness.scenarios.schema.expectation import Expectation
from harness.scenarios.schema.settings import Settings
from harness.scenarios.schema.tools import UserPartSpec


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
    served: str | None = Field(
        default=None, min_length=1, description="The model that says it has answered; absent: the one that was asked."
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


class TurnSpec(Strict):
    """What the user says, and what the model does until it has answered."""

    user: Annotated[
        Annotated[str, Tag(TEXT)] | Annotated[list[UserPartSpec], Field(min_length=1), Tag(LIST)],
        either("a text or a list of parts"),
    ] = Field(description="What the user says: a text, or parts.")
    model: list[StepSpec] = Field(min_length=1)
    expect: Expectation | None = None
    system: str | None = Field(default=None, description="Replaces the system prompt from here on; null: none.")
    settings: Settings | None = Field(default=None, description="Replaces the settings for this turn.")
    ends_with_call: bool = Field(
        default=False,
        description="The client ends the turn by the call of its last answer and asks no more, as libraries do that "
        "finish by a tool such as final_answer. Only served clients and loops play the scenario.",
    )
