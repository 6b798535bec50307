"""For pull requests and `$GITHUB_STEP_SUMMARY`: Markdown with tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple

from harness.reports import _audit as audit
from harness.reports import _changes
from harness.reports import _gateway as gateways
from harness.reports import _groups as groups
from harness.reports._causes import Cause, causes
from harness.reports._checked import sentences
from harness.reports._costs import costs
from harness.reports._markdown import code, details, escaped, inline, table
from harness.reports._redrive import redrive_lines
from harness.reports._words import CRASHED, KNOWN, count, listed, place, plain_line, values, verdict, what_to_do
from harness.results import Audited, Blame, Finding, Presentation, Report, RunResult, Severity, Verdict

_SHOWN = 3  # cells of a group whose evidence is shown
_NAMES = 8
_NOTE = 120  # bytes of the sentence that says what had no room
_BODY = 8  # lines that are shown of a body of which no place matters more than others
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

_HEADS = {Severity.ERROR: "Causes", Severity.WARNING: "Warnings", Severity.NOTE: "Notes"}


def render(run: RunResult, presentation: Presentation) -> str:
    """The Markdown, verdict first: it is what a summary is opened for."""
    return "".join(pieces(run, presentation))


def pieces(run: RunResult, presentation: Presentation) -> Iterator[str]:
    """The same, a block at a time."""
    blocks = _of_run(run, presentation) if run.audit is None else _of_audit(run, run.audit, presentation)
    between = ""
    for block in blocks if presentation.most is None else _fitted(list(blocks), presentation.most):
        yield between + block
        between = "\n\n"
    yield "\n"


def _fitted(blocks: Sequence[str], most: int) -> Sequence[str]:
    """As many blocks as have room in so many bytes, none of them cut: half of one would not be closed."""
    sizes = [len(each.encode("utf-8", "backslashreplace")) + 2 for each in blocks]
    if sum(sizes) - 1 <= most:
        return blocks
    kept: list[str] = []
    room = most - _NOTE
    for block, size in zip(blocks, sizes, strict=True):
        if size <= room:
            kept.append(block)
            room -= size
    missing = count(len(blocks) - len(kept), "part")
    return [*kept, f"{missing} of this report had no room here: a report in a file of its own has all of it."]


def _of_run(run: RunResult, presentation: Presentation) -> Iterator[str]:
    word, sentence = verdict(run)
    limit = None if presentation.verbose else _SHOWN
    yield f"## harness: {word}"
    yield f"{escaped(sentence)}."
    yield from _matrix(run, by_scenario=presentation.verbose)
    yield from _gateway(run)
    yield from _causes(run, Severity.ERROR, limit)
    yield from _broken(run, limit)
    yield from _checked(run)
    yield from _stale(run)
    yield from _missing(run)
    yield from _differences(run, everything=presentation.all_differences)
    yield from map(escaped, groups.provenance(run))
    yield from map(escaped, costs(run, by_target=presentation.verbose))
    yield from _causes(run, Severity.WARNING, limit)
    yield from _causes(run, Severity.NOTE, limit)
    yield from _lists(run, verbose=presentation.verbose)


def _of_audit(run: RunResult, done: Audited, presentation: Presentation) -> Iterator[str]:
    limit = None if presentation.verbose else _SHOWN
    yield f"## harness: {verdict(run)[0]}"
    yield escaped(audit.verdict(done))
    yield from map(escaped, (*groups.facts(run), *groups.scope(run)))
    counts = {api: each for api, each in done.apis.items() if each.exchanges}
    if counts:
        heads = ("exchanges", "unread", "accepted", "flagged", "refused", "flagged", "streamed", "broken")
        yield table(["API", *heads], ([api, *map(str, astuple(each))] for api, each in counts.items()))
    for severity in _HEADS:
        yield from _causes(run, severity, limit)
    if done.redrive is not None:
        yield "### Driven again"
        yield code("\n".join(redrive_lines(done.redrive, verbose=presentation.verbose)).strip("\n"), "text")
    if done.unexplained:
        yield f"### Refused, and no rule says why: {count(len(done.unexplained), 'request')}"
        yield code("\n".join([*audit.unexplained(done, limit)][2:]), "text")
    damaged = [f"- {escaped(each.reason)}" for each in done.skipped if each.damaged]
    if damaged:
        yield f"### Not audited, since it cannot be read: {count(len(damaged), 'cassette')}"
        yield "\n".join(damaged[:limit])


def _matrix(run: RunResult, *, by_scenario: bool) -> Iterator[str]:
    columns = groups.columns(run)
    if not columns:
        return
    rows = (
        [row.name, *(" ".join(f"{which} {_MARKS[each]}".strip() for which, each in row.verdicts[t]) for t in columns)]
        for row in groups.matrix(run, by_scenario=by_scenario)
    )
    yield table(["scenario" if by_scenario else "subject", *columns], rows)
    used = [each for each in Verdict if run.summary[each]]
    yield ", ".join(f"{_MARKS[each]} {each.value.replace('-', ' ')}" for each in used)
    for target, reason in run.left_out.items():
        yield f"**{escaped(target)} is left out**: {escaped(reason)}"


def _gateway(run: RunResult) -> Iterator[str]:
    fates = run.check.gateway if run.check is not None else ()
    if fates:
        yield f"### {gateways.HEADING}"
        rows = ([fact, *map(gateways.told, found)] for fact, found in gateways.rows(fates))
        yield table(gateways.heads(fates), rows)


def _causes(run: RunResult, severity: Severity, limit: int | None) -> Iterator[str]:
    found = causes(run, severity)
    if found:
        yield f"### {_HEADS[severity]}: {len(found)}"
    for cause in found:
        first = cause.places[0]
        again = [] if run.audit is not None else [_commands(run, first)]
        yield details(
            f"{cause.rule}: {cause.extent}; {cause.kind}, blame: {cause.blame}",
            [*_evidence(cause, limit), what_to_do(cause), *again],
        )
    if severity is Severity.ERROR and any(cause.blame in (Blame.ADAPTER, Blame.CLIENT) for cause in found):
        yield KNOWN


def _commands(run: RunResult, place: groups.Place) -> str:
    """What shows a place, where something does, and what plays it again."""
    return code(f"{groups.look(run, place.cells[0])}\n{groups.rerun(run, place)}".strip())


def _evidence(cause: Cause, limit: int | None) -> Iterator[str]:
    yield ", ".join(f"{api} {inline(spot)}" if spot else api for api, spot in cause.at)
    for each in cause.places[:limit]:
        items = map(_item, each.findings[:limit])
        yield "\n".join([f"**{escaped(each.name)}**, {escaped(each.target)}", "", *items])
    shown = cause.places[0].findings[0]
    if shown.piece:
        yield code("\n".join(map(plain_line, shown.piece)), "text")
    for body in shown.bodies:
        yield f"{escaped(body.end)}:"
        yield code("\n".join(map(plain_line, body.piece or body.text.splitlines()[:_BODY])), "text")
    if more := groups.cells_of(cause.places[len(cause.places[:limit]) :]):
        yield f"and {count(more, 'more cell')}"
    if cause.following:
        yield escaped(cause.following)
    if cause.source:
        yield f"Source: {escaped(cause.source)}"


def _item(finding: Finding) -> str:
    where = f"{inline(place(finding))}: " if place(finding) else ""
    told = ", ".join(f"{name} {inline(value)}" for name, value in values(finding))
    return f"- {where}{escaped(finding.message)}{'; ' if told else ''}{told}"


def _broken(run: RunResult, limit: int | None) -> Iterator[str]:
    for reason, places in groups.broken(run):
        names = [f"- {escaped(each.name)}, {escaped(each.target)}" for each in places[:limit]]
        if more := groups.cells_of(places[len(names) :]):
            names.append(f"- and {count(more, 'more cell')}")
        yield details(
            f"error in {count(groups.cells_of(places), 'cell')}: {reason}",
            [
                "\n".join(names),
                CRASHED,
                _commands(run, places[0]),
            ],
        )


def _checked(run: RunResult) -> Iterator[str]:
    for about, said in groups.grouped(sentences(run.check) if run.check is not None else (), lambda each: each[0]):
        yield "\n".join([f"### {about}", "", *(f"- {escaped(sentence)}" for _, sentence in said)])


def _stale(run: RunResult) -> Iterator[str]:
    if run.stale:
        yield "### Expected failures that did not happen: take them off the list"
        yield table(
            ["scenario", "variant", "target", "rule", "reason"],
            ([each.scenario, each.variant or "both", each.target, each.rule, each.reason] for each in run.stale),
        )


def _missing(run: RunResult) -> Iterator[str]:
    found = groups.missing(run)
    if found:
        yield f"### Could not look: {count(run.summary[Verdict.MISSING], 'cell')} without a cassette"
    for each in found:
        yield f"{escaped(', '.join(each.targets))}: {escaped(listed([*each.scenarios], _NAMES))}"
        yield code(f"{each.record}\n{each.reference}")


def _differences(run: RunResult, *, everything: bool) -> Iterator[str]:
    columns = groups.targets(run)
    rows = [row for _, members in groups.differing(run, everything=everything) for row in members]
    if rows:
        yield "### Differences between the targets"
        yield table(
            ["subject", "fact", *columns],
            ([row.subject, row.fact, *(row.values.get(target, "") for target in columns)] for row in rows),
        )


def _lists(run: RunResult, *, verbose: bool) -> Iterator[str]:
    skipped = groups.not_applicable(run, None if verbose else _NAMES)
    if skipped:
        yield details("Not applicable", [table(["target", "cells", "reason"], skipped)])
    unclear = groups.inconclusive(run)
    if unclear:
        named = ([reason, listed([each.name for each in places], _NAMES)] for reason, places in unclear)
        yield details("Inconclusive", [table(["reason", "cells"], named)])
    expected = groups.expected_failures(run)
    if expected:
        rows = (
            [reason, listed([f"{each.name}, {each.target}" for each in places], _NAMES)] for reason, places in expected
        )
        yield details("Expected failures", [table(["reason", "cells"], rows)])


REPORT = Report("markdown", render, pieces=pieces, compare=_changes.render)
