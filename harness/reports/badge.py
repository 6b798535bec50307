"""Badge for a README: how many cells pass, where the answers came from, and how long the result is valid.

The SVG loads no external resources. The JSON is for endpoint badges of shields.io and has only the properties that they
support (shields.io/badges/endpoint-badge, read on 2026-11-23).

Neither can read a clock, so both name the last day on which they are valid. The badge of an older run shows only that
it has expired.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import html
import json
from collections.abc import Iterable
from dataclasses import dataclass

from harness.reports.groups import facts, scope
from harness.reports.words import count, plain, verdict
from harness.results import CellResult, Presentation, Report, RunResult, Verdict

VALID_DAYS = 90
"""Number of days for which a run is valid. Providers change what they accept from month to month."""

GOOD = frozenset({Verdict.PASS, Verdict.NOTE, Verdict.WARN})
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

    def expired(self, today: dt.date | None) -> bool:
        """Return whether the evidence is no longer valid. Evidence without a date is never valid."""
        return self.until is None or (today is not None and today > self.until)


def evidence(run: RunResult) -> RunEvidence:
    """Return the identity and age of a run."""
    played = [cell for cell in run.cells if cell.provenance is not None]
    days = [_day(run.played_at), *(_day(at) for at in map(_recorded, played) if at)]
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
    by_origin: dict[str, list[CellResult]] = {}
    for cell in cells:
        if cell.provenance is not None:
            by_origin.setdefault(cell.provenance.origin, []).append(cell)
    if not by_origin:
        return "nothing was played"
    if len(by_origin) == 1:
        ((origin, members),) = by_origin.items()
        return "reference server only" if origin == "reference" else _source(run, origin, members)
    parts = ((count(len(members), "cell"), _source(run, origin, members)) for origin, members in by_origin.items())
    return ", ".join(" ".join(part) for part in parts)


def _source(run: RunResult, origin: str, cells: list[CellResult]) -> str:
    whose = {"reference": "the reference server", "provider": "the provider"}.get(origin, "another server")
    if run.mode == "live" or origin == "reference":
        return f"{'answered by' if run.mode != 'replay' else 'recorded from'} {whose}"
    days = sorted({at[:10] for at in map(_recorded, cells) if at})
    span = "" if not days else f" {days[0]}" if days[0] == days[-1] else f" {days[0]} to {days[-1]}"
    return f"recorded from {whose}{span}"


def _recorded(cell: CellResult) -> str | None:
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


def render(run: RunResult, presentation: Presentation) -> str:
    """Return the badge as SVG or as JSON."""
    made = _badge(run, presentation)
    return _json(made) if presentation.form == ".json" else _svg(made)


def _badge(run: RunResult, presentation: Presentation) -> _Badge:
    proof, day = evidence(run), today(run, presentation)
    word, sentence = verdict(run)
    about = " ".join(
        (f"{word}: {sentence}.", f"{proof.sources.capitalize()}.", *facts(run), *scope(run), proof.sentence)
    )
    if proof.expired(day):
        since = f"expired {proof.until}" if proof.until else "unfinished" if run.stopped else "not dated"
        return _Badge(since, "lightgrey", plain(about), is_error=True)
    judged = [cell for cell in run.cells if cell.verdict not in _NOT_JUDGED]
    good = sum(cell.verdict in GOOD for cell in judged)
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


REPORT = Report("badge", render, forms=(".svg", ".json"))
