from __future__ import annotations

from dataclasses import replace

from harness.contract.http import EXHAUSTED, Delivery, HttpRequest, HttpResponse
from harness.tape.cassette import Cassette
from harness.tape.player import Player
from tests.tape.samples import cassette, request, response


def test_each_request_gets_its_own_response_in_whatever_order() -> None:
    player = Player(cassette("a", "b", "c"))
    for question in ("c", "a", "b"):
        assert player.answer(request(question)) == (response(f"re: {question}"), request(question))
    assert player.unplayed == 0


def test_spelling_and_host_do_not_matter() -> None:
    player = Player(cassette("a", "b"))
    spelled = b'{"messages": [{"content": "\\u0062", "role": "user"}], "model": "gpt-5.4"}'
    sent = HttpRequest("POST", "http://127.0.0.1:9/v1/chat/completions", {}, spelled)
    assert player.answer(sent) == (response("re: b"), request("b"))


def test_equal_requests_are_played_in_order() -> None:
    one, two = cassette("a", "a").interactions
    player = Player(Cassette((one, replace(two, response=response("second")))))
    assert [player.answer(request("a"))[0] for _ in range(2)] == [response("re: a"), response("second")]


def test_a_request_that_was_not_recorded_gets_the_next_in_order_and_its_recorded_request() -> None:
    player = Player(cassette("a", "b", "c"))
    player.answer(request("a"))
    assert player.answer(request("other")) == (response("re: b"), request("b"))
    assert player.unplayed == 1
    assert player.answer(request("c"))[1] == request("c")


def test_when_nothing_is_left_the_answer_says_that_it_is_the_harnesss() -> None:
    player = Player(cassette())
    answer, recorded = player.answer(request("a"))
    assert (answer.status, answer.headers[EXHAUSTED], recorded) == (500, "1", None)
    assert b"harness: the cassette has no further exchange" in answer.body


def bad(_request: HttpRequest, response: HttpResponse) -> bool:
    return b"bad" in response.body


def test_a_failure_is_played_again_for_who_retries() -> None:
    player = Player(cassette("bad", "b"), bad)
    assert [player.answer(request("bad")) for _ in range(3)] == [(response("re: bad"), request("bad"))] * 3
    assert player.answer(request("b")) == (response("re: b"), request("b"))
    assert player.unplayed == 0


def test_a_retry_that_was_recorded_gets_its_own_response() -> None:
    one, two = cassette("bad", "bad").interactions
    player = Player(Cassette((one, replace(two, response=response("second")))), bad)
    assert [player.answer(request("bad"))[0] for _ in range(2)] == [response("re: bad"), response("second")]
    assert EXHAUSTED in player.answer(request("bad"))[0].headers


def test_neither_an_answer_nor_the_failure_of_another_request_is_played_again() -> None:
    player = Player(cassette("a", "bad"), bad)
    assert player.answer(request("a"))[0] == response("re: a")
    assert player.answer(request("a"))[0] == response("re: bad")
    assert EXHAUSTED in player.answer(request("other"))[0].headers


def test_pieces_and_endings_are_played_and_pauses_are_not() -> None:
    [interaction] = cassette("a").interactions
    delivery = Delivery((1, 5), 60.0, "reset")
    player = Player(Cassette((replace(interaction, response=replace(response("re: a"), delivery=delivery)),)))
    played, _ = player.answer(request("a"))
    assert played == replace(response("re: a"), delivery=Delivery((1, 5), 0.0, "reset"))


def test_unplayed_exchanges_are_counted() -> None:
    player = Player(cassette("a", "b"))
    assert player.unplayed == 2
    player.answer(request("b"))
    assert player.unplayed == 1
