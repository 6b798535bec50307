"""What no broken adapter of tests/broken shows of the rules of embeddings."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from harness.apis import registry
from harness.apis.api import PATH_UNKNOWN
from harness.model.http import HttpResponse
from harness.results import Blame, EmbeddingTranscript
from harness.runner.cells import Cell
from tests.backends import shipped_scenarios, shipped_targets
from tests.broken.embeddings import INDEX, SWITCHED
from tests.rules.transcripts import found, only, transcript_of


def transcript(scenario: str, target: str) -> EmbeddingTranscript:
    run = transcript_of(Cell(shipped_scenarios()[scenario], shipped_targets()[target], "whole"))
    assert isinstance(run, EmbeddingTranscript)
    return run


@pytest.mark.parametrize("target", ["openai-chat", "gemini-3"])
def test_a_query_that_should_have_been_refused(target: str) -> None:
    run = transcript(SWITCHED, target)
    first, second, *rest = run.embedded
    wrong = replace(second, error=None, error_text=None, vectors=(first.vectors or ())[:1])
    finding = only(replace(run, embedded=(first, wrong, *rest)), "embedding-mismatch")
    assert finding.message == "query 0: the index was made by another model, but the query is not rejected"
    assert (finding.actual, finding.expected) == (None, "EmbeddingMismatch")


def test_a_vector_of_another_length() -> None:
    run = transcript(INDEX, "gemini-3")
    first, *rest = run.embedded
    assert first.vectors
    changed = replace(first, vectors=(*first.vectors[:-1], first.vectors[-1][:-1]))
    rules = {finding.rule: finding for finding in found(replace(run, embedded=(changed, *rest)))}
    assert rules.keys() == {"embedding-vector", "embedding-dimensions"}
    assert rules["embedding-dimensions"].message == "the index: some vectors do not have the declared length"
    assert (rules["embedding-dimensions"].actual, rules["embedding-dimensions"].expected) == (127, 128)


@pytest.mark.parametrize(("severity", "blame"), [("warning", Blame.PROVIDER), ("error", Blame.ADAPTER)])
def test_what_is_only_warned_of_makes_no_request_faulty(
    severity: Literal["warning", "error"], blame: Blame, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = transcript(INDEX, "openai-chat")
    first, *rest = run.embedded
    refused = replace(run.exchanges[0], response=HttpResponse(400, {"content-type": "application/json"}, b"{}"))
    failed = replace(first, vectors=None, error="InvalidRequest", error_text="no")
    api = registry.api("openai-chat")
    assert api.embeddings
    objection = PATH_UNKNOWN.make_violation("They say so.", "", severity=severity)
    changed = replace(api, embeddings=replace(api.embeddings, violations=lambda _request, _rule_set: [objection]))
    monkeypatch.setattr(registry, "api", lambda _name: changed)
    findings = found(replace(run, embedded=(failed, *rest), exchanges=(refused, *run.exchanges[1:])))
    assert [finding.blame for finding in findings if finding.rule == "embedding-failed"] == [blame]
