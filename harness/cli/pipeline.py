"""The CI server that a command runs in: what it gets beside the reports asked for, and where its files are."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.cli import streams
from harness.contract.errors import FileError, HarnessError
from harness.reports import github
from harness.reports._places import Spot, within
from harness.results import Presentation, Report, RunResult, Severity

_MOST = 1_000_000
"""Bytes of the summary of one step. GitHub takes none of a summary of more than 1024k ("upload aborted, supports
content up to a size of 1024k", also of one "of 1024k": actions/runner; read on 2026-11-23)."""

_LEAST = 4 << 10
"""Bytes that a summary is worth."""

_COMMAND = re.compile(r"^(\s*):(?=:)|##(?=\[)", re.MULTILINE)
"""Where a runner of GitHub Actions reads a command in a line of output (actions/runner, `ActionCommand.cs`)."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What a CI server says of itself in the environment. `root` is the folder at the top of the repository, empty if
    nobody says it; `annotates`: it reads annotations off the output; `summary` is the file to which a step adds what
    is to be shown."""

    root: str = ""
    annotates: bool = False
    summary: Path | None = None


def pipeline() -> Pipeline:
    """The server by its own variables: GitHub Actions, GitLab CI or Jenkins; an empty one elsewhere."""
    environment = os.environ
    if environment.get("GITHUB_ACTIONS") == "true":
        summary = environment.get("GITHUB_STEP_SUMMARY")
        root, file = environment.get("GITHUB_WORKSPACE", ""), Path(summary) if summary else None
        return Pipeline(root, annotates=True, summary=file)
    if environment.get("GITLAB_CI") == "true":
        return Pipeline(environment.get("CI_PROJECT_DIR", ""))
    return Pipeline(environment.get("WORKSPACE", "") if "JENKINS_URL" in environment else "")


def harmless(text: str) -> str:
    """What is shown to people in GitHub Actions, without what its runner would take for a command: a model, a server or
    an adapter may have said it."""
    return _COMMAND.sub(lambda match: f"{match[1]}: " if match[1] is not None else "## ", text)


def refusal(error: HarnessError, root: str) -> str:
    """What a command refuses, as an annotation for GitHub Actions: in the line of the file that it is about, if it is
    about one."""
    if not isinstance(error, FileError):
        return github.command(Severity.ERROR, "harness", " ".join(str(error).split()), None)
    file = within(error.file, root)
    spot = Spot(file, error.line or 1) if file else None
    said = f"{error.key}: {error.reason}" if error.key else error.reason
    return github.command(Severity.ERROR, "harness", said if spot else str(error), spot)


def refuse(errors: Sequence[HarnessError]) -> bool:
    """Annotate what a command refuses, as much of it as GitHub shows; false where nobody reads annotations."""
    server = pipeline()
    for error in errors[: github.MOST] if server.annotates else ():
        streams.tell(refusal(error, server.root))
    return server.annotates


def annotate(report: Report, run: RunResult, presentation: Presentation) -> None:
    """Say the annotations on standard error: the runner reads both streams, and standard output may be a report's."""
    said = report.render(run, presentation).removesuffix("\n")
    if said:
        streams.tell(said)


def summarise(report: Report, file: Path, run: RunResult, presentation: Presentation) -> None:
    """Add the report to a step's summary, as much of it as there is room for. A summary that cannot be written changes
    nothing about the run, and is said."""
    try:
        room = _MOST - (file.stat().st_size if file.exists() else 0)
        if room < _LEAST:
            streams.tell(f"harness: the summary of this step is full ({_MOST:,} bytes): nothing is added to it.")
            return
        text = report.render(run, replace(presentation, most=room - 1))
        with file.open("a", encoding="utf-8", errors="backslashreplace") as summary:
            summary.write(text)
    except OSError as error:
        streams.tell(f"harness: GITHUB_STEP_SUMMARY {file}: nothing is added to it: {error.strerror}.")
