"""Scenarios in a user's own tests: the fixtures `harness_adapter` and `harness_play`."""

from __future__ import annotations

from contextlib import ExitStack
from difflib import get_close_matches
from pathlib import Path
from typing import Self

import pytest

from harness import plugins
from harness.apis import registry
from harness.kit.client import Client
from harness.model.errors import HarnessError, UnknownName, UsageError
from harness.model.protocols import Adapter
from harness.pytest_plugin.session_run import Nonconformant, SessionRun, add_to_report, end_item, session_run
from harness.reference_server.script_session import ScriptSession
from harness.results import CellResult, Verdict
from harness.runner.backends import ReferenceBackend
from harness.runner.cells import Cell, cells
from harness.runner.plan import variants
from harness.scenarios import suite
from harness.scenarios.load import SUFFIXES, load_file, scenario_files
from harness.scenarios.schema import Scenario, Variant


def adapter(config: pytest.Config, spec: str) -> Adapter:
    """Return an adapter by its name or by `package.module:attribute`. Fails the test if it does not exist."""
    try:
        return session_run(config).adapter(spec)
    except HarnessError as error:
        pytest.fail(str(error), pytrace=False)


class Play:
    """Runs scenarios with a test's adapter. An adapter that the test itself created runs in the test's process."""

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
        return [self._played(shared, cell, file) for cell in found]

    def _played(self, shared: SessionRun, cell: Cell, file: Path) -> CellResult:
        judged, recorded = shared.play(cell, file)
        add_to_report(self._item, judged.result, recorded, shared.fact_selection)
        if judged.result.verdict is not Verdict.NOT_APPLICABLE:
            end_item(self._item, judged.result, (), shared.invocation(cell, file))
        return judged.result


def _file(shared: SessionRun, given: str | Path) -> Path:
    """Return the file of a scenario. Raises `UsageError` if no scenario has this id."""
    if isinstance(given, Path) or Path(given).suffix in SUFFIXES:
        return Path(given).resolve()
    paths = [suite.shipped("scenarios"), *shared.scenarios]
    known = {file.stem: file for file in scenario_files(paths)}
    if given not in known:
        guess = "".join(f" Did you mean {close!r}?" for close in get_close_matches(given, known, n=1))
        raise UsageError(
            f"harness_play: neither the project nor harness has a scenario {given!r}.{guess} "
            "'harness list scenarios' shows those that ship."
        )
    return known[given]


class Offline:
    """Creates clients and closes them on exit. Each client is a separate conversation and starts the script from the
    beginning.
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
    files = {file.stem: file for file in scenario_files([suite.shipped("scenarios")])}
    if given not in files:
        raise UnknownName("scenario", given, [*files], "harness_client")
    return load_file(files[given])
