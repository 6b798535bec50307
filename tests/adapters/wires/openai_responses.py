"""OpenAI's Responses."""

from __future__ import annotations

import json
from itertools import count
from typing import Any, ClassVar

from harness.adapters import openai_responses
from harness.model import errors
from harness.model.messages import JSON, StopReason, Usage
from tests.adapters.wires.openai_chat import NO_OBJECTS, OPENAI_AMBIENT
from tests.adapters.wires.wire import Calls, Said, Wire, parsed

STATUSES = ("completed", "failed", "cancelled", "queued", "in_progress", "incomplete", None)


class OpenAIResponses(Wire):
    adapter = openai_responses.ADAPTER
    model = "gpt-5.6"
    sdk = "openai"
    url = stream_url = "/responses"
    headers: ClassVar[dict[str, Any]] = {"authorization": "Bearer key-1"}
    smallest: ClassVar[dict[str, Any]] = {
        "model": model,
        "input": [{"role": "user", "content": "hi"}],
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    streamed: ClassVar[dict[str, Any]] = {"stream": True}
    ambient = OPENAI_AMBIENT
    choices = ("auto", "none", "required", {"type": "function", "name": "get_weather"})
    stops: ClassVar[dict[str | None, StopReason]] = {
        "completed": StopReason.END_TURN,
        "max_output_tokens": StopReason.MAX_TOKENS,
        "content_filter": StopReason.REFUSAL,
        "brand_new": StopReason.UNKNOWN,
        "incomplete": StopReason.UNKNOWN,
        "failed": StopReason.ERROR,
        "cancelled": StopReason.ERROR,
        "queued": StopReason.PAUSE,
        "in_progress": StopReason.PAUSE,
        None: StopReason.UNKNOWN,
    }
    counted = (
        {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 5},
            "output_tokens": 20,
            "output_tokens_details": {"reasoning_tokens": 12},
            "total_tokens": 120,
        },
        Usage(100, 20, 60, 5, 12),
    )
    malformed = (b"{}", b'{"output": null}', b'{"output": [], "n": NaN}')
    broken_arguments = (*Wire.broken_arguments, *NO_OBJECTS)
    foreign_ids = ("a" * 65, "a" * 65 + "b", "é" * 80)
    uploaded: ClassVar[dict[str, Any]] = {"file_id": "file_1"}
    uploaded_part: ClassVar[dict[str, Any]] = {"type": "input_file", **uploaded}
    traffic = ("openai-responses", "openai-compat-responses")

    def whole(self, *said: Said, stop: str | None = "", usage: Any = None) -> dict[str, Any]:
        stop = "completed" if stop == "" else stop
        ended = (
            {"status": stop} if stop in STATUSES else {"status": "incomplete", "incomplete_details": {"reason": stop}}
        )
        cut = ended["status"] == "incomplete"
        output = [_item(place, each, cut=cut and place == len(said) - 1) for place, each in enumerate(said)]
        counts = usage or {"input_tokens": 7, "output_tokens": 3}
        return {
            "id": "resp_1",
            "object": "response",
            "model": f"{self.model}-x",
            **ended,
            "output": output,
            "usage": counts,
        }

    def payloads(self, *said: Said, stop: str | None = "", usage: Any = None) -> list[dict[str, Any]]:
        whole = self.whole(*said, stop=stop, usage=usage)
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        kind = "incomplete" if whole["status"] == "incomplete" else "completed"
        lines = [
            *({"type": f"response.{step}", "response": begun} for step in ("created", "in_progress")),
            *(line for place, each in enumerate(said) for line in _lines(place, each, whole["output"][place])),
            {"type": f"response.{kind}", "response": whole},
        ]
        numbers = count()
        return [{**line, "sequence_number": next(numbers)} for line in lines]

    def event(self, payload: dict[str, Any]) -> bytes:
        return f"event: {payload.get('type')}\n".encode() + super().event(payload)

    def refusal(self, status: int) -> dict[str, Any]:
        return {"error": {"message": "No.", "type": "some_type", "code": "some_error", "param": None}}

    failures = tuple(
        (b"data: " + json.dumps(body).encode() + b"\n\n", error)
        for body, error in (
            ({"type": "error", "code": "server_error", "message": "B."}, errors.ServerError(500, "B.", "server_error")),
            (
                {"type": "error", "code": "rate_limit_exceeded", "message": "S.", "param": None},
                errors.RateLimited(429, "S.", "rate_limit_exceeded"),
            ),
            (
                {"type": "error", "error": {"type": "invalid_request_error", "code": None, "message": "N."}},
                errors.InvalidRequest(400, "N.", "invalid_request_error"),
            ),
            ({"error": {"message": "In.", "code": 429}}, errors.RateLimited(429, "In.", "429")),
            ({"type": "error"}, errors.ServerError(500, "an error without a message")),
            (
                {
                    "type": "response.failed",
                    "response": {"status": "failed", "error": {"code": "invalid_prompt", "message": "P."}},
                },
                errors.InvalidRequest(400, "P.", "invalid_prompt"),
            ),
            (
                {"type": "response.failed", "response": {"status": "failed", "error": None}},
                errors.ServerError(500, "the response failed"),
            ),
        )
    )
    no_streams = (b"data: [DONE]\n\n",)
    twistable = (
        {
            "type": "response.output_item.added",
            "output_index": 9,
            "item": {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "First."}]},
        },
        {
            "type": "response.reasoning_summary_text.delta",
            "output_index": 9,
            "item_id": "rs_1",
            "delta": "First.",
            "summary_index": 0,
        },
    )

    def instructed(self, text: str) -> dict[str, Any]:
        return {**self.smallest, "instructions": text}

    def choice(self, body: dict[str, Any]) -> JSON:
        return body.get("tool_choice")

    def roles(self, body: dict[str, Any]) -> list[str]:
        kinds = {"function_call": "assistant", "function_call_output": "user"}
        return [item.get("role") or kinds[item["type"]] for item in body["input"]]

    def called(self, body: dict[str, Any]) -> list[tuple[str, JSON]]:
        items = [item for item in body["input"] if item.get("type") == "function_call"]
        return [(item["call_id"], parsed(item["arguments"])) for item in items]

    def answered(self, body: dict[str, Any]) -> list[tuple[str, JSON]]:
        items = [item for item in body["input"] if item.get("type") == "function_call_output"]
        return [(item["call_id"], parsed(item["output"])) for item in items]


def _item(place: int, said: Said, *, cut: bool = False) -> dict[str, Any]:
    status = "incomplete" if cut else "completed"
    if isinstance(said, Calls):
        item = {"type": "function_call", "id": f"fc_{place}", "call_id": said.id, "name": said.name}
        return {**item, "arguments": said.text, "status": status}
    text = {"type": "output_text", "text": said.text, "annotations": [], "logprobs": []}
    return {"type": "message", "id": f"msg_{place}", "role": "assistant", "status": status, "content": [text]}


def _lines(place: int, said: Said, item: dict[str, Any]) -> list[dict[str, Any]]:
    empty: dict[str, Any] = {"arguments": "", "content": [], "status": "in_progress"}
    begun = item | {key: value for key, value in empty.items() if key in item}
    kind = "function_call_arguments" if isinstance(said, Calls) else "output_text"
    delta = {"type": f"response.{kind}.delta", "output_index": place, "item_id": item["id"], "obfuscation": "aBcD"}
    return [
        {"type": "response.output_item.added", "output_index": place, "item": begun},
        *({**delta, "delta": piece} for piece in said.pieces),
        {"type": "response.output_item.done", "output_index": place, "item": item},
    ]
