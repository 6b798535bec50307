"""What the passages of a cell result in: the fate of each fact, and findings with the bodies of both ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from harness import catalog
from harness.apis.jsonvalue import loads
from harness.apis.view import CallView, OpaqueView, RequestView, ResponseView, TextView, WireError
from harness.checking.gateways.answers import ANSWERS, FAILURES
from harness.checking.gateways.history import HISTORY, STATE
from harness.checking.gateways.passage import Fact, Fared, Passage, Side
from harness.checking.gateways.requests import DECLARATIONS, PROMPTS, SETTINGS
from harness.contract.model import JSON
from harness.results import Blame, Body, Chat, Exchange, Fate, Finding, Kind, Severity, Subject
from harness.rules.evidence import Evidence
from harness.rules.reading import Reading
from harness.running.exhibits import lines, piece
from harness.tape.redact.pieces import REDACTED

FACTS: tuple[Fact, ...] = (*PROMPTS, *DECLARATIONS, *SETTINGS, *HISTORY, *ANSWERS, *FAILURES)


if TYPE_CHECKING:  # `harness list rules` needs nothing of what plays
    from harness.checking.gateways.playing import Played

SOURCE = "harness help gateways"

REFUSED = Fact(
    "gateway-refused",
    "requests",
    "What the upstream takes can be asked of it through the gateway.",
    "the client cannot have what its upstream has",
    lambda _passage: (),
    severity=Severity.WARNING,
)
UNREADABLE = Fact(
    "gateway-answer-unreadable",
    "answers",
    "The gateway's answers can be read by the official SDK of the client's API.",
    "the client has no answer",
    lambda _passage: (),
    of_answer=True,
)
TURNED_AWAY = Fact(
    "gateway-turned-away",
    "requests",
    "What the gateway sends has what a provider wants around a chat: a key, a version, nothing that was never said.",
    "the provider refuses it before it looks at the chat",
    lambda _passage: (),
)
UNREACHED = Fact(
    "gateway-unreached",
    "upstreams",
    "The gateway leads the name of each model to its upstream.",
    "nothing can be asked of that upstream",
    lambda _passage: (),
)
OTHERS = (REFUSED, UNREADABLE, TURNED_AWAY, UNREACHED)
"""What findings can have as their rule that is judged by more than one passage, and stands in no table."""

RULES = frozenset(fact.id for fact in (*FACTS, *OTHERS))
"""What findings about gateways can have as their rule, beside the limits of their upstreams."""

_WIDTH = 100
"""Columns of a body that is shown."""
_LINES = 20
"""Lines of one of which no place matters more than others."""

_RANK = {fate: rank for rank, fate in enumerate((Fate.PRESERVED, Fate.TRANSLATED, Fate.REFUSED, Fate.LOST))}


@dataclass(frozen=True, slots=True)
class Direct:
    """The same cell without the gateway, through our adapter of the upstream's API: whether it can be said there, and
    which rules of the provider are broken even so."""

    sayable: bool
    broken: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of a cell. `fates` are by the ids of facts, `taken` and `refused` the client's requests: those to which
    it was told no are refused."""

    findings: tuple[Finding, ...] = ()
    fates: Mapping[str, Fate] = field(default_factory=dict[str, Fate])
    taken: tuple[RequestView, ...] = ()
    refused: tuple[RequestView, ...] = ()


def judged(played: Played, direct: Callable[[], Direct]) -> Judged:
    """Judge a cell that was played. `direct` plays it without the gateway, where that has to be known."""
    fates: dict[str, Fate] = {}
    found: dict[tuple[str, str], Finding] = {}

    def note(fact: Fact, fared: Fared, passage: Passage) -> None:
        if passage.is_refused and fared.fate is not Fate.LOST:
            return  # nobody was told of it: what the request said is refused
        if not fared.added:
            fates[fact.id] = max(fates.get(fact.id, fared.fate), fared.fate, key=_RANK.__getitem__)
        if fared.fate is Fate.LOST:
            found.setdefault((fact.id, fared.message), _finding(fact, fared, passage))

    for passage in played.passages:
        for fact in FACTS:
            for fared in fact.check(passage):
                note(fact, fared, passage)
    for fared, passage in _state(played):
        note(STATE, fared, passage)
    findings = (*found.values(), *_limits(played, direct), *_refusals(played, direct), *_unreadable(played, found))
    asked = [(each.client.request, each.is_refused) for each in played.passages if each.client.request is not None]
    return Judged(
        _linked(findings),
        fates,
        tuple(request for request, is_refused in asked if not is_refused),
        tuple(request for request, is_refused in asked if is_refused),
    )


def _linked(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings, each with the one that it follows from: what the upstream refuses from what the request has lost,
    and a stop reason from the words of a refusal, which is all that some APIs have for it."""

    def cause(finding: Finding) -> int | None:
        for at, other in enumerate(findings):
            if other is finding or other.exchange != finding.exchange or other.severity is not Severity.ERROR:
                continue
            if finding.kind is Kind.LIMIT and other.kind is Kind.LOSS and not other.of_response:
                return at
            if finding.rule == "gateway-answer-stop-reason" and other.rule == "gateway-answer-refusal":
                return at
        return None

    return tuple(replace(each, follows=cause(each)) for each in findings)


def _finding(fact: Fact, fared: Fared, passage: Passage) -> Finding:
    return Finding(
        fact.id,
        Kind.LOSS,
        max(fared.severity, fact.severity, key=list(Severity).index),
        Blame.GATEWAY,
        fared.message,
        fared.pointer or fared.origin or None,
        fared.actual,
        fared.expected,
        SOURCE,
        passage.number,
        of_response=fact.of_answer,
        subject=Subject.RESPONSES if fact.of_answer else Subject.REQUESTS,
        bodies=tuple(_bodies(passage, fared, of_answer=fact.of_answer)),
    )


def _bodies(passage: Passage, fared: Fared, *, of_answer: bool) -> Iterator[Body]:
    """Both ends of what was said, whoever said it first."""
    upstream = passage.last
    if of_answer:
        if upstream is not None:
            yield _answer("the upstream's answer", upstream, fared.origin)
        yield _answer("the gateway's answer", passage.client, fared.pointer)
        return
    yield _request("the client's request", passage.client, fared.origin)
    if upstream is not None:
        yield _request("the gateway's request", upstream, fared.pointer)


def _request(end: str, side: Side, pointer: str) -> Body:
    body = side.exchange.request.body
    return Body(end, body.decode(errors="replace"), pointer, _piece(lambda: loads(body), pointer, "/:"))


def _answer(end: str, side: Side, pointer: str) -> Body:
    response, view = side.exchange.response, side.response
    if response is None:
        return Body(end, "", pointer)
    kept = (f"{name}: {value}" for name, value in response.headers.items() if value != REDACTED)
    head = [f"HTTP {response.status}", *kept]
    text = "\n".join([*head, "", response.body.decode(errors="replace")])
    return Body(end, text, pointer, () if view is None else _piece(lambda: view.body, pointer, *head))


def _piece(body: Callable[[], JSON], pointer: str, *head: str) -> tuple[str, ...]:
    """The piece of a body around a place, or its beginning where no place matters more than others."""
    try:
        return piece(body(), pointer) if pointer else (*head, *(line.text for line in lines(body(), _WIDTH)))[:_LINES]
    except WireError:  # what is shown is the text
        return ()


def _state(played: Played) -> Iterator[tuple[Fared, Passage]]:
    rule = next(each for each in catalog.rules() if each.id == "opaque-state-lost")
    evidence = _with_refusals(played.upstream)
    numbers = {id(side.exchange): passage for passage in played.passages for side in passage.upstream}
    lost: set[int] = set()
    for flaw in rule.check(evidence):
        passage = numbers.get(id(played.upstream.readings[flaw.exchange or 0].exchange))
        if passage is None or flaw.kind is Kind.CONVENTION:
            continue
        lost.add(passage.number)
        issued = next((each for each in passage.before if _has_state(_theirs(each))), passage)
        fieldless = issued.own is not None and not _has_state(issued.own)
        has_none = f"; {passage.way.client.name} has no field of its own for it" if fieldless else ""
        bad = flaw.severity or rule.severity
        severity = Severity.WARNING if fieldless and not passage.is_refused else bad
        fared = Fared(
            Fate.LOST, f"{flaw.message}{has_none}", "", flaw.pointer or "", flaw.actual, flaw.expected, severity
        )
        yield fared, passage
    for passage in played.passages:
        if passage.number not in lost and passage.asked and any(_has_state(_theirs(each)) for each in passage.before):
            yield Fared(Fate.PRESERVED), passage


def _with_refusals(evidence: Evidence) -> Evidence:
    """What the upstream got, with each request that it refused in the place of the script's answer that it asked for:
    for what a refused request has lost, it may be refused."""
    played, exchanges = 0, list[Exchange]()
    for reading in evidence.readings:
        exchange, response = reading.exchange, reading.response
        if exchange.chat is not None:
            played = exchange.chat + 1
        elif response is not None and response.error is not None:
            exchange = replace(exchange, chat=played)
        exchanges.append(exchange)
    return Evidence(replace(evidence.transcript, exchanges=tuple(exchanges)))


def _theirs(passage: Passage) -> ResponseView | None:
    return passage.answered[0] if passage.answered else None


def _has_state(view: ResponseView | None) -> bool:
    for part in view.parts if view is not None else ():
        if isinstance(part, OpaqueView) and part.returns and part.kind not in ("thought", "refusal"):
            return True
        if isinstance(part, CallView | TextView) and part.opaque is not None and not _is_label(part.opaque):
            return True
    return False


def _is_label(state: JSON) -> bool:
    """What says how words are meant, and holds nothing of the model's."""
    return isinstance(state, dict) and state.keys() == {"phase"}


def _limits(played: Played, direct: Callable[[], Direct]) -> Iterator[Finding]:
    """What the upstream's provider refuses of what the gateway sends, where the same can be said as it takes it."""
    evidence, seen = played.upstream, set[str]()
    numbers = {id(side.exchange): passage for passage in played.passages for side in passage.upstream}
    for reading in evidence.readings:
        for violation in evidence.violations(reading):
            without, passage = direct(), numbers.get(id(reading.exchange))
            theirs = _of_client(played, reading, passage) if passage is not None else ()
            if not without.sayable or violation.rule in (*without.broken, *theirs, *seen):
                continue
            seen.add(violation.rule)
            fared = Fared(Fate.LOST, pointer=violation.pointer)
            yield Finding(
                violation.rule,
                Kind.LIMIT,
                Severity(violation.severity),
                Blame.GATEWAY,
                violation.message,
                violation.pointer,
                violation.actual,
                violation.expected,
                violation.source,
                None if passage is None else passage.number,
                subject=Subject.LIMITS,
                bodies=() if passage is None else tuple(_bodies(passage, fared, of_answer=False)),
            )
    for each in played.turned_away:
        answer = f"{each.answer.rstrip('.')} ({each.reason})"
        message = f"the upstream turns away what the gateway sends, {each.request}, with {answer}"
        yield Finding(TURNED_AWAY.id, Kind.LIMIT, Severity.ERROR, Blame.GATEWAY, message, source=SOURCE)


def _of_client(played: Played, reading: Reading, passage: Passage) -> list[str]:
    """What the client breaks itself, where it speaks the upstream's API: who passes that on changes nothing."""
    if passage.way.client is not passage.way.upstream:
        return []
    request, law = passage.client.exchange.request, played.upstream.law(reading)
    return [each.rule for each in passage.way.upstream.judge(request, law)]


def _refusals(played: Played, direct: Callable[[], Direct]) -> Iterator[Finding]:
    for passage in played.passages:
        response = passage.client.response
        if not passage.is_refused or passage.last is not None or response is None or response.error is None:
            continue
        if direct().sayable:
            error = response.error
            message = (
                f"the gateway refuses what {passage.way.upstream.name} takes: HTTP {error.status}: {error.message}"
            )
            yield Finding(
                REFUSED.id,
                Kind.LOSS,
                REFUSED.severity,
                Blame.GATEWAY,
                message,
                source=SOURCE,
                exchange=passage.number,
                subject=Subject.REQUESTS,
                bodies=(
                    _request("the client's request", passage.client, ""),
                    _answer("the gateway's answer", passage.client, ""),
                ),
            )


def _unreadable(played: Played, found: Iterable[object]) -> Iterator[Finding]:
    chat = next((each for each in played.chats if each.error is not None), None)
    if chat is None or chat.error != "MalformedResponse" or any(True for _ in found) or not played.passages:
        return
    last: Passage = played.passages[-1]
    if last.last is not None and not last.last.is_answer:
        return  # nor could it be of the upstream's
    yield Finding(
        UNREADABLE.id,
        Kind.LOSS,
        Severity.ERROR,
        Blame.GATEWAY,
        f"the client cannot read the gateway's answer: {chat.error_text}",
        source=SOURCE,
        exchange=last.number,
        of_response=True,
        subject=Subject.RESPONSES,
        bodies=tuple(_bodies(last, Fared(Fate.LOST), of_answer=True)),
    )


def unreached(passages: Sequence[Passage], message: str) -> Finding:
    """The finding that a gateway does not lead to an upstream."""
    return Finding(
        UNREACHED.id,
        Kind.LOSS,
        Severity.ERROR,
        Blame.GATEWAY,
        message,
        source=SOURCE,
        subject=Subject.REQUESTS,
        bodies=tuple(
            body
            for each in passages[:1]
            for body in (
                _request("the client's request", each.client, ""),
                _answer("the gateway's answer", each.client, ""),
            )
        ),
    )


def declined(chats: Sequence[Chat]) -> str | None:
    """Why the client's own API cannot say what the scenario says, if it cannot."""
    return next((each.error_text or "" for each in chats if each.error == "Unsupported"), None)
