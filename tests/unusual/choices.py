"""Tool choices in other words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.contract.model import ChatRequest, NamedTool, ToolChoice
from tests.broken.fault import GEMINI, OPENAI, Wrap, asks, sends
from tests.unusual.form import Form


def chosen(choice: ToolChoice) -> Wrap:
    """Another tool choice is encoded, where a call is forced."""

    def edit(request: ChatRequest) -> ChatRequest:
        return request if request.tool_choice in (None, "auto") else replace(request, tool_choice=choice)

    return asks(edit)


def calling(mode: str, *, named: int | None = None) -> Wrap:
    """Gemini's function calling config: with the names of the first `named` tools, where it is for some tools only."""

    def edit(_api: str, body: dict[str, Any]) -> None:
        chosen = body.get("toolConfig", {}).get("functionCallingConfig", {}).get("mode")
        if named is not None and chosen != "ANY":
            return
        names = [each["name"] for tool in body["tools"] for each in tool["functionDeclarations"]]
        config = {"mode": mode} | ({} if named is None else {"allowedFunctionNames": names[:named]})
        body["toolConfig"] = {"functionCallingConfig": config}

    return sends(edit)


def among(mode: str, count: int) -> Wrap:
    """OpenAI's choice among the first `count` tools, where one is required or `mode` is none that requires one."""

    def edit(api: str, body: dict[str, Any]) -> None:
        if mode == "required" and body.get("tool_choice") != "required":
            return
        names = [tool.get("function", tool)["name"] for tool in body["tools"]][:count]
        if api == "openai-chat":
            tools = [{"type": "function", "function": {"name": name}} for name in names]
            body["tool_choice"] = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}
        else:
            tools = [{"type": "function", "name": name} for name in names]
            body["tool_choice"] = {"type": "allowed_tools", "mode": mode, "tools": tools}

    return sends(edit)


def _only_tool(request: ChatRequest) -> ChatRequest:
    """The one tool that there is, by its name."""
    only = NamedTool(request.tools[0].name)
    return replace(request, tool_choice=only) if request.tool_choice == "required" else request


FORMS = (
    Form(
        "validated",
        "Gemini's VALIDATED is auto with checked arguments",
        "choice-auto",
        GEMINI,
        calling("VALIDATED"),
        calling("ANY"),
        "tool-choice",
    ),
    Form(
        "validated-unasked",
        "VALIDATED where nothing was chosen",
        "call-single",
        GEMINI,
        calling("VALIDATED"),
        calling("NONE"),
        "tool-choice",
    ),
    Form(
        "any-of-all",
        "ANY that names all tools is required",
        "choice-required",
        GEMINI,
        calling("ANY", named=2),
        calling("ANY", named=1),
        "tool-choice",
    ),
    Form(
        "named-as-required",
        "required with one tool is that tool",
        "choice-for-one-turn",
        (*OPENAI, *GEMINI),
        chosen("required"),
        chosen("auto"),
        "tool-choice",
    ),
    Form(
        "required-as-named",
        "the one tool by its name is required",
        "unusual-required-one-tool",
        (*OPENAI, *GEMINI),
        asks(_only_tool),
        chosen("none"),
        "tool-choice",
    ),
    Form(
        "allowed-all",
        "a choice among all tools is the choice alone",
        "choice-required",
        OPENAI,
        among("required", 2),
        among("required", 1),
        "tool-choice",
    ),
    Form(
        "allowed-all-auto",
        "a free choice among all tools is auto",
        "call-parallel-different-tools",
        OPENAI,
        among("auto", 9),
        among("auto", 1),
        "tool-choice",
    ),
    Form(
        "auto-told",
        "auto that is told is auto that is not",
        "call-single",
        ("anthropic", *OPENAI),
        asks(lambda request: replace(request, tool_choice="auto")),
        asks(lambda request: replace(request, tool_choice="none")),
        "tool-choice",
    ),
)
