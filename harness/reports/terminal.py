"""Report for a terminal: verdict, one table, problems and remedies, and the origin of the answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from harness.reports import groups, words
from harness.reports.audit_text import audit_lines
from harness.reports.finding_causes import Cause, causes
from harness.reports.groups import CellPlace
from harness.reports.hand_over_table import hand_over_lines
from harness.reports.page import Page, columns, fits, hanging, heading, indent
from harness.reports.run_changes import Changes, RunChange, compare_runs
from harness.results import (
    Blame,
    CheckResult,
    DetailOutcome,
    Finding,
    Kind,
    Presentation,
    Report,
    RunResult,
    Severity,
    Verdict,
)

_SCREEN_LINES = 24
"""Number of lines above which a report repeats the verdict at its end."""
_MAX_CELLS = 3
_MAX_SCENARIOS = 8
_MAX_CAUSES = 3
_MAX_UNMATCHED = 8
_MAX_CHANGES = 12
_MAX_PRINTED_LINES = 5
_MAX_BODY_LINES = 8
_LABEL_WIDTH = 11

_STYLES = {
    Verdict.PASS: "green",
    Verdict.NOTE: "cyan",
    Verdict.WARN: "yellow",
    Verdict.FAIL: "bold red",
    Verdict.ERROR: "bold red",
    Verdict.MISSING: "magenta",
    Verdict.INCONCLUSIVE: "magenta",
    Verdict.NOT_APPLICABLE: "dim",
    Verdict.EXPECTED_FAILURE: "yellow",
}
_OUTCOME_STYLES = {
    DetailOutcome.PRESERVED: "green",
    DetailOutcome.TRANSLATED: "cyan",
    DetailOutcome.REFUSED: "yellow",
    DetailOutcome.LOST: "bold red",
}
_ABBREVIATIONS = {Verdict.NOT_APPLICABLE: "n/a", Verdict.EXPECTED_FAILURE: "expected"}
_WORD_STYLES = {"PASS": "bold green", "FAIL": "bold red"}
_CHANGE_STYLES = {"WORSE": "bold red", "NOT WORSE": "bold green", "SAME": "bold green"}


def render(run: RunResult, presentation: Presentation) -> str:
    """Return the report of a run as text that ends with a line break."""
    if run.audit is not None:
        return "\n".join(audit_lines(run, run.audit, verbose=presentation.verbose, quiet=presentation.quiet)) + "\n"
    page, verbose = Page(presentation), presentation.verbose
    if presentation.quiet:
        return _join(page, _quiet(run))
    sections = (
        _verdict(run),
        _model_note(run),
        _matrix(run, page.width, verbose=verbose),
        _gateway(run, page.width),
        hand_over_lines(run, page.width),
        _ranked_causes(run),
        _errors(run, verbose=verbose),
        _broken_lines(run, verbose=verbose),
        _printed_output(run, verbose=verbose),
        _tracebacks(run, verbose=verbose),
        _stale(run),
        _missing(run),
        _differences(run, verbose=verbose, everything=presentation.all_differences),
        _provenance(run, verbose=verbose),
        _not_applicable(run, verbose=verbose),
        _inconclusive(run),
        _check_notes(run),
        _expected_failures(run),
        _unmatched_lines(run),
        _minor_causes(run, Severity.WARNING, verbose=verbose),
        _minor_causes(run, Severity.NOTE, verbose=verbose),
    )
    text = _join(page, sections)
    return text if text.count("\n") < _SCREEN_LINES else f"{text}\n{_join(page, [_verdict(run)])}"


def compare(before: RunResult, run: RunResult, presentation: Presentation) -> str:
    """Return the changes from one run to another as text that ends with a line break."""
    made = compare_runs(run, before)
    max_changes = None if presentation.verbose else _MAX_CHANGES
    sections = (
        _change_verdict(before, run, made),
        _conditions(made.conditions),
        *(_changes(title, changes, max_changes) for title, changes in made.sections),
        _worse_cells_hint(run, made),
    )
    return _join(Page(presentation), sections)


def _join(page: Page, sections: Sequence[Iterator[RenderableType]]) -> str:
    return "\n\n".join("\n".join(lines) for lines in map(page.lines, sections) if lines) + "\n"


def _quiet(run: RunResult) -> Sequence[Iterator[RenderableType]]:
    return (
        _errors(run, verbose=False),
        _broken_lines(run, verbose=False),
        _stale(run),
        _missing(run),
        map(indent, groups.scope(run)),
        _verdict(run),
    )


def _verdict(run: RunResult) -> Iterator[RenderableType]:
    word, sentence = words.verdict(run)
    seconds = run.timing.get("seconds")
    text = Text(word, style=_WORD_STYLES.get(word, "bold magenta"))
    text.append(f"  {sentence}" + ("" if seconds is None else f" ({seconds:.1f} s)"), style="not bold")
    yield text


def _model_note(run: RunResult) -> Iterator[RenderableType]:
    if run.check is not None and run.check.model_note:
        yield Text(words.plain(run.check.model_note), style="yellow")


def _matrix(run: RunResult, width: int, *, verbose: bool) -> Iterator[RenderableType]:
    if run.cells and not any(cell.hand_over for cell in run.cells):  # hand-over cells have their own table
        names = groups.columns(run)
        rows = groups.matrix(run, by_scenario=verbose)
        if not verbose:
            rows = [row for row in rows if any(each is not Verdict.NOT_APPLICABLE for _, each in row.total)] or rows
        heads = ["scenario" if verbose else "feature", *names]
        table = [
            [Text(words.plain(row.name)), *(_counts(row.verdicts[name], verbose=verbose) for name in names)]
            for row in rows
        ]
        if not (verbose or run.exit_code or fits(heads, table, width)):  # for a passing run, the totals are enough
            heads = ["feature", f"all {len(names)} targets"]
            table = [[Text(words.plain(row.name)), _counts(row.total, verbose=False)] for row in rows]
        yield from columns(heads, table, width)
    for target, reason in run.left_out.items():
        yield Text(words.plain(f"{target} is left out: {reason}"), style="yellow")


def _counts(verdicts: Sequence[tuple[str, Verdict]], *, verbose: bool) -> Text:
    """Show the verdicts of some cells. Cells that are not applicable are shown only if `verbose` is set or if there are
    no others.
    """
    played = [each for each in verdicts if each[1] is not Verdict.NOT_APPLICABLE]
    text = Text()
    for which, each in verdicts if verbose or not played else played:
        text.append(", " if text else "")
        text.append(f"{which} {_ABBREVIATIONS.get(each, each.value)}".strip(), style=_STYLES[each])
    return text or Text("-", style="dim")


def _gateway(run: RunResult, width: int) -> Iterator[RenderableType]:
    counts = run.check.gateway if run.check is not None else ()
    if counts:
        yield heading(groups.GATEWAY_HEADING)
        rows = [[Text(words.plain(detail)), *map(_outcomes, found)] for detail, found in groups.gateway_rows(counts)]
        yield from columns(groups.gateway_columns(counts), rows, width)


def _outcomes(found: Sequence[tuple[DetailOutcome, int]]) -> Text:
    text = Text()
    for outcome, number in found:
        text.append(", " if text else "")
        text.append(f"{number} {outcome}", style=_OUTCOME_STYLES[outcome])
    return text or Text("-", style="dim")


def _check_notes(run: RunResult) -> Iterator[RenderableType]:
    checked = replace(run.check, model_note="") if run.check is not None else CheckResult()  # the note is further up
    for about, notes in groups.group_by(words.check_notes(checked), lambda each: each[0]):
        yield heading(about)
        yield from (indent(sentence) for _, sentence in notes)


def _ranked_causes(run: RunResult) -> Iterator[RenderableType]:
    """Show one short entry for each cause of a check, the worst first, if there are several. Without `--verbose`, only
    the first cause is shown in full below this list.
    """
    found = causes(run, Severity.ERROR) if run.check is not None else []
    if len(found) > 1:
        yield heading(f"{len(found)} causes, the worst first. The first is shown below; --verbose shows each.")
        for number, cause in enumerate(found, 1):
            yield hanging(f"{number}", cause.message, width=2)
            yield indent(f"{cause.rule}; at fault: {cause.blame}; {cause.extent}", "dim", by=6)


def _errors(run: RunResult, *, verbose: bool) -> Iterator[RenderableType]:
    """Show why cells fail. In a check, show only the worst cause unless `verbose` is set, because `_ranked_causes`
    lists them all.
    """
    found = causes(run, Severity.ERROR)
    for number, cause in enumerate(found if verbose or run.check is None else found[:1], 1):
        yield from [""] if number > 1 else []
        yield from _cause(run, cause, f"Cause {number}", verbose=verbose)
    if any(cause.blame in (Blame.ADAPTER, Blame.CLIENT) for cause in found):
        yield from ("", indent(words.ACCEPT_HINT, "dim"))


def _minor_causes(run: RunResult, severity: Severity, *, verbose: bool) -> Iterator[RenderableType]:
    found = causes(run, severity)
    if verbose:
        for number, cause in enumerate(found, 1):
            yield from [""] if number > 1 else []
            yield from _cause(run, cause, f"{severity.capitalize()} {number}", verbose=True)
        return
    if found:
        yield heading(f"{severity.capitalize()}s that fail nothing: {len(found)}; --verbose shows each")
    for cause in found[:_MAX_CAUSES]:
        first, *others = cause.places
        more = f" and {words.count(groups.count_cells(others), 'more cell')}" if others else ""
        yield indent(f"{cause.message} ({cause.rule}; {_cell_name(first)}{more})")
    if len(found) > _MAX_CAUSES:
        yield indent(f"and {len(found) - _MAX_CAUSES} more")


def _cause(run: RunResult, cause: Cause, title: str, *, verbose: bool) -> Iterator[RenderableType]:
    yield heading(f"{title}: {cause.message}")
    yield _label("What to do", words.what_to_do(cause))
    yield from _other_model(run, cause)
    yield _label("Rule", f"{cause.rule}: {words.KINDS[cause.kind]}; at fault: {cause.blame}; {cause.extent}")
    if verbose:
        yield _label("At", f"{cause.location}{f'; source: {cause.source}' if cause.source else ''}")
    shown = cause.places if verbose else cause.places[:1]
    for each in shown:
        yield indent(_cell_name(each), "bold")
        for number, finding in enumerate(each.findings if verbose else each.findings[:1]):
            yield from _evidence(finding, says=number > 0 or finding.message != cause.message)
        if not verbose and len(each.findings) > 1:
            yield indent(f"and {words.count(len(each.findings) - 1, 'more finding')} like it in this cell", "dim", by=4)
        if verbose:
            yield from _followers(each)
    yield from _other_cells(cause.places[len(shown) :])
    if cause.followers and not verbose:
        yield indent(cause.following, "dim")
    yield from _show_command_lines(run, cause.places[0])
    yield _label("Run again", groups.rerun_command(run, cause.places[0]))


def _label(name: str, text: str) -> RenderableType:
    return hanging(name, text, width=_LABEL_WIDTH)


def _other_model(run: RunResult, cause: Cause) -> Iterator[RenderableType]:
    """Suggest another model, because a provider may refuse for one model what it accepts for another."""
    cell = cause.places[0].cells[0]
    model = cell.provenance.model_requested if cell.provenance else None
    if model and run.mode == "reference" and cause.kind is Kind.LIMIT and cause.blame in (Blame.ADAPTER, Blame.CLIENT):
        yield _label("Or", f"If the adapter is for other models than {model}: --model {cell.target}=NAME")


def _show_command_lines(run: RunResult, place: CellPlace) -> Iterator[RenderableType]:
    if command := groups.show_command(run, place.cells[0]):
        yield _label("Look", command)


def _evidence(finding: Finding, *, says: bool) -> Iterator[RenderableType]:
    """Show where a finding is and the values there. If `says` is set, include its message."""
    parts = [part for part in (words.place(finding), finding.message if says else "") if part]
    if parts:
        yield indent(": ".join(parts), by=4)
    for name, value in words.values(finding):
        yield hanging(name, value, width=8, by=6)
    yield from _lines(finding.piece)
    for body in finding.bodies:
        yield indent(f"{body.end}{': ' if body.piece else ''}{body.piece[0] if body.piece else ''}", by=6)
        yield from _lines(body.piece[1:] or body.text.splitlines()[:_MAX_BODY_LINES])


def _lines(piece: Sequence[str]) -> Iterator[RenderableType]:
    for line in piece:
        yield Padding(Text(words.plain_line(line), style="dim", no_wrap=True, overflow="ellipsis"), (0, 0, 0, 6))


def _followers(place: CellPlace) -> Iterator[RenderableType]:
    cell = place.cells[0]
    for follower in cell.findings:
        if follower.follows is not None and cell.findings[follower.follows] in place.findings:
            yield indent(f"follows: {follower.rule}", by=4)
            yield from _evidence(follower, says=True)


def _other_cells(places: Sequence[CellPlace]) -> Iterator[RenderableType]:
    if places:
        rest = groups.count_cells(places[_MAX_CELLS:])
        names = ", ".join(map(_cell_name, places[:_MAX_CELLS])) + (
            f" and {words.count(rest, 'more cell')}" if rest else ""
        )
        yield indent(f"also in {names}; --verbose shows each", "dim")


def _cell_name(place: CellPlace) -> str:
    return f"{place.name} . {place.target}"


def _broken_lines(run: RunResult, *, verbose: bool) -> Iterator[RenderableType]:
    for index, (reason, places) in enumerate(groups.broken_cells(run)):
        shown = places if verbose else places[:_MAX_CELLS]
        yield from [""] if index else []
        yield heading(f"error in {words.count(groups.count_cells(places), 'cell')}: {reason or 'no reason is known'}")
        for each in shown:
            yield indent(_cell_name(each), "bold")
        yield from _other_cells(places[len(shown) :])
        yield _label("What to do", words.CRASHED)
        yield from _show_command_lines(run, places[0])
        yield _label("Run again", groups.rerun_command(run, places[0]))


def _printed_output(run: RunResult, *, verbose: bool) -> Iterator[RenderableType]:
    bad = (Verdict.FAIL, Verdict.ERROR)
    cells = [cell for cell in run.cells if cell.printed and (verbose or cell.verdict in bad)]
    if cells:
        yield heading(f"Printed by the adapter: in {words.count(len(cells), 'cell')}")
    for cell in cells if verbose else cells[:_MAX_CELLS]:
        lines = (cell.printed or "").splitlines()
        yield indent(f"{words.label(cell)} . {cell.target}", "bold")
        yield from (indent(line, by=4) for line in (lines if verbose else lines[-_MAX_PRINTED_LINES:]))
    if cells[_MAX_CELLS:] and not verbose:
        yield indent(f"and {words.count(len(cells) - _MAX_CELLS, 'more cell')}; --verbose shows all", "dim")


def _tracebacks(run: RunResult, *, verbose: bool) -> Iterator[RenderableType]:
    for cell in run.cells if verbose else ():
        if cell.traceback:
            yield heading(f"Traceback of {words.label(cell)} . {cell.target}")
            yield from (indent(line, by=4) for line in cell.traceback.splitlines())


def _missing(run: RunResult) -> Iterator[RenderableType]:
    """Show cells without a cassette, with the two commands that solve this."""
    found = groups.missing(run)
    if found:
        total = words.count(run.summary[Verdict.MISSING], "cell")
        where = f" in {run.cassettes}" if run.cassettes else ""
        yield heading(
            f"Not recorded: {total}" if run.mode == "record" else f"Not checked: no cassette for {total}{where}"
        )
    for each in found:
        yield indent(f"{words.list_names([*each.scenarios], _MAX_SCENARIOS)}: {', '.join(each.targets)}")
        if run.mode == "record" or len(each.cells) == 1:
            yield indent(each.reason, by=4)
        yield hanging("record", each.record, width=9, by=4)
        yield hanging("or run", each.reference, width=9, by=4)


def _differences(run: RunResult, *, verbose: bool, everything: bool) -> Iterator[RenderableType]:
    rows = [row for row in run.differences if everything or (verbose and row.differs)]
    if rows:
        differing = sum(row.differs for row in run.differences)
        yield heading(f"How the targets differ: {differing} of {len(run.differences)} properties of the wire format")
    width = max((len(row.aspect) for row in rows), default=0)
    for about, members in groups.group_by(rows, lambda row: row.subject):
        yield Text(words.plain(about))
        for row in members:
            text = Text()
            for value, names in groups.by_value(row):
                text.append("; " if text else "")
                text.append(words.plain(value))
                text.append(f" ({words.plain(names)})", style="dim")
            yield hanging(row.aspect, text, width=width)


def _provenance(run: RunResult, *, verbose: bool) -> Iterator[RenderableType]:
    """Show the origin of the answers, the cost of a paid run, and the location of new cassettes."""
    sentences = groups.provenance(run, by_target=verbose)
    hidden = not verbose and (run.summary[Verdict.NOT_APPLICABLE] or any(row.differs for row in run.differences))
    if sentences and hidden and not run.exit_code:
        sentences[0] += " --verbose shows more."
    for sentence in sentences:
        yield Text(words.plain(sentence))
    for sentence in words.costs(run, by_target=verbose) if verbose or words.is_paid(run) else ():
        yield Text(words.plain(sentence))
    if run.mode == "record":
        yield Text(words.plain(f"The cassettes are in {run.cassettes}."))
    for reason, places in groups.unrecorded_cells(run):
        yield Text(
            words.plain(f"{words.list_names([_cell_name(each) for each in places], _MAX_SCENARIOS)}: {reason}"),
            style="bold red",
        )


def _not_applicable(run: RunResult, *, verbose: bool) -> Iterator[RenderableType]:
    """Show which cells are not applicable and why, if requested or if no other cell ran."""
    number = run.summary[Verdict.NOT_APPLICABLE]
    if number and (verbose or number == len(run.cells)):
        yield heading(f"Not applicable: {words.count(number, 'cell')}")
        for targets, cells, reason in groups.not_applicable(run, None if verbose else _MAX_SCENARIOS):
            yield indent(f"{targets}: {cells}: {reason}")


def _inconclusive(run: RunResult) -> Iterator[RenderableType]:
    found = groups.inconclusive(run)
    if found:
        total = words.count(run.summary[Verdict.INCONCLUSIVE], "cell")
        yield heading(f"Inconclusive: {total}; neither passed nor failed")
    for reason, places in found:
        yield indent(f"{words.list_names([each.name for each in places], _MAX_CELLS)}: {reason}")


def _expected_failures(run: RunResult) -> Iterator[RenderableType]:
    found = groups.expected_failures(run)
    if found:
        cells = sum(any(finding.accepted is not None for finding in cell.findings) for cell in run.cells)
        yield heading(f"Expected failures: {words.count(cells, 'cell')}")
    for reason, places in found:
        yield indent(f"{words.list_names([_cell_name(each) for each in places], _MAX_CELLS)}: {reason}")


def _stale(run: RunResult) -> Iterator[RenderableType]:
    """Show expected failures that did not happen. These fail the run."""
    if run.stale:
        yield heading("Expected failures that did not happen: remove them from the list")
    for each in run.stale:
        variant = f" [{each.variant}]" if each.variant else ""
        yield indent(f"{each.rule} in {each.scenario}{variant}, {each.target} (listed because: {each.reason})")


def _unmatched_lines(run: RunResult) -> Iterator[RenderableType]:
    if run.unmatched:
        yield heading(f"Expected failures that name no cell of this run: {len(run.unmatched)}")
    for each in run.unmatched[:_MAX_UNMATCHED]:
        yield indent(f"{each.rule} in {each.scenario}, {each.target}")
    if len(run.unmatched) > _MAX_UNMATCHED:
        yield indent(f"and {len(run.unmatched) - _MAX_UNMATCHED} more")


def _change_verdict(before: RunResult, run: RunResult, made: Changes) -> Iterator[RenderableType]:
    text = Text(made.word, style=_CHANGE_STYLES[made.word])
    text.append(f"  {made.sentence}", style="not bold")
    yield text
    for name, each in (("before", before), ("now", run)):
        at = f"{each.played_at}  " if each.played_at else ""
        yield hanging(name, words.plain(f"{at}{'  '.join(words.verdict(each))}"), width=6)


def _conditions(sentences: Sequence[str]) -> Iterator[RenderableType]:
    if sentences:
        yield heading("The two runs were made differently")
    yield from map(indent, sentences)


def _changes(title: str, changes: Sequence[RunChange], max_changes: int | None) -> Iterator[RenderableType]:
    yield heading(title)
    for each in changes[:max_changes]:
        style = "red" if each.worse else "green" if each.better else "dim"
        yield hanging(Text(each.label, style=style), words.plain(f"{each.what}: {each.text}"), width=7)
    if hidden := len(changes) - len(changes[:max_changes]):
        yield indent(f"and {hidden} more: --verbose", "dim")


def _worse_cells_hint(run: RunResult, made: Changes) -> Iterator[RenderableType]:
    worse = {change.key for change in made.cells if change.worse}
    commands = (groups.show_command(run, cell) for cell in run.cells if cell.key in worse)
    if command := next(filter(None, commands), ""):
        yield hanging("Look", command, width=6, by=0)


REPORT = Report("terminal", render, compare=compare)
