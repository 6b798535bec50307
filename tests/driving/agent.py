"""A program that owns its loop, on nothing but Python: right, or wrong as the first word of its user says."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from typing import Any

CLOCK = {"name": "clock", "description": "The time.", "parameters": {"type": "object", "properties": {}}}


def say(message: object) -> Any:
    sys.stdout.write(f"{message if isinstance(message, str) else json.dumps(message)}\n")
    sys.stdout.flush()
    return json.loads(sys.stdin.readline())


def ask(body: dict[str, Any]) -> dict[str, Any]:
    headers = {"content-type": "application/json", "authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    url = f"{os.environ['OPENAI_BASE_URL']}/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - the harness's own server
    with urllib.request.urlopen(request) as reply:  # noqa: S310 - the same
        message: dict[str, Any] = json.load(reply)["choices"][0]["message"]
        return message


def called(function: dict[str, str]) -> dict[str, Any]:
    """A call as JavaScript hands it on: whole numbers beyond 2^53 are right in its text alone."""
    text, arguments = function["arguments"], json.loads(function["arguments"])
    rounded = {name: float(each) if isinstance(each, int) else each for name, each in arguments.items()}
    return {"call": function["name"], "arguments": rounded, "arguments_json": text}


def at_once(calls: list[Any], *, by_id: bool) -> list[dict[str, Any]]:
    """The results of calls that are all asked before the first answer is read."""
    for number, call in enumerate(calls):
        sys.stdout.write(f"{json.dumps({'id': number, **called(call['function'])})}\n")
    sys.stdout.flush()
    answers = [json.loads(sys.stdin.readline()) for _ in calls]
    if by_id:
        answers.sort(key=lambda answer: answer["id"])
    return [
        {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(answer["content"])}
        for call, answer in zip(calls, answers, strict=True)
    ]


def begun(way: str) -> None:
    """What a program does in the place of its first request."""
    match way:
        case "agent-exits":
            sys.exit("no such model")
        case "agent-talks":
            say("Thinking about it.")
        case "agent-calls-another":
            say({"id": 1, "call": "get_time", "arguments": {}})
        case "agent-garbles":
            say({"id": 1, "call": "get_weather", "arguments_json": "{'city'"})
        case "agent-endless":
            while True:
                say({"id": 1, "call": "get_weather", "arguments": {"city": "Paris"}})
        case "agent-declines":
            say({"unsupported": "tools"})
        case _:
            pass


def main() -> None:
    given = json.loads(sys.stdin.readline())
    assert os.environ["OPENAI_BASE_URL"] == given["base_url"]
    way = given["turns"][0]["text"].partition(":")[0]
    begun(way)
    chat: list[dict[str, Any]] = [{"role": "developer", "content": given["system"] or "Help."}]
    for turn in given["turns"]:
        chat.append({"role": "user", "content": turn["text"]})
        calls: list[Any] = [{}]
        while calls:
            body = {"model": given["model"], "messages": chat, "max_completion_tokens": given["max_tokens"]}
            tools = [{"type": "function", "function": tool} for tool in (given["tools"] or [CLOCK])]
            chat.append(ask({**body, "tools": tools, "reasoning_effort": "none"}))
            calls = chat[-1].get("tool_calls") or []
            if way in ("at-once", "agent-zips"):
                chat += at_once(calls, by_id=way == "at-once")
                continue
            for number, call in enumerate(calls):
                if call["function"]["name"] == "clock":
                    chat.append({"role": "tool", "tool_call_id": call["id"], "content": "12:00"})
                    continue
                answer = say({"id": number, **called(call["function"])})
                assert answer["id"] == number
                text = f"Error: {answer['text']}" if answer["is_error"] else json.dumps(answer["content"])
                chat.append({"role": "tool", "tool_call_id": call["id"], "content": text})


main()
