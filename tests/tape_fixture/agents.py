"""Agents as applications have them, one for each client: they ask for the weather, look it up and say what it is.

Each is given a base URL, as its client takes one. None knows of harness. `pieces` of what was streamed is what the
client handed on, so that a test can see how it came.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

JsonDict = dict[str, Any]

USER = "What is the weather in Paris and in Tokyo? Look both up at once."
SYSTEM = "You are a weather assistant."
CITY: JsonDict = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL: JsonDict = {"name": "get_weather", "description": "Current weather in a city.", "parameters": CITY}
WEATHER = {"Paris": '{"temp_c": 18, "sky": "clear"}', "Tokyo": '{"temp_c": 31, "sky": "thunder"}'}
MODEL = "gpt-4o"


def first(**more: Any) -> JsonDict:
    """The first request in the words of Chat Completions."""
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": USER}]
    return {"model": MODEL, "messages": messages, "tools": [{"type": "function", "function": TOOL}], **more}


def then(body: JsonDict, message: JsonDict) -> JsonDict:
    """The request that follows from an answer."""
    results = [
        {
            "role": "tool",
            "tool_call_id": call["id"],
            "content": WEATHER[json.loads(call["function"]["arguments"])["city"]],
        }
        for call in message["tool_calls"]
    ]
    return {**body, "messages": [*body["messages"], message, *results]}


HEADERS = {"authorization": "Bearer sk-of-the-test-1234567890"}


def with_httpx2(url: str) -> str:
    import httpx2

    with httpx2.Client(headers=HEADERS) as client:
        body = first()
        message = client.post(f"{url}/chat/completions", json=body).raise_for_status().json()["choices"][0]["message"]
        done = client.post(f"{url}/chat/completions", json=then(body, message)).raise_for_status().json()
    return done["choices"][0]["message"]["content"]


def with_httpx(url: str) -> str:
    import httpx

    async def run() -> str:
        async with httpx.AsyncClient(headers=HEADERS) as client:
            body = first()
            answer = (await client.post(f"{url}/chat/completions", json=body)).raise_for_status().json()
            more = then(body, answer["choices"][0]["message"])
            done = (await client.post(f"{url}/chat/completions", json=more)).raise_for_status().json()
        return done["choices"][0]["message"]["content"]

    return asyncio.run(run())


def with_requests(url: str) -> str:
    import requests

    body = first()
    answer = requests.post(f"{url}/chat/completions", json=body, headers=HEADERS, timeout=5)
    answer.raise_for_status()
    more = then(body, answer.json()["choices"][0]["message"])
    done = requests.post(f"{url}/chat/completions", json=more, headers=HEADERS, timeout=5)
    return done.json()["choices"][0]["message"]["content"]


def with_aiohttp(url: str) -> str:
    import aiohttp

    async def run() -> str:
        async with aiohttp.ClientSession(headers=HEADERS, raise_for_status=True) as session:
            body = first()
            async with session.post(f"{url}/chat/completions", json=body) as answer:
                message = (await answer.json())["choices"][0]["message"]
            async with session.post(f"{url}/chat/completions", json=then(body, message)) as done:
                return (await done.json())["choices"][0]["message"]["content"]

    return asyncio.run(run())


def with_openai(url: str) -> str:
    import openai

    with openai.OpenAI(base_url=url, max_retries=0) as client:
        body = first()
        message = client.chat.completions.create(**body).choices[0].message
        more = then(body, message.model_dump(exclude_none=True))
        return client.chat.completions.create(**more).choices[0].message.content or ""


def _anthropic() -> JsonDict:
    tool = {"name": "get_weather", "description": TOOL["description"], "input_schema": CITY}
    messages: list[JsonDict] = [{"role": "user", "content": USER}]
    return {"model": "claude-opus-5-5", "max_tokens": 500, "system": SYSTEM, "messages": messages, "tools": [tool]}


def _answered(body: JsonDict, content: list[Any]) -> JsonDict:
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": WEATHER[block.input["city"]]}
        for block in content
        if block.type == "tool_use"
    ]
    more = [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
    return {**body, "messages": [*body["messages"], *more]}


def with_anthropic_async(url: str) -> str:
    import anthropic

    async def run() -> str:
        async with anthropic.AsyncAnthropic(base_url=url, max_retries=0) as client:
            body = _anthropic()
            async with client.messages.stream(**body) as stream:
                answer = await stream.get_final_message()
            return (await client.messages.create(**_answered(body, answer.content))).content[0].text

    return asyncio.run(run())


def _gemini() -> tuple[Any, list[Any]]:
    from google.genai import types

    declared = types.FunctionDeclaration(
        name="get_weather", description=TOOL["description"], parameters_json_schema=CITY
    )
    config = types.GenerateContentConfig(
        system_instruction=SYSTEM,
        tools=[types.Tool(function_declarations=[declared])],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    return config, [types.Content(role="user", parts=[types.Part(text=USER)])]


def _looked_up(answer: Any) -> Any:
    from google.genai import types

    parts = [
        types.Part(
            function_response=types.FunctionResponse(
                id=call.id, name=call.name, response={"result": json.loads(WEATHER[call.args["city"]])}
            )
        )
        for call in answer.function_calls
    ]
    return types.Content(role="user", parts=parts)


def with_gemini(url: str) -> str:
    from google import genai

    with genai.Client(http_options={"base_url": url}) as client:
        config, contents = _gemini()
        answer = client.models.generate_content(model="gemini-3.6-flash", contents=contents, config=config)
        contents += [answer.candidates[0].content, _looked_up(answer)]
        return client.models.generate_content(model="gemini-3.6-flash", contents=contents, config=config).text or ""


def pieces_of_httpx2(url: str) -> list[bytes]:
    import httpx2

    with httpx2.stream("POST", f"{url}/chat/completions", json=first(stream=True), headers=HEADERS) as answer:
        return list(answer.iter_raw())


def pieces_of_httpx(url: str) -> list[bytes]:
    import httpx

    with httpx.stream("POST", f"{url}/chat/completions", json=first(stream=True), headers=HEADERS) as answer:
        return list(answer.iter_raw())


def pieces_of_requests(url: str) -> list[bytes]:
    import requests

    body = first(stream=True)
    with requests.post(f"{url}/chat/completions", json=body, headers=HEADERS, stream=True, timeout=5) as answer:
        return list(answer.iter_content(None))


def pieces_of_aiohttp(url: str) -> list[bytes]:
    import aiohttp

    async def run() -> list[bytes]:
        async with (
            aiohttp.ClientSession(headers=HEADERS) as session,
            session.post(f"{url}/chat/completions", json=first(stream=True)) as answer,
        ):
            return [piece async for piece in answer.content.iter_any()]

    return asyncio.run(run())


AGENTS: Mapping[str, tuple[str, str, Callable[[str], str]]] = {
    "httpx2": ("httpx2", "/v1", with_httpx2),
    "httpx": ("httpx", "/v1", with_httpx),
    "requests": ("requests", "/v1", with_requests),
    "aiohttp": ("aiohttp", "/v1", with_aiohttp),
    "openai": ("openai", "/v1", with_openai),
    "anthropic": ("anthropic", "", with_anthropic_async),
    "gemini": ("google.genai", "", with_gemini),
}
"""By client: the package that it needs, what its base URL has behind the session, and the agent."""

STREAMS: Mapping[str, Callable[[str], list[bytes]]] = {
    "httpx2": pieces_of_httpx2,
    "httpx": pieces_of_httpx,
    "requests": pieces_of_requests,
    "aiohttp": pieces_of_aiohttp,
}
