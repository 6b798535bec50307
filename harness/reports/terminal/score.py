"""What a run comes to: the verdict, the matrix, what became of facts at a gateway, what a check says beside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import RenderableType
from rich.text import Text

from harness.reports import _gateway as gateways
from harness.reports import _groups as groups
from harness.reports._checked import sentences
from harness.reports._page import heading, indented
from harness.reports._page import matrix as columned
from harness.reports._words import plain
from harness.reports._words import verdict as told
from harness.results import Checked, Fate, RunResult, Verdict

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
_FATES = {Fate.PRESERVED: "green", Fate.TRANSLATED: "cyan", Fate.REFUSED: "yellow", Fate.LOST: "bold red"}
_ABBREVIATED = {Verdict.NOT_APPLICABLE: "n/a", Verdict.EXPECTED_FAILURE: "expected"}
_WORDS = {"PASS": "bold green", "FAIL": "bold red"}


def verdict(run: RunResult) -> Iterator[RenderableType]:
    """The verdict in a line, with the seconds that the run took."""
    word, sentence = told(run)
    seconds = run.timing.get("seconds")
    text = Text(word, style=_WORDS.get(word, "bold magenta"))
    text.append(f"  {sentence}" + ("" if seconds is None else f" ({seconds:.1f} s)"), style="not bold")
    yield text


def model_note(run: RunResult) -> Iterator[RenderableType]:
    """Why a check used another model than the default."""
    if run.check is not None and run.check.model_note:
        yield Text(plain(run.check.model_note), style="yellow")


def matrix(run: RunResult, width: int, *, verbose: bool) -> Iterator[RenderableType]:
    """How the cells of each subject ended, or of each scenario, for each target."""
    if not run.cells:
        return
    columns = groups.columns(run)
    rows = groups.matrix(run, by_scenario=verbose)
    yield from columned(
        ["scenario" if verbose else "subject", *columns],
        ([Text(plain(row.name)), *(_counted(row.verdicts[column]) for column in columns)] for row in rows),
        width,
    )
    for target, reason in run.left_out.items():
        yield Text(plain(f"{target} is left out: {reason}"), style="yellow")


def _counted(verdicts: Sequence[tuple[str, Verdict]]) -> Text:
    text = Text()
    for which, each in verdicts:
        text.append(", " if text else "")
        text.append(f"{which} {_ABBREVIATED.get(each, each.value)}".strip(), style=_STYLES[each])
    return text or Text("-", style="dim")


def gateway(run: RunResult, width: int) -> Iterator[RenderableType]:
    """What became of each fact on its way through a gateway."""
    fates = run.check.gateway if run.check is not None else ()
    if fates:
        yield heading(gateways.HEADING)
        rows = ([Text(plain(fact)), *map(_fates, found)] for fact, found in gateways.rows(fates))
        yield from columned(gateways.heads(fates), rows, width)


def _fates(found: Sequence[tuple[Fate, int]]) -> Text:
    text = Text()
    for fate, number in found:
        text.append(", " if text else "")
        text.append(f"{number} {fate}", style=_FATES[fate])
    return text or Text("-", style="dim")


def checked(run: RunResult) -> Iterator[RenderableType]:
    """What a check says beside its cells."""
    below = replace(run.check, model_note="") if run.check is not None else Checked()  # the note is above
    for about, said in groups.grouped(sentences(below), lambda each: each[0]):
        yield heading(about)
        yield from (indented(sentence) for _, sentence in said)
