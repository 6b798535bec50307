"""The sample of scenarios that `harness try` runs, within the time that a user waits for it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import typer

from harness.apis import registry
from harness.checks.adapter_check import AdapterCheck, PlayCells, first_target_cells
from harness.cli.execution import Execution, complete_for_check
from harness.cli.settings import EffectiveOptions
from harness.cli.suite_checks import accepting_model, exceeded_limit, other_models
from harness.reports.words import count
from harness.results import CellResult, CheckResult, Finding, RunResult, Verdict
from harness.runner.cells import Cell, is_cured_by_retry, not_applicable
from harness.stdio.workers import WorkerPool

_SAMPLED_IDS = """
call-parallel-same-tool system-changed json-mode call-parallel-different-tools call-sequential call-after-text
system-with-tools history-two-turns user-messages-in-order stop-max-tokens choice-named choice-required
call-results-reordered stream-parallel-long-arguments stream-provoked-interleaved-calls text-provoked-blocks
settings-sampling settings-temperature settings-stop json-mode-with-tools json-with-tools thinking-tool-loop
thinking-provoked-blocks thinking-budget thinking-budget-blocks
result-error call-truncated-next-turn result-boolean call-identical-twice arguments-empty-values arguments-escapes
call-without-parameters schema-optional result-long json-schema choice-none stream-cut-in-arguments
stream-error-behind-text stream-split-characters error-in-tool-loop arguments-large-integers error-400
history-long-conversation usage-cached-prompt result-empty-text result-null system-multiline
image-from-user stop-refusal call-malformed body-html error-429
"""

TRIAL_SAMPLE = tuple(_SAMPLED_IDS.split())
"""Ids of the sampled scenarios. Those that reveal the most defects come first."""

_FOR_LOOPS = ("settings-temperature", "call-truncated-next-turn")
"""Ids of the sampled scenarios for loops only. Other clients get temperatures with `settings-sampling`, and may return
a call that was cut off.
"""

STREAMED_SAMPLE = frozenset(
    [
        "call-parallel-same-tool",
        "stop-refusal",
        "usage-cached-prompt",
        "stream-split-characters",
        "stream-parallel-long-arguments",
        "stream-cut-in-arguments",
        "stream-error-behind-text",
        "stream-provoked-interleaved-calls",
        "thinking-tool-loop",
    ]
)
"""Ids of the scenarios that are also streamed."""


@dataclass(frozen=True, slots=True)
class TrialCheck(AdapterCheck):
    """Cell selection for `harness try`: a sample of the scenarios, each with one target of the API.

    If `target` is set, only that target is used. With `is_fixed`, no scenario gets another model.
    """

    scenarios: tuple[str, ...] = TRIAL_SAMPLE
    target: str | None = None
    is_fixed: bool = False

    def select_cells(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        """Select the cells to run: the sampled scenarios with whole answers, and those in `STREAMED_SAMPLE` also
        streamed.

        Only loops get some scenarios: see `_FOR_LOOPS`.
        If possible, the target's provider assigns ids to tool calls, so that lost ids are detected. If a scenario does
        not apply to that target, another target is used. Without `is_fixed`, another model of the API may be used as
        well.
        """
        with_ids = [cell for cell in cells if cell.target.profile.call_ids]
        first = first_target_cells(with_ids or cells)
        others = [cell for cell in cells if cell.target.name != first[0].target.name]
        chosen: dict[tuple[int, str], Cell] = {}
        for cell in [*first, *others]:
            name = cell.scenario.id
            is_wanted = name in self.scenarios and (cell.variant == "whole" or name in STREAMED_SAMPLE)
            is_wanted = is_wanted and (name != "stop-refusal" or _may_refuse(cell))
            is_wanted = is_wanted and (name not in _FOR_LOOPS or cell.target.adapter.drive is not None)
            if not is_wanted or self.target not in (None, cell.target.name):
                continue
            key = self.scenarios.index(name), cell.variant
            if key not in chosen or (
                not_applicable(chosen[key], "reference") and not not_applicable(cell, "reference")
            ):
                chosen[key] = cell
        if not self.is_fixed:
            chosen = {key: _with_supporting_model(cell) for key, cell in chosen.items()}
        return [chosen[key] for key in sorted(chosen, key=lambda key: (_may_wait(chosen[key]), _place_in_sample(key)))]

    def report(self, every: Sequence[Cell], played: Sequence[Cell], result: RunResult, play: PlayCells) -> CheckResult:  # noqa: ARG002
        """Return an empty report, because `harness try` does not probe for undeclared capabilities."""
        return CheckResult()


def _may_refuse(cell: Cell) -> bool:
    """Return whether the client can get a refusal. OpenAI's models have a field for it in structured outputs only."""
    return not cell.target.api.startswith("openai") or "json-schema" in cell.target.adapter.capabilities


def _may_wait(cell: Cell) -> bool:
    """Return whether a loop may wait in this cell before it sends a failed request again."""
    return cell.target.adapter.drive is not None and any(map(is_cured_by_retry, cell.scenario.faults))


def _place_in_sample(key: tuple[int, str]) -> int:
    """Return the sort key of a scenario and a variant.

    Streamed cells come after the whole ones, except the first, because each is replayed about ten times.
    """
    index, variant = key
    if variant != "stream":
        return index
    return _FIRST_STREAM if index == 0 else index + len(TRIAL_SAMPLE)


_FIRST_STREAM = 10
"""Position of the first streamed cell in the order of the sample."""


def _with_supporting_model(cell: Cell) -> Cell:
    """Return the cell. Replace its model if the scenario does not support the model's profile, but supports another
    model of the API.

    For example, older models accept settings such as `temperature`, which reasoning models refuse. Models that take the
    same form of `thinking` are preferred, because the client may always send it.
    """
    target, profiles = cell.target, cell.scenario.profiles
    if not profiles or target.profile.name in profiles:
        return cell
    known = registry.api(target.api).profile_for
    models = [(each, known(each)) for each in other_models(target.api, target.model)]
    models.sort(key=lambda each: each[1].thinking != target.profile.thinking)
    return next(
        (
            replace(cell, target=replace(target, model=model, profile=profile))
            for model, profile in models
            if profile.name in profiles
        ),
        cell,
    )


MODEL_PROBE = TrialCheck(scenarios=("call-single", "system-plain"))
"""Cells that show whether the default model accepts the requests at all."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A run of the sample. The command began at the monotonic time `started`.

    `models` are the chosen models, if any. `default` is the client's default model, if it is a current one. With
    `is_fixed`, no scenario gets another model. `is_loop` is set for a tool loop. `shows` is the command that reports
    print for a cell. `used` is filled with the model of the sample, by target.

    Afterwards the sample is run with each of `other_apis`, for which `plan` returns the options and the run.
    """

    models: Sequence[str] | None
    default: str | None
    is_fixed: bool
    is_loop: bool
    shows: tuple[str, ...]
    started: float
    used: dict[str, str] = field(default_factory=dict[str, str])
    other_apis: Sequence[str] = ()
    plan: Callable[[str], tuple[EffectiveOptions, Trial] | None] | None = None

    def with_sample(self, execution: Execution, workers: WorkerPool, result: RunResult) -> RunResult:
        """Run the sample within the time limit, and print what of it was not run. `result` is that of `MODEL_PROBE`."""
        spent = time.monotonic() - self.started
        seconds = max(self._seconds_left / (1 + len(self.other_apis)), _LEAST_SECONDS)
        late = _LATE.format(spent=spent) if seconds == _LEAST_SECONDS and not self.other_apis else ""
        sampled = self._sample(execution, workers, result, seconds)
        added: list[str] = []
        for left, api in zip(range(len(self.other_apis), 0, -1), self.other_apis, strict=True):
            has_time = self._seconds_left / left >= _LEAST_SECONDS and not workers.is_halted
            planned = self.plan(api) if self.plan is not None and has_time else None
            if planned is not None:
                options, trial = planned
                other = replace(execution, options=complete_for_check(options))
                probed = other.result(workers)
                seconds = max(self._seconds_left / left, 0.0)  # recognition took some time
                more = trial._sample(other, workers, probed, seconds)  # noqa: SLF001 - of the same class
                sampled = _join_samples(sampled, more, api)
                added.append(f"--api {api}")
        if added:
            typer.echo(f"The sample was also run with {' and '.join(added)}.")
        return replace(self._with_notes(sampled, late), unplayed=0)

    @property
    def _seconds_left(self) -> float:
        return _SECONDS - (time.monotonic() - self.started)

    def _sample(self, execution: Execution, workers: WorkerPool, result: RunResult, seconds: float) -> RunResult:
        """Run the sample with the chosen model. Start no cell after `seconds`."""
        target = result.cells[0].target if result.cells else ""
        model, refused = self._choose_model(execution, workers, result, target)
        options = execution.options
        if model is not None and target:
            options = replace(options, models=[f"{target}={model}"])
            self.used[target] = model
        check = TrialCheck(
            target=target if model is not None and target else None,
            is_fixed=self.is_fixed,
            seconds=seconds,
            least_cells=_LEAST_CELLS,
        )
        timer = threading.Timer(seconds + _EXTRA_SECONDS, workers.halt)
        timer.daemon = True
        timer.start()
        sampled = replace(execution, options=options, check=check).result(workers)
        timer.cancel()
        if refused is not None:
            typer.echo(_REFUSED.format(default=self.default, model=model))
            sampled = replace(sampled, cells=[refused, *sampled.cells])
        return replace(sampled, invocation=replace(sampled.invocation, show=self.shows))

    def _with_notes(self, sampled: RunResult, late: str) -> RunResult:
        """Print which part of the sample was not run, and return the result, which is unfinished if too little was."""
        if sampled.unplayed:
            done = len(sampled.cells)
            total_cells = done + sampled.unplayed
            total = count(total_cells, "cell")
            typer.echo(f"The time is up: {done} of the sample's {total} were run{late}. 'harness check' runs more.")
            if done * _VERDICT_SHARE < total_cells and sampled.exit_code != 1:
                sampled = replace(sampled, stopped="too few cells were run to tell")
        lacking = sum(cell.verdict is Verdict.NOT_APPLICABLE for cell in sampled.cells)
        if not self.is_loop and lacking > len(sampled.cells) // 2:
            typer.echo(_FEW_CELLS.format(lacking=lacking, total=count(len(sampled.cells), "cell")))
        elif lacking > len(sampled.cells) * 3 // 4:
            reasons = Counter(cell.reason for cell in sampled.cells if cell.verdict is Verdict.NOT_APPLICABLE)
            reason = reasons.most_common(1)[0][0]
            total = count(len(sampled.cells), "cell")
            typer.echo(_FEW_OF_LOOP.format(lacking=lacking, total=total, reason=reason))
        return sampled

    def _choose_model(
        self, execution: Execution, workers: WorkerPool, result: RunResult, target: str
    ) -> tuple[str | None, CellResult | None]:
        """Return the model for the sample, and the cell that shows that the client's default model refuses its request.

        If no model was chosen and the client's first request exceeds a limit, use the client's default model or another
        one that accepts it. If the default model refuses it, that is a defect, and another model is used, because the
        same limit would hide all other defects. Only first requests count. A later one may exceed a limit because the
        client lost part of an answer, which is a defect with any model.
        """
        if not self.models:
            refused = None if execution.options.targets else _first_refusal(result)
            if refused is None:
                return None, None
            return self.default or accepting_model(execution, workers, *refused), None
        model = self.models[0]
        if model != self.default or self.is_fixed or not target:
            return model, None
        own = replace(execution.options, models=[f"{target}={model}"])
        refused = _first_refusal(replace(execution, options=own).result(workers))
        other = accepting_model(execution, workers, *refused) if refused is not None else None
        return (model, None) if refused is None or other is None else (other, refused[0])


def _join_samples(sampled: RunResult, more: RunResult, api: str) -> RunResult:
    """Return the result of a sample with the cells of the same client's run with another API, as a target of their
    own.
    """
    cells = [replace(cell, target=f"{cell.target}@{api}") for cell in more.cells]
    words = {f"{name}@{api}": each for name, each in more.invocation.targets.items()}
    return replace(
        sampled,
        cells=[*sampled.cells, *cells],
        unplayed=sampled.unplayed + more.unplayed,
        invocation=replace(sampled.invocation, targets={**sampled.invocation.targets, **words}),
        definitions={**sampled.definitions, **more.definitions},
    )


def _first_refusal(result: RunResult) -> tuple[CellResult, Finding] | None:
    """Return the first cell whose first request exceeds a limit of the provider, and the finding."""
    found = ((each, finding) for each in result.cells if (finding := exceeded_limit(each)) and not finding.exchange)
    return next(found, None)


_REFUSED = "Its default model {default} refuses the first request, so the other requests are for {model}."

_FEW_CELLS = (
    "{lacking} of the sample's {total} do not apply to what this method takes. To run them, name one that takes "
    "messages\nand tools, or write a function 'def chat(messages, tools=None)' that calls it."
)

_FEW_OF_LOOP = "{lacking} of the sample's {total} do not apply, most of them because of this: {reason}."

_SECONDS, _EXTRA_SECONDS = 16.5, 2.0
"""Time limit for starting cells, counted from the start of the command, and the time until a late cell is stopped."""

_LEAST_CELLS, _LEAST_SECONDS = 4, 3.0
"""Number of cells to start in any case, and the time for starting cells if loading took nearly all of it. Otherwise a
library that Python has to compile first would get no verdict.
"""

_VERDICT_SHARE = 3
"""Reciprocal of the share of cells that must have run before the sample has a verdict. The first cells reveal the most.
"""

_LATE = ", because loading took {spent:.0f} seconds (usually less the next time)"

MAX_CELL_SECONDS = 10.0
"""Time limit for one conversation. A client that takes longer hangs."""
