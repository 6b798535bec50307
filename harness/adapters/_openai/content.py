"""Content of messages and results: how media and plain text are written."""

from __future__ import annotations

import base64
import mimetypes
from typing import TYPE_CHECKING

from harness.contract.errors import Unsupported

if TYPE_CHECKING:
    from harness.contract.model import JSON, File, Image, Part


def collapsed(content: list[JSON], kind: str) -> JSON:
    """One plain text, a part of this `kind` without other fields, as a string; anything else as a list of parts."""
    match content:
        case [{"type": str(type_), "text": text, **others}] if type_ == kind and not others:
            return text
        case _:
            return content


def encoded(data: bytes) -> str:
    """Base64."""
    return base64.b64encode(data).decode()


def url(part: Image | File, api: str) -> str:
    """Where the media are: in the address itself, or elsewhere. Raises `Unsupported` if they are nowhere."""
    if part.data is not None:
        return f"data:{part.media_type};base64,{encoded(part.data)}"
    if part.uri is None:
        raise unsupported(api, part, "it has neither data nor a place")
    return part.uri


def filename(media_type: str) -> str:
    """A name for a file that has none: the API tells by its ending what it is."""
    return f"file{mimetypes.guess_extension(media_type) or ''}"


def unsupported(api: str, part: Part, reason: str) -> Unsupported:
    """The refusal of a part."""
    return Unsupported(api, type(part).__name__, reason)
