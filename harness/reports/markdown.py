"""For pull requests and `$GITHUB_STEP_SUMMARY`: Markdown with tables."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence

from harness.reports import _groups as groups
from harness.reports._words import CRASHED, WHAT_TO_DO, count, label, listed, place, plain, short, verdict
from harness.results import Finding, Presentation, Report, RunResult, Severity, Verdict

_SHOWN = 3  # cells of a group whose evidence is shown: GitHub refuses a summary of more than 1 MiB
_NAMES = 8
_MARKS = {
    Verdict.PASS: "✅",
    Verdict.WARN: "⚠️",
    Verdict.FAIL: "❌",
    Verdict.ERROR: "💥",
    Verdict.MISSING: "❔",
    Verdict.NOT_APPLICABLE: "n/a",
    Verdict.EXPECTED_FAILURE: "expected",
}


def render(run: RunResult, presentation: Presentation) -> str:
    """The Markdown, verdict first: it is what a summary is opened for."""
    word, sentence = verdict(run)
    limit = None if presentation.verbose else _SHOWN
    blocks = [
        f"## harness: {word}",
        f"{_escaped(sentence)}.",
        *_matrix(run, by_scenario=presentation.verbose),
        *(_escaped(line) for line in groups.provenance(run)),
        *_findings(run, limit),
        *_broken(run, limit),
        *_stale(run),
        *_missing(run),
        *_differences(run, everything=presentation.all_differences),
        *_lists(run),
    ]
    return "\n\n".join(blocks) + "\n"


def _matrix(run: RunResult, *, by_scenario: bool) -> Iterator[str]:
    columns = groups.targets(run)
    if not columns:
        return
    rows = (
        [row.name, *(" ".join(f"{n} {_MARKS[v]}" for v in Verdict if (n := row.cells[t][v])) for t in columns)]
        for row in groups.matrix(run, by_scenario=by_scenario)
    )
    yield _table(["scenario" if by_scenario else "subject", *columns], rows)
    used = [each for each in Verdict if run.summary[each]]
    yield ", ".join(f"{_MARKS[each]} {each.value.replace('-', ' ')}" for each in used)
    for target, reason in run.left_out.items():
        yield f"**{_escaped(target)} is left out**: {_escaped(reason)}"


def _findings(run: RunResult, limit: int | None) -> Iterator[str]:
    for severity in Severity:
        found = groups.findings(run, severity)
        if found:
            yield f"### {count(len(found), 'rule')} with {severity}s"
        for group in found:
            yield _details(
                f"{group.rule}: {group.severity} in {count(len(group.cells), 'cell')}, blame: {group.blame}",
                [*_evidence(group, limit), WHAT_TO_DO[group.blame], _code(groups.rerun(run, group.cells[0]))],
            )


def _evidence(group: groups.Hits, limit: int | None) -> Iterator[str]:
    cells = group.cells
    for cell in cells[:limit]:
        mine = [finding for hit, finding in group.hits if hit is cell]
        lines = [f"**{_escaped(label(cell))}**, {_escaped(cell.target)}", *(_item(each) for each in mine[:limit])]
        yield "\n".join([lines[0], "", *lines[1:]])
    if limit is not None and len(cells) > limit:
        yield f"and {count(len(cells) - limit, 'more cell')}"
    if group.source:
        yield f"Source: {_escaped(group.source)}"


def _item(finding: Finding) -> str:
    where = f"{_inline(place(finding))}: " if place(finding) else ""
    values = ""
    if finding.actual is not None or finding.expected is not None:
        values = f"; actual {_inline(short(finding.actual))}, expected {_inline(short(finding.expected))}"
    return f"- {where}{_escaped(finding.message)}{values}"


def _broken(run: RunResult, limit: int | None) -> Iterator[str]:
    for reason, cells in groups.broken(run):
        names = [f"- {_escaped(label(cell))}, {_escaped(cell.target)}" for cell in cells[:limit]]
        more = [] if limit is None or len(cells) <= limit else [f"- and {count(len(cells) - limit, 'more cell')}"]
        yield _details(
            f"error in {count(len(cells), 'cell')}: {reason}",
            ["\n".join([*names, *more]), CRASHED, _code(groups.rerun(run, cells[0]))],
        )


def _stale(run: RunResult) -> Iterator[str]:
    if run.stale:
        yield "### Expected failures that did not happen: take them off the list"
        yield _table(
            ["scenario", "target", "rule", "reason"],
            ([each.scenario, each.target, each.rule, each.reason] for each in run.stale),
        )


def _missing(run: RunResult) -> Iterator[str]:
    found = groups.missing(run)
    if found:
        yield f"### Could not look: {count(run.summary[Verdict.MISSING], 'cell')} without a cassette"
    for each in found:
        yield f"{_escaped(', '.join(each.targets))}: {_escaped(listed([*each.scenarios], _NAMES))}"
        yield _code(f"{each.record}\n{each.reference}")


def _differences(run: RunResult, *, everything: bool) -> Iterator[str]:
    columns = groups.targets(run)
    rows = [row for _, members in groups.differing(run, everything=everything) for row in members]
    if rows:
        yield "### Differences between the targets"
        yield _table(
            ["subject", "fact", *columns],
            ([row.subject, row.fact, *(row.values.get(target, "") for target in columns)] for row in rows),
        )


def _lists(run: RunResult) -> Iterator[str]:
    skipped = groups.not_applicable(run)
    if skipped:
        rows = ([target, reason, listed(names, _NAMES)] for target, reason, names in skipped)
        yield _details("Not applicable", [_table(["target", "reason", "scenarios"], rows)])
    expected = groups.expected_failures(run)
    if expected:
        rows = (
            [reason, listed([f"{label(cell)}, {cell.target}" for cell in cells], _NAMES)] for reason, cells in expected
        )
        yield _details("Expected failures", [_table(["reason", "cells"], rows)])


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(_escaped(cell) for cell in line) + " |" for line in lines)


def _details(summary: str, blocks: Iterable[str]) -> str:
    return "\n\n".join([f"<details><summary>{html.escape(plain(summary))}</summary>", *blocks, "</details>"])


def _escaped(text: str) -> str:
    """The text as it is, whatever it holds: no mark-up, no HTML, no new line of a table."""
    return re.sub(r"([\\`*_\[\]<>|~#$])", r"\\\1", " ".join(plain(text).split()))


def _inline(text: str) -> str:
    """Code within a line; its fence is longer than any run of backticks in it."""
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return f"{fence} {text} {fence}"


def _code(text: str) -> str:
    return f"```sh\n{text}\n```"


REPORT = Report("markdown", render)
