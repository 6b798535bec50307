"""A loop on OpenAI Chat that does all that it declares, one that is deaf to it, and one that begins anew on failure."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import httpx2

from harness import Capability, Conversation, Endpoint, Image, JsonSchema, Loop, Message, NamedTool, Text
from harness.model.protocols import PLAIN_LOOP

CHOICES = ("tool-choice", "forced-tool-choice", "named-tool-choice")
MORE = ("streaming", *CHOICES, "json-mode", "json-schema", "vision", "retries")


def body(conversation: Conversation, *, first: bool) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    if conversation.tools:
        tools = [
            {"name": each.name, "description": each.description, "parameters": each.parameters}
            for each in conversation.tools
        ]
        asked = {"tools": [{"type": "function", "function": tool} for tool in tools], "reasoning_effort": "none"}
    choice, form = conversation.tool_choice, conversation.response_format
    if isinstance(choice, NamedTool):
        choice = {"type": "function", "function": {"name": choice.name}} if first else None
    if choice is not None:
        asked["tool_choice"] = choice
    if isinstance(form, JsonSchema):
        asked["response_format"] = {"type": "json_schema", "json_schema": {"name": form.name, "schema": form.schema}}
    elif form is not None:
        asked["response_format"] = {"type": "json_object"}
    return {**asked, "stream": True} if conversation.stream else asked


def content(turn: Message) -> list[dict[str, Any]]:
    reported: list[dict[str, Any]] = [
        {"type": "text", "text": part.text} for part in turn.parts if isinstance(part, Text)
    ]  # what a library does that knows of texts and of pictures, and not of their order
    for part in turn.parts:
        if isinstance(part, Image):
            url = f"data:{part.media_type};base64,{base64.b64encode(part.data or b'').decode()}"
            reported.append({"type": "image_url", "image_url": {"url": url}})
    return reported


def message(reply: httpx2.Response, ends: str | None = None) -> dict[str, Any]:
    """The message of an answer; of a stream, if its events end as `ends` says, or as the grammar has it."""
    if "event-stream" not in reply.headers["content-type"]:
        whole: dict[str, Any] = reply.json()["choices"][0]["message"]
        return whole
    text, calls = "", dict[int, dict[str, Any]]()
    for line in reply.text.split(ends) if ends else reply.text.splitlines():
        data = line.removeprefix("data: ")
        for choice in json.loads(data)["choices"] if data.startswith("{") else ():
            text += choice["delta"].get("content") or ""
            for piece in choice["delta"].get("tool_calls") or ():
                call = calls.setdefault(piece["index"], {**piece, "function": {**piece["function"], "arguments": ""}})
                call["function"]["arguments"] += piece["function"].get("arguments") or ""
    reported = {"role": "assistant", "content": text or None}
    return {**reported, "tool_calls": list(calls.values())} if calls else reported


def run_conversation(
    endpoint: Endpoint, model: str, conversation: Conversation, ends: str | None = None, *, adds_again: bool = False
) -> None:
    chat: list[dict[str, Any]] = []
    run = {tool.name: tool.text for tool in conversation.tools}
    headers = {"authorization": f"Bearer {endpoint.api_key}"}
    with httpx2.Client(base_url=endpoint.base_url, headers=headers, trust_env=False) as http:
        for turn in conversation.turns:
            chat.append({"role": "user", "content": content(turn)})
            first, calls = True, [dict[str, Any]()]
            while calls:
                sent = {"model": model, "messages": chat, **body(conversation, first=first)}
                reply = http.post("chat/completions", json=sent)
                if reply.status_code >= 500:
                    chat += [each for each in chat if each["role"] == "tool" and adds_again]
                    reply = http.post("chat/completions", json=sent)
                reply.raise_for_status()
                chat.append(message(reply, ends))
                first, calls = False, chat[-1].get("tool_calls") or []
                for call in calls:
                    text = run[call["function"]["name"]](json.loads(call["function"]["arguments"]))
                    chat.append({"role": "tool", "tool_call_id": call["id"], "content": text})


def doubling(endpoint: Endpoint, model: str, conversation: Conversation) -> None:
    """Where the provider fails it adds the results once more."""
    run_conversation(endpoint, model, conversation, adds_again=True)


def unheard(endpoint: Endpoint, model: str, conversation: Conversation) -> None:
    """It takes the conversation for one of texts, in which nothing is asked of the model."""
    turns = tuple(Message.user(turn.text) for turn in conversation.turns)
    run_conversation(
        endpoint, model, replace(conversation, turns=turns, tool_choice=None, response_format=None, stream=False)
    )


def naive(endpoint: Endpoint, model: str, conversation: Conversation) -> None:
    """It takes a stream apart at empty lines that end as they mostly do."""
    run_conversation(endpoint, model, conversation, "\n\n")


def anew(endpoint: Endpoint, model: str, conversation: Conversation) -> None:
    """Where the provider fails it begins the whole conversation anew, and so runs its tools again."""
    try:
        impatient(endpoint, model, conversation)
    except httpx2.HTTPStatusError:
        impatient(endpoint, model, conversation)


def impatient(endpoint: Endpoint, model: str, conversation: Conversation) -> None:
    """The same loop without a second try."""
    (tool,), (turn,) = conversation.tools, conversation.turns
    chat: list[dict[str, Any]] = [{"role": "user", "content": turn.text}]
    with httpx2.Client(base_url=endpoint.base_url, headers={"authorization": "Bearer k"}, trust_env=False) as http:
        for _ in range(2):
            sent = {"model": model, "messages": chat, **body(conversation, first=False)}
            reply = http.post("chat/completions", json=sent)
            reply.raise_for_status()
            chat.append(message(reply))
            for call in chat[-1].get("tool_calls") or ():
                text = tool.text(json.loads(call["function"]["arguments"]))
                chat.append({"role": "tool", "tool_call_id": call["id"], "content": text})


CAN = PLAIN_LOOP | frozenset(map(Capability, MORE))
CAPABLE = Loop("capable", "openai-chat", run_conversation, CAN)
DEAF = Loop("deaf", "openai-chat", unheard, CAN)
NAIVE = Loop("naive", "openai-chat", naive, CAN)
ANEW = Loop("anew", "openai-chat", anew, CAN)
DOUBLING = Loop("doubling", "openai-chat", doubling, CAN)
