"""The official SDKs with raw bodies: what it takes to send a request through one and to get its answer as bytes.

Bodies are dictionaries in the wire's own words, with the fields that our adapter sends, so that the requests are the
same to the byte; answers are parsed and nothing is made of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx2

from tests.benchmarks.bare import Converse
from tests.benchmarks.conversations import Conversation

Body = dict[str, Any]

Send = Callable[[Body], bytes]
"""Sends one body, and gives back that of the answer."""


@dataclass(frozen=True, slots=True)
class Wire:
    """An API in its own words: `entries` is the field of what was said, `asked` an entry of the user's, `said` what an
    answer adds to it, `calls` and `text` what it holds, `results` what is said to its calls."""

    entries: str
    asked: Callable[[str], Body]
    said: Callable[[Body], list[Body]]
    calls: Callable[[Body], list[Body]]
    text: Callable[[Body], str]
    results: Callable[[list[Body], Body], list[Body]]
    connect: Callable[[str, str, httpx2.Client], Send]


def conversing(name: str, base_url: str, model: str, http_client: httpx2.Client, first: bytes) -> Converse:
    """The raw SDK of a target on one client that all conversations share. `first` is the first request of one, of which
    the others differ in the question alone."""
    wire = WIRES[name]
    send, fixed = wire.connect(base_url, model, http_client), json.loads(first)
    before = fixed[wire.entries][:-1]

    def converse(conversation: Conversation) -> str:
        entries = [*before, wire.asked(conversation.question)]
        while True:
            answer = json.loads(send({**fixed, wire.entries: entries}))
            calls = wire.calls(answer)
            if not calls:
                return wire.text(answer)
            entries += [*wire.said(answer), *wire.results(calls, conversation.result)]

    return converse


def _compact(value: Body) -> str:
    return json.dumps(value, separators=(",", ":"))


def _anthropic(base_url: str, model: str, http_client: httpx2.Client) -> Send:
    from anthropic import Anthropic

    client = Anthropic(api_key="not-a-key", base_url=base_url, http_client=http_client, max_retries=0)
    create: Any = client.messages.with_raw_response.create

    def send(body: Body) -> bytes:
        raw = create(model=model, max_tokens=body["max_tokens"], messages=(), extra_body=body)
        content: bytes = raw.http_response.content
        return content

    return send


def _openai_chat(base_url: str, model: str, http_client: httpx2.Client) -> Send:
    from openai import OpenAI

    client = OpenAI(api_key="not-a-key", base_url=base_url, http_client=http_client, max_retries=0)
    create: Any = client.chat.completions.with_raw_response.create

    def send(body: Body) -> bytes:
        content: bytes = create(model=model, messages=(), extra_body=body).http_response.content
        return content

    return send


def _openai_responses(base_url: str, model: str, http_client: httpx2.Client) -> Send:
    from openai import OpenAI

    client = OpenAI(api_key="not-a-key", base_url=base_url, http_client=http_client, max_retries=0)
    create: Any = client.responses.with_raw_response.create

    def send(body: Body) -> bytes:
        content: bytes = create(model=model, input=(), extra_body=body).http_response.content
        return content

    return send


def _gemini(base_url: str, model: str, http_client: httpx2.Client) -> Send:
    from google import genai
    from google.genai import types

    options = types.HttpOptions(base_url=base_url, api_version="v1", httpx_client=http_client)
    client = genai.Client(api_key="not-a-key", vertexai=False, http_options=options)
    models: Any = client.models

    def send(body: Body) -> bytes:
        config = types.GenerateContentConfig(
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            http_options=types.HttpOptions(extra_body=body),
            should_return_http_response=True,
        )
        response = models.generate_content(model=model, contents="replaced by extra_body", config=config)
        content: str = response.sdk_http_response.body
        return content.encode()

    return send


def _parts(answer: Body) -> list[Body]:
    parts: list[Body] = answer["candidates"][0]["content"]["parts"]
    return parts


def _called(part: Body) -> Body:
    call = part["functionCall"]
    return {**part, "functionCall": {key: call[key] for key in ("id", "name", "args")}}


def _message(answer: Body) -> Body:
    message: Body = answer["choices"][0]["message"]
    return message


WIRES = {
    "anthropic": Wire(
        "messages",
        lambda text: {"role": "user", "content": [{"type": "text", "text": text}]},
        lambda answer: [{"role": "assistant", "content": answer["content"]}],
        lambda answer: [block for block in answer["content"] if block["type"] == "tool_use"],
        lambda answer: "".join(block["text"] for block in answer["content"]),
        lambda calls, result: [
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": call["id"], "content": _compact(result)} for call in calls
                ],
            }
        ],
        _anthropic,
    ),
    "openai-chat": Wire(
        "messages",
        lambda text: {"role": "user", "content": text},
        lambda answer: [{key: _message(answer)[key] for key in ("role", "content", "tool_calls")}],
        lambda answer: _message(answer).get("tool_calls") or [],
        lambda answer: _message(answer)["content"],
        lambda calls, result: [
            {"role": "tool", "tool_call_id": call["id"], "content": _compact(result)} for call in calls
        ],
        _openai_chat,
    ),
    "openai-responses": Wire(
        "input",
        lambda text: {"role": "user", "content": text},
        lambda answer: [
            {key: item[key] for key in ("type", "call_id", "name", "arguments", "id", "status")}
            for item in answer["output"]
        ],
        lambda answer: [item for item in answer["output"] if item["type"] == "function_call"],
        lambda answer: "".join(part["text"] for item in answer["output"] for part in item["content"]),
        lambda calls, result: [
            {"type": "function_call_output", "call_id": call["call_id"], "output": _compact(result)} for call in calls
        ],
        _openai_responses,
    ),
    "gemini-3": Wire(
        "contents",
        lambda text: {"role": "user", "parts": [{"text": text}]},
        lambda answer: [{"role": "model", "parts": list(map(_called, _parts(answer)))}],
        lambda answer: [part["functionCall"] for part in _parts(answer) if "functionCall" in part],
        lambda answer: "".join(part["text"] for part in _parts(answer)),
        lambda calls, result: [
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": call["id"], "name": call["name"], "response": result}} for call in calls
                ],
            }
        ],
        _gemini,
    ),
}
"""By target. `result` is what the tool answers, `calls` those of the answer before."""
