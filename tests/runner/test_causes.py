"""What follows from another finding of its cell, and what does not though it looks like it."""

from __future__ import annotations

from typing import Any

import pytest

from harness.apis.api import PATH_UNKNOWN
from harness.apis.registry import apis
from harness.results import Blame, Finding, Kind, Severity
from harness.rules.rule import all_rules
from harness.runner.verdicts import RELATIONS, link_causes


def finding(rule: str, exchange: int | None = 1, **changes: Any) -> Finding:
    values: dict[str, Any] = {
        "rule": rule,
        "kind": Kind.LOSS,
        "severity": Severity.ERROR,
        "blame": Blame.ADAPTER,
        "message": f"{rule} says it",
        "exchange": exchange,
        "pointer": "",
    }
    return Finding(**{**values, **changes})


def limit(rule: str, exchange: int = 1, **changes: Any) -> Finding:
    return finding(rule, exchange, kind=Kind.LIMIT, **changes)


def refused(exchange: int = 1, **changes: Any) -> Finding:
    return finding("chat-refused", exchange, **{"actual": 400, "expected": 200, **changes})


FORCED = limit("anthropic-choice-forced", pointer="/tool_choice")
BY_A_FORCED_TOOL = {
    "json-mode-ignored": "",
    "tools-declared": "",
    "tool-choice": "/tool_choice/type",
    "system-when-absent": "/system/0",
}
"""What is found where the answer's schema is that of a tool, and the witness does not take the two for the same."""


def follows(*findings: Finding) -> list[str | None]:
    """For each finding, the rule that it follows from."""
    found = link_causes(findings)
    return [None if each.follows is None else found[each.follows].rule for each in found]


def test_arguments_that_were_read_wrongly_are_sent_back_wrongly() -> None:
    run, sent = finding("tool-run-otherwise", 1, of_response=True), finding("arguments-changed", 2)

    assert follows(run, sent) == [None, "tool-run-otherwise"]
    assert follows(sent, finding("tool-run-otherwise", 3, of_response=True)) == [None, None]


def test_a_missing_field_may_be_the_lost_state() -> None:
    lost = finding("opaque-state-lost", pointer="/messages/1/content/0")
    missing = limit("anthropic-field-missing", pointer="/messages/1/content/0")
    elsewhere = limit("anthropic-field-missing", pointer="/messages/2/content/0")

    assert follows(lost, missing) == [None, "opaque-state-lost"]
    assert follows(lost, elsewhere) == [None, None]


def test_all_that_a_lost_id_brings_about_is_one_cause() -> None:
    assert follows(
        refused(),
        finding("issued-id-lost", 0, of_response=True),
        finding("call-id-changed"),
        finding("result-missing"),
        limit("anthropic-result-missing"),
        finding("exchange-unplayed", None, pointer=None),
    ) == ["issued-id-lost", None, *["issued-id-lost"] * 4]


@pytest.mark.parametrize(
    ("cause", "follower"),
    [
        (limit("anthropic-prefill", pointer="/messages/1"), finding("text-changed", pointer="/messages/1/content/0")),
        (limit("gemini-unknown-field"), refused()),
        (limit("anthropic-body"), finding("exchange-unreadable")),
        (limit("gemini-role"), finding("chat-failure", actual="KeyError", expected="InvalidRequest")),
        (finding("opaque-state-lost"), refused()),
        (finding("result-swapped"), finding("error-flag")),
        (finding("result-changed", pointer="/messages/2"), finding("recorded-request", pointer="/messages/2/content")),
        (finding("response-calls", 0, of_response=True), finding("recorded-request", 1, pointer="/messages/1")),
        (finding("opaque-state-lost"), finding("recorded-request", pointer="/input/3")),
        (finding("response-text", 1), finding("stream-equals-whole", 1)),
        (finding("response-text", 0), finding("expectation", 0, pointer=None)),
        (finding("cut-call-answered"), finding("result-missing")),
        (finding("cut-call-answered"), limit("anthropic-result-missing")),
        (finding("truncated-call", 0), finding("request-unexpected", 1)),
        (finding("tool-run-otherwise", 0, of_response=True), finding("result-changed", 1)),
        (finding("tool-run-missing", 0, of_response=True), finding("call-missing", 1)),
        (finding("result-missing", 1), finding("iteration-bound", None, pointer=None)),
        (finding("system-in-message", 0), finding("system-missing", 0)),
        (finding("text-changed", 2), finding("history-append-only", 2)),
        *((FORCED, finding(rule, pointer=place)) for rule, place in BY_A_FORCED_TOOL.items()),
        (finding("response-text", 0, of_response=True), finding("text-changed", 1, expected="assistant:  ")),
        (finding("text-changed"), finding("opaque-state-lost")),
    ],
    ids=lambda each: each.rule,
)
def test_a_consequence_follows_whichever_is_found_first(cause: Finding, follower: Finding) -> None:
    assert follows(cause, follower) == [None, cause.rule]
    assert follows(follower, cause) == [cause.rule, None]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (limit("gemini-role", 0), refused(1)),
        (limit("gemini-role"), refused(actual=503, blame=Blame.PROVIDER)),
        (limit("gemini-role"), finding("chat-failure", actual="KeyError", expected=None)),
        (limit("gemini-role", severity=Severity.WARNING), refused()),
        (finding("response-text", 2), finding("expectation", 1, pointer=None)),
        (finding("response-text", 0, blame=Blame.PROVIDER), finding("expectation", 0, pointer=None)),
        (finding("tool-declaration-changed", pointer="/tools/0"), finding("recorded-request", pointer="/tools/1")),
        (finding("tool-declaration-changed"), finding("expectation", pointer=None)),
        (finding("response-text", 0), finding("stream-equals-whole", 1)),
        (finding("response-text", 0, of_response=True), finding("text-changed", 1, expected="user: Which city?")),
        (finding("usage", 0), finding("stop-reason", 0)),
        (finding("tool-run-otherwise", 1, of_response=True), finding("result-changed", 1)),
        (finding("opaque-state-lost", 0), finding("text-changed")),
        (finding("opaque-state-lost", pointer="/input/1"), finding("recorded-request", pointer="/input/3")),
        (finding("opaque-state-lost", 0), finding("recorded-request", pointer="/input/3")),
        (finding("chat-failure", 0), finding("chat-failure", 1, message="another failure")),
        (FORCED, finding("json-mode-ignored", 2)),
        (FORCED, finding("tool-declaration-changed", pointer="/tools/0")),
        (limit("anthropic-tool-name", pointer="/tools/0/name"), finding("json-mode-ignored")),
    ],
    ids=lambda each: f"{each.rule}-{each.exchange}-{each.severity}-{each.blame}-{each.actual}",
)
def test_what_only_stands_near_another_finding_is_a_cause_of_its_own(one: Finding, other: Finding) -> None:
    assert follows(one, other) == [None, None]


def test_the_same_fault_in_a_history_that_is_sent_again_follows_from_the_first() -> None:
    again = [finding("arguments-changed", exchange, pointer="/messages/1") for exchange in (3, 1, 2)]

    found = link_causes([*again, finding("arguments-changed", 2, pointer="/messages/3")])

    assert [each.follows for each in found] == [1, None, 1, None]


def test_every_rule_that_a_relation_names_exists() -> None:
    known = {rule.id for rule in all_rules()} | {"chat-refused", "cassette-unreadable", PATH_UNKNOWN.id}
    known |= {limit.id for api in apis() for limit in api.table}
    named = {name for relation in RELATIONS for name in (*relation.causes, *relation.followers) if "*" not in name}

    assert named <= known, named - known
    assert all(relation.because for relation in RELATIONS)
