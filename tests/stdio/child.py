"""An adapter on standard input and output that imports nothing of harness. It is broken as the first word of the user
says, and right for any other."""

# ruff: noqa: T201 - standard output is what it speaks by

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
from typing import Any

CAN = ["system-prompt", "tools", "parallel-tool-calls", "history"]


def say(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def wire(message: dict[str, Any]) -> list[dict[str, Any]]:
    parts = message["parts"]
    results = [part for part in parts if part["type"] == "tool_result"]
    if results:
        return [{"role": "tool", "tool_call_id": part["call_id"], "content": part["text"]} for part in results]
    text = "".join(part["text"] for part in parts if part["type"] == "text")
    calls = [
        {"id": part["id"], "type": "function", "function": {"name": part["name"], "arguments": part["arguments_json"]}}
        for part in parts
        if part["type"] == "tool_call"
    ]
    return [{"role": message["role"], "content": text or None, **({"tool_calls": calls} if calls else {})}]


def answer(params: dict[str, Any]) -> dict[str, Any]:
    request, endpoint = params["request"], params["endpoint"]
    system = [{"role": "developer", "content": request["system"]}] if request.get("system") else []
    functions = [
        {"name": tool["name"], "description": tool["description"], "parameters": tool["parameters"]}
        for tool in request.get("tools", [])
    ]
    body = {
        "model": params["model"],
        "max_completion_tokens": request["max_tokens"],
        "messages": [*system, *(each for message in request["messages"] for each in wire(message))],
    }
    if functions:
        body |= {"tools": [{"type": "function", "function": each} for each in functions], "reasoning_effort": "none"}
    headers = {"authorization": f"Bearer {endpoint['api_key']}", "content-type": "application/json"}
    asked = urllib.request.Request(  # noqa: S310 - the base URL that it was given
        endpoint["base_url"] + "/chat/completions", json.dumps(body).encode(), headers
    )
    with urllib.request.urlopen(asked) as reply:  # noqa: S310 - the same
        said = json.load(reply)
    message, usage = said["choices"][0]["message"], said["usage"]
    parts = [{"type": "text", "text": message["content"]}] if message["content"] else []
    parts += [
        {
            "type": "tool_call",
            "id": call["id"],
            "name": call["function"]["name"],
            "arguments_json": call["function"]["arguments"],
        }
        for call in message.get("tool_calls") or []
    ]
    return {
        "message": {"role": "assistant", "parts": parts},
        "stop_reason": "tool_use" if message.get("tool_calls") else "end_turn",
        "usage": {
            "input_tokens": usage["prompt_tokens"],
            "output_tokens": usage["completion_tokens"],
            "cache_read_tokens": usage["prompt_tokens_details"]["cached_tokens"],
            "reasoning_tokens": usage["completion_tokens_details"]["reasoning_tokens"],
        },
    }


def failure(error: urllib.error.HTTPError) -> dict[str, Any]:
    body = json.loads(error.read())["error"]
    after = error.headers.get("retry-after")
    data = {"kind": "provider_error", "status": error.code, "code": body["code"]}
    return {
        "code": -32000,
        "message": body["message"],
        "data": {**data, **({"retry_after": float(after)} if after else {})},
    }


def is_broken(request: dict[str, Any]) -> bool:
    """Break in the way that the user names; return whether there is such a way."""
    number = request["id"]
    match request["params"]["request"]["messages"][0]["parts"][0].get("text", "").partition(":")[0]:
        case "dies":
            print("a last word", file=sys.stderr, flush=True)
            os._exit(3)
        case "hangs":
            print("about to hang", file=sys.stderr, flush=True)
            time.sleep(600)
        case "prints":
            print("thinking about it ...", flush=True)
        case "says-something-else":
            say({"id": number, "result": {"text": "Hello."}})
        case "misspells":
            parts = [{"type": "tool_call", "id": "a", "name": "b", "args": {}}]
            message = {"role": "assistant", "parts": parts}
            say({"id": number, "result": {"message": message, "stop_reason": "end_turn", "usage": {}}})
        case "another-id":
            say({"id": number + 1, "result": None})
        case "crashes":
            say({"id": number, "error": {"code": -32603, "message": "TypeError: undefined is not a function"}})
        case "half-an-error":
            say({"id": number, "error": {"code": -1, "message": "no", "data": {"kind": "rate_limited"}}})
        case _:
            return False
    return True


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if request["method"] == "describe":
            say({"id": request["id"], "result": {"name": "child", "api": "openai-chat", "capabilities": CAN}})
        elif request["method"] == "close":
            say({"id": request["id"], "result": None})
        elif not is_broken(request):
            try:
                say({"id": request["id"], "result": answer(request["params"])})
            except urllib.error.HTTPError as error:
                say({"id": request["id"], "error": failure(error)})


main()
