"""The proof that every limit fires wherever the harness plays: what commits it comes out red, by its id.

The mutation tests in tests/apis call the checks; these go through `harness run`, and see the wiring.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import pytest

from harness import catalog
from harness.apis.limit import Limit
from harness.apis.tables import known_limits
from harness.apis.tables import severity as severity_of
from tests.limits.cases import CASES
from tests.limits.edits import Sent, append, copied, double, drop, insert, moved, put
from tests.limits.proof import MODES, Group, Proof, play
from tests.once import once

Proofs = Callable[[Group], Proof]


@pytest.fixture(scope="session")
def proofs(tmp_path_factory: pytest.TempPathFactory) -> Proofs:
    """The cases of a group played, once for all processes that run tests."""

    @cache
    def played(group: Group) -> Proof:
        return once(tmp_path_factory, f"limits-{group.target}-{group.model}", partial(play, group))

    return played


def test_every_limit_has_a_case_and_no_case_is_of_another_limit() -> None:
    assert {limit.id for limit in known_limits()} - CASES.keys() == set()
    assert CASES.keys() - {limit.id for limit in known_limits()} == set()
    assert {case.target for case in CASES.values()} <= {shipped.name for shipped in catalog.targets()}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("limit", known_limits(), ids=lambda limit: limit.id)
def test_who_commits_it_is_told_so(limit: Limit, mode: str, proofs: Proofs) -> None:
    case, played = CASES[limit.id], proofs(Group.of(limit.id))[mode, limit.id]
    severity = case.severity or severity_of(limit)

    assert played.limits[limit.id] == severity
    assert {*played.limits} == {limit.id, *case.also}, "and nothing else is held against it"
    if severity == "error":
        assert (played.verdict, played.exit_code) == ("fail", 1)
    else:
        assert played.verdict in ("warn", "fail")  # an edit may also lose something, which is for other rules to say


def test_a_warning_alone_fails_no_cell(proofs: Proofs) -> None:
    groups = {Group.of(limit) for limit in CASES}
    warned = {limit for group in groups for (_, limit), played in proofs(group).items() if played.verdict == "warn"}
    assert "gemini-role-function" in warned
    table = {limit.id: severity_of(limit) for limit in known_limits()}
    assert all((CASES[limit].severity or table[limit]) == "warning" for limit in warned)


def test_edits_leave_alone_what_they_do_not_find() -> None:
    missing = (put("a.5", 1), drop("b"), drop("a.2"), insert("a.2", 0), append("b", 1), double("c.d"), copied("b", "c"))
    sent = Sent({"a": [1, 2]})
    for edit in (*missing, moved("a.2", "a", {}, "x")):
        edit(sent)
    assert sent.body == {"a": [1, 2]}


def test_edits_do_what_they_say() -> None:
    sent = Sent({"a": [1, 2]})
    for edit in (
        put("b", 3),
        insert("a.0", 0),
        append("a", 4),
        double("a.1"),
        drop("a.3"),
        copied("b", "c"),
        moved("a.0", "a", {"k": 1}, "x"),
    ):
        edit(sent)
    assert sent.body == {"a": [1, 1, 4, {"k": 1, "x": [0]}], "b": 3, "c": 3}
