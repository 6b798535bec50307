from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cassettes.cassette import Cassette, Interaction
from harness.cassettes.cassette_files import dumps, loads
from harness.cassettes.library import read_journal
from harness.cassettes.player import Player
from harness.model.errors import CassetteError
from harness.model.http import EXHAUSTED, Delivery, HttpRequest, HttpResponse
from tests.cassettes.samples import METADATA, STREAM, cassette, request, response


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


def test_equal_requests_are_replayed_in_order() -> None:
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


def test_a_failure_is_replayed_again_for_a_client_that_retries() -> None:
    player = Player(cassette("bad", "b"), bad)
    assert [player.answer(request("bad")) for _ in range(3)] == [(response("re: bad"), request("bad"))] * 3
    assert player.answer(request("b")) == (response("re: b"), request("b"))
    assert player.unplayed == 0


def test_a_retry_that_was_recorded_gets_its_own_response() -> None:
    one, two = cassette("bad", "bad").interactions
    player = Player(Cassette((one, replace(two, response=response("second")))), bad)
    assert [player.answer(request("bad"))[0] for _ in range(2)] == [response("re: bad"), response("second")]
    assert EXHAUSTED in player.answer(request("bad"))[0].headers


def test_neither_an_answer_nor_the_failure_of_another_request_is_repeated() -> None:
    player = Player(cassette("a", "bad"), bad)
    assert player.answer(request("a"))[0] == response("re: a")
    assert player.answer(request("a"))[0] == response("re: bad")
    assert EXHAUSTED in player.answer(request("other"))[0].headers


def test_pieces_and_endings_are_replayed_and_pauses_are_not() -> None:
    [interaction] = cassette("a").interactions
    delivery = Delivery((1, 5), 60.0, "reset")
    player = Player(Cassette((replace(interaction, response=replace(response("re: a"), delivery=delivery)),)))
    replayed, _ = player.answer(request("a"))
    assert replayed == replace(response("re: a"), delivery=Delivery((1, 5), 0.0, "reset"))


def test_unused_exchanges_are_counted() -> None:
    player = Player(cassette("a", "b"))
    assert player.unplayed == 2
    player.answer(request("b"))
    assert player.unplayed == 1


BROKEN = Delivery((3, 3, 20), 0.25, "reset")


def streamed(delivery: Delivery) -> Cassette:
    response = HttpResponse(200, {"content-type": "text/event-stream"}, STREAM, delivery)
    return Cassette((Interaction(request("Oslo?"), response),), METADATA)


def text(delivery: Delivery) -> str:
    return dumps(streamed(delivery), "x.yaml").decode()


def test_only_what_is_not_as_in_every_response_is_written() -> None:
    assert "delivery" not in text(Delivery())
    assert "\n    delivery:\n      ending: cut\n  spelling:" in text(Delivery(ending="cut"))
    cuts = "cuts:\n      - 3\n      - 3\n      - 20\n"
    assert f"\n    delivery:\n      {cuts}      pause: 0.25\n      ending: reset\n  spelling:" in text(BROKEN)


MAPPING = "a delivery is a mapping of `cuts`, `pause` and `ending`"
CUTS = "`cuts` is not a list of whole numbers that ascend from 0 or more"
PAUSE = "`pause` is not a number of seconds from 0 to 3600"
ENDING = "`ending` is not one of complete, cut, reset"

HOSTILE: list[tuple[Any, str]] = [
    (None, MAPPING),
    ({"cut": [1]}, "a delivery has `cuts`, `pause` and `ending`, and no `cut`"),
    ({"cuts": 3}, CUTS),
    ({"cuts": [-1]}, CUTS),
    ({"cuts": [5, 2]}, CUTS),
    ({"cuts": [True]}, CUTS),
    ({"pause": math.nan}, PAUSE),
    ({"pause": -0.1}, PAUSE),
    ({"pause": 3601}, PAUSE),
    ({"pause": "1"}, PAUSE),
    ({"ending": "rest"}, ENDING),
    ({"ending": ["cut"]}, ENDING),
]


@pytest.mark.parametrize(("stored", "reason"), HOSTILE)
def test_what_is_no_delivery_is_refused_with_its_place(stored: Any, reason: str) -> None:
    with pytest.raises(CassetteError) as refusal:
        loads(foreign(stored), "x.yaml")
    assert str(refusal.value) == (
        f"x.yaml (interaction 0, response.delivery): {reason}. "
        "Restore the file from version control or record it again."
    )


def foreign(delivery: Any) -> bytes:
    """A cassette without a checksum, as somebody might write it by hand."""
    response = {"status": {"code": 200}, "headers": {}, "body": {"string": "text"}, "delivery": delivery}
    entry = {"request": {"method": "POST", "uri": "https://api.example/v1"}, "response": response}
    return yaml.safe_dump({"version": 1, "interactions": [entry]}).encode()


@pytest.mark.parametrize("delivery", [Delivery((5, 2)), Delivery(pause=math.nan), Delivery(pause=math.inf)])
def test_what_could_not_be_read_back_is_not_written(delivery: Delivery) -> None:
    with pytest.raises(CassetteError, match=r"x\.yaml \(interaction 0, response\.delivery\)"):
        text(delivery)


def test_journals_from_before_it_was_kept_are_read_and_damaged_ones_refused(tmp_path: Path) -> None:
    path = tmp_path / "cell.yaml.journal"
    line = b'{"request": ["GET", "http://host.example/", {}, ""], "response": [200, {}, "text"%s]}\n'
    path.write_bytes(line % b"")
    assert [each.response for each in read_journal(path).interactions] == [HttpResponse(200, {}, b"text")]
    path.write_bytes(line % b', {"ending": "rest"}')
    with pytest.raises(CassetteError, match=r"\(line 1\): not a journal, or damaged"):
        read_journal(path)
