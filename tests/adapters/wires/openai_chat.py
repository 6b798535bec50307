"""OpenAI's Chat Completions."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from harness.adapters import openai_chat
from harness.model import errors
from harness.model.messages import JSON, StopReason, Usage
from tests.adapters.wires.wire import Calls, Said, Says, Wire, parsed

OPENAI_AMBIENT = (
    "OPENAI_API_KEY",
    "OPENAI_ADMIN_KEY",
    "OPENAI_ORG_ID",
    "OPENAI_ORGANIZATION",
    "OPENAI_PROJECT_ID",
    "OPENAI_WEBHOOK_SECRET",
    "OPENAI_API_VERSION",
    "OPENAI_API_TYPE",
    "OPENAI_BASE_URL",
    "OPENAI_CUSTOM_HEADERS",
    "AZURE_OPENAI_API_KEY",
    "OTEL_PROPAGATORS",
)
NO_OBJECTS = ('{"city": "Par', "null", "{'a': 1}", '{"n": NaN}', '{"n":1e999}')


class OpenAIChat(Wire):
    adapter = openai_chat.ADAPTER
    model = "gpt-5.6"
    sdk = "openai"
    url = stream_url = "/chat/completions"
    headers: ClassVar[dict[str, Any]] = {"authorization": "Bearer key-1"}
    smallest: ClassVar[dict[str, Any]] = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    # without the option there are no counts of tokens at all
    streamed: ClassVar[dict[str, Any]] = {"stream": True, "stream_options": {"include_usage": True}}
    ambient = OPENAI_AMBIENT
    choices = ("auto", "none", "required", {"type": "function", "function": {"name": "get_weather"}})
    stops: ClassVar[dict[str | None, StopReason]] = {
        "stop": StopReason.END_TURN,
        "length": StopReason.MAX_TOKENS,
        "content_filter": StopReason.REFUSAL,
        "brand_new": StopReason.UNKNOWN,
        None: StopReason.UNKNOWN,
    }
    counted = (
        {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "total_tokens": 120,
            "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 5},
            "completion_tokens_details": {"reasoning_tokens": 12},
        },
        Usage(100, 20, 60, 5, 12),
    )
    malformed = (
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{"message": null}]}',
        b'{"choices": [{"message": {"content": NaN}}]}',
    )
    broken_arguments = (*Wire.broken_arguments, *NO_OBJECTS)
    foreign_ids = ("a" * 41, "a" * 41 + "b", "é" * 60)
    uploaded: ClassVar[dict[str, Any]] = {"file": {"file_id": "file_1"}}
    uploaded_part: ClassVar[dict[str, Any]] = {"type": "file", **uploaded}
    traffic = ("openai-chat", "openai-compat-chat", "errors/openai-compat-chat")

    def whole(self, *said: Said, stop: str | None = "", usage: Any = None) -> dict[str, Any]:
        called = [_call(each) for each in said if isinstance(each, Calls)]
        text = "".join(each.text for each in said if isinstance(each, Says))
        message = {"role": "assistant", "content": text or None, **({"tool_calls": called} if called else {})}
        finish = ("tool_calls" if called else "stop") if stop == "" else stop
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": f"{self.model}-2026-08-01",
            "choices": [{"index": 0, "finish_reason": finish, "message": message}],
            "usage": usage or {"prompt_tokens": 7, "completion_tokens": 3},
        }

    def payloads(self, *said: Said, stop: str | None = "", usage: Any = None) -> list[dict[str, Any]]:
        whole = self.whole(*said, stop=stop, usage=usage)
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
        number = 0
        for each in said:
            if isinstance(each, Says):
                deltas += [{"content": piece} for piece in each.pieces]
                continue
            begun = {**_call(each), "function": {"name": each.name, "arguments": ""}, "index": number}
            pieces = [{"index": number, "function": {"arguments": piece}} for piece in each.pieces]
            deltas += [{"tool_calls": [piece]} for piece in (begun, *pieces)]
            number += 1
        head = {key: whole[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}

        def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return {**head, "choices": [choice], "usage": None, "obfuscation": "aBcD"}

        end = chunk({}, whole["choices"][0]["finish_reason"])
        return [*map(chunk, deltas), end, {**head, "choices": [], "usage": whole["usage"]}]

    def stream(self, *said: Said, stop: str | None = "", usage: Any = None) -> bytes:
        return super().stream(*said, stop=stop, usage=usage) + b"data: [DONE]\n\n"

    def refusal(self, status: int) -> dict[str, Any]:
        return {"error": {"message": "No.", "type": "some_type", "code": "some_error", "param": None}}

    failures = tuple(
        (b"data: " + json.dumps(body).encode() + b"\n\n", error)
        for body, error in (
            ({"error": {"message": "Boom.", "type": "server_error"}}, errors.ServerError(500, "Boom.", "server_error")),
            (
                {"error": {"message": "S.", "code": "rate_limit_exceeded"}},
                errors.RateLimited(429, "S.", "rate_limit_exceeded"),
            ),
            ({"choices": [], "error": {"code": 502, "message": "Host."}}, errors.ServerError(502, "Host.", "502")),
            ({"object": "error", "message": "M.", "code": 429}, errors.RateLimited(429, "M.", "429")),
            ({"error": "out of memory"}, errors.ServerError(500, "out of memory")),
            ({"error": ["?"]}, errors.ServerError(500, "an error without a message")),
            (
                {"choices": [{"index": 0, "delta": {}, "error": {"code": 503, "message": "C."}}]},
                errors.Overloaded(503, "C.", "503"),
            ),
        )
    )
    no_streams = (b"data: [DONE]\n\n", b'data: {"choices": []}\n\ndata: [DONE]\n\n')
    twistable = (
        {"choices": [{"index": 0, "delta": {"reasoning": "B", "refusal": "D"}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {"content": [{"type": "text", "text": "C"}]}}], "error": None},
        {"choices": [{"index": 0, "delta": {"reasoning_details": [{"type": "t", "text": "B", "index": 0}]}}]},
    )

    def instructed(self, text: str) -> dict[str, Any]:
        said = {"role": "developer", "content": text}
        return {**self.smallest, "messages": [said, *self.smallest["messages"]]}

    def choice(self, body: dict[str, Any]) -> JSON:
        return body.get("tool_choice")

    def roles(self, body: dict[str, Any]) -> list[str]:
        return [message["role"] for message in body["messages"]]

    def called(self, body: dict[str, Any]) -> list[tuple[str, JSON]]:
        called = [call for message in body["messages"] for call in message.get("tool_calls", ())]
        return [(call["id"], parsed(call["function"]["arguments"])) for call in called]

    def answered(self, body: dict[str, Any]) -> list[tuple[str, JSON]]:
        results = [message for message in body["messages"] if message["role"] == "tool"]
        return [(message["tool_call_id"], parsed(message["content"])) for message in results]


def _call(said: Calls) -> dict[str, Any]:
    return {"id": said.id, "type": "function", "function": {"name": said.name, "arguments": said.text}}
