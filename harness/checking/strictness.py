"""`--strict` for servers and gateways, which have no conventions to break: each warning fails its cell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from harness.results import Blame, Finding, Severity


def graded(findings: Iterable[Finding], *, strict: bool) -> tuple[Finding, ...]:
    """The findings, in a strict check each as an error. What a model has chosen to do stays what it is."""
    return tuple(
        replace(each, severity=Severity.ERROR) if strict and each.blame is not Blame.MODEL else each
        for each in findings
    )
