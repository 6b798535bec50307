"""Audits recorded requests: cassettes of any project, held against what the providers refuse and against the contract.

The requests are somebody else's: only limits are errors, losses are warnings. Rules that need to know what the
adapter was given stay silent, since a cassette does not say it.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter

from harness import catalog
from harness.apis.api import Api
from harness.apis.scrubbed import is_scrubbed
from harness.auditing.redrive.redrive import Redrive
from harness.auditing.redrive.result import PairCounts, RedriveResult
from harness.contract.errors import CassetteError, CassetteMissing
from harness.contract.model import JSON
from harness.host.file import contents
from harness.results import Exchange, Finding, Kind, Severity, Transcript
from harness.rules.evidence import Evidence, Reading
from harness.rules.rule import Rule
from harness.tape.cassette import Cassette, Interaction
from harness.tape.read import read

SUFFIXES = (".yaml", ".yml", ".json")
"""How the files end that are looked at in a folder. A file that is named itself may end as it likes."""

_MARK = re.compile(rb'^interactions:|"interactions"\s*:', re.MULTILINE)
_MARK_BYTES = 65536


class Outcome(StrEnum):
    """What became of a request."""

    ACCEPTED = "accepted"
    """2xx, and no error in the body."""
    REFUSED = "refused"
    """4xx, or an error inside a 2xx."""
    UNDECIDED = "undecided"
    """Nobody judged the request: no response, one that cannot be read, a redirect, or a failure of the server (5xx)."""


@dataclass(frozen=True, slots=True)
class ApiCounts:
    """The exchanges of one API. Those that are neither accepted nor refused are undecided.

    `unread`: the witness cannot read the request or the response. `…_flagged`: a limit finding of severity error.
    `streamed`: the response came as a stream. `streamed_broken`: those of them that are cut or carry an error.
    """

    exchanges: int = 0
    unread: int = 0
    accepted: int = 0
    accepted_flagged: int = 0
    refused: int = 0
    refused_flagged: int = 0
    streamed: int = 0
    streamed_broken: int = 0


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """A finding, and what became of the request it is about."""

    finding: Finding
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file of a folder that was not read. `damaged`: it has the marks of a cassette, so that something is amiss."""

    file: str
    reason: str
    damaged: bool


@dataclass(frozen=True, slots=True)
class AuditResult:
    """A whole audit. `files` counts the cassettes read, `unknown` their exchanges that are no chat of the four APIs.
    `redrive` is what came of driving their conversations again, if that was asked for."""

    files: int
    apis: Mapping[str, ApiCounts]
    unknown: int
    findings: tuple[AuditFinding, ...]
    skipped: tuple[Skipped, ...] = ()
    redrive: RedriveResult | None = None

    @property
    def exit_code(self) -> int:
        """1 when any request has a limit finding of severity error, accepted or refused, or an adapter's follow-up
        disagrees with the recorded one; else 2 when there was no exchange to audit or a damaged cassette; else 0."""
        if any(found.finding.severity is Severity.ERROR for found in self.findings):
            return 1
        if self.redrive is not None and self.redrive.disagreements:
            return 1
        audited = sum(counts.exchanges for counts in self.apis.values())
        return 2 if not audited or any(skipped.damaged for skipped in self.skipped) else 0

    def to_json(self) -> str:
        """The audit as JSON. A finding has the fields that it has in a run, and `outcome`. A redrive adds the counts of
        pairs to each API, and `disagreements`."""
        findings = [
            {**_FINDING.dump_python(found.finding, mode="json"), "outcome": found.outcome.value}
            for found in self.findings
        ]
        document: dict[str, Any] = {
            "files": self.files,
            "apis": {api: asdict(counts) | self._pairs(api) for api, counts in self.apis.items()},
            "unknown": self.unknown,
            "findings": findings,
            "skipped": [asdict(skipped) for skipped in self.skipped],
        }
        if self.redrive is not None:
            document["disagreements"] = [each.to_dict() for each in self.redrive.disagreements]
        return json.dumps(document, ensure_ascii=False, indent=2) + "\n"

    def _pairs(self, api: str) -> dict[str, JSON]:
        return {} if self.redrive is None else self.redrive.apis.get(api, _NO_PAIRS).to_dict()


_NO_PAIRS = PairCounts(0, 0, 0, {}, {})

_IN_AUDIT = {Kind.LOSS: Severity.WARNING, Kind.CONVENTION: Severity.NOTE}
"""What is held against other people's requests: only a limit may be an error."""

_FINDING: TypeAdapter[Finding] = TypeAdapter(Finding)


class Audit:
    """An audit in the making: takes cassettes one by one and keeps the counts and findings, not the exchanges."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._files = 0
        self._counts = {api.name: Counter[str]() for api in catalog.apis()}
        self._unknown = 0
        self._findings: list[AuditFinding] = []

    def add(self, file: str, cassette: Cassette) -> None:
        """Audit one cassette. Its exchanges with one model of one API are a transcript."""
        self._files += 1
        groups: dict[tuple[str, str], dict[int, Interaction]] = {}
        for index, interaction in enumerate(cassette.interactions):
            wire = _recognised(interaction)
            if wire is None:
                self._unknown += 1
            else:
                key = wire.name, wire.model_of(interaction.request) or ""
                groups.setdefault(key, {})[index] = interaction
        found = [entry for key, group in groups.items() for entry in self._transcript(file, *key, group)]
        self._findings += sorted(found, key=lambda entry: -1 if entry.finding.index is None else entry.finding.index)

    def result(self, skipped: Iterable[Skipped] = ()) -> AuditResult:
        """What has come of it so far."""
        counts = {api: ApiCounts(**counter) for api, counter in self._counts.items()}
        return AuditResult(self._files, counts, self._unknown, tuple(self._findings), tuple(skipped))

    def _transcript(self, file: str, api: str, model: str, group: dict[int, Interaction]) -> list[AuditFinding]:
        exchanges = tuple(Exchange(each.request, each.response) for each in group.values())
        evidence = Evidence(Transcript(api, model, catalog.api(api).profile_for(model), exchanges, "audit"))
        outcomes = [_outcome(reading) for reading in evidence.readings]
        indices = list(group)
        found: list[AuditFinding] = []
        flagged: set[int] = set()
        for finding in (finding for rule in self._rules for finding in rule.findings(evidence)):
            at = finding.exchange
            limit = finding.kind is Kind.LIMIT
            if limit and _about_a_scrubbed_id(finding):
                continue
            if at is not None and limit and finding.severity is Severity.ERROR:
                flagged.add(at)
            placed = replace(
                finding,
                severity=_IN_AUDIT.get(finding.kind, finding.severity),
                exchange=None,
                file=file,
                index=None if at is None else indices[at],
            )
            found.append(AuditFinding(placed, Outcome.UNDECIDED if at is None else outcomes[at]))
        self._count(api, evidence.readings, outcomes, flagged)
        return found

    def _count(self, api: str, readings: Sequence[Reading], outcomes: Sequence[Outcome], flagged: set[int]) -> None:
        counts = self._counts[api]
        counts["exchanges"] += len(readings)
        counts["unread"] += sum(reading.unread is not None for reading in readings)
        for reading in readings:
            view, response = reading.response, reading.exchange.response
            if view is not None and response is not None and view.streamed:
                counts["streamed"] += 1
                whole = view.complete and view.error is None and response.delivery.ending == "complete"
                counts["streamed_broken"] += not whole
        for at, outcome in enumerate(outcomes):
            if outcome is not Outcome.UNDECIDED:
                counts[outcome] += 1
                counts[f"{outcome}_flagged"] += at in flagged


def audit(paths: Sequence[Path], rules: Sequence[Rule], redrive: Redrive | None = None) -> AuditResult:
    """Audit cassette files, and all cassettes below folders. Other files there are skipped, and named in the result.

    With `redrive` the conversations are driven again, too.

    Raises:
        CassetteError: a file that was named is no cassette, or a folder has no file that could be one.
        CassetteMissing: a path does not exist.
    """
    working = Audit(rules)
    skipped: list[Skipped] = []
    for file, named in _files(paths):
        try:
            cassette = read(file)
        except CassetteError as error:
            if named:
                raise
            skipped.append(Skipped(str(file), str(error), damaged=_marked(file)))
        else:
            working.add(str(file), cassette)
            if redrive is not None:
                redrive.add(str(file), cassette)
    result = working.result(skipped)
    return result if redrive is None else replace(result, redrive=redrive.result())


def _files(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """Each file once, and whether it was named itself."""
    seen: set[str] = set()
    for path in paths:
        if not path.exists():
            raise CassetteMissing(str(path), "no such file or folder.")
        folder = path.is_dir()
        below = sorted(file for file in path.rglob("*") if _may_be_one(file, path)) if folder else [path]
        if not below:
            raise CassetteError(str(path), f"no cassette in this folder: no file ends in {', '.join(SUFFIXES)}.")
        for file in below:
            resolved = os.path.realpath(file)
            if resolved not in seen:
                seen.add(resolved)
                yield file, not folder


def _may_be_one(file: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
    return file.suffix.lower() in SUFFIXES and not hidden and not file.is_dir()


def _marked(file: Path) -> bool:
    """Whether it looks like a cassette from afar: a folder also has files that never were one."""
    try:
        return _MARK.search(contents(file, _MARK_BYTES)) is not None
    except OSError:
        return True  # nobody can say that it is none


def _recognised(interaction: Interaction) -> Api | None:
    return next((wire for wire in catalog.apis() if wire.recognises(interaction.request)), None)


def _about_a_scrubbed_id(finding: Finding) -> bool:
    """A limit on the form or the pairing of an id that somebody has written over, which nobody sent like that."""
    if "-id" not in finding.rule and "result" not in finding.rule:
        return False
    values = [
        each
        for value in (finding.actual, finding.expected)
        for each in (cast("list[JSON]", value) if isinstance(value, list) else [value])
    ]
    return any(isinstance(each, str) and is_scrubbed(each) for each in values)


def _outcome(reading: Reading) -> Outcome:
    response = reading.exchange.response
    if response is None or response.status >= 500:
        return Outcome.UNDECIDED
    if response.status >= 400:
        return Outcome.REFUSED
    if reading.response is None or not 200 <= response.status < 300:
        return Outcome.UNDECIDED
    return Outcome.REFUSED if reading.response.error else Outcome.ACCEPTED
