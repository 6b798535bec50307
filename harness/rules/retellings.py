"""Retellings: a streamed answer is the same as the whole one, however the network cuts it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from harness.results import Chat, Kind, Retelling
from harness.rules.evidence import Evidence, Reading
from harness.rules.failures import A_DATE_AGO, CUT_ERRORS, same_wait
from harness.rules.outline import Contrast, contrast, of_events, of_response, of_response_in_runs
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject


def _as_whole(chat: Chat, whole: Chat) -> Contrast | None:
    """Where a streamed answer differs from the whole one."""
    if chat.response is None or whole.response is None:
        return Contrast("error", _error(whole), None)
    return contrast(of_response_in_runs(whole.response), of_response_in_runs(chat.response))


def _equals_whole(evidence: Evidence) -> Iterator[Flaw]:
    answered = list(takewhile(lambda chat: chat.response is not None, evidence.transcript.chats))
    for retelling in evidence.transcript.retellings:
        if retelling.variant != "whole":
            continue
        told = zip(answered, retelling.chats, strict=False)
        found = next(((at, each) for at, pair in enumerate(told) if (each := _as_whole(*pair))), None)
        if found is not None:
            yield _different(evidence, found[0], retelling.way, found[1])


def _recut(evidence: Evidence) -> Iterator[Flaw]:
    """The first way that makes a difference; of others there may be many, and they say no more."""
    recuts = [retelling for retelling in evidence.transcript.retellings if retelling.variant == "stream"]
    found = [(each.way, different) for each in recuts if (different := _recut_differently(evidence, each)) is not None]
    if found:
        way, (index, where) = found[0]
        count = f", as {len(found)} of {len(recuts)} ways do" if len(recuts) > 1 else ""
        yield _different(evidence, index, f"in another way ({way}){count}", where)


def _recut_differently(evidence: Evidence, retelling: Retelling) -> tuple[int, Contrast] | None:
    """The first chat that a retelling makes another of, and where they differ."""
    for index, (chat, other) in enumerate(zip(evidence.transcript.chats, retelling.chats, strict=False)):
        exchanges = evidence.exchanges(index)
        broken = bool(exchanges) and _is_broken(exchanges[-1])
        found = _as_failed(chat, other, broken=broken)
        if found is None and not broken:
            found = contrast(of_events(chat.events), of_events(other.events), "events")
        if found is None and chat.response is not None and other.response is not None:
            found = contrast(of_response(chat.response), of_response(other.response))
        if found is not None:
            return index, found
    return None


def _as_failed(chat: Chat, recut: Chat, *, broken: bool) -> Contrast | None:
    """Where the errors of two chats differ. Of a connection that breaks either error can be seen first."""
    if not (broken and {chat.error, recut.error} <= CUT_ERRORS):
        found = contrast({"error": chat.error, "status": chat.status}, {"error": recut.error, "status": recut.status})
        if found is not None:
            return Contrast("error", _error(chat), _error(recut)) if found.path == "error" else found
    if not same_wait(chat.retry_after, recut.retry_after, seconds=A_DATE_AGO):
        return Contrast("retry_after", chat.retry_after, recut.retry_after)
    return None


def _error(chat: Chat) -> str | None:
    """The error of a chat by name and text."""
    return f"{chat.error}: {chat.error_text}" if chat.error and chat.error_text else chat.error


def _is_broken(reading: Reading) -> bool:
    response = reading.exchange.response
    return response is not None and response.delivery.ending != "complete"


def _different(evidence: Evidence, index: int, way: str, found: Contrast) -> Flaw:
    exchanges = evidence.exchanges(index)
    return Flaw(
        f"chat {index} comes out differently when its stream is told {way}: the first difference is at {found.path}",
        exchanges[-1].index if exchanges else None,
        "" if exchanges else None,
        found.other,
        found.one,
    )


RULES = (
    Rule(
        "stream-equals-whole",
        Subject.STREAMING,
        "A streamed answer is the answer that the same body gives whole.",
        "harness.model: Finish",
        _equals_whole,
        kind=Kind.LOSS,
        because="one of the two tellings of an answer is wrong",
    ),
    Rule(
        "stream-recut",
        Subject.STREAMING,
        "Where the network cuts a stream makes no difference.",
        "harness.results: Retelling; wire-facts 0",
        _recut,
        kind=Kind.LOSS,
        because="what the caller gets depends on the network",
    ),
)
