"""Tools, and what they answer."""

from __future__ import annotations

import base64
import binascii
from typing import Literal

from pydantic import Field, JsonValue, field_validator, model_validator
from typing_extensions import override

from harness.contract.model import (
    JSON,
    File,
    Image,
    Text,
    Tool,
)
from harness.scenarios.fields import (
    ArgumentsSchema,
    Strict,
)


class MediumSpec(Strict):
    """A medium, as base64 or by its address."""

    data: str | None = Field(default=None, description="The bytes, as base64.")
    uri: str | None = Field(default=None, description="Where it lies.")

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
        """The bytes, or the address."""
        return None if self.data is None else base64.b64decode(self.data), self.uri


class ImageSpec(MediumSpec):
    """A picture, as base64 or by its address."""

    media_type: str = Field(description="For example image/png.")


class FileSpec(MediumSpec):
    """A document, as base64 or by its address."""

    media_type: Literal["application/pdf", "text/plain"] = Field(
        description="A text goes into a text part where an API takes no other file than a PDF."
    )


class AudioSpec(MediumSpec):
    """Sound, as base64 or by its address."""

    media_type: Literal["audio/wav", "audio/mp3"] = Field(description="What every API takes that takes sound.")


class PartSpec(Strict):
    """One part of a tool result: text or an image."""

    text: str | None = None
    image: ImageSpec | None = None

    @model_validator(mode="after")
    def _is_one_part(self) -> PartSpec:
        kinds = type(self).model_fields
        if sum(getattr(self, kind) is not None for kind in kinds) != 1:
            raise ValueError(f"give one of {', '.join(kinds)}.")
        return self

    def part(self) -> Text | Image | File:
        """The canonical part."""
        if self.image is not None:
            return Image(self.image.media_type, *self.image.source)
        return Text(self.text or "")


class UserPartSpec(PartSpec):
    """One part of what the user says: text, an image, a document or sound."""

    file: FileSpec | None = None
    audio: AudioSpec | None = None

    @override
    def part(self) -> Text | Image | File:
        medium = self.file or self.audio
        return super().part() if medium is None else File(medium.media_type, *medium.source)


class ResultSpec(Strict):
    """What a tool answers to arguments that include `when`. Exactly one of return, parts, error, raise."""

    when: dict[str, JsonValue] | None = Field(default=None, description="Arguments this answers; absent: any.")
    times: int | None = Field(
        default=None,
        ge=1,
        description="How many calls this answers before the next result that fits does; absent: all of them.",
    )
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
        default_factory=list[ResultSpec],
        description="The first whose `when` is part of the arguments, and whose `times` are not used up, answers.",
    )
    answered_by: Literal["scenario", "client"] = Field(
        default="scenario",
        description="`client`: the client of `harness serve` has this tool itself, as a coding agent has its shell. "
        "What it answers is taken as it comes, and only served clients and loops play the scenario.",
    )

    @property
    def arguments_schema(self) -> dict[str, JSON]:
        """The JSON Schema of the arguments in the form that every API takes of a tool without any as well."""
        return dict(self.parameters) or {"type": "object", "properties": {}}

    def tool(self) -> Tool:
        """The canonical declaration."""
        return Tool(self.name, self.description, dict(self.parameters))
