"""Rules about a provider's statements in a response about the request: reasoning that was dropped, and prompts that
were not read from the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from harness.apis.jsonvalue import equal, resolve
from harness.apis.response_rules import Subject
from harness.apis.view import OpaqueView, ProviderReport
from harness.results import Blame, Kind, Severity
from harness.rules.evidence import ClientRequest, Evidence, ParsedExchange, RuleViolation
from harness.rules.rule import RuleTable
from harness.rules.unchanged_prefix import as_the_scenario_asks, change_words, changes_between, continued_requests

RULES = RuleTable(Subject.HISTORY)

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
    for reading, report in _reports(evidence):
        if report.effect == "cache-missed":
            continue
        dropped = report.effect == "dropped"
        done = "was withheld from the model" if dropped else "failed a check, but was still passed to the model"
        message = f"the provider reports that reasoning of the request {done}: {report.reason}"
        chosen = dropped and _is_chosen_by_client(evidence, reading)
        message += ", as the request asks" if chosen else ""
        severity = None if dropped and not chosen else Severity.WARNING
        if report.reason.startswith("prefix"):
            change, is_callers = _change_since(evidence, _issuer(evidence, reading, report), reading)
            yield _violation(reading, report, f"{message}; {change}", severity, is_callers)
        else:
            yield replace(_violation(reading, report, message, Severity.WARNING), remedy=_BINDING_REMEDY)


@RULES.add(
    "cache-missed",
    "If the request asks the provider about its prompt cache, the provider reports no miss.",
    kind=Kind.CONVENTION,
    source="anthropic-cache-diagnostics, openai-responses-cache-diagnostics",
    because="the provider reads and bills the whole prompt again; the answer is the same",
    remedy=_PREFIX_REMEDY,
)
def _missed_cache(evidence: Evidence) -> Iterator[RuleViolation]:
    for reading, report in _reports(evidence):
        if report.effect == "cache-missed":
            tokens = "" if report.tokens is None else f", about {report.tokens} tokens"
            message = f"the provider reports that its prompt cache could not be used: {report.reason}{tokens}"
            change, is_callers = _change_since(evidence, None, reading)
            yield _violation(reading, report, f"{message}; {change}", None, is_callers)


def _is_chosen_by_client(evidence: Evidence, reading: ParsedExchange) -> bool:
    """Return whether the request asks the provider to drop reasoning, and not because the adapter decided so."""
    asked = reading.request.prefix_mismatch if reading.request else None
    if asked is None or asked.treatment != "drops-reasoning":
        return False
    chats = [req for req in evidence.chat_exchanges if req.reading.index == reading.index]
    return not evidence.transcript.chats or any(req.is_verbatim(asked.pointer) for req in chats)


def _violation(
    reading: ParsedExchange,
    report: ProviderReport,
    message: str,
    severity: Severity | None,
    is_callers: bool = False,
) -> RuleViolation:
    """Return a violation whose evidence is the provider's statement. A change that the caller made is a note."""
    body = None if reading.response is None else reading.response.body
    found = reading.response_violation(message, report.pointer, resolve(body, report.pointer), case=report.reason)
    if is_callers:
        return replace(found, severity=Severity.NOTE, blame=Blame.SCENARIO)
    return replace(found, severity=severity)


def _reports(evidence: Evidence) -> Iterator[tuple[ParsedExchange, ProviderReport]]:
    """Yield the reports of each response. Of several about one cause, only the first is yielded."""
    for reading in evidence.readings:
        reports = reading.response.reports if reading.response is not None else ()
        for report in {(each.effect, each.reason): each for each in reversed(reports)}.values():
            yield reading, report


def _has_id(block: OpaqueView, item_id: str | None) -> bool:
    return item_id is not None and isinstance(block.raw, dict) and block.raw.get("id") == item_id


def _issuer(evidence: Evidence, reading: ParsedExchange, report: ProviderReport) -> ParsedExchange | None:
    """Return the exchange whose response contains the reported block."""
    turns = reading.request.turns if reading.request is not None else ()
    blocks = (part for turn in turns for part in turn.parts if isinstance(part, OpaqueView))
    block = next((each for each in blocks if each.pointer == report.part or _has_id(each, report.item_id)), None)
    if block is None:
        return None
    for earlier in reversed(evidence.readings[: reading.index]):
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


def _change_since(evidence: Evidence, issuer: ParsedExchange | None, reading: ParsedExchange) -> tuple[str, bool]:
    """Return a description of the first change of the prefix since a block was issued, and whether the caller made the
    change. Without an issuer, only the last two requests are compared.
    """
    pairs = {req.reading.index: (before, req) for before, req in continued_requests(evidence)}
    chain: list[tuple[ClientRequest, ClientRequest]] = []
    at = reading.index
    while at in pairs and (not chain or (issuer is not None and at > issuer.index)):
        chain.insert(0, pairs[at])
        at = pairs[at][0].reading.index
    for with_callers in (False, True):
        for before, req in chain:
            for change in changes_between(evidence, before, req, with_callers=with_callers):
                whose = as_the_scenario_asks(evidence) if with_callers else ""
                return f"{change_words(change)}{f' at {change.pointer}' if change.pointer else ''}{whose}", with_callers
    return "tools, system prompt and messages are unchanged, as far as they are recorded", False
