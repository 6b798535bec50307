"""Gemini's generateContent."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from harness.adapters import gemini
from harness.model import errors
from harness.model.messages import JSON, StopReason, Usage
from tests.adapters.wires.wire import Calls, Said, Wire


class Gemini(Wire):
    adapter = gemini.ADAPTER
    model = "gemini-3.6-flash"
    sdk = "google.genai"
    url = f"/v1/models/{model}:generateContent"
    stream_url = f"/v1/models/{model}:streamGenerateContent?alt=sse"
    headers: ClassVar[dict[str, Any]] = {"x-goog-api-key": "key-1"}
    smallest: ClassVar[dict[str, Any]] = {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "generationConfig": {},
    }
    streamed: ClassVar[dict[str, Any]] = {}
    ambient = (
        "GOOGLE_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_GENAI_API_VERSION",
        "GOOGLE_GENAI_CLIENT_MODE",
        "GOOGLE_GENAI_REPLAYS_DIRECTORY",
        "GOOGLE_GENAI_REPLAY_ID",
        "GOOGLE_GENAI_HTTP_CLIENT",
        "GOOGLE_GENAI_USE_VERTEXAI",
        "GOOGLE_GENAI_USE_ENTERPRISE",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_LOCATION",
        "GOOGLE_CLOUD_QUOTA_PROJECT",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_GEMINI_BASE_URL",
        "GOOGLE_VERTEX_BASE_URL",
        "SSL_CERT_FILE",
    )
    choices = (
        {"mode": "AUTO"},
        {"mode": "NONE"},
        {"mode": "ANY"},
        {"mode": "ANY", "allowedFunctionNames": ["get_weather"]},
    )
    stops: ClassVar[dict[str | None, StopReason]] = {
        "STOP": StopReason.END_TURN,
        "MAX_TOKENS": StopReason.MAX_TOKENS,
        "SAFETY": StopReason.REFUSAL,
        "IMAGE_SAFETY": StopReason.REFUSAL,
        "IMAGE_OTHER": StopReason.ERROR,
        "IMAGE_NEW": StopReason.REFUSAL,
        "MODEL_ARMOR": StopReason.REFUSAL,
        "CONTINUATION": StopReason.PAUSE,
        "MALFORMED_FUNCTION_CALL": StopReason.MALFORMED_CALL,
        "OTHER": StopReason.ERROR,
        "BRAND_NEW": StopReason.UNKNOWN,
        None: StopReason.UNKNOWN,
    }
    counted = (
        {
            "promptTokenCount": 100,
            "toolUsePromptTokenCount": 10,
            "cachedContentTokenCount": 50,
            "candidatesTokenCount": 7,
            "thoughtsTokenCount": 3,
            "totalTokenCount": 120,
        },
        Usage(110, 10, 50, None, 3),
    )
    malformed = (b"{}", b'{"candidates":[]}', b'{"candidates":[{}],"x":NaN}')
    uploaded: ClassVar[dict[str, Any]] = {
        "fileData": {"mimeType": "application/pdf", "fileUri": "https://example.com/files/1"}
    }
    uploaded_part: ClassVar[dict[str, Any]] = {**uploaded}
    traffic = ("gemini-generateContent",)

    def whole(self, *said: Said, stop: str | None = "", usage: Any = None) -> dict[str, Any]:
        return self._chunk([_part(each) for each in said], "STOP" if stop == "" else stop, usage)

    def payloads(self, *said: Said, stop: str | None = "", usage: Any = None) -> list[dict[str, Any]]:
        parts = [
            part
            for each in said
            for part in ([_part(each)] if isinstance(each, Calls) else [{"text": piece} for piece in each.pieces])
        ]
        return [
            *(self._chunk([part], None, {"promptTokenCount": 1}) for part in parts),
            self._chunk([], "STOP" if stop == "" else stop, usage or {"promptTokenCount": 7}),
        ]

    def _chunk(self, parts: list[Any], finish: str | None, usage: Any) -> dict[str, Any]:
        candidate = {"content": {"parts": parts, "role": "model"}, "index": 0}
        reason = {} if finish is None else {"finishReason": finish}
        return {
            "candidates": [{**candidate, **reason}],
            "usageMetadata": usage or {"promptTokenCount": 7},
            "modelVersion": f"{self.model}-001",
            "responseId": "r1",
        }

    def refusal(self, status: int) -> dict[str, Any]:
        return {"error": {"code": status, "message": "No.", "status": "some_error"}}

    failures = tuple(
        (b"data: " + json.dumps({"error": error}).encode() + b"\r\n\r\n", expected)
        for error, expected in (
            (
                {"code": 503, "message": "Busy.", "status": "UNAVAILABLE"},
                errors.Overloaded(503, "Busy.", "UNAVAILABLE"),
            ),
            (
                {
                    "code": 429,
                    "message": "Slow.",
                    "status": "RESOURCE_EXHAUSTED",
                    "details": [{"@type": "…/google.rpc.RetryInfo", "retryDelay": "34.5s"}],
                },
                errors.RateLimited(429, "Slow.", "RESOURCE_EXHAUSTED", 34.5),
            ),
            ({"code": 13, "message": "No.", "status": "INTERNAL"}, errors.ServerError(500, "No.", "INTERNAL")),
            ({}, errors.ServerError(500, "{}")),
            ("No.", errors.ServerError(500, '"No."')),
        )
    )
    no_streams = (
        b" \r\n",
        b"[]",
        b"[1]",
        b"{",
        b"}",
        b'{"candidates": [}',
        b'[{"candidates": [{"finishReason": "STOP"}]}',
        b'[{"candidates": [{"finishReason": "STOP"}]}] and more',
        b'{"candidates": [{"finishReason": "STOP"}]}]',
        b'data: {"candidates": null, "promptFeedback": {}}\n\n',
        b'data: {"candidates": [1, {"content": 1}, {"content": {"parts": 1}}]}\n\n',
    )
    twistable = ({"candidates": [{"index": 0, "content": {"parts": [{"text": "So", "thought": True}]}}]},)

    def instructed(self, text: str) -> dict[str, Any]:
        return {**self.smallest, "systemInstruction": {"parts": [{"text": text}]}}

    def choice(self, body: dict[str, Any]) -> JSON:
        return body.get("toolConfig", {}).get("functionCallingConfig")

    def roles(self, body: dict[str, Any]) -> list[str]:
        return ["assistant" if content["role"] == "model" else content["role"] for content in body["contents"]]

    def called(self, body: dict[str, Any]) -> list[tuple[str, JSON]]:
        return [(call.get("id", ""), call["args"]) for call in _parts(body, "functionCall")]

    def answered(self, body: dict[str, Any]) -> list[tuple[str, JSON]]:
        return [
            (each.get("id", ""), each["response"].get("output", each["response"]))
            for each in _parts(body, "functionResponse")
        ]


def _parts(body: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [part[kind] for content in body["contents"] for part in content["parts"] if kind in part]


def _part(said: Said) -> dict[str, Any]:
    if isinstance(said, Calls):
        return {"functionCall": {"id": said.id, "name": said.name, "args": said.arguments}}
    return {"text": said.text}
