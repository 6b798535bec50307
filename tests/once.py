"""What is made once in a run of the tests, whichever of its processes asks first."""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

Made = TypeVar("Made")


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Made]) -> Made:
    """What `make` made in a folder of its own, for all processes that run tests; `name` is its alone."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is None:
        return make(factory.mktemp(name))
    folder = factory.getbasetemp().parent / f"{name}-{run}"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / "made.pickle"
        if not done.exists():
            (folder / "place").mkdir()
            done.write_bytes(pickle.dumps(make(folder / "place")))
        return pickle.loads(done.read_bytes())  # noqa: S301 - our own, of this minute
