"""Features by adapters, for a page of documentation: what works with which, by whose answers, until when that counts.

Of a run too long ago the table says first that it has expired, and every result is struck through.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from harness.reports._evidence import Evidence, evidence, sources, today
from harness.reports._features import Feature, Tally, features
from harness.reports._groups import facts, scope, targets
from harness.reports._markdown import escaped
from harness.reports._words import plain, verdict
from harness.results import Presentation, Report, RunResult

_MARKS = {
    "pass": "✅",
    "fail": "❌",
    "missing": "❔",
    "expected failure": "⚠️",
    "inconclusive": "❔",
}
_STYLE = """\
table{border-collapse:collapse;font:14px/1.4 system-ui,sans-serif}
th,td{border:1px solid #bbb;padding:.25em .6em;text-align:left;vertical-align:top}
.pass{background:#e3f4e3;color:#0b4d0b}.fail{background:#fbe3e1;color:#8a1007}
.missing,.inconclusive,.expected{background:#fdf2d8;color:#6a4700}
.expired td{text-decoration:line-through}.expired caption{font-weight:bold}
caption{text-align:left;padding:.4em 0}"""


_COUNTING = "A cell is one scenario, whole or streamed, and counts for each feature that it is about or needs."


@dataclass(frozen=True, slots=True)
class _Table:
    """All that is shown, whatever the form."""

    columns: list[str]
    facts: list[tuple[str, list[str]]]
    rows: list[Feature]
    head: str
    foot: str
    expired: bool


def render(run: RunResult, presentation: Presentation) -> str:
    """The table, as Markdown or as a piece of HTML that stands for itself."""
    proof = evidence(run)
    made = _Table(
        targets(run),
        list(_facts(run)),
        features(run),
        _head(run, proof, expired := proof.expired(today(run, presentation))),
        " ".join((_COUNTING, *facts(run), *scope(run), proof.told)),
        expired,
    )
    return "\n".join(_html(made) if presentation.form == ".html" else _markdown(made)) + "\n"


def _head(run: RunResult, proof: Evidence, expired: bool) -> str:
    word, sentence = verdict(run)
    if expired:
        when = f"Expired on {proof.until}" if proof.until else "Not dated"
        return f"{when}: what stands here was true of {proof.day or 'an unknown day'} and proves nothing now."
    return f"{word}: {sentence}. {proof.sources[:1].upper()}{proof.sources[1:]}. Valid until {proof.until}."


def _facts(run: RunResult) -> Iterator[tuple[str, list[str]]]:
    """What each column is of."""
    by_target = {target: [cell for cell in run.cells if cell.target == target] for target in targets(run)}
    yield "adapter", [", ".join(dict.fromkeys(cell.adapter for cell in cells)) for cells in by_target.values()]
    yield "model", [", ".join(_models(run, target)) for target in by_target]
    yield "answers", [sources(run, cells) for cells in by_target.values()]


def _models(run: RunResult, target: str) -> list[str]:
    made = (cell.provenance for cell in run.cells if cell.target == target and cell.provenance is not None)
    return sorted({each.model_served or each.model_requested or "" for each in made} - {""})


def _markdown(table: _Table) -> Iterator[str]:
    head = escaped(table.head)
    yield f"**{head}**" if table.expired else head
    yield ""
    yield _line("feature", *table.columns)
    yield "| --- |" + " --- |" * len(table.columns)
    for name, values in table.facts:
        yield _line(name, *values)
    for kind, rows in groupby(table.rows, lambda row: row.kind):
        yield _line(f"{kind}:", *([""] * len(table.columns)))
        for row in rows:
            told = [_marked(row.tallies[column]) for column in table.columns]
            shown = [f"~~{each}~~" if table.expired else each for each in told]
            yield f"| {escaped(row.name)} | {' | '.join(shown)} |"
    yield ""
    yield escaped(table.foot)


def _line(*values: str) -> str:
    return "| " + " | ".join(map(escaped, values)) + " |"


def _marked(tally: Tally) -> str:
    return f"{_MARKS.get(tally.word, '')} {tally.told}".strip()


def _html(table: _Table) -> Iterator[str]:
    yield f"<style>{_STYLE}</style>"
    yield f'<table class="{"expired" if table.expired else "valid"}"><caption>{_safe(table.head)}</caption>'
    yield "<thead>"
    yield _row(_heading("feature"), *map(_heading, table.columns))
    for name, values in table.facts:
        yield _row(_heading(name), *(f"<td>{_safe(each)}</td>" for each in values))
    yield "</thead>"
    for kind, rows in groupby(table.rows, lambda row: row.kind):
        yield f'<tbody><tr><th colspan="{len(table.columns) + 1}">{kind}</th></tr>'
        for row in rows:
            tallies = (row.tallies[column] for column in table.columns)
            marked = (f'<td class="{each.word.split()[0]}">{_safe(each.told)}</td>' for each in tallies)
            yield _row(_heading(row.name), *marked)
        yield "</tbody>"
    yield "</table>"
    yield f"<p>{_safe(table.foot)}</p>"


def _row(*cells: str) -> str:
    return f"<tr>{''.join(cells)}</tr>"


def _heading(text: str) -> str:
    return f"<th>{_safe(text)}</th>"


def _safe(text: str) -> str:
    return html.escape(plain(text))


REPORT = Report("table", render, forms=(".md", ".html"))
