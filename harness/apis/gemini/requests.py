"""Conversion of request bodies to neutral views: messages, parts, tools and settings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from urllib.parse import parse_qs, unquote, urlsplit

from harness.apis.gemini.proto import (
    ProtoMessage,
    cached_per_value,
    canonical,
    decode_base64,
    repeated_values,
    schema_view,
)
from harness.apis.jsonvalue import parse_body
from harness.apis.view import (
    CallView,
    ChoiceView,
    ErrorMark,
    FormatView,
    JsonView,
    MediaView,
    OpaqueView,
    PartView,
    RequestView,
    ResultView,
    SettingView,
    SystemView,
    TextView,
    ToolView,
    TurnView,
    WireError,
)
from harness.model.http import HttpRequest
from harness.model.messages import JSON

DATA_FIELDS = (
    *("functionCall", "functionResponse", "inlineData", "fileData", "text", "executableCode"),
    *("codeExecutionResult", "toolCall", "toolResponse", "audioTranscription"),
)
"""Variants of a part's `data`. Exactly one of them is set (gemini-contents)."""


def part_views(content: ProtoMessage) -> tuple[PartView, ...]:
    """Return views of the parts of a `Content` message. Raises `WireError` if a part is invalid."""
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
    call = _required_field(part, "functionCall")
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
    result = _required_field(part, "functionResponse")
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
    medium = _required_field(part, kind)
    data = medium.text("data")
    return MediaView(
        medium.text("mimeType"),
        part.pointer,
        data=None if data is None else decode_base64(data),
        uri=medium.text("fileUri"),
    )


def _opaque(part: ProtoMessage, kind: str | None) -> OpaqueView:
    raw = part.camelise()
    if "thoughtSignature" in raw:
        raw["thoughtSignature"] = canonical(raw["thoughtSignature"])
    if part.get("thought"):
        kind = "thought"
    signature = raw.get("thoughtSignature")
    return OpaqueView(kind or next(iter(part.names), "part"), raw, part.pointer, signature=signature)


def _required_field(part: ProtoMessage, name: str) -> ProtoMessage:
    message = part.message(name)
    if message is None:
        raise WireError(f"{name} is not set", part.pointer)
    return message


_STREAMED = "streamGenerateContent"
_METHOD = re.compile(r"/([^/:]+):(generateContent|streamGenerateContent)")

MODES = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE")
"""Tool choice modes, indexed by number."""

_SETTINGS = {
    "max_tokens": "maxOutputTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "stop": "stopSequences",
    "thinking": "thinkingConfig",
}


def recognises(request: HttpRequest) -> bool:
    """Return whether the request is a chat: a POST to `…/{model}:generateContent` or `:streamGenerateContent`."""
    return request.method.upper() == "POST" and _method(request) is not None


def model_of(request: HttpRequest) -> str | None:
    """Return the model from the URL path, without `models/`."""
    method = _method(request)
    return method[1] if method else None


def on_vertex(request: HttpRequest) -> bool:
    """Return whether the path belongs to Vertex, which differs from the Developer API in some details
    (gemini-vertex)."""
    return "/projects/" in _path(request)


def view(request: HttpRequest) -> RequestView:
    """Return the neutral view of a request.

    The name and kind of a server tool are its field name on the wire. An explicit `AUTO` is the documented default, so
    it is not reported as a choice.

    Raises:
        WireError: the body is not JSON, is nested too deeply, or has a field of the wrong type.
    """
    try:
        return _view(request, ProtoMessage.of(parse_body(request.body)))
    except RecursionError:
        raise WireError("nested too deeply") from None


def _view(request: HttpRequest, body: ProtoMessage) -> RequestView:
    config = body.message("generationConfig") or ProtoMessage.of({})
    method = _method(request)
    stream = method is not None and method[2] == _STREAMED
    return RequestView(
        api="gemini",
        model=model_of(request),
        system=tuple(_system(body)),
        turns=tuple(_turns(body.get("contents"), body.at("contents"))),
        tools=tuple(chain.from_iterable(_tools(body.get("tools"), body.at("tools")))),
        tool_choice=_choice(body.message("toolConfig")),
        response_format=_format(config),
        settings=dict(_settings(config)),
        effort=_effort(config),
        stream=stream,
        stateful="cachedContent" if body.get("cachedContent") else None,
        stream_format="json-array" if asks_for_array(request) else "events",
    )


def _path(request: HttpRequest) -> str:
    return unquote(urlsplit(request.url).path)


def asks_for_array(request: HttpRequest) -> bool:
    """Return whether the response is sent as a JSON array: a stream without `alt=sse`."""
    method = _method(request)
    if method is None or method[2] != _STREAMED:
        return False
    return parse_qs(urlsplit(request.url).query).get("alt") != ["sse"]


def _method(request: HttpRequest) -> re.Match[str] | None:
    _, slash, last = _path(request).rpartition("/")
    return _METHOD.fullmatch(slash + last)


def _system(body: ProtoMessage) -> Iterator[SystemView]:
    instruction = body.message("systemInstruction")
    for part in instruction.messages("parts") if instruction else ():
        if text := part.text("text"):
            yield SystemView(text, "systemInstruction", part.at("text"))


@cached_per_value
def _turns(entry: JSON, pointer: str) -> TurnView:
    content = ProtoMessage.of(entry, pointer)
    role = content.text("role") or "user"
    return TurnView(
        "assistant" if role in ("model", "assistant") else "user", part_views(content), content.pointer, role
    )


@cached_per_value
def _tools(entry: JSON, pointer: str) -> tuple[ToolView, ...]:
    return tuple(_declarations(ProtoMessage.of(entry, pointer)))


def _declarations(tool: ProtoMessage) -> Iterator[ToolView]:
    for declaration in tool.messages("functionDeclarations"):
        openapi = "parameters" in declaration.names
        yield ToolView(
            name=declaration.text("name") or "",
            description=declaration.text("description") or None,
            parameters=schema_view(declaration.get("parameters"))
            if openapi
            else declaration.get("parametersJsonSchema"),
            pointer=declaration.pointer,
            dialect="openapi" if openapi else "json-schema",
        )
    for name in tool.names:
        if name != "functionDeclarations":
            yield ToolView(name, None, None, tool.at(name), kind=name)


def _choice(tool_config: ProtoMessage | None) -> ChoiceView | None:
    config = tool_config and tool_config.message("functionCallingConfig")
    if not config:
        return None
    pointer = config.pointer
    names = [name for name, _ in repeated_values(config.get("allowedFunctionNames"), "") if isinstance(name, str)]
    match (config.enum("mode", MODES) or "AUTO").upper(), names:
        case "AUTO" | "MODE_UNSPECIFIED", []:
            return None
        case "NONE", _:
            return ChoiceView("none", pointer)
        case "ANY", []:
            return ChoiceView("required", pointer)
        case "ANY", [name]:
            return ChoiceView("named", pointer, name)
        case "ANY", _:
            return ChoiceView("required", pointer, allowed=(*names,))
        case (
            "AUTO" | "MODE_UNSPECIFIED" | "VALIDATED",
            _,
        ):  # VALIDATED is AUTO with validated arguments (gemini-allowed-names)
            return ChoiceView("auto", pointer, allowed=(*names,) or None)
        case mode, _:  # values without a canonical equivalent are kept for comparison
            return ChoiceView("other", pointer, " ".join((mode, *names)))


def _format(config: ProtoMessage) -> FormatView | None:
    for mechanism in ("responseJsonSchema", "responseSchema"):
        if mechanism in config.names:
            openapi = mechanism == "responseSchema"
            schema, pointer = config.get(mechanism), config.at(mechanism)
            return FormatView(
                "json-schema",
                mechanism,
                pointer,
                schema_view(schema) if openapi else schema,
                pointer,
                dialect="openapi" if openapi else "json-schema",
            )
    if config.text("responseMimeType") == "application/json":
        return FormatView("json", "responseMimeType", config.at("responseMimeType"))
    return None


def _settings(config: ProtoMessage) -> Iterator[tuple[str, SettingView]]:
    for setting, name in _SETTINGS.items():
        if name in config.names:
            yield setting, SettingView(_setting(config, name), config.at(name))
    if config.get("candidateCount") not in (None, 1):
        yield "answers", SettingView(config.get("candidateCount"), config.at("candidateCount"))


def _effort(config: ProtoMessage) -> SettingView | None:
    """Return the requested reasoning effort: a level named as in other APIs, or a token budget
    (gemini-level-or-budget).
    """
    value = config.get("thinkingConfig")
    if not isinstance(value, dict):
        return None
    thinking = ProtoMessage.of(value).camelise()
    level, budget = thinking.get("thinkingLevel"), thinking.get("thinkingBudget")
    if isinstance(level, str):
        return SettingView(level.lower(), f"{config.at('thinkingConfig')}/thinkingLevel")
    return None if budget is None else SettingView(budget, f"{config.at('thinkingConfig')}/thinkingBudget")


def _setting(config: ProtoMessage, name: str) -> JSON:
    value = config.get(name)
    if name == "stopSequences":
        return [item for item, _ in repeated_values(value, "")]
    if name == "thinkingConfig" and isinstance(value, dict):
        thinking = ProtoMessage.of(value).camelise()
        level = thinking.get("thinkingLevel")
        return thinking | ({"thinkingLevel": level.upper()} if isinstance(level, str) else {})
    return value
