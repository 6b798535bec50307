from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.running.workers import worker
from tests.cradle import Cradle

pytest_plugins = ["pytester"]


@pytest.fixture(scope="session", autouse=True)
def forked_workers() -> Iterator[None]:
    """Foreign adapters are played in forks of one process, which are there in milliseconds."""
    cradle = Cradle()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "started", cradle.started)
        yield
    cradle.close()
