"""Partial runs: shards that are merged later, and live runs that are resumed.

All cells of a scenario belong to one shard, because differences between targets are determined per scenario. Each
scenario, in order, goes to the shard that has the fewest cells.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from harness.model.errors import ScenarioError, UsageError
from harness.results import CellResult, Definition, ExpectedFailure, RunPart, RunResult, Verdict
from harness.results.run_result import Values
from harness.rules import Scope
from harness.runner.cells import Cell, scenarios_of
from harness.runner.differences import ObservedValues, difference_rows
from harness.runner.expected_failures import Expectations
from harness.runner.recorder import versions
from harness.runner.suite_run import is_judged
from harness.scenarios.load import digest, lines
from harness.scenarios.schema import Scenario

_DIGITS = 16


def definitions(scenarios: Iterable[Scenario], files: Mapping[str, str]) -> dict[str, Definition]:
    """Return the scenarios' definitions by id. `files` maps the ids of scenarios that are not
    shipped to their files.
    """
    return {each.id: _definition(each, files.get(each.id)) for each in scenarios}


def digest_prefix(scenario: Scenario) -> str:
    """Return the first digits of a scenario's digest, enough to detect a change."""
    return digest(scenario)[:_DIGITS]


def _definition(scenario: Scenario, file: str | None) -> Definition:
    line, turns = _lines(file) if file is not None else (None, ())
    return Definition(
        digest_prefix(scenario),
        tuple(each.value for each in scenario.requires),
        tuple(each.value for each in scenario.provocations),
        file,
        line,
        turns,
    )


def _lines(file: str) -> tuple[int | None, tuple[int, ...]]:
    try:
        return lines(Path(file))
    except ScenarioError:  # it could be read when the run began
        return None, ()


_RUN_AGAIN = frozenset({Verdict.MISSING, Verdict.ERROR, Verdict.NOT_APPLICABLE})
"""Verdicts of cells to run again when a run is resumed: they were not finished, or running them costs nothing."""


@dataclass(frozen=True, slots=True)
class ResumedCells:
    """Results and observed values that are reused from an earlier run.

    `cells` maps the numbers of cells in this run to their results.
    """

    cells: dict[int, CellResult] = field(default_factory=dict[int, CellResult])
    observed: Values = field(default_factory=dict[str, dict[str, tuple[str, ...]]])


def resumed_cells(run: RunResult, name: str, cells: Sequence[Cell]) -> ResumedCells:
    """Return the cells that an earlier live run finished with the same scenario and model. `name` is the file of that
    run.

    Raises:
        UsageError: The run was not live, did not start any cell, or used other package versions.
    """
    if run.mode != "live" or run.part is None:
        what = f"it was a run in mode {run.mode}" if run.mode != "live" else "no cell had finished"
        raise UsageError(f"--resume {name}: this run cannot be continued: {what}.")
    there, here = run.versions, versions()
    other = next((each for each in here if there.get(each) != here[each]), None)
    if other is not None:
        raise UsageError(
            f"--resume {name}: that run was made with {other} {there.get(other, '(missing)')}, and here is "
            f"{here[other]}. Results are of one version of each: run with that one, or from the beginning."
        )
    done = {cell.key: cell for cell in run.cells if cell.verdict not in _RUN_AGAIN}
    digests = {each.id: digest_prefix(each) for each in scenarios_of(cells)}
    found: dict[int, CellResult] = {}
    for number, cell in enumerate(cells):
        result = done.get(cell.key)
        same = run.part.scenarios.get(cell.scenario.id) == digests[cell.scenario.id]
        if result is not None and same and _model(result) in (None, cell.target.model):
            found[number] = result
    return ResumedCells(found, run.part.observed)


def _model(result: CellResult) -> str | None:
    return result.provenance.model_requested if result.provenance else None


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard `number` of `of` shards, counted from 1."""

    number: int
    of: int

    @staticmethod
    def parse(given: str) -> Shard:
        """Parse the value of `--shard`. Raises `UsageError`."""
        found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", given)
        if found is None or not 0 < int(found[1]) <= int(found[2]):
            raise UsageError(
                f"--shard {given!r}: it has to have the form NUMBER/OF, from 1/OF to OF/OF, as in --shard 1/4."
            )
        return Shard(int(found[1]), int(found[2]))

    def of_cells(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        """Return the cells of this shard, in order.

        Raises:
            UsageError: There are more shards than scenarios.
        """
        sizes = Counter(cell.scenario.id for cell in cells)
        if len(sizes) < self.of:
            raise UsageError(
                f"--shard {self.number}/{self.of}: each shard needs a scenario, and only {len(sizes)} are chosen. Use "
                "fewer shards."
            )
        dealt = [0] * self.of
        mine: set[str] = set()
        for scenario, size in sizes.items():
            least = dealt.index(min(dealt))
            dealt[least] += size
            if least == self.number - 1:
                mine.add(scenario)
        return [cell for cell in cells if cell.scenario.id in mine]

    def part(self, cells: Iterable[Cell], expected: Sequence[ExpectedFailure], observed: Values) -> RunPart:
        """Return the data, in addition to the cells, that is needed to merge this shard."""
        digests = {each.id: digest_prefix(each) for each in scenarios_of(cells)}
        return RunPart(self.number, self.of, digests, tuple(expected), observed)


NamedResult = tuple[str, RunResult]
"""The file name of a result, and the result."""


def merge_shards(shards: Sequence[NamedResult]) -> RunResult:
    """Merge the shards into the result of the whole run. Except for times, it equals the result of an undivided run.

    Raises:
        UsageError: A file is not a shard or is incomplete, a shard is missing or duplicate, or the shards belong to
            different runs.
    """
    parts = [(name, run, _part(name, run)) for name, run in shards]
    _check_numbers([(name, part) for name, _, part in parts])
    _check_alike(shards)
    first, whole = shards[0][1], parts[0][2]
    by_scenario: dict[str, list[CellResult]] = {}
    for _, run, _ in parts:
        for cell in run.cells:
            by_scenario.setdefault(cell.scenario, []).append(cell)
    cells = [cell for scenario in whole.scenarios for cell in by_scenario.get(scenario, ())]
    expectations = Expectations(whole.expected, Scope(first.rules, first.ignored))
    observed = {target: ObservedValues() for target in dict.fromkeys(cell.target for cell in cells)}
    for cell in cells:
        expectations.add(cell, played=is_judged(cell))
    for _, _, part in parts:
        for target, values in part.observed.items():
            observed[target].add(values)
    definitions = {name: each for _, run in shards for name, each in run.definitions.items()}
    return replace(
        first,
        cells=tuple(cells),
        differences=difference_rows(observed),
        stale=expectations.stale,
        unmatched=expectations.unmatched,
        definitions={name: definitions[name] for name in whole.scenarios if name in definitions},
        timing={"seconds": max(run.timing.get("seconds", 0.0) for _, run in shards)},
        played_at=min(filter(None, (run.played_at for _, run in shards)), default=None),
        part=None,
    )


def _part(name: str, run: RunResult) -> RunPart:
    if run.stopped is not None or run.unplayed:
        why = run.stopped or "it had reached its limit of failed cells"
        raise UsageError(f"{name}: this shard did not finish ({why}). Run it again.")
    if run.part is None:
        raise UsageError(
            f"{name}: this is not a shard of a run. 'harness run --shard 1/4 --report json:{name}' writes one."
        )
    return run.part


def _check_numbers(parts: Sequence[tuple[str, RunPart]]) -> None:
    (first, part), *others = parts
    seen = {part.number: first}
    for name, other in others:
        if other.of != part.of:
            raise UsageError(
                f"{first} is shard {part.name}, and {name} is shard {other.name}: these are not shards of one run."
            )
        if other.number in seen:
            raise UsageError(f"{seen[other.number]} and {name} are both shard {other.name}. Name each shard once.")
        seen[other.number] = name
    missing = [f"{number}/{part.of}" for number in range(1, part.of + 1) if number not in seen]
    if missing:
        raise UsageError(
            f"shard {', '.join(missing)} is missing: the whole needs each of the {part.of}. "
            f"'harness run --shard {missing[0]} --report json:PATH' writes one."
        )


_EQUAL_PROPERTIES: dict[str, Callable[[RunResult], object]] = {
    "versions are": lambda run: run.versions,
    "mode is": lambda run: run.mode,
    "scenarios are": lambda run: run.part and run.part.scenarios,
    "expected failures are": lambda run: run.part and run.part.expected,
    "files of facts are": lambda run: run.facts,
    "rules that count are": lambda run: (run.rules, run.ignored),
    "targets that are left out are": lambda run: run.left_out,
    "folders of cassettes are": lambda run: run.cassettes,
    "other options are": lambda run: replace(run.invocation, scenarios={}),  # the files may be in other folders
}
"""Properties that must be equal in all shards of a run, with the words for the error message."""


def _check_alike(shards: Sequence[NamedResult]) -> None:
    (first, run), *others = shards
    for name, other in others:
        for what, of in _EQUAL_PROPERTIES.items():
            one, two = of(run), of(other)
            if one != two:
                raise UsageError(
                    f"{first} and {name} are not shards of one run: their {what} not the same"
                    f"{_differing_names(one, two)}. "
                    "Run all shards with one version, one command line and the same files."
                )


def _differing_names(one: object, two: object) -> str:
    if not isinstance(one, Mapping) or not isinstance(two, Mapping):
        return ""
    first, second = cast("Mapping[str, object]", one), cast("Mapping[str, object]", two)
    names = [name for name in {**first, **second} if first.get(name) != second.get(name)]
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f" ({', '.join(names[:_MAX_NAMES])}{more})"


_MAX_NAMES = 3
