"""A `harness serve` to talk to, and a client of each API that is none of our adapters: plain JSON over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any

import httpx2
import pytest

from harness.cli import serve
from harness.cli.main import main

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


class Served:
    """A `harness serve` in a thread of this process. `end` stops it; `out`, `err` and the exit code are then known."""

    def __init__(self, words: Sequence[str]) -> None:
        self.url = ""
        self._out, self._err, self._codes = StringIO(), StringIO(), list[int]()
        self._thread = Thread(target=lambda: self._codes.append(main(["serve", *words])))
        self._stop: Event | None = None

    def start(self) -> None:
        """Start it, and wait until it listens or has ended. One with a command has no URL, and runs until `end`."""
        listening = SimpleQueue[Event]()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(self._out), redirect_stderr(self._err):
            patch.setattr(serve, "_watch_input", listening.put)
            self._thread.start()
            while self._thread.is_alive() and self._stop is None:
                with suppress(Empty):
                    self._stop = listening.get(timeout=0.02)
        if self._stop is not None:
            self.url = json.loads(self._out.getvalue())["url"]

    def ask(
        self, path: str, body: object = None, headers: Mapping[str, str] | None = None, method: str | None = None
    ) -> Reply:
        """Send a request and take whatever comes back."""
        return ask(self.url + path, body, headers, method)

    def report(self, scenario: str, session: str) -> JsonDict:
        """The report of a session."""
        return self.ask(f"/_harness/{scenario}/{session}").json

    def end(self) -> int:
        """Stop it as the end of its input does, and return its exit code."""
        with redirect_stdout(self._out), redirect_stderr(self._err):
            if self._stop is not None:
                self._stop.set()
            self._thread.join()
        return self._codes[0]

    @property
    def out(self) -> str:
        return self._out.getvalue()

    @property
    def err(self) -> str:
        return self._err.getvalue()


def ask(url: str, body: object = None, headers: Mapping[str, str] | None = None, method: str | None = None) -> Reply:
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    sent = {"content-type": "application/json", **(headers or {})}
    response = CLIENT.request(method or ("GET" if body is None else "POST"), url, content=data, headers=sent)
    return Reply(response.status_code, dict(response.headers.items()), response.content)


CLIENT = httpx2.Client(timeout=20, trust_env=False)


@contextmanager
def serving(*words: str) -> Generator[Served]:
    """A server with these arguments. With `--command` it has ended once the command has."""
    server = Served(words)
    server.start()
    try:
        yield server
    finally:
        server.end()


@contextmanager
def process(*words: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own, as a user starts it, and its URL."""
    command = [sys.executable, "-m", "harness", "serve", *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            yield running, json.loads(running.stdout.readline())["url"]
        finally:
            running.kill()


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
            report = [
                {"role": "tool", "tool_call_id": call["id"], "content": text}
                for call, text in zip(message["tool_calls"], said, strict=True)
            ]
            return {**body, "messages": [*body["messages"], message, *report]}
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
