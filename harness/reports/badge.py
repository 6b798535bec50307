"""A badge for a README: how many cells are right, by whose answers, until when that counts.

As SVG it needs nothing from anywhere. As JSON it is an endpoint of shields.io, with the properties that it takes and no
others (shields.io/badges/endpoint-badge, read on 2026-11-23). Neither can look at a clock: both say until when they
count, and one that is made of a run too long ago says nothing but that it has expired.
"""

from __future__ import annotations

import html
import json
from dataclasses import dataclass

from harness.reports._evidence import GOOD, UNASKED, evidence, today
from harness.reports._groups import facts, scope
from harness.reports._words import plain, verdict
from harness.results import Presentation, Report, RunResult

_LABEL = "tool calling"
_CACHE = 3600
"""Seconds for which shields.io may keep it; it keeps any for 300."""

_COLOURS = {
    "brightgreen": "#3c8517",
    "blue": "#0a67a3",
    "orange": "#a85504",
    "red": "#b53a26",
    "lightgrey": "#6b6b6b",
}
"""The names that shields.io knows, and colours of ours on which white can be read."""


@dataclass(frozen=True, slots=True)
class _Badge:
    message: str
    colour: str
    about: str
    is_error: bool


def render(run: RunResult, presentation: Presentation) -> str:
    """The badge, as SVG or as JSON."""
    made = _badge(run, presentation)
    return _json(made) if presentation.form == ".json" else _svg(made)


def _badge(run: RunResult, presentation: Presentation) -> _Badge:
    proof, day = evidence(run), today(run, presentation)
    word, sentence = verdict(run)
    about = " ".join((f"{word}: {sentence}.", f"{proof.sources.capitalize()}.", *facts(run), *scope(run), proof.told))
    if proof.expired(day):
        since = f"expired {proof.until}" if proof.until else "unfinished" if run.stopped else "not dated"
        return _Badge(since, "lightgrey", plain(about), is_error=True)
    asked = [cell for cell in run.cells if cell.verdict not in UNASKED]
    good = sum(cell.verdict in GOOD for cell in asked)
    said = f"{good} of {len(asked)} cells{', not all rules' if run.rules or run.ignored else ''}"
    if run.part is not None:
        said = f"shard {run.part.name}, {said}"
    elif word not in ("PASS", "FAIL"):
        said = f"{word.lower()}, {said}"
    whole = word == "PASS" and good == len(asked) and run.part is None
    colour = "red" if word == "FAIL" else "orange" if not whole else "brightgreen" if proof.is_real else "blue"
    message = plain(f"{said}, {proof.sources}, until {proof.until}")
    return _Badge(message, colour, plain(about), is_error=colour in ("red", "orange"))


def _json(badge: _Badge) -> str:
    document = {
        "schemaVersion": 1,
        "label": _LABEL,
        "message": badge.message,
        "color": badge.colour,
        "isError": badge.is_error,
        "cacheSeconds": _CACHE,
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
    """About as wide as the text is in Verdana at 11 pixels; `textLength` has it fit wherever that font is not."""
    return round(sum(4.2 if each in " .,:;|il!'()" else 9.5 if each in "mwMW%" else 6.9 for each in text))


REPORT = Report("badge", render, forms=(".svg", ".json"))
