"""Clients without key or network, for tests of an application: the reference server answers in this process.

The model follows a scenario's script, whatever the request says. The server rejects what the provider would reject,
with the provider's own errors, so a test finds a history that the application broke. During the test, the environment
has no keys, base URLs and proxies.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Self

from harness import catalog
from harness.apis import targets
from harness.kit.client import Client
from harness.model.errors import UnknownName
from harness.reference_server.script_session import ScriptSession
from harness.runner.backends import ReferenceBackend
from harness.scenarios import suite
from harness.scenarios.load import SUFFIXES, load_file, scenario_files
from harness.scenarios.schema import Scenario


class Offline:
    """Makes clients, and closes them on exit. A client is one conversation, which starts the script anew."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._reference = ReferenceBackend()

    def __call__(self, scenario: str | Path, *, target: str = "openai-chat") -> Client:
        """Return a client of a shipped target, whose model follows `scenario`: a file, or the id of a shipped scenario.

        Raises:
            UnknownName: there is no such shipped scenario, or no such target.
            ScenarioError: the file cannot be read.
            MissingDependency: the SDK of the target's adapter is not installed.
        """
        shipped = catalog.target(target)
        made = targets.target(shipped, catalog.adapter(shipped.adapter), {})
        session = ScriptSession(_scenario(scenario), catalog.api(made.api), made.model, made.profile)
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
