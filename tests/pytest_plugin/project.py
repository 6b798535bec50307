"""A project that tests an adapter of its own with the plug-in, laid out in a pytester folder."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness.adapters.openai_chat.requests  # what is loaded here is not loaded anew by each run inside this process
import harness.pytest_plugin.scenario_items  # noqa: F401
from harness.stdio import adapter_specs
from harness.stdio.workers import WorkerPool

ROOT = Path(__file__).resolve().parents[2]

SCENARIO = """
version: 1
id: {id}
title: Somebody says something
covers: [{covers}]
{more}
turns:
  - user: Hello.
    model:
      - text: Good morning.
"""

PROMPTED = """
requires: [system-prompt]
system: Be brief.
"""

FORGETFUL = '''
"""An adapter that leaves the system prompt out."""

from dataclasses import replace

from harness.stdio import adapter_specs

_GOOD = adapter_specs.adapter("openai-chat")


class Client:
    def __init__(self, client):
        self._client = client

    def chat(self, request):
        return self._client.chat(replace(request, system=None))

    def stream(self, request):
        return self._client.stream(replace(request, system=None))

    def close(self):
        self._client.close()


ADAPTER = replace(_GOOD, name="forgetful", connect=lambda endpoint, model: Client(_GOOD.connect(endpoint, model)))
'''


def scenario(folder: Path, name: str, *, covers: str = "history", more: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.yaml"
    path.write_text(SCENARIO.format(id=name, covers=covers, more=more))
    return path


@pytest.fixture
def workers() -> None:
    """Third-party adapters run in workers of their own, as they do outside of these tests."""


@pytest.fixture
def project(
    request: pytest.FixtureRequest, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> pytest.Pytester:
    """Two scenarios, of which the forgetful adapter gets one wrong in both variants, and a test of the usual kind."""
    if "workers" not in request.fixturenames:  # each takes a second to start
        monkeypatch.setattr(WorkerPool, "adapter", lambda _, spec: adapter_specs.adapter(spec))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(forgetful=FORGETFUL)
    pytester.mkdir("tests")
    (pytester.path / "tests" / "test_usual.py").write_text("def test_usual(): pass\n")
    scenario(pytester.path / "scenarios", "plain")
    scenario(pytester.path / "scenarios", "prompted", covers="system-prompt", more=PROMPTED)
    return pytester


def configure(project: pytest.Pytester, **options: str) -> None:
    """Write the configuration: the reference server and the forgetful adapter, unless configured differently."""
    chosen = {"harness_mode": "reference", "harness_adapters": "forgetful:ADAPTER", **options}
    lines = [f"{name} = {value}" for name, value in chosen.items() if value]
    project.makeini("\n".join(["[pytest]", "pythonpath = .", "testpaths = tests", *lines]))


PLUGIN = ("-p", "harness.pytest_plugin", "-p", "no:cacheprovider")


def run_pytest(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run pytest inside this process, which has loaded all that takes long."""
    return project.runpytest_inprocess(*PLUGIN, *arguments)


def run_pytest_apart(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run pytest in a process of its own."""
    return project.runpytest_subprocess(*PLUGIN, *arguments)
