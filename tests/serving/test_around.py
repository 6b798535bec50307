"""What is around a chat, as the providers have it: no client of ours needs it, and every real one does."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.serving.served import KEYS, MODELS, PATHS, Reply, Served, first_body, next_body, serving

APIS = sorted(PATHS)
ASIDE = """version: 1
id: aside
title: An agent asks for a title beside its conversation
covers: [tools]
requires: [tools]
tools:
  - name: look
    parameters: {type: object, properties: {at: {type: string}}}
    results: [{return: {seen: nothing}}]
turns:
  - user: Look at it.
    model: [{calls: [{look: {at: it}}]}, {text: Nothing is there.}]
side:
  - {when: concise title, text: Looking}
  - {text: As you like.}
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    file = tmp_path_factory.mktemp("scenarios") / "aside.yaml"
    file.write_text(ASIDE, encoding="utf-8")
    with serving(str(file), "call-single", "--model", "my-own", "--pace", "0.002") as server:
        yield server


def scenario(server: Served, name: str) -> dict[str, Any]:
    return next(each for each in server.ask("/_harness/scenarios").json["scenarios"] if each["id"] == name)


def begin(server: Served, api: str, session: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """The path and the body of the first request of a session."""
    return f"/call-single/{session}{PATHS[api]}", first_body(api, scenario(server, "call-single"), **more)


HEADERS = {
    "anthropic": {"request-id", "anthropic-organization-id", "anthropic-ratelimit-requests-remaining"},
    "openai-chat": {"x-request-id", "openai-processing-ms", "openai-version", "x-ratelimit-remaining-tokens"},
    "openai-responses": {"x-request-id", "openai-processing-ms", "openai-version", "x-ratelimit-remaining-tokens"},
    "gemini": {"server-timing", "x-content-type-options"},
}


@pytest.mark.parametrize("api", APIS)
def test_answers_have_the_providers_headers_and_ids_of_their_own(served: Served, api: str) -> None:
    path, body = begin(served, api, f"headers-{api}")
    other, _ = begin(served, api, f"headers-other-{api}")

    answer, elsewhere = served.ask(path, body, KEYS[api]), served.ask(other, body, KEYS[api])

    assert answer.headers.keys() >= HEADERS[api] | {"access-control-allow-origin"}
    assert answer.body != elsewhere.body
    assert MODELS[api].encode() in answer.body


@pytest.mark.parametrize("api", APIS)
def test_what_is_sent_again_gets_the_same_answer(served: Served, api: str) -> None:
    path, body = begin(served, api, f"again-{api}")

    once, again = served.ask(path, body, KEYS[api]), served.ask(path, body, KEYS[api])

    assert (again.status, again.body) == (200, once.body)
    assert served.report("call-single", f"again-{api}")["played"] == 1


@pytest.mark.parametrize(
    ("api", "status", "said"),
    [
        ("anthropic", 401, "authentication_error"),
        ("openai-chat", 401, "invalid_api_key"),
        ("openai-responses", 401, "invalid_api_key"),
        ("gemini", 403, "PERMISSION_DENIED"),
    ],
)
def test_nothing_is_answered_without_a_key(served: Served, api: str, status: int, said: str) -> None:
    path, body = begin(served, api, f"status_without_key-{api}")

    answer = served.ask(path, body, {"anthropic-version": "2023-06-01"})

    assert (answer.status, said in answer.body.decode()) == (status, True)
    found = served.report("call-single", f"status_without_key-{api}")["findings"]
    assert [(each["rule"], each["message"]) for each in found] == [
        ("request-turned-away", f"POST {PATHS[api]} is refused: the request has no key")
    ]


@pytest.mark.parametrize("api", ["anthropic", "openai-chat", "openai-responses"])
def test_a_model_that_nobody_knows_is_refused(served: Served, api: str) -> None:
    path, body = begin(served, api, f"unknown-{api}", model="no-such-model")

    answer = served.ask(path, body, KEYS[api])
    mine = served.ask(path, {**body, "model": "my-own"}, KEYS[api])

    assert answer.status == 404
    assert mine.status == 200
    [found] = served.report("call-single", f"unknown-{api}")["findings"]
    assert found["message"] == f"POST {PATHS[api]} is refused: there is no model 'no-such-model'"


def test_anthropic_wants_its_version(served: Served) -> None:
    path, body = begin(served, "anthropic", "unversioned")

    assert served.ask(path, body, {"x-api-key": "k"}).status == 400


@pytest.mark.parametrize("api", APIS)
def test_exhausted_script_gives_an_error_that_sdks_do_not_retry(served: Served, api: str) -> None:
    session = f"used-up-{api}"
    path, body = begin(served, api, session)
    first = served.ask(path, body, KEYS[api])
    [call] = served.report("call-single", session)["calls"]
    more = next_body(api, body, first.json, [call["result"]["content"]])
    assert served.ask(path, more, KEYS[api]).status == 200

    beyond = served.ask(path, {**more, **_other_words(api)}, KEYS[api])

    assert (beyond.status, beyond.headers["x-should-retry"]) == (400, "false")
    assert "harness: the script of scenario 'call-single' has no answer 3" in beyond.body.decode()
    assert "request-unexpected" in {each["rule"] for each in served.report("call-single", session)["findings"]}


def _other_words(api: str) -> dict[str, Any]:
    return {"generationConfig": {"maxOutputTokens": 77}} if api == "gemini" else _bound(api)


def _bound(api: str) -> dict[str, Any]:
    return {"max_output_tokens" if api == "openai-responses" else "max_tokens": 77}


def test_the_models_are_listed_and_tokens_counted(served: Served) -> None:
    at = "/call-single/desk"
    openai = served.ask(f"{at}/v1/models", headers=KEYS["openai-chat"]).json
    anthropic = served.ask(f"{at}/v1/models", headers=KEYS["anthropic"]).json
    gemini = served.ask(f"{at}/v1beta/models", headers=KEYS["gemini"]).json
    one = served.ask(f"{at}/v1/models/my-own", headers=KEYS["openai-chat"]).json
    none = served.ask(f"{at}/v1/models/no-such", headers=KEYS["anthropic"])
    body = first_body("anthropic", scenario(served, "call-single"))
    counted = served.ask(f"{at}/v1/messages/count_tokens", body, KEYS["anthropic"]).json
    google = served.ask(f"{at}/v1beta/models/gemini-2.5-pro:countTokens", {"contents": []}, KEYS["gemini"]).json
    responses = served.ask(f"{at}/v1/responses/input_tokens", {"input": "Hello."}, KEYS["openai-responses"]).json

    assert "my-own" in {each["id"] for each in openai["data"]}
    assert anthropic["data"][0]["type"] == "model"
    assert gemini["models"][0]["name"].startswith("models/")
    assert (one["id"], none.status) == ("my-own", 404)
    assert min(counted["input_tokens"], google["totalTokens"], responses["input_tokens"]) > 0


@pytest.mark.parametrize("path", ["/v1beta/models", "/v1beta/v1beta/models", "/v1beta/v1/models"])
def test_a_client_may_add_its_version_to_a_base_url_that_ends_in_one(served: Served, path: str) -> None:
    body = first_body("gemini", scenario(served, "call-single"))
    at = f"/call-single/{path.count('/')}{len(path)}{path}/{MODELS['gemini']}:generateContent"

    assert served.ask(at, body, KEYS["gemini"]).status == 200


def test_a_page_of_another_origin_may_ask(served: Served) -> None:
    reply = served.ask(
        "/call-single/page/v1/messages", headers={"access-control-request-headers": "x-api-key"}, method="OPTIONS"
    )

    assert (reply.status, reply.headers["access-control-allow-origin"]) == (204, "*")
    assert reply.headers["access-control-allow-headers"] == "x-api-key"


@pytest.mark.parametrize("api", ["anthropic", "openai-chat", "openai-responses"])
def test_a_stream_has_no_length_and_a_pace(served: Served, api: str) -> None:
    path, body = begin(served, api, f"stream-{api}", stream=True)

    begun = time.monotonic()
    answer = served.ask(path, body, KEYS[api])

    assert "content-length" not in answer.headers
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert time.monotonic() - begun > 0.002 * (answer.body.count(b"data: ") - 1)


def test_several_answers_to_one_question(served: Served) -> None:
    path, body = begin(served, "openai-chat", "several", n=2)
    _, streamed = begin(served, "openai-chat", "several-streamed", n=2, stream=True)

    whole = served.ask(path, body, KEYS["openai-chat"]).json
    stream = served.ask("/call-single/several-streamed/v1/chat/completions", streamed, KEYS["openai-chat"]).body

    assert [choice["index"] for choice in whole["choices"]] == [0, 1]
    calls = [choice["message"]["tool_calls"][0] for choice in whole["choices"]]
    assert calls[0]["function"] == calls[1]["function"]
    assert calls[0]["id"] != calls[1]["id"]
    chunks = [json.loads(line[6:]) for line in stream.decode().splitlines() if line.startswith("data: {")]
    assert {choice["index"] for chunk in chunks for choice in chunk["choices"]} == {0, 1}
    assert stream.endswith(b"data: [DONE]\n\n")


def test_responses_repeat_what_was_sent_and_are_kept(served: Served) -> None:
    path, body = begin(served, "openai-responses", "kept", instructions="Be brief.", metadata={"a": "b"})
    first = served.ask(path, body, KEYS["openai-responses"]).json
    [call] = served.report("call-single", "kept")["calls"]
    output = {"type": "function_call_output", "call_id": call["id"], "output": json.dumps(call["result"]["content"])}

    more = {**body, "previous_response_id": first["id"], "input": [output]}
    last = served.ask(path, more, KEYS["openai-responses"])
    never = served.ask(path, {**more, "previous_response_id": "resp_never"}, KEYS["openai-responses"])

    assert (first["instructions"], first["metadata"], first["tools"]) == ("Be brief.", {"a": "b"}, body["tools"])
    assert last.status == 200
    assert (never.status, never.json["error"]["code"]) == (400, "previous_response_not_found")
    report = served.report("call-single", "kept")
    assert [each["rule"] for each in report["findings"]] == ["request-turned-away"]
    assert report["played"] == 2


def test_wrong_result_is_found_in_server_kept_state(served: Served) -> None:
    path, body = begin(served, "openai-responses", "kept-wrong")
    first = served.ask(path, body, KEYS["openai-responses"]).json
    [call] = served.report("call-single", "kept-wrong")["calls"]
    output = {"type": "function_call_output", "call_id": call["id"], "output": "another"}

    served.ask(path, {**body, "previous_response_id": first["id"], "input": [output]}, KEYS["openai-responses"])

    assert "result-changed" in {each["rule"] for each in served.report("call-single", "kept-wrong")["findings"]}


def test_threads_are_kept(served: Served) -> None:
    path, body = begin(served, "anthropic", "thread", thread={"type": "create"})
    first = served.ask(path, body, KEYS["anthropic"]).json
    [call] = served.report("call-single", "thread")["calls"]
    block = {"type": "tool_result", "tool_use_id": call["id"], "content": json.dumps(call["result"]["content"])}
    turn = {"role": "user", "content": [block]}

    def go_on(behind: str) -> Reply:
        thread = {"type": "continue", "previous_message_id": behind}
        more = {"model": body["model"], "max_tokens": 500, "messages": [turn], "thread": thread}
        return served.ask(path, more, KEYS["anthropic"])

    last, never = go_on(first["id"]), go_on("msg_no")

    assert last.status == 200
    assert (never.status, never.json["error"]["details"]["error_code"]) == (404, "thread_not_found")
    assert [each["rule"] for each in served.report("call-single", "thread")["findings"]] == ["request-turned-away"]


@pytest.mark.parametrize("api", APIS)
def test_what_is_asked_beside_the_conversation_uses_up_no_answer(served: Served, api: str) -> None:
    path = f"/aside/beside-{api}{PATHS[api]}"
    report = scenario(served, "aside")
    title = {**report, "tools": [], "turns": [{"user": "Write a concise title for: Look at it."}]}
    other = {**report, "tools": [], "turns": [{"user": "Is this a new topic?"}]}

    first = served.ask(path, _without_tools(first_body(api, title)), KEYS[api])
    second = served.ask(path, _without_tools(first_body(api, other)), KEYS[api])
    main = served.ask(path, first_body(api, report), KEYS[api])

    assert "Looking" in first.body.decode()
    assert "As you like." in second.body.decode()
    assert main.status == 200
    state = served.report("aside", f"beside-{api}")
    assert (state["played"], state["requests"], len(state["calls"])) == (1, 3, 1)
    assert state["findings"] == []


def _without_tools(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != "tools"}
