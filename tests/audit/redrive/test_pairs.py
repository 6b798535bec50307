"""Pairs are found in what was sent and answered, not in what a cassette says of itself."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from harness.audit.redrive_pairs import accepted_exchanges, find_pairs
from harness.cassettes.cassette_files import loads
from harness.cassettes.cassette_text import parse
from harness.model.http import Delivery, Ending
from tests.audit.redrive.samples import CALL, CHUNKS, chat, chat_answer, exchange, responses, responses_answer, streamed
from tests.audit.redrive.samples import cassette as made
from tests.traffic import FOLDERS, ROOT, needs_traffic

Found = set[tuple[int, int]]


def found(cassette: Any) -> Found:
    return {
        (pair.i.index, pair.j.index)
        for exchanges in accepted_exchanges(cassette).values()
        for pair in find_pairs(exchanges)
    }


@needs_traffic
@pytest.mark.parametrize("folder", FOLDERS)
def test_no_pair_is_missed_that_the_shared_cassettes_list(folder: str) -> None:
    listed = 0
    missed: dict[str, Found] = {}
    for file in sorted((ROOT / folder).glob("*.yaml")):
        document: dict[str, Any] = parse(file.read_bytes(), file.name)
        expected = {(pair["i"], pair["j"]) for pair in document.pop("metadata").get("pairs", ())}
        stripped = loads(json.dumps(document).encode(), file.name)
        listed += len(expected)
        if expected - found(stripped):
            missed[file.name] = expected - found(stripped)
    assert listed > 20
    assert missed == {}


RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "18"}
ASKED = {"role": "user", "content": "Weather in Paris?"}


def test_later_requests_that_repeat_the_calls_are_no_pair() -> None:
    turns = [ASKED, {"role": "assistant", "tool_calls": [CALL]}, RESULT]
    more = [{"role": "assistant", "content": "18 degrees"}, {"role": "user", "content": "Thanks"}]
    cassette = made(
        exchange(chat(ASKED), chat_answer(CALL)),
        exchange(chat(*turns), chat_answer(text="18 degrees")),
        exchange(chat(*turns, *more), chat_answer(text="Sure")),
    )
    assert found(cassette) == {(0, 1)}


def test_calls_without_results_and_refused_requests_are_no_pair() -> None:
    turns = [ASKED, {"role": "assistant", "tool_calls": [CALL]}]
    cassette = made(
        exchange(chat(ASKED), chat_answer(CALL)),
        exchange(chat(*turns), chat_answer(text="?")),
        exchange(chat(*turns, RESULT), {"error": {"message": "no"}}, status=400),
    )
    assert found(cassette) == set()


def test_a_stream_that_broke_off_is_in_no_pair() -> None:
    spoken = {"role": "assistant", "content": "Ich prüfe das.", "tool_calls": [CALL]}
    follow_up = exchange(chat(ASKED, spoken, RESULT), chat_answer(text="18"))
    whole = streamed(chat(ASKED), *CHUNKS, "[DONE]")
    assert found(made(whole, follow_up)) == {(0, 1)}
    assert found(made(streamed(chat(ASKED), *CHUNKS[:-1]), follow_up)) == set()
    assert found(made(streamed(chat(ASKED), *CHUNKS[:-1], {"error": {"message": "no"}}), follow_up)) == set()
    endings: tuple[Ending, ...] = ("cut", "reset")
    for ending in endings:
        assert whole.response is not None
        torn = replace(whole, response=replace(whole.response, delivery=Delivery(ending=ending)))
        assert found(made(torn, follow_up)) == set()


def test_renamed_ids_are_matched_by_calls_and_conversation() -> None:
    other = {"role": "user", "content": "Weather in Paris, once more?"}
    renamed = {**CALL, "id": "mine"}
    turns = [{"role": "assistant", "tool_calls": [renamed]}, {**RESULT, "tool_call_id": "mine"}]
    cassette = made(
        exchange(chat(ASKED), chat_answer(CALL)),
        exchange(chat(other), chat_answer({**CALL, "id": "call_2"})),
        exchange(chat(ASKED, *turns), chat_answer(text="18")),
        exchange(chat(other, *turns), chat_answer(text="18")),
    )
    assert found(cassette) == {(0, 2), (1, 3)}


def test_a_pair_inside_a_longer_history_is_found_by_its_ids() -> None:
    made_up = {**CALL, "id": "mine", "function": {"name": "search", "arguments": "{}"}}
    cassette = made(
        exchange(chat(ASKED), chat_answer(CALL)),
        exchange(
            chat(
                ASKED,
                {"role": "assistant", "tool_calls": [CALL]},
                RESULT,
                {"role": "assistant", "tool_calls": [made_up]},
                {**RESULT, "tool_call_id": "mine"},
            ),
            chat_answer(text="18"),
        ),
    )
    assert found(cassette) == {(0, 1)}


def test_pairs_are_found_by_item_ids_and_server_state() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": "{}"}
    result = {"type": "function_call_output", "output": "18"}
    by_item = [{**call, "call_id": "fc_1"}, {**result, "call_id": "fc_1"}]
    cassette = made(
        exchange(responses({"role": "user", "content": "a"}), responses_answer("resp_1", call)),
        exchange(responses({"role": "user", "content": "a"}, *by_item), responses_answer("resp_2")),
        exchange(responses({"role": "user", "content": "b"}), responses_answer("resp_3", {**call, "call_id": "x"})),
        exchange(responses({**result, "call_id": "mine"}, previous_response_id="resp_3"), responses_answer("resp_4")),
    )
    assert found(cassette) == {(0, 1), (2, 3)}


def test_unreadable_exchanges_are_no_pair() -> None:
    cassette = made(
        exchange(chat(ASKED), chat_answer(CALL)),
        exchange(chat(ASKED, {"role": "assistant", "tool_calls": [CALL]}, RESULT), {"object": "nothing"}),
    )
    assert found(cassette) == set()


def test_two_apis_in_one_cassette_do_not_mix() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": "{}"}
    cassette = made(
        exchange(responses({"role": "user", "content": "a"}), responses_answer("resp_1", call)),
        exchange(chat(ASKED, {"role": "assistant", "tool_calls": [CALL]}, RESULT), chat_answer(text="18")),
    )
    assert found(cassette) == set()
    assert json.loads(cassette.interactions[1].request.body)["messages"][2] == RESULT
