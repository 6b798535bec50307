"""What commits each limit of generateContent, and of its embeddings."""

from __future__ import annotations

import base64
from typing import Any

from tests.limits.case import EMBEDDED, PARALLEL, PLAIN, SCHEMA, Case
from tests.limits.edits import Edit, append, copied, double, drop, insert, moved, put, raw, together

_CALL = {"functionCall": {"name": "get_weather", "args": {"city": "Paris"}}}
_RESULT = {"functionResponse": {"name": "get_weather", "response": {"temp_c": 18}}}
_ANSWERS = "contents.2.parts"
_DECLARED = "tools.0.functionDeclarations.0"
_BOTH = {"thinkingLevel": "LOW", "thinkingBudget": 100}


def _case(limit: str, edit: Edit, scenario: str = PARALLEL, target: str = "gemini-3", **more: Any) -> Case:
    return Case(f"gemini-{limit}", edit, scenario, target, **more)


def _openapi(schema: Any) -> Edit:
    return together(drop(f"{_DECLARED}.parametersJsonSchema"), put(f"{_DECLARED}.parameters", schema))


def _city(schema: Any) -> Edit:
    return _openapi({"type": "object", "properties": {"city": schema}})


def _all_dimensions(length: int) -> Edit:
    return together(*(put(f"requests.{number}.outputDimensionality", length) for number in range(20)))


CASES = (
    _case("body", raw(b'{"contents": '), PLAIN),
    _case("unknown-field", put("messages", [])),
    _case("field-type", put("contents.0.parts.0.text", 5)),
    _case("contents-empty", put("contents", []), PLAIN),
    _case("parts-empty", insert("contents.0", {"role": "user", "parts": []})),
    _case("part-data", append("contents.0.parts", {})),
    _case("role", put("contents.0.role", "system"), PLAIN),
    _case("role-function", put("contents.2.role", "function"), target="gemini-2.5"),
    _case("model-turn-last", append("contents", {"role": "model", "parts": [{"text": "Well."}]}), PLAIN),
    _case("call-role", append("contents.0.parts", _CALL), PLAIN),
    _case("call-misplaced", insert("contents.0", {"role": "model", "parts": [_CALL]}), also=("gemini-result-count",)),
    _case("call-after-model", insert("contents.1", {"role": "model", "parts": [{"text": "Let me see."}]})),
    _case(
        "name-empty",
        together(put("contents.1.parts.0.functionCall.name", ""), put(f"{_ANSWERS}.0.functionResponse.name", "")),
    ),
    _case("result-misplaced", insert("contents.0", {"role": "user", "parts": [_RESULT]})),
    _case("result-count", drop(f"{_ANSWERS}.1")),
    _case("results-split", moved(f"{_ANSWERS}.1", "contents", {"role": "user"}, "parts")),
    _case("result-name", put(f"{_ANSWERS}.0.functionResponse.name", "get_time")),
    _case("result-id-missing", drop(f"{_ANSWERS}.0.functionResponse.id")),
    _case("result-id-unknown", put(f"{_ANSWERS}.0.functionResponse.id", "another1")),
    _case("result-id-repeated", copied(f"{_ANSWERS}.0.functionResponse.id", f"{_ANSWERS}.1.functionResponse.id")),
    _case("signature-missing", drop("contents.1.parts.0.thoughtSignature")),
    _case("signature-corrupted", put("contents.1.parts.0.thoughtSignature", base64.b64encode(b"mine").decode())),
    _case("tool-name", put(f"{_DECLARED}.name", "1st")),
    _case("tool-name-long", put(f"{_DECLARED}.name", "n" * 65)),
    _case("tool-duplicate", double(_DECLARED)),
    _case("tool-schemas", put(f"{_DECLARED}.parameters", {"type": "object"})),
    _case("schema-type", _city({"type": "text"})),
    _case(
        "functions-apart",
        append("tools", {"functionDeclarations": [{"name": "wait", "description": "Waits for a minute."}]}),
    ),
    _case("mixed-tools", append("tools", {"googleSearch": {}})),
    _case("schema-items", _city({"type": "array"})),
    _case("schema-enum-empty", _city({"type": "string", "enum": ["Paris", ""]})),
    _case("schema-enum-type", _city({"enum": ["Paris"]})),
    _case(
        "choice-ignored",
        put("toolConfig", {"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["get_weather"]}}),
    ),
    _case("json-with-tools", put("generationConfig.responseMimeType", "application/json"), target="gemini-2.5"),
    _case("schema-mime-type", drop("generationConfig.responseMimeType"), SCHEMA),
    _case("output-schemas", put("generationConfig.responseSchema", {"type": "object"}), SCHEMA),
    _case(
        "thinking-level", put("generationConfig.thinkingConfig", {"thinkingLevel": "LOW"}), PLAIN, target="gemini-2.5"
    ),
    _case("thinking", put("generationConfig.thinkingConfig", _BOTH)),
    _case("embeddings-body", put("requests.0.content", "Hello."), EMBEDDED),
    _case("embeddings-count", put("requests", []), EMBEDDED),
    _case("embeddings-dimensions", _all_dimensions(9999), EMBEDDED),
)
