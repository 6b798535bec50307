"""Reports for CI: JUnit XML, annotations of GitHub Actions, and GitLab's code quality report.

JUnit XML has a suite for each target and a case for each cell. Findings of error severity are failures. Broken and
missing cells are errors, so that neither counts as a pass. `junit` adds the file and line of the scenario to each case
as attributes. `xunit` omits these attributes, because Jenkins' xUnit plugin rejects files with attributes that its
schema does not define. In both, the text of a case that did not pass has file and line.

There is no single schema of JUnit XML. The output works with these readers (checked on 2026-11-23):

- Jenkins' xUnit plugin validates against its schema (jenkinsci/xunit-plugin, `types/model/xsd/junit-10.xsd` at commit
  031e285). `testsuites` allows only name, time, tests, failures and errors. A `testsuite` requires name, tests,
  failures and errors. It may have skipped, time, timestamp and others, and `properties`. A `testcase` has name,
  classname, time and group, but no properties. `skipped`, `failure` and `error` have type, message and text. Times are
  digits, with or without commas between thousands, and a fraction.
- Jenkins' JUnit plugin (jenkinsci/junit-plugin, `CaseResult.java` at commit 002534a) ignores unknown attributes and
  elements. It keeps 1,000 characters of a case's output, or 100,000 if the case failed.
- GitLab (docs.gitlab.com/ci/testing/unit_test_reports) reads classname, name, file and time of a case. Of failure,
  error and skipped, it reads the text, not the message. It also reads `system-out` of cases, in which
  `[[ATTACHMENT|path]]` is a command. If several cases have the same name, it uses only the first. A file must be
  smaller than 30 MB.

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
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, repeat, zip_longest
from pathlib import Path
from xml.etree import ElementTree as ET

from harness.reports import groups
from harness.reports.finding_causes import Cause, causes
from harness.reports.groups import (
    api_pair,
    facts,
    missing,
    outcome_counts,
    outcome_counts_text,
    provenance,
    scope,
    targets,
)
from harness.reports.words import (
    CRASHED,
    cost_heading,
    count,
    label,
    list_names,
    place,
    plain,
    short,
    shorten,
    values,
    what_to_do,
)
from harness.results import (
    JSON,
    CellResult,
    Definition,
    ExpectedFailure,
    Finding,
    Kind,
    Presentation,
    Report,
    RunResult,
    Severity,
    Variant,
    Verdict,
)

_ILLEGAL = re.compile("[^\t\n\r\u0020-\u007e\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 forbids, and control characters that it discourages."""

_TAGS = {
    Verdict.FAIL: "failure",
    Verdict.ERROR: "error",
    Verdict.MISSING: "error",
    Verdict.INCONCLUSIVE: "skipped",
    Verdict.NOT_APPLICABLE: "skipped",
    Verdict.EXPECTED_FAILURE: "skipped",
}
_COUNT_TAGS = {"tests": "tests", "failures": "failure", "errors": "error", "skipped": "skipped"}

_MAX_TEXT_CHARACTERS = 12_000
"""Maximum length of a failure. Two thousand failures of this length stay below GitLab's 30 MB."""
_MAX_OUTCOME_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class _Suites:
    """XML of a run. If `places` is set, the file and line of the scenario are added as attributes of its cases."""

    run: RunResult
    presentation: Presentation
    places: bool
    _commands: dict[tuple[str, str, Variant], str] = field(init=False)

    def __post_init__(self) -> None:
        commands = {cell.key: group.record for group in missing(self.run) for cell in group.cells}
        object.__setattr__(self, "_commands", commands)

    def xml(self) -> str:
        root = ET.Element("testsuites", name="harness")
        root.extend(self._all())
        for name in ("tests", "failures", "errors"):  # `testsuites` has no `skipped`
            root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
        if "seconds" in self.run.timing:
            root.set("time", f"{self.run.timing['seconds']:.3f}")
        ET.indent(root)
        return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'

    def _all(self) -> Iterator[ET.Element]:
        for target in targets(self.run):
            yield self._suite(target)
        if self.run.stopped is not None:
            yield _fill(self._head("harness"), Counter(tests=1, error=1), [_unfinished_case(self.run.stopped)])
        if stale := self.run.stale:
            counted = Counter(tests=len(stale), failure=len(stale))
            yield _fill(ET.Element("testsuite", name="expected-failures"), counted, map(_stale_case, stale))

    def _suite(self, target: str) -> ET.Element:
        cells = [cell for cell in self.run.cells if cell.target == target]
        counted = Counter(tests=len(cells)) + Counter(_TAGS[cell.verdict] for cell in cells if cell.verdict in _TAGS)
        suite = _fill(self._head(target), counted, map(self._case, cells))
        seconds = [cell.seconds for cell in cells if cell.seconds is not None]
        if seconds:
            suite.set("time", f"{sum(seconds):.3f}")
        return suite

    def _head(self, name: str) -> ET.Element:
        suite = ET.Element("testsuite", name=_legal(name))
        if self.run.played_at is not None:
            suite.set("timestamp", self.run.played_at)
        values = {each: value for each, value in _properties(self.run, name).items() if value}
        if values:
            properties = ET.SubElement(suite, "properties")
            for each, value in values.items():
                ET.SubElement(properties, "property", name=each, value=_legal(value))
        return suite

    def _case(self, cell: CellResult) -> ET.Element:
        case = ET.Element("testcase", classname=_legal(cell.target), name=_legal(label(cell)))
        if cell.seconds is not None:
            case.set("time", f"{cell.seconds:.3f}")
        at = line_of(self.run, self.presentation, cell.scenario, next(iter(_errors(cell)), None))
        if at is not None and self.places:
            case.set("file", _legal(at.file))
            case.set("line", str(at.line))
        tag, printed = _TAGS.get(cell.verdict), [cell.printed or ""]
        if tag is not None:
            _add_outcome(case, tag, cell.verdict, _message(cell), self._text(cell, at))
        else:
            printed = [_findings_text(cell), *printed]
        if any(printed):
            output = _legal("\n\n".join(filter(None, printed)))
            ET.SubElement(case, "system-out").text = output.replace("[[ATTACHMENT|", "[ [ATTACHMENT|")
        return case

    def _text(self, cell: CellResult, at: RepositoryLine | None) -> str:
        command = self._commands.get(cell.key)
        parts = (
            _findings_text(cell) or _message(cell),
            f"in {at.file}, line {at.line}" if at is not None else "",
            f"Record it: {command}" if command else "",
            cell.traceback or "",
        )
        return "\n".join(filter(None, parts))


def _properties(run: RunResult, target: str) -> dict[str, str]:
    cells = tuple(cell for cell in run.cells if cell.target == target)
    rates = {
        f"rate: {rate.name}": f"{rate.hits} of {rate.played}, {rate.share:.4f} ({rate.low:.4f} to {rate.high:.4f})"
        for rate in (run.check.rates if run.check is not None else ())
        if rate.target == target
    }
    return {
        "responses": " ".join(provenance(replace(run, cells=cells, facts=(), rules=(), ignored=(), part=None))),
        "facts": " ".join(facts(run)),
        "scope": " ".join(scope(run)),
        **_cost(run, target),
        **_gateway(run, target),
        **rates,
    }


def _gateway(run: RunResult, target: str) -> dict[str, str]:
    counts = run.check.gateway if run.check is not None else ()
    return {
        f"gateway.{each.detail}": outcome_counts_text(outcome_counts(each))
        for each in counts
        if api_pair(each) == target
    }


def _cost(run: RunResult, target: str) -> dict[str, str]:
    cost = run.costs.get(target)
    if cost is None or not cost.requests:
        return {}
    kinds = dict.fromkeys(
        cost_heading(run, cell) for cell in run.cells if cell.target == target and cell.spending is not None
    )
    values = {
        "cost": "; ".join(kinds),
        "cost.model": cost.model,
        "cost.requests": cost.requests,
        "cost.requests.unpriced": cost.unpriced,
        "cost.tokens.input": cost.usage.input_tokens,
        "cost.tokens.cached": cost.usage.cache_read_tokens,
        "cost.tokens.output": cost.usage.output_tokens,
        "cost.dollars": None if cost.dollars is None else f"{cost.dollars:f}",
    }
    return {name: str(value) for name, value in values.items() if value is not None}


def _errors(cell: CellResult) -> list[Finding]:
    return [finding for finding in cell.findings if finding.fails and finding.follows is None]


def _message(cell: CellResult) -> str:
    if cell.verdict is Verdict.MISSING:
        return f"not checked: {cell.reason or 'there is no cassette'}"
    if cell.verdict is not Verdict.FAIL:
        return cell.reason or cell.verdict.value
    errors = _errors(cell)
    more = f" (and {count(len(errors) - 1, 'more cause')})" if len(errors) > 1 else ""
    return f"{errors[0].rule}: {errors[0].message}{more}"


def _findings_text(cell: CellResult) -> str:
    causes = ((index, finding) for index, finding in enumerate(cell.findings) if finding.follows is None)
    return "\n\n".join(
        _finding_text(finding, [other for other in cell.findings if other.follows == index])
        for index, finding in causes
    )


def _finding_text(finding: Finding, followers: Sequence[Finding]) -> str:
    lines = [f"{finding.severity} {finding.rule} ({finding.kind}): {finding.message}", f"blame: {finding.blame}"]
    if finding.accepted is not None:
        lines.append(f"expected: {finding.accepted}")
    if place(finding):
        lines.append(f"at: {place(finding)}")
    lines += [f"{name}: {value}" for name, value in values(finding)]
    lines += finding.piece
    for body in finding.bodies:
        lines += [f"{body.end}:", *(body.piece or (short(body.text),))]
    if finding.source:
        lines.append(f"source: {finding.source}")
    others = dict.fromkeys((each.rule, each.message) for each in followers)
    others.pop((finding.rule, finding.message), None)  # the same finding in a later request
    lines += [f"follows: {rule}: {message}" for rule, message in others]
    return "\n".join([*lines, f"what to do: {what_to_do(finding)}"])


def _unfinished_case(stopped: str) -> ET.Element:
    case = ET.Element("testcase", classname="harness", name="finished")
    _add_outcome(case, "error", "unfinished", f"the run is not finished: {stopped}")
    return case


def _stale_case(entry: ExpectedFailure) -> ET.Element:
    name = " ".join([entry.scenario, *filter(None, [entry.variant]), entry.target, entry.rule])
    case = ET.Element("testcase", classname="expected-failures", name=_legal(name))
    _add_outcome(
        case, "failure", "stale", f"the expected failure did not happen: take it off the list ({entry.reason})"
    )
    return case


def _add_outcome(case: ET.Element, tag: str, kind: str, message: str, text: str = "") -> None:
    """Add the reason why a case did not pass. Jenkins shows the message, GitLab the text."""
    element = ET.SubElement(case, tag, message=_legal(shorten(message, _MAX_OUTCOME_CHARACTERS)), type=kind)
    element.text = _legal(text or message)


def _fill(suite: ET.Element, counted: Counter[str], cases: Iterable[ET.Element]) -> ET.Element:
    for name, tag in _COUNT_TAGS.items():
        suite.set(name, str(counted[tag]))
    suite.extend(cases)
    return suite


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", shorten(text, _MAX_TEXT_CHARACTERS))


def _render_junit(run: RunResult, presentation: Presentation) -> str:
    return _Suites(run, presentation, places=True).xml()


def _render_xunit(run: RunResult, presentation: Presentation) -> str:
    return _Suites(run, presentation, places=False).xml()


JUNIT = Report("junit", _render_junit)
XUNIT = Report("xunit", _render_xunit)


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
        *_unfinished_problems(run),
        *(_problem_of_cause(run, presentation, cause) for cause in causes(run, Severity.ERROR)),
        *_broken_problems(run, presentation),
        *_missing(run, presentation),
        *_stale(run),
        *(_problem_of_cause(run, presentation, cause) for cause in causes(run, Severity.WARNING)),
    ]


def _unfinished_problems(run: RunResult) -> Iterator[RunProblem]:
    if run.stopped is not None:
        symptom = Symptom("harness", None, f"the run is not finished: {plain(run.stopped)}")
        yield RunProblem("unfinished", Severity.ERROR, count(len(run.cells), "cell") + " done", _one(symptom), "")


def _problem_of_cause(run: RunResult, presentation: Presentation, cause: Cause) -> RunProblem:
    def symptoms() -> Iterator[Symptom]:
        for each in cause.places:
            finding = each.findings[0]
            yield Symptom(_name(each), line_of(run, presentation, each.cells[0].scenario, finding), _text(finding))

    again = "" if run.audit is not None else f"\nRun again: {groups.rerun_command(run, cause.places[0])}"
    advice = f"{what_to_do(cause)}{again}"
    return RunProblem(cause.rule, cause.severity, cause.extent, symptoms, advice, cause.kind, cause.location)


def _broken_problems(run: RunResult, presentation: Presentation) -> Iterator[RunProblem]:
    for reason, places in groups.broken_cells(run):

        def symptoms(places: Sequence[groups.CellPlace] = places, text: str = plain(reason)) -> Iterator[Symptom]:
            for each in places:
                line = line_of(run, presentation, each.cells[0].scenario)
                yield Symptom(_name(each), line, text or "no reason is known")

        advice = f"{CRASHED}\nRun again: {groups.rerun_command(run, places[0])}"
        yield RunProblem("error", Severity.ERROR, count(groups.count_cells(places), "cell"), symptoms, advice)


def _missing(run: RunResult, presentation: Presentation) -> Iterator[RunProblem]:
    for each in groups.missing(run):
        name = f"{list_names([*each.scenarios], _MAX_SCENARIOS)} . {', '.join(each.targets)}"
        line = line_of(run, presentation, each.cells[0].scenario)
        advice = f"record: {each.record}\nor run: {each.reference}"
        symptom = Symptom(name, line, f"not checked: {plain(each.reason)}")
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


def _name(each: groups.CellPlace) -> str:
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
    for problem, symptom in _select_symptoms(shown, kept):
        text = symptom.text
        message = f"{symptom.name}\n{text}\nWhat to do: {problem.advice}" if problem.advice else text
        yield annotation(severity, f"{problem.rule}: {problem.extent}", message, symptom.line)
    if rest:
        names = list_names(list(dict.fromkeys(each.rule for each in rest)), _MAX_RULES)
        yield annotation(severity, f"and {count(len(rest), 'more cause')}", f"{names}: see the report of the run", None)


def _select_symptoms(found: Sequence[RunProblem], max_symptoms: int) -> list[tuple[RunProblem, Symptom]]:
    """Select at most `max_symptoms` symptoms: the first of each problem, then further ones of each problem in turn. A
    further symptom must be on a new line of a file.
    """
    every = [zip(repeat(each), each.symptoms()) for each in found]
    spread = [next(symptoms) for symptoms in every]
    known = {(id(each), symptom.line) for each, symptom in spread}
    others = chain.from_iterable(zip_longest(*(filter(_has_line, symptoms) for symptoms in every)))
    for each, symptom in filter(None, others):
        if len(spread) >= max_symptoms:
            break
        if (id(each), symptom.line) not in known:
            known.add((id(each), symptom.line))
            spread.append((each, symptom))
    return spread[:max_symptoms]


def _has_line(found: tuple[RunProblem, Symptom]) -> bool:
    return found[1].line is not None


def annotation(severity: Severity, title: str, message: str, line: RepositoryLine | None) -> str:
    """Return the workflow command that annotates a line of a file, or the step if there is no line."""
    properties = {"file": line.file, "line": str(line.line)} if line is not None else {}
    properties["title"] = shorten(title, _MAX_TITLE_CHARACTERS)
    given = ",".join(f"{name}={_escaped_property(value)}" for name, value in properties.items())
    return f"::{_COMMANDS[severity]} {given}::{_escape(shorten(message, _MAX_MESSAGE_CHARACTERS))}"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escaped_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")


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
