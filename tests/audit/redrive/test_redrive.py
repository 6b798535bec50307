"""What a redrive compares, what it allows, and what it cannot drive, on recordings of a few lines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.audit.redrive import Redrive
from harness.cassettes.cassette import Cassette, Interaction
from harness.model.http import HttpResponse
from harness.results import PairDisagreement, RedriveResult
from tests.audit.redrive.samples import (
    CALL,
    Sent,
    cassette,
    chat,
    chat_answer,
    exchange,
    gemini,
    gemini_answer,
    messages,
    messages_answer,
    responses,
    responses_answer,
)

ASKED = {"role": "user", "content": "Weather in Paris?"}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "18"}
SPOKEN = {"role": "assistant", "tool_calls": [CALL]}


def redriven(recording: Cassette) -> RedriveResult:
    with Redrive() as redrive:
        redrive.add("it.yaml", recording)
        result = redrive.result()
    assert sum(counts.pairs for counts in result.apis.values()) == 1
    return result


def driven(first: Sent, answer: dict[str, Any], second: Sent) -> RedriveResult:
    return redriven(cassette(exchange(first, answer), exchange(second, answer)))


def kinds(result: RedriveResult) -> list[str]:
    return [each.kind for each in result.disagreements]


def allowances(result: RedriveResult) -> dict[str, int]:
    return {kind: number for counts in result.apis.values() for kind, number in counts.allowances.items()}


def edits(result: RedriveResult) -> dict[str, int]:
    """The classes of what the client changed, once nothing disagrees."""
    assert kinds(result) == []
    return {kind: number for counts in result.apis.values() for kind, number in counts.edits.items()}


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """An adapter that sends back other arguments than it got."""
    monkeypatch.setattr("harness.adapters.openai_chat.requests.compact", lambda _: '{"city":"Oslo"}')


def chat_pair(answer: dict[str, Any], *turns: dict[str, Any], **fields: Any) -> RedriveResult:
    return driven(chat(ASKED, **fields), answer, chat(ASKED, *turns, **fields))


def test_a_faithful_follow_up_agrees() -> None:
    result = chat_pair(chat_answer(CALL), SPOKEN, RESULT)
    assert kinds(result) == []
    assert result.apis["openai-chat"].agreeing == 1
    assert allowances(result) == {}


@pytest.mark.usefixtures("forgetful")
def test_a_disagreement_names_file_pair_and_place() -> None:
    (found,) = chat_pair(chat_answer(CALL), SPOKEN, RESULT).disagreements
    assert found == PairDisagreement(
        api="openai-chat",
        file="it.yaml",
        i=0,
        j=1,
        pointer="/messages/1/tool_calls/0",
        recorded={"city": "Paris"},
        produced={"city": "Oslo"},
        kind="call-arguments",
    )


@pytest.mark.usefixtures("forgetful")
@pytest.mark.parametrize("city", ["Rome", "Oslo"])
def test_an_edit_of_the_client_excuses_no_fault_of_the_adapter(city: str) -> None:
    """Not even the same one: the adapter is held against the answer."""
    other = {**CALL, "function": {"name": "weather", "arguments": json.dumps({"city": city})}}
    result = chat_pair(chat_answer(CALL), {"role": "assistant", "tool_calls": [other]}, RESULT)
    (found,) = result.disagreements
    assert (found.kind, found.recorded, found.produced) == ("call-arguments", {"city": "Paris"}, {"city": "Oslo"})
    assert dict(result.apis["openai-chat"].edits) == {"arguments-rewritten": 1}


SECOND = {**CALL, "id": "call_2"}
SECOND_RESULT = {**RESULT, "tool_call_id": "call_2", "content": "21"}
BOTH = {"role": "assistant", "tool_calls": [CALL, SECOND]}


def renamed(call: dict[str, Any]) -> dict[str, Any]:
    return {**call, "function": {**call["function"], "name": "forecast"}}


def rewritten(call: dict[str, Any]) -> dict[str, Any]:
    return {**call, "function": {**call["function"], "arguments": "{}"}}


OWN = {**CALL, "id": "mine", "function": {"name": "search", "arguments": "{}"}}
OWN_RESULT = {**RESULT, "tool_call_id": "mine"}


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([BOTH, SECOND_RESULT, RESULT], ["results-reordered"]),
        ([BOTH, RESULT], ["call-unanswered"]),
        ([BOTH, RESULT, {**SECOND_RESULT, "tool_call_id": "call_3"}], ["id-mispaired"]),
        ([BOTH, RESULT, SECOND_RESULT, {**RESULT, "tool_call_id": "call_3"}], ["result-unpaired"]),
        ([SPOKEN, RESULT], ["call-dropped"]),
        ([{**BOTH, "tool_calls": [SECOND]}, SECOND_RESULT], ["call-dropped"]),
        ([{**BOTH, "tool_calls": [SECOND, CALL]}, RESULT, SECOND_RESULT], ["calls-reordered"]),
        ([{**BOTH, "tool_calls": [CALL, CALL]}, RESULT, RESULT], ["id-mispaired"]),
        ([{**BOTH, "tool_calls": [renamed(CALL), SECOND]}, RESULT, SECOND_RESULT], ["call-renamed"]),
        ([{**BOTH, "tool_calls": [rewritten(CALL), SECOND]}, RESULT, SECOND_RESULT], ["arguments-rewritten"]),
        ([{**BOTH, "tool_calls": [CALL, SECOND, OWN]}, RESULT, SECOND_RESULT, OWN_RESULT], ["call-added"]),
        ([{**BOTH, "tool_calls": [OWN, CALL, SECOND]}, OWN_RESULT, RESULT, SECOND_RESULT], ["call-added"]),
        ([{**BOTH, "content": "Let me look."}, RESULT, SECOND_RESULT], ["text-added"]),
    ],
)
def test_what_the_client_changed_is_named_and_the_rest_agrees(turns: list[dict[str, Any]], expected: list[str]) -> None:
    assert list(edits(chat_pair(chat_answer(CALL, SECOND), *turns))) == expected
    assert edits(chat_pair(chat_answer(CALL, SECOND), BOTH, RESULT, SECOND_RESULT)) == {}


def test_reworded_and_regrouped_texts_are_distinguished() -> None:
    answer = chat_answer(CALL, text="I look \u2019round.")
    for content, expected in (
        ("I look \u2019round.", []),
        ("I look 'round.", ["text-reworded"]),
        ([{"type": "text", "text": "I look "}, {"type": "text", "text": "\u2019round."}], ["text-regrouped"]),
    ):
        assert list(edits(chat_pair(answer, {**SPOKEN, "content": content}, RESULT))) == expected


@pytest.mark.parametrize("scrubbed", ["***", "call_REDACTED", "call_\u2026"])
def test_redacted_ids_are_no_evidence(scrubbed: str) -> None:
    calls = [{**CALL, "id": scrubbed}, {**rewritten(SECOND), "id": scrubbed}]
    results = [{**RESULT, "tool_call_id": scrubbed}, {**SECOND_RESULT, "tool_call_id": scrubbed}]
    spoken = {**BOTH, "tool_calls": calls}
    both = chat_pair(chat_answer(*calls), spoken, *results)
    assert edits(both) == {}
    one = chat_pair(chat_answer(CALL, rewritten(SECOND)), spoken, *results)
    assert (edits(one), allowances(one)) == ({}, {"id-scrubbed": 2})


def test_fields_of_responses_only_need_not_be_sent_back() -> None:
    shown = {"padding": "abcdef", "provider_metadata": {"gateway": {"cost": "0.01"}}}
    answer = chat_answer(CALL, **shown)
    assert edits(chat_pair(answer, SPOKEN, RESULT)) == {}
    assert edits(chat_pair(answer, {**SPOKEN, **shown}, RESULT)) == {"shown-returned": 1}


def test_ids_of_the_clients_own_are_allowed_one_to_one() -> None:
    mine = [{"role": "assistant", "tool_calls": [{**CALL, "id": "mine"}]}, {**RESULT, "tool_call_id": "mine"}]
    result = chat_pair(chat_answer(CALL), *mine)
    assert (kinds(result), allowances(result)) == ([], {"id-renamed": 1})
    result = chat_pair(chat_answer({**CALL, "id": ""}), *mine)
    assert (kinds(result), allowances(result)) == ([], {"id-invented": 1})
    assert edits(chat_pair(chat_answer(CALL), mine[0], RESULT)) == {"id-mispaired": 1}


def test_all_reasoning_may_be_dropped_and_one_of_several_may_not() -> None:
    thoughts = [
        {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": f"secret {n}"} for n in (1, 2)
    ]
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "call_1", "output": "18"}
    answer = responses_answer("resp_1", *thoughts, call)
    dropped = driven(responses(ASKED), answer, responses(ASKED, call, output))
    assert (kinds(dropped), allowances(dropped)) == ([], {"reasoning-dropped": 2})
    unnamed = [{key: value for key, value in thought.items() if key != "id"} for thought in thoughts]
    labels = driven(responses(ASKED), answer, responses(ASKED, *unnamed, call, output))
    assert (kinds(labels), allowances(labels)) == ([], {"labels": 2})
    one_left = driven(responses(ASKED), answer, responses(ASKED, thoughts[1], call, output))
    assert edits(one_left) == {"reasoning-left-out": 1}
    unsigned = driven(
        responses(ASKED),
        answer,
        responses(ASKED, {**thoughts[0], "encrypted_content": None}, thoughts[1], call, output),
    )
    assert edits(unsigned) == {"state-left-out": 1}


def test_encrypted_content_may_come_from_another_event() -> None:
    def reasoning(secret: str) -> dict[str, Any]:
        return {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": secret}

    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": "{}"}
    events = [
        {"type": "response.output_item.done", "output_index": 0, "item": reasoning("YXQgZmlyc3Q=")},
        {"type": "response.output_item.done", "output_index": 1, "item": call},
        {"type": "response.completed", "response": responses_answer("resp_1", reasoning("YXQgbGFzdA=="), call)},
    ]
    stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
    asked = exchange(responses(ASKED, stream=True), {})
    streamed = Interaction(asked.request, HttpResponse(200, {"content-type": "text/event-stream"}, stream))
    output = {"type": "function_call_output", "call_id": "call_1", "output": "18"}
    for secret, expected in (("YXQgZmlyc3Q=", []), ("YXQgbGFzdA==", []), ("elsewhere", ["state-rewritten"])):
        follow_up = exchange(responses(ASKED, reasoning(secret), call, output), responses_answer("resp_2"))
        assert list(edits(redriven(cassette(streamed, follow_up)))) == expected


def test_the_id_of_the_item_may_stand_for_the_call_id() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": "{}"}
    by_item = [{**call, "call_id": "fc_1"}, {"type": "function_call_output", "call_id": "fc_1", "output": "18"}]
    result = driven(responses(ASKED), responses_answer("resp_1", call), responses(ASKED, *by_item))
    assert (kinds(result), allowances(result)) == ([], {"id-of-item": 1})


def test_follow_ups_on_server_state_are_counted_by_reason() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "call_1", "output": "18"}
    for second, reason in (
        (responses(output, previous_response_id="resp_1"), "previous_response_id"),
        (responses(output, conversation="conv_1"), "conversation"),
        (responses({"type": "item_reference", "id": "fc_1"}, output), "item_reference"),
    ):
        result = driven(responses(ASKED), responses_answer("resp_1", call), second)
        assert dict(result.apis["openai-responses"].not_redrivable) == {reason: 1}
        assert kinds(result) == []


def test_reasoning_under_both_names_counts_once() -> None:
    for name, other in (("reasoning", "reasoning_content"), ("reasoning_content", "reasoning")):
        answer = chat_answer(CALL, **{name: "Paris, so."})
        both = {**SPOKEN, "reasoning_content": "Paris, so.", "reasoning": "Paris, so."}
        result = chat_pair(answer, both, RESULT)
        assert (kinds(result), allowances(result)) == ([], {"reasoning-repeated": 1})
        assert edits(chat_pair(answer, {**both, other: "Rome."}, RESULT)) == {"reasoning-added": 1}


def test_reasoning_under_the_other_name_is_a_rename() -> None:
    answer = chat_answer(CALL, reasoning="Paris, so.")
    assert edits(chat_pair(answer, {**SPOKEN, "reasoning_content": "Paris, so."}, RESULT)) == {"reasoning-renamed": 1}
    other_words = {**SPOKEN, "reasoning_content": "Rome, so."}
    assert edits(chat_pair(answer, other_words, RESULT)) == {"reasoning-added": 1}


def test_the_order_of_json_keys_is_no_order_of_parts() -> None:
    state = {"reasoning": "Paris, so.", "reasoning_details": [{"type": "reasoning.text", "text": "Paris, so."}]}
    backwards = dict(reversed(state.items()))
    for issued_calls, carried in ((state, backwards), (backwards, state)):
        assert edits(chat_pair(chat_answer(CALL, **issued_calls), {**carried, **SPOKEN}, RESULT)) == {}
    calls = {"role": "assistant", "tool_calls": [SECOND, CALL]}  # the order of a list is one
    result = chat_pair(chat_answer(CALL, SECOND), calls, RESULT, SECOND_RESULT)
    assert list(edits(result)) == ["calls-reordered"]


@pytest.mark.parametrize(
    ("response", "expected"), [({}, []), ({"response": {}}, []), ({"response": {"output": 0}}, [])]
)
def test_a_function_response_without_response_says_nothing(response: dict[str, Any], expected: list[str]) -> None:
    call = {"functionCall": {"id": "a1", "name": "weather", "args": {}}, "thoughtSignature": "c2ln"}
    turns = (
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [{"functionResponse": {"id": "a1", "name": "weather", **response}}]},
    )
    asked = {"role": "user", "parts": [{"text": "Weather?"}]}
    result = driven(gemini(asked), gemini_answer(call), gemini(asked, *turns))
    assert (kinds(result), result.apis["gemini"].agreeing) == (expected, 1)


def test_the_messages_own_state_goes_back() -> None:
    state = {"reasoning_details": [{"type": "reasoning.encrypted", "data": "secret"}], "extra_content": {"sig": "s"}}
    answer = chat_answer(CALL, **state)
    assert kinds(chat_pair(answer, {**SPOKEN, **state}, RESULT)) == []
    lost = {**SPOKEN, "reasoning_details": state["reasoning_details"]}
    assert edits(chat_pair(answer, lost, RESULT)) == {"part-left-out": 1}


def test_system_text_and_tools_make_the_round_trip() -> None:
    function = {"name": "weather", "description": "Weather.", "parameters": {"type": "object"}, "strict": True}
    fields = {"tools": [{"type": "function", "function": function}, {"type": "custom", "custom": {"name": "sql"}}]}
    system = [{"role": "system", "content": "Be brief."}, {"role": "developer", "content": "Be kind.", "name": "x"}]
    answer = chat_answer(CALL)
    result = driven(chat(*system, ASKED, **fields), answer, chat(*system, ASKED, SPOKEN, RESULT, **fields))
    assert kinds(result) == []


def test_media_of_the_user_make_the_round_trip() -> None:
    """Pictures, documents and sound, each with a field of its own beside what has a canonical place."""
    parts: list[dict[str, Any]] = [
        {"type": "text", "text": "And these?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk=", "detail": "low"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}, "prompt_cache_breakpoint": {}},
        {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aGk="}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    ]
    assert kinds(chat_pair(chat_answer(CALL), SPOKEN, RESULT, {"role": "user", "content": parts})) == []
    fewer = [part for part in parts if part["type"] != "input_audio"]
    assert kinds(chat_pair(chat_answer(CALL), SPOKEN, {**RESULT, "content": fewer[:3]})) == []


def test_parts_between_calls_and_results_round_trip() -> None:
    calls = [{"type": "function_call", "call_id": f"call_{n}", "name": "weather", "arguments": "{}"} for n in (1, 2)]
    outputs = [{"type": "function_call_output", "call_id": f"call_{n}", "output": "18"} for n in (1, 2)]
    said = {"role": "developer", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]}
    for between in (said, {"type": "additional_tools", "role": "developer", "tools": []}):
        follow_up = responses(ASKED, *calls, outputs[0], between, outputs[1])
        assert kinds(driven(responses(ASKED), responses_answer("resp_1", *calls), follow_up)) == []


def test_several_system_texts_keep_their_order() -> None:
    call = {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "call_1", "output": "18"}
    opening = [{"role": "developer", "content": "Be brief."}, {"role": "system", "content": "Be kind."}]
    for fields in ({}, {"instructions": "Be brief."}):
        first, second = responses(*opening, ASKED, **fields), responses(*opening, ASKED, call, output, **fields)
        assert kinds(driven(first, responses_answer("resp_1", call), second)) == []


def test_hosted_tools_round_trip_on_every_api() -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
    work = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    ]
    found = {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "18"}]}
    reference = {"type": "tool_reference", "tool_name": "other"}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [found, reference], "is_error": True}
    turns = [{"role": "assistant", "content": [*work, use]}, {"role": "user", "content": [result]}]
    fields = {
        "system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        "tools": [
            {"name": "weather", "input_schema": {"type": "object"}, "defer_loading": True},
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
        ],
    }
    anthropic = driven(messages(ASKED, **fields), messages_answer(*work, use), messages(ASKED, *turns, **fields))
    assert kinds(anthropic) == []

    call = {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{}", "namespace": "geo"}
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
    said = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "phase": "commentary",
        "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
    }
    picture = [
        {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "low"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="},
        {"type": "input_file", "file_id": "file-1"},
        {"type": "input_text", "text": "18"},
    ]
    output = {"type": "function_call_output", "call_id": "call_1", "output": picture}
    namespace = {
        "type": "namespace",
        "name": "geo",
        "description": "",
        "tools": [{"type": "function", "name": "weather"}],
    }
    fields = {"instructions": "Be brief.", "tools": [{"type": "web_search"}, namespace]}
    kept = driven(
        responses(ASKED, **fields),
        responses_answer("resp_1", search, said, call),
        responses(ASKED, search, said, call, output, **fields),
    )
    assert kinds(kept) == []
    without_phase = {key: value for key, value in said.items() if key != "phase"}
    lost = driven(
        responses(ASKED, **fields),
        responses_answer("resp_1", search, said, call),
        responses(ASKED, search, without_phase, call, output, **fields),
    )
    assert edits(lost) == {"state-left-out": 1}


def gemini_pair(
    answer: list[dict[str, Any]], spoken: list[dict[str, Any]], answered: list[dict[str, Any]], **fields: Any
) -> RedriveResult:
    asked = {"role": "user", "parts": [{"text": "Weather?"}]}
    turns = [{"role": "model", "parts": spoken}, {"role": "user", "parts": answered}]
    return driven(gemini(asked, **fields), gemini_answer(*answer), gemini(asked, *turns, **fields))


def test_gemini_signatures_tools_and_media_round_trip() -> None:
    call = {"functionCall": {"name": "weather", "args": {}, "id": "c1"}, "thoughtSignature": "+/+/"}
    spelled = {"function_call": {"name": "weather", "args": {}, "id": "c1"}, "thought_signature": "-_-_"}
    response = {"name": "weather", "id": "c1", "response": {"temp": 18, "unit": "C"}}
    media = {"parts": [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}]}
    declared = {
        "functionDeclarations": [
            {
                "name": "weather",
                "parameters": {
                    "type": "OBJECT",
                    "properties": {
                        "nullable": {"type": "STRING", "nullable": True},
                        "days": {"type": "ARRAY", "items": {"anyOf": [{"type": "INTEGER"}, {"type": "STRING"}]}},
                    },
                },
            }
        ]
    }
    fields = {
        "model": "gemini-3-flash",
        "tools": [declared, {"googleSearch": {}}],
        "systemInstruction": {"parts": [{"text": "a"}, {"text": "b"}]},
    }
    for answered in (
        response,
        {**response, **media},
        {**response, "response": {}, **media},
        {**response, "response": {"error": "gone"}},
    ):
        result = gemini_pair([call], [spelled], [{"functionResponse": answered}], **fields)
        assert kinds(result) == []
    lost = gemini_pair([call], [{"functionCall": call["functionCall"]}], [{"functionResponse": response}], **fields)
    assert edits(lost) == {"state-left-out": 1}
    left_out = {"functionCall": {"name": "weather", "args": {}}, "thoughtSignature": "+/+/"}
    unnamed = {key: value for key, value in response.items() if key != "id"}
    without = gemini_pair([call], [left_out], [{"functionResponse": unnamed}], **fields)
    assert edits(without) == {"id-left-out": 1}


def test_a_stand_in_for_a_missing_signature_is_allowed() -> None:
    call = {"functionCall": {"name": "weather", "args": {}, "id": "c1"}}
    response = {"functionResponse": {"name": "weather", "id": "c1", "response": {"temp": 18}}}
    result = gemini_pair([call], [call], [response], model="gemini-3-flash")
    assert (kinds(result), allowances(result)) == ([], {"stand-in": 1})


def test_a_follow_up_that_lost_its_call_is_seen() -> None:
    call = {"functionCall": {"name": "weather", "args": {}}}
    response = {"functionResponse": {"name": "weather", "response": {"temp": 18}}}
    result = gemini_pair([call], [{"text": "Hm."}], [response])
    assert edits(result) == {"call-dropped": 1, "text-added": 1}


def test_all_forms_of_a_tool_without_arguments_are_equal() -> None:
    call = {"functionCall": {"name": "now", "args": {}}}
    declared = {"functionDeclarations": [{"name": "now", "parameters": {"type": "OBJECT", "properties": {}}}]}
    result = gemini_pair(
        [call], [call], [{"functionResponse": {"name": "now", "response": {"output": "noon"}}}], tools=[declared]
    )
    assert (kinds(result), allowances(result)) == ([], {"default": 1})


def test_an_adapter_that_cannot_send_the_follow_up_disagrees() -> None:
    """Gemini 2 takes no media in results, so the adapter refuses them."""
    call = {"functionCall": {"name": "weather", "args": {}}}
    media = {"parts": [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}]}
    (found,) = gemini_pair(
        [call], [call], [{"functionResponse": {"name": "weather", "response": {}, **media}}]
    ).disagreements
    assert (found.kind, found.pointer) == ("adapter-failed", "/contents/2/parts/0")
    assert "media in a tool result" in str(found.produced)
