"""What is told once of what requests repeat is what is told of each: where nothing is repeated to the letter, because
every request has blanks of its own, the findings are the same."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from harness.contract.http import HttpRequest
from harness.results import Finding, Transcript
from harness.rules.evidence import Evidence
from harness.running.run import Run
from tests.broken.fault import Fault
from tests.broken.faults import FAULTS
from tests.broken.playing import RULES, cell, said

LONG = "seeds-issue-tracker-session"
"""A conversation of thirteen requests, eleven tools and several turns."""

CASES = [
    pytest.param(fault, fault.targets[number % len(fault.targets)], id=fault.name)
    for number, fault in enumerate(FAULTS)
    if fault.variant == "whole" and not fault.recuts
]


def findings(transcript: Transcript) -> list[Finding]:
    evidence = Evidence(transcript)
    return [finding for rule in RULES for finding in rule.findings(evidence)]


def respelled(transcript: Transcript) -> Transcript:
    """The same requests, each with the blanks of no other one, but for those that are sent again."""
    bodies = list(dict.fromkeys(each.request.body for each in transcript.exchanges))
    exchanges = (
        replace(each, request=spaced(each.request, 1 + bodies.index(each.request.body)))
        for each in transcript.exchanges
    )
    return replace(transcript, exchanges=tuple(exchanges))


def spaced(request: HttpRequest, blanks: int) -> HttpRequest:
    try:
        value = json.loads(request.body)
    except ValueError:
        return request
    return replace(request, body=json.dumps(value, indent=blanks).encode())


@pytest.mark.parametrize(("fault", "target"), CASES)
def test_a_flaw_is_found_wherever_it_is_repeated(fault: Fault, target: str) -> None:
    for scenario in {fault.scenario, LONG}:
        _, evidence = Run(fault.stages(), RULES, strict=True).look(cell(scenario, target, fault.wrap))
        if evidence is None:
            continue  # it declines
        transcript = evidence.transcript
        assert said(findings(transcript)) == said(findings(respelled(transcript)))
