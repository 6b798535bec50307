"""Markdown for pull requests and `$GITHUB_STEP_SUMMARY`: a run, an audit, or the changes between two runs.

Texts of a run are escaped, so they cannot become markup or HTML or end their block.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple

from harness.reports import groups, words
from harness.reports.audit_text import AUDIT_COLUMNS, audit_verdict, redrive_lines, unexplained_lines
from harness.reports.finding_causes import MAX_CAUSES, Cause, by_rule, causes, side_of, with_one_value
from harness.reports.run_changes import Changes, compare_runs
from harness.results import AuditResult, Blame, Finding, Presentation, Report, RunResult, Severity, Verdict

_MAX_CELLS = 3
_MAX_SCENARIOS = 8
_MAX_CHANGES = 30  # GitHub takes 65,536 characters of a comment
_MAX_BODY_LINES = 8
_CUT_NOTICE_BYTES = 120
_MARKS = {
    Verdict.PASS: "✅",
    Verdict.NOTE: "ℹ️",
    Verdict.WARN: "⚠️",
    Verdict.FAIL: "❌",
    Verdict.ERROR: "💥",
    Verdict.MISSING: "❔",
    Verdict.INCONCLUSIVE: "🤷",
    Verdict.NOT_APPLICABLE: "n/a",
    Verdict.EXPECTED_FAILURE: "expected",
}
_CHANGE_MARKS = {"worse": "❌ worse", "better": "✅ better"}
_TITLES = {Severity.ERROR: "Causes", Severity.WARNING: "Warnings", Severity.NOTE: "Notes"}


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table and escape its texts."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(escape_markdown(cell) for cell in line) + " |" for line in lines)


def details(summary: str, blocks: Iterable[str]) -> str:
    """Return blocks that are collapsed under a summary."""
    return "\n\n".join([f"<details><summary>{html.escape(words.plain(summary))}</summary>", *blocks, "</details>"])


def escape_markdown(text: str) -> str:
    """Return the text on one line, with Markdown and HTML characters escaped."""
    return re.sub(r"([\\`*_\[\]<>|~#$])", r"\\\1", " ".join(words.plain(text).split()))


def inline(text: str) -> str:
    """Return inline code, with a fence longer than any run of backticks in the text."""
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return f"{fence} {text} {fence}"


def code(text: str, language: str = "sh") -> str:
    """Return a code block, with a fence longer than any run of backticks in the text."""
    fence = "`" * (max((len(run) for run in re.findall("`{3,}", text)), default=2) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def render(run: RunResult, presentation: Presentation) -> str:
    """Return the Markdown of a run or an audit, the verdict first."""
    blocks = list(_of_run(run, presentation) if run.audit is None else _of_audit(run, run.audit, presentation))
    return "\n\n".join(_fit(blocks, presentation.max_bytes)) + "\n"


def _fit(blocks: Sequence[str], max_bytes: int | None) -> Sequence[str]:
    sizes = [len(each.encode("utf-8", "backslashreplace")) + 2 for each in blocks]
    if max_bytes is None or sum(sizes) - 1 <= max_bytes:
        return blocks
    kept: list[str] = []
    room = max_bytes - _CUT_NOTICE_BYTES
    for block, size in zip(blocks, sizes, strict=True):
        if size <= room:
            kept.append(block)
            room -= size
    missing = words.count(len(blocks) - len(kept), "part")
    return [*kept, f"{missing} of this report did not fit here. Write the report to a file to see all of it."]


def _of_run(run: RunResult, presentation: Presentation) -> Iterator[str]:
    word, sentence = words.verdict(run)
    verbose = presentation.verbose
    limit = None if verbose else _MAX_CELLS
    yield f"## harness: {word}"
    yield f"{escape_markdown(sentence)}."
    yield from _worst(run)
    yield from _matrix(run, by_scenario=verbose)
    yield from _gateway(run)
    yield from _causes(run, Severity.ERROR, limit)
    yield from _broken_lines(run, limit)
    yield from _check_notes(run)
    yield from _stale(run)
    yield from _missing(run)
    yield from map(escape_markdown, groups.provenance(run, by_target=verbose))
    yield from map(escape_markdown, words.costs(run, by_target=verbose) if verbose or words.is_paid(run) else ())
    yield from _causes(run, Severity.WARNING, limit)
    yield from _causes(run, Severity.NOTE, limit)
    yield from _differences(run, everything=presentation.all_differences)
    yield from _lists(run, verbose=verbose)


def _worst(run: RunResult) -> Iterator[str]:
    """Yield the worst causes with the wrong and the right value, if a cell failed."""
    crashes = [
        f"**Error in {words.count(groups.count_cells(places), 'cell')}:** "
        f"{escape_markdown(reason or 'no reason is known')}"
        for reason, places in groups.broken_cells(run)
    ]
    found = [*map(_short_cause, by_rule(run)), *crashes][:MAX_CAUSES]
    if run.summary[Verdict.FAIL] or crashes:
        yield f"### The worst {'cause' if len(found) == 1 else 'causes'}"
        yield "\n".join(f"{number}. {text}" for number, text in enumerate(found, 1))


def _short_cause(same: Sequence[Cause]) -> str:
    cause = same[0]
    place, finding = cause.places[0], cause.places[0].findings[0]
    values = dict(words.values(with_one_value(finding)))
    where = f", in {inline(words.place(finding))}" if words.place(finding) else ""
    cells = groups.count_cells(place for each in same for place in each.places)
    extent = f"{words.count(cells, 'cell')}, as in {escape_markdown(place.name)}, {escape_markdown(place.target)}"
    lines = [f"**{escape_markdown(words.sentence(cause.message))}** {escape_markdown(cause.rule)}: {extent}"]
    if values:
        lines.append(f"❌ {side_of(finding)}{where}: {inline(values['actual'])}")
    if "expected" in values:
        lines.append(f"✅ right: {inline(values['expected'])}")
    return "\n   - ".join([*lines, f"to do: {words.what_to_do(cause)}"])


def _of_audit(run: RunResult, done: AuditResult, presentation: Presentation) -> Iterator[str]:
    limit = None if presentation.verbose else _MAX_CELLS
    yield f"## harness: {words.verdict(run)[0]}"
    yield escape_markdown(audit_verdict(done))
    yield from map(escape_markdown, (*groups.facts(run), *groups.scope(run)))
    counts = {api: each for api, each in done.apis.items() if each.exchanges}
    if counts:
        yield table(["API", *AUDIT_COLUMNS], ([api, *map(str, astuple(each))] for api, each in counts.items()))
    for severity in _TITLES:
        yield from _causes(run, severity, limit)
    if done.redrive is not None:
        yield "### Driven again"
        yield code("\n".join(redrive_lines(done.redrive, verbose=presentation.verbose)).strip("\n"), "text")
    if done.unexplained:
        yield f"### Refused, and no rule explains why: {words.count(len(done.unexplained), 'request')}"
        yield code("\n".join([*unexplained_lines(done, limit)][2:]), "text")
    damaged = [f"- {escape_markdown(each.reason)}" for each in done.skipped if each.damaged]
    if damaged:
        yield f"### Not audited, since it cannot be read: {words.count(len(damaged), 'cassette')}"
        yield "\n".join(damaged[:limit])


def _matrix(run: RunResult, *, by_scenario: bool) -> Iterator[str]:
    columns = groups.columns(run)
    if not columns:
        return
    rows = (
        [row.name, *(" ".join(f"{which} {_MARKS[each]}".strip() for which, each in row.verdicts[t]) for t in columns)]
        for row in groups.matrix(run, by_scenario=by_scenario)
    )
    yield table(["scenario" if by_scenario else "feature", *columns], rows)
    used = [each for each in Verdict if run.summary[each]]
    yield ", ".join(f"{_MARKS[each]} {each.value.replace('-', ' ')}" for each in used)
    for target, reason in run.left_out.items():
        yield f"**{escape_markdown(target)} is left out**: {escape_markdown(reason)}"


def _gateway(run: RunResult) -> Iterator[str]:
    counts = run.check.gateway if run.check is not None else ()
    if counts:
        yield f"### {groups.GATEWAY_HEADING}"
        rows = ([detail, *map(groups.outcome_counts_text, found)] for detail, found in groups.gateway_rows(counts))
        yield table(groups.gateway_columns(counts), rows)


def _causes(run: RunResult, severity: Severity, limit: int | None) -> Iterator[str]:
    found = causes(run, severity)
    if found:
        yield f"### {_TITLES[severity]}: {len(found)}"
    for cause in found:
        again = [] if run.audit is not None else [_commands(run, cause.places[0])]
        blocks = [f"**What to do:** {words.what_to_do(cause)}", *_evidence(cause, limit), *again]
        yield details(f"{cause.message} ({cause.rule}; {cause.extent})", blocks)
    if severity is Severity.ERROR and any(cause.blame in (Blame.ADAPTER, Blame.CLIENT) for cause in found):
        yield words.ACCEPT_HINT


def _commands(run: RunResult, place: groups.CellPlace) -> str:
    return code(f"{groups.show_command(run, place.cells[0])}\n{groups.rerun_command(run, place)}".strip())


def _evidence(cause: Cause, limit: int | None) -> Iterator[str]:
    for each in cause.places[:limit]:
        items = map(_item, each.findings[:limit])
        yield "\n".join([f"**{escape_markdown(each.name)}**, {escape_markdown(each.target)}", "", *items])
    shown = cause.places[0].findings[0]
    if shown.piece:
        yield code("\n".join(map(words.plain_line, shown.piece)), "text")
    for body in shown.bodies:
        yield f"{escape_markdown(body.end)}:"
        yield code("\n".join(map(words.plain_line, body.piece or body.text.splitlines()[:_MAX_BODY_LINES])), "text")
    if more := groups.count_cells(cause.places[len(cause.places[:limit]) :]):
        yield f"and {words.count(more, 'more cell')}"
    if cause.following:
        yield escape_markdown(cause.following)
    at = ", ".join(f"{api} {inline(pointer)}" if pointer else api for api, pointer in cause.at)
    source = f". Source: {escape_markdown(cause.source)}" if cause.source else ""
    yield f"Rule {escape_markdown(cause.rule)}: {words.KINDS[cause.kind]}; at fault: {cause.blame}; {at}{source}"


def _item(finding: Finding) -> str:
    where = f"{inline(words.place(finding))}: " if words.place(finding) else ""
    shown = ", ".join(f"{name} {inline(value)}" for name, value in words.values(finding))
    return f"- {where}{escape_markdown(finding.message)}{'; ' if shown else ''}{shown}"


def _broken_lines(run: RunResult, limit: int | None) -> Iterator[str]:
    for reason, places in groups.broken_cells(run):
        names = [f"- {escape_markdown(each.name)}, {escape_markdown(each.target)}" for each in places[:limit]]
        if more := groups.count_cells(places[len(names) :]):
            names.append(f"- and {words.count(more, 'more cell')}")
        title = f"error in {words.count(groups.count_cells(places), 'cell')}: {reason}"
        yield details(title, ["\n".join(names), words.CRASHED, _commands(run, places[0])])


def _check_notes(run: RunResult) -> Iterator[str]:
    notes = words.check_notes(run.check) if run.check is not None else ()
    for about, members in groups.group_by(notes, lambda each: each[0]):
        yield "\n".join([f"### {about}", "", *(f"- {escape_markdown(sentence)}" for _, sentence in members)])


def _stale(run: RunResult) -> Iterator[str]:
    if run.stale:
        yield "### Expected failures that did not happen: remove them from the list"
        yield table(
            ["scenario", "variant", "target", "rule", "reason"],
            ([each.scenario, each.variant or "both", each.target, each.rule, each.reason] for each in run.stale),
        )


def _missing(run: RunResult) -> Iterator[str]:
    found = groups.missing(run)
    if found:
        yield f"### Not checked: {words.count(run.summary[Verdict.MISSING], 'cell')} without a cassette"
    for each in found:
        scenarios = words.list_names([*each.scenarios], _MAX_SCENARIOS)
        yield f"{escape_markdown(', '.join(each.targets))}: {escape_markdown(scenarios)}"
        yield code(f"{each.record}\n{each.reference}")


def _differences(run: RunResult, *, everything: bool) -> Iterator[str]:
    columns = groups.targets(run)
    rows = [row for _, members in groups.differing(run, everything=everything) for row in members]
    if rows:
        lines = ([row.subject, row.aspect, *(row.values.get(target, "") for target in columns)] for row in rows)
        yield details("How the targets differ", [table(["feature", "property", *columns], lines)])


def _lists(run: RunResult, *, verbose: bool) -> Iterator[str]:
    skipped = groups.not_applicable(run, None if verbose else _MAX_SCENARIOS)
    if skipped:
        yield details("Not applicable", [table(["target", "cells", "reason"], skipped)])
    unclear = groups.inconclusive(run)
    if unclear:
        named = (
            [reason, words.list_names([each.name for each in places], _MAX_SCENARIOS)] for reason, places in unclear
        )
        yield details("Inconclusive", [table(["reason", "cells"], named)])
    expected = groups.expected_failures(run)
    if expected:
        rows = (
            [reason, words.list_names([f"{each.name}, {each.target}" for each in places], _MAX_SCENARIOS)]
            for reason, places in expected
        )
        yield details("Expected failures", [table(["reason", "cells"], rows)])


def compare(before: RunResult, run: RunResult, presentation: Presentation) -> str:
    """Return the changes between two runs as Markdown, the worst first."""
    made = compare_runs(run, before)
    return "\n\n".join(_of_changes(before, run, made, None if presentation.verbose else _MAX_CHANGES)) + "\n"


def _of_changes(before: RunResult, run: RunResult, made: Changes, max_changes: int | None) -> Iterator[str]:
    yield f"## harness: {made.word.lower()}"
    yield escape_markdown(made.sentence)
    runs = (("before", before), ("now", run))
    rows = ([name, each.played_at or "", ": ".join(words.verdict(each))] for name, each in runs)
    yield table(["", "date", "verdict"], rows)
    if made.conditions:
        yield "**The two runs were made differently:**"
        yield "\n".join(f"- {escape_markdown(sentence)}" for sentence in made.conditions)
    for title, changes in made.sections:
        shown = changes[:max_changes]
        lines = (
            [_CHANGE_MARKS.get(each.label, each.label), each.what, each.before or "", each.now or ""] for each in shown
        )
        blocks = [table(["", "what", "before", "now"], lines)]
        if len(changes) > len(shown):
            blocks.append(f"and {words.count(len(changes) - len(shown), 'more change')}")
        yield details(title, blocks)


REPORT = Report("markdown", render, compare=compare)
