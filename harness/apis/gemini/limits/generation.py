"""Generation settings that exclude or need each other: JSON output and thinking (gemini-json-output,
gemini-level-or-budget)."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.gemini import limits
from harness.apis.gemini.limits import schemas
from harness.apis.gemini.requests.proto import ProtoMessage
from harness.apis.limit import Violation, severity_of
from harness.apis.profile import Profile

_STRUCTURED = ("application/json", "text/x.enum")


def violations(body: ProtoMessage, profile: Profile) -> Iterator[Violation]:
    """Violations of `generationConfig`."""
    config = body.message("generationConfig")
    if config is None:
        return
    yield from _output_schemas(config)
    mime = config.text("responseMimeType")
    tools = any("functionDeclarations" in tool.names for tool in body.messages("tools"))
    if tools and mime == "application/json" and profile.json_with_tools == "unsupported":
        message = f"Function calling with a response mime type: '{mime}' is unsupported"
        yield limits.JSON_WITH_TOOLS.broken(message, config.at("responseMimeType"), actual=mime)
    thinking = config.message("thinkingConfig")
    if thinking and {"thinkingLevel", "thinkingBudget"} <= {*thinking.names}:
        message = "You can only set only one of thinking budget and thinking level."
        yield limits.THINKING.broken(message, thinking.at("thinkingBudget"))
    elif thinking:
        yield from _level(thinking, profile)


def _level(thinking: ProtoMessage, profile: Profile) -> Iterator[Violation]:
    level = (thinking.enum("thinkingLevel", ()) or "").upper()
    severity = severity_of(profile.thinking_types.get(level))
    if severity:
        message = (
            "Thinking level is not supported for this model."
            if profile.thinking == "budget"
            else f"Thinking level {level} is not supported for this model. Please retry with other thinking level."
        )
        yield limits.THINKING_LEVEL.broken(message, thinking.at("thinkingLevel"), actual=level, severity=severity)


def _output_schemas(config: ProtoMessage) -> Iterator[Violation]:
    names = [name for name in ("responseSchema", "responseJsonSchema") if name in config.names]
    if not names:
        return
    mime = config.text("responseMimeType")
    if mime not in _STRUCTURED:
        message = (
            "* GenerateContentRequest.generation_config.response_mime_type: a response schema needs application/json\n"
        )
        yield limits.SCHEMA_MIME_TYPE.broken(message, config.at(names[0]), actual=mime, expected=_STRUCTURED[0])
    if len(names) > 1:
        message = (
            "* GenerateContentRequest.generation_config: response_schema and response_json_schema exclude each other\n"
        )
        yield limits.OUTPUT_SCHEMAS.broken(message, config.at(names[1]), actual=[*names])
    if "responseSchema" in names:
        path = "GenerateContentRequest.generation_config.response_schema"
        yield from schemas.violations(config.get("responseSchema"), config.at("responseSchema"), path)
