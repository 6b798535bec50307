"""The pytest plug-in: scenario files become items, one for each cell, with the findings as the text of a failure.

It does nothing unless scenarios are configured: in `[tool.harness]` (`harness help config`), or by its own options,
which take precedence. `harness.pytest_plugin.scenario_items` then does the work:

```toml
[tool.pytest]
harness_scenarios = ["scenarios"]
harness_adapters = ["mypackage.adapter:ADAPTER"]
```

The fixture `harness_client` is for tests of an application's own code. It makes a client without key or network, whose
model follows a scenario (`harness.pytest_plugin.scenario_items`):

```python
def test_my_agent(harness_client):
    client = harness_client("call-single", target="anthropic")
    assert "18" in my_agent(client, "What is the weather in Paris?")
```

The fixtures `harness_adapter` and `harness_play` run scenarios in your own tests
(`harness.pytest_plugin.scenario_items`):

```python
@pytest.mark.parametrize("harness_adapter", [ADAPTER, "openai-chat"])
def test_contract(harness_play):
    harness_play("call-single")
```

The fixture `tape` records the requests of a test, with any client, and replays them from then on
(`harness.pytest_plugin.taping`). `@pytest.mark.tape` applies it as well:

```python
@pytest.mark.tape
def test_my_agent():
    assert "18" in my_agent(OpenAI(), "What is the weather in Paris?")
```
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import ModuleType

    from harness.apis.fact_files import FactSelection
    from harness.model.protocols import Adapter
    from harness.platform.project import Project
    from harness.pytest_plugin.scenario_items import OfflineClients, ScenarioRunner
    from harness.pytest_plugin.taping import Tape


_PACKAGE = __name__.partition(".")[0] + "."


class Finder:
    """Finder for `sys.meta_path` that loads harness modules without pytest's assertion rewriting, which they do not
    need.
    """

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of a harness module, or `None` for any other module."""
        return PathFinder.find_spec(name, path, target) if name.startswith(_PACKAGE) else None


_OPTIONS: tuple[tuple[str, Literal["string", "paths", "args", "int", "bool"], str], ...] = (
    ("harness_scenarios", "paths", "scenario files, and folders with them; if there are none, nothing is collected"),
    ("harness_cassettes", "paths", "folders of cassettes (default: ./cassettes, then those that ship with harness)"),
    ("harness_mode", "string", "replay (default): from cassettes; reference: against the reference server"),
    ("harness_targets", "args", "names of targets (default: all that the adapters can run)"),
    ("harness_adapters", "args", "names of adapters, or package.module:attribute (default: those of the targets)"),
    ("harness_variants", "args", "whole, stream or both (default: both, where the adapter can stream)"),
    ("harness_recut", "int", "number of replays of each streamed answer, split at other places (default: 0)"),
    (
        "harness_cell_timeout",
        "string",
        "time limit in seconds for a cell of a third-party adapter (default: 60)",
    ),
    ("harness_strict", "bool", "a broken convention fails its cell; otherwise it is a note (default: false)"),
    (
        "harness_as_of",
        "string",
        "apply the facts of this day: 2026-07-01, or today (default: the day on which a request was made)",
    ),
    (
        "harness_facts",
        "paths",
        "files of facts of your own, in addition to the shipped ones",
    ),
    ("harness_expected_failures", "paths", "files of known failures, each with a reason"),
    ("harness_tape_allow_hosts", "args", "hosts whose requests are never recorded on a tape"),
    (
        "harness_tape_allow_secrets",
        "args",
        "places where text that looks like a secret may be recorded, named as in the error message",
    ),
    (
        "harness_tape_ignore",
        "args",
        "ignored in every test with a tape: ids of limits and rules, or JSON pointers into requests",
    ),
)

_GC_THRESHOLD = 20_000
"""Number of new objects before the garbage collector looks for cycles. Python's default is 700."""

_DEFAULTS = {"string": "", "int": 0, "bool": False}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options. Relative paths start at the folder of the configuration file."""
    group = parser.getgroup("harness")
    group.addoption("--harness-mode", choices=("replay", "reference"), help="overrides harness_mode for one run")
    group.addoption(
        "--harness-record",
        choices=("missing", "all"),
        help="record with your keys: only what has no cassette (missing), or everything again (all)",
    )
    group.addoption(
        "--harness-allow-secret",
        action="append",
        metavar="PLACE",
        help="record text that looks like a secret at this place, named as in the error; * matches all",
    )
    for name, kind, text in _OPTIONS:
        parser.addini(name, f"harness: {text}", type=kind, default=_DEFAULTS.get(kind, []))


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers, and load the rest of the plug-in if there are scenarios to run. A project without scenarios
    does not pay for the imports.
    """
    finder = Finder()
    sys.meta_path.insert(0, finder)
    config.add_cleanup(lambda: sys.meta_path.remove(finder))
    config.addinivalue_line(
        "markers", "harness(scenario, target, adapter, api, variant): a cell of a scenario, with these values"
    )
    config.addinivalue_line(
        "markers",
        "tape(cassette=None, judge=True, ignore=[], allow_hosts=[]): record once, then replay from a cassette",
    )
    scenarios = config.getini("harness_scenarios") or _scenarios(config.rootpath)
    if scenarios is None or (scenarios and _may_select_scenarios(config, scenarios)):
        _reduce_gc(config)
        config.pluginmanager.register(import_module("harness.pytest_plugin.scenario_items"), "harness-cells")


def _reduce_gc(config: pytest.Config) -> None:
    """Run the garbage collector less often during the session. Scenarios and SDKs create hundreds of thousands of
    objects that stay in memory.
    """
    known, *others = gc.get_threshold()
    if 0 < known < _GC_THRESHOLD:  # 0: the collector is switched off
        gc.set_threshold(_GC_THRESHOLD, *others)
        config.add_cleanup(lambda: gc.set_threshold(known, *others))


def _scenarios(folder: Path) -> Sequence[Path] | None:
    """Return the scenarios in the project's settings, or `None` if the settings are invalid. The error is reported
    later.
    """
    try:
        text = (folder / "pyproject.toml").read_bytes()
        if b"harness" not in text or b"scenarios" not in text:  # most projects do not use the harness and load nothing
            return ()
    except OSError:  # usually the file does not exist
        return ()
    try:
        return [folder / each for each in import_module("harness.platform.project").project(folder).scenarios]
    except import_module("harness.model.errors").UsageError:
        return None


def _may_select_scenarios(config: pytest.Config, scenarios: Sequence[Path]) -> bool:
    """Return whether pytest's arguments may include scenarios. If they name only other files, the scenarios need not be
    loaded.
    """
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        return True
    given = [(config.invocation_params.dir / each.partition("::")[0]).resolve() for each in config.args]
    lie = [path.resolve() for path in scenarios]
    return any(
        not each.exists() or each.is_relative_to(path) or path.is_relative_to(each) for each in given for path in lie
    )


@pytest.fixture
def harness_client() -> Iterator[OfflineClients]:
    """Factory of clients that work offline; see `harness.pytest_plugin.scenario_items`."""
    with import_module("harness.pytest_plugin.scenario_items").OfflineClients() as offline:
        yield offline


@pytest.fixture
def tape(request: pytest.FixtureRequest) -> Iterator[Tape]:
    """Record the HTTP exchanges of this test, and replay them in later runs; see `harness.pytest_plugin.taping`."""
    with import_module("harness.pytest_plugin.taping").taped(request) as made:
        yield made


@pytest.fixture(autouse=True)
def _tape_of_mark(request: pytest.FixtureRequest) -> None:  # pyright: ignore[reportUnusedFunction] - pytest's
    """Apply the fixture `tape` to tests with the mark `tape`."""
    if request.node.get_closest_marker("tape") is not None:
        request.getfixturevalue("tape")


@pytest.fixture
def harness_adapter(request: pytest.FixtureRequest, harness_adapter_name: str) -> Adapter:
    """Provide each adapter of the project's settings in turn. A test may override or parametrise it."""
    return import_module("harness.pytest_plugin.scenario_items").adapter(request.config, harness_adapter_name)


@pytest.fixture
def harness_play(request: pytest.FixtureRequest, harness_adapter: Adapter | str) -> ScenarioRunner:
    """Run scenarios with `harness_adapter`; see `harness.pytest_plugin.scenario_items`."""
    return import_module("harness.pytest_plugin.scenario_items").ScenarioRunner(request.node, harness_adapter)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise tests that use `harness_adapter_name` with the project's adapters."""
    if "harness_adapter_name" in metafunc.fixturenames:
        names = import_module("harness.pytest_plugin.session_run").adapter_names(metafunc.config)
        metafunc.parametrize("harness_adapter_name", names)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that run scenarios."""
    if "harness_play" in getattr(item, "fixturenames", ()):
        item.add_marker("harness")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the start time of the session to the processes of pytest-xdist."""
    node.workerinput["harness_began"] = time.time_ns()


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Report which content encodings cannot be recorded because a package is missing."""
    if not config.getoption("--harness-record"):
        return []
    missing = import_module("harness.cassettes.content_encoding").missing()
    if not missing:
        return []
    packages = " ".join(missing.values())
    return [f"harness: {' or '.join(missing)} responses cannot be recorded: pip install {packages}"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Report the recorded cassettes at the end of the session."""
    if config.getoption("--harness-record"):
        import_module("harness.pytest_plugin.session_run").summarise(terminalreporter)


def fact_selection_for(config: pytest.Config, own: Project) -> FactSelection:
    """Return the facts that the options of pytest and the project's settings select.

    Raises:
        UsageError: `harness_as_of` is not a date, or `harness_facts` names a file that cannot be read.
        FactsError: a file of facts is wrong.
    """
    from harness.apis import registry  # noqa: PLC0415 - pytest loads this module even if no test needs it
    from harness.apis.fact_files import FactSelection, parse_day  # noqa: PLC0415

    day: str = config.getini("harness_as_of")
    files = (*(config.rootpath / file for file in own.facts), *config.getini("harness_facts"))
    made = FactSelection(parse_day(day, "harness_as_of") if day else None, tuple(dict.fromkeys(files)))
    made.check(registry.APIS.names())
    return made
