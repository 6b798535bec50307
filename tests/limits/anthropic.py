"""What commits each limit of the Messages API."""

from __future__ import annotations

from typing import Any

from tests.limits.case import PARALLEL, PLAIN, SCHEMA, THINKING, Case
from tests.limits.edits import Edit, append, double, drop, elsewhere, insert, put, raw, together, unheaded

OLDER = "claude-haiku-4-5"
"""It takes manual thinking, forced calls and a prefilled answer, and knows no system message."""

_CLOSED = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
_WORKBOOK = {"type": "document", "source": {"type": "base64", "media_type": "text/csv", "data": "YSxi"}}
_DOCUMENT = {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}
_MARKED = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
_CALL = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}}
_RESULT = {"type": "tool_result", "tool_use_id": "toolu_of_nobody", "content": "18"}
_HELLO = {"type": "text", "text": "Hello."}
_EMPTY = {"type": "text", "text": ""}
_ANSWERS = "messages.2.content"


def _case(limit: str, edit: Edit, scenario: str = PARALLEL, model: str | None = None, **more: Any) -> Case:
    return Case(f"anthropic-{limit}", edit, scenario, "anthropic", model, **more)


def _strict(properties: dict[str, Any], *, required: bool = True, **more: Any) -> Edit:
    needed = list(properties) if required else []
    schema = {**_CLOSED, "properties": properties, "required": needed, **more}
    return put("tools.0", {"name": "get_weather", "input_schema": schema, "strict": True})


def _fields(count: int, schema: Any) -> dict[str, Any]:
    return {f"p{number}": schema for number in range(count)}


CASES = (
    Case("path-unknown", elsewhere("/messages", "/complete"), PLAIN, "anthropic"),
    _case("version", unheaded("anthropic-version"), PLAIN),
    _case("body", raw(b'{"model": '), PLAIN),
    _case("body-size", put("system", "x" * (33 << 20)), PLAIN),
    _case("field-missing", drop("max_tokens")),
    _case("field-type", put("max_tokens", "1024")),
    _case("extra-input", put("parallel_tool_calls", False)),
    _case("max-tokens", put("max_tokens", -1)),
    _case("messages-empty", put("messages", []), PLAIN),
    _case("messages-many", put("messages", ["x"] * 100_001), PLAIN),  # so many that nothing looks at one of them
    _case("sampling", put("temperature", 1)),
    _case("role", put("messages.0.role", "developer"), PLAIN),
    _case("block-type", put("messages.0.content.0.type", "input_text")),
    _case("block-role", append("messages.0.content", _CALL)),
    _case("text-empty", append("messages.0.content", _EMPTY)),
    _case("result-text-empty", put(f"{_ANSWERS}.0.content", [_EMPTY])),
    _case("message-empty", insert("messages.0", {"role": "user", "content": []})),
    _case("prefill", append("messages", {"role": "assistant", "content": "{"}), PLAIN),
    _case("media-type", insert("messages.0.content.0", _WORKBOOK)),
    _case("document-role", insert("messages.1.content.0", _DOCUMENT)),
    _case("user-citations", put("messages.0.content.0.citations", [{"type": "page_location"}])),
    _case("cache-marks", put("system", [_MARKED] * 5), PLAIN),
    _case("cache-mark", put("messages.0.content.0.cache_control", {"type": "ephemeral", "ttl": "2h"})),
    _case(
        "call-id-pattern",
        together(put("messages.1.content.0.id", "call:0"), put(f"{_ANSWERS}.0.tool_use_id", "call:0")),
    ),
    _case("call-id-duplicate", double("messages.1.content.0")),
    _case("result-missing", drop(f"{_ANSWERS}.1")),
    _case("result-order", insert(f"{_ANSWERS}.0", _HELLO)),
    _case("result-orphan", append(_ANSWERS, _RESULT)),
    _case("result-duplicate", double(f"{_ANSWERS}.1")),
    _case(
        "server-call-pending",
        together(
            insert(
                "messages.1.content.0",
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
            ),
            append(_ANSWERS, _HELLO),
        ),
    ),
    _case("toolset-name", put(f"{_ANSWERS}.0.toolset_name", "browser")),
    _case(
        "thinking-signature",
        insert("messages.1.content.0", {"type": "thinking", "thinking": "Hm.", "signature": "bWFkZSB1cA=="}),
    ),
    _case("thinking-altered", put("messages.1.content.0.thinking", "Something else."), THINKING),
    _case("system-block", put("system", [{"type": "image", "source": {}}]), PLAIN),
    _case("system-empty", put("system", " "), PLAIN),
    _case("system-placement", insert("messages.0", {"role": "system", "content": "Be brief."}), PLAIN),
    _case("system-role", append("messages", {"role": "system", "content": "Be brief."}), PLAIN, OLDER),
    _case("tool-name", put("tools.0.name", "get.weather")),
    _case("tool-name-long", put("tools.0.name", "n" * 65)),
    _case("tool-name-duplicate", double("tools.0")),
    _case("tool-schema", put("tools.0.input_schema", {"type": "string"})),
    _case("tool-schema-union", put("tools.0.input_schema.anyOf", [{"required": ["city"]}])),
    _case("tool-examples", put("tools.0.input_examples", [{"city": 5}])),
    _case("tool-type", append("tools", {"type": "computer_20251124", "name": "computer"})),
    _case("tools-missing", drop("tools")),
    _case("strict-schema", put("tools.0.strict", True)),
    _case("strict-keyword", _strict({"city": {"type": "string", "minLength": 1}})),
    _case("strict-map", _strict({"cities": {"type": "object", "additionalProperties": {"type": "string"}}})),
    _case("strict-recursion", _strict({"city": {"$ref": "#"}})),
    _case(
        "strict-tools",
        put("tools", [{"name": f"get_{n}", "input_schema": _CLOSED, "strict": True} for n in range(21)]),
    ),
    _case("strict-optional", _strict(_fields(25, {"type": "string"}), required=False)),
    _case("strict-unions", _strict(_fields(17, {"type": ["string", "null"]}))),
    _case("choice-type", put("tool_choice", {"type": "function"})),
    _case(
        "choice-thinking",
        together(
            put("tool_choice", {"type": "any"}),
            put("thinking", {"type": "enabled", "budget_tokens": 1024}),
            put("max_tokens", 4096),
        ),
        "call-not-needed",
        OLDER,
    ),
    _case("choice-forced", put("tool_choice", {"type": "any"})),
    _case("choice-without-tools", put("tool_choice", {"type": "auto"}), PLAIN),
    _case("choice-unknown", put("tool_choice", {"type": "tool", "name": "get_time"}), model=OLDER),
    _case("thinking-type", put("thinking", {"type": "hard"}), PLAIN),
    _case("thinking-budget", put("thinking", {"type": "enabled", "budget_tokens": 100}), PLAIN, OLDER),
    _case("thinking-unsupported", put("thinking", {"type": "disabled"}), PLAIN),
    _case(
        "thinking-effort",
        together(put("thinking", {"type": "disabled"}), put("output_config", {"effort": "max"})),
        PLAIN,
        "claude-opus-5",
        also=("anthropic-disabled-thinking-xhigh-refused-opus-5",),  # captured there, and so an error
    ),
    _case("effort", put("output_config", {"effort": "most"}), PLAIN),
    _case("format-type", put("output_config.format.type", "json_object"), SCHEMA),
    _case("format-prefill", append("messages", {"role": "assistant", "content": "{"}), SCHEMA, OLDER),
    _case("format-citations", append("messages.0.content", {**_DOCUMENT, "citations": {"enabled": True}}), SCHEMA),
)
