"""HTML page of a run: a single, self-contained file that loads nothing.

The verdict, causes, matrix and differences are HTML that needs no script. The script filters the matrix and shows
cells. Its data is compressed JSON: texts and bodies that occur in several cells or requests are stored once. A body is
stored as the JSON texts of its members and list entries, because most of a request repeats the previous one. They
remain texts, because a browser would format some numbers differently.

The content security policy in the page's head allows only this script and this style sheet, by their digests.
Therefore, text from a model or a server cannot run as code.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from harness.reports import groups, words
from harness.reports.audit_text import AUDIT_COLUMNS, audit_verdict, redrive_lines
from harness.reports.finding_causes import causes
from harness.reports.hand_over_table import HEADING, HandOverTable
from harness.reports.run_changes import compare_runs, run_history
from harness.reports.words import place, spending_text, values, what_to_do
from harness.results import (
    JSON,
    CellResult,
    ConversationRecord,
    ExchangeRecord,
    Finding,
    FindingBody,
    Presentation,
    Report,
    RunResult,
    Severity,
    Variant,
    Verdict,
)

if TYPE_CHECKING:
    from jinja2 import Template

GLYPHS = {
    Verdict.PASS: "✓",
    Verdict.NOTE: "i",
    Verdict.WARN: "!",
    Verdict.FAIL: "✕",
    Verdict.INCONCLUSIVE: "∅",
    Verdict.ERROR: "‼",
    Verdict.MISSING: "?",
    Verdict.NOT_APPLICABLE: "–",
    Verdict.EXPECTED_FAILURE: "~",
}
"""Mark for each verdict, distinguishable without colour."""

_GZIP = 16 + zlib.MAX_WBITS
"""Format of compressed data that a browser's `DecompressionStream` reads."""

_MAX_BODY_LINES = 40

_WITHOUT_COMMANDS = frozenset({Verdict.PASS, Verdict.NOT_APPLICABLE})


def data(run: RunResult) -> Iterator[str]:
    """Yield the JSON in chunks, compressed by gzip, in base64."""
    compressor = zlib.compressobj(wbits=_GZIP)
    packed = b""
    for piece in _data_pieces(run):
        packed += compressor.compress(piece.encode(errors="backslashreplace"))  # a lone surrogate becomes its escape
        complete = len(packed) // 3 * 3
        yield base64.b64encode(packed[:complete]).decode()
        packed = packed[complete:]
    yield base64.b64encode(packed + compressor.flush()).decode()


def _data_pieces(run: RunResult) -> Iterator[str]:
    pairs = groups.paired_cells(run)
    glyphs = {verdict.value: glyph for verdict, glyph in GLYPHS.items()}
    yield f'{{"audit":{_json(run.audit is not None)},"glyphs":{_json(glyphs)},"cells":['
    pool = _TextPool()
    for number, cell in enumerate(run.cells):
        yield ("," if number else "") + _json(_cell(run, cell, pool, pairs))
    yield f'],"texts":{_json([*pool.texts])},"bodies":{_json([*pool.bodies.values()])},"lists":{_json([*pool.lists])}}}'


_json = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


class _TextPool:
    """Texts, bodies and lists of texts, each stored once and referenced by index."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self.bodies: dict[str, JSON] = {}
        self.lists: dict[tuple[int, ...], int] = {}
        self._numbers: dict[str, int] = {}
        self._outlines: dict[str, Sequence[int]] = {}

    def text(self, text: str) -> int:
        """Store a text and return its index."""
        return self.texts.setdefault(text, len(self.texts))

    def list(self, texts: Iterable[str]) -> int:
        """Store a list of texts and return its index."""
        return self.lists.setdefault(tuple(map(self.text, texts)), len(self.lists))

    def outline(self, source: str) -> Sequence[int]:
        """Return the indices of the lists of labels, values and pointers in an outline
        (`harness.results.transcript.ExchangeRecord.meaning`).
        """
        if source not in self._outlines:
            self._outlines[source] = [self.list(column) for column in zip(*json.loads(source), strict=True)]
        return self._outlines[source]

    def body(self, source: str | None) -> int | None:
        """Return the index of a body.

        An object is stored as a list: the index of its list of keys, then its members. A member that is a non-empty
        list becomes the list of its entries' indices. Any other member becomes the index of a text. A body that is not
        an object is stored as the index of a text.
        """
        if source is None:
            return None
        if source not in self.bodies:
            value: JSON = json.loads(source)
            self._numbers[source] = len(self.bodies)
            self.bodies[source] = self._members(value) if isinstance(value, dict) else self._value(value)
        return self._numbers[source]

    def _members(self, value: dict[str, JSON]) -> JSON:
        return [
            self.list(value),
            *(
                cast("JSON", [self._value(entry) for entry in member])
                if isinstance(member, list) and member
                else self._value(member)
                for member in value.values()
            ),
        ]

    def _value(self, value: JSON) -> int:
        return self.text(_json(value))


def _cell(run: RunResult, cell: CellResult, pool: _TextPool, pairs: set[tuple[str, str]]) -> dict[str, object]:
    """Return the data of a cell without empty entries."""
    entry: dict[str, object] = {
        "s": pool.text(cell.scenario),
        "t": pool.text(cell.target),
        "v": pool.text(cell.variant),
        "is": pool.text(cell.verdict.value),
    }
    provenance = cell.provenance
    came = provenance and ", ".join(
        filter(None, (groups.model_of(provenance), provenance.recorded_at, *_answer_source(cell)))
    )
    spending = cell.spending if cell.spending and cell.spending.requests else None
    texts = {
        "about": ", ".join(cell.covers),
        "why": cell.reason,
        "from": came,
        "cost": spending and spending_text(spending),
        "printed": cell.printed,
        "traceback": cell.traceback,
    }
    entry |= {name: pool.text(text) for name, text in texts.items() if text}
    if cell.verdict not in _WITHOUT_COMMANDS and run.audit is None:
        here = groups.CellPlace(cell.scenario, (cell,), is_paired=(cell.scenario, cell.target) in pairs)
        commands = (groups.show_command(run, cell), groups.rerun_command(run, here))
        entry["commands"] = [pool.text(each) for each in commands if each]
    if cell.findings:
        entry["findings"] = [_finding(each, pool.text) for each in cell.findings]
    if cell.conversation is not None:
        entry |= _conversation(cell.conversation, pool)
    return entry


def _answer_source(cell: CellResult) -> tuple[str, ...]:
    if cell.provenance is None:
        return ()
    names = {"reference": "the reference server, not a provider", "provider": "the provider"}
    return (names.get(cell.provenance.origin, f"{cell.provenance.recorded_from}, not the provider"),)


def _finding(finding: Finding, text: Callable[[str], int]) -> dict[str, object]:
    todo = finding.accepted and f"Nothing: the failure is expected ({finding.accepted})."
    entry: dict[str, object] = {
        "rule": text(finding.rule),
        "kind": text(finding.kind.value),
        "severity": text(finding.severity.value),
        "blame": text(finding.blame.value),
        "says": text(finding.message),
        "where": text(place(finding)),
        "todo": text(todo or what_to_do(finding)),
        "source": text(finding.source),
    }
    at = finding.index if finding.exchange is None else finding.exchange
    if at is not None:
        entry["at"] = at
    if finding.pointer is not None:
        entry["pointer"] = text(finding.pointer)
    if finding.of_response:
        entry["answer"] = 1
    if finding.follows is not None:
        entry["follows"] = finding.follows
    entry |= {name: text(value) for name, value in values(finding, None)}
    if finding.piece:
        entry["piece"] = [text(line) for line in finding.piece]
    for name, bodies in (
        ("bodies", finding.bodies),
        ("pair", request_pair(finding)),
        ("streams", raw_streams(finding)),
    ):
        if bodies:
            entry[name] = [[text(body.end), [text(line) for line in body_lines(body)]] for body in bodies]
    return entry


def request_pair(finding: Finding) -> tuple[FindingBody, ...]:
    """Return the request that was sent and the right one, if the finding has both."""
    return tuple(each for each in finding.exhibits if not _is_stream(each))


def raw_streams(finding: Finding) -> tuple[FindingBody, ...]:
    """Return the raw streams among the finding's exhibits."""
    return tuple(each for each in finding.exhibits if _is_stream(each))


def _is_stream(body: FindingBody) -> bool:
    return body.end.startswith("the raw stream")


def body_lines(body: FindingBody) -> tuple[str, ...]:
    """Return the lines of a body around the finding's pointer, or its first lines."""
    return body.piece or tuple(body.text.splitlines()[:_MAX_BODY_LINES])


def _conversation(conversation: ConversationRecord, pool: _TextPool) -> dict[str, object]:
    text = pool.text
    messages = [
        [each.chat, text(each.by), text(each.what), text(each.text), text(each.name or ""), text(each.id or "")]
        for each in conversation.said
    ]
    return {"said": messages, "sent": [_sent_json(each, pool) for each in conversation.exchanges]}


def _sent_json(each: ExchangeRecord, pool: _TextPool) -> list[object]:
    return [
        each.index,
        pool.text(each.request),
        pool.body(each.sent),
        each.status,
        pool.body(each.received),
        int(each.streamed),
        int(each.left_out),
        pool.outline(each.meaning or "[]"),
        *([pool.text(each.stream)] if each.stream is not None else []),
    ]


_PANELS = {
    "id-matching": ("ID matching", "How the result of a tool is matched to its call."),
    "system-prompt": ("System prompt", "Where the instructions for the model are in a request."),
    "json-mode": ("JSON mode", "How a request makes the model answer in JSON."),
}
"""The features in which adapters most often fail, each with a title and its meaning."""

_MODES = {
    "replay": "replay: recorded answers",
    "reference": "reference: answers of the bundled reference server",
    "live": "live: a provider or server answered",
    "record": "record: a provider answered, and its answers were saved",
    "audit": "audit: recordings were checked, nothing was sent",
    "serve": "serve: a client called the bundled reference server",
}
_COLLAPSED_VERDICTS = frozenset({Verdict.PASS, Verdict.NOTE, Verdict.NOT_APPLICABLE})
_NOT_OBSERVED = "not observed"


@dataclass(frozen=True, slots=True)
class _ScenarioRow:
    scenario: str
    about: str
    cells: list[list[CellResult]]


@dataclass(frozen=True, slots=True)
class _MatrixGroup:
    """The rows of a subject. `totals` counts the verdicts of each target."""

    subject: str
    rows: list[_ScenarioRow]

    @property
    def totals(self) -> list[dict[Verdict, int]]:
        columns = zip(*(row.cells for row in self.rows), strict=True)
        counted = [Counter(cell.verdict for cells in column for cell in cells) for column in columns]
        return [{verdict: each[verdict] for verdict in Verdict if each[verdict]} for each in counted]

    @property
    def is_green(self) -> bool:
        return all(cell.verdict in _COLLAPSED_VERDICTS for row in self.rows for cells in row.cells for cell in cells)


def render(run: RunResult, presentation: Presentation) -> str:
    """Return the page as text that ends with a line break."""
    return "".join(_pieces(run, presentation))


def _pieces(run: RunResult, presentation: Presentation) -> Iterator[str]:
    style, script = _part("style.css"), _part("script.js")
    word, sentence = words.verdict(run)
    targets = groups.targets(run)
    first = targets[0] if targets else "the target"
    context: dict[str, Any] = {
        "run": run,
        "word": word,
        "verdict_sentence": audit_verdict(run.audit) if run.audit is not None else f"{sentence}.",
        "counted": {each: number for each in Verdict if (number := run.summary[each])},
        "causes": [(severity, causes(run, severity)) for severity in Severity],
        "broken": groups.broken_cells(run),
        "missing": groups.missing(run),
        "checked": groups.group_by(words.check_notes(run.check) if run.check is not None else (), lambda each: each[0]),
        "gateway": run.check.gateway if run.check is not None else (),
        "groups": groups,
        "hand_over": HandOverTable(run),
        "hand_over_heading": HEADING,
        "inconclusive": groups.inconclusive(run),
        "redriven": _redrive_lines(run),
        "targets": targets,
        "variants": {cell.variant for cell in run.cells},
        "subjects": _matrix(run),
        "differences": _differences(run),
        "panels": _panels(run),
        "panels_title": "How the targets differ" if len(targets) > 1 else f"What {first} sends",
        "provenance": groups.provenance(run, by_target=False),
        "models": [each for each in groups.provenance(run) if each not in groups.provenance(run, by_target=False)],
        "costs": list(words.costs(run)),
        "skipped": groups.not_applicable(run),
        "expected": groups.expected_failures(run),
        "unrecorded": groups.unrecorded_cells(run),
        "mode": _MODES[run.mode],
        "comparable": len(targets) > 1
        and any(each.meaning for cell in run.cells if cell.conversation for each in cell.conversation.exchanges),
        "history": run_history(run, presentation.against) if presentation.against else None,
        "has_conversations": any(cell.conversation is not None for cell in run.cells),
        "before": presentation.against[-1] if presentation.against else None,
        "compared": compare_runs(run, presentation.against[-1]) if presentation.against else None,
        "style": style,
        "script": script,
        "data": data(run),
        "policy": (
            f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
            "base-uri 'none'; form-action 'none'"
        ),
    }
    yield from _template().generate(context)


def _matrix(run: RunResult) -> list[_MatrixGroup]:
    columns = groups.targets(run)
    by_feature: dict[str, list[_ScenarioRow]] = {}
    for scenario, cells in groups.group_by(run.cells, lambda cell: cell.scenario):
        about = ", ".join(cells[0].covers)
        row = _ScenarioRow(scenario, about, [[cell for cell in cells if cell.target == column] for column in columns])
        by_feature.setdefault(next(iter(cells[0].covers), "other"), []).append(row)
    return [_MatrixGroup(subject, rows) for subject, rows in sorted(by_feature.items())]


def _differences(run: RunResult) -> list[tuple[str, list[tuple[Any, list[str]]]]]:
    columns = groups.targets(run)
    rows = [
        (feature, [(row, [row.values.get(target, "") for target in columns]) for row in members])
        for feature, members in groups.differing(run, everything=True)
    ]
    order = {feature: at for at, feature in enumerate(_PANELS)}
    return sorted(rows, key=lambda each: order.get(each[0], len(_PANELS)))


def _panels(run: RunResult) -> list[tuple[str, str, list[tuple[str, list[tuple[str, str]]]]]]:
    """Return the features of `_PANELS`: title, meaning, and the values of each property with their targets.

    With several targets, a feature lists only the properties that differ, or all if none differ. With one target, it
    lists the properties that were observed. The value of all other targets comes last.
    """
    is_single = len(groups.targets(run)) == 1
    every = dict(groups.differing(run, everything=True))
    found = every if is_single else every | dict(groups.differing(run, everything=False))
    panels = list[tuple[str, str, list[tuple[str, list[tuple[str, str]]]]]]()
    for feature, (title, meaning) in _PANELS.items():
        rows = [(row.aspect, groups.by_value(row)) for row in found.get(feature, ())]
        seen = [each for each in rows if not is_single or each[1][0][0] != _NOT_OBSERVED]
        if rows and not seen:
            panels.append((title, f"{meaning} No cell of this run has shown it.", []))
        elif rows:
            panels.append((title, meaning, [(aspect, sorted(values, key=_last_ones)) for aspect, values in seen]))
    return panels


def _last_ones(value: tuple[str, str]) -> tuple[bool, bool]:
    return value[1] == "others", value[0] == _NOT_OBSERVED


def _date(run: RunResult) -> str:
    """Return the date and the time to the minute, in UTC, or an empty string."""
    return f"{run.played_at[:10]} {run.played_at[11:16]} UTC" if run.played_at else ""


def _redrive_lines(run: RunResult) -> list[str]:
    redrive = run.audit and run.audit.redrive
    return [] if redrive is None else list(redrive_lines(redrive, verbose=True))


def _cell_address(cell: CellResult) -> str:
    return _fragment(cell.scenario, cell.target, cell.variant)


def _fragment(scenario: str, target: str, variant: Variant) -> str:
    """Return the URL fragment that opens a cell."""
    return "#cell/" + "/".join(quote(part.encode(errors="replace"), safe="") for part in (scenario, target, variant))


def _with_spaces(verdict: Verdict) -> str:
    return verdict.value.replace("-", " ")


def _commands(run: RunResult, where: groups.CellPlace) -> Iterator[str]:
    if run.audit is None:
        yield from filter(None, [groups.show_command(run, where.cells[0])])
        yield groups.rerun_command(run, where)
        yield from filter(None, [groups.reproduce_command(run, where)])


def _most_common(values: Iterable[str]) -> str:
    """Return the most common value, or an empty string if no value occurs twice."""
    ((best, number),) = Counter(values).most_common(1)
    return best if number > 1 else ""


def _part(name: str) -> str:
    return (files("harness.reports.html") / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return the digest by which the content security policy allows an element with this text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _template() -> Template:
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # noqa: PLC0415 - for this report only
    from markupsafe import Markup, escape  # noqa: PLC0415 - for this report only

    def display(value: object) -> object:
        return words.plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = Environment(
        autoescape=True,
        loader=FunctionLoader(_part),
        undefined=StrictUndefined,
        finalize=display,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )

    def breakable(path: str) -> Markup:
        """Return the path of a field, which may be wrapped after its dots."""
        return escape(words.plain(path)).replace(".", Markup(".<wbr>"))

    own: dict[str, Any] = {
        "breakable": breakable,
        "address": _cell_address,
        "audit_columns": AUDIT_COLUMNS,
        "common": _most_common,
        "count": words.count,
        "counts": words.counts,
        "money": words.money,
        "place": words.place,
        "spoken": _with_spaces,
        "trusted": Markup,
        "fragment": _fragment,
        "date": _date,
        "pair_of": request_pair,
        "streams_of": raw_streams,
        "sentence": words.sentence,
        "rerun": _commands,
        "what_to_do": words.what_to_do,
        "values": words.values,
        "glyphs": GLYPHS,
        "lines_of": body_lines,
        "crashed": words.CRASHED,
        "known": words.ACCEPT_HINT,
        "kinds": words.KINDS,
    }
    return environment.get_template("page.html", globals=own)


REPORT = Report("html", render, wants_conversations=True, compares=True, pieces=_pieces)
