"""The official SDKs as anybody uses them, without the harness: one client for all conversations."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2

from tests.benchmarks.conversations import DESCRIPTION, MAX_TOKENS, PARAMETERS, SYSTEM, TOOL, Conversation

Converse = Callable[[Conversation], str]
"""Leads one conversation and gives back the answer."""


def anthropic(base_url: str, model: str, http_client: httpx2.Client) -> Converse:
    from anthropic import Anthropic

    client = Anthropic(api_key="not-a-key", base_url=base_url, http_client=http_client, max_retries=0)
    tool: Any = {"name": TOOL, "description": DESCRIPTION, "input_schema": PARAMETERS}
    fixed: dict[str, Any] = {"model": model, "max_tokens": MAX_TOKENS, "system": SYSTEM, "tools": [tool]}

    def converse(conversation: Conversation) -> str:
        messages: list[Any] = [{"role": "user", "content": conversation.question}]
        while True:
            response = client.messages.create(messages=messages, **fixed)
            calls = [block for block in response.content if block.type == "tool_use"]
            if not calls:
                return "".join(block.text for block in response.content if block.type == "text")
            results = [
                {"type": "tool_result", "tool_use_id": call.id, "content": json.dumps(conversation.result)}
                for call in calls
            ]
            messages += [{"role": "assistant", "content": response.content}, {"role": "user", "content": results}]

    return converse


def openai_chat(base_url: str, model: str, http_client: httpx2.Client) -> Converse:
    from openai import OpenAI

    client = OpenAI(api_key="not-a-key", base_url=base_url, http_client=http_client, max_retries=0)
    function = {"name": TOOL, "description": DESCRIPTION, "parameters": PARAMETERS}
    tools = [{"type": "function", "function": function}]
    fixed: dict[str, Any] = {"model": model, "max_completion_tokens": MAX_TOKENS, "tools": tools}

    def converse(conversation: Conversation) -> str:
        messages: list[Any] = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": conversation.question},
        ]
        while True:
            completion = client.chat.completions.create(messages=messages, **fixed)
            message = completion.choices[0].message
            if not message.tool_calls:
                return message.content or ""
            messages.append(message)
            messages += [
                {"role": "tool", "tool_call_id": call.id, "content": json.dumps(conversation.result)}
                for call in message.tool_calls
            ]

    return converse


def openai_responses(base_url: str, model: str, http_client: httpx2.Client) -> Converse:
    from openai import OpenAI

    client = OpenAI(api_key="not-a-key", base_url=base_url, http_client=http_client, max_retries=0)
    fixed: dict[str, Any] = {
        "model": model,
        "max_output_tokens": MAX_TOKENS,
        "instructions": SYSTEM,
        "store": False,
        "tools": [
            {"type": "function", "name": TOOL, "description": DESCRIPTION, "parameters": PARAMETERS, "strict": False}
        ],
    }

    def converse(conversation: Conversation) -> str:
        items: list[Any] = [{"role": "user", "content": conversation.question}]
        while True:
            response = client.responses.create(input=items, **fixed)
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                return response.output_text
            items += response.output
            items += [
                {"type": "function_call_output", "call_id": call.call_id, "output": json.dumps(conversation.result)}
                for call in calls
            ]

    return converse


def gemini(base_url: str, model: str, http_client: httpx2.Client) -> Converse:
    from google import genai
    from google.genai import types

    client = genai.Client(
        api_key="not-a-key",
        vertexai=False,
        http_options=types.HttpOptions(base_url=base_url, api_version="v1beta", httpx_client=http_client),
    )

    function = types.FunctionDeclaration(name=TOOL, description=DESCRIPTION, parameters_json_schema=PARAMETERS)
    config = types.GenerateContentConfig(
        system_instruction=SYSTEM,
        max_output_tokens=MAX_TOKENS,
        tools=[types.Tool(function_declarations=[function])],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )

    def converse(conversation: Conversation) -> str:
        contents: list[Any] = [types.Content(role="user", parts=[types.Part(text=conversation.question)])]
        while True:
            response = client.models.generate_content(model=model, contents=contents, config=config)
            if not response.function_calls:
                return response.text or ""
            contents.append(response.candidates[0].content)
            results = [
                types.Part(
                    function_response=types.FunctionResponse(id=call.id, name=call.name, response=conversation.result)
                )
                for call in response.function_calls
            ]
            contents.append(types.Content(role="user", parts=results))

    return converse


SDKS: dict[str, Callable[[str, str, httpx2.Client], Converse]] = {
    "anthropic": anthropic,
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "gemini-3": gemini,
}
"""By target, how to get an SDK's conversation from a base URL, a model and an HTTP client."""
