"""Small cases of what providers took and refused, in `../shared/cases` where that folder is present."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.audit.cassette_audit import audit
from harness.results import Finding, Severity
from harness.rules.rule import all_rules
from tests.traffic import CASES

pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="../shared/cases is not here")


def errors(path: Path) -> list[Finding]:
    found = audit([path], all_rules())
    assert found.audit is not None
    assert sum(counts.unread for counts in found.audit.apis.values()) == 0
    return [each for cell in found.cells for each in cell.findings if each.severity is Severity.ERROR]


@pytest.mark.parametrize("file", sorted(CASES.glob("accepted/*.yaml")), ids=lambda file: file.stem)
def test_what_was_accepted_is_no_error(file: Path) -> None:
    assert errors(file) == []


@pytest.mark.parametrize("file", sorted(CASES.glob("refused/*.yaml")), ids=lambda file: file.stem)
def test_what_was_refused_is_an_error(file: Path) -> None:
    assert errors(file) != []
