"""A client's request: prompts, texts and media, tools, choice and format, and settings."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby

from harness.apis.jsonvalue import equal
from harness.apis.view import FormatView, MediaView, RequestView, ResultView, TextView, ToolView
from harness.checking.gateways.passage import Fact, Fared, Passage, added, lost, of_request, told
from harness.meaning import choices
from harness.meaning.choices import family
from harness.meaning.results import is_told, joined
from harness.meaning.schemas import change
from harness.results import Severity


@of_request
def _system(sent: RequestView, arrived: RequestView) -> Iterable[Fared]:
    given, found = [part.text for part in sent.system], [part.text for part in arrived.system]
    place, there = (sent.system[0].pointer if sent.system else ""), (arrived.system[0].pointer if found else "")
    if not any(given):
        if any(found) and sent.response_format is None:  # which may take an instruction
            yield added("there is no system prompt, and the upstream gets one", there, "".join(found))
        return
    if is_told(given, found):
        yield told(same=len(given) == len(found))
    elif any(text in "".join(found) for text in joined(given)):
        yield told(same=False)
    elif any(text in part.text for text in joined(given) for _, part in _user_texts(arrived)):
        yield lost("the system prompt reaches the upstream as words of the user", place, "", None, "".join(given))
    else:
        what = "changed" if any(found) else "not at all"
        yield lost(f"the system prompt arrives {what}", place, there, "".join(found) if found else None, "".join(given))


def _user_texts(view: RequestView) -> Iterator[tuple[str, TextView]]:
    for turn in view.turns:
        for part in turn.parts:
            if isinstance(part, TextView) and turn.role == "user":
                yield turn.role, part


def _runs(view: RequestView) -> list[tuple[str, list[TextView]]]:
    """The texts of each role that stand side by side, whatever calls and results are between them."""
    texts = (
        (turn.role, part)
        for turn in view.turns
        for part in turn.parts
        if isinstance(part, TextView) and part.text.strip()
    )
    return [(role, [part for _, part in run]) for role, run in groupby(texts, key=lambda text: text[0])]


@of_request
def _texts(sent: RequestView, arrived: RequestView) -> Iterable[Fared]:
    given, found = _runs(sent), _runs(arrived)
    adds = sent.response_format is not None or any(_media(sent))  # an instruction, or a caption
    system = "".join(part.text for part in sent.system)
    is_same = True
    for place in range(max(len(given), len(found))):
        role, texts = given[place] if place < len(given) else ("", [])
        there, parts = found[place] if place < len(found) else ("", [])
        words, told_words = [part.text for part in texts], [part.text for part in parts]
        if role == there and is_told(words, told_words):
            is_same &= len(words) == len(told_words)
        elif (
            role == there
            and any(text in "".join(told_words) for text in joined(words))
            and (
                adds or (system and system in "".join(told_words))  # system-prompt says the second
            )
        ):
            is_same = False
        else:
            yield _text_lost(role, texts, there, parts)
            return
    if given:
        yield told(same=is_same)


def _text_lost(role: str, texts: list[TextView], there: str, parts: list[TextView]) -> Fared:
    given, found = "".join(part.text for part in texts), "".join(part.text for part in parts)
    if not texts:
        what = "the upstream gets a text that nobody gave"
    elif not parts:
        what = "a text of the conversation does not arrive"
    else:
        what = "a text of the conversation arrives changed, or with other words beside it"
    return lost(
        what,
        texts[0].pointer if texts else "",
        parts[0].pointer if parts else "",
        f"{there}: {found}" if parts else None,
        f"{role}: {given}" if texts else None,
    )


def _media(view: RequestView) -> Iterator[tuple[MediaView, bool]]:
    """Each medium, and whether it stands inside a tool's result."""
    for turn in view.turns:
        for part in turn.parts:
            if isinstance(part, MediaView):
                yield part, False
            elif isinstance(part, ResultView):
                yield from ((each, True) for each in part.payload if isinstance(each, MediaView))


@of_request
def _pictures(sent: RequestView, arrived: RequestView) -> Iterable[Fared]:
    found = [*_media(arrived)]
    for medium, inside in _media(sent):
        same = [(each, within) for each, within in found if _is_same(medium, each)]
        if same:
            yield told(same=inside in [within for _, within in same])
        elif medium.uri is not None and any(each.data is not None for each, _ in found):
            yield told(same=False)  # fetched by the gateway: nobody here knows its bytes
        else:
            yield lost(
                f"{_shown(medium)} does not arrive",
                medium.pointer,
                found[0][0].pointer if found else "",
                [_shown(each) for each, _ in found],
                _shown(medium),
            )


def _is_same(one: MediaView, other: MediaView) -> bool:
    if one.data is not None:
        return one.data == other.data and one.media_type == other.media_type
    return one.uri == other.uri


def _shown(medium: MediaView) -> str:
    size = f"{len(medium.data)} bytes" if medium.data is not None else str(medium.uri)
    return f"a medium of type {medium.media_type} ({size})"


PROMPTS = (
    Fact(
        "gateway-system-prompt",
        "system prompt",
        "The system prompt reaches the upstream as one, and no other does.",
        "the model does not know its instructions, or follows others",
        _system,
        lambda request: any(part.text for part in request.system),
    ),
    Fact(
        "gateway-texts",
        "message texts",
        "The texts of the conversation reach the upstream to the code point, each under its role.",
        "the model reads other words than were said",
        _texts,
    ),
    Fact(
        "gateway-media",
        "images and files",
        "Images and files reach the upstream to the byte.",
        "the model sees another picture, or none",
        _pictures,
        lambda request: any(True for _ in _media(request)),
    ),
)


def _functions(view: RequestView) -> dict[str, ToolView]:
    return {tool.name: tool for tool in view.tools if tool.kind == "function"}


def _format_tool(sent: RequestView, arrived: RequestView) -> ToolView | None:
    """The tool by which a format is asked for: none of the client's, and the model is bound to it."""
    choice, given = arrived.tool_choice, _functions(sent)
    if sent.response_format is None or choice is None:
        return None
    for name, tool in _functions(arrived).items():
        if name not in given and (choice.mode == "required" or (choice.mode == "named" and choice.name == name)):
            return tool
    return None


@of_request
def _tools(sent: RequestView, arrived: RequestView) -> Iterable[Fared]:
    given, found, format_tool = _functions(sent), _functions(arrived), _format_tool(sent, arrived)
    forbidden = sent.tool_choice is not None and sent.tool_choice.mode == "none"
    if not found and forbidden:
        yield told(same=False)  # without declarations nothing can be called, which is what `none` asks for
        return
    for name, tool in given.items():
        if name in found:
            yield told(same=True)
        else:
            yield lost(f"the tool {name!r} does not arrive", tool.pointer, "", [*found], [*given])
    for name, tool in found.items():
        if name not in given and tool is not format_tool:
            yield added(f"the upstream gets a tool {name!r} that nobody gave", tool.pointer, [*found])


@of_request
def _hosted(sent: RequestView, arrived: RequestView) -> Iterable[Fared]:
    found = {family(tool.kind): tool.kind for tool in arrived.tools if tool.kind != "function"}
    for tool in sent.tools:
        if tool.kind != "function":
            name = family(tool.kind)
            if name in found:
                yield told(same=found[name] == tool.kind)
            else:
                yield lost(f"the provider's tool {tool.kind!r} does not arrive", tool.pointer, "", [*found.values()])


def _common(passage: Passage) -> Iterator[tuple[ToolView, ToolView]]:
    if passage.asked is not None:
        sent, arrived = map(_functions, passage.asked)
        yield from ((tool, arrived[name]) for name, tool in sent.items() if name in arrived)


def _descriptions(passage: Passage) -> Iterable[Fared]:
    for tool, found in _common(passage):
        if not tool.description and not found.description:
            continue
        if tool.description == found.description:
            yield told(same=True)
        else:
            yield lost(
                f"the description of {tool.name} arrives changed",
                tool.pointer,
                found.pointer,
                found.description,
                tool.description,
            )


def _schemas(passage: Passage) -> Iterable[Fared]:
    for tool, found in _common(passage):
        apart = change(tool.parameters, found.parameters, found.dialect, tool.dialect)
        if apart is None:
            yield told(same=equal(tool.parameters, found.parameters))
        else:
            yield lost(
                f"the schema of {tool.name} arrives changed at {apart.pointer or '/'}"
                f"{apart.said('the given schema', 'the one that arrives')}",
                tool.pointer,
                found.pointer,
                apart.actual,
                apart.expected,
            )


def _strict(passage: Passage) -> Iterable[Fared]:
    for tool, found in _common(passage):
        if tool.strict:
            if found.strict:
                yield told(same=True)
            elif found.strict is None and passage.way.upstream.traits.strict_unless_told:
                yield told(same=False)
            else:
                message = f"that the arguments of {tool.name} have to conform to their schema (strict) does not arrive"
                yield lost(message, tool.pointer, found.pointer)


@of_request
def _choice(sent: RequestView, arrived: RequestView) -> Iterable[Fared]:
    if not sent.tools or _format_tool(sent, arrived) is not None:
        return
    names = [*_functions(sent)]
    wanted, found = choices.sent(sent.tool_choice, names), choices.sent(arrived.tool_choice, names)
    if not arrived.tools and wanted is not None and not wanted.forced:
        return  # nothing can be called; whether that is right, gateway-tools says
    if wanted == found:
        if sent.tool_choice is not None:
            yield told(same=arrived.tool_choice is not None and sent.tool_choice.mode == arrived.tool_choice.mode)
        return
    yield lost(
        "the tool choice arrives as another one",
        sent.tool_choice.pointer if sent.tool_choice else "",
        arrived.tool_choice.pointer if arrived.tool_choice else "",
        choices.shown(found, names),
        choices.shown(wanted, names),
    )


@of_request
def _format(sent: RequestView, arrived: RequestView) -> Iterable[Fared]:
    wanted, found = sent.response_format, arrived.response_format
    if wanted is None:
        if found is not None:
            yield added("the upstream is asked for JSON, and nobody wanted it", found.pointer, found.kind)
        return
    if found is None:
        yield _otherwise(sent, arrived, wanted)
    elif found.kind != wanted.kind:
        yield lost("JSON is asked for in another way", wanted.pointer, found.pointer, found.kind, wanted.kind)
    elif wanted.kind == "json":
        yield told(same=True)
    else:
        apart = change(wanted.schema, found.schema, found.dialect, wanted.dialect)
        if apart is None:
            yield told(same=equal(wanted.schema, found.schema))
        else:
            yield lost(
                f"the schema of the answer arrives changed at {apart.pointer or '/'}"
                f"{apart.said('the given schema', 'the one that arrives')}",
                wanted.schema_pointer,
                found.schema_pointer,
                apart.actual,
                apart.expected,
            )


def _otherwise(sent: RequestView, arrived: RequestView, wanted: FormatView) -> Fared:
    """The format without the API's field for it: by a tool that has to be called, or in words."""
    tool = _format_tool(sent, arrived)
    if tool is not None and (
        wanted.kind == "json" or change(wanted.schema, tool.parameters, tool.dialect, wanted.dialect) is None
    ):
        return told(same=False)
    added = "\n".join(text for text in _words(arrived) if text not in set(_words(sent)))
    if wanted.kind == "json" and "json" in added.lower():
        return told(same=False)
    if wanted.kind == "json-schema" and _names(wanted) and all(json.dumps(name) in added for name in _names(wanted)):
        return told(same=False)
    what = "the schema of the answer" if wanted.kind == "json-schema" else "that the answer has to be JSON"
    return lost(f"{what} does not arrive", wanted.pointer, tool.pointer if tool else "", None, wanted.kind)


def _words(view: RequestView) -> Iterator[str]:
    yield from (part.text for part in view.system)
    yield from (part.text for turn in view.turns for part in turn.parts if isinstance(part, TextView))


def _names(wanted: FormatView) -> list[str]:
    properties = wanted.schema.get("properties") if isinstance(wanted.schema, dict) else None
    return [*properties] if isinstance(properties, dict) else []


DECLARATIONS = (
    Fact(
        "gateway-tools",
        "tools",
        "The tools that were given reach the upstream, and no others.",
        "the model can call what is not there, or cannot call what is",
        _tools,
        lambda request: bool(_functions(request)),
    ),
    Fact(
        "gateway-tool-descriptions",
        "tool descriptions",
        "The descriptions of tools reach the upstream as given.",
        "the model reads another description of the tool",
        _descriptions,
    ),
    Fact(
        "gateway-tool-schemas",
        "tool schemas",
        "The schemas of tools still accept what they accepted, and say what they said.",
        "the model makes arguments that the tool does not take",
        _schemas,
    ),
    Fact(
        "gateway-tool-strict",
        "strict tools",
        "That arguments have to conform to their schema reaches the upstream.",
        "arguments may not conform, where they were promised to",
        _strict,
        lambda request: any(tool.strict for tool in request.tools),
        severity=Severity.WARNING,
    ),
    Fact(
        "gateway-provider-tools",
        "provider's tools",
        "Tools that the provider runs reach the upstream.",
        "the model cannot look up what it was to look up",
        _hosted,
        lambda request: any(tool.kind != "function" for tool in request.tools),
    ),
    Fact(
        "gateway-tool-choice",
        "tool choice",
        "The tool choice lets the model do the same.",
        "the model is free where it was bound, or bound where it was free",
        _choice,
        lambda request: request.tool_choice is not None and request.tool_choice.mode,
    ),
    Fact(
        "gateway-response-format",
        "response format",
        "JSON is asked for where it was, with the schema that was given.",
        "the answer is not the JSON that the client reads",
        _format,
        lambda request: request.response_format is not None and request.response_format.kind,
    ),
)


_DEMANDED = frozenset({"max_tokens"})
"""What an upstream may want from everybody, so that a gateway has to make it up (anthropic-required-fields)."""


def _setting(name: str, passage: Passage) -> Iterable[Fared]:
    if passage.asked is None:
        return
    sent, arrived = (view.settings.get(name) for view in passage.asked)
    if sent is None:
        if arrived is not None and name not in _DEMANDED and not _is_no_reasoning(passage, name):
            message = f"the setting {name} was not given, and arrives"
            yield added(message, arrived.pointer, arrived.value, Severity.WARNING)
    elif arrived is None:
        yield lost(f"the setting {name} does not arrive", sent.pointer, "", None, sent.value)
    elif name == "thinking":
        yield _effort(*passage.asked, same=equal(sent.value, arrived.value))
    elif equal(sent.value, arrived.value):
        yield told(same=True)
    else:
        yield lost(f"the setting {name} arrives changed", sent.pointer, arrived.pointer, arrived.value, sent.value)


def _is_no_reasoning(passage: Passage, name: str) -> bool:
    """Reasoning is switched off together with tools, for models that take no tools otherwise
    (openai-chat-tools-want-no-reasoning)."""
    arrived = passage.asked[1] if passage.asked is not None else None
    effort = arrived.effort if arrived is not None and arrived.tools else None
    return name == "thinking" and effort is not None and effort.value == "none"


def _effort(one: RequestView, other: RequestView, *, same: bool) -> Fared:
    """Efforts, levels and budgets of tokens are each API's own words for the same: a number stands for any word."""
    sent, arrived = one.effort, other.effort
    if sent is None or (arrived is not None and not (isinstance(sent.value, str) and isinstance(arrived.value, str))):
        return told(same=same)
    if arrived is None:
        return lost("the effort of reasoning does not arrive", sent.pointer, "", None, sent.value)
    if sent.value == arrived.value:
        return told(same=same)
    return lost("the effort of reasoning arrives changed", sent.pointer, arrived.pointer, arrived.value, sent.value)


def _stream(passage: Passage) -> Iterable[Fared]:
    if passage.asked is None:
        return
    sent, arrived = passage.asked
    received = passage.client.response
    if sent.stream and received is not None and received.error is None and not received.streamed:
        yield lost("a stream was asked for, and the answer comes in one piece", "", "", "one body", "a stream")
    elif sent.stream:
        yield told(same=arrived.stream)


@of_request
def _cache(sent: RequestView, arrived: RequestView) -> Iterable[Fared]:
    if not sent.cache_marks:
        return
    if arrived.cache_marks:
        yield told(same=len(arrived.cache_marks) == len(sent.cache_marks or ()))
    else:
        has = "" if arrived.cache_marks is not None else f"; {arrived.api} has none"
        pointer = (sent.cache_marks or ("",))[0]
        yield lost(f"the cache marks do not arrive{has}", pointer)


def _fact(slug: str, name: str, setting: str, because: str) -> Fact:
    check: Callable[[Passage], Iterable[Fared]] = partial(_setting, setting)
    return Fact(
        f"gateway-{slug}",
        name,
        f"The setting {setting} reaches the upstream as given, and is not made up.",
        because,
        check,
        lambda request: setting in request.settings,
    )


SETTINGS = (
    _fact("max-tokens", "max tokens", "max_tokens", "answers end sooner or later than was asked for"),
    _fact("temperature", "temperature", "temperature", "the model samples otherwise than was asked for"),
    _fact("top-p", "top_p", "top_p", "the model samples otherwise than was asked for"),
    _fact("stop", "stop texts", "stop", "answers go on behind the text at which they were to end"),
    _fact("one-call", "one call at a time", "one_call", "a client that runs one call gets several"),
    _fact("several-answers", "several answers", "answers", "the client gets another number of answers"),
    _fact("thinking", "reasoning", "thinking", "the model reasons more or less than was asked for"),
    Fact(
        "gateway-stream",
        "stream",
        "Who asks for a stream gets one.",
        "the client's reader of streams gets no stream",
        _stream,
    ),
    Fact(
        "gateway-cache-marks",
        "cache marks",
        "Cache marks reach the upstream.",
        "the prompt is paid for anew each time; nothing that is said is lost",
        _cache,
        lambda request: bool(request.cache_marks),
        severity=Severity.WARNING,
    ),
)
