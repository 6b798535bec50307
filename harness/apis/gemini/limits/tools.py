"""Tool declarations and the choice among them (gemini-tool-name-form, gemini-schema-fields, gemini-allowed-names)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.apis.gemini import limits
from harness.apis.gemini.limits import schemas
from harness.apis.gemini.requests import MODES
from harness.apis.gemini.requests.proto import ProtoMessage, snake
from harness.apis.limit import Violation, severity_of
from harness.apis.profile import Profile

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]*")
_LENGTH_OF_SOME_SERVERS = 64
_LENGTH = 128


def violations(body: ProtoMessage, profile: Profile, *, vertex: bool) -> Iterator[Violation]:
    """Names that are missing, malformed or declared twice, schemas, functions in several tools, a server tool beside
    functions, and a choice that has no effect."""
    declared: set[str] = set()
    for index, tool in enumerate(body.messages("tools")):
        for position, declaration in enumerate(tool.messages("functionDeclarations")):
            path = f"GenerateContentRequest.tools[{index}].function_declarations[{position}]"
            name = declaration.text("name") or ""
            yield from _name(name, declaration, path)
            if name and name in declared:
                message = f"Duplicate function declaration found: {name}"
                yield limits.TOOL_DUPLICATE.broken(message, declaration.at("name"), actual=name)
            declared.add(name)
            yield from _schemas(declaration, path)
            if "parameters" in declaration.names and not vertex:
                pointer = declaration.at("parameters")
                yield from schemas.parameter_violations(declaration.get("parameters"), pointer, f"{path}.parameters")
    yield from _apart(body)
    if not vertex:
        yield from _mixed(body, profile)
    yield from _choice(body.message("toolConfig"))


def _name(name: str, declaration: ProtoMessage, path: str) -> Iterator[Violation]:
    legal = _NAME.fullmatch(name) is not None
    if legal and len(name) <= _LENGTH_OF_SOME_SERVERS:
        return
    limit = limits.TOOL_NAME_LONG if legal and len(name) <= _LENGTH else limits.TOOL_NAME
    yield limit.broken(
        f"* {path}.name: Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, "
        "A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of "
        f"{_LENGTH_OF_SOME_SERVERS}.\n",
        declaration.at("name"),
        actual=name,
        expected=_NAME.pattern,
    )


def _schemas(declaration: ProtoMessage, path: str) -> Iterator[Violation]:
    for one, other in (("parameters", "parametersJsonSchema"), ("response", "responseJsonSchema")):
        if one in declaration.names and other in declaration.names:
            message = f"* {path}: {snake(one)} and {snake(other)} are mutually exclusive.\n"
            yield limits.TOOL_SCHEMAS.broken(message, declaration.at(other))
        if one in declaration.names:
            yield from schemas.violations(declaration.get(one), declaration.at(one), f"{path}.{snake(one)}")


def _apart(body: ProtoMessage) -> Iterator[Violation]:
    """gemini-functions-in-one-tool."""
    _, *others = [tool for tool in body.messages("tools") if tool.messages("functionDeclarations")] or [None]
    for tool in filter(None, others):
        message = "Functions are declared in several tools: the model may see those of the first alone."
        yield limits.FUNCTIONS_APART.broken(message, tool.pointer)


def _mixed(body: ProtoMessage, profile: Profile) -> Iterator[Violation]:
    severity, config, tools = severity_of(profile.mixed_tools), body.message("toolConfig"), body.messages("tools")
    allowed = config is not None and config.get("includeServerSideToolInvocations") is True
    served = [(tool, name) for tool in tools for name in tool.names if name != "functionDeclarations"]
    if severity and served and not allowed and any(tool.messages("functionDeclarations") for tool in tools):
        tool, name = served[0]
        message = (
            "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools with Function "
            "calling."
        )
        yield limits.MIXED_TOOLS.broken(message, tool.at(name), actual=name, severity=severity)


def _choice(tool_config: ProtoMessage | None) -> Iterator[Violation]:
    config = tool_config and tool_config.message("functionCallingConfig")
    mode = config and (config.enum("mode", MODES) or "AUTO").upper()
    if config and mode not in ("ANY", "VALIDATED") and config.get("allowedFunctionNames"):
        message = "allowed_function_names should only be set when the function calling mode is ANY or VALIDATED."
        pointer = config.at("allowedFunctionNames")
        yield limits.CHOICE_IGNORED.broken(message, pointer, actual=mode)
