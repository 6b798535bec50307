"""What goes wrong with an answer."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, Tag, model_validator

from harness.scenarios.fields import (
    NUMBER,
    TEXT,
    Strict,
    either,
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
