"""Reports for publication: a badge for a README, a table of features by adapter, and a list of features.

The badge shows how many cells pass, and the table shows which features work. Both show where the answers came from and
how long the result is valid. The SVG of the badge loads no external resources. Its JSON is for endpoint badges of
shields.io and has only the properties that they support (shields.io/badges/endpoint-badge, read on 2026-11-23).

Neither can read a clock, so both name the last day on which they are valid. The badge of an older run shows only that
it has expired. The table of an older run starts with a note that it has expired, and every result is struck through.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import html
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from harness.reports.groups import facts, group_by, model_of, scope, targets
from harness.reports.markdown_report import escape_markdown
from harness.reports.words import count, plain, verdict
from harness.results import Blame, CellResult, Kind, Lacking, Presentation, Report, RunResult, Verdict

VALID_DAYS = 90
"""Number of days for which a run is valid. Providers change what they accept from month to month."""

PASSING_VERDICTS = frozenset({Verdict.PASS, Verdict.NOTE, Verdict.WARN})
_NOT_JUDGED = frozenset({Verdict.NOT_APPLICABLE, Verdict.INCONCLUSIVE})


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """Identity and age of a run.

    `run` is an id derived from the result, so equal results have equal ids. `is_real` is set if providers gave all
    answers. `day` is the day of the oldest evidence, which is the run or a provider recording. `until` is the last day
    of validity. Both are `None` for a run without a date.
    """

    run: str
    harness: str
    sources: str
    is_real: bool
    day: dt.date | None
    until: dt.date | None

    @property
    def sentence(self) -> str:
        """The run's id, day and version as a sentence."""
        return f"Run {self.run} of {self.day or 'an unknown day'}, {self.harness}."

    def is_expired(self, today: dt.date | None) -> bool:
        """Return whether the evidence is no longer valid. Evidence without a date is never valid."""
        return self.until is None or (today is not None and today > self.until)


def evidence(run: RunResult) -> RunEvidence:
    """Return the identity and age of a run."""
    played = [cell for cell in run.cells if cell.provenance is not None]
    days = [_day(run.played_at), *(_day(at) for at in map(_recorded_at, played) if at)]
    known = [day for day in days if day is not None]
    day = min(known) if _day(run.played_at) is not None else None
    return RunEvidence(
        _identity(run),
        next((f"harness {number}" for name, number in run.versions.items() if name.endswith("harness")), "harness"),
        sources(run, played),
        bool(played) and all(cell.provenance is not None and cell.provenance.origin == "provider" for cell in played),
        day,
        day and day + dt.timedelta(days=VALID_DAYS),
    )


def today(run: RunResult, presentation: Presentation) -> dt.date | None:
    """Return the date of the report or, if it has none, the date of the run."""
    return presentation.today or _day(run.played_at)


def sources(run: RunResult, cells: Iterable[CellResult]) -> str:
    """Return a phrase for the origin of the answers, such as `reference server only` or `recorded from the provider
    2026-10-02 to 2026-11-20`.
    """
    known = ((cell.provenance.origin, cell) for cell in cells if cell.provenance is not None)
    by_origin = {origin: [cell for _, cell in pairs] for origin, pairs in group_by(known, lambda pair: pair[0])}
    if not by_origin:
        return "nothing was run"
    if len(by_origin) == 1:
        ((origin, members),) = by_origin.items()
        return "reference server only" if origin == "reference" else _source(run, origin, members)
    parts = ((count(len(members), "cell"), _source(run, origin, members)) for origin, members in by_origin.items())
    return ", ".join(" ".join(part) for part in parts)


def _source(run: RunResult, origin: str, cells: list[CellResult]) -> str:
    whose = {"reference": "the reference server", "provider": "the provider"}.get(origin, "another server")
    if run.mode == "live" or origin == "reference":
        return f"{'answered by' if run.mode != 'replay' else 'recorded from'} {whose}"
    days = sorted({at[:10] for at in map(_recorded_at, cells) if at})
    span = "" if not days else f" {days[0]}" if days[0] == days[-1] else f" {days[0]} to {days[-1]}"
    return f"recorded from {whose}{span}"


def _recorded_at(cell: CellResult) -> str | None:
    """Return when the answers were recorded. Answers of the reference server have no date."""
    made = cell.provenance
    return made.recorded_at if made is not None and made.origin != "reference" else None


def _day(at: str | None) -> dt.date | None:
    try:
        return dt.date.fromisoformat(at[:10]) if at else None
    except ValueError:
        return None


def _identity(run: RunResult) -> str:
    digest = hashlib.sha256()
    for cell in run.cells:
        rules = ",".join(sorted(f"{each.rule}:{each.severity}:{each.accepted is not None}" for each in cell.findings))
        line = f"{cell.scenario}\0{cell.target}\0{cell.adapter}\0{cell.variant}\0{cell.verdict}\0{rules}\n"
        digest.update(line.encode("utf-8", "backslashreplace"))
    for name, each in sorted(run.definitions.items()):
        digest.update(f"{name}\0{each.digest}\n".encode("utf-8", "backslashreplace"))
    return digest.hexdigest()[:12]


_LABEL = "tool calling"
_CACHE_SECONDS = 3600
"""Number of seconds for which shields.io may cache the badge. It caches every badge for at least 300 seconds."""

_COLOURS = {
    "brightgreen": "#3c8517",
    "blue": "#0a67a3",
    "orange": "#a85504",
    "red": "#b53a26",
    "lightgrey": "#6b6b6b",
}
"""Names of shields.io colours, each with a shade that gives white text enough contrast."""


@dataclass(frozen=True, slots=True)
class _Badge:
    message: str
    colour: str
    about: str
    is_error: bool


def render_badge(run: RunResult, presentation: Presentation) -> str:
    """Return the badge as SVG or as JSON."""
    made = _badge(run, presentation)
    return _json(made) if presentation.form == ".json" else _svg(made)


def _badge(run: RunResult, presentation: Presentation) -> _Badge:
    proof, day = evidence(run), today(run, presentation)
    word, sentence = verdict(run)
    about = " ".join(
        (f"{word}: {sentence}.", f"{proof.sources.capitalize()}.", *facts(run), *scope(run), proof.sentence)
    )
    if proof.is_expired(day):
        since = f"expired {proof.until}" if proof.until else "unfinished" if run.stopped else "not dated"
        return _Badge(since, "lightgrey", plain(about), is_error=True)
    judged = [cell for cell in run.cells if cell.verdict not in _NOT_JUDGED]
    good = sum(cell.verdict in PASSING_VERDICTS for cell in judged)
    text = f"{good} of {len(judged)} cells{', not all rules' if run.rules or run.ignored else ''}"
    if run.part is not None:
        text = f"shard {run.part.name}, {text}"
    elif word not in ("PASS", "FAIL"):
        text = f"{word.lower()}, {text}"
    whole = word == "PASS" and good == len(judged) and run.part is None
    colour = "red" if word == "FAIL" else "orange" if not whole else "brightgreen" if proof.is_real else "blue"
    message = plain(f"{text}, {proof.sources}, until {proof.until}")
    return _Badge(message, colour, plain(about), is_error=colour in ("red", "orange"))


def _json(badge: _Badge) -> str:
    document = {
        "schemaVersion": 1,
        "label": _LABEL,
        "message": badge.message,
        "color": badge.colour,
        "isError": badge.is_error,
        "cacheSeconds": _CACHE_SECONDS,
    }
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def _svg(badge: _Badge) -> str:
    left, right = _width(_LABEL) + 12, _width(badge.message) + 12
    name = html.escape(f"{_LABEL}: {badge.message}")
    texts = "".join(
        f'<text x="{x}" y="14" textLength="{_width(text)}" lengthAdjust="spacingAndGlyphs">{html.escape(text)}</text>'
        for x, text in ((6, _LABEL), (left + 6, badge.message))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" aria-label="{name}">\n'
        f"<title>{name}</title>\n<desc>{html.escape(badge.about)}</desc>\n"
        f'<clipPath id="r"><rect width="{left + right}" height="20" rx="3"/></clipPath>\n'
        f'<g clip-path="url(#r)"><rect width="{left}" height="20" fill="#444"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{_COLOURS[badge.colour]}"/></g>\n'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11">{texts}</g>\n</svg>\n'
    )


def _width(text: str) -> int:
    """Estimate the width of the text in pixels for 11-pixel Verdana. The SVG adjusts other fonts to it with
    `textLength`.
    """
    return round(sum(4.2 if each in " .,:;|il!'()" else 9.5 if each in "mwMW%" else 6.9 for each in text))


BADGE = Report("badge", render_badge, forms=(".svg", ".json"))


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
        for key in _feature_keys(run, cell):
            found.setdefault(key, []).append(cell)
    columns, order = targets(run), ("subject", "feature", "capability", "provocation")
    return [
        Feature(kind, name, {target: _tally([cell for cell in cells if cell.target == target]) for target in columns})
        for (kind, name), cells in sorted(found.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
    ]


def _feature_keys(run: RunResult, cell: CellResult) -> Iterator[tuple[str, str]]:
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


_COUNTING_NOTE = "A cell is one scenario, whole or streamed. It counts for each feature that it covers or requires."


@dataclass(frozen=True, slots=True)
class _FeatureTable:
    columns: list[str]
    facts: list[tuple[str, list[str]]]
    rows: list[Feature]
    head: str
    foot: str
    expired: bool


def render_table(run: RunResult, presentation: Presentation) -> str:
    """Render the table as Markdown or as a self-contained HTML fragment."""
    proof = evidence(run)
    made = _FeatureTable(
        targets(run),
        list(_facts(run)),
        features(run),
        _head(run, proof, expired := proof.is_expired(today(run, presentation))),
        " ".join((_COUNTING_NOTE, *facts(run), *scope(run), proof.sentence)),
        expired,
    )
    return "\n".join(_html(made) if presentation.form == ".html" else _markdown(made)) + "\n"


def _head(run: RunResult, proof: RunEvidence, expired: bool) -> str:
    word, sentence = verdict(run)
    if expired:
        when = f"Expired on {proof.until}" if proof.until else "Not dated"
        return f"{when}: this table was valid on {proof.day or 'an unknown day'} and is no longer evidence."
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
    head = escape_markdown(table.head)
    yield f"**{head}**" if table.expired else head
    yield ""
    yield _line("feature", *table.columns)
    yield "| --- |" + " --- |" * len(table.columns)
    for name, values in table.facts:
        yield _line(name, *values)
    for kind, rows in groupby(table.rows, lambda row: row.kind):
        yield _line(f"{kind}:", *([""] * len(table.columns)))
        for row in rows:
            marked = [_mark(row.tallies[column]) for column in table.columns]
            shown = [f"~~{each}~~" if table.expired else each for each in marked]
            yield f"| {escape_markdown(row.name)} | {' | '.join(shown)} |"
    yield ""
    yield escape_markdown(table.foot)


def _line(*values: str) -> str:
    return "| " + " | ".join(map(escape_markdown, values)) + " |"


def _mark(tally: Tally) -> str:
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


REPORT = Report("table", render_table, forms=(".md", ".html"))


_LOST = (Verdict.FAIL, Verdict.ERROR, Verdict.EXPECTED_FAILURE)
_UNKNOWN = (Verdict.MISSING, Verdict.INCONCLUSIVE)


def support(cells: Sequence[CellResult]) -> str:
    """Return whether a feature is carried, refused by the adapter, absent from the API, or lost.

    An adapter refuses what it does not declare or what it raises `Unsupported` for. Lost means that a cell failed. A
    feature is unknown if a cell has no recording or no result.
    """
    played = [cell for cell in cells if cell.verdict is not Verdict.NOT_APPLICABLE]
    if any(cell.verdict in _LOST for cell in played):
        return "LOST"
    if any(cell.verdict in _UNKNOWN for cell in played):
        return "unknown"
    if played:
        return "carried"
    refused = any(cell.lacking is Lacking.ADAPTER for cell in cells)
    return "refused" if refused else "absent" if cells else "-"


_MIN_BLOCKED = 3
"""Number of features of a target that must share a finding before it counts as a general problem and not as one of
these features.
"""


def _limits_broken(cells: Sequence[CellResult]) -> frozenset[str]:
    """Return the limits that make cells fail, or an empty set if any cell fails for another reason."""
    findings = [each for cell in cells for each in cell.findings if each.fails and each.follows is None]
    only_limits = bool(findings) and all(each.kind is Kind.LIMIT for each in findings)
    return frozenset(each.rule for each in findings) if only_limits else frozenset()


def _rules_noted(cells: Sequence[CellResult]) -> frozenset[str]:
    """Return the rules that an adapter broke without failing a cell."""
    findings = (each for cell in cells for each in cell.findings)
    return frozenset(each.rule for each in findings if each.blame is Blame.ADAPTER and not each.fails)


def _feature_rows(run: RunResult, blocking: set[str]) -> Iterator[list[str]]:
    """Yield the rows of the report, and add the limits that cause blocked features to `blocking`."""
    columns = targets(run)
    yield ["FEATURE", *columns, "SCENARIO"]
    cells = {
        (name, target): [cell for cell in run.cells if cell.scenario in scenarios and cell.target == target]
        for name, scenarios in FEATURES.items()
        for target in columns
    }
    broken = {key: _limits_broken(each) for key, each in cells.items()}
    noted = {key: _rules_noted(each) for key, each in cells.items()}
    blocked, usual = (
        Counter((target, rule) for (_, target), rules in found.items() for rule in rules) for found in (broken, noted)
    )
    for name, scenarios in FEATURES.items():
        if any(cells[name, target] for target in columns):
            row = [name]
            for target in columns:
                rules = broken[name, target]
                common = bool(rules) and all(blocked[target, rule] >= _MIN_BLOCKED for rule in rules)
                blocking.update(rules if common else ())
                word = "blocked" if common else support(cells[name, target])
                changed = word == "carried" and any(usual[target, each] < _MIN_BLOCKED for each in noted[name, target])
                row.append("changed" if changed else word)
            yield [*row, ", ".join(scenarios)]


def _render_features(run: RunResult, _presentation: Presentation) -> str:
    blocking: set[str] = set()
    rows = [*_feature_rows(run, blocking)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    legend = (
        "carried: the scenario passes. refused: the adapter declines it. absent: the API or the model does not have "
        "it.\nLOST: the adapter accepts it and loses it. changed: it reaches the other side in another form. "
        "'harness show SCENARIO --target TARGET' explains both.\n"
        "unknown: nothing was run, for example because there is no recording."
    )
    if blocking:
        legend += f"\nblocked: the provider refuses the requests of many features alike: {', '.join(sorted(blocking))}."
    return "\n".join([*lines, "", legend, ""])


FEATURES_REPORT = Report("features", _render_features)


FEATURES: Mapping[str, tuple[str, ...]] = {
    "system prompt": ("system-plain",),
    "system prompt that changes": ("system-changed",),
    "system prompt in blocks": ("fields-system-blocks",),
    "system text in mid-conversation": ("system-in-conversation",),
    "parallel calls": ("call-parallel-different-tools",),
    "parallel calls switched off": ("fields-parallel-calls-off",),
    "forced tool choice": ("choice-required",),
    "named tool choice": ("choice-named", "choice-for-one-turn"),
    "choice among some tools": ("fields-choice-among-some",),
    "strict tools": ("fields-strict-tool",),
    "deferred tools, tool search": ("fields-deferred-tool",),
    "tool names beyond the API's alphabet": ("tool-name-uncommon",),
    "calls by programs": ("fields-called-by-program",),
    "asynchronous tools": ("tool-asynchronous",),
    "provider tools": ("history-opaque-parts", "thinking-provider-tool"),
    "free-form tools": ("free-form-tool",),
    "computer use": ("computer-use",),
    "approval of calls": ("approval-of-a-call",),
    "paused turns": ("stop-pause",),
    "compaction": ("compaction-item",),
    "context editing": ("fields-context-editing",),
    "conversations kept by the provider": ("conversation-kept",),
    "continued responses": ("conversation-continued",),
    "responses not stored": ("fields-not-stored",),
    "thinking sent back": ("thinking-tool-loop", "thinking-parallel-calls"),
    "cache marks": ("seeds-code-generator-cache",),
    "JSON mode": ("json-mode",),
    "JSON schema": ("json-schema",),
    "JSON with tools": ("json-with-tools",),
    "images": ("image-from-user",),
    "files": ("file-from-user",),
    "audio": ("audio-from-user",),
    "images in results": ("result-image",),
    "citations": ("citations-sent-back",),
    "refusals": ("stop-refusal",),
    "calls with empty arguments": ("call-provoked-empty-arguments",),
    "service tier": ("fields-service-tier",),
    "request metadata": ("fields-request-metadata",),
    "seed": ("fields-seed",),
    "safety settings": ("fields-safety-settings",),
    "fields for one turn": ("fields-for-one-turn",),
    "embeddings": ("seeds-code-search-embeddings",),
}
"""Names of features, with the ids of their scenarios."""
