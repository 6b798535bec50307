"""What the page's script shows of a cell, as compact JSON: whatever stands in several cells, or in several requests of
one conversation, is there once.

Bodies are kept as JSON texts, each member of the body by itself, and each entry of a list: a request repeats all but
the end of the one before. They stay texts, since a browser would spell some of their numbers otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import cast

from harness.reports import _groups as groups
from harness.reports._costs import spent
from harness.reports._words import place, values, what_to_do
from harness.results import JSON, Body, CellResult, Conversation, Finding, RunResult, Sent, Verdict

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
"""A mark for each verdict, that tells without its colour, too."""

_UNSAFE = re.compile("[<>&\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""What could end the element or begin a comment in it, and what would turn the direction of writing in an editor."""

_BODY = 40
"""Lines that are shown of a body of which no place matters more than others."""

_QUIET = frozenset({Verdict.PASS, Verdict.NOT_APPLICABLE})


def data(run: RunResult) -> Iterator[str]:
    """The JSON, as it may stand inside of a `script` element, in pieces."""
    return (_UNSAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", piece) for piece in _pieces(run))


def _pieces(run: RunResult) -> Iterator[str]:
    pairs = groups.paired(run)
    glyphs = {verdict.value: glyph for verdict, glyph in GLYPHS.items()}
    yield f'{{"audit":{_json(run.audit is not None)},"glyphs":{_json(glyphs)},"cells":['
    pool = _Pool()
    for number, cell in enumerate(run.cells):
        yield ("," if number else "") + _json(_cell(run, cell, pool, pairs))
    for name, pooled in (("texts", pool.texts), ("bodies", pool.bodies.values())):
        yield f'],"{name}":['
        for number, value in enumerate(pooled):
            yield ("," if number else "") + _json(value)
    yield "]}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class _Pool:
    """Texts in their order, and bodies by their parts, each once."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self.bodies: dict[str, JSON] = {}
        self._numbers: dict[str, int] = {}

    def text(self, text: str) -> int:
        """The index of a text."""
        return self.texts.setdefault(text, len(self.texts))

    def body(self, source: str | None) -> int | None:
        """The index of a body: of an object its members by name, each the index of a text, or of a list those of the
        entries; of another value the index of a text."""
        if source is None:
            return None
        if source not in self.bodies:
            value: JSON = json.loads(source)
            self._numbers[source] = len(self.bodies)
            self.bodies[source] = self._members(value) if isinstance(value, dict) else self._value(value)
        return self._numbers[source]

    def _members(self, value: dict[str, JSON]) -> JSON:
        return {
            key: cast("JSON", [self._value(entry) for entry in member])
            if isinstance(member, list) and member
            else self._value(member)
            for key, member in value.items()
        }

    def _value(self, value: JSON) -> int:
        return self.text(_json(value))


def _cell(run: RunResult, cell: CellResult, pool: _Pool, pairs: set[tuple[str, str]]) -> dict[str, object]:
    """A cell by what is known of it: nothing is said of what there is not."""
    told: dict[str, object] = {
        "s": pool.text(cell.scenario),
        "t": pool.text(cell.target),
        "v": pool.text(cell.variant),
        "is": pool.text(cell.verdict.value),
    }
    provenance = cell.provenance
    came = provenance and ", ".join(
        filter(None, (provenance.model_served or provenance.model_requested, provenance.recorded_at, *_from(cell)))
    )
    spending = cell.spending if cell.spending and cell.spending.requests else None
    texts = {
        "about": ", ".join(cell.covers),
        "why": cell.reason,
        "from": came,
        "cost": spending and spent(spending),
        "printed": cell.printed,
        "traceback": cell.traceback,
    }
    told |= {name: pool.text(text) for name, text in texts.items() if text}
    if cell.verdict not in _QUIET and run.audit is None:
        here = groups.Place(cell.scenario, (cell,), is_paired=(cell.scenario, cell.target) in pairs)
        commands = (groups.look(run, cell), groups.rerun(run, here))
        told["commands"] = [pool.text(each) for each in commands if each]
    if cell.findings:
        told["findings"] = [_finding(each, pool.text) for each in cell.findings]
    if cell.conversation is not None:
        told |= _conversation(cell.conversation, pool)
    return told


def _from(cell: CellResult) -> tuple[str, ...]:
    if cell.provenance is None:
        return ()
    names = {"reference": "the reference server, not a provider", "provider": "the provider"}
    return (names.get(cell.provenance.origin, f"{cell.provenance.recorded_from}, not the provider"),)


def _finding(finding: Finding, text: Callable[[str], int]) -> dict[str, object]:
    todo = finding.accepted and f"nothing: it is expected ({finding.accepted})"
    told: dict[str, object] = {
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
        told["at"] = at
    if finding.pointer is not None:
        told["pointer"] = text(finding.pointer)
    if finding.of_response:
        told["answer"] = 1
    if finding.follows is not None:
        told["follows"] = finding.follows
    told |= {name: text(value) for name, value in values(finding, None)}
    if finding.piece:
        told["piece"] = [text(line) for line in finding.piece]
    bodies = finding.bodies + finding.exhibits
    if bodies:
        told["bodies"] = [[text(body.end), [text(line) for line in lines_of(body)]] for body in bodies]
    return told


def lines_of(body: Body) -> tuple[str, ...]:
    """What is shown of a body: the piece around the place that matters, else its beginning."""
    return body.piece or tuple(body.text.splitlines()[:_BODY])


def _conversation(told: Conversation, pool: _Pool) -> dict[str, object]:
    text = pool.text
    said = [
        [each.chat, text(each.by), text(each.what), text(each.text), text(each.name or ""), text(each.id or "")]
        for each in told.said
    ]
    return {"said": said, "sent": [_sent(each, pool) for each in told.exchanges]}


def _sent(each: Sent, pool: _Pool) -> list[object]:
    return [
        each.index,
        pool.text(each.request),
        pool.body(each.sent),
        each.status,
        pool.body(each.received),
        int(each.streamed),
        int(each.left_out),
    ]
