"""`--generate`: run generated conversations, and save the smallest that shows each fault."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import typer
import yaml

from harness.checks.generation import MAX_SLOW_CONVERSATIONS, SlowConversations, name_conversations, search
from harness.cli.execution import cell_time_limit, environment, expected_failures_of, run_and_report
from harness.cli.options import GenerateOptions
from harness.cli.selection import select
from harness.cli.settings import EffectiveOptions, complete_options
from harness.model.errors import UsageError
from harness.reports.words import count
from harness.results import CellResult
from harness.rules.rule import all_rules
from harness.runner.backends import GeneratedBackend
from harness.runner.cells import Cell
from harness.runner.suite_run import Run, variants
from harness.scenarios.schema import Scenario
from harness.stdio.workers import WorkerPool

FOLDER = "generated"
"""Folder of saved conversations, if `--save` names none."""


def is_generated(args: GenerateOptions) -> bool:
    """Return whether a command runs generated conversations.

    Raises:
        UsageError: `--seed` or `--save` is used without `--generate`, or `--generate` with another mode than
            `reference`.
    """
    if args.generate is None:
        for name, given in {"--seed": args.seed, "--save": args.save}.items():
            if given is not None:
                raise UsageError(f"{name}: it is for generated conversations: add --generate N.")
        return False
    if getattr(args, "mode", None) not in (None, "reference"):
        raise UsageError("--generate: works only with the reference server: leave --mode out.")
    return True


def generate(options: EffectiveOptions, model: str | None = None, *, every: bool = False) -> int:
    """Search for faults of the chosen targets, save a scenario for each, and report them as a run does.

    Without `every`, only the first target is searched, unless the options name targets. `model` replaces the model of
    the first target.

    Raises:
        UsageError: A scenario cannot be written.
    """
    number, seed, folder = options.generate or 0, options.seed or 0, options.save
    options = complete_options(options, "reference")
    files: list[Path] = []
    with environment("reference"), WorkerPool(cell_time_limit(options, "reference"), offline=True) as workers:
        chosen = select(options, workers)
        if model is not None:
            options = replace(options, models=[f"{chosen.targets[0].name}={model}"])
            chosen = select(options, workers)
        targets = chosen.targets if options.targets or every else chosen.targets[:1]
        recutting = replace(options, recuts=max(options.recuts, RECUTS))
        ways = [generated_run(options, range(number, number + 1)) for number in range(recutting.recuts)]
        with contextlib.ExitStack() as stack:
            runners = [partial(_run_generated, stack.enter_context(run)) for run in (generated_run(options), *ways)]
            for target in targets:
                names, slow = variants(options.variants or (), "--variant"), SlowConversations()
                database = Path(folder or FOLDER) / ".hypothesis" / target.name
                found = search(target, number, seed, [*map(slow.count_slow, runners)], names, database)
                causes = f"{count(len(found), 'cause')} of failures"
                played = ("fewer than " if slow.are_too_many else "") + count(number, "conversation")
                typer.echo(f"{target.name}: {played}, {causes} (seed {seed})")
                if slow.are_too_many:
                    typer.echo(
                        f"Stopped early: {MAX_SLOW_CONVERSATIONS} conversations reached a cell's limit of time or "
                        "requests."
                    )
                files += [
                    write(Path(folder or FOLDER) / target.name, scenario) for scenario in name_conversations(found)
                ]
    if not files:
        return 0
    typer.echo(f"The smallest conversation of each cause is in {folder or FOLDER} (--recut {recutting.recuts}):")
    names = [target.cassettes.partition("@")[0] for target in targets]
    return run_and_report(replace(recutting, paths=[*map(str, files)], targets=names, words=None), "reference")


RECUTS = 14
"""Number of ways to split the streams of generated conversations: those with a name, and some at random."""


def _run_generated(run: Run, cell: Cell) -> CellResult:
    return run([cell], jobs=1).cells[0]


def generated_run(options: EffectiveOptions, recuts: Sequence[int] | None = None) -> Run:
    """Return a run for conversations that are not in a file, with the given recuts or those of the options."""
    return Run(
        GeneratedBackend(),
        all_rules(),
        expected=expected_failures_of(options),
        recuts=options.recuts if recuts is None else recuts,
        strict=bool(options.strict),
        scope=options.scope,
    )


def text_of(scenario: Scenario) -> str:
    """Return a scenario as the YAML text of a scenario file."""
    document = scenario.model_dump(mode="json", exclude_unset=True, by_alias=True)
    layout: Any = {"sort_keys": False, "allow_unicode": True, "width": 110}
    return str(cast("Any", yaml).dump(document, Dumper=_PlainDumper, **layout))


def write(folder: Path, scenario: Scenario) -> Path:
    """Write a scenario into a folder, and return its file."""
    path = folder / f"{scenario.id}.yaml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text_of(scenario), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--save: {path} cannot be written: {error.strerror}.") from error
    return path


_LONGEST_IN_FLOW = 70


class _PlainDumper(yaml.SafeDumper):
    """A dumper without aliases, which scenario files do not allow, and with escapes for Unicode's line separators.

    Short collections are in flow style, each on one line.
    """

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the same for all values
        return True

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> yaml.SequenceNode:
        """See `yaml.SafeDumper.represent_sequence`."""
        return super().represent_sequence(tag, sequence, self._is_short(sequence) if flow_style is None else flow_style)

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> yaml.MappingNode:
        """See `yaml.SafeDumper.represent_mapping`."""
        return super().represent_mapping(tag, mapping, self._is_short(mapping) if flow_style is None else flow_style)

    def _is_short(self, data: Any) -> bool:
        return len(json.dumps(data, ensure_ascii=False)) <= _LONGEST_IN_FLOW

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """See `yaml.SafeDumper.represent_str`."""
        style = '"' if re.search("[\x85\u2028\u2029\ufeff]", data) else None
        return super().represent_scalar("tag:yaml.org,2002:str", data, style)  # pyright: ignore[reportUnknownMemberType]


_PlainDumper.add_representer(str, _PlainDumper.represent_str)
