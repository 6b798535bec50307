"""Comparison of a chat's outcome in the adapter with the outcome that its last exchange requires."""

from __future__ import annotations

from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Literal, TypeAlias

from harness.apis import registry
from harness.apis.api import Api
from harness.apis.view import ErrorView, WireError
from harness.model.errors import ChatError, ConnectionFailed, MalformedResponse, ProviderError, provider_error
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import StopReason
from harness.platform.exceptions import ExceptionOrigin
from harness.results import Blame, Chat, Exchange, Kind, Severity
from harness.rules.evidence import Evidence, ParsedExchange
from harness.rules.rule import RuleViolation
from harness.rules.unchanged_prefix import refused_change_of_caller
from harness.scenarios.match import TurnError, TurnOutcome, error_name, mismatches
from harness.scenarios.schema import Expectation

ChatEnding: TypeAlias = Literal["unsent", "unanswered", "made-up", "failed", "cut", "unreadable", "answered"]
"""Outcome of a chat on the wire. `made-up`: the harness had no answer left and made one up."""

PROVIDER_ERRORS = frozenset(kind.__name__ for kind in (ProviderError, *ProviderError.__subclasses__()))
"""Names of the error classes for a request that the provider rejects or fails to process."""

CUT_ERRORS = frozenset({MalformedResponse.__name__, ConnectionFailed.__name__})
"""Names of the error classes for a response that ends too early."""

_RETRIABLE_STATUSES = frozenset({408, 409, 429})
"""Statuses below 500 after which the same request may succeed. The SDKs retry them, too."""


@dataclass(frozen=True, slots=True)
class ExpectedEnding:
    """The required end of a chat: one of `errors`, or a response if `errors` is empty."""

    ending: ChatEnding
    parsed: ParsedExchange | None = None
    errors: frozenset[str] = frozenset()

    @property
    def exchange(self) -> int | None:
        """Index of the exchange that determines the end."""
        return self.parsed.index if self.parsed else None

    @property
    def failure(self) -> ErrorView | None:
        """The provider's error."""
        return self.parsed.response.error if self.parsed and self.parsed.response else None


def expected_ending(evidence: Evidence, chat: int) -> ExpectedEnding:
    """Return how a chat must end, based on its last exchange."""
    exchanges = evidence.exchanges(chat)
    if not exchanges:
        return ExpectedEnding("unsent")
    parsed = exchanges[-1]
    response = parsed.exchange.response
    if parsed.is_made_up:
        return ExpectedEnding("made-up", parsed)
    if response is None:
        return ExpectedEnding("unanswered", parsed, frozenset({ConnectionFailed.__name__}))
    if parsed.response is not None and parsed.response.error is not None:
        broken = response.delivery.ending != "complete"
        return ExpectedEnding(
            "failed", parsed, _errors_for(parsed.response.error) | (CUT_ERRORS if broken else frozenset[str]())
        )
    if parsed.is_cut:
        return ExpectedEnding("cut", parsed, CUT_ERRORS)
    if parsed.response is None:
        return ExpectedEnding("unreadable", parsed, _unreadable(parsed, response.status))
    return ExpectedEnding("answered", parsed)


def _errors_for(error: ErrorView) -> frozenset[str]:
    """Return the error classes that are correct for the status of an error. If the status is not known, any class of
    provider errors is correct.
    """
    status = meant_status(error)
    return PROVIDER_ERRORS if status is None else frozenset({type(provider_error(status, "")).__name__})


def meant_status(error: ErrorView) -> int | None:
    """Return the HTTP status that an error corresponds to, or `None` if it is unknown. An error in the body of an HTTP
    200 response may correspond to another status.
    """
    if error.meant is not None:
        return error.meant
    return error.status if error.status >= 400 else None


def _unreadable(parsed: ParsedExchange, status: int) -> frozenset[str]:
    if 300 <= status < 400:  # clients must not follow redirects, so a redirect counts as no answer
        return frozenset({ConnectionFailed.__name__})
    # a stream that ends before its first event looks like a broken connection
    streamed = parsed.request is not None and parsed.request.stream
    return CUT_ERRORS if streamed else frozenset({MalformedResponse.__name__})


def is_retriable(parsed: ParsedExchange) -> bool:
    """Return whether the exchange failed in a way that a retry may fix."""
    error = parsed.response.error if parsed.response else None
    if error is None:
        return parsed.answer is None
    status = meant_status(error)
    return status is None or status >= 500 or status in _RETRIABLE_STATUSES


def is_retriable_response(api: Api, request: HttpRequest, response: HttpResponse) -> bool:
    """Return whether the response is a failure that a retry may fix."""
    try:
        view = api.read(response)
    except WireError:
        view = None
    return is_retriable(ParsedExchange(0, Exchange(request, response), None, view))


def failure_of(chat: Chat) -> TurnError | None:
    """Return the error that ended the turn, in the form that scenarios use. Return `None` if there was no
    error.
    """
    if chat.limit_reached:
        return TurnError("iteration-limit")
    return None if chat.error is None else TurnError(error_name(chat.error), chat.status, chat.retry_after)


def _expectation(evidence: Evidence, chat: int) -> Expectation | None:
    scenario = evidence.transcript.scenario
    return scenario.turns[evidence.transcript.chats[chat].turn].expect if scenario is not None else None


def is_scripted_failure(evidence: Evidence, chat: int) -> bool:
    """Return whether the scenario makes this chat fail. The rule `expectation` checks the error's class."""
    expectation = _expectation(evidence, chat)
    return _has_faults(evidence) if expectation is None else expectation.error is not None


def _has_faults(evidence: Evidence) -> bool:
    scenario = evidence.transcript.scenario
    return evidence.transcript.scripted and scenario is not None and bool(scenario.faults)


def has_broken_answers(evidence: Evidence) -> bool:
    """Return whether the scenario has answers that cannot be parsed or never arrive."""
    scenario = evidence.transcript.scenario
    faults = scenario.faults if scenario is not None and evidence.transcript.scripted else ()
    return any(fault.body or fault.connection for fault in faults)


def _is_expected(evidence: Evidence, chat: int) -> bool:
    expectation = _expectation(evidence, chat)
    if expectation is None or expectation.error is None:
        return False
    error = failure_of(evidence.transcript.chats[chat])
    wanted = Expectation(error=expectation.error)
    return not mismatches(wanted, TurnOutcome(error=error))


def wrong_ending(evidence: Evidence, chat: int) -> RuleViolation | None:
    """Return a violation if the chat ended in the wrong way, otherwise `None`. `RuleViolation.rule` names the rule that
    reports it.
    """
    made, wanted = evidence.transcript.chats[chat], expected_ending(evidence, chat)
    flaw = _ending_violation(evidence, chat, made, wanted)
    if flaw is None or not _is_contested(wanted):
        return flaw
    return replace(flaw, kind=Kind.LOSS, severity=Severity.WARNING)


def _is_contested(wanted: ExpectedEnding) -> bool:
    """Return whether the cut stream may count as complete on this API: it has a stop reason and lacks only its last
    event.
    """
    view = wanted.parsed.response if wanted.parsed and wanted.ending == "cut" else None
    if view is None or not registry.api(view.api).traits.stop_reason_may_end:
        return False
    return view.streamed and not view.complete and view.raw_stop_reason is not None


def _ending_violation(evidence: Evidence, chat: int, made: Chat, wanted: ExpectedEnding) -> RuleViolation | None:
    if wanted.ending == "made-up":
        return None  # reported by request-unexpected
    if made.error is None:
        return _response_violation(evidence, chat, wanted)
    if made.error in wanted.errors and not made.crashed:
        return _expected_error_violation(evidence, chat, wanted)
    return _other_error_violation(evidence, chat, wanted)


def _response_violation(evidence: Evidence, chat: int, wanted: ExpectedEnding) -> RuleViolation | None:
    """Check a returned response. It is correct only if the provider answered.

    The adapter may be able to parse an answer that the wire reader cannot.
    """
    why = _reason(wanted)
    if why is None or (wanted.ending == "unreadable" and not is_scripted_failure(evidence, chat)):
        return None
    rule = "stream-cut" if wanted.ending == "cut" else "chat-failure"
    message = f"{why} and the adapter returns a response"
    case = f"{wanted.ending}: a response"
    is_client = evidence.transcript.is_recognised_client
    remedy = f"raise {'an exception' if is_client else _names(wanted)} instead of returning a response"
    return RuleViolation(
        message, wanted.exchange, "", "a response", _names(wanted), rule=rule, case=case, remedy=remedy
    )


def _reason(wanted: ExpectedEnding) -> str | None:
    match wanted.ending:
        case "failed" if wanted.failure is not None:
            return f"the provider answered with an error ({_error_text(wanted.failure)})"
        case "cut":
            return f"the answer ends too early ({_ending(wanted)})"
        case "unreadable" if wanted.parsed is not None and wanted.parsed.exchange.response is not None:
            return f"the answer, HTTP {wanted.parsed.exchange.response.status}, cannot be read"
        case "unanswered":
            return "no answer came"
        case _:
            return None


def _error_text(error: ErrorView) -> str:
    if error.meant in (None, error.status):
        return f"{error.status} {error.message}"
    return f"{error.status} and, in its body, error {error.meant}: {error.message}"


def _ending(wanted: ExpectedEnding) -> str:
    response = wanted.parsed.exchange.response if wanted.parsed else None
    match response.delivery.ending if response else "complete":
        case "cut":
            return "the connection was closed"
        case "reset":
            return "the connection was reset"
        case "complete":
            return "the stream has no end"


def _names(wanted: ExpectedEnding) -> str:
    return "any ProviderError" if wanted.errors == PROVIDER_ERRORS else " or ".join(sorted(wanted.errors))


def _expected_error_violation(evidence: Evidence, chat: int, wanted: ExpectedEnding) -> RuleViolation | None:
    """Check a chat that raised the expected error. The error must have the right status. The failure itself is reported
    if the scenario did not script it.
    """
    made, failure = evidence.transcript.chats[chat], wanted.failure
    if failure is not None and made.error in PROVIDER_ERRORS:
        flaw = _status_violation(made, failure, wanted)
        if flaw is not None or (is_scripted_failure(evidence, chat) and not _is_refused(evidence, wanted)):
            return flaw
        return RuleViolation(
            f"the provider refused or failed: {_error_text(failure)}",
            wanted.exchange,
            "",
            failure.status,
            200,
            rule="chat-refused",
            remedy="change the request: the provider's message names what it refuses",
            kind=Kind.CONVENTION if _is_left_out_by_caller(evidence, wanted) else None,
            blame=_refusal_blame(evidence, wanted.exchange, meant_status(failure) or failure.status),
        )
    if is_scripted_failure(evidence, chat) or (wanted.ending == "unreadable" and not has_broken_answers(evidence)):
        return None  # exchange-unreadable reports the latter
    message = f"{made.raised} and there is no answer{made.words}"
    blame = None if wanted.ending == "unreadable" else Blame.PROVIDER  # the scenario sends the unreadable answer
    return RuleViolation(
        message, wanted.exchange, "", made.error, "a response", rule="chat-failure", blame=blame, case="no answer"
    )


def _is_refused(evidence: Evidence, wanted: ExpectedEnding) -> bool:
    """Return whether the reference server refuses the request itself, apart from the scenario's faults."""
    if wanted.parsed is None or wanted.failure is None or not evidence.transcript.scripted:
        return False
    return evidence.is_refused(wanted.parsed) and meant_status(wanted.failure) == HTTPStatus.BAD_REQUEST


def _is_left_out_by_caller(evidence: Evidence, wanted: ExpectedEnding) -> bool:
    """Return whether the request is refused only because it lacks a required word, such as "json", that the caller's
    texts lack too.
    """
    if wanted.parsed is None:
        return False
    errors = [each for each in evidence.violations(wanted.parsed) if each.severity == "error"]
    return bool(errors) and all(evidence.is_left_out_by_caller(wanted.parsed, each) for each in errors)


def _status_violation(made: Chat, failure: ErrorView, wanted: ExpectedEnding) -> RuleViolation | None:
    """Check that the adapter's error has the status of the response. For an error inside HTTP 200, the corresponding
    status is also correct.
    """
    meant = meant_status(failure)
    if meant is None or made.status in (meant, failure.status):
        return None
    message = f"the provider answered {_error_text(failure)}, but the adapter's error has the status {made.status}"
    return RuleViolation(
        message,
        wanted.exchange,
        "",
        made.status,
        meant,
        rule="chat-failure",
        case="status",
        remedy=f"set the error's `status` to {meant}",
    )


def _other_error_violation(evidence: Evidence, chat: int, wanted: ExpectedEnding) -> RuleViolation | None:
    made = evidence.transcript.chats[chat]
    if wanted.ending in ("unsent", "unreadable", "answered") and _is_expected(evidence, chat):
        return None
    raised = made.raised
    unasked = _other_form(wanted, evidence.transcript.variant == "stream")
    if unasked is not None:
        message = f"{unasked}, and {raised}{made.words}"
        return RuleViolation(message, wanted.exchange, "", made.error, rule="chat-failure", blame=Blame.PROVIDER)
    is_cut_call = made.error in _OWN_ERRORS and evidence.transcript.is_recognised_client and _ends_in_call(wanted)
    match wanted.ending:
        case "answered" if is_cut_call:
            message = (
                "the answer reached its token limit inside a call; right is the answer without this call, or an error "
                f"that says that it was cut, and {raised}"
            )
        case "answered":
            message = f"{raised}, although the answer is valid"
        case "unsent":
            return _unsent_violation(made)
        case "failed" if wanted.failure is not None:
            message = f"the provider answered {_error_text(wanted.failure)}, and {raised}"
        case "cut":
            message = f"the answer ends too early ({_ending(wanted)}), and {raised}"
        case _:
            message = f"{raised} and there is no answer"
    rule = "stream-cut" if wanted.ending == "cut" else "chat-failure"
    pointer = "" if wanted.parsed else None
    expected = _names(wanted) if wanted.errors else None
    # any exception shows the caller that the answer is broken or incomplete; its class is a convention
    is_own = made.error == ChatError.__name__ and not made.crashed
    is_own = is_cut_call or (is_own and (wanted.failure is not None or _is_incomplete(wanted)))
    kind = Kind.CONVENTION if is_own or wanted.ending in ("unanswered", "cut", "unreadable") else None
    return RuleViolation(
        f"{message}{made.words}",
        wanted.exchange,
        pointer,
        made.error_class,
        expected,
        rule=rule,
        kind=kind,
        raised=made.error if made.crashed else None,
        case=f"{wanted.ending}: {made.error}{made.origin.line if made.origin else ''}",
        remedy=f"raise {expected}" if expected else _remedy_of_crash(made.origin, "cannot read the client's answer"),
    )


_OWN_ERRORS = (ChatError.__name__, MalformedResponse.__name__)
"""Names of the error classes for exceptions of a client that report no status."""


def _ends_in_call(wanted: ExpectedEnding) -> bool:
    """Return whether the answer reached its token limit inside the arguments of a call."""
    view = wanted.parsed.response if wanted.parsed else None
    if view is None or view.stop_reason is not StopReason.MAX_TOKENS:
        return False
    return any(call.malformed is not None for call in view.calls)


def _remedy_of_crash(origin: ExceptionOrigin | None, failing: str) -> str:
    """Return what to do about an exception. The bridge, which is part of harness, cannot be corrected by the user."""
    if origin is not None and origin.raiser.startswith("the bridge"):
        return f"harness {failing}, which need not be a bug of the client: write a function or an adapter that does"
    return "fix the line that the message names: it fails on valid data"


def _is_incomplete(wanted: ExpectedEnding) -> bool:
    """Return whether the answer was refused or ended at a limit, which a client may report by an exception."""
    view = wanted.parsed.response if wanted.parsed else None
    return wanted.ending == "answered" and view is not None and view.stop_reason in _INCOMPLETE


_INCOMPLETE = (StopReason.MAX_TOKENS, StopReason.REFUSAL, StopReason.MALFORMED_CALL, StopReason.ERROR)


_TO_SERVER = "send to `endpoint.base_url`, through `endpoint.http_client` if there is one"


def _unsent_violation(made: Chat) -> RuleViolation:
    """Return the violation for an error that was raised before a request was sent. Its message names the code that
    raised the error.
    """
    origin = made.origin or ExceptionOrigin("the adapter", made.error or "", made.error_text or "", "")
    lost = made.error == ConnectionFailed.__name__
    nothing = "; no request arrived at `endpoint.base_url`: does the client use it?" if lost else ""
    return RuleViolation(
        f"{origin.raiser} raises {origin.error} before anything is sent{origin.line}: {origin.text}{nothing}",
        actual=origin.error,
        rule="chat-failure",
        raised=made.error if made.crashed else None,
        case=f"unsent: {origin.error}{origin.line}",
        remedy=_TO_SERVER if lost else _remedy_of_crash(origin, "cannot call the client"),
    )


def _other_form(wanted: ExpectedEnding, stream: bool) -> str | None:
    """Return a message if the answer was streamed when a whole one was requested, or vice versa."""
    parsed = wanted.parsed
    if wanted.ending != "answered" or parsed is None or parsed.request is None or parsed.response is None:
        return None
    if parsed.request.stream is not stream or parsed.response.streamed is stream:
        return None
    came, requested = ("a stream", "a whole answer") if parsed.response.streamed else ("a whole answer", "a stream")
    return f"the provider answered with {came} where {requested} was requested"


def _refusal_blame(evidence: Evidence, exchange: int | None, status: int) -> Blame:
    """Return the blame for a refusal. The reference server refuses only invalid requests; a provider may refuse
    others."""
    if exchange is None or status >= 500 or status == 429:
        return Blame.PROVIDER
    parsed = evidence.parsed_exchanges[exchange]
    if refused_change_of_caller(evidence, parsed) is not None and not _breaks_other_limits(evidence, parsed):
        return Blame.SCENARIO
    if evidence.transcript.scripted:
        return Blame.ADAPTER
    return Blame.ADAPTER if evidence.is_refused(parsed) else Blame.PROVIDER


def _breaks_other_limits(evidence: Evidence, parsed: ParsedExchange) -> bool:
    """Return whether a request is refused for more than reasoning that is bound to another prefix."""
    errors = [each for each in evidence.violations(parsed) if each.severity == "error"]
    return any(not each.rule.endswith("thinking-bound") for each in errors)


def wrong_wait(evidence: Evidence, chat: int) -> RuleViolation | None:
    """Return a violation if the `retry_after` of the chat's error is wrong, otherwise `None`."""
    made, wanted = evidence.transcript.chats[chat], expected_ending(evidence, chat)
    if wanted.failure is None or made.error not in wanted.errors & PROVIDER_ERRORS or made.crashed:
        return None
    wait, rounded = wanted.failure.retry_after, wanted.failure.retry_after_rounded
    if any(same_wait(made.retry_after, each, seconds=_tolerance_seconds(wanted)) for each in (wait, rounded or wait)):
        return None
    asks = "asks for no wait" if wait is None else f"asks to wait {wait:g} seconds"
    has = "none" if made.retry_after is None else f"{made.retry_after:g}"
    message = f"the provider {asks}, but the adapter's error has {has}"
    return RuleViolation(message, wanted.exchange, "", made.retry_after, wait, of_response=True)


def missing_message(evidence: Evidence, chat: int) -> RuleViolation | None:
    """Return a violation if the chat's error lacks the provider's message, or `None`."""
    made, wanted = evidence.transcript.chats[chat], expected_ending(evidence, chat)
    if wanted.failure is None or made.error not in wanted.errors & PROVIDER_ERRORS or made.crashed:
        return None
    response, reported = wanted.parsed.exchange.response if wanted.parsed else None, wanted.failure.message
    is_the_body = response is not None and reported.strip() == response.body.decode("utf-8", "replace").strip()
    if is_the_body or _letters(reported)[:_COMPARED_LETTERS] in _letters(made.error_text or ""):
        return None
    message = "the adapter's error does not contain the provider's message"
    return RuleViolation(message, wanted.exchange, "", made.error_text, reported, of_response=True)


_COMPARED_LETTERS = 200


def _letters(text: str) -> str:
    """Return only letters and digits, since quoting may change punctuation."""
    return "".join(filter(str.isalnum, text.replace("\\n", "")))


def same_wait(one: float | None, other: float | None, *, seconds: float) -> bool:
    """Return whether two waiting times differ by at most `seconds`."""
    return one == other if one is None or other is None else abs(one - other) <= seconds


DATE_TOLERANCE_SECONDS = 60.0


def _tolerance_seconds(wanted: ExpectedEnding) -> float:
    """Return the tolerance for `retry_after` in seconds. It is larger for a date, because the time until a date depends
    on when it is computed.
    """
    response = wanted.parsed.exchange.response if wanted.parsed else None
    given = response.headers.get("retry-after", "0") if response else "0"
    try:
        float(given)
    except ValueError:
        return DATE_TOLERANCE_SECONDS
    return 0.001
