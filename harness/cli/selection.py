"""What a run is made of: scenarios, targets and their cells, from what was typed."""

from __future__ import annotations

import ast
import asyncio
import difflib
import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness import catalog
from harness.apis.targets import Target, targets_for
from harness.cli.options import Options, edition, named_values
from harness.contract import distribution
from harness.contract.errors import MissingDependency, UsageError
from harness.contract.protocols import Adapter, Endpoint
from harness.host.environment import is_installed
from harness.kit.processes import LocalRunner
from harness.running.cells import Cell, cells
from harness.running.plan import variants
from harness.scenarios import suite
from harness.scenarios.load import load_files, scenario_files
from harness.scenarios.schema import Scenario, Subject, Variant
from harness.stdio.workers import WorkerPool

_NOWHERE = Endpoint("http://127.0.0.1:9", "not-a-key", processes=LocalRunner())  # for a client that does nothing


@dataclass(frozen=True)
class Selection:
    """The cells of a run.

    `variants` are those that were asked for. `files` names the files of scenarios that are not shipped ones, `words`
    what selects a target again that is not simply `--target` and its name. `left_out` says of default targets why they
    cannot be played here.
    """

    cells: Sequence[Cell]
    variants: Sequence[Variant]
    files: Mapping[str, str]
    words: Mapping[str, tuple[str, ...]]
    left_out: Mapping[str, str]

    @cached_property
    def targets(self) -> list[Target]:
        """The targets of the cells."""
        return list({cell.target.name: cell.target for cell in self.cells}.values())


def select(options: Options, workers: WorkerPool) -> Selection:
    """The cells that the options ask for, with the adapters that are not ours in `workers`.

    Raises:
        UsageError: an option is wrong, or they leave no cell to play.
    """
    wanted = parse_keywords(options.words) if options.words is not None else None
    models = {**options.default_models, **named_values("--model", options.models, "NAME")}
    asked = _variants(options)
    found, files = _files_of(options.paths)
    scenarios: Sequence[Scenario] = load_files(found) if wanted is None else ()
    targets, specs, left_out = _targets(options, models, workers)
    if wanted is not None:
        scenarios = load_files(_worth_reading(found, wanted, targets))
    every = cells(scenarios, targets, asked)
    if scenarios and not every:
        raise UsageError(
            f"--variant {asked[0]}: none of the chosen scenarios is played so. Each says under 'variants' how it "
            "is played, and 'harness list scenarios' shows it."
        )
    chosen = every if wanted is None else [cell for cell in every if wanted.match(described(cell))]
    if not chosen:
        raise UsageError(
            f"-k {options.words!r} matches no cell of the chosen scenarios and targets. "
            "'harness list scenarios' shows their names and subjects."
        )
    words = {target.name: _words(target, specs[target.adapter.name], models) for target in targets}
    special = {name: given for name, given in words.items() if given != ("--target", name)}
    return Selection(chosen, asked, files, special, left_out)


def _variants(options: Options) -> list[Variant]:
    chosen = variants(options.variants or (), "--variant")
    if options.recuts and "stream" not in chosen:
        raise UsageError("--recut: it is for streamed answers: add --variant stream, or leave --variant out.")
    return chosen


def described(cell: Cell) -> str:
    """What the words of `-k` are looked for in."""
    return " ".join([cell.scenario.id, cell.target.name, *cell.scenario.covers])


def _worth_reading(files: Sequence[Path], wanted: Keywords, targets: Sequence[Target]) -> Sequence[Path]:
    """The files of which `-k` may choose a cell: a scenario has its file's name. Where a word may be a subject's, that
    is all of them."""
    if any(word in subject for word in wanted.words.values() for subject in Subject):
        return files
    return [file for file in files if any(wanted.match(f"{file.stem} {target.name}") for target in targets)]


def scenarios_of(paths: Sequence[str] | None) -> tuple[list[Scenario], dict[str, str]]:
    """The scenarios that were named, all shipped ones if none were, and the files of those that are not shipped.

    Raises:
        UsageError: there is no such file or scenario, or one cannot be read.
    """
    found, files = _files_of(paths)
    return load_files(found), files


def _files_of(paths: Sequence[str] | None) -> tuple[list[Path], dict[str, str]]:
    """The files of these scenarios, and of those that are not shipped by their ids."""
    shipped = {file.stem: file for file in suite.shipped("scenarios").glob("*.yaml")}
    if not paths:
        return scenario_files([suite.shipped("scenarios")]), {}
    chosen: list[Path] = []
    for given in paths:
        if given == suite.SHIPPED:
            chosen.append(suite.shipped("scenarios"))
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
    options: Options, models: Mapping[str, str], workers: WorkerPool
) -> tuple[list[Target], dict[str, str], dict[str, str]]:
    """The targets, what names their adapters on the command line, and the targets that are left out."""
    names = list(dict.fromkeys(options.targets or ()))
    chosen = [catalog.target(name) for name in names] or list(catalog.shipped_targets())
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
        left_out |= {each.name: f"it speaks {each.api}, and --target chooses another API" for each in others.values()}
        adapters = {spec: adapter for spec, adapter in adapters.items() if spec not in others}
    by = edition(options.as_of, options.facts)
    targets = targets_for(list(adapters.values()), names, models, by, optional=options.default_models.keys())
    return targets, {adapter.name: spec for spec, adapter in adapters.items()}, left_out


def _without_sdk(adapters: Mapping[str, Adapter]) -> dict[str, str]:
    """The adapters whose SDK is not installed, and what they say about it. One that is there is not imported: that
    takes as long as to play hundreds of cells, and each process imports those of the cells that it plays.

    Raises:
        UsageError: there is no other one.
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
            f"{distribution.install('all')} (in a checkout: pip install -e '.[all]')"
        )
    return absent


def _words(target: Target, spec: str, models: Mapping[str, str]) -> tuple[str, ...]:
    shipped = catalog.target(target.cassettes.partition("@")[0])
    adapter = () if spec == shipped.adapter else catalog.option_for(spec)
    named = next((name for name in (target.name, shipped.name) if name in models), None)
    model = () if named is None else ("--model", f"{named}={models[named]}")
    return (*adapter, "--target", shipped.name, *model)


@dataclass(frozen=True, slots=True)
class Keywords:
    """An expression of `-k`, as Python reads it with each word replaced by a name; `words` are by column."""

    tree: ast.expr
    words: Mapping[int, str]

    def match(self, text: str) -> bool:
        """Return whether it holds for a text. Case does not count."""
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


def parse_keywords(expression: str) -> Keywords:
    """Read an expression: words with `and`, `or`, `not` and parentheses, each word a part of a name.

    Raises:
        UsageError: it is wrong; the message has the column.
    """
    text = expression.strip().lower()
    words = {each.start(): each[0] for each in _WORD.finditer(text)}
    try:
        tree = ast.parse(re.sub(r"\s", " ", _WORD.sub(lambda each: "_".ljust(len(each[0])), text)), mode="eval").body
        if any(isinstance(node, ast.Call | ast.Tuple) for node in ast.walk(tree)):  # `word (word)` and `()`
            raise SyntaxError  # noqa: TRY301 - as Python does of the others
        found = Keywords(tree, words)
        found.match("")
    except (SyntaxError, RecursionError, MemoryError) as error:
        said = str(error)
        column = (getattr(error, "offset", 0) or len(text) + 1) + len(expression) - len(expression.lstrip())
        reason = next((reason for word, reason in _REASONS.items() if word in said), "'and', 'or' or a word is missing")
        raise UsageError(
            f"-k {expression!r}: column {column}: {reason}. "
            "An expression is made of words, 'and', 'or', 'not' and parentheses, as in \"json and not gemini\"."
        ) from None
    return found


_REASONS = {
    "never closed": "this parenthesis is not closed",
    "unmatched": "this parenthesis was not opened",
    "too many": "it is nested too deeply",
    "recursion": "it is nested too deeply",
}
