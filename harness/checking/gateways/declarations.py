"""What the model may call and how it has to answer: tools, the tool choice, the format of the answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from harness.apis.jsonvalue import equal
from harness.apis.view import FormatView, RequestView, TextView, ToolView
from harness.checking.gateways.fact import Fact, Fared, added, lost, told
from harness.checking.gateways.passage import Passage
from harness.meaning import choices
from harness.meaning.choices import family
from harness.meaning.schemas import change
from harness.results import Severity


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


def _tools(passage: Passage) -> Iterable[Fared]:
    if passage.asked is None:
        return
    sent, arrived = passage.asked
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


def _hosted(passage: Passage) -> Iterable[Fared]:
    if passage.asked is None:
        return
    sent, arrived = passage.asked
    found = {family(tool.kind): tool.kind for tool in arrived.tools if tool.kind != "function"}
    for tool in sent.tools:
        if tool.kind != "function":
            name = family(tool.kind)
            if name in found:
                yield told(same=found[name] == tool.kind)
            else:
                yield lost(f"the provider's tool {tool.kind!r} does not arrive", tool.pointer, "", [*found.values()])


def _common(passage: Passage) -> Iterator[tuple[ToolView, ToolView]]:
    """Each tool that is declared at both ends, as the client and as the gateway declares it."""
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


def _choice(passage: Passage) -> Iterable[Fared]:
    if passage.asked is None:
        return
    sent, arrived = passage.asked
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


def _format(passage: Passage) -> Iterable[Fared]:
    if passage.asked is None:
        return
    sent, arrived = passage.asked
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


FACTS = (
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
