"""The reference server binds reasoning to its prefix, and counts cached tokens by the prefix that was repeated."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from harness.apis import registry
from harness.cassettes.cassette import REFERENCE_URL
from harness.model.http import HttpRequest, HttpResponse
from harness.reference_server.script_session import ScriptSession
from tests.backends import shipped_scenarios
from tests.broken.fault import Wrap
from tests.broken.prefixes import FAULTS
from tests.broken.running import run_cell

Body = dict[str, Any]
BETA = "thinking-binding-controls-2026-08-01"
TOOLS = "The `tools` list differs from the one this block was created with."
SYSTEM = "The `system` prompt differs from the one this block was created with."
GAP = "The `thinking` block that preceded this one when it was created is missing from this request."
OLDER = "A message older than `messages.0.content.0` differs from when this block was created."


def answers(api: str, model: str, last: Callable[[Body], None], headers: dict[str, str] | None = None) -> HttpResponse:
    """The response to the fourth request of a conversation with reasoning, as `last` changes it."""
    wire, scenario = registry.api(api), shipped_scenarios()["prefix-with-thinking"]
    session = ScriptSession(scenario, wire, model, wire.profile_for(model), origin=REFERENCE_URL)
    body = FIRST[api](model)
    for _ in range(3):
        response = _sent(session, api, body, headers)
        assert response.status == 200, response.body
        CONTINUED[api](body, json.loads(response.body))
    changed = deepcopy(body)
    last(changed)
    return _sent(session, api, changed, headers)


def _sent(session: ScriptSession, api: str, body: Body, headers: dict[str, str] | None) -> HttpResponse:
    path = {"anthropic": "/v1/messages", "openai-responses": "/v1/responses"}[api]
    reported = {
        "content-type": "application/json",
        "anthropic-version": "2023-06-01",
        "x-api-key": "k",
        **(headers or {}),
    }
    return session(HttpRequest("POST", REFERENCE_URL + path, reported, json.dumps(body).encode()))


def _tools(shape: Callable[[str, dict[str, Any]], Body]) -> list[Body]:
    scenario = shipped_scenarios()["prefix-with-thinking"]
    return [
        shape(tool.name, {"description": tool.description, "schema": tool.tool().parameters}) for tool in scenario.tools
    ]


def _first_message(model: str) -> Body:
    return {
        "model": model,
        "max_tokens": 4096,
        "system": "You plan the watch.",
        "tools": _tools(
            lambda name, of: {"name": name, "description": of["description"], "input_schema": of["schema"]}
        ),
        "messages": [{"role": "user", "content": "Is it safe?"}],
    }


def _first_input(model: str) -> Body:
    return {
        "model": model,
        "instructions": "You plan the watch.",
        "tools": _tools(
            lambda name, of: {"type": "function", "name": name, "parameters": of["schema"], "strict": False}
        ),
        "input": [{"role": "user", "content": "Is it safe?"}],
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }


def _next_messages(body: Body, answer: Body) -> None:
    body["messages"].append({"role": "assistant", "content": answer["content"]})
    calls = [block for block in answer["content"] if block["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "184"} for call in calls]
    body["messages"].append({"role": "user", "content": results or "And at 12?"})


def _next_input(body: Body, answer: Body) -> None:
    body["input"] += answer["output"]
    calls = [item for item in answer["output"] if item["type"] == "function_call"]
    results = [{"type": "function_call_output", "call_id": call["call_id"], "output": "184"} for call in calls]
    body["input"] += results or [{"role": "user", "content": "And at 12?"}]


FIRST = {"anthropic": _first_message, "openai-responses": _first_input}
CONTINUED = {"anthropic": _next_messages, "openai-responses": _next_input}


def unchanged(_body: Body) -> None:
    pass


def reversed_tools(body: Body) -> None:
    body["tools"].reverse()


def rewritten_schema(body: Body) -> None:
    tool = body["tools"][0]
    tool.get("input_schema", tool.get("parameters"))["required"].reverse()


def other_keys(body: Body) -> None:
    body["tools"] = [dict(reversed(tool.items())) for tool in body["tools"]]


def other_system(body: Body) -> None:
    body["system" if "system" in body else "instructions"] = "It is 10:04."


def marked(body: Body) -> None:
    body["tools"][-1]["cache_control"] = {"type": "ephemeral"}


def first_message(body: Body) -> None:
    body["messages" if "messages" in body else "input"][0]["content"] = "Is it really safe?"


def shortened(body: Body) -> None:
    if "messages" in body:
        body["messages"][2]["content"][0]["content"] = "1"
    else:
        next(each for each in body["input"] if each.get("type") == "function_call_output")["output"] = "1"


def without(*places: int) -> Callable[[Body], None]:
    """Leaves out thoughts by their number."""

    def left_out(body: Body) -> None:
        thoughts = [0]

        def stays(block: Body) -> bool:
            if block.get("type") not in ("thinking", "reasoning"):
                return True
            thoughts[0] += 1
            return thoughts[0] - 1 not in places

        if "input" in body:
            body["input"] = [*filter(stays, body["input"])]
        for message in body.get("messages", ()):
            if isinstance(message["content"], list):
                message["content"] = [*filter(stays, message["content"])]

    return left_out


@pytest.mark.parametrize(
    ("last", "place", "reason"),
    [
        (reversed_tools, "messages.1.content.0", TOOLS),
        (rewritten_schema, "messages.1.content.0", TOOLS),
        (other_system, "messages.1.content.0", SYSTEM),
        (first_message, "messages.1.content.0", OLDER),
        (shortened, "messages.3.content.0", ""),
        (without(1), "messages.5.content.0", GAP),
    ],
)
@pytest.mark.parametrize("headers", [{}, {"anthropic-beta": BETA}])
def test_a_changed_prefix_is_refused_in_the_providers_words(
    last: Callable[[Body], None], place: str, reason: str, headers: dict[str, str]
) -> None:
    response = answers("anthropic", "claude-fable-5-2", last, headers)
    message = json.loads(response.body)["error"]["message"]
    assert response.status == 400
    setting = "" if headers else f" That setting requires the `{BETA}` value in the `anthropic-beta` header."
    assert message == (
        f"{place}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the "
        f'block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".{setting}'
        f"{' ' if reason else ''}{reason}"
    )


KEPT = {
    "unchanged": unchanged,
    "other-keys": other_keys,
    "marked": marked,
    "first-thought-left-out": without(0),
    "first-thoughts-left-out": without(0, 1),
}


@pytest.mark.parametrize("last", KEPT.values(), ids=KEPT)
def test_what_keeps_the_prefix_is_accepted(last: Callable[[Body], None]) -> None:
    assert answers("anthropic", "claude-fable-5-2", last).status == 200


def binding(behaviour: str | None, edit: Callable[[Body], None]) -> Callable[[Body], None]:
    def both(body: Body) -> None:
        edit(body)
        if behaviour:
            body["thinking"] = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": behaviour}}

    return both


@pytest.mark.parametrize(
    ("model", "behaviour", "headers", "kind"),
    [
        ("claude-fable-5-2", "drop_block", {"anthropic-beta": BETA}, "thinking_dropped"),
        ("claude-opus-5-5", "drop_block", {"anthropic-beta": BETA}, "thinking_dropped"),
        ("claude-opus-5-5", None, {"anthropic-beta": BETA}, "thinking_mismatch_allowed"),
        ("claude-opus-5-5", None, {}, None),
        ("claude-opus-5", None, {"anthropic-beta": BETA}, None),
    ],
)
def test_a_changed_prefix_is_reported(
    model: str, behaviour: str | None, headers: dict[str, str], kind: str | None
) -> None:
    response = answers("anthropic", model, binding(behaviour, shortened), headers)
    reported = json.loads(response.body).get("input_transformations", [])
    assert response.status == 200, response.body
    places = ["messages.3.content.0", "messages.5.content.0"] if kind else []
    assert reported == [{"type": kind, "path": place, "reason": "prefix_binding_mismatch"} for place in places]


def test_an_account_that_asks_for_it_is_refused() -> None:
    asked = binding("error", reversed_tools)
    assert answers("anthropic", "claude-opus-5-5", asked, {"anthropic-beta": BETA}).status == 400
    assert answers("anthropic", "claude-opus-5-5", reversed_tools).status == 200


@pytest.mark.parametrize(
    ("model", "last", "dropped"),
    [
        ("gpt-6.2-astra", unchanged, 0),
        ("gpt-6.2-astra", other_system, 0),  # the provider appends `instructions` to the conversation
        ("gpt-6.2-astra", reversed_tools, 3),
        ("gpt-6.2-astra", shortened, 2),
        ("gpt-6.2-astra", binding(None, lambda body: body.update(reasoning={"effort": "high"})), 3),
        ("gpt-6-astra", reversed_tools, 0),
    ],
)
def test_reasoning_after_a_changed_prefix_is_dropped_and_reported(
    model: str, last: Callable[[Body], None], dropped: int
) -> None:
    response = answers("openai-responses", model, last)
    reported = json.loads(response.body).get("input_transformations", [])
    assert response.status == 200, response.body
    assert [(each["action"], each["reason"], each["id"][:3]) for each in reported] == [
        ("removed", "prefix_mismatch", "rs_")
    ] * dropped


@pytest.mark.parametrize("target", ["anthropic", "openai-chat", "openai-responses", "gemini-3"])
def test_a_break_shows_in_the_cached_tokens(target: str) -> None:
    faults: dict[str, Wrap] = {fault.name: fault.wrap for faults in FAULTS.values() for fault in faults}
    kept, broken = (
        run_cell("usage-cached-prompt", target, wrap).spending for wrap in (None, faults["system-with-the-time"])
    )
    assert kept is not None
    assert broken is not None
    assert (kept.usage.cache_read_tokens or 0) > 1000
    assert not broken.usage.cache_read_tokens


def _marked_message(body: Body) -> None:
    body["messages"][-1]["content"] = [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}]


def _marked_request(body: Body) -> None:
    body["messages"][-1]["content"] = LONG
    body["cache_control"] = {"type": "ephemeral"}


LONG = "The lights are checked at six, at noon and at nine. " * 200


@pytest.mark.parametrize(
    ("mark", "is_moved"), [(_marked_message, False), (_marked_message, True), (_marked_request, False)]
)
def test_a_break_before_a_mark_in_a_message_shows_in_the_cached_tokens(
    mark: Callable[[Body], None], *, is_moved: bool
) -> None:
    def cached(last: Callable[[Body], None]) -> int:
        wire, scenario = registry.api("anthropic"), shipped_scenarios()["prefix-with-thinking"]
        session = ScriptSession(
            scenario, wire, "claude-opus-5", wire.profile_for("claude-opus-5"), origin=REFERENCE_URL
        )
        body = _first_message("claude-opus-5")
        mark(body)
        _next_messages(body, json.loads(_sent(session, "anthropic", body, None).body))
        if is_moved:
            del body["messages"][0]["content"][0]["cache_control"]
            body["messages"][-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        last(body)
        return json.loads(_sent(session, "anthropic", body, None).body)["usage"]["cache_read_input_tokens"]

    assert cached(unchanged) > 2000
    assert cached(first_message) == cached(reversed_tools) == 0


ASKS: dict[str, Callable[[str | None], Body]] = {
    "anthropic": lambda last: {"diagnostics": {"previous_message_id": last}},
    "openai-responses": lambda last: {"prompt_cache_options": {"comparison_response_id": last}},
}


def diagnosed(api: str, last: Callable[[Body], None], named: str | None = None) -> Any:
    """The diagnostics of the second response, for a request that names the first."""
    model = {"anthropic": "claude-opus-5", "openai-responses": "gpt-6.2-astra"}[api]
    wire, scenario = registry.api(api), shipped_scenarios()["prefix-with-thinking"]
    session = ScriptSession(scenario, wire, model, wire.profile_for(model), origin=REFERENCE_URL)
    body = FIRST[api](model)
    first = json.loads(_sent(session, api, body, None).body)
    CONTINUED[api](body, first)
    last(body)
    response = _sent(session, api, {**body, **ASKS[api](named or first["id"])}, None)
    assert response.status == 200, response.body
    reported = json.loads(response.body)
    return reported["diagnostics"] if api == "anthropic" else reported["prompt_cache_diagnostics"]


@pytest.mark.parametrize(
    ("last", "of_anthropic", "of_openai"),
    [
        (reversed_tools, "tools_changed", "tools_changed"),
        (other_system, "system_changed", None),  # GPT-6.2 appends `instructions`
        (first_message, "messages_changed", "input_changed"),
        (unchanged, None, None),
        (other_keys, None, None),
    ],
)
def test_a_request_that_asks_learns_why_the_cache_was_missed(
    last: Callable[[Body], None], of_anthropic: str | None, of_openai: str | None
) -> None:
    reported = diagnosed("anthropic", last)
    assert (reported and reported["cache_miss_reason"]["type"]) == of_anthropic
    assert not reported or reported["cache_miss_reason"]["cache_missed_input_tokens"] >= 0
    reported = diagnosed("openai-responses", last)
    assert reported["type"] == ("cache_miss" if of_openai else "cache_hit")
    assert reported.get("reason") == of_openai


def test_a_first_request_that_asks_has_nothing_to_compare() -> None:
    """Anthropic answers `null`. OpenAI compares nothing unless a response is named."""
    answers: dict[str, Body] = {}
    for api, model in {"anthropic": "claude-opus-5", "openai-responses": "gpt-6.2-astra"}.items():
        wire, scenario = registry.api(api), shipped_scenarios()["prefix-with-thinking"]
        session = ScriptSession(scenario, wire, model, wire.profile_for(model), origin=REFERENCE_URL)
        answers[api] = json.loads(_sent(session, api, {**FIRST[api](model), **ASKS[api](None)}, None).body)
    assert answers["anthropic"]["diagnostics"] is None
    assert "prompt_cache_diagnostics" not in answers["openai-responses"]


def test_an_unknown_response_cannot_be_compared() -> None:
    assert diagnosed("anthropic", unchanged, "msg_1")["cache_miss_reason"]["type"] == "previous_message_not_found"
    assert diagnosed("openai-responses", unchanged, "resp_1")["type"] == "comparison_response_not_found"
