"""Changes of the prefix in recordings, whose conversations must be found first."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from harness.apis import registry
from harness.audit.cassette_audit import Audit
from harness.cassettes.cassette import Cassette, Interaction
from harness.model.http import HttpRequest, HttpResponse
from harness.results import Exchange, Severity, Transcript
from harness.rules.evidence import Evidence
from harness.rules.rule import all_rules

Body = dict[str, Any]
(RULE,) = (rule for rule in all_rules() if rule.id == "prefix-changed")


@dataclass(frozen=True)
class Recording:
    """Requests and answers of one conversation. The ids of calls are made by the client."""

    api: str
    url: str
    first: Body
    answer: Body
    second: Body
    turns: str

    def exchange(self, request: Body, answer: Body) -> Exchange:
        headers = {"content-type": "application/json"}
        return Exchange(
            HttpRequest("POST", self.url, {}, json.dumps(request).encode()),
            HttpResponse(200, headers, json.dumps(answer).encode()),
        )

    def audited(self, *exchanges: tuple[Body, Body]) -> list[tuple[int, str | None, str, Severity]]:
        api = registry.api(self.api)
        recorded = tuple(self.exchange(request, answer) for request, answer in exchanges)
        evidence = Evidence(Transcript(api.name, "m", api.profile_for("m"), recorded, "audit"))
        found = RULE.findings(evidence)
        return [(each.exchange or 0, each.case, each.pointer or "", each.severity) for each in found]


TOOL = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CALL = {"name": "get_weather", "arguments": '{"city":"Paris"}'}
ASKED = "What is the weather in Paris?"

CHAT = Recording(
    "openai-chat",
    "https://api.openai.com/v1/chat/completions",
    {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": ASKED}],
        "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": TOOL}}],
    },
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "tool_calls": [{"id": "call_1", "type": "function", "function": CALL}],
                },
                "finish_reason": "tool_calls",
            }
        ],
    },
    {
        "messages": [
            {"role": "assistant", "tool_calls": [{"id": "own_1", "type": "function", "function": CALL}]},
            {"role": "tool", "tool_call_id": "own_1", "content": "18 degrees and sunny"},
        ]
    },
    "messages",
)
RESPONSES = Recording(
    "openai-responses",
    "https://api.openai.com/v1/responses",
    {
        "model": "m",
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": ASKED}],
        "tools": [{"type": "function", "name": "get_weather", "parameters": TOOL}],
    },
    {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "m",
        "output": [{"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed", **CALL}],
    },
    {
        "input": [
            {"type": "function_call", "call_id": "own_1", **CALL},
            {"type": "function_call_output", "call_id": "own_1", "output": "18 degrees and sunny"},
        ]
    },
    "input",
)
GEMINI = Recording(
    "gemini",
    "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent",
    {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"text": ASKED}]}],
        "tools": [{"functionDeclarations": [{"name": "get_weather", "parametersJsonSchema": TOOL}]}],
    },
    {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [{"functionCall": {"name": "get_weather", "args": {"city": "Paris"}}}],
                },
                "finishReason": "STOP",
            }
        ]
    },
    {
        "contents": [
            {
                "role": "model",
                "parts": [{"functionCall": {"id": "own_1", "name": "get_weather", "args": {"city": "Paris"}}}],
            },
            {
                "role": "user",
                "parts": [
                    {
                        "functionResponse": {
                            "id": "own_1",
                            "name": "get_weather",
                            "response": {"output": "18 degrees and sunny"},
                        }
                    }
                ],
            },
        ]
    },
    "contents",
)
RECORDINGS = {each.api: each for each in (CHAT, RESPONSES, GEMINI)}


def continued(recording: Recording, change: Callable[[Body], None] | None = None) -> list[tuple[Body, Body]]:
    """The first request, and the second one with the calls and results. The second one is changed."""
    second = copy.deepcopy(recording.first)
    second[recording.turns] += copy.deepcopy(recording.second[recording.turns])
    if change is not None:
        change(second)
    return [(recording.first, recording.answer), (second, recording.answer)]


def repeated_with(recording: Recording, change: Callable[[Body], None]) -> list[tuple[Body, Body]]:
    """Three requests, of which the last repeats the others and is changed."""
    exchanges = continued(recording)
    third = copy.deepcopy(exchanges[-1][0])
    third[recording.turns] += json.loads(json.dumps(recording.second[recording.turns]).replace("own_1", "own_2"))
    change(third)
    return [*exchanges, (third, recording.answer)]


def _asks_politely(body: Body) -> None:
    changed = json.dumps(body).replace(ASKED, f"{ASKED} Please.")
    body.update(json.loads(changed))


def _shortens_the_first_result(body: Body) -> None:
    changed = json.dumps(body).replace("18 degrees and sunny", "18", 1)
    body.update(json.loads(changed))


@pytest.mark.parametrize("api", RECORDINGS)
def test_a_conversation_is_found_by_its_contents_if_the_client_makes_the_ids(api: str) -> None:
    recording = RECORDINGS[api]
    assert recording.audited(*continued(recording)) == []
    ((index, case, pointer, _),) = recording.audited(*continued(recording, _asks_politely))
    assert (index, case) == (1, "history")
    assert pointer.startswith(f"/{recording.turns}/")


@pytest.mark.parametrize("api", RECORDINGS)
def test_the_last_result_of_the_request_before_may_be_the_changed_part(api: str) -> None:
    recording = RECORDINGS[api]
    assert [each[:2] for each in recording.audited(*repeated_with(recording, _shortens_the_first_result))] == [
        (2, "history")
    ]


@pytest.mark.parametrize("api", RECORDINGS)
def test_another_conversation_with_the_same_call_is_no_earlier_request(api: str) -> None:
    """Both conversations get the same call without an id of the provider. They differ in tools and prompt."""
    recording = RECORDINGS[api]
    one = continued(recording)
    other = json.loads(json.dumps(one).replace("Be brief.", "Be polite.").replace(ASKED, "And in Paris, how is it?"))
    for exchanges in ([*one, *other], [one[0], other[0], one[1], other[1]], [one[0], other[1]]):
        assert recording.audited(*map(tuple, exchanges)) == []


def test_a_request_that_names_the_response_before_repeats_the_tools() -> None:
    def chained(body: Body) -> None:
        body["previous_response_id"] = "resp_1"
        body["input"] = body["input"][2:]
        body["tools"][0]["name"] = "weather"

    found = RESPONSES.audited(*continued(RESPONSES, chained))
    assert [each[:2] for each in found] == [(1, "tool-missing")]


@pytest.mark.parametrize("recording", [CHAT, RESPONSES], ids=lambda each: each.api)
def test_arguments_in_another_spelling_are_a_note(recording: Recording) -> None:
    def respelled(body: Body) -> None:
        changed = json.dumps(body).replace(r"{\"city\":\"Paris\"}", r"{\"city\": \"Paris\"}", 1)
        body.update(json.loads(changed))

    ((index, case, _, severity),) = recording.audited(*repeated_with(recording, respelled))
    assert (index, case, severity) == (2, "call-spelling", Severity.NOTE)


@pytest.mark.parametrize("recording", [CHAT, RESPONSES], ids=lambda each: each.api)
def test_a_conversation_of_two_days_is_compared_as_a_whole(recording: Recording) -> None:
    named = "created" if recording is CHAT else "created_at"
    days = (1795600000, 1795700000)
    for change, cases in ((None, []), (_asks_politely, [(1, "history")])):
        reported = zip(continued(recording, change), days, strict=True)
        exchanges = (recording.exchange(request, {**answer, named: stamp}) for (request, answer), stamp in reported)
        working = Audit([RULE])
        working.add("a.yaml", Cassette(tuple(Interaction(each.request, each.response) for each in exchanges)))
        found = [finding for cell in working.result().cells for finding in cell.findings]
        assert [(each.index, each.case) for each in found] == cases


def test_a_moved_system_prompt_is_reported_where_it_is_now() -> None:
    def moved(body: Body) -> None:
        body["messages"].append(body["messages"].pop(0))

    assert [each[:3] for each in CHAT.audited(*continued(CHAT, moved))] == [(1, "system", "/messages/3/content")]


def test_a_missing_end_of_a_message_is_reported_at_the_message() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.com/map.png"}}
    shown = {"role": "user", "content": [{"type": "text", "text": ASKED}, image]}
    (first, answer), (second, _) = continued(CHAT, lambda body: body["messages"][1]["content"])
    first = {**first, "messages": [first["messages"][0], shown]}
    assert [each[:3] for each in CHAT.audited((first, answer), (second, answer))] == [(1, "history", "/messages/1")]


def test_a_conversation_whose_beginning_was_left_out_is_found_by_its_rest() -> None:
    def trimmed(body: Body) -> None:
        del body["messages"][1:4]
        body["messages"] += [{"role": "assistant", "content": "Sunny."}, {"role": "user", "content": "Thanks."}]

    answer = copy.deepcopy(CHAT.answer)
    answer["choices"][0] |= {"message": {"role": "assistant", "content": "Sunny."}, "finish_reason": "stop"}
    first, second = continued(CHAT)
    second[0]["messages"].append({"role": "user", "content": "So?"})
    third = copy.deepcopy(second[0])
    trimmed(third)
    assert [each[:2] for each in CHAT.audited(first, (second[0], answer), (third, answer))] == [(2, "history")]


def _answered(text: str) -> Body:
    answer = copy.deepcopy(CHAT.answer)
    answer["choices"][0] |= {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return answer


def test_a_conversation_that_was_summarized_is_found_by_a_long_answer() -> None:
    text = "It is sunny in Paris at 18 degrees, and it stays like that until the end of the week, with little wind."
    summary = {"role": "user", "content": "So far: the user wants to travel, and asks about cities."}
    reported = [summary, {"role": "assistant", "content": text}, {"role": "user", "content": "And then?"}]
    for said, cases in ((text, [(1, "history")]), (text[:40], [])):
        second = {**CHAT.first, "messages": [CHAT.first["messages"][0], *reported]}
        found = CHAT.audited((CHAT.first, _answered(said)), (second, _answered("Rain.")))
        assert [each[:2] for each in found] == cases


def test_after_a_trim_the_request_with_the_last_answer_is_the_earlier_one() -> None:
    """The request before the trim has more in common with the last one, whose texts begin alike."""
    first, (body, _) = continued(CHAT)
    in_rome, calls_rome = (json.loads(json.dumps(each).replace("Paris", "Rome")) for each in (body, CHAT.answer))
    kept = in_rome["messages"][1:]
    asked = {
        **body,
        "messages": [*body["messages"], {"role": "assistant", "content": "The current weather is sunny."}, kept[0]],
    }
    trimmed = {**body, "messages": [body["messages"][0], *kept]}
    reported = [
        {"role": "assistant", "content": "The current weather is warm."},
        {"role": "user", "content": ASKED.replace("Paris", "Oslo")},
    ]
    last = {**trimmed, "messages": [*trimmed["messages"], *reported]}
    found = CHAT.audited(
        first,
        (body, _answered("The current weather is sunny.")),
        (asked, calls_rome),
        (trimmed, _answered("The current weather is warm.")),
        (last, _answered("No.")),
    )
    assert [each[:2] for each in found] == [(3, "history")]


@pytest.mark.parametrize(
    ("change", "case"),
    [({"detail": "low"}, "history"), ({"detail": "auto"}, None), ({"cache_control": {}}, None)],
)
def test_options_of_a_picture_belong_to_the_prefix(change: Body, case: str | None) -> None:
    def shown(body: Body, options: Body) -> Body:
        image = {"type": "image_url", "image_url": {"url": "https://example.com/map.png"} | options}
        asked = {"role": "user", "content": [{"type": "text", "text": ASKED}, image]}
        return {**body, "messages": [body["messages"][0], asked, *body["messages"][2:]]}

    (first, answer), (second, _) = continued(CHAT)
    found = CHAT.audited((shown(first, {}), answer), (shown(second, change), answer))
    assert [each[1] for each in found] == ([case] if case else [])


def test_a_default_of_a_tool_may_be_written_out() -> None:
    """Anthropic's tools have the type `custom` if they have none."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Sunny."}
    tool = {"name": "get_weather", "input_schema": TOOL}
    asked = {"role": "user", "content": ASKED}
    first = {"model": "m", "max_tokens": 9, "tools": [tool], "messages": [asked]}
    answer = {"id": "msg_1", "type": "message", "role": "assistant", "content": [call], "stop_reason": "tool_use"}
    turns = [asked, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    messages = Recording("anthropic", "https://api.anthropic.com/v1/messages", first, answer, {}, "messages")
    for changed, case, severity in (
        ({"type": "custom"}, "key-order", Severity.NOTE),
        ({"strict": True}, "tool-changed", Severity.ERROR),
    ):
        second = {**first, "tools": [tool | changed], "messages": turns}
        assert messages.audited((first, answer), (second, answer)) == [(1, case, "/tools/0", severity)]


OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "18 degrees and sunny"}
SENT_CALL = {"type": "function_call", "call_id": "call_1", **CALL}


@pytest.mark.parametrize(
    ("previous", "items", "rules"),
    [
        ("resp_1", [OUTPUT], []),
        ("resp_1", [{"role": "user", "content": ASKED}, OUTPUT], []),  # the user may say the same again
        ("resp_1", [{"role": "user", "content": "Well?"}], ["result-missing"]),
        ("resp_1", [{**OUTPUT, "call_id": "call_2"}], ["result-missing", "result-orphan"]),
        ("resp_1", [SENT_CALL, OUTPUT], ["kept-history-repeated"]),
        ("resp_0", [{**OUTPUT, "call_id": "call_2"}], []),  # the recording does not have the response
    ],
)
def test_a_request_is_judged_by_the_response_that_it_continues(
    previous: str, items: list[Body], rules: list[str]
) -> None:
    chained = {**RESPONSES.first, "previous_response_id": previous, "input": items}
    last = {**RESPONSES.answer, "id": "resp_2", "output": []}
    pairs = ((RESPONSES.first, RESPONSES.answer), (chained, last))
    recorded = tuple(RESPONSES.exchange(request, answer) for request, answer in pairs)
    evidence = Evidence(Transcript(RESPONSES.api, "m", registry.api(RESPONSES.api).profile_for("m"), recorded, "audit"))
    judging = {"result-missing", "result-orphan", "kept-history-repeated"}
    found = [each for rule in all_rules() if rule.id in judging for each in rule.findings(evidence)]
    assert sorted(each.rule for each in found) == rules
    assert {each.exchange for each in found} <= {1}
