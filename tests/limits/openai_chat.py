"""What commits each limit of Chat Completions, and of its embeddings."""

from __future__ import annotations

from typing import Any

from tests.limits.case import BARE, EMBEDDED, PARALLEL, PLAIN, SCHEMA, Case
from tests.limits.edits import Edit, double, drop, insert, put, raw, together

_FUNCTION = {"name": "get_weather", "arguments": "{}"}
_IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
_CALLS = "messages.1.tool_calls"
_PARAMETERS = "tools.0.function.parameters"


def _case(limit: str, edit: Edit, scenario: str = PARALLEL, model: str | None = None, **more: Any) -> Case:
    return Case(f"openai-chat-{limit}", edit, scenario, "openai-chat", model, **more)


def _embedded(limit: str, edit: Edit) -> Case:
    return Case(f"openai-embeddings-{limit}", edit, EMBEDDED, "openai-chat")


def _named(name: str) -> Any:
    return {"type": "function", "function": {"name": name}}


def _renamed(call_id: str) -> Edit:
    return together(put(f"{_CALLS}.0.id", call_id), put("messages.2.tool_call_id", call_id))


def _sound(form: str) -> Any:
    return {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": form}}


def _file(media_type: str) -> Any:
    return {"type": "file", "file": {"filename": "a", "file_data": f"data:{media_type};base64,SGVsbG8="}}


CASES = (
    _case("body", raw(b'{"model": '), PLAIN),
    _case("unknown-field", put("plugins", [])),
    _case("parameter-type", put("seed", "1")),
    _case("parameter-range", put("n", 0)),
    _case("model-missing", drop("model")),
    _case("stream-options", put("stream_options", {"include_usage": True})),
    _case("legacy-functions", put("function_call", "auto")),
    _case("max-tokens", put("max_tokens", 100)),
    _case("temperature", put("temperature", 0.5), model="gpt-5.4"),
    _case("sampling", put("temperature", 0.5), model="o3"),
    _case("messages-missing", put("messages", []), PLAIN),
    _case("message-type", insert("messages.0", "Hello."), PLAIN),
    _case("role-unknown", put("messages.0.role", "model"), PLAIN),
    _case("system-unsupported", insert("messages.0", {"role": "system", "content": "Be brief."}), BARE, "o1-mini"),
    _case("content-missing", put("messages.0.content", None)),
    _case("content-type", put("messages.0.content", {"text": "Hello."})),
    _case("content-part", put("messages.2.content", [_IMAGE])),
    _case("audio-format", put("messages.0.content", [_sound("flac")]), model="gpt-audio", severity="warning"),
    _case("audio-model", put("messages.0.content", [_sound("wav")]), severity="warning"),
    _case("file-type", put("messages.0.content", [_file("text/plain")])),
    _case("name-pattern", put("messages.0.name", "J. Doe")),
    _case("calls-type", insert("messages.0", {"role": "assistant", "content": "Hm.", "tool_calls": {}})),
    _case("call-type", put(f"{_CALLS}.0.type", "tool_use")),
    _case("call-name-missing", drop(f"{_CALLS}.0.function.name")),
    _case(
        "call-id-missing",
        insert("messages.0", {"role": "assistant", "tool_calls": [{"type": "function", "function": _FUNCTION}]}),
    ),
    _case("call-id-mistral", _renamed("call_1"), model="mistral-large-latest"),
    _case("arguments-type", put(f"{_CALLS}.0.function.arguments", {"city": "Paris"})),
    _case("arguments-json", put(f"{_CALLS}.0.function.arguments", "{oops"), severity="warning"),
    _case("result-id-missing", insert("messages.3", {"role": "tool", "content": "18"})),
    _case("result-missing", drop("messages.3")),
    _case("result-orphan", insert("messages.0", {"role": "tool", "tool_call_id": "call_1", "content": "18"})),
    _case("result-unknown-id", insert("messages.3", {"role": "tool", "tool_call_id": "call_1", "content": "18"})),
    _case("result-duplicate", double("messages.2")),
    _case("tools-type", put("tools", "get_weather")),
    _case("tools-empty", put("tools", []), PLAIN),
    _case("tools-many", put("tools", [_named(f"get_weather{number or ''}") for number in range(129)])),
    _case("tools-unsupported", put("tools", [_named("get_weather")]), BARE, "gpt-6-astra"),
    _case("tools-with-reasoning", put("reasoning_effort", "low")),
    _case("tool-type", put("tools.0.type", "web_search")),
    _case("tool-name-missing", drop("tools.0.function.name")),
    _case("tool-name", put("tools.0.function.name", "get weather")),
    _case("tool-duplicate", double("tools.0")),
    _case("tool-parameters-type", put(_PARAMETERS, "{}")),
    _case("tool-field", put("tools.0.function.arguments", {"type": "object"})),
    _case("tool-parameters-schema", put(f"{_PARAMETERS}.properties.city.type", "str")),
    _case("tool-parameters-root", put(_PARAMETERS, {"properties": {}})),
    _case("tool-parameters-union", put(_PARAMETERS, {"anyOf": [{"type": "object"}]})),
    _case("tool-array-items", put(f"{_PARAMETERS}.properties.days", {"type": "array"})),
    _case("choice-without-tools", put("tool_choice", "auto"), PLAIN),
    _case("choice-value", put("tool_choice", "any")),
    _case("choice-shape", put("tool_choice", {"type": "function", "name": "get_weather"})),
    _case("choice-undeclared", put("tool_choice", {"type": "function", "function": {"name": "get_time"}})),
    _case("format-type", put("response_format", {"type": "json"}), PLAIN),
    _case("format-name", put("response_format.json_schema.name", "my book"), SCHEMA),
    _case("format-schema", drop("response_format.json_schema.schema"), SCHEMA),
    _case(
        "json-word",
        together(put("response_format", {"type": "json_object"}), put("messages.1.content", "Dinner?")),
        PLAIN,
    ),
    _case("strict-additional-properties", drop("response_format.json_schema.schema.additionalProperties"), SCHEMA),
    _case("strict-required", put("response_format.json_schema.schema.required", []), SCHEMA),
    _embedded("body", put("input", {"text": "Hello."})),
    _embedded("model", drop("model")),
    _embedded("count", put("input", [])),
    _embedded("empty", put("input.0", "")),
    _embedded("dimensions", put("dimensions", 9999)),
)
