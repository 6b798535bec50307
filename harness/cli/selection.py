"""Selection of scenarios, targets and cells by a run's options, including `-k` and `--last-failed`."""

from __future__ import annotations

import ast
import asyncio
import difflib
import inspect
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias, cast

from harness.apis import registry
from harness.apis.registry import Target, targets_for
from harness.apis.response_rules import Subject
from harness.cli.main import print_error
from harness.cli.settings import EffectiveOptions, fact_options, named_values
from harness.kit.client import LocalRunner
from harness.model import errors
from harness.model.errors import MissingDependency, UsageError
from harness.model.protocols import Adapter, Endpoint
from harness.platform import files
from harness.platform.environment import is_installed
from harness.platform.files import SHIPPED, read_file, shipped_folder
from harness.reports.words import count
from harness.results import CellResult, Mode, Verdict
from harness.runner.cells import Cell, cells
from harness.runner.hand_over import CASE_SCENARIOS, hand_over_cells
from harness.runner.suite_run import variants
from harness.scenarios.load import load_files, scenario_files
from harness.scenarios.schema import Scenario, Variant
from harness.stdio import adapter_specs
from harness.stdio.workers import WorkerPool

_NOWHERE = Endpoint("http://127.0.0.1:9", "not-a-key", processes=LocalRunner())  # these clients send nothing


@dataclass(frozen=True)
class Selection:
    """The cells of a run.

    `files` maps the ids of the user's own scenarios to their files. `words` maps target names to the options that
    select them. It may omit targets that `--target NAME` selects. `left_out` has the reason for each default target
    that cannot run.
    """

    cells: Sequence[Cell]
    variants: Sequence[Variant]
    files: Mapping[str, str]
    words: Mapping[str, tuple[str, ...]]
    left_out: Mapping[str, str]

    @cached_property
    def targets(self) -> list[Target]:
        """Return the targets of the cells."""
        return list({cell.target.name: cell.target for cell in self.cells}.values())


def select(options: EffectiveOptions, workers: WorkerPool, *, live: bool = False) -> Selection:
    """Return the cells that the options select. Third-party adapters run in `workers`.

    Live hand-overs are only between the selected targets, because each needs a key.

    Raises:
        UsageError: an option is wrong, or no cell is selected.
    """
    if options.hand_over:
        return _hand_overs(options, workers, live=live)
    wanted = parse_keywords(options.words) if options.words is not None else None
    models = {**options.default_models, **named_values("--model", options.models, "NAME")}
    variants = _variants(options)
    found, files = _files_of(options.paths)
    scenarios: Sequence[Scenario] = load_files(found) if wanted is None else ()
    targets, specs, left_out = _targets(options, models, workers)
    if wanted is not None:
        scenarios = load_files(_possible_files(found, wanted, targets))
    every = cells(scenarios, targets, variants)
    if scenarios and not every:
        raise UsageError(
            f"--variant {variants[0]}: none of the chosen scenarios has this variant. 'harness list scenarios' shows "
            "the variants of each."
        )
    chosen = every if wanted is None else [cell for cell in every if wanted.match(searched_text(cell))]
    if not chosen:
        raise UsageError(
            f"-k {options.words!r} matches no cell of the chosen scenarios and targets. "
            "'harness list scenarios' shows their names and features."
        )
    words = {target.name: _words(target, specs[target.adapter.name], models) for target in targets}
    special = {name: given for name, given in words.items() if given != ("--target", name)}
    return Selection(chosen, variants, files, special, left_out)


def _hand_overs(options: EffectiveOptions, workers: WorkerPool, *, live: bool) -> Selection:
    """Return the selection for `--hand-over`: a cell for each hand-over between a selected target and any other.

    Without paths, only the scenarios of the shipped hand-over cases are used. `Selection.files` maps the scenario id of
    each cell to the file or id that selects it.

    Raises:
        UsageError: an option is wrong, or no cell is selected.
    """
    models = {**options.default_models, **named_values("--model", options.models, "NAME")}
    targets, specs, left_out = _targets(options, models, workers)
    others = targets
    if (options.adapters or options.targets) and not live:
        others, _, absent = _targets(replace(options, adapters=None, targets=None, models=None), {}, workers)
        left_out = {**absent, **left_out}
    found, files = _files_of(options.paths)
    used = found if options.paths else [file for file in found if file.stem in CASE_SCENARIOS]
    wanted = parse_keywords(options.words) if options.words is not None else None
    chosen_variants = variants(options.variants or ("whole",), "--variant")
    every = hand_over_cells(load_files(used), targets, others, chosen_variants)
    chosen = [cell for cell in every if wanted is None or wanted.match(searched_text(cell))]
    if not chosen:
        reasons = "".join(f" {name} is left out: {reason}" for name, reason in left_out.items())
        raise UsageError(
            f"--hand-over: -k, the scenarios and the targets select no pair of targets. Leave out one of them.{reasons}"
        )
    words = {target.name: _words(target, specs[target.adapter.name], models) for target in targets}
    starts = {cell.scenario.id: files.get(cell.start.id, cell.start.id) for cell in chosen}
    return Selection(chosen, chosen_variants, starts, words, left_out)


def _variants(options: EffectiveOptions) -> list[Variant]:
    chosen = variants(options.variants or (), "--variant")
    if options.recuts and "stream" not in chosen:
        raise UsageError("--recut: it applies to streamed answers: add --variant stream, or leave --variant out.")
    return chosen


def searched_text(cell: Cell) -> str:
    """Return the text in which `-k` searches for its words."""
    return " ".join([cell.scenario.id, cell.target.name, *cell.scenario.covers])


def _possible_files(files: Sequence[Path], wanted: KeywordExpression, targets: Sequence[Target]) -> Sequence[Path]:
    """Return the files of scenarios that `-k` may select, judging by the names of files and targets. If a word may
    match a subject, return all files, because only their content shows the subjects.
    """
    if any(word in subject for word in wanted.words.values() for subject in Subject):
        return files
    return [file for file in files if any(wanted.match(f"{file.stem} {target.name}") for target in targets)]


def scenarios_of(paths: Sequence[str] | None) -> tuple[list[Scenario], dict[str, str]]:
    """Return the named scenarios, or all shipped ones, and a mapping from ids to files for scenarios that are not
    shipped.

    Raises:
        UsageError: there is no such file or scenario, or one cannot be read.
    """
    found, files = _files_of(paths)
    return load_files(found), files


def _files_of(paths: Sequence[str] | None) -> tuple[list[Path], dict[str, str]]:
    shipped = {file.stem: file for file in shipped_folder("scenarios").glob("*.yaml")}
    if not paths:
        return scenario_files([shipped_folder("scenarios")]), {}
    chosen: list[Path] = []
    for given in paths:
        if given == SHIPPED:
            chosen.append(shipped_folder("scenarios"))
            continue
        path = Path(given)
        if not path.exists() and given not in shipped:
            close = difflib.get_close_matches(given, shipped, n=1)
            guess = f" Did you mean {close[0]!r}?" if close else ""
            raise UsageError(
                f"{given}: there is no such file or folder, and no shipped scenario has this id.{guess} "
                "'harness list scenarios' shows them."
            )
        chosen.append(path if path.exists() else shipped[given])
    files, ours = scenario_files(chosen), frozenset(shipped.values())
    return files, {file.stem: str(file) for file in files if file not in ours}


def _targets(
    options: EffectiveOptions, models: Mapping[str, str], workers: WorkerPool
) -> tuple[list[Target], dict[str, str], dict[str, str]]:
    """Return the targets, the command-line names of their adapters, and the omitted targets."""
    spoken = {workers.adapter(spec).api for spec in options.adapters or ()}
    names = registry.target_names(options.targets or (), spoken or {each.name for each in registry.apis()})
    chosen = [registry.target_named(name) for name in names] or list(registry.shipped_targets())
    specs = list(dict.fromkeys(options.adapters or [shipped.adapter for shipped in chosen]))
    adapters = {spec: workers.adapter(spec) for spec in specs}
    left_out: dict[str, str] = {**options.left_out}
    if not options.adapters and not names:
        absent = _without_sdk(adapters)
        left_out |= {shipped.name: absent[shipped.adapter] for shipped in chosen if shipped.adapter in absent}
        adapters = {spec: adapter for spec, adapter in adapters.items() if spec not in absent}
        names = [shipped.name for shipped in chosen if shipped.name not in left_out]
    apis = {shipped.api for shipped in chosen}
    others = {spec: adapter for spec, adapter in adapters.items() if names and adapter.api not in apis}
    if len(others) < len(adapters):
        left_out |= {each.name: f"it speaks {each.api}, and --target selects another API" for each in others.values()}
        adapters = {spec: adapter for spec, adapter in adapters.items() if spec not in others}
    by = fact_options(options.as_of, options.facts)
    targets = targets_for(list(adapters.values()), names, models, by, optional=options.default_models.keys())
    return targets, {adapter.name: spec for spec, adapter in adapters.items()}, left_out


def _without_sdk(adapters: Mapping[str, Adapter]) -> dict[str, str]:
    """Return the adapters whose SDK is not installed, with the reason. Installed SDKs are not imported.

    Raises:
        UsageError: no SDK is installed.
    """
    absent: dict[str, str] = {}
    for spec, adapter in adapters.items():
        if adapter.requires is not None and adapter.requires.extra is not None and is_installed(adapter.requires):
            continue
        try:
            client = adapter.connect(_NOWHERE, "none")
        except MissingDependency as error:
            absent[spec] = str(error)
        else:
            closing = client.close()
            if inspect.iscoroutine(closing):
                asyncio.run(closing)
    if len(absent) == len(adapters):
        raise UsageError(
            "none of the SDKs that the shipped adapters need is installed. Install one or all, as in: "
            f"{errors.install_command('all')} (in a checkout: pip install -e '.[all]')"
        )
    return absent


def _words(target: Target, spec: str, models: Mapping[str, str]) -> tuple[str, ...]:
    shipped = registry.target_named(target.cassettes.partition("@")[0])
    adapter = () if spec == shipped.adapter else adapter_specs.option_for(spec)
    named = next((name for name in (target.name, shipped.name) if name in models), None)
    model = () if named is None else ("--model", f"{named}={models[named]}")
    return (*adapter, "--target", shipped.name, *model)


@dataclass(frozen=True, slots=True)
class KeywordExpression:
    """Parsed expression of `-k`. In `tree`, a placeholder replaces each word. `words` maps the columns of the
    placeholders to the words.
    """

    tree: ast.expr
    words: Mapping[int, str]

    def match(self, text: str) -> bool:
        """Return whether the text matches, ignoring case."""
        return self._holds(self.tree, text.lower())

    def _holds(self, node: ast.expr, text: str) -> bool:
        match node:
            case ast.BoolOp(op=ast.And()):
                return all(self._holds(each, text) for each in node.values)
            case ast.BoolOp():
                return any(self._holds(each, text) for each in node.values)
            case ast.UnaryOp():
                return not self._holds(node.operand, text)
            case _:
                return self.words[node.col_offset] in text


_WORD = re.compile(r"(?<![^\s()])(?!(?:and|or|not)(?![^\s()]))[^\s()]+")


def parse_keywords(expression: str) -> KeywordExpression:
    """Parse an expression of words, `and`, `or`, `not` and parentheses. A word matches any part of a name.

    Raises:
        UsageError: the syntax is wrong; the message has the column.
    """
    text = expression.strip().lower()
    words = {each.start(): each[0] for each in _WORD.finditer(text)}
    try:
        tree = ast.parse(re.sub(r"\s", " ", _WORD.sub(lambda each: "_".ljust(len(each[0])), text)), mode="eval").body
        if any(isinstance(node, ast.Call | ast.Tuple) for node in ast.walk(tree)):  # `word (word)` and `()`
            raise SyntaxError  # noqa: TRY301 - as Python does for other syntax errors
        found = KeywordExpression(tree, words)
        found.match("")
    except (SyntaxError, RecursionError, MemoryError) as error:
        message = str(error)
        column = (getattr(error, "offset", 0) or len(text) + 1) + len(expression) - len(expression.lstrip())
        reason = next(
            (reason for word, reason in _REASONS.items() if word in message), "'and', 'or' or a word is missing"
        )
        raise UsageError(
            f"-k {expression!r}: column {column}: {reason}. "
            "An expression consists of words, 'and', 'or', 'not' and parentheses, as in \"json and not gemini\"."
        ) from None
    return found


_REASONS = {
    "never closed": "this parenthesis is not closed",
    "unmatched": "this parenthesis was not opened",
    "too many": "it is nested too deeply",
    "recursion": "it is nested too deeply",
}


_FILE = Path(".harness") / "last-failed.json"
_MAX_FILE_BYTES = 16 << 20
_FAILED = (Verdict.FAIL, Verdict.ERROR)

_Key: TypeAlias = tuple[str, str, str]


class LastFailed:
    """Cells of a project that failed when they last ran in one mode, for `--last-failed`."""

    def __init__(self, project: Path, mode: Mode) -> None:
        self._path = project / _FILE
        self._mode = mode

    def choose(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        """Return the cells that failed when they last ran, or all cells if none failed. Print a message about the
        choice.
        """
        failed = self._failed_cells().get(self._mode, set())
        again = [cell for cell in cells if cell.key in failed]
        if again:
            print_error(f"--last-failed: {len(again)} of {count(len(cells), 'cell')}, which failed when last run.")
            return again
        none = "none of these cells failed when it was last run" if failed else "no failure is known here"
        print_error(f"--last-failed: {none}; {count(len(cells), 'cell')} to run.")
        return cells

    def store(self, done: Iterable[CellResult]) -> None:
        """Store which of the finished cells have failed. Cells without a cassette keep their state."""
        known = self._failed_cells()
        before = known.get(self._mode, set[_Key]())
        after = set(before)
        for cell in done:
            if cell.verdict in _FAILED:
                after.add(cell.key)
            elif cell.verdict is not Verdict.MISSING:
                after.discard(cell.key)
        if after == before:
            return
        known[self._mode] = after
        pieces = json.JSONEncoder(indent=1).iterencode({mode: sorted(keys) for mode, keys in known.items()})
        try:
            self._path.parent.mkdir(exist_ok=True)
            ignoring = self._path.parent / ".gitignore"
            if not ignoring.exists():
                ignoring.write_text("*\n")
            files.replace_file(self._path, (piece.encode() for piece in chain(pieces, ["\n"])))
        except OSError as error:
            print_error(f"harness: {self._path}: {error.strerror}: failures are not stored for --last-failed.")

    def _failed_cells(self) -> dict[str, set[_Key]]:
        try:
            document: Any = json.loads(read_file(self._path, _MAX_FILE_BYTES))
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(document, dict):
            return {}
        return {mode: set(_keys(each)) for mode, each in cast("dict[str, Any]", document).items()}


def _keys(found: Any) -> Iterable[_Key]:
    for each in cast("list[Any]", found) if isinstance(found, list) else ():
        match each:
            case [str(scenario), str(target), str(variant)]:
                yield scenario, target, variant
            case _:
                pass
