"""`--strict` for servers and gateways, which have no conventions to break: each warning fails its cell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from harness.results import Finding, Severity


def graded(findings: Iterable[Finding], *, strict: bool) -> tuple[Finding, ...]:
    """The findings, in a strict check each as an error."""
    return tuple(replace(each, severity=Severity.ERROR) if strict else each for each in findings)
