"""What has to come back of a Chat server's own fields: what its dialect takes back, and nothing else."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from harness.results import Severity, Transcript
from harness.rules.evidence import Evidence
from harness.rules.opaque_state import RULES
from tests.rules.transcripts import transcript_for

RULE = RULES[0]


def talk(answered: dict[str, Any], sent: dict[str, Any], model: str = "gpt-5") -> Transcript:
    """A tool loop whose answer with calls, and the turn that carries them back, have further fields."""
    transcript = transcript_for("call-single", "openai-chat", "whole")
    first, second, *others = transcript.exchanges
    assert first.response is not None
    body = json.loads(first.response.body)
    body["model"] = model
    body["choices"][0]["message"] |= answered
    asked = json.loads(second.request.body)
    spoken = next(message for message in asked["messages"] if message["role"] == "assistant")
    spoken |= sent
    return replace(
        transcript,
        exchanges=(
            replace(first, response=replace(first.response, body=json.dumps(body).encode())),
            replace(second, request=replace(second.request, body=json.dumps(asked).encode())),
            *others,
        ),
    )


def lost(transcript: Transcript) -> int:
    return len(list(RULE.findings(Evidence(transcript))))


SIGNED = {"reasoning_opaque": "x"}
THOUGHT = {"reasoning_content": "Let me see."}
SHOWN = {"padding": "abc", "provider_metadata": {"gateway": {"cost": "1"}}, "annotations": [{"type": "url_citation"}]}


@pytest.mark.parametrize("sent", [{}, SHOWN])
def test_nobody_has_to_return_what_is_only_shown_nor_is_it_a_loss_to_do_so(sent: dict[str, Any]) -> None:
    assert lost(talk(SHOWN, sent)) == 0


def test_state_of_the_dialect_has_to_return_beside_what_is_shown() -> None:
    assert lost(talk({**SHOWN, **SIGNED}, SIGNED)) == 0
    assert lost(talk({**SHOWN, **SIGNED}, {})) == 1
    assert lost(talk({**SHOWN, **SIGNED}, {"reasoning_opaque": "y"})) == 1


def test_reasoning_has_to_return_where_the_dialect_wants_it() -> None:
    """openai-chat-deepseek-reasoning-back, of DeepSeek v4: "The `reasoning_content` in the thinking mode must be passed
    back to the API."."""
    assert lost(talk(THOUGHT, THOUGHT, "deepseek-v4-flash")) == 0
    assert lost(talk(THOUGHT, {}, "deepseek-v4-flash")) == 1
    assert lost(talk(THOUGHT, {}, "qwen-3")) == 0


def without_the_first_message(said: str) -> Transcript:
    """The model says `said` beside its call, and the request that carries the call back leaves that message out."""
    transcript = transcript_for("stream-empty-text", "openai-responses", "whole")
    first, second, *others = transcript.exchanges
    assert first.response is not None
    body, asked = json.loads(first.response.body), json.loads(second.request.body)
    (message,) = [item for item in body["output"] if item["type"] == "message"]
    message["content"][0]["text"] = said
    asked["input"] = [item for item in asked["input"] if "phase" not in item]
    return replace(
        transcript,
        exchanges=(
            replace(first, response=replace(first.response, body=json.dumps(body).encode())),
            replace(second, request=replace(second.request, body=json.dumps(asked).encode())),
            *others,
        ),
    )


@pytest.mark.parametrize(("said", "missed"), [("", 0), ("Done.", 1)])
def test_the_phase_of_a_text_without_words_does_not_have_to_return(said: str, missed: int) -> None:
    assert lost(without_the_first_message(said)) == missed


def test_what_stood_on_a_text_is_named() -> None:
    transcript = transcript_for("call-after-text", "openai-responses", "whole")
    first, second, *others = transcript.exchanges
    asked = json.loads(second.request.body)
    for item in asked["input"]:
        item.pop("phase", None)
    edited = replace(second, request=replace(second.request, body=json.dumps(asked).encode()))
    finding = next(iter(RULE.findings(Evidence(replace(transcript, exchanges=(first, edited, *others))))))
    assert finding.message == (
        "opaque state of an earlier answer (phase on a text) was not sent back unchanged in its place"
    )
    assert re.fullmatch(r"/input/\d+/content(/0/text)?", finding.pointer or ""), finding.pointer


def unlabelled(phases: set[str]) -> list[tuple[Severity, str]]:
    """What is found where messages of these phases went back without."""
    transcript = transcript_for("seeds-terminal-assistant-events", "openai-responses", "whole")
    *before, last = transcript.exchanges
    asked = json.loads(last.request.body)
    for item in asked["input"]:
        if item.get("phase") in phases:
            del item["phase"]
    edited = replace(last, request=replace(last.request, body=json.dumps(asked).encode()))
    findings = RULE.findings(Evidence(replace(transcript, exchanges=(*before, edited))))
    return [(finding.severity, json.dumps(finding.expected)) for finding in findings]


def test_a_final_answer_may_lack_its_label_and_hides_no_commentary_that_lacks_it() -> None:
    """openai-responses-phase: what bears no label is taken for a final answer."""
    final = (Severity.WARNING, '{"phase": "final_answer"}')
    commentary = (Severity.ERROR, '{"phase": "commentary"}')
    assert unlabelled({"final_answer"}) == [final]
    assert unlabelled({"commentary"}) == [commentary]
    assert unlabelled({"final_answer", "commentary"}) == [commentary]
