"""Table of features by adapter for a documentation page: what works, where the answers came from, and how long the
result is valid.

The table of an older run starts with a note that it has expired, and every result is struck through.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from harness.reports.badge import RunEvidence, evidence, sources, today
from harness.reports.groups import facts, model_of, scope, targets
from harness.reports.markdown_report import escaped
from harness.reports.words import plain, verdict
from harness.results import CellResult, Lacking, Presentation, Report, RunResult, Verdict
from harness.results.features import FEATURES

_VERDICT_WORDS = {
    Verdict.FAIL: "fail",
    Verdict.ERROR: "fail",
    Verdict.MISSING: "missing",
    Verdict.EXPECTED_FAILURE: "expected failure",
    Verdict.PASS: "pass",
    Verdict.NOTE: "pass",
    Verdict.WARN: "pass",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.NOT_APPLICABLE: "not applicable",
}
"""Word for each verdict, the worst first."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Cell counts for one feature and target, by the word for the verdict.

    `unplayed` says why no cell applies: the adapter refuses the feature, or it is absent from the API or the model.
    """

    counted: Counter[str]
    unplayed: str = "not applicable"

    @property
    def word(self) -> str:
        """The word for the worst verdict, or `not asked` if there are no cells."""
        return next((word for word in _VERDICT_WORDS.values() if self.counted[word]), "not asked")

    @property
    def text(self) -> str:
        """The verdict with its number of cells: `pass 37`, `fail 3 of 37`."""
        number, total = self.counted[self.word], self.counted.total() - self.counted["not applicable"]
        if not total or not number:
            return self.unplayed if self.word == "not applicable" else self.word
        return f"{self.word} {number}" if number == total else f"{self.word} {number} of {total}"


@dataclass(frozen=True, slots=True)
class Feature:
    """A row of the table: kind and name of a feature, with a tally for each target."""

    kind: str
    name: str
    tallies: dict[str, Tally]


def features(run: RunResult) -> list[Feature]:
    """Return all features that scenarios of the run prove, cover, require or provoke. A cell counts for each of its
    features."""
    found: dict[tuple[str, str], list[CellResult]] = {}
    for cell in run.cells:
        for key in _of(run, cell):
            found.setdefault(key, []).append(cell)
    columns, order = targets(run), ("subject", "feature", "capability", "provocation")
    return [
        Feature(kind, name, {target: _tally([cell for cell in cells if cell.target == target]) for target in columns})
        for (kind, name), cells in sorted(found.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
    ]


def _of(run: RunResult, cell: CellResult) -> Iterator[tuple[str, str]]:
    yield from (("subject", name) for name in cell.covers)
    yield from (("feature", name) for name, scenarios in FEATURES.items() if cell.scenario in scenarios)
    definition = run.definitions.get(cell.scenario)
    if definition is not None:
        yield from (("capability", name) for name in definition.requires)
        yield from (("provocation", name) for name in definition.provocations)


def _tally(cells: Sequence[CellResult]) -> Tally:
    lacking = {cell.lacking for cell in cells} - {None}
    unplayed = "refused" if Lacking.ADAPTER in lacking else "absent" if lacking else "not applicable"
    return Tally(Counter(_VERDICT_WORDS[cell.verdict] for cell in cells), unplayed)


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


_COUNTING = "A cell is one scenario, whole or streamed. It counts for each feature that it covers or requires."


@dataclass(frozen=True, slots=True)
class _FeatureTable:
    columns: list[str]
    facts: list[tuple[str, list[str]]]
    rows: list[Feature]
    head: str
    foot: str
    expired: bool


def render(run: RunResult, presentation: Presentation) -> str:
    """Render the table as Markdown or as a self-contained HTML fragment."""
    proof = evidence(run)
    made = _FeatureTable(
        targets(run),
        list(_facts(run)),
        features(run),
        _head(run, proof, expired := proof.expired(today(run, presentation))),
        " ".join((_COUNTING, *facts(run), *scope(run), proof.sentence)),
        expired,
    )
    return "\n".join(_html(made) if presentation.form == ".html" else _markdown(made)) + "\n"


def _head(run: RunResult, proof: RunEvidence, expired: bool) -> str:
    word, sentence = verdict(run)
    if expired:
        when = f"Expired on {proof.until}" if proof.until else "Not dated"
        return f"{when}: this table was true on {proof.day or 'an unknown day'} and proves nothing now."
    return f"{word}: {sentence}. {proof.sources[:1].upper()}{proof.sources[1:]}. Valid until {proof.until}."


def _facts(run: RunResult) -> Iterator[tuple[str, list[str]]]:
    by_target = {target: [cell for cell in run.cells if cell.target == target] for target in targets(run)}
    yield "adapter", [", ".join(dict.fromkeys(cell.adapter for cell in cells)) for cells in by_target.values()]
    yield "model", [", ".join(_models(run, target)) for target in by_target]
    yield "answers", [sources(run, cells) for cells in by_target.values()]


def _models(run: RunResult, target: str) -> list[str]:
    made = (cell.provenance for cell in run.cells if cell.target == target and cell.provenance is not None)
    return sorted({model_of(each) for each in made} - {""})


def _markdown(table: _FeatureTable) -> Iterator[str]:
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
            marked = [_marked(row.tallies[column]) for column in table.columns]
            shown = [f"~~{each}~~" if table.expired else each for each in marked]
            yield f"| {escaped(row.name)} | {' | '.join(shown)} |"
    yield ""
    yield escaped(table.foot)


def _line(*values: str) -> str:
    return "| " + " | ".join(map(escaped, values)) + " |"


def _marked(tally: Tally) -> str:
    return f"{_MARKS.get(tally.word, '')} {tally.text}".strip()


def _html(table: _FeatureTable) -> Iterator[str]:
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
            marked = (f'<td class="{each.word.split()[0]}">{_safe(each.text)}</td>' for each in tallies)
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
