"""Results of server checks: attempts, cells, findings with excerpts, and costs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from http import HTTPStatus
from typing import Literal

from harness.apis.eventstream import is_event_stream, looks_like_event_stream
from harness.apis.jsonvalue import loads
from harness.apis.prices import cost
from harness.apis.response_rules import (
    ARGUMENTS,
    CALL_ID,
    CONTENT_TYPE,
    END,
    ERROR_BODY,
    ERROR_STATUS,
    EVENTS,
    FIELDS,
    FRAMING,
    INDEX,
    RESPONSE_RULES,
    STOP_REASON,
    USAGE,
    ResponseRule,
    ResponseViolation,
)
from harness.apis.view import RequestView, WireError
from harness.cassettes.redact import Redactor
from harness.checks.server_session import (
    CHECK_FUNCTIONS,
    CheckFailure,
    CheckSession,
    Inapplicable,
    Inconclusive,
    Reply,
    ResponseObserver,
    RetryingClient,
    ServerCheck,
    ServerUnderTest,
    SessionEnded,
)
from harness.model.errors import UsageError
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON, Usage
from harness.platform.exceptions import shorten, text_with_line, traceback_text
from harness.results import (
    Blame,
    CellResult,
    ConversationRecord,
    Finding,
    Kind,
    Provenance,
    Severity,
    Spending,
    Verdict,
    verdict_of,
)
from harness.rules.conversation_report import limit_bodies, shown_exchange
from harness.runner.excerpts import around, excerpt, json_lines, marked_line
from harness.scenarios.schema import Variant

AttemptOutcome = Literal["judged", "inconclusive", "inapplicable"]


@dataclass(frozen=True, slots=True)
class CheckAttempt:
    """Attempt of a check. `reason` explains why it could not be judged."""

    session: CheckSession
    outcome: AttemptOutcome
    reason: str = ""


def run_check(
    check: ServerCheck, server: ServerUnderTest, line: RetryingClient, watch: ResponseObserver, variant: Variant
) -> CheckAttempt:
    """Run a check once. Raises `RequestLimitReached`."""
    session = CheckSession(check, server, line, watch, stream=variant == "stream")
    try:
        CHECK_FUNCTIONS[check.id](session)
    except SessionEnded:
        pass
    except Inconclusive as reason:
        return CheckAttempt(session, "judged" if session.failures else "inconclusive", str(reason))
    except Inapplicable as reason:
        return CheckAttempt(session, "inapplicable", str(reason))
    return CheckAttempt(session, "judged")


@dataclass(frozen=True, slots=True)
class ServerCellBuilder:
    """Builds the cells of checks."""

    server: ServerUnderTest
    provenance: Provenance
    redactor: Redactor
    price: Price | None
    room: int = 0

    def not_applicable(
        self, check: ServerCheck, variant: Variant, reason: str, attempts: Sequence[CheckAttempt] = ()
    ) -> CellResult:
        """Return the cell of a check that is not applicable. This may become known only during an attempt."""
        return self._cell(check, variant, Verdict.NOT_APPLICABLE, reason=reason, attempts=attempts)

    def skipped_cell(self, check: ServerCheck, variant: Variant, reason: str) -> CellResult:
        """Return the cell of a check that was skipped because the server would return the same error again."""
        return self._cell(check, variant, Verdict.INCONCLUSIVE, reason=reason)

    def crashed_cell(self, check: ServerCheck, variant: Variant, error: BaseException) -> CellResult:
        """Return the cell of a check that crashed, which is a defect of harness."""
        cell = self._cell(check, variant, Verdict.ERROR, reason=f"{type(error).__name__}: {text_with_line(error)}")
        return replace(cell, traceback=traceback_text(error))

    def cell(self, check: ServerCheck, variant: Variant, attempts: Sequence[CheckAttempt]) -> CellResult:
        """Return the cell of a check that ran."""
        findings = (*self._failures(check, attempts), *self._behaviour_never_shown(check, attempts))
        outcomes = {each.outcome for each in attempts}
        if "inapplicable" in outcomes and not findings:
            return self.not_applicable(check, variant, attempts[0].reason, attempts)
        verdict, reason = verdict_of(findings), None
        if verdict is Verdict.PASS and "judged" not in outcomes:
            verdict, reason = Verdict.INCONCLUSIVE, attempts[0].reason
        return self._cell(check, variant, verdict, findings=findings, reason=reason, attempts=attempts)

    def _cell(  # noqa: PLR0913 - what a cell is made of
        self,
        check: ServerCheck,
        variant: Variant,
        verdict: Verdict,
        *,
        findings: tuple[Finding, ...] = (),
        reason: str | None = None,
        attempts: Sequence[CheckAttempt] = (),
    ) -> CellResult:
        replies = [reply for each in attempts for reply in each.session.replies]
        server = self.server
        served = next((reply.view.model for reply in replies if reply.view is not None and reply.view.model), None)
        spent = spending(
            (usage for each in attempts for usage in each.session.usage),
            len(replies),
            api=server.api.name,
            model=server.model,
            url=server.base_url,
            price=self.price,
        )
        return replace(
            _cell_of(server, check, variant, verdict),
            provenance=replace(self.provenance, model_served=served) if replies else None,
            findings=findings,
            reason=reason,
            exchanges=len(replies),
            conversation=self._conversation(replies) if self.room else None,
            spending=spent if replies else None,
        )

    def _conversation(self, replies: Sequence[Reply]) -> ConversationRecord:
        exchanges = (
            shown_exchange(at, each.request, each.response, each.view, self.redactor) for at, each in enumerate(replies)
        )
        return ConversationRecord(exchanges=limit_bodies(exchanges, self.room))

    def _failures(self, check: ServerCheck, attempts: Sequence[CheckAttempt]) -> Iterator[Finding]:
        before = 0
        for each in attempts:
            for failure in each.session.failures:
                yield self._finding(check, each, failure, before)
            before += len(each.session.replies)

    def _finding(self, check: ServerCheck, attempt: CheckAttempt, failure: CheckFailure, before: int) -> Finding:
        """Return the finding for a failure. `before` is the number of exchanges before its attempt."""
        reply, replies = failure.reply, attempt.session.replies
        came = reply in replies
        return replace(
            _finding_of(self.server, check, failure.severity, failure.message),
            pointer=failure.pointer or None,
            actual=failure.actual,
            expected=failure.expected,
            exchange=before + replies.index(reply) if came else None,
            piece=response_excerpt(reply.request, reply.response if came else None, self.redactor, failure.pointer),
        )

    def _behaviour_never_shown(self, check: ServerCheck, attempts: Sequence[CheckAttempt]) -> Iterator[Finding]:
        """Yield a warning if no attempt showed the expected behaviour. One answer alone would prove nothing."""
        judged = [each for each in attempts if each.outcome == "judged"]
        tries = [out for each in judged for name, out in each.session.tries if name == check.counted]
        if not check.never or not tries or any(tries):
            return
        times = f"{len(tries)} requested" + ("; --repeat 10 is more certain" if len(tries) < 10 else "")
        last = judged[-1].session.replies[0]
        yield replace(
            _finding_of(self.server, check, Severity.WARNING, f"{check.never} ({times})"),
            exchange=0,
            piece=response_excerpt(last.request, last.response, self.redactor),
        )


def _cell_of(
    server: ServerUnderTest, about: ServerCheck | ResponseRule, variant: Variant, verdict: Verdict
) -> CellResult:
    return CellResult(about.id, server.name, "", server.api.name, variant, verdict, covers=(about.subject,))


def _finding_of(
    server: ServerUnderTest, about: ServerCheck | ResponseRule, severity: Severity, message: str
) -> Finding:
    requirement = about.sentence if isinstance(about, ResponseRule) else about.requirement
    return Finding(
        about.id,
        Kind.LOSS,
        severity,
        Blame.PROVIDER,
        message,
        source=server.sources(about.source),
        of_response=True,
        subject=about.subject,
        remedy=f"expected of a server of this API: {requirement}",
    )


_MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million input tokens and per million output tokens."""

    input: Decimal
    output: Decimal

    @staticmethod
    def of(text: str, place: str = "--price") -> Price:
        """Parse `IN,OUT`. Raises `UsageError`, which mentions `place`, the option or setting that contains the text."""
        message = (
            f"{place} {text!r}: expected two prices in US dollars per million tokens, for input and output, as in "
        )
        message += "0.15,0.60."
        try:
            prices = [Decimal(each) for each in text.split(",")]
        except InvalidOperation:
            raise UsageError(message) from None
        if len(prices) != 2 or not all(each.is_finite() and each >= 0 for each in prices):
            raise UsageError(message)
        return Price(*prices)

    def dollars(self, usage: Usage) -> Decimal | None:
        """Return the cost of an answer, or `None` if it reports no usage."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        return (self.input * usage.input_tokens + self.output * usage.output_tokens) / _MILLION


def spending(  # noqa: PLR0913 - what was sent, and where
    usages: Iterable[Usage], requests: int, *, api: str, model: str, url: str, price: Price | None
) -> Spending:
    """Return the total usage and cost of requests."""
    every = list(usages)
    prices = [cost(api, model, usage, url=url) if price is None else price.dollars(usage) for usage in every]
    return Spending.of(model, requests, every, prices)


_VALUE = re.compile(r"'[^']*'|\d+")

RESPONSE_RULE_CONSEQUENCE = "clients rely on the API, and fail or lose data if an answer differs"
"""Consequence of a violated response rule."""


@dataclass(frozen=True, slots=True)
class _FirstSighting:
    """A violation of a response rule, the check that showed it first, and an excerpt."""

    violation: ResponseViolation
    check: str
    evidence: tuple[str, ...]


class ResponseMonitor:
    """Collects violations of response rules from all responses of a server."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._looked: Counter[tuple[str, Variant]] = Counter()
        self._found: dict[tuple[str, Variant], list[_FirstSighting]] = {}
        self._alike: Counter[tuple[str, Variant, str]] = Counter()

    def __call__(self, check: str, reply: Reply, request: RequestView | None) -> None:
        """Record which response rules a response keeps or violates."""
        variant: Variant = "stream" if request is not None and request.stream else "whole"
        violated = {violation.rule.id for violation in reply.violations}
        for rule in {each.id for each in _demonstrable_rules(reply, variant)} | violated:
            self._looked[rule, variant] += 1
        for violation in reply.violations:
            self._note(violation, check, variant, reply)

    def _note(self, violation: ResponseViolation, check: str, variant: Variant, reply: Reply) -> None:
        key = (violation.rule.id, variant)
        alike = (*key, _VALUE.sub("", violation.message))
        self._alike[alike] += 1
        if self._alike[alike] == 1:  # a finding that all answers share is shown only once
            shown = response_excerpt(reply.request, reply.response, self._redactor, violation.pointer, violation.event)
            self._found.setdefault(key, []).append(_FirstSighting(violation, check, shown))

    def cells(
        self, server: ServerUnderTest, provenance: Provenance, rules: Iterable[tuple[ResponseRule, Variant]]
    ) -> Iterator[CellResult]:
        """Yield a cell for each selected response rule and for each other rule that was violated."""
        wanted: dict[tuple[str, Variant], None] = dict.fromkeys((rule.id, variant) for rule, variant in rules)
        for name, variant in dict.fromkeys((*wanted, *self._found)):
            yield self._cell(RESPONSE_RULES[name], variant, server, provenance)

    def _cell(
        self, rule: ResponseRule, variant: Variant, server: ServerUnderTest, provenance: Provenance
    ) -> CellResult:
        found = self._found.get((rule.id, variant), [])
        looked = self._looked[rule.id, variant]
        verdict = Verdict.FAIL if found else Verdict.PASS if looked else Verdict.INCONCLUSIVE
        return replace(
            _cell_of(server, rule, variant, verdict),
            provenance=provenance if looked else None,
            findings=tuple(self._finding(seen, variant, server) for seen in found),
            reason=None if looked else "no answer could show it",
            exchanges=looked,
        )

    def _finding(self, seen: _FirstSighting, variant: Variant, server: ServerUnderTest) -> Finding:
        violation = seen.violation
        times = self._alike[violation.rule.id, variant, _VALUE.sub("", violation.message)]
        where = "" if violation.event is None else f"event {violation.event + 1}: "
        more = f", and {times - 1} more like it" if times > 1 else ""
        message = f"{where}{violation.message} (first in {seen.check}{more})"
        return replace(
            _finding_of(server, violation.rule, Severity.ERROR, message),
            pointer=violation.pointer or None,
            actual=violation.actual,
            expected=violation.expected,
            piece=seen.evidence,
        )

    def first_seen(self) -> dict[str, str]:
        """Map each violated response rule to the check that showed it first."""
        return {rule: found[0].check for (rule, _), found in reversed(self._found.items())}


def first_check(message: str) -> tuple[str, str]:
    """Split the message of a finding of `ResponseMonitor` into the text and the check that showed it first. The check
    is empty for other messages.
    """
    found = _FIRST_CHECK.search(message)
    return (message, "") if found is None else (message[: found.start()], found[1])


_FIRST_CHECK = re.compile(r" \(first in ([\w-]+)(?:, and \d+ more like it)?\)$")


def _demonstrable_rules(reply: Reply, variant: Variant) -> Iterator[ResponseRule]:
    """Yield the response rules that this response can show to be kept."""
    view = reply.view
    if reply.response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return
    if reply.response.status >= HTTPStatus.BAD_REQUEST or (view is not None and view.error is not None):
        yield from (ERROR_BODY, ERROR_STATUS)
        return
    yield from (CONTENT_TYPE, FIELDS, STOP_REASON, USAGE)
    if variant == "stream":
        yield from (FRAMING, EVENTS, END)
    calls = view.calls if view is not None else ()
    if calls:
        yield ARGUMENTS
        if any(call.id is not None for call in calls):
            yield CALL_ID
        if variant == "stream":
            yield INDEX


_WIDTH_COLUMNS = 100
_REQUEST_LINES = 24
_BODY_CONTEXT_LINES = 5
_STREAM_CONTEXT_LINES = 2
_LINE_END = re.compile(r"\r\n|\n|\r")


def response_excerpt(
    request: HttpRequest, response: HttpResponse | None, redactor: Redactor, pointer: str = "", event: int | None = None
) -> tuple[str, ...]:
    """Return the shortened request, and the response around an event or a pointer, marked with `>`.

    Both are redacted before they are shortened. `response` is `None` if none was received.
    """
    redacted = redactor.request(request)
    if response is None:
        return (f"{redacted.method} {redacted.url}", *_request(redacted), "> (no answer)")
    came = redactor.response(response)
    head = f"{came.status} {came.headers.get('content-type', 'without a content type')}"
    return (
        f"{redacted.method} {redacted.url}",
        *_request(redacted),
        f"HTTP {head}",
        *(_stream(came, pointer, event) if _is_stream(came) else _body(came, pointer)),
    )


def _is_stream(response: HttpResponse) -> bool:
    content_type = response.headers.get("content-type", "")
    return is_event_stream(content_type, response.body) or looks_like_event_stream(response.body)


def _request(request: HttpRequest) -> Iterator[str]:
    try:
        shown = [line.text for line in json_lines(_short_first(loads(request.body)), _WIDTH_COLUMNS)]
    except WireError:
        shown = [shorten(request.body.decode("utf-8", "replace"), _WIDTH_COLUMNS)]
    yield from (f"  {line}" for line in shown[:_REQUEST_LINES])
    if len(shown) > _REQUEST_LINES:
        yield f"  ({len(shown) - _REQUEST_LINES} lines below)"


def _short_first(body: JSON) -> JSON:
    """Move long fields to the end, so that the excerpt shows settings rather than tools."""
    if not isinstance(body, dict):
        return body
    return dict(sorted(body.items(), key=lambda item: len(json.dumps(item[1]))))


def _body(response: HttpResponse, pointer: str) -> Iterator[str]:
    try:
        body: JSON = loads(response.body)
    except WireError:
        yield f"> {shorten(response.body.decode('utf-8', 'replace'), 4 * _WIDTH_COLUMNS) or '(nothing)'}"
        return
    shown = json_lines(body, _WIDTH_COLUMNS, opened=(pointer,) if pointer else ())
    at = marked_line(shown, pointer) if pointer else 0
    yield from around([line.text for line in shown], at, _BODY_CONTEXT_LINES)


def _stream(response: HttpResponse, pointer: str, event: int | None) -> Iterator[str]:
    """Yield the lines around an event, and its data around the pointer; without an event, the end of the stream."""
    kept = [line for line in _LINE_END.split(response.body.decode("utf-8", "replace")) if line]
    number, at = -1, len(kept) - 1
    for place, line in enumerate(kept):
        if line.startswith("data:"):
            number += 1
            if number == event:
                at = place
    yield from around([shorten(line, 2 * _WIDTH_COLUMNS) for line in kept], at, _STREAM_CONTEXT_LINES)
    if event is not None and pointer:
        yield from _place(kept[at].removeprefix("data:"), pointer)


def _place(data: str, pointer: str) -> Iterator[str]:
    try:
        yield from excerpt(loads(data), pointer, _WIDTH_COLUMNS)
    except WireError:
        return
