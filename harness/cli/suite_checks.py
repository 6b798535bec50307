"""Checks of adapters and agents with the reference suite."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import typer

from harness.apis import registry
from harness.checks.adapter_check import RECUTS, AdapterCheck
from harness.cli.check import SuiteCheckOptions
from harness.cli.execution import Execution, play_check, run_and_report
from harness.cli.generating import generate, is_generated
from harness.cli.settings import combine_options, project_adapters, settings
from harness.model.errors import UsageError
from harness.results import Blame, CellResult, CheckResult, Finding, Kind, RunResult, Severity, Verdict
from harness.runner.costs import models
from harness.stdio.workers import WorkerPool


def check_suite(args: SuiteCheckOptions, **subject: Any) -> int:
    """Check one adapter or agent and return the exit code.

    `subject`, the other options or the project's settings select the adapter or agent.
    """
    options = combine_options(args, **subject)
    chosen = options.adapters or project_adapters(settings())
    if len(chosen) != 1:
        several = f" The project has {len(chosen)}: {', '.join(chosen)}." if chosen and not options.adapters else ""
        raise UsageError(
            "name one adapter, as package.module:ADAPTER or by --adapter-command 'node adapter.mjs'; or an "
            "agent, by harness check agent module:drive or --agent-command './agent'. 'harness help adapters' and "
            f"'harness help loops' explain both.{several}"
        )
    if is_generated(args):
        return generate(replace(options, adapters=chosen))
    if options.hand_over:
        return run_and_report(replace(options, adapters=chosen, jobs=args.jobs), "reference")
    streamed = not args.variants or "stream" in args.variants
    options = replace(options, adapters=chosen, jobs=args.jobs or "auto", recuts=RECUTS if streamed else 0)
    return play_check(options, AdapterCheck(args.everything, bool(args.targets)), with_accepting_model)


_TEMPLATES = {
    "python": ("adapter.py", "my_adapter.py", "harness check my_adapter:ADAPTER"),
    "conversation": ("loop.py", "my_loop.py", "harness check agent my_loop:drive --api openai-chat"),
    "agent": ("agent.py", "my_agent.py", "harness check agent --agent-command 'python3 my_agent.py' --api openai-chat"),
    "command": ("adapter.mjs", "my_adapter.mjs", "harness check --adapter-command 'node my_adapter.mjs'"),
}
"""Kind → shipped file, name of the written file, command that checks it. Each template passes its check unchanged."""


def write_template(kind: str) -> int:
    """Write a template for an adapter or an agent and return the exit code.

    Raises:
        UsageError: the file already exists, or it cannot be written.
    """
    shipped, name, command = _TEMPLATES[kind]
    text = (resources.files("harness.checks") / "starters" / shipped).read_text(encoding="utf-8")
    try:
        with Path(name).open("x", encoding="utf-8") as written:
            written.write(text)
    except FileExistsError:
        raise UsageError(f"--init {kind}: {name} already exists and is not overwritten.") from None
    except OSError as error:
        raise UsageError(f"--init {kind}: {name} cannot be written: {error.strerror}.") from None
    typer.echo(f"{name} is written. Check it: {command}")
    return 0


_MIN_CELLS = 5
_MIN_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class _HidingLimit:
    """A limit that at least half of the failed cells exceed, with one of these cells."""

    finding: Finding
    cell: CellResult
    model: str
    count: int
    failed: int


def with_accepting_model(execution: Execution, workers: WorkerPool, result: RunResult) -> RunResult:
    """Repeat a check with another model if one limit of the default model causes most of the failures. Add a note to
    the result.

    Return the given result if there is no such limit, or if no other known model avoids it.
    """
    limit = _hiding_limit(result)
    options = execution.options
    if limit is None or options.models or options.default_models:
        return result
    model = accepting_model(execution, workers, limit.cell, limit.finding)
    if model is None:
        return result
    target = limit.cell.target
    again = replace(execution, options=replace(options, models=[f"{target}={model}"])).result(workers)
    first, second = (shlex.join(["--model", f"{target}={each}"]) for each in (model, limit.model))
    note = (
        f"Run with {model}: {limit.count} of {limit.failed} failed cells break one limit of {limit.model} "
        f"({limit.finding.rule}: {limit.finding.message}). The check fails until you name the model that the "
        f"adapter is made for: {first} or {second}."
    )
    return replace(again, check=replace(again.check or CheckResult(), model_note=note))


def accepting_model(execution: Execution, workers: WorkerPool, cell: CellResult, finding: Finding) -> str | None:
    """Return another model with which the scenario of a cell does not exceed the limit of a finding, or `None`.

    A model whose limits are not exceeded at all is preferred.
    """
    target, model = cell.target, cell.provenance.model_requested if cell.provenance else None
    second: str | None = None
    for other in other_models(cell.api, model or ""):
        options = replace(execution.options, models=[f"{target}={other}"], paths=[cell.scenario])
        trial = replace(execution, options=options, check=None).result(workers)
        ran = [each for each in trial.cells if each.target == target and each.verdict is not Verdict.NOT_APPLICABLE]
        if ran and not any(each.rule == finding.rule for cell in ran for each in cell.findings):
            if not any(map(exceeded_limit, ran)):
                return other
            second = second or other
    return second


def _hiding_limit(result: RunResult) -> _HidingLimit | None:
    failed = [cell for cell in result.cells if cell.verdict is Verdict.FAIL]
    broken = [(cell, finding) for cell in failed if (finding := exceeded_limit(cell)) is not None]
    if not broken:
        return None
    rule, count = Counter(finding.rule for _, finding in broken).most_common(1)[0]
    cell, finding = next(each for each in broken if each[1].rule == rule)
    model = cell.provenance.model_requested if cell.provenance else None
    if model is None or count < max(_MIN_CELLS, _MIN_SHARE * len(failed)):
        return None
    return _HidingLimit(finding, cell, model, count, len(failed))


def exceeded_limit(cell: CellResult) -> Finding | None:
    """Return the first limit of the provider that the requests of a cell exceed."""
    return next(
        (
            finding
            for finding in cell.findings
            if (finding.kind, finding.severity) == (Kind.LIMIT, Severity.ERROR)
            and finding.blame in (Blame.ADAPTER, Blame.CLIENT)
        ),
        None,
    )


def other_models(api: str, model: str) -> Iterator[str]:
    """Yield one current model for each other profile of the API: the one with the longest context."""
    wire = registry.api(api)
    own = wire.profile_for(model).name
    known = [each for each in models(api) if not each.deprecated and each.context]
    for profile in wire.profiles:
        of_profile = [each for each in known if each.profile == profile.name != own]
        if of_profile:
            yield max(of_profile, key=lambda each: each.context or 0).id
