"""A loop to begin with: OpenAI Chat over plain HTTP. It passes as it stands; put your library where it says so.

harness check agent my_loop:drive --api openai-chat
"""

from __future__ import annotations

import json
from typing import Any

import httpx2

from harness import Conversation, Endpoint, ToolFailed


def drive(endpoint: Endpoint, model: str, conversation: Conversation) -> None:
    """Have the library play the conversation to its end. It may be asynchronous, and what it returns is of no account:
    judged is what it sends to `endpoint`, and which tools it runs."""
    # From here to the end stands what your library does by itself: make its client for `endpoint.base_url` with
    # `endpoint.api_key`, its agent with the system prompt and the tools, and let it run for each turn of the user.
    # What it cannot do it declines, before anything is sent, by raising `harness.Unsupported`.
    headers = {"authorization": f"Bearer {endpoint.api_key}"}
    with httpx2.Client(base_url=endpoint.base_url, headers=headers, timeout=600) as http:
        messages: list[dict[str, Any]] = []
        if conversation.system:
            messages.append({"role": "developer", "content": conversation.system})
        for turn in conversation.turns:
            messages.append({"role": "user", "content": turn.text})
            for _ in range(conversation.max_answers):
                reply = http.post("chat/completions", json=_body(model, messages, conversation))
                reply.raise_for_status()
                message = reply.json()["choices"][0]["message"]
                messages.append(message)
                calls: list[dict[str, Any]] = message.get("tool_calls") or []
                messages += [_result(conversation, call) for call in calls]
                if not calls:
                    break


def _body(model: str, messages: list[dict[str, Any]], conversation: Conversation) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model, "messages": messages}
    if conversation.max_tokens is not None:
        body["max_completion_tokens"] = conversation.max_tokens
    if conversation.tools:
        tools = [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in conversation.tools
        ]
        body |= {"tools": [{"type": "function", "function": tool} for tool in tools], "reasoning_effort": "none"}
    return body


def _result(conversation: Conversation, call: dict[str, Any]) -> dict[str, Any]:
    """A tool really runs: `tool.call(arguments)` answers with a value, `tool.text(arguments)` with a text, and both
    raise what the model has to be told of a failure."""
    (tool,) = [each for each in conversation.tools if each.name == call["function"]["name"]]
    try:
        text = tool.text(json.loads(call["function"]["arguments"]))
    except ToolFailed as failed:
        text = f"Error: {failed}"
    return {"role": "tool", "tool_call_id": call["id"], "content": text}


# A function is asked for a system prompt, tools, parallel calls and several turns. Of what can do more, or always
# speaks the same API, say so, and check my_loop:LOOP:
#
#     from harness import Capability, Loop
#     CAN = frozenset(map(Capability, ("system-prompt", "tools", "parallel-tool-calls", "history", "streaming")))
#     LOOP = Loop("my-loop", "openai-chat", drive, CAN)
