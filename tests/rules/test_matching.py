from __future__ import annotations

from dataclasses import replace

from harness.apis.view import CallView, PartView, RequestView, ResultView, TextView, TurnView
from harness.equivalence.request_meaning import pair_results
from harness.rules.call_matching import match_calls
from harness.rules.evidence import ExpectedCall


def call(identity: str | None, name: str = "f") -> CallView:
    return CallView(identity, name, {}, "/c", "/c/id", "/c/arguments")


def result(identity: str | None, text: str = "", name: str | None = None) -> ResultView:
    return ResultView(identity, name, (TextView(text, "/t"),), "/r", "/r/id")


def request(*parts: PartView) -> RequestView:
    return RequestView("openai-chat", "m", (), tuple(TurnView("user", (part,), "/x", "user") for part in parts))


def expected(identity: str | None, name: str = "f") -> ExpectedCall:
    return ExpectedCall(identity, name, {}, None, 0)


def test_results_are_paired_by_id_whatever_their_order() -> None:
    first, second, one, two = call("a"), call("b"), result("a"), result("b")
    pairing = pair_results(request(first, second, two, one))
    assert pairing.of(first) == (one,)
    assert pairing.of(second) == (two,)
    assert pairing.orphans == ()


def test_equal_calls_are_distinguished_by_identity() -> None:
    first, second, one, two = call("a"), call("a"), result("a", "1"), result("a", "2")
    pairing = pair_results(request(first, one, second, two))
    assert pairing.of(first) == (one,)
    assert pairing.of(second) == (two,)


def test_a_second_result_of_one_id_is_a_duplicate() -> None:
    first, one, again = call("a"), result("a", "1"), result("a", "2")
    pairing = pair_results(request(first, one, again))
    assert pairing.of(first) == (one, again)
    assert pairing.orphans == ()


def test_a_result_without_a_call_before_it_is_an_orphan() -> None:
    early, late, strange = result("a"), call("a"), result("z")
    pairing = pair_results(request(early, late, strange))
    assert pairing.of(late) == ()
    assert pairing.orphans == (early, strange)


def test_without_ids_results_are_paired_by_name_in_order() -> None:
    f, g, f2 = call(None, "f"), call(None, "g"), call(None, "f")
    of_g, of_f, of_f2, beyond = (result(None, str(i), name) for i, name in enumerate(("g", "f", "f", "f")))
    pairing = pair_results(request(f, g, f2, of_g, of_f, of_f2, beyond))
    assert [pairing.of(each) for each in (f, g, f2)] == [(of_f,), (of_g,), (of_f2,)]
    assert pairing.orphans == (beyond,)


def test_calls_are_recognised_by_their_issued_ids() -> None:
    a, b = call("a"), call("b")
    assert match_calls((expected("a"), expected("b")), request(b, a)) == [a, b]


def test_a_call_under_another_id_is_recognised_by_its_place_among_those_of_its_name() -> None:
    a, b, g = call("x"), call("y"), call("z", "g")
    found = match_calls((expected("a"), expected("b"), expected("c", "g")), request(a, g, b))
    assert [each is other for each, other in zip(found, (a, b, g), strict=True)] == [True, True, True]


def test_an_id_that_is_there_is_not_taken_for_another_call() -> None:
    a, b = call("x"), call("b")
    assert match_calls((expected("a"), expected("b")), request(a, b)) == [a, b]
    assert match_calls((expected("a"), expected("b")), request(b)) == [None, b]


def test_calls_that_share_an_id_are_recognised_by_their_arguments() -> None:
    other, own = (replace(call("a"), arguments={"n": n}) for n in (1, 2))
    wanted = replace(expected("a"), arguments={"n": 2}), replace(expected("z"), arguments={"n": 1})
    found = match_calls(wanted, request(other, own))
    assert [each is wire for each, wire in zip(found, (own, other), strict=True)] == [True, True]
    changed = match_calls((replace(expected("a"), arguments={"n": 3}),), request(other, own))
    assert changed[0] is other


def test_a_call_of_another_name_is_not_the_expected_one() -> None:
    assert match_calls((expected("a", "f"),), request(call("a", "g"))) == [None]
