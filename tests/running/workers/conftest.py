from __future__ import annotations

import pytest

from harness.running.workers import worker
from tests.cradle import STARTED


@pytest.fixture(autouse=True)
def started_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes as a run starts them: here it is they that are tested."""
    monkeypatch.setattr(worker, "started", STARTED)
