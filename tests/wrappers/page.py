"""The matrix as one HTML file without anything outside of it. It says its date, and when it is too old."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from typing import Any

from harness.reports.words import sentence

STALE_DAYS = 30
"""Days after which the page calls itself stale. Libraries release every week."""

ORIGINS = {
    "library": "bug of the library",
    "choice": "loss that the library chooses",
    "wrapper": "fault of the wrapper",
    "ours": "fault of harness",
}

STYLE = (
    (files("harness.reports.html") / "style.css").read_text(encoding="utf-8")
    + """
#matrix { border-collapse: separate; border-spacing: 0; }
#matrix tbody th { position: sticky; left: 0; background: var(--ground); }
#matrix thead th { position: sticky; top: 0; z-index: 2; background: var(--ground); }
#matrix td { white-space: nowrap; }
@media screen { .scroll:has(> #matrix) { max-height: 90vh; overflow: auto; } }
@media screen and (min-width: 80rem) { .scroll:has(> #matrix) { max-height: none; overflow: visible; } }
article.cause { margin: .5rem 0; }
.stale { background: var(--bad-ground); color: var(--bad); padding: .5rem .75rem; font-weight: 700; }
"""
)
"""The style of the page of a run, and what only this page has."""

MARKS = {"fail": "✕", "warn": "!", "pass": "✓"}

SCRIPT = """
const played = new Date(document.body.dataset.played), days = Math.floor((Date.now() - played) / 864e5);
if (days > DAYS) {
  const line = document.querySelector('.stale');
  line.hidden = false;
  line.textContent = `Stale: the oldest row was run ${days} days ago. Play it again: python -m tests.wrappers`;
}
"""

UNFOLD = """
function open() { const part = document.getElementById(location.hash.slice(1)); if (part) part.open = true; }
addEventListener('hashchange', open);
open();
"""

Row = dict[str, Any]


def html(matrix: Row) -> str:
    """Return the page."""
    rows: list[Row] = matrix["rows"]
    oldest = min(each["played"] for each in rows)
    features = sorted(
        {name for each in rows for name, counts in each.get("features", {}).items() if _applicable(counts)}
    )
    traced = Counter(cause["traced"]["origin"] for each in rows for cause in each.get("causes", ()) if cause["traced"])
    untraced = sum(cause["traced"] is None for each in rows for cause in each.get("causes", ()))
    origins = ", ".join(f"{traced[name]} × {words}" for name, words in ORIGINS.items() if traced[name])
    true, every = traced["library"] + traced["choice"], traced.total()
    days = oldest if oldest == matrix["written"] else f"from {oldest} to {matrix['written']}"
    share = f"{every} traced by hand, {true} of them true ({origins})" if every else ""
    return "\n".join(
        [
            "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
            "<meta name=color-scheme content='light dark'>",
            f"<title>Tool calling by library</title><style>{STYLE}</style><body data-played='{oldest}'>",
            "<header><h1>Tool calling by library</h1>",
            "<p class=stale hidden role=alert></p>",
            f"<dl class=run><dt>played</dt><dd>{days}</dd>",
            f"<dt>by</dt><dd>harness, commit <code>{escape(matrix['commit'])}</code></dd>",
            f"<dt>stale</dt><dd>after {STALE_DAYS} days</dd>",
            f"<dt>causes</dt><dd>{share or 'none traced'}; {untraced} not traced by hand</dd></dl>",
            "<nav aria-label=sections><a href='#squares'>Matrix</a><a href='#causes'>Causes</a></nav></header>",
            "<main><section><h2 id=squares>Features × libraries</h2>",
            "<p>Each square: how many cells have no failure, of those that the library can play.",
            "A cell is one scenario, with whole or with streamed answers.",
            "✕ some fail, ! some have a warning, ✓ all are right. A red square leads to its causes.</p>",
            "<div class=scroll tabindex=0 role=region aria-labelledby=squares>",
            "<table id=matrix><thead><tr><th scope=col>adapter<th scope=col>version",
            *(f"<th scope=col>{escape(name)}" for name in features),
            "</thead><tbody>",
            *(_line(each, features) for each in rows),
            "</tbody></table></div></section><section><h2 id=causes>Causes of red squares</h2>",
            *(part for each in rows for part in _causes(each)),
            f"</section></main><script>{SCRIPT.replace('DAYS', str(STALE_DAYS))}{UNFOLD}</script></html>",
        ]
    )


def _line(row: Row, features: list[str]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in row["versions"].items())
    first = next(iter(row["versions"].values()))
    head = f"<tr><th scope=row>{escape(row['adapter'])}<td title='{escape(versions)}'>{escape(first)}"
    if "broken" in row:
        return f"{head}<td colspan={len(features)}><a class='v v-fail' href='#{_anchor(row)}'>✕ not played</a>"
    return head + "".join(_square(row["features"].get(name, {}), _anchor(row)) for name in features)


def _anchor(row: Row) -> str:
    """Return the id of a row's causes."""
    return escape(f"{row['adapter']}-{next(iter(row['versions'].values()))}")


def _square(counted: dict[str, int], anchor: str) -> str:
    ran = _applicable(counted)
    red = counted.get("fail", 0) + counted.get("error", 0)
    if not ran:
        return "<td class=dim>–"
    kind = "fail" if red else "warn" if counted.get("warn") else "pass"
    shown = f"{MARKS[kind]} {ran - red}/{ran}"
    return (
        f"<td><a class='v v-fail' href='#{anchor}'>{shown}</a>"
        if red
        else f"<td><span class='total v-{kind}'>{shown}</span>"
    )


def _applicable(counted: dict[str, int]) -> int:
    return sum(number for verdict, number in counted.items() if verdict != "not-applicable")


def _causes(row: Row) -> Iterator[str]:
    """Yield the causes of a row, folded under its name."""
    found = row.get("causes", ())
    if not found and "broken" not in row:
        return
    versions = escape(", ".join(f"{name} {each}" for name, each in row["versions"].items()))
    number = "not played" if "broken" in row else f"{len(found)} cause{'' if len(found) == 1 else 's'}"
    yield f"<details id='{_anchor(row)}'><summary><b>{escape(row['adapter'])}</b>"
    yield f"<span class=dim>{versions}: {number}</span></summary>"
    if "broken" in row:
        yield f"<pre>{escape(row['broken'])}</pre>"
    else:
        yield f"<pre class=command>{escape(row['command'])}</pre>"
        yield from map(_cause, found)
    yield "</details>"


def _cause(cause: Row) -> str:
    evidence, traced = cause["evidence"], cause["traced"]
    origin = ORIGINS[traced["origin"]] if traced else "not traced"
    where = "" if traced is None else f"<p>{escape(traced['says'])} <code>{escape(traced['place'])}</code></p>"
    cells = f"{cause['cells']} cell{'' if cause['cells'] == 1 else 's'} of {', '.join(cause['features'])}"
    exchange = evidence["exchange"]
    body = escape(evidence["pointer"] or "")
    place = "" if exchange is None else f", request or response {exchange + 1} <code>{body}</code>"
    return (
        f"<article class='cause error'><p><b><bdi>{escape(sentence(cause['message']))}</bdi></b> "
        f"<span class=dim><code>{escape(cause['rule'])}</code>: {escape(cells)}; {escape(origin)}</span></p>"
        f"{where}<p>Seen in {escape(cause['example'])}{place}</p>"
        f"{_pair(evidence['actual'], evidence['expected'])}</article>"
    )


def _pair(actual: str, expected: str) -> str:
    """Return the wrong and the right value. A right value that is unknown is left out."""
    if actual == expected == "null":
        return ""
    wrong = "(nothing)" if actual == "null" else actual
    right = "" if expected == "null" else f"<div><p class=right>✓ Right</p><pre>{escape(expected)}</pre></div>"
    return f"<div class=pair><div><p class=wrong>✕ Wrong</p><pre>{escape(wrong)}</pre></div>{right}</div>"
