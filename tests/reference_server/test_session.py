"""The reference server over real HTTP: it plays the script, and refuses what the provider refuses, in its own shape."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from harness.apis import registry
from harness.cassettes.loopback_server import serve
from harness.model.http import EXHAUSTED, HttpResponse
from harness.model.messages import StopReason, Usage
from harness.reference_server.script_session import ScriptSession
from harness.scenarios.schema import Scenario
from tests.scenarios.files import WITH_TOOLS, changed, scenario

MODELS = {
    "anthropic": "claude-opus-5-5",
    "openai-chat": "gpt-4.1",
    "openai-responses": "gpt-5.6",
    "gemini": "gemini-3.6-flash",
}
PATHS = {
    "anthropic": "/v1/messages",
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "gemini": f"/v1beta/models/{MODELS['gemini']}:generateContent",
}
HEADERS = {
    "x-api-key": "key",
    "anthropic-version": "2023-06-01",
    "authorization": "Bearer key",
    "x-goog-api-key": "key",
}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
STREAM_PATHS = PATHS | {"gemini": f"/v1beta/models/{MODELS['gemini']}:streamGenerateContent?alt=sse"}
FIRST: dict[str, dict[str, Any]] = {
    "anthropic": {
        "model": MODELS["anthropic"],
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "Paris?"}],
        "tools": [{"name": "get_weather", "input_schema": SCHEMA}],
    },
    "openai-chat": {
        "model": MODELS["openai-chat"],
        "messages": [{"role": "user", "content": "Paris?"}],
        "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}],
    },
    "openai-responses": {
        "model": MODELS["openai-responses"],
        "input": [{"role": "user", "content": "Paris?"}],
        "tools": [{"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}],
    },
    "gemini": {
        "contents": [{"role": "user", "parts": [{"text": "Paris?"}]}],
        "tools": [{"functionDeclarations": [{"name": "get_weather", "parametersJsonSchema": SCHEMA}]}],
    },
}


def answered(api: str, answer: dict[str, Any], result_id: str | None = None) -> dict[str, Any]:
    """The second request: the first one, the model's answer as it came, and the result of its call."""
    body = copy.deepcopy(FIRST[api])
    if api == "anthropic":
        used = next(block for block in answer["content"] if block["type"] == "tool_use")
        result = {"type": "tool_result", "tool_use_id": result_id or used["id"], "content": "18"}
        body["messages"] += [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": [result]}]
    elif api == "openai-chat":
        message = answer["choices"][0]["message"]
        kept = {"role": "assistant", "tool_calls": message["tool_calls"]}
        answer_id = result_id or message["tool_calls"][0]["id"]
        body["messages"] += [kept, {"role": "tool", "tool_call_id": answer_id, "content": "18"}]
    elif api == "openai-responses":
        call = next(item for item in answer["output"] if item["type"] == "function_call")
        output = {"type": "function_call_output", "call_id": result_id or call["call_id"], "output": "18"}
        body["input"] += [*answer["output"], output]
    else:
        content = answer["candidates"][0]["content"]
        call = next(part["functionCall"] for part in content["parts"] if "functionCall" in part)
        name = call["name"] if result_id is None else ""  # the id of nobody is only documented to be refused
        response = {"id": result_id or call["id"], "name": name, "response": {"temp": 18}}
        body["contents"] += [content, {"role": "user", "parts": [{"functionResponse": response}]}]
    return body


Post = Callable[..., httpx2.Response]
Serving = Callable[[str, Scenario], AbstractContextManager[Post]]


@pytest.fixture(scope="module")
def serving() -> Generator[Serving, None, None]:
    with serve() as server, httpx2.Client(trust_env=False, headers=HEADERS) as client:

        @contextmanager
        def session(api: str, scenario: Scenario) -> Generator[Post, None, None]:
            api, _, other = api.partition(" ")
            model = other or MODELS[api]
            base = server.mount(ScriptSession(scenario, registry.api(api), model, registry.api(api).profile_for(model)))
            yield lambda body, path=PATHS[api]: client.post(base + path, json=body)
            server.unmount(base)

        yield session


@pytest.fixture
def tools(tmp_path: Path) -> Scenario:
    return scenario(tmp_path, WITH_TOOLS)


apis = pytest.mark.parametrize("api", MODELS)


@apis
def test_the_script_is_served_until_it_is_exhausted(serving: Serving, tools: Scenario, api: str) -> None:
    wire = registry.api(api)
    with serving(api, tools) as post:
        first = post(FIRST[api])
        assert first.status_code == 200, first.text
        second = post(answered(api, first.json()))
        assert second.status_code == 200, second.text
        third = post(answered(api, first.json()))
    calls, text = (wire.read(plain(response)) for response in (first, second))
    assert [(call.name, call.arguments) for call in calls.calls] == [("get_weather", {"city": "Paris"})]
    assert (text.text, text.calls) == ("18", ())
    assert third.status_code == 500
    assert third.headers[EXHAUSTED] == "1"
    assert third.json()["error"] == {
        "message": "harness: the script of scenario 'with-tools' has no answer 3",
        "type": "harness_exhausted",
    }


def plain(response: httpx2.Response) -> HttpResponse:
    return HttpResponse(response.status_code, dict(response.headers), response.content)


@apis
def test_two_conversations_get_the_same_bytes(serving: Serving, tools: Scenario, api: str) -> None:
    bodies: list[list[bytes]] = []
    for _ in range(2):
        with serving(api, tools) as post:
            first = post(FIRST[api])
            bodies.append([first.content, post(answered(api, first.json())).content])
    assert bodies[0] == bodies[1]
    assert bodies[0][0] != bodies[0][1]


REASONING: dict[str, tuple[dict[str, Any], bool]] = {
    "anthropic, adaptive": ({"thinking": {"type": "adaptive"}, "max_tokens": 4000}, True),
    "openai-responses, an effort": ({"reasoning": {"effort": "low"}}, True),
    "openai-responses, no effort": ({"reasoning": {"effort": "none"}}, False),
    "openai-responses gpt-4.1, an effort": ({"reasoning": {"effort": "low"}}, False),
    "openai-responses, its encrypted form": ({"include": ["reasoning.encrypted_content"]}, False),
    "gemini, a level": ({"generationConfig": {"thinkingConfig": {"thinkingLevel": "low"}}}, True),
}


@pytest.mark.parametrize("name", REASONING)
def test_a_request_that_enables_reasoning_gets_some(serving: Serving, tools: Scenario, name: str) -> None:
    served, fields, expected = name.partition(",")[0], *REASONING[name]
    api = served.partition(" ")[0]
    with serving(served, tools) as post:
        answer = post(FIRST[api] | fields)
    assert answer.status_code == 200, answer.text
    read = registry.api(api).read(plain(answer))
    assert any(getattr(part, "kind", "") in ("thinking", "reasoning", "thought") for part in read.parts) is expected


def test_reasoning_of_a_scenario_is_sent_to_those_who_ask_for_its_encrypted_form(
    serving: Serving, tmp_path: Path
) -> None:
    reasoning = scenario(tmp_path, changed(WITH_TOOLS, "turns.0.model.0.thinking", "It depends on the weather."))
    with serving("openai-responses", reasoning) as post:
        without = post(FIRST["openai-responses"])
    with serving("openai-responses", reasoning) as post:
        answer = post(FIRST["openai-responses"] | {"include": ["reasoning.encrypted_content"]})
    assert [item["type"] for item in without.json()["output"]] == ["function_call"]
    assert [item["type"] for item in answer.json()["output"]] == ["reasoning", "function_call"]


def streaming(api: str, body: dict[str, Any]) -> dict[str, Any]:
    return body if api == "gemini" else body | {"stream": True}


@apis
def test_stream_has_the_content_of_the_whole_answer(serving: Serving, tools: Scenario, api: str) -> None:
    wire, path = registry.api(api), STREAM_PATHS[api]
    with serving(api, tools) as post:
        first = post(FIRST[api]).json()
        whole = [first, post(answered(api, first)).json()]
    with serving(api, tools) as post:
        one = post(streaming(api, FIRST[api]), path=path)
        two = post(streaming(api, answered(api, first)), path=path)
        exhausted = post(streaming(api, answered(api, first)), path=path)
    for response, body in zip((one, two), whole, strict=True):
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].partition(";")[0] == "text/event-stream"
        seen = wire.read(plain(response))
        same = wire.read(HttpResponse(200, {}, json.dumps(body).encode()))
        assert (seen.streamed, seen.complete) == (True, True)
        assert (seen.text, seen.stop_reason, seen.model) == (same.text, same.stop_reason, same.model)
        assert [(call.id, call.name, call.arguments, call.opaque) for call in seen.calls] == [
            (call.id, call.name, call.arguments, call.opaque) for call in same.calls
        ]
        assert api == "openai-chat" or seen.usage == same.usage  # Chat wants to be asked for it
    assert (exhausted.status_code, exhausted.headers[EXHAUSTED]) == (500, "1")


def test_chat_counts_the_tokens_of_a_stream_where_it_is_asked_to(serving: Serving, tools: Scenario) -> None:
    body = FIRST["openai-chat"] | {"stream": True}
    read = registry.api("openai-chat").read
    with serving("openai-chat", tools) as post:
        assert read(plain(post(body))).usage == Usage()
    with serving("openai-chat", tools) as post:
        assert read(plain(post(body | {"stream_options": {"include_usage": True}}))).usage.output_tokens


def test_gemini_streams_an_array_where_events_are_not_asked_for(serving: Serving, tools: Scenario) -> None:
    with serving("gemini", tools) as post:
        events = post(FIRST["gemini"], path=STREAM_PATHS["gemini"])
    with serving("gemini", tools) as post:
        array = post(FIRST["gemini"], path=STREAM_PATHS["gemini"].partition("?")[0])
    assert isinstance(array.json(), list)
    read = registry.api("gemini").read
    assert read(plain(array)) == read(plain(events))


def test_state_that_was_streamed_is_remembered(serving: Serving, tmp_path: Path) -> None:
    thinking = {"thinking": {"type": "adaptive"}, "stream": True}
    with serving("anthropic", with_thinking(tmp_path)) as post:
        first: Any = registry.api("anthropic").read(plain(post(FIRST["anthropic"] | thinking))).body
        refused = post(asking_for_thought(altered(first, lambda blocks: blocks.pop(0))) | {"stream": True})
        assert refused.status_code == 400
        assert post(asking_for_thought(first) | {"stream": True}).status_code == 200


REFUSALS: dict[str, dict[str, Any]] = {
    "anthropic": {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_",
        },
    },
    "openai-chat": {"error": {"type": "invalid_request_error"}},
    "openai-responses": {
        "error": {
            "type": "invalid_request_error",
            "param": "input[2].call_id",
            "message": "No tool call before this item",
        }
    },
    "gemini": {"error": {"code": 400, "status": "INVALID_ARGUMENT"}},
}


def includes(value: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(value, dict) and all(includes(value.get(key), item) for key, item in part.items())
    return part in value if isinstance(part, str) and isinstance(value, str) else value == part


@apis
@pytest.mark.parametrize("streamed", [True, False])
def test_refusal_has_provider_form_and_uses_no_answer(
    serving: Serving, tools: Scenario, api: str, *, streamed: bool
) -> None:
    with serving(api, tools) as post:
        first = post(FIRST[api]).json()
        wrong = answered(api, first, "nobody")
        refused = post(streaming(api, wrong), path=STREAM_PATHS[api]) if streamed else post(wrong)
        assert refused.status_code == 400
        assert refused.headers["content-type"].startswith("application/json")
        assert includes(refused.json(), REFUSALS[api]), refused.text
        assert EXHAUSTED not in refused.headers
        accepted = post(answered(api, first))
    assert accepted.status_code == 200
    assert registry.api(api).read(plain(accepted)).text == "18"


NOT_FOUND: dict[str, dict[str, Any]] = {
    "anthropic": {"type": "error", "error": {"type": "not_found_error"}},
    "openai-chat": {"error": {"type": "invalid_request_error"}},
    "openai-responses": {"error": {"type": "invalid_request_error"}},
    "gemini": {"error": {"code": 404, "status": "NOT_FOUND"}},
}


@apis
def test_an_unknown_path_is_not_found(serving: Serving, tools: Scenario, api: str) -> None:
    with serving(api, tools) as post:
        missing = post(FIRST[api], path="/v9/nowhere")
        assert missing.status_code == 404
        assert includes(missing.json(), NOT_FOUND[api]), missing.text
        assert "/v9/nowhere" in missing.json()["error"]["message"]
        assert post(FIRST[api]).status_code == 200


@apis
def test_invalid_chat_body_is_refused_for_its_content(serving: Serving, tools: Scenario, api: str) -> None:
    with serving(api, tools) as post:
        for body in ("text", [], {}):
            assert post(body).status_code == 400
        assert post(FIRST[api]).status_code == 200


def with_thinking(tmp_path: Path) -> Scenario:
    content = copy.deepcopy(WITH_TOOLS) | {
        "requires": ["tools", "thinking"],
        "settings": {"thinking": {"effort": "low"}},
    }
    content["turns"][0]["model"][0]["thinking"] = "Paris it is."
    return scenario(tmp_path, content)


def asking_for_thought(answer: dict[str, Any]) -> dict[str, Any]:
    return answered("anthropic", answer) | {"thinking": {"type": "adaptive"}}


def altered(answer: dict[str, Any], change: Callable[[list[Any]], Any]) -> dict[str, Any]:
    copied = copy.deepcopy(answer)
    change(copied["content"])
    return copied


@pytest.mark.parametrize(
    "change",
    [
        lambda blocks: blocks[0].update(thinking="London it is."),
        lambda blocks: blocks[0].update(signature="c2lnbmF0dXJl"),
        lambda blocks: blocks.pop(0),
    ],
    ids=["text", "signature", "dropped"],
)
def test_altered_thinking_is_refused(serving: Serving, tmp_path: Path, change: Callable[[list[Any]], Any]) -> None:
    with serving("anthropic", with_thinking(tmp_path)) as post:
        first = post(FIRST["anthropic"] | {"thinking": {"type": "adaptive"}}).json()
        assert first["content"][0]["type"] == "thinking"
        refused = post(asking_for_thought(altered(first, change)))
        assert refused.status_code == 400
        assert refused.json()["error"]["message"] == (
            "messages.1: `thinking` blocks in the latest assistant message cannot be modified; "
            "they must remain as they were in the original response."
        )
        assert post(asking_for_thought(first)).status_code == 200


def test_an_altered_thought_signature_is_refused(serving: Serving, tools: Scenario) -> None:
    with serving("gemini", tools) as post:
        first = post(FIRST["gemini"]).json()
        edited = copy.deepcopy(first)
        (part,) = (p for p in edited["candidates"][0]["content"]["parts"] if "functionCall" in p)
        assert part["thoughtSignature"]
        part["thoughtSignature"] = "c2lnbmF0dXJl"
        refused = post(answered("gemini", edited))
        assert refused.status_code == 400
        assert refused.json() == {
            "error": {"code": 400, "message": "Corrupted thought signature.", "status": "INVALID_ARGUMENT"}
        }
        assert post(answered("gemini", first)).status_code == 200


@apis
def test_truncated_answer_ends_inside_the_last_call(serving: Serving, tmp_path: Path, api: str) -> None:
    city = "Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch"
    content = copy.deepcopy(WITH_TOOLS) | {"requires": ["tools", "truncation"]}
    content["turns"][0]["model"] = [{"calls": [{"get_weather": {"city": city}}], "truncated": True}]
    with serving(api, scenario(tmp_path, content)) as post:
        response = plain(post(FIRST[api]))
    view = registry.api(api).read(response)
    assert view.stop_reason is StopReason.MAX_TOKENS
    assert city.encode() not in response.body
