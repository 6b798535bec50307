"""What Anthropic refuses: for each limit a request that passes and one that is caught."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from harness.apis import registry
from harness.apis.anthropic import API
from harness.apis.limits import Violation
from harness.apis.profiles import Profile
from harness.apis.view import WireError
from harness.model.http import HttpRequest
from tests.apis import lawful
from tests.apis.hardened import validator
from tests.apis.pointers import resolve

URL = "https://api.anthropic.com/v1/messages"
OLD = registry.api("anthropic").profile_for("claude-sonnet-4-5")
NEW = registry.api("anthropic").profile_for("claude-opus-4-8")
OBJECT = {"type": "object", "properties": {}}
CLOSED = {**OBJECT, "additionalProperties": False}
TOOL = {"name": "f", "input_schema": OBJECT}
MARK: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": blocks[0] if isinstance(blocks[0], str) else list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": blocks[0] if isinstance(blocks[0], str) else list(blocks)}


def system(*blocks: Any) -> dict[str, Any]:
    return {"role": "system", "content": blocks[0] if isinstance(blocks[0], str) else list(blocks)}


def text(words: str = "x", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def call(call_id: str = "a", **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": {}, **more}


def result(call_id: str = "a", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "18", **more}


def violations(
    body: Any, profile: Profile = OLD, *, headers: dict[str, str] | None = None, url: str = URL
) -> list[Violation]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    found = lawful.violations(API, HttpRequest("POST", url, headers or {}, raw), profile)
    for violation in found:
        if not isinstance(body, bytes):
            resolve(body, violation.pointer)
    return found


def whole(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "claude-sonnet-4-5", "max_tokens": 4096, "messages": list(messages) or [user("Hi")], **fields}


def chat(*messages: Any, **fields: Any) -> dict[str, Any]:
    return whole(user("Hi"), *messages, tools=[TOOL], **fields)


def rules(body: Any, profile: Profile = OLD, **more: Any) -> list[tuple[str, str]]:
    return [(violation.rule, violation.pointer) for violation in violations(body, profile, **more)]


GOOD: list[dict[str, Any]] = [
    whole(),
    whole(system="Be brief.", stop_sequences=["END"], stream=False, metadata={"user_id": "u"}),
    whole(system=[text(**MARK)], service_tier="auto"),
    whole(user(text(), {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}})),
    whole(assistant("Hello."), user("Hi")),
    whole(user("One."), user("Two.")),
    chat(assistant(call()), user(result())),
    chat(assistant(call()), user(result(content=[text()])), assistant("Done."), user("Thanks")),
    chat(assistant(text(), call("a"), call("b")), user(result("b"), result("a", is_error=True), text("Now?"))),
    chat(assistant(call("a")), assistant(call("b")), user(result("a"), result("b"))),
    chat(assistant(call("a")), user(result("a")), user("And?")),
    chat(assistant(call("a")), user(result("a")), assistant(call("a")), user(result("a"))),
    chat(assistant(call("call_0-x")), user({"type": "tool_result", "tool_use_id": "call_0-x"})),
    chat(assistant(call("a")), user(result("a", content=""))),
    chat(assistant({"type": "thinking", "thinking": "", "signature": "c2ln"}, call()), user(result())),
    chat(tool_choice={"type": "tool", "name": "f", "disable_parallel_tool_use": True}),
    chat(tool_choice={"type": "any"}),
    whole(tools=[{**TOOL, "strict": True, "input_schema": CLOSED, "description": "d"}]),
    whole(
        tools=[
            {
                **TOOL,
                "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}},
                "input_examples": [{"n": 1}],
            }
        ]
    ),
    whole(tools=[{"type": "web_search_20250305", "name": "web_search"}, TOOL]),
    whole(output_config={"format": {"type": "json_schema", "schema": CLOSED}, "effort": "xhigh"}),
]


@pytest.mark.parametrize("body", GOOD)
def test_good_requests_have_no_violation(body: dict[str, Any]) -> None:
    for profile in (OLD, NEW):
        assert violations(body, profile) == []
        assert violations(body, profile, headers={"anthropic-version": "2026-10-21"}) == []


@pytest.mark.parametrize("body", GOOD)
def test_good_requests_are_the_sdk_s(body: dict[str, Any]) -> None:
    params = pytest.importorskip("anthropic.types.message_create_params")
    validator(params.MessageCreateParamsNonStreaming).validate_python(body, strict=True)


SERVER_CALL = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
SERVER_RESULT = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


def test_a_paused_turn_that_goes_back_is_no_prefill() -> None:
    assert rules(whole(user("Hi"), assistant(SERVER_CALL, SERVER_RESULT)), NEW) == []


def test_a_directive_stands_anywhere() -> None:
    """anthropic-system-directive: without a block, with a setting for what follows."""
    directive = {"role": "system", "content": [], "output_config": {"effort": "low"}}
    beta = {"anthropic-beta": "of another day"}
    for body in (whole(directive, user("Hi")), whole(user("Hi"), assistant("x"), directive)):
        assert rules(body, CLAUDE["claude-opus-5-5"], headers=beta) == []


FORCED = "anthropic-choice-forced"
THINKING = "anthropic-thinking-unsupported"
SYSTEM = "anthropic-system-role"
MODELS = (
    *("claude-haiku-4-5", "claude-sonnet-4-6", "claude-opus-4-7", "claude-opus-4-8", "claude-sonnet-5"),
    *("claude-fable-5", "claude-opus-5", "claude-mythos-5-1", "claude-opus-5-5", "claude-sonnet-5-5"),
    *("claude-haiku-5-5", "claude-of-another-day"),
)
CLAUDE = {model: registry.api("anthropic").profile_for(model) for model in MODELS}


BEDROCK = "https://bedrock-runtime.us-east-1.amazonaws.com"
INVOKED = "/model/claude-opus-5-5/invoke"
COMPUTER = {"tools": [{"type": "computer_20251124", "name": "computer"}]}


@pytest.mark.parametrize(
    ("url", "known"),
    [
        (URL, True),
        ("https://us-east5-aiplatform.googleapis.com/v1/publishers/anthropic/models/claude-opus-5-5:rawPredict", True),
        (f"{BEDROCK}{INVOKED}", False),
        (f"{BEDROCK}/anthropic/v1/messages", False),
        ("https://bedrock-mantle.us-east-1.api.aws/anthropic/v1/messages", False),
        (f"https://api.anthropic.com{INVOKED}", False),  # the form is Bedrock's, whatever a recording says of the host
    ],
)
def test_bedrock_takes_tools_that_the_provider_s_own_service_does_not(url: str, *, known: bool) -> None:
    hosted = {"anthropic_version": "bedrock-2023-05-31", **whole(user("Hi"))}
    body = (whole(user("Hi")) if url.endswith("messages") else hosted) | COMPUTER
    found = [violation.rule for violation in violations(body, CLAUDE["claude-opus-5-5"], url=url)]
    assert found == ["anthropic-tool-type"] * known


@pytest.mark.parametrize("url", [URL, f"{BEDROCK}/anthropic/v1/messages"])
def test_bedrock_refuses_what_the_provider_s_own_service_refuses_besides(url: str) -> None:
    found = violations(whole(user("Hi"), frequency_penalty=1), CLAUDE["claude-opus-5-5"], url=url)
    assert [(violation.rule, violation.severity) for violation in found] == [("anthropic-extra-input", "error")]


def test_a_schema_too_deep_to_judge_is_let_pass() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(200):
        schema = {"type": "object", "properties": {"inner": schema}}
    assert rules(whole(tools=[{**TOOL, "input_schema": schema, "input_examples": [{}]}])) == []


FORMAT = {"type": "json_schema", "schema": CLOSED}


@pytest.mark.parametrize(
    ("body", "rule", "status"),
    [
        (b"{", "anthropic-body", 400),
        (b'{"max_tokens": NaN}', "anthropic-body", 400),
        (b"[]", "anthropic-body", 400),
        (b" " * (32 * 1024 * 1024 + 1), "anthropic-body-size", 413),
    ],
    ids=["cut", "NaN", "list", "size"],
)
def test_bodies_that_cannot_be_read(body: bytes, rule: str, status: int) -> None:
    assert [(found.rule, found.status) for found in violations(body)] == [(rule, status)]


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from _places(member, (*path, key))


def test_no_shape_of_a_body_makes_the_limits_fail() -> None:
    body = chat(
        assistant({"type": "thinking", "thinking": "", "signature": ""}, text(**MARK), call(), SERVER_CALL),
        user(result(content=[text(), {"type": "search_result", "content": [text()]}])),
        system(text()),
        system=[text()],
        tool_choice={"type": "tool", "name": "f"},
        thinking={"type": "enabled", "budget_tokens": 1024},
        output_config={"format": FORMAT, "effort": "low"},
    )
    body["tools"] = [{**TOOL, "strict": True, "input_schema": CLOSED, "input_examples": [{}]}]
    tried = 0
    for path in _places(body):
        for value in (None, True, -1, 0.5, "", "text", [], [None], [[]], {}, {"type": []}, {"": {}}):
            mutant = copy.deepcopy(body)
            holder: Any = {"": mutant}
            *way, last = ("", *path)
            for key in way:
                holder = holder[key]
            if path:
                holder[last] = value
            else:
                mutant = value
            violations(mutant, NEW, headers={"anthropic-version": "2026-10-21"})
            with contextlib.suppress(WireError):
                API.view(HttpRequest("POST", URL, {}, json.dumps(mutant).encode()))
            tried += 1
    assert tried > 500


@pytest.mark.parametrize(
    ("headers", "body", "refused"),
    [
        ({"accept": "*/*", "anthropic-version": "2023-06-01"}, b"{}", False),
        ({"accept": "*/*"}, b"{}", True),
        ({"accept": "*/*", "anthropic-version": "2023-06-01, 2023-06-01"}, b"{}", True),
        ({"accept": "*/*"}, b'{"anthropic_version": "bedrock-2023-05-31"}', False),
        ({}, b"{}", False),  # a recording may have lost them
    ],
)
def test_the_version_stands_in_the_header_once(headers: dict[str, str], body: bytes, *, refused: bool) -> None:
    found = API.header_violation(HttpRequest("POST", URL, headers, body))
    assert (found is not None and found.limit.id == "anthropic-version") is refused
