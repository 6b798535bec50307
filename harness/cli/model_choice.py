"""A check that one limit of the assumed model makes fail: it is played again with a model that has no such limit.

Each adapter is checked with the newest model of its API unless `--model` names another. An adapter made for an older
model may then fail nearly every cell for one reason, which hides all others.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from harness import catalog
from harness.cli.playing import Playing
from harness.results import Blame, CellResult, Checked, Finding, Kind, RunResult, Severity, Verdict
from harness.running.known_models import models
from harness.stdio.workers import Workers

_LEAST_CELLS = 5
_LEAST_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class _HidingLimit:
    """The limit that most failed cells break, with one of these cells."""

    finding: Finding
    cell: CellResult
    model: str
    count: int
    failed: int


def with_accepting_model(playing: Playing, workers: Workers, result: RunResult) -> RunResult:
    """Play a check again if one limit of a model that nobody named hides the rest, and note it in the result.

    Returns the given result where there is no such limit, or where no known model of the API is without it.
    """
    limit = _hiding_limit(result)
    options = playing.options
    if limit is None or options.models or options.default_models:
        return result
    target = limit.cell.target
    for model in _other_models(limit.cell.api, limit.model):
        chosen = replace(options, models=[f"{target}={model}"])
        one_scenario = replace(chosen, paths=[limit.cell.scenario])
        trial = replace(playing, options=one_scenario, check=None).result(workers)
        ran = [each for each in trial.cells if each.target == target and each.verdict is not Verdict.NOT_APPLICABLE]
        if not ran or any(finding.rule == limit.finding.rule for cell in ran for finding in cell.findings):
            continue
        again = replace(playing, options=chosen).result(workers)
        first, second = (shlex.join(["--model", f"{target}={each}"]) for each in (model, limit.model))
        note = (
            f"Played with {model}: {limit.count} of {limit.failed} failed cells break one limit of {limit.model} "
            f"({limit.finding.rule}: {limit.finding.message}). The check fails until you name the model that the "
            f"adapter is made for: {first} or {second}."
        )
        return replace(again, check=replace(again.check or Checked(), model_note=note))
    return result


def _hiding_limit(result: RunResult) -> _HidingLimit | None:
    failed = [cell for cell in result.cells if cell.verdict is Verdict.FAIL]
    broken = [(cell, finding) for cell in failed if (finding := _limit(cell)) is not None]
    if not broken:
        return None
    rule, count = Counter(finding.rule for _, finding in broken).most_common(1)[0]
    cell, finding = next(each for each in broken if each[1].rule == rule)
    model = cell.provenance.model_requested if cell.provenance else None
    if model is None or count < max(_LEAST_CELLS, _LEAST_SHARE * len(failed)):
        return None
    return _HidingLimit(finding, cell, model, count, len(failed))


def _limit(cell: CellResult) -> Finding | None:
    return next(
        (
            finding
            for finding in cell.findings
            if (finding.kind, finding.severity) == (Kind.LIMIT, Severity.ERROR)
            and finding.blame in (Blame.ADAPTER, Blame.CLIENT)
        ),
        None,
    )


def _other_models(api: str, model: str) -> Iterator[str]:
    """A current model with a long context for each other profile of the API, in the order of the profiles."""
    wire = catalog.api(api)
    own = wire.profile_for(model).name
    known = [each for each in models(api) if not each.deprecated and each.context]
    for profile in wire.profiles:
        of_profile = [each for each in known if each.profile == profile.name != own]
        if of_profile:
            yield max(of_profile, key=lambda each: each.context or 0).id
