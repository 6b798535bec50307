"""What has to come of a turn, whoever answers."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field, JsonValue, Tag, model_validator

from harness.contract.model import (
    StopReason,
)
from harness.scenarios.fields import (
    LIST,
    MAPPING,
    NUMBER,
    TEXT,
    Pattern,
    SchemaObject,
    Strict,
    either,
)
from harness.scenarios.schema.words import ErrorName

_Texts: TypeAlias = Annotated[
    Annotated[str, Tag(TEXT)] | Annotated[list[str], Tag(LIST)], either("a text or a list of texts")
]


class TextMatcher(Strict):
    """How a text has to be. All that is given must hold."""

    equals: str | None = None
    contains: _Texts | None = None
    not_contains: _Texts | None = Field(default=None, description="What must not be in it, not even one of a list.")
    matches: Pattern | None = Field(default=None, description="A regular expression, searched.")


class CallMatcher(Strict):
    """A call that has to be among the turn's calls. `arguments` have to be included in the call's."""

    name: str
    arguments: dict[str, JsonValue] | None = None


class CountMatcher(Strict):
    """How many there have to be: at least `min`, and at most `max`."""

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
        """Whether there may be so many."""
        return (self.min or 0) <= count and (self.max is None or count <= self.max)


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
    called: (
        dict[
            str,
            Annotated[
                Annotated[int, Field(ge=0), Tag(NUMBER)] | Annotated[CountMatcher, Tag(MAPPING)],
                either("a number or {min: …, max: …}"),
            ],
        ]
        | None
    ) = Field(default=None, description="How often each of these tools is called in the turn.")
    not_called: list[str] | None = Field(default=None, description="Tools that must not be called in the turn.")
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
    def counts(self) -> dict[str, CountMatcher]:
        """How often tools are called, as bounds."""
        given = (self.called or {}).items()
        return {name: CountMatcher(min=each, max=each) if isinstance(each, int) else each for name, each in given}

    @property
    def forbidden(self) -> Expectation:
        """What holds of a turn that breaks off, too: which calls must not be made."""
        most = {name: CountMatcher(max=each.max) for name, each in self.counts.items() if each.max is not None}
        return Expectation(called={**most}, not_called=self.not_called)

    @property
    def errors(self) -> tuple[ErrorName, ...]:
        """The names of which the error has to have one; none if no error is expected."""
        names = self.error.name if isinstance(self.error, ErrorMatcher) else self.error
        if names is None:
            return ()
        return tuple(names) if isinstance(names, list) else (names,)
