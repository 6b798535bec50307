"""Audits of cassettes: their requests are checked against the providers' limits and the contract.

The requests come from other projects, so only exceeded limits are errors, and losses are warnings. Rules that need the
adapter's input report nothing, because a cassette does not contain it.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from email.utils import parsedate_to_datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

from harness.apis import registry
from harness.apis.api import Api
from harness.apis.eventstream import events, looks_like_event_stream
from harness.apis.fact_files import SHIPPED, FactSelection
from harness.apis.jsonvalue import loads
from harness.apis.profiles import Profile
from harness.apis.view import WireError, is_redacted_id
from harness.cassettes.cassette import Cassette, Interaction
from harness.cassettes.cassette_files import read
from harness.cassettes.redact import Redactor
from harness.model.errors import CassetteError, CassetteMissing
from harness.model.http import HttpResponse
from harness.model.messages import JSON
from harness.platform.files import read_file
from harness.results import (
    ApiCounts,
    AuditResult,
    Blame,
    CellResult,
    ConversationRecord,
    Exchange,
    ExchangeRecord,
    Finding,
    Kind,
    Outcome,
    PairDisagreement,
    RedriveResult,
    RefusedRequest,
    RunResult,
    Severity,
    SkippedFile,
    Transcript,
    Verdict,
    blame_client,
    verdict_of,
)
from harness.rules import EVERYTHING, Scope
from harness.rules.conversation_report import build_conversation, max_conversation_chars
from harness.rules.evidence import Evidence, ParsedExchange
from harness.rules.rule import Rule
from harness.rules.unchanged_prefix import PREFIX_CHANGED, STATE_DROPPED, continued_requests

if TYPE_CHECKING:  # most audits do not redrive
    from harness.audit.redrive import Redrive


SUFFIXES = (".yaml", ".yml", ".json")
"""File suffixes of cassettes found in folders. A file named by the user may have any suffix."""

_MARK = re.compile(rb'^interactions:|"interactions"\s*:', re.MULTILINE)
_MARK_BYTES = 65536

_MAX_TRANSCRIPT_EXCHANGES = 256
"""Maximum number of exchanges per transcript. Parsed exchanges take many times their size in bytes, and no audit rule
compares distant requests."""

_IN_AUDIT = {Kind.LOSS: Severity.WARNING, Kind.CONVENTION: Severity.NOTE}
"""Severity of findings that are not limits, by kind."""

_REPORTED_BY_PROVIDERS = frozenset({STATE_DROPPED})
"""Rules whose findings keep their severity: the response itself reports the loss."""

_CONTENT = frozenset({400, 409, 413, 415, 422})
"""Status codes that reject a request's content, as opposed to authentication, rate limits or overload."""

_KEY_SHAPE_REDACTOR = Redactor(shaped=True)
"""Redactor that recognises keys by their format, because the keys of other projects are unknown."""


_NONE: Mapping[str, int] = {}


class Audit:
    """An audit in progress.

    Cassettes are added one by one. The audit keeps counts and cells, but not exchanges. With `room`, each cell keeps a
    conversation of at most that many characters. Only findings in `scope` count.
    """

    def __init__(
        self, rules: Sequence[Rule], fact_selection: FactSelection = SHIPPED, room: int = 0, scope: Scope = EVERYTHING
    ) -> None:
        self._rules = rules
        self._scope = scope
        self._fact_selection = fact_selection
        self._room = room
        self._files = 0
        self._counts = {api.name: Counter[str]() for api in registry.apis()}
        self._unknown = 0
        self._unexplained: list[RefusedRequest] = []
        self._cells: dict[tuple[str, str], CellResult] = {}

    def add(self, file: str, cassette: Cassette) -> None:
        """Audit one cassette.

        Its exchanges are grouped into transcripts by API, model and day. A large group is split into several
        transcripts. The prefixes of requests are also compared across days.
        """
        self._files += 1
        groups: dict[tuple[str, str, dt.date | None], list[int]] = {}
        for index, interaction in enumerate(cassette.interactions):
            wire = _recognise(interaction)
            if wire is None:
                self._unknown += 1
            else:
                day = None if self._fact_selection.day else made_on(cassette, interaction)
                key = wire.name, wire.model_of(interaction.request) or "", day
                groups.setdefault(key, []).append(index)
        whole: dict[tuple[str, str], list[int]] = {}
        for (api, model, _), group in groups.items():
            whole.setdefault((api, model), []).extend(group)
        for (api, model, day), group in groups.items():
            profile = registry.api(api).profile_for(model, self._fact_selection.on(day))
            every = sorted(whole.pop((api, model), ()))
            found = [*self._prefix_changes(file, cassette, api, profile, every)] if len(every) > len(group) else []
            shown: list[ExchangeRecord] = []
            room = self._room
            for begin in range(0, len(group), _MAX_TRANSCRIPT_EXCHANGES):
                indices = group[begin : begin + _MAX_TRANSCRIPT_EXCHANGES]
                chosen = (cassette.interactions[index] for index in indices)
                exchanges = tuple(Exchange(each.request, each.response) for each in chosen)
                evidence = Evidence(Transcript(api, model, profile, exchanges, "audit"))
                found += self._findings_of(file, api, evidence, indices, is_dated=bool(day or self._fact_selection.day))
                if self._room:
                    sent = build_conversation(evidence, _KEY_SHAPE_REDACTOR, room, indices).exchanges
                    room -= sum(len(each.sent or "") + len(each.received or "") for each in sent)
                    shown += sent
            taken, hidden = self._scope.split(found)
            self._add(file, api, len(group), taken, hidden)
            if self._room:
                self._keep(file, api, shown)

    def _prefix_changes(
        self, file: str, cassette: Cassette, api: str, profile: Profile, indices: Sequence[int]
    ) -> Iterator[Finding]:
        """Yield findings for requests whose prefix differs from that of the request they continue, if that was sent on
        another day.
        """
        begun = indices[:_MAX_TRANSCRIPT_EXCHANGES]
        model = registry.api(api).model_of(cassette.interactions[begun[0]].request) or ""
        exchanges = (Exchange(each.request, each.response) for each in map(cassette.interactions.__getitem__, begun))
        evidence = Evidence(Transcript(api, model, profile, tuple(exchanges), "audit"))
        days = [made_on(cassette, cassette.interactions[index]) for index in begun]
        pairs = {req.index: days[before.index] != days[req.index] for before, req in continued_requests(evidence)}
        for finding in (each for rule in self._rules if rule.id == PREFIX_CHANGED for each in rule.findings(evidence)):
            if finding.exchange is not None and pairs[finding.exchange]:
                severity = _IN_AUDIT.get(finding.kind, finding.severity)
                outcomes = [_outcome(parsed) for parsed in evidence.parsed_exchanges]
                yield _place(replace(finding, severity=severity), file, begun, outcomes)

    def result(self, skipped: Sequence[SkippedFile] = (), redrive: RedriveResult | None = None) -> RunResult:
        """Return the result so far."""
        for found in redrive.disagreements if redrive else ():
            self._add(found.file, found.api, 0, [_disagreement(found)])
        counts = {api: ApiCounts(**counter) for api, counter in self._counts.items()}
        missing = (
            CellResult(each.file, "unread", "", "", "whole", Verdict.MISSING, reason=each.reason)
            for each in skipped
            if each.damaged
        )
        audited = AuditResult(
            self._files, counts, self._unknown, tuple(skipped), redrive, unexplained=tuple(self._unexplained)
        )
        scope = self._scope
        return RunResult(
            "audit", (*self._cells.values(), *missing), audit=audited, rules=scope.only, ignored=scope.ignored
        )

    def _add(
        self, file: str, api: str, exchanges: int, findings: Sequence[Finding], hidden: Mapping[str, int] = _NONE
    ) -> None:
        cell = self._cells.get((file, api)) or CellResult(file, api, "", api, "whole", Verdict.PASS)
        every = sorted((*cell.findings, *findings), key=lambda each: -1 if each.index is None else each.index)
        self._cells[file, api] = replace(
            cell,
            verdict=verdict_of(every),
            findings=tuple(every),
            exchanges=cell.exchanges + exchanges,
            hidden=dict(Counter(cell.hidden) + Counter(hidden)),
        )

    def _keep(self, file: str, api: str, exchanges: Sequence[ExchangeRecord]) -> None:
        cell = self._cells[file, api]
        kept = cell.conversation.exchanges if cell.conversation else ()
        every = sorted((*kept, *exchanges), key=lambda each: each.index)
        self._cells[file, api] = replace(cell, conversation=ConversationRecord(exchanges=tuple(every)))

    def _findings_of(
        self, file: str, api: str, evidence: Evidence, indices: Sequence[int], *, is_dated: bool
    ) -> list[Finding]:
        outcomes = [_outcome(parsed) for parsed in evidence.parsed_exchanges]
        found: list[Finding] = []
        raised = (finding for rule in self._rules for finding in rule.findings(evidence))
        flagged: set[int] = set()
        explained: set[int] = set()
        for finding in raised:
            at = finding.exchange
            limit = finding.kind is Kind.LIMIT
            if limit and _concerns_redacted_id(finding):
                continue
            severity = _IN_AUDIT.get(finding.kind, finding.severity)
            if finding.rule in _REPORTED_BY_PROVIDERS:
                severity = finding.severity
            if at is not None and limit and severity is Severity.ERROR:
                request = evidence.parsed_exchanges[at].exchange.request
                settled = evidence.api.applies_at(finding.source, evidence.rule_set(evidence.parsed_exchanges[at])) or (
                    evidence.api.services.is_test_double(evidence.api.model_of(request) or "", request.url)
                )
                may_be_older = not is_dated and _has_start_dates(finding, evidence.transcript.profile)
                if not settled and outcomes[at] is not Outcome.REFUSED:
                    severity = Severity.WARNING  # a compatible server with unknown limits accepted it
                elif may_be_older and outcomes[at] is Outcome.ACCEPTED:
                    severity = Severity.WARNING  # it was accepted on a day before the refusals began
                else:
                    explained.add(at)
                    flagged.update({at} if self._scope.takes(finding.rule) else ())
            found.append(_place(replace(finding, severity=severity), file, indices, outcomes))
        self._count(api, evidence.parsed_exchanges, outcomes, flagged)
        for at, outcome in enumerate(outcomes):
            if outcome is Outcome.REFUSED and at not in explained:
                self._unexplained.extend(_refusal(file, indices[at], evidence.parsed_exchanges[at]))
        return found

    def _count(
        self, api: str, parsed_exchanges: Sequence[ParsedExchange], outcomes: Sequence[Outcome], flagged: set[int]
    ) -> None:
        counts = self._counts[api]
        counts["exchanges"] += len(parsed_exchanges)
        counts["unread"] += sum(parsed.unread is not None for parsed in parsed_exchanges)
        for parsed in parsed_exchanges:
            view, response = parsed.response, parsed.exchange.response
            if view is not None and response is not None and view.streamed:
                counts["streamed"] += 1
                whole = view.complete and view.error is None and response.delivery.ending == "complete"
                counts["streamed_broken"] += not whole
        for at, outcome in enumerate(outcomes):
            if outcome is not Outcome.UNDECIDED:
                counts[outcome] += 1
                counts[f"{outcome}_flagged"] += at in flagged


def audit(  # noqa: PLR0913 - all but the first two have a default
    paths: Sequence[Path],
    rules: Sequence[Rule],
    redrive: Redrive | None = None,
    fact_selection: FactSelection = SHIPPED,
    *,
    conversations: bool = False,
    scope: Scope = EVERYTHING,
) -> RunResult:
    """Audit cassette files, and all cassettes below folders. Other files are skipped and named in the result.

    With `redrive`, the recorded answers are also run through the shipped adapters again. Each request is judged by the
    facts of the selected day, if there is one. Otherwise it is judged by the facts of its own day, or of today if that
    day is unknown. With `conversations`, the cells keep their exchanges. Only findings in `scope` and those of a
    redrive count.

    Raises:
        CassetteError: a file that the user named is not a cassette, or a folder contains no possible cassette.
        CassetteMissing: a path does not exist.
    """
    found = list(candidate_files(paths))
    working = Audit(rules, fact_selection, max_conversation_chars(len(found)) if conversations else 0, scope)
    skipped: list[SkippedFile] = []
    for file, named in found:
        try:
            cassette = read(file)
        except CassetteError as error:
            if named:
                raise
            skipped.append(SkippedFile(str(file), str(error), damaged=looks_like_cassette(file)))
        else:
            working.add(str(file), cassette)
            if redrive is not None:
                redrive.add(str(file), cassette)
    return working.result(skipped, redrive and redrive.result())


def _disagreement(found: PairDisagreement) -> Finding:
    return Finding(
        f"redrive-{found.kind}",
        Kind.LOSS,
        Severity.ERROR,
        Blame.ADAPTER,
        f"driven again from response {found.i}: not as it was recorded",
        found.pointer,
        found.produced,
        found.recorded,
        source="harness.audit.turn_comparison",
        file=found.file,
        index=found.j,
    )


def candidate_files(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield each possible cassette once, and whether the user named the file itself.

    Raises:
        CassetteError: a folder contains no possible cassette.
        CassetteMissing: a path does not exist.
    """
    seen: set[str] = set()
    for path in paths:
        if not path.exists():
            raise CassetteMissing(str(path), "no such file or folder.")
        folder = path.is_dir()
        below = sorted(file for file in path.rglob("*") if _may_be_cassette(file, path)) if folder else [path]
        if not below:
            raise CassetteError(str(path), f"no cassette in this folder: no file ends in {', '.join(SUFFIXES)}.")
        for file in below:
            resolved = os.path.realpath(file)
            if resolved not in seen:
                seen.add(resolved)
                yield file, not folder


def _may_be_cassette(file: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
    return file.suffix.lower() in SUFFIXES and not hidden and not file.is_dir()


def looks_like_cassette(file: Path) -> bool:
    """Return whether the beginning of a file looks like a cassette."""
    try:
        return _MARK.search(read_file(file, _MARK_BYTES)) is not None
    except OSError:
        return True  # an unreadable file may be one


def _place(finding: Finding, file: str, indices: Sequence[int], outcomes: Sequence[Outcome]) -> Finding:
    """Return the finding with its place in the cassette, and with the client at fault."""
    at = finding.exchange
    return replace(
        blame_client(finding),
        exchange=None,
        file=file,
        index=None if at is None else indices[at],
        outcome=Outcome.UNDECIDED if at is None else outcomes[at],
    )


def _recognise(interaction: Interaction) -> Api | None:
    return next((wire for wire in registry.apis() if wire.recognises(interaction.request)), None)


def _has_start_dates(finding: Finding, profile: Profile) -> bool:
    """Return whether every fact on which a finding is based has a known start date."""
    held = [fact for fact in profile.facts if fact.id in finding.source.split(", ") and fact.verdict == "refused"]
    return bool(held) and all(fact.since is not None for fact in held)


def _refusal(file: str, index: int, parsed: ParsedExchange) -> Iterator[RefusedRequest]:
    """Yield the request if it was refused because of its content, with the server's message.

    This includes errors sent with HTTP 200.
    """
    response = parsed.exchange.response
    error = parsed.response.error if parsed.response is not None else None
    if response is None:
        return
    status = response.status if response.status >= 400 or error is None else error.meant or response.status
    if status in _CONTENT or status < 400:
        words = error.message if error else response.body.decode("utf-8", "replace")
        yield RefusedRequest(file, index, status, _KEY_SHAPE_REDACTOR.text(words))


def _concerns_redacted_id(finding: Finding) -> bool:
    """Return whether a finding concerns a redacted id. The form and pairing of such ids prove nothing."""
    if "-id" not in finding.rule and "result" not in finding.rule:
        return False
    values = [
        each
        for value in (finding.actual, finding.expected)
        for each in (cast("list[JSON]", value) if isinstance(value, list) else [value])
    ]
    return any(isinstance(each, str) and is_redacted_id(each) for each in values)


def _outcome(parsed: ParsedExchange) -> Outcome:
    response = parsed.exchange.response
    if response is None or response.status >= 500:
        return Outcome.UNDECIDED
    if response.status >= 400:
        return Outcome.REFUSED
    if parsed.response is None or not 200 <= response.status < 300:
        return Outcome.UNDECIDED
    return Outcome.REFUSED if parsed.response.error else Outcome.ACCEPTED


_TIME_STAMP_FIELDS = ("created", "created_at", "createTime", "create_time")
"""Fields that hold the time of a response, as seconds since 1970 or as an ISO 8601 time."""

_FIRST = dt.date(2022, 1, 1)
"""A day before the first chat API. An earlier time stamp is a placeholder."""

_MAX_EVENTS = 16
"""Number of stream events to search for a time stamp. A few are enough, because each chunk repeats it."""


def made_on(cassette: Cassette, interaction: Interaction) -> dt.date | None:
    """Return the day on which a request was made, or `None` if the recording does not contain it.

    The sources are, in this order: the cassette's metadata, a time stamp of the answer or of a chunk, the `date`
    header, and the response inside an event (`response.created`). Recordings of the reference server have no date.
    """
    metadata, response = cassette.metadata, interaction.response
    recorded = metadata.recorded_at if metadata is not None else None
    found = _day_of_text(recorded) if recorded else None
    if found is None and response is not None:
        found = next(filter(None, _days(response)), None)
    return found


def _days(response: HttpResponse) -> Iterator[dt.date | None]:
    bodies = [*_objects(response.body)]
    yield from map(_day_of_object, bodies)
    yield _day_of_header(response.headers)
    yield from (_day_of_object(inner) for body in bodies if isinstance(inner := body.get("response"), dict))


def _objects(body: bytes) -> Iterator[dict[str, JSON]]:
    """Yield the JSON objects of a body: the body itself, its list items, or the data of its first events."""
    is_stream = looks_like_event_stream(body)
    for text in (event.data for event in islice(events(body), _MAX_EVENTS)) if is_stream else (body,):
        try:
            value = loads(text)
        except WireError:
            continue
        yield from (each for each in (value if isinstance(value, list) else [value]) if isinstance(each, dict))


def _day_of_header(headers: Mapping[str, str]) -> dt.date | None:
    text = next((value for name, value in headers.items() if name.lower() == "date"), None)
    try:
        return _plausible(parsedate_to_datetime(text).date()) if text else None
    except ValueError:
        return None


def _day_of_object(body: dict[str, JSON]) -> dt.date | None:
    return next((day for name in _TIME_STAMP_FIELDS if (day := _day_of_stamp(body.get(name)))), None)


def _day_of_stamp(stamp: JSON) -> dt.date | None:
    if isinstance(stamp, str):
        return _day_of_text(stamp)
    if isinstance(stamp, bool) or not isinstance(stamp, int | float):
        return None
    try:
        return _plausible(dt.datetime.fromtimestamp(stamp, dt.UTC).date())
    except (OverflowError, ValueError, OSError):
        return None


def _day_of_text(text: str) -> dt.date | None:
    try:
        return _plausible(dt.date.fromisoformat(text[:10]))
    except ValueError:
        return None


def _plausible(day: dt.date) -> dt.date | None:
    return day if day >= _FIRST else None
