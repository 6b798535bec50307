"""What the long tests have measured, in a table at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Figure = Callable[..., None]
"""`figure(what, how_many, outcome, **details)`: a row of the table."""

_KEY = "figure"


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Figure:
    def note(what: str, how_many: int, outcome: str, **details: object) -> None:
        reported = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in details.items())
        record_property(_KEY, f"{what:44} {how_many:6}  {outcome}{f'  ({reported})' if reported else ''}")

    return note


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = terminalreporter.getreports("passed")
    rows = [value for report in reports for name, value in report.user_properties if name == _KEY]
    if rows:
        terminalreporter.section("figures")
    for row in rows:
        terminalreporter.line(str(row))
