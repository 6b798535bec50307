"""GitLab's code quality report: what is wrong, in the line of the scenario, beside a merge request.

A JSON list (docs.gitlab.com/ci/testing/code_quality, "Code Quality report format", read on 2026-11-23): description,
check_name, fingerprint (of two with one fingerprint only the first is shown, and what both branches have is nothing
new), severity (info, minor, major, critical, blocker), and location: a path from the top of the repository without
`./`, and the line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from harness.reports._troubles import Sign, Trouble, troubles
from harness.results import JSON, Kind, Presentation, Report, RunResult, Severity

_SEVERITIES = {Kind.LIMIT: "critical", Kind.LOSS: "major", Kind.CONVENTION: "minor", None: "critical"}

_ELSEWHERE = "toolcall-harness"
"""In place of the folder of a scenario that is no file of the repository: the format asks for a path of everything."""


def render(run: RunResult, presentation: Presentation) -> str:
    """The JSON; an empty list if nothing is wrong."""
    return "".join(pieces(run, presentation))


def pieces(run: RunResult, presentation: Presentation) -> Iterator[str]:
    """The same, an entry at a time."""
    known: set[str] = set()
    for each in _issues(run, presentation):
        fingerprint = str(each["fingerprint"])
        if fingerprint not in known:
            yield (
                ("," if known else "[") + "\n  " + json.dumps(each, ensure_ascii=False, indent=2).replace("\n", "\n  ")
            )
            known.add(fingerprint)
    yield "\n]\n" if known else "[]\n"


def _issues(run: RunResult, presentation: Presentation) -> Iterator[dict[str, JSON]]:
    for trouble in troubles(run, presentation):
        for sign in trouble.signs():
            path = sign.spot.file if sign.spot is not None else f"{_ELSEWHERE}/{sign.name.split(' ')[0]}"
            yield {
                "description": f"{trouble.rule} in {sign.name}: {sign.text.splitlines()[0]}",
                "check_name": f"harness/{trouble.rule}",
                "fingerprint": _fingerprint(trouble, sign),
                "severity": "minor" if trouble.severity is Severity.WARNING else _SEVERITIES[trouble.kind],
                "location": {"path": path, "lines": {"begin": sign.spot.line if sign.spot is not None else 1}},
            }


def _fingerprint(trouble: Trouble, sign: Sign) -> str:
    """The same in the next run, whatever ids, values and lines are then."""
    said = f"{trouble.rule}\0{trouble.severity}\0{trouble.at}\0{sign.name}"
    return hashlib.sha256(said.encode("utf-8", "backslashreplace")).hexdigest()[:32]


REPORT = Report("gitlab", render, pieces=pieces)
