"""A sample of the mutation score of bodies; `python -m tests.hardness.body_mutants` plays all of them."""

from __future__ import annotations

import random
from itertools import islice

from tests.broken.fault import ALL
from tests.hardness.body_mutants import Outcome, Score
from tests.stages import shipped_scenarios

_SEED = 34
_SCENARIOS, _MUTANTS = 4, 16
"""Of each target."""

_MORE_SCENARIOS = 30
"""Scenarios for survivors; the whole suite would take too long."""

_LEAST = 0.98


def test_the_suite_finds_nearly_all_faults_of_a_sample() -> None:
    dice = random.Random(_SEED)  # noqa: S311 - the same sample in each run
    more = Score(dice.sample(list(shipped_scenarios()), _MORE_SCENARIOS))
    outcomes: list[Outcome] = []
    for target in ALL:
        some = Score(dice.sample(list(shipped_scenarios()), _SCENARIOS))
        mutants = some.mutants(target)
        dice.shuffle(mutants)
        found = (outcome for each in mutants if (outcome := some.outcome(each)) is not None)
        real = [each for each in islice(found, _MUTANTS) if not each.survived or each.reason is None]
        outcomes += [more.outcome(each.mutant) or each if each.survived else each for each in real]
    survivors = [str(each) for each in outcomes if each.survived]
    assert 1 - len(survivors) / len(outcomes) >= _LEAST, "\n".join(survivors)
