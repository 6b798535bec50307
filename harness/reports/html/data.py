"""Compact JSON for the page's script. Texts and bodies that occur in several cells or requests are stored once.

A body is stored as the JSON texts of its members and list entries, because a request repeats all but the end of the
previous one. They remain texts, because a browser would format some numbers differently.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

from harness.reports import groups
from harness.reports.words import place, spent, values, what_to_do
from harness.results import JSON, Body, CellResult, ConversationRecord, Finding, RunResult, Sent, Verdict

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

_UNSAFE = re.compile("[<>&\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Characters that could end the element, start a comment in it, or change the text direction in an editor."""

_MAX_BODY_LINES = 40

_WITHOUT_COMMANDS = frozenset({Verdict.PASS, Verdict.NOT_APPLICABLE})


def data(run: RunResult) -> Iterator[str]:
    """Yield the JSON in chunks, escaped for a `script` element."""
    return (_UNSAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", piece) for piece in _pieces(run))


def _pieces(run: RunResult) -> Iterator[str]:
    pairs = groups.paired(run)
    glyphs = {verdict.value: glyph for verdict, glyph in GLYPHS.items()}
    yield f'{{"audit":{_json(run.audit is not None)},"glyphs":{_json(glyphs)},"cells":['
    pool = _TextPool()
    for number, cell in enumerate(run.cells):
        yield ("," if number else "") + _json(_cell(run, cell, pool, pairs))
    for name, pooled in (("texts", pool.texts), ("bodies", pool.bodies.values()), ("lists", pool.lists)):
        yield f'],"{name}":['
        for number, value in enumerate(pooled):
            yield ("," if number else "") + _json(value)
    yield "]}"


_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class _TextPool:
    """Texts, bodies and lists of texts, each stored once and referenced by index."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self.bodies: dict[str, JSON] = {}
        self.lists: dict[tuple[int, ...], int] = {}
        self._numbers: dict[str, int] = {}
        self._outlines: dict[str, Sequence[int]] = {}

    def text(self, text: str) -> int:
        """Return the index of a text."""
        return self.texts.setdefault(text, len(self.texts))

    def list(self, texts: Iterable[str]) -> int:
        """Return the index of a list of texts."""
        return self.lists.setdefault(tuple(map(self.text, texts)), len(self.lists))

    def outline(self, source: str) -> Sequence[int]:
        """Return the indices of the labels, the values and the pointers of an outline."""
        if source not in self._outlines:
            self._outlines[source] = [self.list(column) for column in zip(*json.loads(source), strict=True)]
        return self._outlines[source]

    def body(self, source: str | None) -> int | None:
        """Return the index of a body.

        An object is stored as the index of the list of its keys, and its members. A list member becomes the list of its
        entries' indices, and any other member becomes the index of a text. A body that is not an object is stored as
        the index of a text.
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
    came = provenance and ", ".join(filter(None, (groups.model_of(provenance), provenance.recorded_at, *_from(cell))))
    spending = cell.spending if cell.spending and cell.spending.requests else None
    texts = {
        "about": ", ".join(cell.covers),
        "why": cell.reason,
        "from": came,
        "cost": spending and spent(spending),
        "printed": cell.printed,
        "traceback": cell.traceback,
    }
    entry |= {name: pool.text(text) for name, text in texts.items() if text}
    if cell.verdict not in _WITHOUT_COMMANDS and run.audit is None:
        here = groups.CellPlace(cell.scenario, (cell,), is_paired=(cell.scenario, cell.target) in pairs)
        commands = (groups.look(run, cell), groups.rerun(run, here))
        entry["commands"] = [pool.text(each) for each in commands if each]
    if cell.findings:
        entry["findings"] = [_finding(each, pool.text) for each in cell.findings]
    if cell.conversation is not None:
        entry |= _conversation(cell.conversation, pool)
    return entry


def _from(cell: CellResult) -> tuple[str, ...]:
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


def request_pair(finding: Finding) -> tuple[Body, ...]:
    """Return the request that was sent and the right one, if the finding has both."""
    return tuple(each for each in finding.exhibits if not _is_stream(each))


def raw_streams(finding: Finding) -> tuple[Body, ...]:
    """Return the raw streams that the finding has."""
    return tuple(each for each in finding.exhibits if _is_stream(each))


def _is_stream(body: Body) -> bool:
    return body.end.startswith("the raw stream")


def body_lines(body: Body) -> tuple[str, ...]:
    """Return the lines of a body around the finding's pointer, or its first lines."""
    return body.piece or tuple(body.text.splitlines()[:_MAX_BODY_LINES])


def _conversation(conversation: ConversationRecord, pool: _TextPool) -> dict[str, object]:
    text = pool.text
    messages = [
        [each.chat, text(each.by), text(each.what), text(each.text), text(each.name or ""), text(each.id or "")]
        for each in conversation.said
    ]
    return {"said": messages, "sent": [_sent(each, pool) for each in conversation.exchanges]}


def _sent(each: Sent, pool: _TextPool) -> list[object]:
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
