"""Template for a tool loop: OpenAI Chat over plain HTTP. It passes the check unchanged. Comments mark the code to
replace with calls to your library.

Run the check with `harness check agent my_loop:drive --api openai-chat`.
"""

from __future__ import annotations

import json
from typing import Any

import httpx2

from harness import Conversation, Endpoint, ToolFailed


def drive(endpoint: Endpoint, model: str, conversation: Conversation) -> None:
    """Run the conversation to its end with your library.

    The function may be asynchronous. The harness judges the requests to `endpoint` and the tools that run, not the
    return value.
    """
    # Replace the rest by your library: create its client for `endpoint.base_url` with `endpoint.api_key` and its agent
    # with the system prompt and the tools, then run it for each turn of the user. Raise `harness.Unsupported` before
    # anything is sent if the library cannot do what the conversation needs.
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
    """Run a tool. `tool.call(arguments)` returns a value, `tool.text(arguments)` a text.

    Both raise `ToolFailed` with the text for the model.
    """
    (tool,) = [each for each in conversation.tools if each.name == call["function"]["name"]]
    try:
        text = tool.text(json.loads(call["function"]["arguments"] or "{}"))  # some models send nothing
    except ToolFailed as failed:
        text = f"Error: {failed}"
    return {"role": "tool", "tool_call_id": call["id"], "content": text}


# A plain function has to support a system prompt, tools, parallel calls and several turns. Declare more capabilities,
# or a fixed API, with a `Loop`, and check my_loop:LOOP:
#
#     from harness import Capability, Loop
#     CAN = frozenset(map(Capability, ("system-prompt", "tools", "parallel-tool-calls", "history", "streaming")))
#     LOOP = Loop("my-loop", "openai-chat", drive, CAN)
