"""Faults at tool declarations and the tool choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from harness.contract.model import ChatRequest, NamedTool, Tool, ToolChoice
from harness.results import Severity
from tests.broken.fault import FORCING, GEMINI, OPENAI, Fault, Wrap, Wrapped, asks, client, sends
from tests.broken.json_mode import all_required, each_schema, not_nullable, without
from tests.broken.places import BODY, CHOICE, TOOL, everywhere


def tools(edit: Callable[[Tool], Tool | None]) -> Wrap:
    """Each declaration is changed on its way."""
    return asks(lambda r: replace(r, tools=tuple(new for tool in r.tools if (new := edit(tool)) is not None)))


def parameters(edit: Callable[[dict[str, Any]], Any]) -> Wrap:
    """Every schema inside the parameters of each tool is changed on its way."""
    return tools(lambda tool: replace(tool, parameters=each_schema(tool.parameters, edit)))


def choice(edit: Callable[[ChatRequest], ToolChoice | None]) -> Wrap:
    """The tool choice is changed on its way, where there are tools."""
    return asks(lambda r: replace(r, tool_choice=edit(r)) if r.tools else r)


class _StickyChoice(Wrapped):
    """A tool choice that was given once holds for ever."""

    chosen: ToolChoice | None = None

    def ask(self, request: ChatRequest) -> ChatRequest:
        self.chosen = self.chosen or request.tool_choice
        return replace(request, tool_choice=self.chosen)


def _flattened(schema: dict[str, Any]) -> dict[str, Any]:
    """Of arrays of arrays the inner one is lost."""
    items = schema.get("items")
    return {**schema, "items": items["items"]} if isinstance(items, dict) and "items" in items else schema


def _any_items(schema: dict[str, Any]) -> dict[str, Any]:
    """Of the objects in an array the values that a field may have are lost."""
    items = schema.get("items")
    return {**schema, "items": each_schema(items, without("enum"))} if isinstance(items, dict) else schema


def _inlined(tool: Tool) -> Tool:
    """References are replaced by what they lead to, and by anything at all where they lead back."""
    parameters = dict(tool.parameters)
    known = parameters.pop("$defs", {})

    def inlined(node: Any, seen: frozenset[str]) -> Any:
        if isinstance(node, list):
            return [inlined(each, seen) for each in cast("list[Any]", node)]
        if not isinstance(node, dict):
            return node
        name = str(cast("dict[str, Any]", node).get("$ref", "")).removeprefix("#/$defs/")
        if name in known:
            return {} if name in seen else inlined(known[name], seen | {name})
        return {key: inlined(value, seen) for key, value in cast("dict[str, Any]", node).items()}

    return replace(tool, parameters=inlined(parameters, frozenset()))


def _first_line(text: Any) -> Any:
    return text.split("\n")[0] if isinstance(text, str) else text


def _unresolved(schema: dict[str, Any]) -> dict[str, Any]:
    """A reference becomes an object of any shape."""
    return {"type": "object"} if "$ref" in schema else without("$defs")(schema)


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "additionalProperties": False} if "additionalProperties" in schema else schema


def _short_name(tool: Tool) -> Tool:
    """Names of 40 characters at most."""
    return replace(tool, name=tool.name[:40])


def _searching(api: str, body: dict[str, Any]) -> None:
    """The model may search the web, at the caller's cost."""
    search = {"type": "web_search_20250305", "name": "web_search"} if api == "anthropic" else {"type": "web_search"}
    body["tools"] = [*body["tools"], search]


_EXTRA = Tool("final_answer", "Call this to answer.", {"type": "object", "properties": {"text": {"type": "string"}}})


def _apart(_api: str, body: dict[str, Any]) -> None:
    """A tool of its own for each function."""
    body["tools"] = [
        {"functionDeclarations": [each]} for tool in body["tools"] for each in tool["functionDeclarations"]
    ]


FAULTS = (
    Fault(
        "functions-declared-apart",
        sends(_apart),
        "call-parallel-different-tools",
        "gemini-functions-apart",
        everywhere(r"/tools/1"),
        0,
        GEMINI,
        severity=Severity.WARNING,
    ),
    Fault(
        "tools-not-declared",
        asks(lambda r: replace(r, tools=(), tool_choice=None)),
        "call-not-needed",
        "tools-declared",
        BODY,
        0,
    ),
    Fault(
        "tool-added",
        asks(lambda r: replace(r, tools=(*r.tools, _EXTRA)) if r.tools else r),
        "call-not-needed",
        "tools-declared",
        BODY,
        0,
    ),
    Fault(
        "provider-tool-added",
        sends(_searching),
        "call-not-needed",
        "tools-declared",
        TOOL,
        0,
        ("anthropic", "openai-responses"),
    ),
    Fault(
        "provider-tool-dropped",
        sends(lambda _, body: body.pop("tools", None) and None),
        "history-opaque-parts",
        "tools-declared",
        BODY,
        0,
        ("anthropic", "openai-responses", *GEMINI),
    ),
    Fault(
        "tool-renamed",
        tools(lambda t: replace(t, name=f"functions_{t.name}")),
        "call-single",
        "tools-declared",
        BODY,
        0,
    ),
    Fault(
        "description-dropped",
        tools(lambda t: replace(t, description="")),
        "call-single",
        "tool-declaration-changed",
        TOOL,
        0,
    ),
    Fault(
        "parameters-invented",
        tools(
            lambda t: (
                t
                if t.parameters
                else replace(t, parameters={"type": "object", "properties": {"reason": {"type": "string"}}})
            )
        ),
        "call-without-parameters",
        "tool-declaration-changed",
        TOOL,
        0,
    ),
    Fault("schema-const-dropped", parameters(without("const")), "schema-const", "tool-declaration-changed", TOOL, 0),
    Fault(
        "schema-default-dropped",
        parameters(without("default")),
        "schema-optional",
        "tool-declaration-changed",
        TOOL,
        0,
        ("anthropic", *OPENAI),
    ),
    Fault("schema-enum-dropped", parameters(without("enum")), "schema-enums", "tool-declaration-changed", TOOL, 0),
    Fault(
        "schema-inlined-as-far-as-it-goes",
        tools(_inlined),
        "schema-recursive",
        "tool-declaration-changed",
        TOOL,
        0,
        ("anthropic", *OPENAI),
    ),
    Fault(
        "tool-description-cut-to-a-line",
        tools(lambda tool: replace(tool, description=_first_line(tool.description))),
        "tool-description-long",
        "tool-declaration-changed",
        TOOL,
        0,
    ),
    Fault(
        "parameter-descriptions-cut-to-a-line",
        parameters(
            lambda node: {key: _first_line(item) if key == "description" else item for key, item in node.items()}
        ),
        "tool-description-long",
        "tool-declaration-changed",
        TOOL,
        0,
    ),
    Fault(
        "schema-enum-of-items-dropped",
        parameters(_any_items),
        "schema-nested-arrays",
        "tool-declaration-changed",
        TOOL,
        0,
    ),
    Fault("schema-map-closed", parameters(_closed), "schema-map", "tool-declaration-changed", TOOL, 0),
    Fault("tool-names-cut", tools(_short_name), "schema-names", "tools-declared", BODY, 0),
    Fault(
        "schema-arrays-flattened", parameters(_flattened), "schema-nested-arrays", "tool-declaration-changed", TOOL, 0
    ),
    Fault("schema-null-dropped", parameters(not_nullable), "schema-nullable", "tool-declaration-changed", TOOL, 0),
    Fault(
        "schema-required-null-dropped",
        parameters(not_nullable),
        "schema-required-nullable",
        "tool-declaration-changed",
        TOOL,
        0,
    ),
    Fault("schema-all-required", parameters(all_required), "schema-optional", "tool-declaration-changed", TOOL, 0),
    Fault(
        "schema-required-dropped",
        parameters(without("required")),
        "schema-optional",
        "tool-declaration-changed",
        TOOL,
        0,
    ),
    Fault("schema-references-lost", parameters(_unresolved), "schema-references", "tool-declaration-changed", TOOL, 0),
    Fault("choice-always-auto", choice(lambda _: "auto"), "choice-required", "tool-choice", BODY, 0, FORCING),
    Fault(
        "choice-none-ignored",
        choice(lambda r: None if r.tool_choice == "none" else r.tool_choice),
        "choice-none",
        "tool-choice",
        BODY,
        0,
    ),
    Fault(
        "choice-none-ignored-behind-results",
        choice(lambda r: None if any(message.tool_results for message in r.messages) else r.tool_choice),
        "choice-none-behind-results",
        "tool-choice",
        BODY,
        2,
    ),
    Fault(
        "choice-named-as-required",
        choice(lambda r: "required" if isinstance(r.tool_choice, NamedTool) else r.tool_choice),
        "choice-named",
        "tool-choice",
        CHOICE,
        0,
        FORCING,
    ),
    Fault(
        "choice-auto-as-required",
        choice(lambda r: "required" if r.tool_choice == "auto" else r.tool_choice),
        "choice-auto",
        "tool-choice",
        CHOICE,
        0,
        FORCING,
    ),
    Fault("choice-sticky", client(_StickyChoice), "choice-for-one-turn", "tool-choice", CHOICE, 1, FORCING),
)
