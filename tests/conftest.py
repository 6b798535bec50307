from __future__ import annotations

import gc
import os
import ssl
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from harness.platform import project
from harness.platform.files import shipped_folder
from harness.scenarios import load
from harness.scenarios.schema import Scenario

pytest_plugins = ["pytester"]

# How fast the machine is, is nothing that a test asks.
settings.register_profile("harness", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("harness")


# Each run would rewrite the assertions of all tests anew, and each process that tests start compile the package, which
# takes longer than what most of them do.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What a CI server gets unasked is asked for by the tests that are about it.
for _name in ("GITHUB_ACTIONS", "GITLAB_CI", "JENKINS_URL"):
    os.environ.pop(_name, None)


def pytest_collection_finish() -> None:
    """Collect garbage rarely: what was imported stays, and usual thresholds take a twelfth of the CPU time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


@pytest.fixture(scope="session", autouse=True)
def _no_commit_of_this_checkout() -> Iterator[None]:
    """Each run names its commit. No test needs this checkout's, and git would be started for it hundreds of times."""
    asked, here = project._git, Path(__file__).parent.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            project, "_git", lambda folder, *words: "" if folder.absolute() == here else asked(folder, *words)
        )
        yield


@pytest.fixture(autouse=True)
def _environment_is_restored() -> Iterator[None]:
    """Recognition sets keys for the client that it calls, usually in a process of its own. No other test finds them."""
    before = {**os.environ}
    yield
    for name in {*os.environ} - before.keys():
        os.environ.pop(name, None)
    os.environ.update(before)


@pytest.fixture(scope="session", autouse=True)
def _shipped_scenarios_are_read_once() -> Iterator[None]:
    """Each run reads all shipped scenarios, a quarter of a second, and the tests start hundreds of runs."""
    read, shipped = load.load_file, shipped_folder("scenarios")
    read_once = cache(read)

    def load_file(path: Path) -> Scenario:
        return read_once(path) if path.parent == shipped else read(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "load_file", load_file)
        yield


@pytest.fixture(scope="session", autouse=True)
def _certificates_are_not_read() -> Iterator[None]:
    """Each client of an SDK would read all certificates of the system, for 50 ms, and no test connects by TLS. A file
    that is missing is an error as ever.
    """
    load = ssl.SSLContext.load_verify_locations

    def load_if_missing(context: ssl.SSLContext, cafile: Any = None, capath: Any = None, cadata: Any = None) -> None:
        if cafile is None or not Path(cafile).is_file():
            load(context, cafile, capath, cadata)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl.SSLContext, "load_verify_locations", load_if_missing)
        yield
