"""A fixed sample of the mutants of bodies: a rule finds each of them, or the table says why it means the same."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from harness.rules.rule import all_rules
from tests.backends import shipped_scenarios
from tests.broken import running
from tests.broken.fault import ALL
from tests.hardness.body_edits import Edit
from tests.hardness.body_mutants import Mutant, Score

_SEED, _MUTANTS = 36, 16
"""Of each target."""

_SCENARIOS = ("call-parallel-different-tools", "image-from-user", "json-schema-nested", "thinking-two-turns")


def _unexplained(score: Score, mutants: list[Mutant]) -> list[Mutant]:
    outcomes = islice((each for each in map(score.outcome, mutants) if each is not None), _MUTANTS)
    return [each.mutant for each in outcomes if each.survived and each.reason is None]


@pytest.mark.parametrize("target", ALL)
def test_each_survivor_of_a_sample_is_explained(target: str) -> None:
    score = Score(_SCENARIOS)
    mutants = score.mutants(target)
    random.Random(_SEED).shuffle(mutants)  # noqa: S311 - the same sample in each run
    left = _unexplained(score, mutants)
    left = _unexplained(Score(tuple(shipped_scenarios())), left) if left else []
    assert not left, "\n".join(map(str, left))


def test_a_mutant_that_no_rule_finds_is_unexplained(monkeypatch: pytest.MonkeyPatch) -> None:
    score, mutant = Score(("call-not-needed",)), Mutant("openai-chat", "response", Edit("/usage/input_tokens", "other"))
    assert not _unexplained(score, [mutant])
    monkeypatch.setattr(running, "RULES", [each for each in all_rules() if each.id != "usage"])
    assert _unexplained(score, [mutant]) == [mutant]
