"""Adapter checks: the sample of scenarios and the report on capabilities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from harness.apis.registry import Target
from harness.model.protocols import Adapter, Capability
from harness.results import CapabilityTally, CellResult, CheckResult, RunResult, Verdict
from harness.runner.cells import Cell, cells
from harness.scenarios.schema import Scenario


@dataclass(frozen=True, slots=True)
class AdapterCheck:
    """Selection of the cells of an adapter check.

    `everything` selects the whole suite instead of the sample. `named` is set if the user named the targets. After the
    first `least_cells`, no cell is started after `seconds`.
    """

    everything: bool = False
    named: bool = False
    seconds: float | None = None
    least_cells: int = 0

    def select_cells(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        """Select the cells to run.

        An adapter that runs its own tool loop supports only half of the suite. It gets all cells except those with
        unusual server behaviour (`Provocation`).
        """
        of_targets = cells if self.everything or self.named else first_target_cells(cells)
        if self.everything:
            return of_targets
        if any(cell.target.adapter.drive is not None for cell in of_targets):
            return [cell for cell in of_targets if not cell.scenario.provocations]
        return sampled_cells(of_targets)

    def report(self, every: Sequence[Cell], played: Sequence[Cell], result: RunResult, play: PlayCells) -> CheckResult:
        """Return the report of a finished check. `every` holds all cells and `played` the selected ones. `play` runs
        additional cells.
        """
        scenarios = list({cell.scenario.id: cell.scenario for cell in every}.values())
        targets = {cell.target.name: cell.target for cell in played}.values()
        return CheckResult(
            tuple(tried for target in targets for tried in find_undeclared(scenarios, target, play)),
            find_broken(played, result.cells),
            describe_omissions(every, played),
        )


RECUTS = 1
"""Number of additional runs of each streamed cell, each with the stream split at different positions."""

_SAMPLED_IDS = """
call-single call-after-text call-sequential call-parallel-same-tool call-identical-twice call-results-reordered
call-without-parameters stream-provoked-interleaved-calls call-truncated call-malformed arguments-escapes
arguments-large-integers tool-asynchronous
result-error result-null result-boolean result-empty-text result-long result-image result-image-parallel results-escapes
history-two-turns history-long-ids history-foreign-metadata system-plain system-absent system-changed
choice-none choice-none-behind-results choice-required choice-named conversation-continued
json-mode json-schema json-with-tools json-after-tool-loop
schema-references fields-strict-tool fields-parallel-calls-off
schema-recursive schema-optional tool-description-long schema-nested-arrays image-from-user file-from-user
audio-from-user thinking-tool-loop thinking-provider-tool seeds-code-generator-cache seeds-code-search-embeddings
stop-max-tokens stop-refusal fields-request-metadata usage-cached-prompt usage-cached-unasked
stream-split-characters stream-parallel-long-arguments stream-cut-in-arguments stream-error-behind-text
error-400 error-429-retry-after error-in-tool-loop body-html connection-cut
"""

SAMPLE = frozenset(_SAMPLED_IDS.split())
"""Ids of the sampled scenarios. Together they cover each subject and each capability that needs a request."""


def sampled_cells(cells: Sequence[Cell]) -> Sequence[Cell]:
    """Return the cells whose scenario belongs to the sample."""
    return [cell for cell in cells if cell.scenario.id in SAMPLE]


def first_target_cells(cells: Sequence[Cell]) -> Sequence[Cell]:
    """Return the cells of the first target. Further models of the same API exercise little more of the adapter."""
    first = cells[0].target.name
    return [cell for cell in cells if cell.target.name == first]


def describe_omissions(every: Sequence[Cell], chosen: Sequence[Cell]) -> tuple[str, ...]:
    """Describe what the check leaves out, each with the option that includes it."""
    notes: list[str] = []
    played = {cell.scenario.id for cell in chosen}
    scenarios = {cell.scenario.id: cell.scenario for cell in every if cell.scenario.id not in played}
    if scenarios and all(each.provocations for each in scenarios.values()):
        notes.append(f"{len(scenarios)} scenarios with behaviour that no recording shows: --all runs them, too.")
    elif scenarios:
        subjects = Counter(each.covers[0].value for each in scenarios.values()).most_common()
        added = ", ".join(f"{subject} {count}" for subject, count in subjects)
        total = len(scenarios) + len(played)
        notes.append(f"{len(scenarios)} of {total} scenarios, since this was a sample. --all adds them: {added}.")
    targets = sorted({cell.target.cassettes for cell in every} - {cell.target.cassettes for cell in chosen})
    if targets:
        notes.append(f"the targets {', '.join(targets)}: --target NAME runs one.")
    if chosen and Capability.STREAMING not in chosen[0].target.adapter.capabilities:
        notes.append("streamed answers: the adapter does not declare 'streaming'.")
    return tuple(notes)


_MAX_PROBE_CELLS = 2
"""Number of scenarios that probe one undeclared capability."""

_UNPROBED_CAPABILITIES = frozenset(
    {Capability.RETRIES, Capability.EMBEDDINGS, Capability.CACHE_MARKS, Capability.ANSWERS, Capability.TEMPERATURE}
)
"""Capabilities that a probe cannot detect.

An adapter may omit retries and cache marks without violating a rule. Embeddings need a separate client. Only loops
return answers, and only they are given a temperature by the conversation.
"""

_PASSING_VERDICTS = (Verdict.PASS, Verdict.NOTE, Verdict.WARN)

PlayCells = Callable[[Sequence[Cell]], Sequence[CellResult]]
"""Runs cells and returns their results in order."""


def find_undeclared(scenarios: Sequence[Scenario], target: Target, play: PlayCells) -> tuple[CapabilityTally, ...]:
    """Find capabilities that the adapter does not declare although all cells that need them pass."""
    can = set(target.adapter.capabilities)
    found: list[CapabilityTally] = []
    for capability in Capability:
        if capability in can | target.profile.lacks | _UNPROBED_CAPABILITIES:
            continue
        able = _with_capabilities(target, frozenset({*can, capability}))
        simple = [each for each in scenarios if _needs(each, can) == {capability} and not each.provocations]
        tried = cells(simple, [able], ["whole"])[:_MAX_PROBE_CELLS]
        if capability is Capability.STREAMING:
            plain = [each for each in scenarios if not _needs(each, can) and not each.faults]
            tried = cells(plain, [able], ["stream"])[:_MAX_PROBE_CELLS]
        worked = sum(result.verdict in _PASSING_VERDICTS for result in play(tried)) if tried else 0
        if tried and worked == len(tried):
            can.add(capability)
            found.append(CapabilityTally(target.name, capability.value, worked, len(tried)))
    return tuple(found)


def find_broken(played: Sequence[Cell], results: Sequence[CellResult]) -> tuple[CapabilityTally, ...]:
    """Find declared capabilities that no passing cell uses, although some cells without them pass."""
    found: list[CapabilityTally] = []
    judged = [
        (cell, result)
        for cell, result in zip(played, results, strict=True)
        if result.verdict not in (Verdict.NOT_APPLICABLE, Verdict.MISSING)
    ]
    for target in dict.fromkeys(cell.target.name for cell in played):
        of_target = [(cell, result) for cell, result in judged if cell.target.name == target]
        for capability in Capability:
            able = [result for cell, result in of_target if capability in _uses(cell)]
            others = [result for cell, result in of_target if capability not in _uses(cell)]
            works_without = any(result.verdict in _PASSING_VERDICTS for result in others)
            if able and works_without and not any(result.verdict in _PASSING_VERDICTS for result in able):
                found.append(CapabilityTally(target, capability.value, 0, len(able)))
    return tuple(found)


def _uses(cell: Cell) -> set[Capability]:
    return {*cell.scenario.requires, *([Capability.STREAMING] if cell.variant == "stream" else [])}


def _needs(scenario: Scenario, can: set[Capability]) -> set[Capability]:
    return set(scenario.requires) - can


def _with_capabilities(target: Target, capabilities: frozenset[Capability]) -> Target:
    adapter: Adapter = replace(target.adapter, capabilities=capabilities)
    return replace(target, adapter=adapter)
