"""The matrix as one HTML file without anything outside of it. It says its date, and when it is too old."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from html import escape
from typing import Any

STALE_DAYS = 30
"""Days after which the page calls itself stale. Libraries release every week."""

ORIGINS = {
    "library": "true: the library's bug",
    "choice": "true: a choice of the library that loses something",
    "wrapper": "the wrapper's fault",
    "ours": "harness's fault",
}

STYLE = """
:root { color-scheme: light dark; --line: #8885; --good: #2a7f3f; --bad: #c62f2f; --mild: #9a6b00; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 78rem; padding: 0 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem; text-align: left; white-space: nowrap; }
td.fail { color: var(--bad); font-weight: 600; } td.pass { color: var(--good); } td.none { opacity: .4; }
td.note { color: var(--mild); } .stale { background: var(--bad); color: #fff; padding: .6rem 1rem; font-weight: 600; }
tr > :first-child { position: sticky; left: 0; background: Canvas; }
details { border-bottom: 1px solid var(--line); padding: .4rem 0; } summary { cursor: pointer; }
pre, code { font: 13px/1.4 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
.fail-word { color: var(--bad); } small { opacity: .75; }
"""

SCRIPT = """
const played = new Date(document.body.dataset.played), days = Math.floor((Date.now() - played) / 864e5);
if (days > DAYS) {
  const line = document.querySelector('.stale');
  line.hidden = false;
  line.textContent = `Stale: the oldest row was played ${days} days ago. Play it again: python -m tests.wrappers`;
}
"""

Row = dict[str, Any]


def html(matrix: Row) -> str:
    """Return the page."""
    rows: list[Row] = matrix["rows"]
    oldest = min(each["played"] for each in rows)
    features = sorted({name for each in rows for name, counts in each.get("features", {}).items() if _played(counts)})
    traced = Counter(cause["traced"]["origin"] for each in rows for cause in each.get("causes", ()) if cause["traced"])
    untraced = sum(cause["traced"] is None for each in rows for cause in each.get("causes", ()))
    share = ", ".join(f"{traced[name]} {words}" for name, words in ORIGINS.items() if traced[name])
    return "\n".join(
        [
            "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
            f"<title>Tool calling by library</title><style>{STYLE}</style><body data-played='{oldest}'>",
            "<h1>Tool calling by library</h1>",
            "<p class=stale hidden role=alert></p>",
            f"<p>Played from {oldest} to {matrix['written']} by harness {escape(matrix['commit'])}.</p>",
            f"<p>Each square: cells without a failure, of those that were played. Stale after {STALE_DAYS} days.</p>",
            f"<p>Causes of red squares: {share or 'none traced'}; {untraced} not traced by hand.</p>",
            "<table><thead><tr><th>adapter<th>version",
            *(f"<th>{escape(name)}" for name in features),
            "</thead><tbody>",
            *(_line(each, features) for each in rows),
            "</tbody></table><h2>Causes of red squares</h2>",
            *(part for each in rows for part in _causes(each)),
            f"<script>{SCRIPT.replace('DAYS', str(STALE_DAYS))}</script></html>",
        ]
    )


def _line(row: Row, features: list[str]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in row["versions"].items())
    first = next(iter(row["versions"].values()))
    head = f"<tr><th>{escape(row['adapter'])}<td title='{escape(versions)}'><small>{escape(first)}</small>"
    if "broken" in row:
        return f"{head}<td class=fail colspan={len(features)}>not played"
    return head + "".join(_square(row["features"].get(name, {})) for name in features)


def _square(counted: dict[str, int]) -> str:
    played = _played(counted)
    red = counted.get("fail", 0) + counted.get("error", 0)
    if not played:
        return "<td class=none>–"
    kind = "fail" if red else "note" if counted.get("warn") else "pass"
    return f"<td class={kind}>{played - red}/{played}"


def _played(counted: dict[str, int]) -> int:
    return sum(number for verdict, number in counted.items() if verdict != "not-applicable")


def _causes(row: Row) -> Iterator[str]:
    if "broken" in row:
        yield f"<h3>{escape(row['adapter'])}</h3><pre>{escape(row['broken'])}</pre>"
    elif row["causes"]:
        yield f"<h3>{escape(row['adapter'])}</h3><p><code>{escape(row['command'])}</code></p>"
        yield f"<p><small>{escape(', '.join(f'{name} {each}' for name, each in row['versions'].items()))}</small></p>"
        yield from map(_cause, row["causes"])


def _cause(cause: Row) -> str:
    evidence, traced = cause["evidence"], cause["traced"]
    origin = ORIGINS[traced["origin"]] if traced else "not traced"
    where = "" if traced is None else f"<p>{escape(traced['says'])}<br><code>{escape(traced['place'])}</code></p>"
    return (
        f"<details><summary><b>{escape(cause['rule'])}</b> {escape(cause['message'])} "
        f"<small>({cause['cells']} cells of {escape(', '.join(cause['features']))}; {escape(origin)})</small></summary>"
        f"{where}<p>{escape(cause['example'])}, request or answer {evidence['exchange']}, "
        f"<code>{escape(evidence['pointer'] or '/')}</code></p>"
        f"<pre>actual    {escape(evidence['actual'])}\nexpected  {escape(evidence['expected'])}</pre></details>"
    )
