"""Gateway details of the client's request: prompts, media, tools, formats and settings."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby

from harness.apis.jsonvalue import equal
from harness.apis.view import FormatView, MediaView, RequestView, ResultView, TextView, ToolView
from harness.checks.gateway_exchange import (
    DetailResult,
    GatewayDetail,
    GatewayExchange,
    Outcomes,
    added_detail,
    exchange_detail,
    lost_detail,
    preserved_detail,
    request_detail,
)
from harness.equivalence import request_meaning
from harness.equivalence.request_meaning import tool_family
from harness.equivalence.result_meaning import is_same_text, joined_texts
from harness.equivalence.schema_changes import change
from harness.equivalence.schema_documents import SchemaChange
from harness.model.messages import JSON
from harness.results import Severity


@request_detail(
    "gateway-system-prompt",
    "system prompt",
    "the model does not know its instructions, or follows others",
    stated=lambda request: any(part.text for part in request.system),
)
def _system(sent: RequestView, arrived: RequestView) -> Outcomes:
    """The system prompt reaches the upstream as a system prompt, and the gateway adds no other."""
    given, found = [part.text for part in sent.system], [part.text for part in arrived.system]
    place, there = (sent.system[0].pointer if sent.system else ""), (arrived.system[0].pointer if found else "")
    if not any(given):
        if any(found) and sent.response_format is None:  # a response format may add an instruction
            yield added_detail("the client sends no system prompt, but the upstream gets one", there, "".join(found))
        return
    if is_same_text(given, found):
        yield preserved_detail(same=len(given) == len(found))
    elif any(text in "".join(found) for text in joined_texts(given)):
        yield preserved_detail(same=False)
    elif any(text in part.text for text in joined_texts(given) for _, part in _user_texts(arrived)):
        yield lost_detail("the system prompt reaches the upstream as a user message", place, "", None, "".join(given))
    else:
        what = "arrives changed" if any(found) else "does not arrive"
        yield lost_detail(f"the system prompt {what}", place, there, "".join(found) if found else None, "".join(given))


def _user_texts(view: RequestView) -> Iterator[tuple[str, TextView]]:
    for turn in view.turns:
        for part in turn.parts:
            if isinstance(part, TextView) and turn.role == "user":
                yield turn.role, part


def _runs(view: RequestView) -> list[tuple[str, list[TextView]]]:
    """Group adjacent texts by role, ignoring any calls and results between them."""
    texts = (
        (turn.role, part)
        for turn in view.turns
        for part in turn.parts
        if isinstance(part, TextView) and part.text.strip()
    )
    return [(role, [part for _, part in run]) for role, run in groupby(texts, key=lambda text: text[0])]


@request_detail("gateway-texts", "message texts", "the model reads a different text than the client sent")
def _texts(sent: RequestView, arrived: RequestView) -> Outcomes:
    """The texts of the conversation reach the upstream unchanged, each with its role."""
    given, found = _runs(sent), _runs(arrived)
    adds = sent.response_format is not None or any(_media(sent))  # an instruction, or a caption
    system = "".join(part.text for part in sent.system)
    is_same = True
    for place in range(max(len(given), len(found))):
        role, texts = given[place] if place < len(given) else ("", [])
        there, parts = found[place] if place < len(found) else ("", [])
        words, found_words = [part.text for part in texts], [part.text for part in parts]
        if role == there and is_same_text(words, found_words):
            is_same &= len(words) == len(found_words)
        elif (
            role == there
            and any(text in "".join(found_words) for text in joined_texts(words))
            and (
                adds or (system and system in "".join(found_words))  # gateway-system-prompt reports the latter
            )
        ):
            is_same = False
        else:
            yield _text_lost(role, texts, there, parts)
            return
    if given:
        yield preserved_detail(same=is_same)


def _text_lost(role: str, texts: list[TextView], there: str, parts: list[TextView]) -> DetailResult:
    given, found = "".join(part.text for part in texts), "".join(part.text for part in parts)
    if not texts:
        what = "the upstream gets a text that the client did not send"
    elif not parts:
        what = "a text of the conversation does not arrive"
    else:
        what = "a text of the conversation arrives changed, or with words added"
    return lost_detail(
        what,
        texts[0].pointer if texts else "",
        parts[0].pointer if parts else "",
        f"{there}: {found}" if parts else None,
        f"{role}: {given}" if texts else None,
    )


def _media(view: RequestView) -> Iterator[tuple[MediaView, bool]]:
    """Yield each media part, and whether it belongs to a tool result."""
    for turn in view.turns:
        for part in turn.parts:
            if isinstance(part, MediaView):
                yield part, False
            elif isinstance(part, ResultView):
                yield from ((each, True) for each in part.payload if isinstance(each, MediaView))


@request_detail(
    "gateway-media",
    "images and files",
    "the model sees a different image, or none",
    stated=lambda request: any(True for _ in _media(request)),
)
def _images_and_files(sent: RequestView, arrived: RequestView) -> Outcomes:
    """Images and files reach the upstream byte for byte."""
    found = [*_media(arrived)]
    for medium, inside in _media(sent):
        same = [(each, within) for each, within in found if _is_same(medium, each)]
        if same:
            yield preserved_detail(same=inside in [within for _, within in same])
        elif medium.uri is not None and any(each.data is not None for each, _ in found):
            yield preserved_detail(same=False)  # fetched by the gateway; the bytes are unknown here
        else:
            arrives: JSON = [_medium_text(each) for each, _ in found]
            pointer = found[0][0].pointer if found else ""
            yield lost_detail(
                f"{_medium_text(medium)} does not arrive", medium.pointer, pointer, arrives, _medium_text(medium)
            )


def _is_same(one: MediaView, other: MediaView) -> bool:
    if one.data is not None:
        return one.data == other.data and one.media_type == other.media_type
    return one.uri == other.uri


def _medium_text(medium: MediaView) -> str:
    size = f"{len(medium.data)} bytes" if medium.data is not None else str(medium.uri)
    return f"a medium of type {medium.media_type} ({size})"


PROMPTS = (_system, _texts, _images_and_files)


def _functions(view: RequestView) -> dict[str, ToolView]:
    return {tool.name: tool for tool in view.tools if tool.kind == "function"}


def _format_tool(sent: RequestView, arrived: RequestView) -> ToolView | None:
    """Return the forced tool with which the gateway emulates a response format. The client did not define this tool."""
    choice, given = arrived.tool_choice, _functions(sent)
    if sent.response_format is None or choice is None:
        return None
    for name, tool in _functions(arrived).items():
        if name not in given and (choice.mode == "required" or (choice.mode == "named" and choice.name == name)):
            return tool
    return None


@request_detail(
    "gateway-tools",
    "tools",
    "the model calls missing tools, or cannot call existing ones",
    stated=lambda request: bool(_functions(request)),
)
def _tools(sent: RequestView, arrived: RequestView) -> Outcomes:
    """The tools of the request reach the upstream, and no others do."""
    given, found, format_tool = _functions(sent), _functions(arrived), _format_tool(sent, arrived)
    forbidden = sent.tool_choice is not None and sent.tool_choice.mode == "none"
    if not found and forbidden:
        yield preserved_detail(same=False)  # without declarations nothing can be called, which is what `none` asks for
        return
    for name, tool in given.items():
        if name in found:
            yield preserved_detail(same=True)
        else:
            yield lost_detail(f"the tool {name!r} does not arrive", tool.pointer, "", [*found], [*given])
    for name, tool in found.items():
        if name not in given and tool is not format_tool:
            yield added_detail(
                f"the upstream gets a tool {name!r} that the client did not send", tool.pointer, [*found]
            )


@request_detail(
    "gateway-provider-tools",
    "provider's tools",
    "the model cannot search where the client allows it",
    stated=lambda request: any(tool.kind != "function" for tool in request.tools),
)
def _hosted_tools(sent: RequestView, arrived: RequestView) -> Outcomes:
    """Tools that the provider runs reach the upstream."""
    found = {tool_family(tool.kind): tool.kind for tool in arrived.tools if tool.kind != "function"}
    for tool in sent.tools:
        if tool.kind != "function":
            name = tool_family(tool.kind)
            if name in found:
                yield preserved_detail(same=found[name] == tool.kind)
            else:
                yield lost_detail(
                    f"the provider's tool {tool.kind!r} does not arrive", tool.pointer, "", [*found.values()]
                )


def _common(exchange: GatewayExchange) -> Iterator[tuple[ToolView, ToolView]]:
    if exchange.requests is not None:
        sent, arrived = map(_functions, exchange.requests)
        yield from ((tool, arrived[name]) for name, tool in sent.items() if name in arrived)


@exchange_detail(
    "gateway-tool-descriptions", "tool descriptions", "the model reads a different description of the tool"
)
def _descriptions(exchange: GatewayExchange) -> Outcomes:
    """The descriptions of tools reach the upstream as given."""
    for tool, found in _common(exchange):
        if not tool.description and not found.description:
            continue
        if tool.description == found.description:
            yield preserved_detail(same=True)
        else:
            message = f"the description of {tool.name} arrives changed"
            yield lost_detail(message, tool.pointer, found.pointer, found.description, tool.description)


@exchange_detail("gateway-tool-schemas", "tool schemas", "the model makes arguments that the tool does not accept")
def _schemas(exchange: GatewayExchange) -> Outcomes:
    """The schemas of tools keep their meaning and their wording."""
    for tool, found in _common(exchange):
        difference = change(tool.parameters, found.parameters, found.dialect, tool.dialect)
        if difference is None:
            yield preserved_detail(same=equal(tool.parameters, found.parameters))
        else:
            yield _changed_schema(f"the schema of {tool.name}", difference, tool.pointer, found.pointer)


def _changed_schema(name: str, change: SchemaChange, origin: str, pointer: str) -> DetailResult:
    instance = change.describe("the given schema", "the one that arrives")
    message = f"{name} arrives changed at {change.pointer or '/'}{instance}"
    return lost_detail(message, origin, pointer, change.actual, change.expected)


@exchange_detail(
    "gateway-tool-strict",
    "strict tools",
    "arguments may violate the schema",
    severity=Severity.WARNING,
    stated=lambda request: any(tool.strict for tool in request.tools),
)
def _strict(exchange: GatewayExchange) -> Outcomes:
    """The strict flag of tools reaches the upstream."""
    for tool, found in _common(exchange):
        if tool.strict:
            if found.strict:
                yield preserved_detail(same=True)
            elif found.strict is None and exchange.way.upstream.traits.strict_by_default:
                yield preserved_detail(same=False)
            else:
                message = f"the strict flag of {tool.name} does not arrive"
                yield lost_detail(message, tool.pointer, found.pointer)


@request_detail(
    "gateway-tool-choice",
    "tool choice",
    "the model may or must call tools, against the client's choice",
    stated=lambda request: request.tool_choice is not None and request.tool_choice.mode,
)
def _choice(sent: RequestView, arrived: RequestView) -> Outcomes:
    """The tool choice keeps its meaning."""
    if not sent.tools or _format_tool(sent, arrived) is not None:
        return
    names = [*_functions(sent)]
    wanted, found = (
        request_meaning.wire_choice(sent.tool_choice, names),
        request_meaning.wire_choice(arrived.tool_choice, names),
    )
    if not arrived.tools and wanted is not None and not wanted.forced:
        return  # nothing can be called; gateway-tools checks the tools
    if wanted == found:
        if sent.tool_choice is not None:
            yield preserved_detail(
                same=arrived.tool_choice is not None and sent.tool_choice.mode == arrived.tool_choice.mode
            )
        return
    yield lost_detail(
        "another tool choice arrives",
        sent.tool_choice.pointer if sent.tool_choice else "",
        arrived.tool_choice.pointer if arrived.tool_choice else "",
        request_meaning.describe_choice(found, names),
        request_meaning.describe_choice(wanted, names),
    )


@request_detail(
    "gateway-response-format",
    "response format",
    "the answer is not the JSON that the client reads",
    stated=lambda request: request.response_format is not None and request.response_format.kind,
)
def _format(sent: RequestView, arrived: RequestView) -> Outcomes:
    """JSON is requested from the upstream if and only if the client requests it, with the same schema."""
    wanted, found = sent.response_format, arrived.response_format
    if wanted is None:
        if found is not None:
            yield added_detail("the gateway requests JSON, but the client does not", found.pointer, found.kind)
        return
    if found is None:
        yield _emulated_format(sent, arrived, wanted)
    elif found.kind != wanted.kind:
        yield lost_detail(
            "JSON is requested in a different way", wanted.pointer, found.pointer, found.kind, wanted.kind
        )
    elif wanted.kind == "json":
        yield preserved_detail(same=True)
    else:
        difference = change(wanted.schema, found.schema, found.dialect, wanted.dialect)
        if difference is None:
            yield preserved_detail(same=equal(wanted.schema, found.schema))
        else:
            yield _changed_schema("the schema of the answer", difference, wanted.schema_pointer, found.schema_pointer)


def _emulated_format(sent: RequestView, arrived: RequestView, wanted: FormatView) -> DetailResult:
    """Judge a response format that the gateway emulates with a forced tool or with instructions."""
    tool = _format_tool(sent, arrived)
    if tool is not None and (
        wanted.kind == "json" or change(wanted.schema, tool.parameters, tool.dialect, wanted.dialect) is None
    ):
        return preserved_detail(same=False)
    added = "\n".join(text for text in _words(arrived) if text not in set(_words(sent)))
    if wanted.kind == "json" and "json" in added.lower():
        return preserved_detail(same=False)
    if wanted.kind == "json-schema" and _names(wanted) and all(json.dumps(name) in added for name in _names(wanted)):
        return preserved_detail(same=False)
    what = "the schema of the answer" if wanted.kind == "json-schema" else "that the answer must be JSON"
    return lost_detail(f"{what} does not arrive", wanted.pointer, tool.pointer if tool else "", None, wanted.kind)


def _words(view: RequestView) -> Iterator[str]:
    yield from (part.text for part in view.system)
    yield from (part.text for turn in view.turns for part in turn.parts if isinstance(part, TextView))


def _names(wanted: FormatView) -> list[str]:
    properties = wanted.schema.get("properties") if isinstance(wanted.schema, dict) else None
    return [*properties] if isinstance(properties, dict) else []


DECLARATIONS = (_tools, _descriptions, _schemas, _strict, _hosted_tools, _choice, _format)


_REQUIRED_SETTINGS = frozenset({"max_tokens"})
"""Settings that an upstream may require, so the gateway has to add them (anthropic-required-fields)."""


def _setting(name: str, exchange: GatewayExchange) -> Outcomes:
    if exchange.requests is None:
        return
    sent, arrived = (view.settings.get(name) for view in exchange.requests)
    if sent is None:
        if arrived is not None and name not in _REQUIRED_SETTINGS and not _is_no_reasoning(exchange, name):
            message = f"the gateway adds the setting {name}"
            yield added_detail(message, arrived.pointer, arrived.value, Severity.WARNING)
    elif arrived is None:
        yield lost_detail(f"the setting {name} does not arrive", sent.pointer, "", None, sent.value)
    elif name == "thinking":
        yield _effort(*exchange.requests, same=equal(sent.value, arrived.value))
    elif equal(sent.value, arrived.value):
        yield preserved_detail(same=True)
    else:
        yield lost_detail(
            f"the setting {name} arrives changed", sent.pointer, arrived.pointer, arrived.value, sent.value
        )


def _is_no_reasoning(exchange: GatewayExchange, name: str) -> bool:
    """Return whether the gateway disables reasoning because the request has tools. Some models accept tools only
    without reasoning (openai-chat-tools-want-no-reasoning).
    """
    arrived = exchange.requests[1] if exchange.requests is not None else None
    effort = arrived.effort if arrived is not None and arrived.tools else None
    return name == "thinking" and effort is not None and effort.value == "none"


def _effort(one: RequestView, other: RequestView, *, same: bool) -> DetailResult:
    """Compare the reasoning effort. Each API has its own values, and a token budget may replace any of them."""
    sent, arrived = one.effort, other.effort
    if sent is None or (arrived is not None and not (isinstance(sent.value, str) and isinstance(arrived.value, str))):
        return preserved_detail(same=same)
    if arrived is None:
        return lost_detail("the effort of reasoning does not arrive", sent.pointer, "", None, sent.value)
    if sent.value == arrived.value:
        return preserved_detail(same=same)
    return lost_detail(
        "the effort of reasoning arrives changed", sent.pointer, arrived.pointer, arrived.value, sent.value
    )


@exchange_detail("gateway-stream", "stream", "a client that parses a stream fails")
def _stream(exchange: GatewayExchange) -> Outcomes:
    """A client that requests a stream gets one."""
    if exchange.requests is None:
        return
    sent, arrived = exchange.requests
    received = exchange.client.response
    if sent.stream and received is not None and received.error is None and not received.streamed:
        yield lost_detail("the client requested a stream, and gets a single body", "", "", "one body", "a stream")
    elif sent.stream:
        yield preserved_detail(same=arrived.stream)


@request_detail(
    "gateway-cache-marks",
    "cache marks",
    "the prompt is billed in full each time; no content is lost",
    severity=Severity.WARNING,
    stated=lambda request: bool(request.cache_marks),
)
def _cache(sent: RequestView, arrived: RequestView) -> Outcomes:
    """Cache marks reach the upstream."""
    if not sent.cache_marks:
        return
    if arrived.cache_marks:
        yield preserved_detail(same=len(arrived.cache_marks) == len(sent.cache_marks or ()))
    else:
        has = "" if arrived.cache_marks is not None else f"; {arrived.api} has none"
        pointer = (sent.cache_marks or ("",))[0]
        yield lost_detail(f"the cache marks do not arrive{has}", pointer)


def _setting_detail(slug: str, name: str, setting: str, because: str) -> GatewayDetail:
    check: Callable[[GatewayExchange], Outcomes] = partial(_setting, setting)
    return GatewayDetail(
        f"gateway-{slug}",
        name,
        f"The setting {setting} reaches the upstream unchanged, and is not invented.",
        because,
        check,
        lambda request: setting in request.settings,
    )


SETTINGS = (
    _setting_detail("max-tokens", "max tokens", "max_tokens", "answers end sooner or later than requested"),
    _setting_detail("temperature", "temperature", "temperature", "the model samples differently than requested"),
    _setting_detail("top-p", "top_p", "top_p", "the model samples differently than requested"),
    _setting_detail("stop", "stop texts", "stop", "answers continue after the stop text"),
    _setting_detail("one-call", "one call at a time", "one_call", "a client that runs one call gets several"),
    _setting_detail("several-answers", "several answers", "answers", "the client gets another number of answers"),
    _setting_detail("thinking", "reasoning", "thinking", "the model reasons more or less than requested"),
    _stream,
    _cache,
)
