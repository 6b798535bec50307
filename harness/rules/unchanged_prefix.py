"""Rules about the prefix of requests: tools, system prompt and messages are repeated unchanged, in the same order.
Providers report some changes in their responses.

The requests of a recording are first assigned to conversations.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain, pairwise

from harness.apis.fact import ChangedPrefix
from harness.apis.jsonvalue import canonical, equal, parse_body, resolve
from harness.apis.prefix import (
    CallerChanges,
    ChangeKind,
    PrefixChange,
    PrefixPiece,
    prefix_changes,
    prefix_pieces,
    tokens,
)
from harness.apis.prices import cost
from harness.apis.profiles import Profile, RuleSet
from harness.apis.response_rules import Subject
from harness.apis.view import CallView, OpaqueView, PartView, ProviderReport, ResultView, TextView
from harness.cassettes.cassette import REFERENCE_URL
from harness.equivalence.request_meaning import with_ids_of
from harness.model.messages import JSON, JSON_INSTRUCTION, Message, ToolResult, Usage
from harness.results import Blame, Kind, ServedTranscript, Severity
from harness.rules.evidence import ChatExchange, ClientRequest, Evidence, ParsedExchange
from harness.rules.rule import RuleTable, RuleViolation
from harness.scenarios.canonical import settings_of, system_of
from harness.scenarios.schema import Scenario

_START = 16
"""Number of characters by which texts of two requests are taken as versions of one text."""

_LONG = 80
"""Number of characters from which a text of the model identifies its answer."""


@dataclass(frozen=True, slots=True)
class _Contents:
    """The contents of a request or an answer. Values that occur twice are counted twice.

    - `marks`: ids and opaque state, which no other conversation has.
    - `calls` and `texts`: what the model said, without ids.
    - `turns`: the parts of the conversation, with the beginnings of their texts.
    - `fixed`: the names of the tools, and the beginning of the system prompt.
    - `last`: the position of the last part with a mark, call or text.
    """

    marks: Counter[str]
    calls: Counter[str]
    texts: Counter[str]
    turns: Counter[str]
    fixed: Counter[str]
    last: dict[str, int]

    def identifies(self, before: _Contents, answer: _Contents) -> bool:
        """Return whether these contents repeat ids, state or a long text of the answer to an earlier request."""
        long = (text for text in answer.texts if len(text) >= _LONG and self.texts[text] > before.texts[text])
        return any(self.marks[mark] > before.marks[mark] for mark in answer.marks) or any(long)

    def resembles(self, before: _Contents, answer: _Contents) -> bool:
        """Return whether these contents repeat an answer's calls or else its text, and half of its request.
        If the conversation was trimmed, they repeat half of the rest.
        """
        if answer.calls:
            repeated = any(self.calls[call] > before.calls[call] for call in answer.calls)
        else:
            repeated = any(self.texts[text] > before.texts[text] for text in answer.texts)
        comparable = min(before.turns.total(), self.turns.total() - answer.turns.total())
        return repeated and 2 * (self.turns & before.turns).total() >= comparable

    def count_common(self, before: _Contents) -> int:
        """Return the number of parts that two requests have in count_common."""
        return (self.turns & before.turns).total() + (self.fixed & before.fixed).total()

    def last_repeated_position(self, answer: _Contents) -> int:
        """Return the position of the last part that repeats an answer."""
        return max((at for each, at in self.last.items() if each in answer.last), default=-1)


def continued_in_recording(evidence: Evidence) -> Iterator[tuple[ClientRequest, ClientRequest]]:
    """Yield pairs: a request, and a later one that sends its answer back."""
    earlier: list[tuple[ClientRequest, _Contents, _Contents]] = []
    for parsed in evidence.parsed_exchanges:
        if parsed.request is None:
            continue
        req = ClientRequest(parsed.index, parsed, parsed.request)
        sent = _sent_contents(req)
        found = [
            (
                sent.last_repeated_position(answer),
                sent.count_common(its),
                is_identified,
                -its.turns.total(),
                before.index,
                before,
            )
            for before, its, answer in earlier
            if (is_identified := sent.identifies(its, answer)) or sent.resembles(its, answer)
        ]
        if found:
            yield max(found)[-1], req
        earlier.append((req, sent, _answer_contents(parsed)))


def _sent_contents(req: ClientRequest) -> _Contents:
    view = req.view
    state = resolve(parse_body(req.parsed.exchange.request.body), f"/{view.stateful}") if view.stateful else None
    entries = [(turn.role, part) for turn in view.turns for part in turn.parts]
    fixed = chain(
        (canonical([tool.name]) for tool in view.tools), (f"system {each.text[:_START]}" for each in view.system)
    )
    return _contents(entries, [state] if isinstance(state, str) else [], fixed)


def _answer_contents(parsed: ParsedExchange) -> _Contents:
    answer = parsed.answer
    issued = resolve(answer.body, "/id") if answer else None
    parts = answer.parts if answer else ()
    return _contents([("assistant", part) for part in parts], [issued] if isinstance(issued, str) else [])


def _contents(entries: Iterable[tuple[str, PartView]], state: Sequence[str], fixed: Iterable[str] = ()) -> _Contents:
    found = _Contents(
        Counter(state), Counter(), Counter(), Counter(), Counter(fixed), dict.fromkeys(state, sys.maxsize)
    )
    for at, (role, part) in enumerate(entries):
        said = [mark for mark in _marks(part) if isinstance(mark, str) and mark]
        found.marks.update(said)
        start = ""
        if isinstance(part, TextView):
            text = part.text.strip()
            start = text[:_START]
            if text and role == "assistant":
                found.texts[text] += 1
                said.append(text)
        elif isinstance(part, CallView):
            start = canonical([part.name, part.malformed or part.arguments])
            found.calls[start] += 1
            said.append(start)
        found.turns[f"{role} {type(part).__name__} {start}"] += 1
        found.last.update(dict.fromkeys(said, at))
    return found


_STATE = ("id", "signature", "data", "encrypted_content")


def _marks(part: PartView) -> Iterator[JSON]:
    match part:
        case CallView():
            yield from (part.id, part.item_id, part.opaque)
        case ResultView():
            yield part.call_id
        case TextView():
            yield part.opaque
        case OpaqueView(raw={**fields}) if any(fields.get(key) for key in _STATE):
            yield from (part.signature, *(fields.get(key) for key in _STATE))
        case OpaqueView():
            yield canonical(part.raw)
        case _:
            pass


_SOURCE = "harness.kit.thread: history is append-only"
RULES = RuleTable(Subject.HISTORY, _SOURCE)


PREFIX_CHANGED = "prefix-changed"


@RULES.add(
    PREFIX_CHANGED,
    "A request repeats the tools, the system prompt and the messages of the request before it, in the same order.",
    source=f"{_SOURCE}; anthropic-thinking-bound-to-prefix, openai-responses-gpt-6-2-reasoning-dropped",
    because="providers refuse or drop reasoning after a changed prefix; elsewhere only the prompt cache is lost",
    remedy="build tools and system prompt once per conversation, send earlier messages as they were sent before, and "
    "add what is new at the end",
)
def _changed_prefix(evidence: Evidence) -> Iterator[RuleViolation]:
    for before, req in continued_requests(evidence):
        is_shortened = evidence.left_out_turns(req.index) > evidence.left_out_turns(before.index)
        for change in changes_between(evidence, before, req):
            found = _violation(evidence, before, req, change)
            is_accepted = is_shortened and binding(evidence, req, change) is not None  # loops may save tokens
            yield replace(found, severity=Severity.WARNING) if is_accepted else found
        for change in caller_changes_between(evidence, before, req):
            if binding(evidence, req, change):
                found = _violation(evidence, before, req, change, as_asked=True)
                yield replace(found, severity=Severity.NOTE, blame=Blame.SCENARIO)


def continued_requests(evidence: Evidence) -> Iterator[tuple[ClientRequest, ClientRequest]]:
    """Yield pairs of a request and the next request that continues it."""
    transcript = evidence.transcript
    recorded = not transcript.chats and not isinstance(transcript, ServedTranscript)
    return continued_in_recording(evidence) if recorded else pairwise(evidence.client_requests)


def changes_between(
    evidence: Evidence, before: ClientRequest, req: ClientRequest, *, with_callers: bool = False
) -> list[PrefixChange]:
    """Return the changes of the prefix from one request to the next. Changes that the caller requested are included
    only if `with_callers` is set.
    """
    then, now = evidence.compute_once(_pieces, before), evidence.compute_once(_pieces, req)
    if before.view.stateful or req.view.stateful:  # the provider has the turns, and perhaps the rest
        sections = {each.section for each in now} - {"turns"}
        then, now = ([each for each in pieces if each.section in sections] for pieces in (then, now))
    caller = None if with_callers else _caller_changes(evidence, before, req)
    leaves = _rule_set(evidence, req).first_thoughts_may_leave
    found = prefix_changes(then, now, caller, may_leave=leaves)
    if any(change.kind == "history" for change in found):  # ids that the API did not issue may differ
        view = with_ids_of(before.view, req.view, evidence.issued_ids)
        found = prefix_changes(then, _pieces(evidence, replace(req, view=view)), caller, may_leave=leaves)
    return found


def caller_changes_between(evidence: Evidence, before: ClientRequest, req: ClientRequest) -> list[PrefixChange]:
    """Return the changes of the prefix that the caller requested, in sections without other changes."""
    if _caller_changes(evidence, before, req) in (None, CallerChanges()):
        return []
    own = {change.section for change in changes_between(evidence, before, req)}
    every = changes_between(evidence, before, req, with_callers=True)
    return [change for change in every if change.section not in own and not change.by_spelling]


def refused_change_of_caller(evidence: Evidence, parsed: ParsedExchange) -> PrefixChange | None:
    """Return the first change that the caller requested and after which the provider refuses or drops reasoning. Return
    `None` if the client itself made such a change.
    """
    pairs = (pair for pair in continued_requests(evidence) if pair[1].parsed.index == parsed.index)
    for before, req in pairs:
        if not any(binding(evidence, req, change) for change in changes_between(evidence, before, req)):
            bound = (each for each in caller_changes_between(evidence, before, req) if binding(evidence, req, each))
            return next(bound, None)
    return None


def sentence(change: PrefixChange, evidence: Evidence) -> str:
    """Return a sentence that describes a change that the caller requested."""
    words = change_words(change) + scenario_clause(evidence)
    return f"{words[:1].upper()}{words[1:]}."


def scenario_clause(evidence: Evidence) -> str:
    """Return a clause for a change that the caller requested."""
    scenario = evidence.transcript.scenario
    return f", as the scenario {scenario.id} asks" if scenario else ", as the caller requested"


@dataclass(frozen=True, slots=True)
class PrefixChangeTreatment:
    """The treatment of reasoning after a changed prefix, with the ids of the facts that document it."""

    treatment: ChangedPrefix
    facts: tuple[str, ...]


def binding(evidence: Evidence, req: ClientRequest, change: PrefixChange) -> PrefixChangeTreatment | None:
    """Return the treatment of the reasoning after a change, or `None` if there is none or only the prompt cache is
    lost.
    """
    rule_set = evidence.rule_set(req.parsed)
    treatment, facts = rule_set.profile.changed_prefix, [*binding_facts(rule_set)]
    if treatment and req.view.prefix_mismatch:
        treatment = req.view.prefix_mismatch.treatment
    return PrefixChangeTreatment(treatment, tuple(facts)) if treatment and facts and change.bound else None


def binding_facts(rule_set: RuleSet) -> Iterator[str]:
    """Yield the ids of the facts that document how the service treats reasoning after a changed prefix."""
    for fact in rule_set.profile.facts:
        if fact.is_at(rule_set.services) and fact.profile and fact.profile.changed_prefix:
            yield fact.id


def _rule_set(evidence: Evidence, req: ClientRequest) -> Profile:
    return evidence.rule_set(req.parsed).profile


def _pieces(evidence: Evidence, req: ClientRequest) -> tuple[PrefixPiece, ...]:
    asks_for_json = isinstance(req, ChatExchange) and req.chat.request.response_format is not None
    return prefix_pieces(
        req.view,
        parse_body(req.parsed.exchange.request.body),
        settings=_rule_set(evidence, req).prefix_settings,
        trailing=_rule_set(evidence, req).trailing_places,
        ignored=(JSON_INSTRUCTION,) if asks_for_json else (),
    )


def _caller_changes(evidence: Evidence, before: ClientRequest, req: ClientRequest) -> CallerChanges | None:
    """Return the changes that the caller requested, or `None` if the caller's requests are unknown."""
    if not (isinstance(before, ChatExchange) and isinstance(req, ChatExchange)):
        return _scenario_changes(evidence.transcript.scenario, before.index, req.index)
    then, now = before.chat.request, req.chat.request
    given = {tool.name: tool for tool in then.tools}, {tool.name: tool for tool in now.tools}
    changed = {name for name in {*given[0], *given[1]} if given[0].get(name) != given[1].get(name)}
    if then.response_format != now.response_format:  # an adapter may request JSON by a tool of its own
        changed |= {tool.name for view in (before.view, req.view) for tool in view.tools} - {*given[0], *given[1]}
    orders = ([name for name in tools if name not in changed] for tools in given)
    earlier, kept = then.messages, now.messages[: len(then.messages)]
    trimmed = earlier != kept and [*map(_without_contents, earlier)] == [*map(_without_contents, kept)]
    return CallerChanges(
        settings=(then.thinking, then.response_format) != (now.thinking, now.response_format),
        tools=frozenset(changed),
        tool_order=next(orders) != next(orders),
        system=(then.system, then.response_format) != (now.system, now.response_format),
        results=trimmed,
        history=not trimmed and earlier != kept,
    )


def _scenario_changes(scenario: Scenario | None, before: int, now: int) -> CallerChanges | None:
    """Return the changes that a scenario requests of a client between two answers of its script."""
    if scenario is None:
        return None
    turns = [turn for turn, spec in enumerate(scenario.turns) for _ in spec.model]
    first, last = turns[before], turns[now]
    return CallerChanges(
        settings=settings_of(scenario, first) != settings_of(scenario, last),
        tools=frozenset(tool.name for tool in scenario.tools if first < tool.from_turn <= last),
        system=system_of(scenario, first) != system_of(scenario, last),
    )


def _without_contents(message: Message) -> Message:
    parts = (replace(part, content=None) if isinstance(part, ToolResult) else part for part in message.parts)
    return replace(message, parts=tuple(parts))


_MESSAGES: Mapping[ChangeKind, str] = {
    "tool-order": "the tools are sent in a different order than in the previous request",
    "tool-changed": "the tool {name} is declared differently than in the previous request",
    "tool-missing": "the tool {name} was declared in the previous request, but is missing",
    "tool-added": "the tool {name} was not declared in the previous request",
    "setting": "the setting {name} differs from the previous request",
    "key-order": "the tool {name} is declared with its keys in a different order than in the previous request, or "
    "with defaults written out",
    "system": "the system prompt differs from the previous request",
    "thinking-dropped": "reasoning that the previous request contained is missing",
    "result-order": "the results are sent in a different order than in the previous request",
    "call-spelling": "the arguments of a call are written with different white space or in a different order of "
    "keys than in the previous request",
    "history": "a part of the conversation is missing or differs from the previous request",
}

CONSEQUENCES: Mapping[ChangedPrefix, str] = {
    "refuses": "the provider refuses the reasoning after it",
    "refuses-some-accounts": "the provider refuses the reasoning after it, for accounts created since 2026-08-31",
    "drops-reasoning": "the provider drops the reasoning after it",
}


_KINDS: Mapping[ChangedPrefix, Kind] = {
    "refuses": Kind.LIMIT,
    "refuses-some-accounts": Kind.LOSS,
    "drops-reasoning": Kind.LOSS,
}


def change_words(change: PrefixChange) -> str:
    """Return a clause that describes a change."""
    named = change.now if change.kind == "tool-added" else change.then or change.now
    return _MESSAGES[change.kind].format(name=named.name if named else "")


def _violation(
    evidence: Evidence, before: ClientRequest, req: ClientRequest, change: PrefixChange, *, as_asked: bool = False
) -> RuleViolation:
    one, other = change.then, change.now
    expected, actual = _show(before, one), _show(req, other)
    if change.kind == "tool-order":
        expected, actual = _tool_names(before), _tool_names(req)
    message = change_words(change) + (scenario_clause(evidence) if as_asked else "")
    if change.by_spelling:
        place = other.pointer if other else ""
        return req.parsed.violation(
            message, place, actual, expected, kind=Kind.CONVENTION, severity=Severity.NOTE, case=change.kind
        )
    bound = binding(evidence, req, change)
    consequence = CONSEQUENCES[bound.treatment] if bound else _cache_loss(evidence, before, req, change)
    return req.parsed.violation(
        f"{message}; {consequence}",
        change.pointer,
        actual,
        expected,
        kind=_KINDS[bound.treatment] if bound else Kind.CONVENTION,
        source=", ".join(bound.facts) if bound else None,
        case=change.kind,
    )


_REQUESTS = 1000
"""Number of requests to which prices refer. One request costs less than a cent."""


def _cache_loss(evidence: Evidence, before: ClientRequest, req: ClientRequest, change: PrefixChange) -> str:
    """Return a clause for the tokens of the earlier request that are read again, with the provider's prices."""
    lost = tokens(evidence.compute_once(_pieces, before)[change.unchanged :])
    message = f"about {lost} tokens cannot be read from the prompt cache"
    transcript, request = evidence.transcript, req.parsed.exchange.request
    url = None if transcript.scripted or request.url.startswith(REFERENCE_URL) else request.url
    model = evidence.api.model_of(request) or transcript.model
    full, cached = (
        cost(transcript.api, model, Usage(lost, 0, cache_read_tokens=read), url=url) for read in (None, lost)
    )
    if not full or cached is None or full == cached:
        return message
    prices = f"{_dollars(full * _REQUESTS)} instead of {_dollars(cached * _REQUESTS)}"
    return f"{message}, which costs {prices} per {_REQUESTS:,} requests"


def _dollars(amount: Decimal) -> str:
    return f"${amount:,.2f}" if amount >= 1 else f"${float(amount):.2g}"


def _show(req: ClientRequest, piece: PrefixPiece | None) -> JSON:
    return resolve(parse_body(req.parsed.exchange.request.body), piece.pointer) if piece else None


def _tool_names(req: ClientRequest) -> list[JSON]:
    return [tool.name for tool in req.view.tools]


# --- Reports of the provider that the prefix changed: dropped reasoning, and prompts not read from the cache ---

_PREFIX_REMEDY = "send everything again unchanged and in the same order, and add new content only at the end"
_BINDING_REMEDY = "leave reasoning out if the conversation goes on with another model, organization or end user"

STATE_DROPPED = "state-dropped"


@RULES.add(
    STATE_DROPPED,
    "All reasoning that is sent back reaches the model.",
    source="anthropic-input-transformations, openai-responses-input-transformations",
    because="the model goes on without its own reasoning, as the response itself reports",
    remedy=_PREFIX_REMEDY,
)
def _dropped_state(evidence: Evidence) -> Iterator[RuleViolation]:
    for parsed, report in _reports(evidence):
        if report.effect == "cache-missed":
            continue
        dropped = report.effect == "dropped"
        done = "was withheld from the model" if dropped else "failed a check, but was still passed to the model"
        message = f"the provider reports that reasoning of the request {done}: {report.reason}"
        chosen = dropped and _is_chosen_by_client(evidence, parsed)
        message += ", as the request asks" if chosen else ""
        severity = None if dropped and not chosen else Severity.WARNING
        if report.reason.startswith("prefix"):
            change, is_callers = _change_since(evidence, _issuer(evidence, parsed, report), parsed)
            yield _report_violation(parsed, report, f"{message}; {change}", severity, is_callers)
        else:
            yield replace(_report_violation(parsed, report, message, Severity.WARNING), remedy=_BINDING_REMEDY)


@RULES.add(
    "cache-missed",
    "If the request asks the provider about its prompt cache, the provider reports no miss.",
    kind=Kind.CONVENTION,
    source="anthropic-cache-diagnostics, openai-responses-cache-diagnostics",
    because="the provider reads and bills the whole prompt again; the answer is the same",
    remedy=_PREFIX_REMEDY,
)
def _missed_cache(evidence: Evidence) -> Iterator[RuleViolation]:
    for parsed, report in _reports(evidence):
        if report.effect == "cache-missed":
            size = "" if report.tokens is None else f", about {report.tokens} tokens"
            message = f"the provider reports that its prompt cache could not be used: {report.reason}{size}"
            change, is_callers = _change_since(evidence, None, parsed)
            yield _report_violation(parsed, report, f"{message}; {change}", None, is_callers)


def _is_chosen_by_client(evidence: Evidence, parsed: ParsedExchange) -> bool:
    """Return whether the request asks the provider to drop reasoning, and not because the adapter decided so."""
    asked = parsed.request.prefix_mismatch if parsed.request else None
    if asked is None or asked.treatment != "drops-reasoning":
        return False
    chats = [req for req in evidence.chat_exchanges if req.parsed.index == parsed.index]
    return not evidence.transcript.chats or any(req.is_verbatim(asked.pointer) for req in chats)


def _report_violation(
    parsed: ParsedExchange,
    report: ProviderReport,
    message: str,
    severity: Severity | None,
    is_callers: bool = False,
) -> RuleViolation:
    """Return a violation whose evidence is the provider's statement. A change that the caller made is a note."""
    body = None if parsed.response is None else parsed.response.body
    found = parsed.response_violation(message, report.pointer, resolve(body, report.pointer), case=report.reason)
    if is_callers:
        return replace(found, severity=Severity.NOTE, blame=Blame.SCENARIO)
    return replace(found, severity=severity)


def _reports(evidence: Evidence) -> Iterator[tuple[ParsedExchange, ProviderReport]]:
    """Yield the reports of each response. Of several about one cause, only the first is yielded."""
    for parsed in evidence.parsed_exchanges:
        reports = parsed.response.reports if parsed.response is not None else ()
        for report in {(each.effect, each.reason): each for each in reversed(reports)}.values():
            yield parsed, report


def _has_id(block: OpaqueView, item_id: str | None) -> bool:
    return item_id is not None and isinstance(block.raw, dict) and block.raw.get("id") == item_id


def _issuer(evidence: Evidence, parsed: ParsedExchange, report: ProviderReport) -> ParsedExchange | None:
    """Return the exchange whose response contains the reported block."""
    turns = parsed.request.turns if parsed.request is not None else ()
    blocks = (part for turn in turns for part in turn.parts if isinstance(part, OpaqueView))
    block = next((each for each in blocks if each.pointer == report.part or _has_id(each, report.item_id)), None)
    if block is None:
        return None
    for earlier in reversed(evidence.parsed_exchanges[: parsed.index]):
        parts = earlier.response.parts if earlier.response is not None else ()
        if any(isinstance(part, OpaqueView) and _is_same_block(part, block) for part in parts):
            return earlier
    return None


def _is_same_block(issued: OpaqueView, sent: OpaqueView) -> bool:
    """Return whether two blocks have the same id or encrypted state. The client may have changed the rest."""
    if not isinstance(issued.raw, dict) or not isinstance(sent.raw, dict):
        return False
    own = ((issued.raw.get(key), sent.raw.get(key)) for key in ("id", "signature", "data", "encrypted_content"))
    return any(one is not None and equal(one, other) for one, other in own)


def _change_since(evidence: Evidence, issuer: ParsedExchange | None, parsed: ParsedExchange) -> tuple[str, bool]:
    """Return a description of the first change of the prefix since a block was issued, and whether the caller made the
    change. Without an issuer, only the last two requests are compared.
    """
    pairs = {req.parsed.index: (before, req) for before, req in continued_requests(evidence)}
    chain: list[tuple[ClientRequest, ClientRequest]] = []
    at = parsed.index
    while at in pairs and (not chain or (issuer is not None and at > issuer.index)):
        chain.insert(0, pairs[at])
        at = pairs[at][0].parsed.index
    for with_callers in (False, True):
        for before, req in chain:
            for change in changes_between(evidence, before, req, with_callers=with_callers):
                whose = scenario_clause(evidence) if with_callers else ""
                return f"{change_words(change)}{f' at {change.pointer}' if change.pointer else ''}{whose}", with_callers
    return "tools, system prompt and messages are unchanged, as far as they are recorded", False
