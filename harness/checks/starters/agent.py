"""Template for an agent in any language: OpenAI Chat over plain HTTP, with the standard library. It passes the check
unchanged.

Check it with `harness check agent --agent-command 'python3 my_agent.py' --api openai-chat`.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from typing import Any


def main() -> None:
    """Run the conversation in the first line of standard input.

    Standard output is only for messages to harness. Print everything else to standard error, which is shown if the
    agent fails.
    """
    conversation = json.loads(sys.stdin.readline())
    messages: list[dict[str, Any]] = []
    if conversation["system"]:
        messages.append({"role": "developer", "content": conversation["system"]})
    for turn in conversation["turns"]:
        messages.append({"role": "user", "content": turn["text"]})
        for _ in range(conversation["max_answers"]):
            message = ask(conversation, messages)
            messages.append(message)
            calls: list[dict[str, Any]] = message.get("tool_calls") or []
            messages += [run(number, call) for number, call in enumerate(calls)]
            if not calls:
                break


def ask(conversation: dict[str, Any], messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Send a request to the model; put your agent here. SDKs also find the address and the key in their usual
    environment variables.
    """
    body: dict[str, Any] = {"model": conversation["model"], "messages": messages}
    if conversation["max_tokens"]:
        body["max_completion_tokens"] = conversation["max_tokens"]
    if conversation["tools"]:
        body["tools"] = [{"type": "function", "function": tool} for tool in conversation["tools"]]
        body["reasoning_effort"] = "none"
    headers = {"content-type": "application/json", "authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    url = f"{os.environ['OPENAI_BASE_URL']}/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as reply:
        message: dict[str, Any] = json.load(reply)["choices"][0]["message"]
        return message


def run(number: int, call: dict[str, Any]) -> dict[str, Any]:
    """Run a tool: print the call as one line of JSON, then read the result from one line of standard input.

    The result has `text` for APIs that accept only text, and `content` as JSON.
    """
    arguments = json.loads(call["function"]["arguments"] or "{}")  # some models send nothing
    question = {"id": number, "call": call["function"]["name"], "arguments": arguments}
    print(json.dumps(question), flush=True)
    answer = json.loads(sys.stdin.readline())
    text = f"Error: {answer['text']}" if answer["is_error"] else answer["text"]
    return {"role": "tool", "tool_call_id": call["id"], "content": text}


main()
