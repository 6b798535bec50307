"""Parts of a content, in requests and responses alike."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.gemini.requests.proto import ProtoMessage, canonical, decoded
from harness.apis.view import (
    CallView,
    ErrorMark,
    JsonView,
    MediaView,
    OpaqueView,
    PartView,
    ResultView,
    TextView,
    WireError,
)
from harness.contract.model import JSON

DATA_FIELDS = (
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "text",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
    "audioTranscription",
)
"""The members of a part's `data`, of which exactly one is set (gemini-contents)."""


def part_views(content: ProtoMessage) -> tuple[PartView, ...]:
    """The parts of a content. Raises `WireError`."""
    return tuple(view for part in content.messages("parts") for view in _part(part))


def _part(part: ProtoMessage) -> Iterator[PartView]:
    kind = next((name for name in DATA_FIELDS if name in part.names), None)
    if kind == "functionCall":
        yield _call(part)
        return
    if kind == "text" and not part.get("thought"):
        yield TextView(part.text("text") or "", part.at("text"), canonical(part.get("thoughtSignature")))
        return
    if kind == "functionResponse":
        yield _result(part)
    elif kind in ("inlineData", "fileData"):
        yield _media(part, kind)
    else:
        yield _opaque(part, kind)
        return
    if signature := part.get("thoughtSignature"):
        yield OpaqueView("thoughtSignature", canonical(signature), part.at("thoughtSignature"))


def _call(part: ProtoMessage) -> CallView:
    call = _required(part, "functionCall")
    arguments = call.get("args")
    return CallView(
        id=call.text("id") or None,
        name=call.text("name") or "",
        arguments={} if arguments is None else arguments,
        pointer=part.pointer,
        id_pointer=call.at("id"),
        arguments_pointer=call.at("args"),
        opaque=canonical(part.get("thoughtSignature")),
    )


def _result(part: ProtoMessage) -> ResultView:
    result = _required(part, "functionResponse")
    response = result.get("response")
    payload: list[TextView | MediaView | JsonView | OpaqueView] = []
    if response is not None:
        payload.append(JsonView(response, result.at("response")))
    for medium in result.messages("parts"):
        kind = next((name for name in ("inlineData", "fileData") if name in medium.names), None)
        payload.append(_media(medium, kind) if kind else _opaque(medium, None))
    return ResultView(
        call_id=result.text("id") or None,
        name=result.text("name"),
        payload=tuple(payload),
        pointer=part.pointer,
        id_pointer=result.at("id"),
        error_mark=_error_mark(response),
    )


def _error_mark(response: JSON) -> ErrorMark | None:
    if not isinstance(response, dict):
        return None
    if response.get("error") and not response.keys() & {"output", "result"}:
        return "error-key"
    match list(response.values()):
        case [str(text)] if text.lower().startswith("error"):
            return "error-text"
        case _:
            return None


def _media(part: ProtoMessage, kind: str) -> MediaView:
    medium = _required(part, kind)
    data = medium.text("data")
    return MediaView(
        medium.text("mimeType"),
        part.pointer,
        data=None if data is None else decoded(data),
        uri=medium.text("fileUri"),
    )


def _opaque(part: ProtoMessage, kind: str | None) -> OpaqueView:
    raw = part.camelised()
    if "thoughtSignature" in raw:
        raw["thoughtSignature"] = canonical(raw["thoughtSignature"])
    if part.get("thought"):
        kind = "thought"
    signature = raw.get("thoughtSignature")
    return OpaqueView(kind or next(iter(part.names), "part"), raw, part.pointer, signature=signature)


def _required(part: ProtoMessage, name: str) -> ProtoMessage:
    message = part.message(name)
    if message is None:
        raise WireError(f"{name} is not set", part.pointer)
    return message
