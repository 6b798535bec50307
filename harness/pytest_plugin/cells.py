"""Cells as pytest items. `harness.pytest_plugin` loads it when scenarios are configured.

An item fails with findings, or when nobody could look since its cassette is missing; it is skipped where the scenario
is not applicable, and xfails where an expected failure happens. One that does not happen fails the items it speaks of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from harness import catalog
from harness.apis.facts import Edition
from harness.apis.targets import targets_for
from harness.contract.errors import HarnessError, ScenarioError, UnknownName, UsageError
from harness.contract.protocols import Adapter
from harness.host.project import Project, project
from harness.pytest_plugin.edition import edition
from harness.reports._words import CRASHED, place, plain_line, short, what_to_do
from harness.results import CellResult, Finding, Invocation, RunResult, StaleExpectation, Verdict
from harness.running.cells import cells
from harness.running.expected_failures import load
from harness.running.findable import findable
from harness.running.judging import Judged
from harness.running.plan import Plan, cell_seconds, variants
from harness.running.run import Run
from harness.running.scopes import scope
from harness.running.stages import Cell
from harness.running.workers.pool import Workers
from harness.scenarios import suite
from harness.scenarios.load import SUFFIXES, load_file, scenario_files
from harness.tape.library import Library

_SESSION = pytest.StashKey["Played"]()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Read the configuration, and look for scenarios wherever pytest looks for tests by default."""
    config = session.config
    try:
        config.stash[_SESSION] = played = Played(config)
    except HarnessError as error:
        raise pytest.UsageError(str(error)) from None
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        config.args.extend(str(path) for path in played.scenarios if str(path) not in config.args)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """The files of facts by which is judged, and what is ignored, if there is any."""
    played = config.stash[_SESSION]
    files, ignored = played.edition.files, played.ignored
    said = [f"harness: judged by the facts of {', '.join(map(str, files))}"] if files else []
    return [*said, f"harness: findings of these rules are ignored: {', '.join(ignored)}"] if ignored else said


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the scenario files of the configured folders."""
    played = parent.config.stash[_SESSION]
    if file_path.suffix in SUFFIXES and any(file_path.is_relative_to(path) for path in played.scenarios):
        return ScenarioFile.from_parent(parent, path=file_path)  # pyright: ignore[reportUnknownMemberType]
    return None


class ScenarioFile(pytest.File):
    """A scenario file: a collector of cells."""

    def collect(self) -> Iterator[pytest.Item]:
        """One item for each target and variant."""
        try:
            scenario = load_file(self.path)
        except ScenarioError as error:
            raise self.CollectError(str(error)) from None
        played = self.config.stash[_SESSION]
        for cell in cells([scenario], played.targets, played.variants):
            name = f"{cell.target.name}[{cell.variant}]"
            yield CellItem.from_parent(self, name=name, cell=cell)  # pyright: ignore[reportUnknownMemberType]


class CellItem(pytest.Item):
    """A cell to be played. `-k` also matches what the scenario covers."""

    def __init__(self, *, cell: Cell, **kwargs: Any) -> None:
        super().__init__(**kwargs)  # pyright: ignore[reportUnknownMemberType]
        self.cell = cell
        self.extra_keyword_matches.update(subject.value for subject in cell.scenario.covers)

    def runtest(self) -> None:
        """Play the cell, and end as its verdict says."""
        try:
            judged = self.config.stash[_SESSION].run.play_cell(self.cell)
        except HarnessError as error:
            pytest.fail(str(error), pytrace=False)
        result = judged.result
        self.user_properties.append(("verdict", result.verdict.value))
        if result.provenance is not None:
            self.user_properties.append(("responses_from", result.provenance.recorded_from or result.provenance.origin))
        self.user_properties += (("facts", str(file)) for file in self.config.stash[_SESSION].edition.files)
        self.user_properties += ((f"ignored: {rule}", str(number)) for rule, number in result.hidden.items())
        if result.printed:
            self.add_report_section("call", "printed by the adapter", result.printed)
        if result.traceback:
            self.add_report_section("call", "traceback of the adapter", result.traceback)
        self._end(result, self._stale(judged))

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where it comes from, for reports."""
        return self.path, None, f"{self.cell.scenario.id} on {self.name}"

    def _end(self, result: CellResult, stale: Iterable[StaleExpectation]) -> None:
        played = self.config.stash[_SESSION]
        problems = [_stale_text(entry) for entry in stale]
        match result.verdict:
            case Verdict.NOT_APPLICABLE:
                pytest.skip(f"not applicable: {result.reason}")
            case Verdict.MISSING:
                problems.append(f"could not look: {result.reason}\n{played.ways_out(self.cell, self.path)}")
            case Verdict.ERROR | Verdict.FAIL:
                broken = [f"{result.reason}\n  to do:    {CRASHED}"] if result.verdict is Verdict.ERROR else []
                problems += [*broken, *findings_texts(result)]
            case Verdict.EXPECTED_FAILURE if not problems:
                pytest.xfail(result.reason or "")
            case _:
                if result.findings:
                    self.add_report_section("call", "harness findings", "\n\n".join(findings_texts(result)))
        if problems:
            pytest.fail("\n\n".join(problems), pytrace=False)

    def _stale(self, judged: Judged) -> list[StaleExpectation]:
        """An entry may speak of several cells: it is stale when none of those in the session shows its finding."""
        played = self.config.stash[_SESSION]
        alone = played.run.collect([judged]).stale
        return [entry for entry in alone if entry in played.whole(self.session).stale] if alone else []


class Played:
    """What the cells of a session share: the configuration, and the run of all of them.

    Raises:
        UsageError: an option is wrong.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        own = project(config.rootpath)
        self.scenarios = _scenarios(config, own)
        self._specs: list[str] = config.getini("harness_adapters") or [
            *own.adapters,
            *(f"{catalog.MARK}{command}" for command in own.adapter_commands),
        ]
        self.edition = edition(config, own)
        self._workers = Workers(_seconds(config), offline=True)
        config.add_cleanup(self._workers.close)
        names: Sequence[str] = config.getini("harness_targets") or own.targets
        self._by_spec = _adapters(self._specs, names, self._workers)
        self.targets = targets_for(list(self._by_spec.values()), names, own.models, self.edition)
        self.variants = variants(config.getini("harness_variants") or own.variants, "harness_variants")
        self.ignored = own.ignore
        self._plan = _plan(config, self.edition, own, self.scenarios)
        self._whole: RunResult | None = None

    @cached_property
    def run(self) -> Run:
        """Plays cells; it stays open until the session ends."""
        stack = ExitStack()
        self._config.add_cleanup(stack.close)
        return stack.enter_context(self._plan.run(self.targets))

    def whole(self, session: pytest.Session) -> RunResult:
        """All cells of the session as one run, played when it is first asked for."""
        if self._whole is None:
            cells = [item.cell for item in session.items if isinstance(item, CellItem)]
            self._whole = self.run.collect([replace(self.run.play_cell(cell), evidence=None) for cell in cells])
        return self._whole

    def ways_out(self, cell: Cell, file: Path) -> str:
        """The commands that record a cell, or play it without a recording."""
        own = [spec for spec in self._specs if self._by_spec[spec] is cell.target.adapter]
        words = ("--target", cell.target.cassettes, *(word for spec in own for word in ("--adapter", spec)))
        call = Invocation(scenarios={cell.scenario.id: str(file)}, targets={cell.target.name: words})
        folders: list[Path] = self._config.getini("harness_cassettes")
        record = (*call.record, "--cassettes", str(folders[0])) if folders else call.record
        commands = [
            call.command([*start, "--variant", cell.variant], [cell.target.name], [cell.scenario.id])
            for start in (record, call.reference)
        ]
        return f"  record it:          {commands[0]}\n  or play it without: {commands[1]}"


def _adapters(specs: Sequence[str], targets: Sequence[str], workers: Workers) -> dict[str, Adapter]:
    wanted = specs or [
        shipped.adapter for shipped in (map(catalog.target, targets) if targets else catalog.shipped_targets())
    ]
    return {spec: workers.adapter(spec) for spec in wanted}


def _recuts(config: pytest.Config) -> int:
    try:
        recuts: int = config.getini("harness_recut")
    except pytest.UsageError:  # which says what is wrong, and not of what
        recuts = -1
    if recuts < 0:
        raise UsageError("harness_recut: it has to be a whole number from 0 on.")
    return recuts


def _seconds(config: pytest.Config) -> float:
    given: str = config.getini("harness_cell_timeout")
    try:
        seconds = float(given) if given else None
    except ValueError:
        seconds = 0.0
    return cell_seconds(seconds, f"harness_cell_timeout {given}")


def _scenarios(config: pytest.Config, own: Project) -> tuple[Path, ...]:
    """Files and folders: those that are configured, or the project's. Raises `ScenarioError`: one is not there."""
    given: list[Path] = config.getini("harness_scenarios")
    for path in given:
        if not path.exists():
            raise ScenarioError(str(path), "harness_scenarios names it, and there is no such file or folder.")
    if given:
        return tuple(given)
    shipped = suite.shipped("scenarios")
    found = [path if (path := config.rootpath / each).exists() else shipped / f"{each}.yaml" for each in own.scenarios]
    for each, path in zip(own.scenarios, found, strict=True):
        if not path.exists():
            raise UsageError(
                f"{own.at('scenarios')}: there is no such file or folder, and no shipped scenario: {each}."
            )
    return tuple(path.resolve() for path in found)


def _plan(config: pytest.Config, edition: Edition, own: Project, scenarios: Sequence[Path]) -> Plan:
    recuts = _recuts(config)
    mode: str = config.getoption("--harness-mode") or config.getini("harness_mode") or "replay"
    if mode not in ("replay", "reference"):
        raise UnknownName("mode", mode, ("replay", "reference"), "harness_mode")
    folders: list[Path] = config.getini("harness_cassettes")
    folders = folders or [config.rootpath / (own.cassettes or "cassettes"), suite.shipped("cassettes")]
    known = [config.rootpath / own.expected_failures] if own.expected_failures else []
    expected: list[Path] = config.getini("harness_expected_failures") or known
    shipped = suite.shipped("scenarios")
    ids = findable(edition) if expected else ()
    return Plan(
        mode=mode,
        libraries=[Library(folder) for folder in folders],
        own=frozenset(file.stem for file in scenario_files(scenarios) if not file.is_relative_to(shipped)),
        expected=[entry for path in expected for entry in load(path, ids)],
        recuts=recuts,
        strict=config.getini("harness_strict") or bool(own.strict),
        scope=scope((), own.ignore, edition, own.at("ignore")),
    )


def _stale_text(entry: StaleExpectation) -> str:
    variant = f"[{entry.variant}]" if entry.variant else ""
    return (
        f"expected failure that did not happen: {entry.rule} in {entry.scenario} on {entry.target}{variant} "
        f"({entry.reason}). Take the entry out of the file of expected failures."
    )


def findings_texts(result: CellResult) -> list[str]:
    """What is wrong in a cell, the worst first, each with those findings that follow from it."""
    causes = [(index, finding) for index, finding in enumerate(result.findings) if finding.follows is None]
    causes.sort(key=lambda each: not each[1].fails)
    return [_text(finding, [other for other in result.findings if other.follows == index]) for index, finding in causes]


def _text(finding: Finding, followers: Sequence[Finding]) -> str:
    """A finding with its evidence, for a terminal and for JUnit."""
    lines = [f"{finding.rule} ({finding.kind}, {finding.severity}, blame: {finding.blame}): {finding.message}"]
    if finding.accepted is not None:
        lines.append(f"  expected: {finding.accepted}")
    if where := place(finding):
        lines.append(f"  at:       {where}")
    if finding.actual is not None or finding.expected is not None:
        lines += [f"  actual:   {short(finding.actual)}", f"  expected: {short(finding.expected)}"]
    lines += [f"    {line}" for line in finding.piece]
    lines += [f"  follows:  {each.rule}: {each.message}" for each in followers]
    advice = what_to_do(finding.kind, finding.severity, finding.blame)
    lines += [f"  source:   {finding.source}", f"  to do:    {advice}"]
    return "\n".join(plain_line(line) for line in lines)
