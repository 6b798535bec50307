"""How a chat has to end, by what its last exchange says, and what is wrong with how it ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Literal, TypeAlias

from harness import catalog
from harness.apis.api import Api
from harness.apis.view import ErrorView, WireError
from harness.contract.errors import ConnectionFailed, MalformedResponse, ProviderError, provider_error
from harness.contract.http import HttpRequest, HttpResponse
from harness.host.exceptions import Origin
from harness.results import Blame, Chat, Exchange, Kind, Severity
from harness.rules.evidence import Evidence
from harness.rules.reading import Reading
from harness.rules.rule import Flaw
from harness.scenarios.match import TurnError, TurnOutcome, error_name, mismatches
from harness.scenarios.schema import Expectation

Fate: TypeAlias = Literal["unsent", "unanswered", "made-up", "failed", "cut", "unreadable", "answered"]
"""What became of a chat on the wire: no request, no response, an answer that the harness had to make up, the provider's
error, a response that ends too early, one that nobody can read, an answer."""

PROVIDER_ERRORS = frozenset(kind.__name__ for kind in (ProviderError, *ProviderError.__subclasses__()))
"""The errors by which a provider refuses or fails."""

CUT_ERRORS = frozenset({MalformedResponse.__name__, ConnectionFailed.__name__})
"""The errors of an answer that ends too early."""

_RETRIABLE = frozenset({408, 409, 429})
"""Statuses below 500 after which the same request may succeed: the SDKs' own choice."""


@dataclass(frozen=True, slots=True)
class Due:
    """How a chat has to end. `errors` are the classes of which it has to raise one; without any it has to answer."""

    fate: Fate
    reading: Reading | None = None
    errors: frozenset[str] = frozenset()

    @property
    def exchange(self) -> int | None:
        """The index of the exchange that says so."""
        return self.reading.index if self.reading else None

    @property
    def failure(self) -> ErrorView | None:
        """The provider's error."""
        return self.reading.response.error if self.reading and self.reading.response else None


def due(evidence: Evidence, chat: int) -> Due:
    """How a chat has to end: as the last of its exchanges did."""
    exchanges = evidence.exchanges(chat)
    if not exchanges:
        return Due("unsent")
    reading = exchanges[-1]
    response = reading.exchange.response
    if reading.is_made_up:
        return Due("made-up", reading)
    if response is None:
        return Due("unanswered", reading, frozenset({ConnectionFailed.__name__}))
    if reading.response is not None and reading.response.error is not None:
        broken = response.delivery.ending != "complete"
        return Due("failed", reading, _meant(reading.response.error) | (CUT_ERRORS if broken else frozenset[str]()))
    if reading.is_cut:
        return Due("cut", reading, CUT_ERRORS)
    if reading.response is None:
        return Due("unreadable", reading, _unreadable(reading, response.status))
    return Due("answered", reading)


def _meant(error: ErrorView) -> frozenset[str]:
    """The class of the status that an error stands for; any, where neither status nor code says it."""
    status = meant_status(error)
    return PROVIDER_ERRORS if status is None else frozenset({type(provider_error(status, "")).__name__})


def meant_status(error: ErrorView) -> int | None:
    """The status that an error stands for."""
    if error.meant is not None:
        return error.meant
    return error.status if error.status >= 400 else None


def _unreadable(reading: Reading, status: int) -> frozenset[str]:
    if 300 <= status < 400:  # redirects are refused, and count as no answer
        return frozenset({ConnectionFailed.__name__})
    # a stream that ends before its first event is told from a broken connection by nothing
    streamed = reading.request is not None and reading.request.stream
    return CUT_ERRORS if streamed else frozenset({MalformedResponse.__name__})


def is_retriable(reading: Reading) -> bool:
    """The exchange failed in a way that another one may not: not by an answer, nor by a refusal of what was asked."""
    error = reading.response.error if reading.response else None
    if error is None:
        return reading.answer is None
    status = meant_status(error)
    return status is None or status >= 500 or status in _RETRIABLE


def failed(api: Api, request: HttpRequest, response: HttpResponse) -> bool:
    """The same of an exchange that nobody has read yet."""
    try:
        view = api.read(response)
    except WireError:
        view = None
    return is_retriable(Reading(0, Exchange(request, response), None, view))


def failure_of(chat: Chat) -> TurnError | None:
    """The error in which a turn ended with this chat, in the words of scenarios."""
    if chat.limit_reached:
        return TurnError("iteration-limit")
    return None if chat.error is None else TurnError(error_name(chat.error), chat.status, chat.retry_after)


def _expectation(evidence: Evidence, chat: int) -> Expectation | None:
    scenario = evidence.transcript.scenario
    return scenario.turns[evidence.transcript.chats[chat].turn].expect if scenario is not None else None


def is_foreseen(evidence: Evidence, chat: int) -> bool:
    """The scenario has this chat fail, so that nobody is to blame for the failure. Whether it is the one that the
    scenario names, `expectation` says."""
    expectation = _expectation(evidence, chat)
    return _has_faults(evidence) if expectation is None else expectation.error is not None


def _has_faults(evidence: Evidence) -> bool:
    scenario = evidence.transcript.scenario
    return evidence.transcript.scripted and scenario is not None and bool(scenario.faults)


def is_spoilt(evidence: Evidence) -> bool:
    """The scenario has answers that nobody can read, or that do not arrive."""
    scenario = evidence.transcript.scenario
    faults = scenario.faults if scenario is not None and evidence.transcript.scripted else ()
    return any(fault.body or fault.connection for fault in faults)


def _is_expected(evidence: Evidence, chat: int) -> bool:
    """The scenario names the error that the chat raised."""
    expectation = _expectation(evidence, chat)
    if expectation is None or expectation.error is None:
        return False
    error = failure_of(evidence.transcript.chats[chat])
    wanted = Expectation(error=expectation.error)
    return not mismatches(wanted, TurnOutcome(error=error))


def judged(evidence: Evidence, chat: int) -> Flaw | None:
    """What is wrong with how a chat ended. `Flaw.rule` says which rule it is to be reported under."""
    made, wanted = evidence.transcript.chats[chat], due(evidence, chat)
    flaw = _judged(evidence, chat, made, wanted)
    if flaw is None or not _is_contested(wanted):
        return flaw
    return replace(flaw, kind=Kind.LOSS, severity=Severity.WARNING)


def _is_contested(wanted: Due) -> bool:
    """The provider has said why the model stopped, and only the event that ends the stream is missing."""
    view = wanted.reading.response if wanted.reading and wanted.fate == "cut" else None
    if view is None or not catalog.api(view.api).traits.stop_reason_may_end:
        return False
    return view.streamed and not view.complete and view.raw_stop_reason is not None


def _judged(evidence: Evidence, chat: int, made: Chat, wanted: Due) -> Flaw | None:
    if wanted.fate == "made-up":
        return None  # request-unexpected says it
    if made.error is None:
        return _handed_on(evidence, chat, wanted)
    if made.error in wanted.errors and not made.crashed:
        return _rightly(evidence, chat, wanted)
    return _wrongly(evidence, chat, wanted)


def _handed_on(evidence: Evidence, chat: int, wanted: Due) -> Flaw | None:
    """A response: right after an answer only. The adapter may see one where the witness does not, unless the scenario
    says that there is none."""
    why = _why(wanted)
    if why is None or (wanted.fate == "unreadable" and not is_foreseen(evidence, chat)):
        return None
    rule = "stream-cut" if wanted.fate == "cut" else "chat-failure"
    message = f"{why} and the adapter hands on a response"
    case = f"{wanted.fate}: a response"
    remedy = f"raise {_names(wanted)} instead of returning a response"
    return Flaw(message, wanted.exchange, "", "a response", _names(wanted), rule=rule, case=case, remedy=remedy)


def _why(wanted: Due) -> str | None:
    match wanted.fate:
        case "failed" if wanted.failure is not None:
            return f"the provider answered with an error ({_said(wanted.failure)})"
        case "cut":
            return f"the answer ends too early ({_ending(wanted)})"
        case "unreadable" if wanted.reading is not None and wanted.reading.exchange.response is not None:
            return f"the answer, HTTP {wanted.reading.exchange.response.status}, cannot be read"
        case "unanswered":
            return "no answer came"
        case _:
            return None


def _said(error: ErrorView) -> str:
    meant = "" if error.meant in (None, error.status) else f", which stands for {error.meant},"
    return f"{error.status}{meant} {error.message}"


def _ending(wanted: Due) -> str:
    response = wanted.reading.exchange.response if wanted.reading else None
    match response.delivery.ending if response else "complete":
        case "cut":
            return "the connection was closed"
        case "reset":
            return "the connection was reset"
        case "complete":
            return "the stream has no end"


def _names(wanted: Due) -> str:
    """The errors that are right, in words."""
    return "any ProviderError" if wanted.errors == PROVIDER_ERRORS else " or ".join(sorted(wanted.errors))


def _rightly(evidence: Evidence, chat: int, wanted: Due) -> Flaw | None:
    """The right error: at most the provider is to blame, unless the scenario wants it to fail."""
    made, failure = evidence.transcript.chats[chat], wanted.failure
    if failure is not None and made.error in PROVIDER_ERRORS:
        flaw = _status(made, failure, wanted)
        if flaw is not None or (is_foreseen(evidence, chat) and not _is_refused(evidence, wanted)):
            return flaw
        return Flaw(
            f"the provider refused or failed: {_said(failure)}",
            wanted.exchange,
            "",
            failure.status,
            200,
            rule="chat-refused",
            remedy="send what the provider takes: its words name what it refuses",
            kind=Kind.CONVENTION if _is_left_out_by_caller(evidence, wanted) else None,
            blame=_refusal_blame(evidence, wanted.exchange, meant_status(failure) or failure.status),
        )
    if is_foreseen(evidence, chat) or (wanted.fate == "unreadable" and not is_spoilt(evidence)):
        return None  # exchange-unreadable says the latter
    message = f"{made.raised} and there is no answer{made.words}"
    blame = None if wanted.fate == "unreadable" else Blame.PROVIDER  # the former is an answer, says the scenario
    return Flaw(
        message, wanted.exchange, "", made.error, "a response", rule="chat-failure", blame=blame, case="no answer"
    )


def _is_refused(evidence: Evidence, wanted: Due) -> bool:
    """The request is one that the reference server refuses, whatever the scenario has in store for it."""
    if wanted.reading is None or wanted.failure is None or not evidence.transcript.scripted:
        return False
    return evidence.is_refused(wanted.reading) and meant_status(wanted.failure) == HTTPStatus.BAD_REQUEST


def _is_left_out_by_caller(evidence: Evidence, wanted: Due) -> bool:
    """All that a request is refused for is what the caller has left out."""
    if wanted.reading is None:
        return False
    errors = [each for each in evidence.violations(wanted.reading) if each.severity == "error"]
    return bool(errors) and all(evidence.is_left_out_by_caller(wanted.reading, each) for each in errors)


def _status(made: Chat, failure: ErrorView, wanted: Due) -> Flaw | None:
    """The error's status is the response's, or inside HTTP 200 the one that it stands for."""
    meant = meant_status(failure)
    if meant is None or made.status in (meant, failure.status):
        return None
    message = f"the provider answered {_said(failure)}, and the error that the adapter raises says {made.status}"
    return Flaw(
        message,
        wanted.exchange,
        "",
        made.status,
        meant,
        rule="chat-failure",
        case="status",
        remedy=f"set the error's `status` to {meant}",
    )


def _wrongly(evidence: Evidence, chat: int, wanted: Due) -> Flaw | None:
    """Another error than the right one, or one where there should be none."""
    made = evidence.transcript.chats[chat]
    if wanted.fate in ("unsent", "unreadable", "answered") and _is_expected(evidence, chat):
        return None
    raised = made.raised
    unasked = _unasked(wanted, evidence.transcript.variant == "stream")
    if unasked is not None:
        message = f"{unasked}, and {raised}{made.words}"
        return Flaw(message, wanted.exchange, "", made.error, rule="chat-failure", blame=Blame.PROVIDER)
    match wanted.fate:
        case "answered":
            message = f"{raised} where the answer can be read"
        case "unsent":
            return _unsent(made)
        case "failed" if wanted.failure is not None:
            message = f"the provider answered {_said(wanted.failure)}, and {raised}"
        case "cut":
            message = f"the answer ends too early ({_ending(wanted)}), and {raised}"
        case _:
            message = f"{raised} and there is no answer"
    rule = "stream-cut" if wanted.fate == "cut" else "chat-failure"
    pointer = "" if wanted.reading else None
    expected = _names(wanted) if wanted.errors else None
    # nobody takes a broken answer for a good one if anything at all is raised: which class it is is ours
    kind = Kind.CONVENTION if wanted.fate in ("unanswered", "cut", "unreadable") else None
    return Flaw(
        f"{message}{made.words}",
        wanted.exchange,
        pointer,
        made.error,
        expected,
        rule=rule,
        kind=kind,
        raised=made.error if made.crashed else None,
        case=f"{wanted.fate}: {made.error}",
        remedy=f"raise {expected}" if expected else "look at the line that is named: what it cannot read is an answer",
    )


_TO_SERVER = "send to `endpoint.base_url`, through `endpoint.http_client` if there is one"


def _unsent(made: Chat) -> Flaw:
    """An error before there was anything to answer: it is what was raised first, whatever was made of it."""
    origin = made.origin or Origin("the adapter", made.error or "", made.error_text or "", "")
    lost = made.error == ConnectionFailed.__name__
    nothing = "; nothing came in where `endpoint.base_url` leads: does the client send there?" if lost else ""
    return Flaw(
        f"{origin.raiser} raises {origin.error} before anything is sent{origin.line}: {origin.text}{nothing}",
        actual=origin.error,
        rule="chat-failure",
        raised=made.error if made.crashed else None,
        case=f"unsent: {origin.error}",
        remedy=_TO_SERVER if lost else "look at the line that is named: the request has to be sent",
    )


def _unasked(wanted: Due, stream: bool) -> str | None:
    """The answer came in the other form than the adapter asked for, as it was to, and no adapter has to read both."""
    reading = wanted.reading
    if wanted.fate != "answered" or reading is None or reading.request is None or reading.response is None:
        return None
    if reading.request.stream is not stream or reading.response.streamed is stream:
        return None
    came, asked = ("a stream", "a whole answer") if reading.response.streamed else ("a whole answer", "a stream")
    return f"the provider answered with {came} where {asked} was asked for"


def _refusal_blame(evidence: Evidence, exchange: int | None, status: int) -> Blame:
    """The reference server refuses only what is wrong; what a provider refuses although the witness has nothing against
    it is the provider's own departure."""
    if exchange is None or status >= 500 or status == 429:
        return Blame.PROVIDER
    if evidence.transcript.scripted:
        return Blame.ADAPTER
    return Blame.ADAPTER if evidence.is_refused(evidence.readings[exchange]) else Blame.PROVIDER


def waited(evidence: Evidence, chat: int) -> Flaw | None:
    """What is wrong with the time that the error of a chat asks to wait."""
    made, wanted = evidence.transcript.chats[chat], due(evidence, chat)
    if wanted.failure is None or made.error not in wanted.errors & PROVIDER_ERRORS or made.crashed:
        return None
    said, rounded = wanted.failure.retry_after, wanted.failure.retry_after_rounded
    if any(same_wait(made.retry_after, each, seconds=_slack(wanted)) for each in (said, rounded or said)):
        return None
    asks = "asks for no wait" if said is None else f"asks to wait {said:g} seconds"
    has = "none" if made.retry_after is None else f"{made.retry_after:g}"
    message = f"the provider {asks}, and the error that the adapter raises has {has}"
    return Flaw(message, wanted.exchange, "", made.retry_after, said, of_response=True)


def worded(evidence: Evidence, chat: int) -> Flaw | None:
    """What the error of a chat leaves out of the provider's own words. A body that is no API's has none."""
    made, wanted = evidence.transcript.chats[chat], due(evidence, chat)
    if wanted.failure is None or made.error not in wanted.errors & PROVIDER_ERRORS or made.crashed:
        return None
    response, said = wanted.reading.exchange.response if wanted.reading else None, wanted.failure.message
    is_the_body = response is not None and said.strip() == response.body.decode("utf-8", "replace").strip()
    if is_the_body or _letters(said)[:_ENOUGH] in _letters(made.error_text or ""):
        return None
    message = "the error that the adapter raises does not have the provider's words"
    return Flaw(message, wanted.exchange, "", made.error_text, said, of_response=True)


_ENOUGH = 200
"""Letters of a long message: an error's text is kept with its middle left out."""


def _letters(text: str) -> str:
    """Letters and digits: quoted inside of other words a sentence has other signs between them."""
    return "".join(filter(str.isalnum, text.replace("\\n", "")))


def same_wait(one: float | None, other: float | None, *, seconds: float) -> bool:
    """Two times to wait are the same, give or take `seconds`."""
    return one == other if one is None or other is None else abs(one - other) <= seconds


A_DATE_AGO = 60.0
"""What may lie between two readings of a date, in seconds: it is nearer when it is read later."""


def _slack(wanted: Due) -> float:
    """What may lie between two readings of the time to wait, in seconds."""
    response = wanted.reading.exchange.response if wanted.reading else None
    given = response.headers.get("retry-after", "0") if response else "0"
    try:
        float(given)
    except ValueError:
        return A_DATE_AGO
    return 0.001
