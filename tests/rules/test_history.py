"""What is said of a text that is missing, changed or added: the two that stand against each other, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.results import Finding
from harness.rules.conversation_history import RULES
from harness.rules.evidence import Evidence
from tests.rules.transcripts import transcript_for

(RULE,) = [rule for rule in RULES if rule.id == "text-changed"]

Messages = list[dict[str, Any]]


def said(edit: Callable[[Messages], Messages]) -> Finding:
    """What the rule finds in the last request of a conversation without tools after its messages were edited."""
    transcript = transcript_for("history-without-tools", "openai-chat", "whole")
    *before, last = transcript.exchanges
    body = json.loads(last.request.body)
    body["messages"] = edit(body["messages"])
    edited = replace(last, request=replace(last.request, body=json.dumps(body).encode()))
    (finding,) = RULE.findings(Evidence(replace(transcript, exchanges=(*before, edited))))
    return finding


def given() -> Messages:
    """The messages of that request."""
    body: dict[str, Any] = json.loads(
        transcript_for("history-without-tools", "openai-chat", "whole").exchanges[-1].request.body
    )
    return body["messages"]


def line(message: dict[str, Any]) -> str:
    return f"{message['role']}: {message['content']}"


@pytest.mark.parametrize("at", [0, 1, -1])
def test_one_that_is_missing_is_expected_and_nothing_stands_against_it(at: int) -> None:
    finding = said(lambda messages: [each for each in messages if each is not messages[at]])
    assert (finding.actual, finding.expected, finding.pointer) == (None, line(given()[at]), "")


@pytest.mark.parametrize("at", [0, 1, 99])
def test_one_that_was_added_is_shown_and_nothing_is_expected(at: int) -> None:
    added = {"role": "user", "content": "Go on."}
    finding = said(lambda messages: [*messages[:at], added, *messages[at:]])
    place = f"/messages/{min(at, len(given()))}/content"
    assert (finding.actual, finding.expected, finding.pointer) == ("user: Go on.", None, place)


@pytest.mark.parametrize("at", [0, 1, -1])
def test_one_that_was_changed_stands_against_what_was_given(at: int) -> None:
    def edit(messages: Messages) -> Messages:
        messages[at]["content"] += " "
        return messages

    finding = said(edit)
    assert (finding.actual, finding.expected) == (f"{line(given()[at])} ", line(given()[at]))
