"""The page: a template, a style sheet and a script, put together into one file that asks nobody for anything.

What people have to read first is HTML and needs no script: verdict, causes, matrix, differences. The script filters the
matrix and shows cells. The policy in the page's head allows this one script and this one style sheet, by their digests,
and nothing else: whatever a model or a server has said stays text.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from harness.reports import _audit, _gateway, _groups
from harness.reports._causes import causes
from harness.reports._checked import sentences
from harness.reports._comparison import compared
from harness.reports._costs import costs, money
from harness.reports._redrive import redrive_lines
from harness.reports._words import CRASHED, KNOWN, count, counts, place, plain, values, verdict, what_to_do
from harness.reports.html.data import GLYPHS, data, lines_of
from harness.results import CellResult, Presentation, RunResult, Severity, Variant, Verdict

if TYPE_CHECKING:
    from jinja2 import Template

_FIRST = ("id-matching", "system-prompt", "json-mode")
"""The subjects in which adapters break most."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A scenario, and its cells in each column."""

    scenario: str
    about: str
    cells: list[list[CellResult]]


def render(run: RunResult, presentation: Presentation) -> str:
    """The page as text that ends with a line break."""
    return "".join(pieces(run, presentation))


def pieces(run: RunResult, presentation: Presentation) -> Iterator[str]:
    """The same, piece by piece."""
    style, script = _part("style.css"), _part("script.js")
    word, sentence = verdict(run)
    context: dict[str, Any] = {
        "run": run,
        "word": word,
        "sentence": _audit.verdict(run.audit) if run.audit is not None else f"{sentence}.",
        "counted": {each: number for each in Verdict if (number := run.summary[each])},
        "causes": [(severity, causes(run, severity)) for severity in Severity],
        "broken": _groups.broken(run),
        "missing": _groups.missing(run),
        "checked": _groups.grouped(sentences(run.check) if run.check is not None else (), lambda each: each[0]),
        "gateway": run.check.gateway if run.check is not None else (),
        "gateways": _gateway,
        "inconclusive": _groups.inconclusive(run),
        "redriven": _redriven(run),
        "targets": _groups.targets(run),
        "variants": {cell.variant for cell in run.cells},
        "subjects": _matrix(run),
        "differences": _differences(run),
        "provenance": _groups.provenance(run),
        "costs": list(costs(run)),
        "skipped": _groups.not_applicable(run),
        "expected": _groups.expected_failures(run),
        "unrecorded": _groups.unrecorded(run),
        "has_conversations": any(cell.conversation is not None for cell in run.cells),
        "compared": None if presentation.against is None else compared(run, presentation.against),
        "style": style,
        "script": script,
        "data": data(run),
        "policy": (
            f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
            "base-uri 'none'; form-action 'none'"
        ),
    }
    yield from _template().generate(context)


def _matrix(run: RunResult) -> list[tuple[str, list[_Row]]]:
    columns = _groups.targets(run)
    by_subject: dict[str, list[_Row]] = {}
    for scenario, cells in _groups.grouped(run.cells, lambda cell: cell.scenario):
        about = ", ".join(cells[0].covers)
        row = _Row(scenario, about, [[cell for cell in cells if cell.target == column] for column in columns])
        by_subject.setdefault(next(iter(cells[0].covers), "other"), []).append(row)
    return sorted(by_subject.items(), key=lambda group: group[0])


def _differences(run: RunResult) -> list[tuple[str, list[tuple[Any, list[str]]]]]:
    """By subject, those first in which adapters break most: each fact, and its value for each target."""
    columns = _groups.targets(run)
    rows = [
        (subject, [(row, [row.values.get(target, "") for target in columns]) for row in members])
        for subject, members in _groups.differing(run, everything=True)
    ]
    order = {subject: at for at, subject in enumerate(_FIRST)}
    return sorted(rows, key=lambda each: order.get(each[0], len(_FIRST)))


def _redriven(run: RunResult) -> list[str]:
    redrive = run.audit and run.audit.redrive
    return [] if redrive is None else list(redrive_lines(redrive, verbose=True))


def _address(cell: CellResult) -> str:
    """The fragment by which a cell is linked to."""
    return _fragment(cell.scenario, cell.target, cell.variant)


def _fragment(scenario: str, target: str, variant: Variant) -> str:
    return "#cell/" + "/".join(quote(part.encode(errors="replace"), safe="") for part in (scenario, target, variant))


def _spoken(verdict: Verdict) -> str:
    return verdict.value.replace("-", " ")


def _rerun(run: RunResult, where: _groups.Place) -> Iterator[str]:
    """The commands that show a place, and play it again."""
    if run.audit is None:
        shown = _groups.look(run, where.cells[0])
        yield from [shown] if shown else []
        yield _groups.rerun(run, where)


def _common(values: Iterable[str]) -> str:
    """The value that more targets have than any other: what is different stands out from it."""
    tally: dict[str, int] = {}
    for value in values:
        tally[value] = tally.get(value, 0) + 1
    best = max(tally, key=lambda value: tally[value])
    return best if tally[best] > 1 else ""


def _part(name: str) -> str:
    return (files("harness.reports.html") / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """What a policy calls an element that is allowed: the digest of its text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _template() -> Template:
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # noqa: PLC0415 - for this report alone
    from markupsafe import Markup  # noqa: PLC0415 - the same

    def shown(value: object) -> object:
        return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = Environment(
        autoescape=True,
        loader=FunctionLoader(_part),
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    own: dict[str, Any] = {
        "address": _address,
        "common": _common,
        "count": count,
        "counts": counts,
        "money": money,
        "place": place,
        "spoken": _spoken,
        "trusted": Markup,
        "fragment": _fragment,
        "rerun": _rerun,
        "what_to_do": what_to_do,
        "values": values,
        "glyphs": GLYPHS,
        "lines_of": lines_of,
        "crashed": CRASHED,
        "known": KNOWN,
    }
    return environment.get_template("page.html", globals=own)
