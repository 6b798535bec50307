from __future__ import annotations

import pytest

from tests.hardness.table import Table

_TABLE = Table()


@pytest.fixture(scope="session")
def table() -> Table:
    return _TABLE


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _TABLE.rows:
        terminalreporter.section("measured")
        for line in _TABLE.lines():
            terminalreporter.write_line(line)
