"""Reports that mark lines of a repository: annotations of GitHub Actions, and GitLab's code quality report.

GitHub's runner reads workflow commands from the output of a step (actions/runner, `ActionCommand.cs` at commit
079cdb1). A command is `::error file=FILE,title=TITLE::MESSAGE`. In all values `%`, carriage returns and line feeds are
escaped; in properties also `:` and `,`. GitHub shows ten errors and ten warnings per step (actions/toolkit,
`docs/problem-matchers.md`). It truncates each message to 4,096 characters (`_maxIssueMessageLength` in
`ExecutionContext.cs`). Read on 2026-11-23.

GitLab reads a JSON list (docs.gitlab.com/ci/testing/code_quality, read on 2026-11-23). Each entry has a description,
check_name, fingerprint, severity, and location. The location is a line and a path relative to the repository root. If
two entries have the same fingerprint, GitLab shows only the first. Entries that exist in both branches do not count as
new.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat, zip_longest
from pathlib import Path

from harness.reports import groups
from harness.reports.finding_causes import Cause, causes
from harness.reports.words import CRASHED, bounded, count, listed, place, plain, values, what_to_do
from harness.results import JSON, Definition, Finding, Kind, Presentation, Report, RunResult, Severity

MAX_ANNOTATIONS = 10
"""Maximum number of errors, and of warnings, that GitHub shows for a step."""

_MAX_TITLE_CHARACTERS, _MAX_MESSAGE_CHARACTERS = 200, 3_600
_MAX_SCENARIOS = 8
_MAX_RULES = 12
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning"}
_GITLAB_SEVERITIES = {Kind.LIMIT: "critical", Kind.LOSS: "major", Kind.CONVENTION: "minor", None: "critical"}
_NO_FOLDER = "toolcall-harness"
"""Folder name for scenarios outside the repository, because GitLab's format requires a path."""


@dataclass(frozen=True, slots=True)
class RepositoryLine:
    """Line of a file in the repository. The path uses forward slashes, and lines count from 1."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Symptom:
    """A place where a problem shows. It has a line if the file is in the repository."""

    name: str
    line: RepositoryLine | None
    text: str


@dataclass(frozen=True, slots=True)
class RunProblem:
    """A problem that fails a run or deserves a warning, with all its symptoms.

    `rule` is a word such as `missing` if the problem has no findings. `symptoms` yields them one by one, because a long
    run has many.
    """

    rule: str
    severity: Severity
    extent: str
    symptoms: Callable[[], Iterator[Symptom]]
    advice: str
    kind: Kind | None = None
    at: str = ""


def line_of(
    run: RunResult, presentation: Presentation, scenario: str, finding: Finding | None = None
) -> RepositoryLine | None:
    """Return the line of the user turn in which a finding occurs, or of the scenario's id.

    Return `None` if the scenario is not a file in the repository. In an audit, the file is the recording.
    """
    definition = run.definitions.get(scenario, Definition("", file=scenario if run.audit is not None else None))
    file = definition.file and path_in(definition.file, presentation.root)
    return RepositoryLine(file, definition.line_of(finding and finding.turn) or 1) if file else None


def path_in(file: str, root: str) -> str | None:
    """Return a file's path relative to the repository root, with forward slashes, or `None` if the file is outside.
    Without a root the path is returned unchanged.
    """
    if root:
        file = os.path.relpath(os.path.realpath(file), os.path.realpath(root))
        if Path(file).parts[0] == os.pardir:
            return None
    return Path(os.path.normpath(file)).as_posix()


def problems(run: RunResult, presentation: Presentation) -> list[RunProblem]:
    """Return causes, broken and missing cells and stale expectations, the worst first, followed by warnings."""
    return [
        *_unfinished(run),
        *(_of_cause(run, presentation, cause) for cause in causes(run, Severity.ERROR)),
        *_broken(run, presentation),
        *_missing(run, presentation),
        *_stale(run),
        *(_of_cause(run, presentation, cause) for cause in causes(run, Severity.WARNING)),
    ]


def _unfinished(run: RunResult) -> Iterator[RunProblem]:
    if run.stopped is not None:
        symptom = Symptom("harness", None, f"the run is not finished: {plain(run.stopped)}")
        yield RunProblem("unfinished", Severity.ERROR, count(len(run.cells), "cell") + " done", _one(symptom), "")


def _of_cause(run: RunResult, presentation: Presentation, cause: Cause) -> RunProblem:
    def symptoms() -> Iterator[Symptom]:
        for each in cause.places:
            finding = each.findings[0]
            yield Symptom(_named(each), line_of(run, presentation, each.cells[0].scenario, finding), _text(finding))

    again = "" if run.audit is not None else f"\nPlay again: {groups.rerun(run, cause.places[0])}"
    advice = f"{what_to_do(cause)}{again}"
    return RunProblem(cause.rule, cause.severity, cause.extent, symptoms, advice, cause.kind, cause.location)


def _broken(run: RunResult, presentation: Presentation) -> Iterator[RunProblem]:
    for reason, places in groups.broken(run):

        def symptoms(places: Sequence[groups.CellPlace] = places, text: str = plain(reason)) -> Iterator[Symptom]:
            for each in places:
                line = line_of(run, presentation, each.cells[0].scenario)
                yield Symptom(_named(each), line, text or "no reason is known")

        advice = f"{CRASHED}\nPlay again: {groups.rerun(run, places[0])}"
        yield RunProblem("error", Severity.ERROR, count(groups.cells_of(places), "cell"), symptoms, advice)


def _missing(run: RunResult, presentation: Presentation) -> Iterator[RunProblem]:
    for each in groups.missing(run):
        name = f"{listed([*each.scenarios], _MAX_SCENARIOS)} . {', '.join(each.targets)}"
        line = line_of(run, presentation, each.cells[0].scenario)
        advice = f"record: {each.record}\nor play: {each.reference}"
        symptom = Symptom(name, line, f"could not look: {plain(each.reason)}")
        yield RunProblem("missing", Severity.ERROR, count(len(each.cells), "cell"), _one(symptom), advice)


def _stale(run: RunResult) -> Iterator[RunProblem]:
    for each in run.stale:
        name = f"{each.scenario}{f' [{each.variant}]' if each.variant else ''} . {each.target}"
        symptom = Symptom(name, None, f"{each.rule} is listed as an expected failure, and did not happen")
        yield RunProblem(
            "stale", Severity.ERROR, "1 entry", _one(symptom), "Take it off the list of expected failures."
        )


def _one(symptom: Symptom) -> Callable[[], Iterator[Symptom]]:
    return lambda: iter([symptom])


def _named(each: groups.CellPlace) -> str:
    return plain(f"{each.name} . {each.target}")


def _text(finding: Finding) -> str:
    at = place(finding)
    lines = [plain(f"{at}: {finding.message}" if at else finding.message)]
    lines += [f"{name}: {value}" for name, value in values(finding)]
    return "\n".join(lines)


def _render_github(run: RunResult, presentation: Presentation) -> str:
    found = problems(run, presentation)
    errors, warnings = ([each for each in found if each.severity is severity] for severity in _COMMANDS)
    return "".join(f"{line}\n" for line in (*_lines(errors, Severity.ERROR), *_lines(warnings, Severity.WARNING)))


def _lines(found: Sequence[RunProblem], severity: Severity) -> Iterator[str]:
    kept = MAX_ANNOTATIONS - 1 if len(found) > MAX_ANNOTATIONS else MAX_ANNOTATIONS
    shown, rest = found[:kept], found[kept:]
    for problem, symptom in _spread(shown, kept):
        text = symptom.text
        message = f"{symptom.name}\n{text}\nWhat to do: {problem.advice}" if problem.advice else text
        yield annotation(severity, f"{problem.rule}: {problem.extent}", message, symptom.line)
    if rest:
        names = listed(list(dict.fromkeys(each.rule for each in rest)), _MAX_RULES)
        yield annotation(severity, f"and {count(len(rest), 'more cause')}", f"{names}: see the report of the run", None)


def _spread(found: Sequence[RunProblem], most: int) -> list[tuple[RunProblem, Symptom]]:
    """Select at most `most` symptoms: the first of each problem, then in turn those on other lines."""
    every = [zip(repeat(each), each.symptoms()) for each in found]
    spread = [next(symptoms) for symptoms in every]
    known = {(id(each), symptom.line) for each, symptom in spread}
    others = chain.from_iterable(zip_longest(*(filter(_has_line, symptoms) for symptoms in every)))
    for each, symptom in filter(None, others):
        if len(spread) >= most:
            break
        if (id(each), symptom.line) not in known:
            known.add((id(each), symptom.line))
            spread.append((each, symptom))
    return spread[:most]


def _has_line(found: tuple[RunProblem, Symptom]) -> bool:
    return found[1].line is not None


def annotation(severity: Severity, title: str, message: str, line: RepositoryLine | None) -> str:
    """Return the workflow command that annotates a line of a file, or the step if there is no line."""
    properties = {"file": line.file, "line": str(line.line)} if line is not None else {}
    properties["title"] = bounded(title, _MAX_TITLE_CHARACTERS)
    given = ",".join(f"{name}={_escaped_property(value)}" for name, value in properties.items())
    return f"::{_COMMANDS[severity]} {given}::{_escaped(bounded(message, _MAX_MESSAGE_CHARACTERS))}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escaped_property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")


def _render_gitlab(run: RunResult, presentation: Presentation) -> str:
    entries = {str(each["fingerprint"]): each for each in reversed(list(_entries(run, presentation)))}
    return json.dumps(list(reversed(entries.values())), ensure_ascii=False, indent=2) + "\n"


def _entries(run: RunResult, presentation: Presentation) -> Iterator[dict[str, JSON]]:
    for problem in problems(run, presentation):
        severity = "minor" if problem.severity is Severity.WARNING else _GITLAB_SEVERITIES[problem.kind]
        for symptom in problem.symptoms():
            line = symptom.line or RepositoryLine(f"{_NO_FOLDER}/{symptom.name.split(' ')[0]}", 1)
            yield {
                "description": f"{problem.rule} in {symptom.name}: {symptom.text.splitlines()[0]}",
                "check_name": f"harness/{problem.rule}",
                "fingerprint": _fingerprint(problem, symptom),
                "severity": severity,
                "location": {"path": line.file, "lines": {"begin": line.line}},
            }


def _fingerprint(problem: RunProblem, symptom: Symptom) -> str:
    """Return a digest that stays the same in later runs, even if ids, values and lines change."""
    text = f"{problem.rule}\0{problem.severity}\0{problem.at}\0{symptom.name}"
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


GITHUB = Report("github", _render_github)
GITLAB = Report("gitlab", _render_gitlab)
