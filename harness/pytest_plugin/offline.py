"""Clients that need no key and no network, for tests of an application. The reference server responds in the same
process.

The model follows a scenario's script, whatever the prompt. The server rejects what the provider would reject, with the
provider's own error format. This reveals a history that the application has broken. During the test, keys, base URLs
and proxies are removed from the environment.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Self

from harness import plugins
from harness.apis import registry, targets
from harness.kit.client import Client
from harness.model.errors import UnknownName
from harness.reference_server.script_session import ScriptSession
from harness.runner.backends import ReferenceBackend
from harness.scenarios import suite
from harness.scenarios.load import SUFFIXES, load_file, scenario_files
from harness.scenarios.schema import Scenario


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
        shipped = registry.target(target)
        made = targets.target(shipped, plugins.adapter(shipped.adapter), {})
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
