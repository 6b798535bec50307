"""Anthropic's Messages."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from harness.adapters import anthropic
from harness.model import errors
from harness.model.messages import JSON, StopReason, Usage
from tests.adapters.wires.wire import Calls, Said, Wire, parsed


class Anthropic(Wire):
    adapter = anthropic.ADAPTER
    model = "claude-sonnet-4-6"
    sdk = "anthropic"
    url = stream_url = "/v1/messages"
    headers: ClassVar[dict[str, Any]] = {"authorization": "Bearer key-1", "anthropic-version": "2026-10-21"}
    smallest: ClassVar[dict[str, Any]] = {
        "model": model,
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }
    streamed: ClassVar[dict[str, Any]] = {"stream": True}
    ambient = (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_PROFILE",
        "ANTHROPIC_IDENTITY_TOKEN",
        "ANTHROPIC_FEDERATION_RULE_ID",
        "ANTHROPIC_ORGANIZATION_ID",
        "ANTHROPIC_WORKSPACE_ID",
        "ANTHROPIC_WEBHOOK_SIGNING_KEY",
        "ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_CUSTOM_HEADERS",
    )
    choices = ({"type": "auto"}, {"type": "none"}, {"type": "any"}, {"type": "tool", "name": "get_weather"})
    stops: ClassVar[dict[str | None, StopReason]] = {
        "end_turn": StopReason.END_TURN,
        "max_tokens": StopReason.MAX_TOKENS,
        "model_context_window_exceeded": StopReason.MAX_TOKENS,
        "stop_sequence": StopReason.STOP_SEQUENCE,
        "refusal": StopReason.REFUSAL,
        "pause_turn": StopReason.PAUSE,
        "brand_new": StopReason.UNKNOWN,
        None: StopReason.UNKNOWN,
    }
    counted = (
        {
            "input_tokens": 10,
            "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 1000,
            "output_tokens": 20,
            "output_tokens_details": {"thinking_tokens": 5},
        },
        Usage(1110, 20, 100, 1000, 5),
    )
    malformed = (b'{"type":"message"}', b'{"content":[],"x":NaN}')
    broken_arguments = (*Wire.broken_arguments, "null")
    foreign_ids = ("functions.add:0", "functions.add:1", "call_x|fc_y", "é")
    uploaded: ClassVar[dict[str, Any]] = {"source": {"type": "file", "file_id": "file_1"}}
    uploaded_part: ClassVar[dict[str, Any]] = {"type": "document", **uploaded}
    traffic = ("anthropic-messages",)

    def whole(self, *said: Said, stop: str | None = "", usage: Any = None) -> dict[str, Any]:
        called = any(isinstance(each, Calls) for each in said)
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": f"{self.model}-20260101",
            "content": [_block(each) for each in said],
            "stop_reason": (("tool_use" if called else "end_turn") if stop == "" else stop),
            "stop_sequence": None,
            "usage": usage or {"input_tokens": 7, "output_tokens": 3},
        }

    def payloads(self, *said: Said, stop: str | None = "", usage: Any = None) -> list[dict[str, Any]]:
        whole = self.whole(*said, stop=stop, usage=usage)
        begun = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
        end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        return [
            {"type": "message_start", "message": begun},
            {"type": "ping"},
            *(event for index, each in enumerate(said) for event in _events(index, each)),
            {"type": "message_delta", "delta": end, "usage": whole["usage"]},
            {"type": "message_stop"},
        ]

    def event(self, payload: dict[str, Any]) -> bytes:
        return f"event: {payload.get('type')}\n".encode() + super().event(payload)

    def refusal(self, status: int) -> dict[str, Any]:
        return {"type": "error", "error": {"type": "some_error", "message": "No."}, "request_id": "req_1"}

    failures = tuple(
        (b"event: error\ndata: " + json.dumps(body).encode() + b"\n\n", error)
        for body, error in (
            (
                {"type": "error", "error": {"type": kind, "message": "No."}, "request_id": "req_1"},
                errors.provider_error(status, "No.", code=kind),
            )
            for kind, status in (
                ("overloaded_error", 529),
                ("rate_limit_error", 429),
                ("invalid_request_error", 400),
                ("api_error", 500),
                ("brand_new_error", 500),
            )
        )
    )
    no_streams = (b"data: [DONE]\n\n", b'event: message_stop\ndata: {"type": "message_stop"}\n\n', b'{"content": []}')
    twistable = (
        {"type": "content_block_start", "index": 7, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 7, "delta": {"type": "thinking_delta", "thinking": "So"}},
        {"type": "content_block_delta", "index": 7, "delta": {"type": "signature_delta", "signature": "s"}},
        {"type": "content_block_stop", "index": 7},
    )

    def instructed(self, text: str) -> dict[str, Any]:
        return {**self.smallest, "system": [{"type": "text", "text": text}]}

    def choice(self, body: dict[str, Any]) -> JSON:
        return body.get("tool_choice")

    def roles(self, body: dict[str, Any]) -> list[str]:
        return [message["role"] for message in body["messages"]]

    def called(self, body: dict[str, Any]) -> list[tuple[str, JSON]]:
        return [(block["id"], block["input"]) for block in _blocks(body, "tool_use")]

    def answered(self, body: dict[str, Any]) -> list[tuple[str, JSON]]:
        return [(block["tool_use_id"], parsed(block["content"])) for block in _blocks(body, "tool_result")]


def _blocks(body: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [block for message in body["messages"] for block in message["content"] if block["type"] == kind]


def _block(said: Said) -> dict[str, Any]:
    if isinstance(said, Calls):
        return {"type": "tool_use", "id": said.id, "name": said.name, "input": said.arguments}
    return {"type": "text", "text": said.text}


def _events(index: int, said: Said) -> list[dict[str, Any]]:
    block = _block(said)
    if isinstance(said, Calls):
        begun = {**block, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in said.pieces]
    else:
        begun = {**block, "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in said.pieces]
    return [
        {"type": "content_block_start", "index": index, "content_block": begun},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]
