"""Scenarios in pytest: cells as test items, and the fixtures `harness_adapter`, `harness_play` and `harness_client` for
the user's own tests.

`harness.pytest_plugin` loads this module if scenarios are configured, or when a fixture is used. An item fails if it
has failing findings or no cassette. It is skipped if the scenario is not applicable, and xfails if an expected failure
occurs. It also fails if an expected failure does not occur.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

import pytest

from harness import plugins
from harness.apis import registry
from harness.apis.response_rules import Subject
from harness.kit.client import Client
from harness.model.errors import HarnessError, ScenarioError, UnknownName, UsageError
from harness.model.protocols import Adapter, Capability
from harness.platform.files import shipped_folder
from harness.pytest_plugin.session_run import (
    Nonconformant,
    SessionRun,
    add_to_report,
    end_item,
    session_run,
    stale_text,
)
from harness.reference_server.script_session import ScriptSession
from harness.results import CellResult, ExpectedFailure, Verdict
from harness.runner.backends import ReferenceBackend
from harness.runner.cells import Cell, cells
from harness.runner.suite_run import variants
from harness.runner.verdicts import JudgedCell
from harness.scenarios.load import SUFFIXES, load_file, scenario_files
from harness.scenarios.schema import Scenario, Variant


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks of cells."""
    for line in marker_lines():
        config.addinivalue_line("markers", line)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Read the configuration. If pytest uses its `testpaths` setting, add the scenarios to these paths."""
    config = session.config
    try:
        scenarios = session_run(config).scenarios
    except HarnessError as error:
        raise pytest.UsageError(str(error)) from None
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        config.args.extend(str(path) for path in scenarios if str(path) not in config.args)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Report the configured fact files and the ignored rules, if there are any."""
    files, ignored = session_run(config).fact_selection.files, session_run(config).ignored
    header = [f"harness: judged by the facts of {', '.join(map(str, files))}"] if files else []
    return [*header, f"harness: findings of these rules are ignored: {', '.join(ignored)}"] if ignored else header


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the scenario files of the configured folders."""
    scenarios = session_run(parent.config).scenarios
    if file_path.suffix in SUFFIXES and any(file_path.is_relative_to(path) for path in scenarios):
        return ScenarioFile.from_parent(parent, path=file_path)  # pyright: ignore[reportUnknownMemberType]
    return None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Report the planned recordings and their cost before anything is sent."""
    if session.config.getoption("collectonly"):
        return
    try:
        # a process of pytest-xdist's can only fail its items
        session_run(session.config).announce(_cells(session), check=not hasattr(session.config, "workerinput"))
    except HarnessError as error:
        raise pytest.UsageError(str(error)) from None


def _cells(session: pytest.Session) -> list[Cell]:
    return [item.cell for item in session.items if isinstance(item, CellItem)]


class ScenarioFile(pytest.File):
    """Collector for the cells of a scenario file."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each cell, which is a combination of target and variant."""
        try:
            scenario = load_file(self.path)
        except ScenarioError as error:
            raise self.CollectError(str(error)) from None
        shared = session_run(self.config)
        for cell in cells([scenario], shared.targets, shared.variants):
            name = f"{cell.target.name}[{cell.variant}]"
            # pytest 9.2 reads parameters out of ids, but not out of names: --lf would not know the item again
            nodeid = f"{self.nodeid}::{name}"
            yield CellItem.from_parent(self, name=name, nodeid=nodeid, cell=cell)  # pyright: ignore[reportUnknownMemberType]


class CellItem(pytest.Item):
    """A cell as a pytest item. `-k` also matches the scenario's subjects, and `-m` the cell's marks."""

    def __init__(self, *, cell: Cell, **kwargs: Any) -> None:
        super().__init__(**kwargs)  # pyright: ignore[reportUnknownMemberType]
        self.cell = cell
        self.extra_keyword_matches.update(subject.value for subject in cell.scenario.covers)
        for mark in marks(cell):
            self.add_marker(mark)

    def runtest(self) -> None:
        """Run the cell and report its verdict as the item's outcome."""
        shared = session_run(self.config)
        try:
            judged, recorded = shared.run_cell(self.cell)
        except HarnessError as error:
            pytest.fail(str(error), pytrace=False)
        add_to_report(self, judged.result, recorded, shared.fact_selection)
        invocation = shared.invocation(self.cell, self.path)
        end_item(self, judged.result, map(stale_text, self._stale(judged)), invocation)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return file and name for reports."""
        return self.path, None, f"{self.cell.scenario.id} on {self.name}"

    def _stale(self, judged: JudgedCell) -> Iterable[ExpectedFailure]:
        """Return this cell's expected failures that are stale. An entry that covers several cells is stale only if its
        finding occurs in none of them in this session.
        """
        shared = session_run(self.config)
        alone = shared.run.collect([judged]).stale
        return [entry for entry in alone if entry in shared.whole(_cells(self.session)).stale] if alone else []


def marker_lines() -> Iterator[str]:
    """Yield the descriptions of the marks for `pytest --markers`."""
    for subject in Subject:
        yield f"{_subject_mark(subject)}: cells of scenarios about {subject.value}"
    for capability in Capability:
        yield f"{_capability_mark(capability)}: cells that need the capability {capability.value}"


def marks(cell: Cell) -> Iterator[pytest.MarkDecorator]:
    """Yield the marks of a cell."""
    target, scenario = cell.target, cell.scenario
    yield pytest.mark.harness(
        scenario=scenario.id, target=target.name, adapter=target.adapter.name, api=target.api, variant=cell.variant
    )
    yield from (getattr(pytest.mark, _subject_mark(subject)) for subject in scenario.covers)
    streamed = {Capability.STREAMING} if cell.variant == "stream" else set[Capability]()
    yield from (getattr(pytest.mark, _capability_mark(each)) for each in sorted({*scenario.requires, *streamed}))


def _subject_mark(subject: Subject) -> str:
    return f"harness_{subject.value.replace('-', '_')}"


def _capability_mark(capability: Capability) -> str:
    return f"harness_needs_{capability.value.replace('-', '_')}"


def adapter(config: pytest.Config, spec: str) -> Adapter:
    """Return an adapter by its name or by `package.module:attribute`. Fails the test if it does not exist."""
    try:
        return session_run(config).adapter(spec)
    except HarnessError as error:
        pytest.fail(str(error), pytrace=False)


class ScenarioRunner:
    """The value of the fixture `harness_play`: runs scenarios with a test's adapter.

    An adapter that the test itself created runs in the test's process.
    """

    def __init__(self, item: pytest.Item, given: Adapter | str) -> None:
        self._item = item
        self._adapter = adapter(item.config, given) if isinstance(given, str) else given

    def __call__(
        self, scenario: str | Path, *, target: str | None = None, variant: Variant | None = None
    ) -> list[CellResult]:
        """Run a scenario, given as a file or by id. Ids may be those of the project's scenarios or of built-in ones.

        Without `target` and `variant`, it runs on all targets of the adapter's API, in both variants. The test fails if
        there are failing findings or if a cassette is missing. It is skipped if no cell is applicable.
        """
        try:
            results = self._results(scenario, target, variant)
        except HarnessError as error:
            raise Nonconformant(str(error)) from None
        reasons = [each.reason for each in results if each.verdict is Verdict.NOT_APPLICABLE]
        if len(reasons) == len(results):
            pytest.skip("; ".join(dict.fromkeys(f"not applicable: {reason}" for reason in reasons)))
        return results

    def _results(self, scenario: str | Path, target: str | None, variant: Variant | None) -> list[CellResult]:
        shared = session_run(self._item.config)
        file = _file(shared, scenario)
        wanted = variants([variant] if variant is not None else [], "harness_play")
        found = cells([load_file(file)], shared.targets_of(self._adapter, target), wanted)
        shared.announce(found)
        return [self._run_cell(shared, cell, file) for cell in found]

    def _run_cell(self, shared: SessionRun, cell: Cell, file: Path) -> CellResult:
        judged, recorded = shared.run_cell(cell, file)
        add_to_report(self._item, judged.result, recorded, shared.fact_selection)
        if judged.result.verdict is not Verdict.NOT_APPLICABLE:
            end_item(self._item, judged.result, (), shared.invocation(cell, file))
        return judged.result


def _file(shared: SessionRun, given: str | Path) -> Path:
    """Return the file of a scenario. Raises `UsageError` if no scenario has this id."""
    if isinstance(given, Path) or Path(given).suffix in SUFFIXES:
        return Path(given).resolve()
    paths = [shipped_folder("scenarios"), *shared.scenarios]
    known = {file.stem: file for file in scenario_files(paths)}
    if given not in known:
        guess = "".join(f" Did you mean {close!r}?" for close in get_close_matches(given, known, n=1))
        raise UsageError(
            f"harness_play: neither the project nor harness has a scenario {given!r}.{guess} "
            "'harness list scenarios' shows those that ship."
        )
    return known[given]


class OfflineClients:
    """The value of the fixture `harness_client`: creates clients, and closes them on exit.

    Each client has a separate conversation and starts the script from the beginning.
    """

    def __init__(self) -> None:
        self._open = ExitStack()
        self._reference = ReferenceBackend()

    def __call__(self, scenario: str | Path, *, target: str = "openai-chat") -> Client:
        """Return a client of a shipped target. Its model follows `scenario`, which is a file or the id of a shipped
        scenario.

        Raises:
            UnknownName: there is no such shipped scenario or target.
            ScenarioError: the file cannot be read.
            MissingDependency: the SDK of the target's adapter is not installed.
        """
        shipped = registry.target_named(target)
        made = registry.target_for(shipped, plugins.adapter(shipped.adapter), {})
        session = ScriptSession(_scenario(scenario), registry.api(made.api), made.model, made.profile)
        endpoint = self._open.enter_context(self._reference.endpoint(made, session))
        return self._open.enter_context(Client(made.adapter, endpoint, made.model))

    def __enter__(self) -> Self:
        self._open.enter_context(self._reference)
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.close()


def _scenario(given: str | Path) -> Scenario:
    if isinstance(given, Path) or Path(given).suffix in SUFFIXES:
        return load_file(Path(given))
    files = {file.stem: file for file in scenario_files([shipped_folder("scenarios")])}
    if given not in files:
        raise UnknownName("scenario", given, [*files], "harness_client")
    return load_file(files[given])
