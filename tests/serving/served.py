"""A `harness serve` to talk to, and a client of each API that is none of our adapters: plain JSON over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2

JsonDict = dict[str, Any]


@dataclass
class Reply:
    """What came back: status, headers in lower case, the raw body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Served:
    """A server while it runs; `end` closes its input and gives back its exit code and what it printed."""

    process: subprocess.Popen[str]
    url: str
    out: str = ""
    err: str = ""
    code: int | None = None
    _ended: bool = field(default=False)

    def ask(
        self, path: str, body: object = None, headers: Mapping[str, str] | None = None, method: str | None = None
    ) -> Reply:
        """Send a request and take whatever comes back."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {"content-type": "application/json", **(headers or {})}
        verb = method or ("GET" if body is None else "POST")
        response = httpx2.request(verb, self.url + path, content=data, headers=sent, timeout=20, trust_env=False)
        return Reply(response.status_code, dict(response.headers.items()), response.content)

    def told(self, scenario: str, session: str) -> JsonDict:
        """What is told of a session."""
        told: JsonDict = self.ask(f"/_harness/{scenario}/{session}").json
        return told

    def end(self) -> int:
        """End it by its input, and wait."""
        self.out, self.err = self.process.communicate(timeout=30)
        self.code = self.process.returncode
        return self.code


@contextmanager
def serving(*words: str) -> Generator[Served]:
    """A server of its own process, as a user starts it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", "serve", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline() if "--command" not in words else ""
    try:
        yield Served(process, json.loads(line)["url"] if line else "")
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


KEYS: Mapping[str, Mapping[str, str]] = {
    "anthropic": {"x-api-key": "k", "anthropic-version": "2023-06-01"},
    "openai-chat": {"authorization": "Bearer k"},
    "openai-responses": {"authorization": "Bearer k"},
    "gemini": {"x-goog-api-key": "k"},
}
MODELS = {
    "anthropic": "claude-opus-5",
    "openai-chat": "gpt-4o",
    "openai-responses": "gpt-5.6",
    "gemini": "gemini-2.5-pro",
}
PATHS = {
    "anthropic": "/v1/messages",
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "gemini": f"/v1beta/models/{MODELS['gemini']}:generateContent",
}


def first_body(api: str, scenario: JsonDict, **more: Any) -> JsonDict:
    """The body of the first request of a scenario."""
    user = scenario["turns"][0]["user"]
    match api:
        case "anthropic":
            tools = [{**_but(tool, "parameters"), "input_schema": tool["parameters"]} for tool in scenario["tools"]]
            messages = [{"role": "user", "content": user}]
            return {"model": MODELS[api], "max_tokens": 500, "messages": messages, "tools": tools, **more}
        case "openai-chat":
            chat = [{"type": "function", "function": tool} for tool in scenario["tools"]]
            return {"model": MODELS[api], "messages": [{"role": "user", "content": user}], "tools": chat, **more}
        case "openai-responses":
            flat = [{"type": "function", "strict": False, **tool} for tool in scenario["tools"]]
            return {"model": MODELS[api], "input": [{"role": "user", "content": user}], "tools": flat, **more}
        case _:
            contents = [{"role": "user", "parts": [{"text": user}]}]
            return {"contents": contents, "tools": [{"functionDeclarations": scenario["tools"]}], **more}


def next_body(api: str, body: JsonDict, answer: JsonDict, results: Sequence[Any]) -> JsonDict:
    """The body that goes on from an answer, with the results of its calls in their order."""
    said = [each if isinstance(each, str) else json.dumps(each) for each in results]
    match api:
        case "anthropic":
            calls = [block for block in answer["content"] if block["type"] == "tool_use"]
            blocks = [
                {"type": "tool_result", "tool_use_id": call["id"], "content": text}
                for call, text in zip(calls, said, strict=True)
            ]
            turns = [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": blocks}]
            return {**body, "messages": [*body["messages"], *turns]}
        case "openai-chat":
            message = answer["choices"][0]["message"]
            told = [
                {"role": "tool", "tool_call_id": call["id"], "content": text}
                for call, text in zip(message["tool_calls"], said, strict=True)
            ]
            return {**body, "messages": [*body["messages"], message, *told]}
        case "openai-responses":
            asked = [item for item in answer["output"] if item["type"] == "function_call"]
            outputs = [
                {"type": "function_call_output", "call_id": call["call_id"], "output": text}
                for call, text in zip(asked, said, strict=True)
            ]
            return {**body, "input": [*body["input"], *answer["output"], *outputs]}
        case _:
            content = answer["candidates"][0]["content"]
            named = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
            parts = [
                {"functionResponse": {"name": call["name"], "response": {"result": result}}}
                for call, result in zip(named, results, strict=True)
            ]
            return {**body, "contents": [*body["contents"], content, {"role": "user", "parts": parts}]}


def _but(value: JsonDict, key: str) -> JsonDict:
    return {name: each for name, each in value.items() if name != key}
