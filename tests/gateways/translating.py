"""A faithful gateway between two APIs: Chat Completions in front, Messages behind; by hand, without the witness."""

from __future__ import annotations

import json
from typing import Any

from harness.model.http import HttpRequest, HttpResponse
from tests.gateways.toy import JsonDict, Passing

_STOPS = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length"}
_CHOICES = {"auto": {"type": "auto"}, "none": {"type": "none"}, "required": {"type": "any"}}


class Translating(Passing):
    """Translates whole answers, and tells them as streams of one piece."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        body: JsonDict = json.loads(request.body)
        headers = {"x-api-key": "any", "anthropic-version": "2023-06-01", "content-type": "application/json"}
        asked = json.dumps(self.messages(body)).encode()
        answer = self.asked(HttpRequest("POST", "http://gateway/v1/messages", headers, asked))
        said: JsonDict = json.loads(answer.body)
        if answer.status >= 400:
            error = {"message": said["error"]["message"], "type": said["error"]["type"]}
            status = 503 if answer.status == 529 else answer.status
            waits = {name: value for name, value in answer.headers.items() if name == "retry-after"}
            return _json(status, {"error": error}, waits)
        completion = self.completion(said)
        return _streamed(completion) if body.get("stream") else _json(200, completion, {})

    def messages(self, body: JsonDict) -> JsonDict:
        """The request, as a body of the Messages API."""
        said: JsonDict = {"model": body["model"], "max_tokens": body["max_completion_tokens"], "messages": []}
        for message in body["messages"]:
            if message["role"] in ("system", "developer"):
                said["system"] = said.get("system", "") + message["content"]
            else:
                _say(said["messages"], *_message(message))
        if body.get("tools"):
            said["tools"] = [_tool(tool["function"]) for tool in body["tools"]]
        choice = body.get("tool_choice")
        if choice is not None:
            said["tool_choice"] = (
                _CHOICES[choice] if isinstance(choice, str) else {"type": "tool", **choice["function"]}
            )
        wanted = body.get("response_format") or {}
        if wanted.get("type") == "json_object":
            said["system"] = f"{said.get('system', '')}\n\nAnswer with JSON and nothing else.".strip()
        if wanted.get("type") == "json_schema":
            said["output_config"] = {"format": {"type": "json_schema", "schema": wanted["json_schema"]["schema"]}}
        if body.get("stop"):
            said["stop_sequences"] = body["stop"]
        return said

    def completion(self, answer: JsonDict) -> JsonDict:
        """The answer, as a body of Chat Completions."""
        texts = [block["text"] for block in answer["content"] if block["type"] == "text"]
        calls = [
            {
                "id": block["id"],
                "type": "function",
                "function": {"name": block["name"], "arguments": _text(block["input"])},
            }
            for block in answer["content"]
            if block["type"] == "tool_use"
        ]
        message: JsonDict = {"role": "assistant", "content": "".join(texts) or None}
        if calls:
            message["tool_calls"] = calls
        usage = answer["usage"]
        cached = usage["cache_read_input_tokens"]
        prompt = usage["input_tokens"] + cached + usage["cache_creation_input_tokens"]
        refused = answer["stop_reason"] == "refusal"
        if refused:
            message["refusal"] = answer["stop_details"]["explanation"]
        return {
            "id": f"chatcmpl-{answer['id']}",
            "object": "chat.completion",
            "created": 1_790_000_000,
            "model": answer["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": _STOPS.get(answer["stop_reason"], "stop")}],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": usage["output_tokens"],
                "total_tokens": prompt + usage["output_tokens"],
                "prompt_tokens_details": {
                    "cached_tokens": cached,
                    "cache_write_tokens": usage["cache_creation_input_tokens"],
                },
            },
        }


def _message(message: JsonDict) -> tuple[str, list[JsonDict]]:
    if message["role"] == "tool":
        return "user", [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}]
    content = message.get("content") or []
    blocks = [_block(part) for part in ([{"type": "text", "text": content}] if isinstance(content, str) else content)]
    for call in message.get("tool_calls") or ():
        function = call["function"]
        arguments = json.loads(function["arguments"])
        blocks.append({"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments})
    return message["role"], blocks


def _block(part: JsonDict) -> JsonDict:
    if part["type"] == "text":
        return part
    kind, _, data = part["image_url"]["url"].removeprefix("data:").partition(";base64,")
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def _say(messages: list[JsonDict], role: str, blocks: list[JsonDict]) -> None:
    """Results stand in one turn with what the user says behind them."""
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += blocks
    else:
        messages.append({"role": role, "content": blocks})


def _tool(function: JsonDict) -> JsonDict:
    return {"name": function["name"], "description": function["description"], "input_schema": function["parameters"]}


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _json(status: int, body: JsonDict, headers: dict[str, str]) -> HttpResponse:
    return HttpResponse(status, {"content-type": "application/json", **headers}, json.dumps(body).encode())


def _streamed(completion: JsonDict) -> HttpResponse:
    (choice,) = completion["choices"]
    delta = {key: value for key, value in choice["message"].items() if value is not None}
    for index, call in enumerate(delta.get("tool_calls", ())):
        call["index"] = index
    head = {key: completion[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    chunks: list[JsonDict] = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
        {**head, "choices": [], "usage": completion["usage"]},
    ]
    events = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    return HttpResponse(200, {"content-type": "text/event-stream"}, f"{events}data: [DONE]\n\n".encode())
