"""Names and types of a request's fields, as the provider's JSON parser checks them (gemini-no-unknown-fields).

Payloads of the user (`args`, `response`, JSON schemas) and the settings of server tools are not looked into.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from harness.apis.entries import entrywise
from harness.apis.gemini import limits
from harness.apis.gemini.requests.proto import ProtoMessage, decoded, repeated, snake
from harness.apis.jsonvalue import join
from harness.apis.limit import Violation
from harness.contract.model import JSON

ANY = "any"
BYTES = "bytes"
OBJECT = "object"
STRING = "string"
ENUM = "enum"
BOOL = "bool"
FLOAT, DOUBLE = "float", "double"
INT32, INT64 = "int32", "int64"
REPEATED = "[]"
MAP = "{}"

MESSAGES: dict[str, dict[str, str]] = {
    "GenerateContentRequest": {
        "model": STRING,
        "contents": "Content[]",
        "systemInstruction": "Content",
        "tools": "Tool[]",
        "toolConfig": "ToolConfig",
        "generationConfig": "GenerationConfig",
        "safetySettings": ANY,
        "cachedContent": STRING,
        "continuationToken": BYTES,
        "labels": ANY,
        "modelArmorConfig": ANY,
        "outputConfig": ANY,
        "serviceTier": ANY,
        "store": ANY,
    },
    "Content": {"role": STRING, "parts": "Part[]"},
    "Part": {
        "text": STRING,
        "thought": ANY,
        "thoughtSignature": BYTES,
        "functionCall": "FunctionCall",
        "functionResponse": "FunctionResponse",
        "inlineData": "Blob",
        "fileData": "FileData",
        "executableCode": OBJECT,
        "codeExecutionResult": OBJECT,
        "toolCall": OBJECT,
        "toolResponse": OBJECT,
        "audioTranscription": ANY,
        "partMetadata": ANY,
        "videoMetadata": ANY,
        "mediaResolution": ANY,
        "mediaProcessing": ANY,
        "speechMetadata": ANY,
        "documentMetadata": ANY,
        "spreadsheetMetadata": ANY,
        "audioMetadata": ANY,
    },
    "FunctionCall": {"id": STRING, "name": STRING, "args": OBJECT, "partialArgs": ANY, "willContinue": ANY},
    "FunctionResponse": {
        "id": STRING,
        "name": STRING,
        "response": OBJECT,
        "parts": "FunctionResponsePart[]",
        "scheduling": ANY,
        "willContinue": ANY,
    },
    "FunctionResponsePart": {
        "inlineData": "Blob",
        "fileData": "FileData",
        "mediaProcessing": ANY,
        "mediaResolution": ANY,
        "videoMetadata": ANY,
        "documentMetadata": ANY,
        "spreadsheetMetadata": ANY,
        "audioMetadata": ANY,
    },
    "Blob": {"mimeType": STRING, "data": BYTES, "displayName": STRING},
    "FileData": {"mimeType": STRING, "fileUri": STRING, "displayName": STRING},
    "Tool": {
        "functionDeclarations": "FunctionDeclaration[]",
        "codeExecution": ANY,
        "computerUse": ANY,
        "enterpriseWebSearch": ANY,
        "exaAiSearch": ANY,
        "fileSearch": ANY,
        "googleMaps": ANY,
        "googleSearch": ANY,
        "googleSearchRetrieval": ANY,
        "mcpServers": ANY,
        "parallelAiSearch": ANY,
        "retrieval": ANY,
        "urlContext": ANY,
    },
    "FunctionDeclaration": {
        "name": STRING,
        "description": STRING,
        "parameters": "Schema",
        "parametersJsonSchema": ANY,
        "response": "Schema",
        "responseJsonSchema": ANY,
        "behavior": ANY,
    },
    "ToolConfig": {
        "functionCallingConfig": "FunctionCallingConfig",
        "retrievalConfig": ANY,
        "includeServerSideToolInvocations": ANY,
    },
    "FunctionCallingConfig": {
        "mode": ENUM,
        "allowedFunctionNames": "string[]",
        "streamFunctionCallArguments": ANY,
    },
    "GenerationConfig": {
        "audioTimestamp": ANY,
        "audioTranscriptionConfig": ANY,
        "candidateCount": INT32,
        "enableAffectiveDialog": ANY,
        "enableEnhancedCivicAnswers": ANY,
        "frequencyPenalty": FLOAT,
        "imageConfig": ANY,
        "logprobs": INT32,
        "maxOutputTokens": INT32,
        "mediaResolution": ANY,
        "modelConfig": ANY,
        "modelSelectionConfig": ANY,
        "presencePenalty": FLOAT,
        "responseFormat": ANY,
        "responseJsonSchema": ANY,
        "responseLogprobs": BOOL,
        "responseMimeType": STRING,
        "responseModalities": ANY,
        "responseSchema": "Schema",
        "routingConfig": ANY,
        "seed": INT32,
        "speechConfig": ANY,
        "stopSequences": "string[]",
        "temperature": FLOAT,
        "thinkingConfig": "ThinkingConfig",
        "topK": FLOAT,
        "topP": FLOAT,
        "translationConfig": ANY,
    },
    "ThinkingConfig": {"includeThoughts": BOOL, "thinkingBudget": INT32, "thinkingLevel": ANY},
    "Schema": {
        "type": ENUM,
        "format": STRING,
        "title": STRING,
        "description": STRING,
        "nullable": BOOL,
        "enum": "string[]",
        "items": "Schema",
        "minItems": INT64,
        "maxItems": INT64,
        "properties": "Schema{}",
        "required": "string[]",
        "propertyOrdering": "string[]",
        "minProperties": INT64,
        "maxProperties": INT64,
        "minimum": DOUBLE,
        "maximum": DOUBLE,
        "minLength": INT64,
        "maxLength": INT64,
        "pattern": STRING,
        "example": ANY,
        "anyOf": "Schema[]",
        "default": ANY,
        "additionalProperties": ANY,
        "defs": "Schema{}",
        "ref": STRING,
    },
}
"""Message → field → type: the name of a message, or one of the words above; `X[]` repeated, `X{}` a map to X."""

_SOURCES = {
    "Schema": "gemini-schema-fields",
    "FunctionCall": "gemini-no-unknown-fields, gemini-function-call-form",
    "FunctionResponse": "gemini-function-response-form",
}


_SAID_AGAIN = ("Content", "Tool")
"""What stands in lists of the request that all requests behind it repeat."""


@cache
def _by_itself(kind: str, source: str, path: str) -> Callable[[JSON, str], Sequence[Sequence[Violation]]]:
    """What is wrong with each element of such a list, told once."""

    def of(item: JSON, pointer: str) -> Sequence[Violation]:
        return [*_value(item, kind, source, pointer, f"{path}[{pointer.rpartition('/')[2]}]")]

    return entrywise(of)


def misfits(body: JSON) -> list[Violation]:
    """Unknown fields (`gemini-unknown-field`) and values of a wrong type (`gemini-field-type`) of a request."""
    return list(_value(body, "GenerateContentRequest", "gemini-no-unknown-fields", "", ""))


def _value(value: JSON, kind: str, source: str, pointer: str, path: str) -> Iterator[Violation]:
    if kind.endswith(REPEATED):
        listed, member = isinstance(value, list), kind.removesuffix(REPEATED)
        if listed and member in _SAID_AGAIN:
            for found in _by_itself(member, source, path)(value, pointer):
                yield from found
            return
        for index, (item, place) in enumerate(repeated(value, pointer)):
            yield from _value(item, member, source, place, f"{path}[{index}]" if listed else path)
    elif kind.endswith(MAP) and isinstance(value, dict):
        for index, (key, item) in enumerate(value.items()):
            yield from _value(item, kind.removesuffix(MAP), source, join(pointer, key), f"{path}[{index}].value")
    elif kind in MESSAGES and isinstance(value, dict):
        yield from _message(ProtoMessage.of(value, pointer), kind, path)
    elif not _fits(value, kind):
        expected = OBJECT if kind in MESSAGES or kind.endswith(MAP) else kind
        yield limits.FIELD_TYPE.broken(
            f"Invalid value at '{path}' (TYPE_{expected.upper()}): {_shown(value)}",
            pointer,
            actual=value,
            expected=expected,
            source=source,
        )


def _message(message: ProtoMessage, kind: str, path: str) -> Iterator[Violation]:
    fields = MESSAGES[kind]
    for name in message.names:
        if name in fields:
            source = _SOURCES.get(kind, "gemini-no-unknown-fields")
            inner = f"{path}.{snake(name)}" if path else snake(name)
            yield from _value(message.get(name), fields[name], source, message.at(name), inner)
        else:
            key = message.spelling(name)
            place = f" at '{path}'" if path else ""
            yield limits.UNKNOWN_FIELD.broken(
                f'Invalid JSON payload received. Unknown name "{key}"{place}: Cannot find field.',
                message.at(name),
                actual=key,
                expected=[*fields],
                source="gemini-schema-fields" if kind == "Schema" else "gemini-no-unknown-fields",
            )


def _fits(value: JSON, kind: str) -> bool:
    if kind == ANY:
        return True
    if kind == STRING:
        return isinstance(value, str)
    if kind == ENUM:
        return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
    if kind == BOOL:
        return isinstance(value, bool) or value in ("true", "false")
    if kind in (FLOAT, DOUBLE, INT32, INT64):
        return _is_number(value, whole=kind in (INT32, INT64))
    if kind == BYTES:
        return isinstance(value, str) and decoded(value) is not None
    return kind == OBJECT and isinstance(value, dict)


def _is_number(value: JSON, *, whole: bool) -> bool:
    """Return whether a value is a number, or the text of one, which the provider's parser takes as well."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        number = float(value)
    except ValueError:
        return False
    return not whole or number.is_integer()


def _shown(value: JSON) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
