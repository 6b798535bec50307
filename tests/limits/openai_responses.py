"""What commits each limit of the Responses API."""

from __future__ import annotations

from typing import Any

from tests.limits.case import PARALLEL, PLAIN, SCHEMA, THINKING, Case
from tests.limits.edits import Edit, append, double, drop, insert, put, raw, together

_USER = {"role": "user", "content": "One moment."}
_REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}


def _case(limit: str, edit: Edit, scenario: str = PARALLEL, model: str | None = None, **more: Any) -> Case:
    return Case(f"openai-responses-{limit}", edit, scenario, "openai-responses", model, **more)


def _renamed(call_id: str) -> Edit:
    return together(put("input.1.call_id", call_id), put("input.3.call_id", call_id))


CASES = (
    _case("body", raw(b'{"model": '), PLAIN),
    _case("input-missing", put("input", []), PLAIN),
    _case("parameter-unknown", put("plugins", [])),
    _case("parameter-type", put("store", "no")),
    _case("parameter-range", put("top_logprobs", 50)),
    _case("stream-options", put("stream_options", {"include_obfuscation": False})),
    _case("state-conflict", together(put("previous_response_id", "resp_1"), put("conversation", "conv_1")), PLAIN),
    _case("temperature", put("temperature", 0.5)),
    _case("sampling", put("temperature", 0.5), model="o3"),
    _case("item-type", insert("input.0", {"type": "tool_use"})),
    _case("item-id", put("input.1.id", "item_1")),
    _case("item-call-id", _renamed("call_" + "0" * 60)),
    _case("call-shape", put("input.1.arguments", {"city": "Paris"})),
    _case("call-name", put("input.1.name", "get.weather")),
    _case("result-shape", put("input.3.output", {"temp_c": 18})),
    _case("result-content", put("input.3.output", [{"type": "text", "text": "18"}])),
    _case("reasoning-shape", drop("input.1.summary"), THINKING),
    _case("reasoning-status", put("input.1.status", "completed"), THINKING),
    _case("message-shape", drop("input.0.content")),
    _case("message-content", put("input.0.content", [{"type": "text", "text": "Hello."}])),
    _case("role", put("input.0.role", "model")),
    _case("result-orphan", insert("input.0", {"type": "function_call_output", "call_id": "call_1", "output": "18"})),
    _case("result-duplicate", double("input.4")),
    _case("result-missing", drop("input.4")),
    _case("result-detached", insert("input.3", _USER), model="deepseek-chat"),
    _case("reasoning-alone", together(append("input", _REASONING), put("store", True)), PLAIN),
    _case("tool-shape", drop("tools.0.type")),
    _case("tool-field", put("tools.0.examples", [{}])),
    _case("tool-name", put("tools.0.name", "get weather")),
    _case("tool-schema", put("tools.0.parameters", {})),
    _case("tool-schema-union", put("tools.0.parameters", {"anyOf": [{"type": "object"}]})),
    _case("tool-array-items", put("tools.0.parameters.properties.days", {"type": "array"})),
    _case("tool-strict-schema", put("tools.0.strict", True)),
    _case("tool-strict-unsaid", drop("tools.0.strict")),
    _case("tool-duplicate", double("tools.0")),
    _case("tool-choice-shape", put("tool_choice", "any")),
    _case("tool-choice-toolless", put("tool_choice", "required"), PLAIN),
    _case("tool-choice-unknown", put("tool_choice", {"type": "function", "name": "get_time"})),
    _case("format-shape", put("text.format.type", "json"), SCHEMA),
    _case("format-name", put("text.format.name", "my book"), SCHEMA),
    _case("format-word", put("text", {"format": {"type": "json_object"}}), PLAIN),
    _case("format-strict-schema", drop("text.format.schema.additionalProperties"), SCHEMA),
)
