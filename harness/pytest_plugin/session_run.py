"""Configuration and run shared by all cells of a pytest session, and the outcome of each cell's item.

A failure message contains the findings and the commands for the next step. With `--harness-record`, cells without a
cassette are recorded and judged. Recordings come from the provider, with the keys in the environment, or from the
reference server if the mode is `reference`. Several processes may record at once. Each cassette is written only once
per session, by the first process that gets to it.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Literal, cast

import pytest

from harness.apis import registry
from harness.apis.fact_files import FactSelection
from harness.apis.prices import price_version
from harness.apis.registry import Target, targets_for
from harness.cassettes.library import CassetteLibrary
from harness.cassettes.preflight import OutdatedFilter
from harness.checks.finding_scope import scope
from harness.kit import factories
from harness.model.errors import ScenarioError, UnknownName, UsageError
from harness.model.protocols import Adapter
from harness.platform import files
from harness.platform.files import shipped_folder
from harness.platform.project import Project, project
from harness.pytest_plugin import fact_selection_for
from harness.reports.words import CRASHED, count, forecast, money, place, plain_line, values, what_to_do
from harness.results import CellResult, ExpectedFailure, Finding, Invocation, RunResult, Verdict
from harness.runner.backends import ReferenceBackend, ReplayBackend
from harness.runner.cells import Cell, not_applicable
from harness.runner.costs import estimate
from harness.runner.expected_failures import load
from harness.runner.live import LiveBackend, base_urls_of
from harness.runner.recorder import Recorder, check_cassettes, recordable_cells, without_fresh
from harness.runner.suite_run import Plan, Run, cell_seconds, variants
from harness.runner.verdicts import JudgedCell, known_finding_ids
from harness.scenarios.load import scenario_files
from harness.stdio import adapter_specs
from harness.stdio.workers import WorkerPool

_PAUSE = 0.02
_NAMED = 5

RecordMode = Literal["missing", "all"]


class SessionRecording:
    """Records cells into `folder`: all of them, or only those without a fresh cassette.

    `plan` specifies how cells are run. `began` is the start time of the session, in nanoseconds.
    """

    def __init__(self, wanted: RecordMode, plan: Plan, folder: Path, began: int) -> None:
        self._plan = plan
        self._library = CassetteLibrary(folder)
        self._recorder = Recorder(self._library, force=wanted == "all", missing=wanted == "missing")
        self._anew = wanted == "all"
        self._began = began
        self._announced: set[Path] = set()

    @property
    def is_paid(self) -> bool:
        """Return whether requests go to providers."""
        return self._plan.mode == "replay"

    def record_cell(self, cell: Cell) -> JudgedCell | None:
        """Record and judge a cell. Return `None` if it already has a cassette or is excluded from recording.

        Raises:
            UsageError: a key is missing, or its cassette must not be overwritten.
        """
        with self._folder_lock(cell):
            if not self._cells_to_record([cell]):
                return None
            run = self._plan_for([cell]).run([cell.target])
            run.survey_recordings([cell])
            with run:
                return run.judge_cell(cell)

    def path(self, cell: Cell) -> Path:
        """Return the path of a cell's cassette."""
        return self._library.path(cell.target.cassettes, cell.scenario.id, cell.variant)

    def sentences(self, cells: Sequence[Cell], *, check: bool) -> Iterator[str]:
        """Yield sentences about planned recordings and their estimated cost. Each cassette is announced only once.

        Raises:
            UsageError: `check` is set, and one of the cells cannot be recorded.
        """
        to_record = reversed(self._cells_to_record(cells))
        paths = {self.path(cell): cell for cell in to_record}  # several adapters may share one
        due = [cell for path, cell in reversed(paths.items()) if path not in self._announced]
        self._announced.update(paths)
        if not due:
            return
        plan = self._plan_for(due)
        if check:
            plan.run([cell.target for cell in due])
        source = "providers" if self.is_paid else "the reference server"
        yield f"harness: {count(len(due), 'cassette')} to be recorded from {source} into {self._library.root}."
        if self.is_paid:
            yield from forecast(estimate(due, base_urls=plan.base_urls), price_version())

    def _plan_for(self, cells: Sequence[Cell]) -> Plan:
        if not self.is_paid:
            return replace(self._plan, recorder=self._recorder)
        targets = list({cell.target.name: cell.target for cell in cells}.values())
        urls = base_urls_of(self._plan.base_urls, targets)
        return replace(self._plan, mode="live", base_urls=urls, recorder=self._recorder)

    def _cells_to_record(self, cells: Sequence[Cell]) -> list[Cell]:
        plan = self._plan_for(cells)
        backend = LiveBackend(plan.base_urls) if self.is_paid else ReferenceBackend()
        playable = [cell for cell in cells if not_applicable(cell, backend.mode) is None]
        has = self._is_of_session if self._anew else ReplayBackend(self._plan.libraries, self._plan.own).has
        wanted = [cell for cell in playable if not has(cell)]
        found = check_cassettes(wanted, backend, self._recorder)
        return recordable_cells(without_fresh(wanted, found), found)

    def _is_of_session(self, cell: Cell) -> bool:
        """Return whether the cell's cassette has already been written in this session."""
        try:
            return self.path(cell).stat().st_mtime_ns >= self._began
        except OSError:
            return False

    @contextmanager
    def _folder_lock(self, cell: Cell) -> Generator[None, None, None]:
        """Lock the scenario's folder while its cell is recorded. Other processes of the session wait until it is
        unlocked.
        """
        if os.name != "posix":  # folders have no locks there
            yield
            return
        folder = self.path(cell).parent
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
        try:
            while not files.lock_file(handle):
                time.sleep(_PAUSE)
            yield
        finally:
            os.close(handle)


def recording_properties(result: CellResult, path: Path) -> Iterator[tuple[str, object]]:
    """Yield the report properties of a recorded cell."""
    yield "recorded", str(path)
    paid = result.provenance is not None and result.provenance.origin != "reference"
    if paid and result.spending is not None and result.spending.dollars is not None:
        yield "recorded_dollars", str(result.spending.dollars)


def print_lines(config: pytest.Config, lines: Iterable[str]) -> None:
    """Print lines on the terminal. With pytest-xdist, one worker writes them to the real standard error."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(config, "workerinput"):
        for line in lines:
            reporter.write_line(line)
    elif getattr(config, "workerinput", {}).get("workerid") == "gw0" and sys.__stderr__ is not None:
        sys.__stderr__.write("".join(f"{line}\n" for line in lines))
        sys.__stderr__.flush()


def summarise(terminalreporter: pytest.TerminalReporter) -> None:
    """Report the recorded cassettes and their cost."""
    reports = [each for kind in terminalreporter.stats.values() for each in kind if isinstance(each, pytest.TestReport)]
    properties = [pair for report in reports if report.when == "call" for pair in report.user_properties]
    paths = list(dict.fromkeys(str(value) for name, value in properties if name == "recorded"))
    if not paths:
        return
    cost = sum((Decimal(str(value)) for name, value in properties if name == "recorded_dollars"), Decimal())
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    paid = f", for {money(cost)}" if cost else ""
    shown = ", ".join(os.path.relpath(path) for path in paths[:_NAMED])
    terminalreporter.write_line(f"harness: {count(len(paths), 'cassette')} recorded{paid}: {shown}{more}")


_SESSION_RUN = pytest.StashKey["SessionRun"]()


def session_run(config: pytest.Config) -> SessionRun:
    """Return the shared run of the session, which is created on first use. Raises `HarnessError`."""
    if _SESSION_RUN not in config.stash:
        config.stash[_SESSION_RUN] = SessionRun(config)
        config.pluginmanager.register(sys.modules[__name__], "harness-evidence")
    return config.stash[_SESSION_RUN]


def adapter_names(config: pytest.Config) -> list[str]:
    """Return the names of the configured adapters, or of all shipped ones. Raises `UsageError`."""
    own = project(config.rootpath)
    return _specs(config, own) or [*_shipped_adapters(config.getini("harness_targets") or own.targets)]


class SessionRun:
    """Configuration of a session, and the run of its cells.

    Raises:
        UsageError: an option is invalid.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        own = project(config.rootpath)
        self.scenarios = _scenarios(config, own)
        self._specs = _specs(config, own)
        self.fact_selection = fact_selection_for(config, own)
        self.ignored = own.ignore
        self._plan = _plan(config, own, self.fact_selection, self.scenarios)
        self.recording = _recording(config, own, self._plan)
        is_live = self.recording is not None and self.recording.is_paid
        self._workers = WorkerPool(_seconds(config, live=is_live), offline=not is_live)
        config.add_cleanup(self._workers.close)
        self._names: Sequence[str] = config.getini("harness_targets") or own.targets
        self._models = own.models
        self._by_spec = {spec: self.adapter(spec) for spec in self._specs or _shipped_adapters(self._names)}
        self.targets = targets_for(list(self._by_spec.values()), self._names, own.models, self.fact_selection)
        self.variants = variants(config.getini("harness_variants") or own.variants, "harness_variants")
        self._words = _words(config, own)
        self._whole: RunResult | None = None

    def adapter(self, spec: str) -> Adapter:
        """Return an adapter, given its name or `package.module:attribute`. Third-party adapters run in separate
        processes.
        """
        return self._workers.adapter(spec)

    def targets_of(self, adapter: Adapter, target: str | None) -> list[Target]:
        """Return the adapter's targets: the one called `target`, or the configured targets of its API."""
        names = [target] if target else self._names
        return targets_for([adapter], names, self._models, self.fact_selection)

    @cached_property
    def run(self) -> Run:
        """The run of the collected cells."""
        return self._plan.run(self.targets)

    def run_cell(self, cell: Cell, own: Path | None = None) -> tuple[JudgedCell, Path | None]:
        """Run a cell. Return its result, and the path of its cassette if it was recorded.

        `own` is the scenario's file if the scenario does not belong to the session. Environment variables that the run
        hides are restored afterwards.

        Raises:
            UsageError: the cell cannot be recorded, or its adapter cannot be connected.
        """
        recorded = self.recording.record_cell(cell) if self.recording is not None else None
        if self.recording is not None and recorded is not None:
            return recorded, self.recording.path(cell)
        plan = self._plan if own is None else replace(self._plan, own=self._plan.own | _own_ids([own]))
        run = self.run if own is None else plan.run([cell.target])
        with run:
            return run.judge_cell(cell), None

    def announce(self, cells: Sequence[Cell], *, check: bool = False) -> None:
        """Report the planned recordings. With `check`, raise `UsageError` for a cell that cannot be recorded."""
        if self.recording is not None:
            print_lines(self._config, [*self.recording.sentences(cells, check=check)])

    def whole(self, cells: Iterable[Cell]) -> RunResult:
        """Return the result of all of the session's cells as one run. It is computed on first use."""
        if self._whole is None:
            with self.run:
                judged = [replace(self.run.judge_cell(cell), evidence=None) for cell in cells]
            self._whole = self.run.collect(judged)
        return self._whole

    def invocation(self, cell: Cell, file: Path) -> Invocation | None:
        """Return the commands for a cell, or `None` if its adapter was created by a test."""
        spec = next((spec for spec, adapter in self._by_spec.items() if adapter is cell.target.adapter), None)
        if spec is None:
            return None
        shipped = registry.target_named(cell.target.cassettes.partition("@")[0])
        named = () if spec == shipped.adapter else adapter_specs.option_for(spec)
        columns = {cell.target.name: ("--target", shipped.name, *named)}
        here = self._config.invocation_params.dir
        shown = file.relative_to(here) if file.is_relative_to(here) else file
        return replace(self._words, scenarios={cell.scenario.id: str(shown)}, targets=columns)


def _specs(config: pytest.Config, own: Project) -> list[str]:
    given: list[str] = config.getini("harness_adapters")
    return given or adapter_specs.specs(
        own.adapters, own.adapter_commands, own.conversations, own.agent_commands, api=own.api, targets=own.targets
    )


def _shipped_adapters(targets: Sequence[str]) -> dict[str, None]:
    """Return the adapters of built-in targets, without duplicates."""
    found = map(registry.target_named, targets) if targets else registry.shipped_targets()
    return dict.fromkeys(each.adapter for each in found)


def _recuts(config: pytest.Config) -> int:
    try:
        recuts: int = config.getini("harness_recut")
    except pytest.UsageError:  # the message lacks the name of the setting
        recuts = -1
    if recuts < 0:
        raise UsageError("harness_recut: it must be a whole number of at least 0.")
    return recuts


def _seconds(config: pytest.Config, *, live: bool) -> float:
    given: str = config.getini("harness_cell_timeout")
    try:
        seconds = float(given) if given else None
    except ValueError:
        seconds = 0.0
    return cell_seconds(seconds, f"harness_cell_timeout {given}", live=live)


def _scenarios(config: pytest.Config, own: Project) -> tuple[Path, ...]:
    """Return the configured scenario files and folders, or else the project's. Raises `ScenarioError` or `UsageError`
    if one does not exist.
    """
    given: list[Path] = config.getini("harness_scenarios")
    for path in given:
        if not path.exists():
            raise ScenarioError(str(path), "harness_scenarios names it, but there is no such file or folder.")
    if given:
        return tuple(given)
    shipped = shipped_folder("scenarios")
    found = [path if (path := config.rootpath / each).exists() else shipped / f"{each}.yaml" for each in own.scenarios]
    for each, path in zip(own.scenarios, found, strict=True):
        if not path.exists():
            raise UsageError(
                f"{own.at('scenarios')}: there is no such file or folder, and no shipped scenario: {each}."
            )
    return tuple(path.resolve() for path in found)


def _own_ids(paths: Sequence[Path]) -> frozenset[str]:
    """Return the ids of scenarios that are not shipped."""
    shipped = shipped_folder("scenarios")
    return frozenset(file.stem for file in scenario_files(paths) if not file.is_relative_to(shipped))


def _folders(config: pytest.Config, own: Project) -> list[Path]:
    """Return the cassette folders. Recordings are written to the first one."""
    given: list[Path] = config.getini("harness_cassettes")
    return given or [config.rootpath / (own.cassettes or "cassettes"), shipped_folder("cassettes")]


def _plan(config: pytest.Config, own: Project, fact_selection: FactSelection, scenarios: Sequence[Path]) -> Plan:
    recuts = _recuts(config)
    mode: str = config.getoption("--harness-mode") or config.getini("harness_mode") or "replay"
    if mode not in ("replay", "reference"):
        raise UnknownName("mode", mode, ("replay", "reference"), "harness_mode")
    known = [config.rootpath / own.expected_failures] if own.expected_failures else []
    expected: list[Path] = config.getini("harness_expected_failures") or known
    ids = known_finding_ids(fact_selection) if expected else ()
    return Plan(
        mode=mode,
        libraries=[CassetteLibrary(folder) for folder in _folders(config, own)],
        own=_own_ids(scenarios),
        base_urls=_base_urls(own),
        expected=[entry for path in expected for entry in load(path, ids)],
        recuts=recuts,
        strict=config.getini("harness_strict") or bool(own.strict),
        scope=scope((), own.ignore, fact_selection, own.at("ignore")),
        outdated=OutdatedFilter.by(own.max_age, own.at("max-age")),
    )


def _base_urls(own: Project) -> dict[str, str]:
    for target, url in own.base_urls.items():
        if not factories.is_base_url(url):
            raise UsageError(f"{own.at('base-urls')}.{target}: {factories.INVALID_BASE_URL}")
    return dict(own.base_urls)


def _recording(config: pytest.Config, own: Project, plan: Plan) -> SessionRecording | None:
    wanted = cast("RecordMode | None", config.getoption("--harness-record"))
    if wanted is None:
        return None
    began = getattr(config, "workerinput", {}).get("harness_began", time.time_ns())
    return SessionRecording(wanted, plan, _folders(config, own)[0], began)


def _words(config: pytest.Config, own: Project) -> Invocation:
    """Return the `harness` command lines that correspond to this session's options."""
    folders: list[Path] = config.getini("harness_cassettes")
    day: str = config.getini("harness_as_of")
    kept = ("--cassettes", str(folders[0])) if folders else ()
    files: list[Path] = config.getini("harness_facts")
    fact_words = (*(("--as-of", day) if day else ()), *(word for file in files for word in ("--facts", str(file))))
    strict = ("--strict",) if config.getini("harness_strict") and not own.strict else ()
    mode = config.getoption("--harness-mode") or config.getini("harness_mode") or "replay"
    played = kept if mode == "replay" else ("--mode", mode)
    return Invocation(
        rerun=("harness", "run", *played, *strict, *fact_words),
        record=("harness", "record", *kept),
        reference=("harness", "run", "--mode", "reference", *fact_words),
        show=("harness", "show", *played, *strict, *fact_words),
    )


def add_to_report(item: pytest.Item, result: CellResult, recorded: Path | None, fact_selection: FactSelection) -> None:
    """Add a cell's result, recording and output to the item's report."""
    item.user_properties.append(("verdict", result.verdict.value))
    if result.provenance is not None:
        item.user_properties.append(("responses_from", result.provenance.recorded_from or result.provenance.origin))
    item.user_properties += (("facts", str(file)) for file in fact_selection.files)
    item.user_properties += ((f"ignored: {rule}", str(number)) for rule, number in result.hidden.items())
    if recorded is not None:
        item.user_properties += recording_properties(result, recorded)
    if result.printed:
        item.add_report_section("call", "printed by the adapter", result.printed)
    if result.traceback:
        item.add_report_section("call", "traceback of the adapter", result.traceback)


def end_item(item: pytest.Item, result: CellResult, others: Iterable[str], invocation: Invocation | None) -> None:
    """Fail, skip or xfail an item according to the cell's verdict, or return if it passed. `others` are additional
    problems, which fail the item regardless of the verdict.
    """
    found = [*others, *problems(result)]
    match result.verdict:
        case Verdict.NOT_APPLICABLE:
            pytest.skip(f"not applicable: {result.reason}")
        case Verdict.MISSING:
            found.append(f"not checked: {result.reason}\n{_recording_commands(item, result, invocation)}")
        case Verdict.ERROR | Verdict.FAIL:
            found.append(_rerun_commands(item, result, invocation))
        case Verdict.EXPECTED_FAILURE if not found:
            pytest.xfail(result.reason or "")
        case _:
            if result.findings:
                item.add_report_section("call", "harness findings", "\n\n".join(findings(result)))
    if found:
        raise Nonconformant("\n\n".join(found))


def _recording_commands(item: pytest.Item, result: CellResult, call: Invocation | None) -> str:
    """Return the commands for a cell without a cassette: to record it, or to run it without a recording."""
    here = shlex.join(["pytest", "--harness-record=missing", item.nodeid])
    if call is None:
        without = shlex.join(["pytest", "--harness-mode=reference", item.nodeid])
        return commands(record_it=here, or_run_it_without=without)
    record, reference = (_command(call, words, result) for words in (call.record, call.reference))
    return commands(record_it=record, or_while_it_is_tested=here, or_run_it_without=reference)


def _rerun_commands(item: pytest.Item, result: CellResult, call: Invocation | None) -> str:
    if call is None:
        return commands(run_again=shlex.join(["pytest", item.nodeid]))
    rerun, show = (_command(call, words, result) for words in (call.rerun, call.show))
    return commands(run_again=rerun, look=show)


def _command(call: Invocation, words: Iterable[str], result: CellResult) -> str:
    return call.command([*words, "--variant", result.variant], [result.target], [result.scenario])


class Nonconformant(pytest.fail.Exception):
    """Failure of an item, with its evidence. pytest's summary shows only the first line."""

    def __init__(self, evidence: str) -> None:
        super().__init__(evidence, pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shorten the summary to the first line. Otherwise pytest would repeat all the evidence there in CI."""
    report = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, Nonconformant):
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash is not None:
            crash.message = str(call.excinfo.value).partition("\n")[0]
    return report


def problems(result: CellResult) -> list[str]:
    """Return the problems of a cell whose verdict is a failure or an error, otherwise an empty list."""
    if result.verdict not in (Verdict.ERROR, Verdict.FAIL):
        return []
    broken = [f"{result.reason}\n  to do:    {CRASHED}"] if result.verdict is Verdict.ERROR else []
    return [*broken, *findings(result)]


def findings(result: CellResult) -> list[str]:
    """Return the texts of a cell's findings, failures first. Each text includes the findings that follow from it."""
    causes = [(index, finding) for index, finding in enumerate(result.findings) if finding.follows is None]
    causes.sort(key=lambda each: not each[1].fails)
    return [_text(finding, [other for other in result.findings if other.follows == index]) for index, finding in causes]


def stale_text(entry: ExpectedFailure) -> str:
    """Describe an expected failure that did not occur."""
    variant = f"[{entry.variant}]" if entry.variant else ""
    return (
        f"expected failure that did not happen: {entry.rule} in {entry.scenario} on {entry.target}{variant} "
        f"({entry.reason}). Take the entry out of the file of expected failures."
    )


def commands(**named: str) -> str:
    """Return a text with one command per line, each labelled with its purpose."""
    width = max(map(len, named)) + 2
    return "\n".join(f"  {f'{what}:'.replace('_', ' '):<{width}} {command}" for what, command in named.items())


def _text(finding: Finding, followers: Sequence[Finding]) -> str:
    """Return a finding with its evidence, for terminals and JUnit."""
    lines = [f"{finding.rule} ({finding.kind}, {finding.severity}, blame: {finding.blame}): {finding.message}"]
    if finding.accepted is not None:
        lines.append(f"  expected: {finding.accepted}")
    if where := place(finding):
        lines.append(f"  at:       {where}")
    lines += [f"  {f'{name}:':<9} {value}" for name, value in values(finding)]
    lines += [f"    {line}" for line in finding.piece]
    lines += [f"  follows:  {each.rule}: {each.message}" for each in followers]
    advice = what_to_do(finding)
    lines += [f"  source:   {finding.source}", f"  to do:    {advice}"]
    return "\n".join(plain_line(line) for line in lines)
