"""What is said of a test that was played from its tape: what differs, what is wrong, what to do."""

from __future__ import annotations

from collections.abc import Sequence

from harness.reports._words import count, place, plain_line, short
from harness.results import Finding
from harness.tape.compare import RequestDifference
from harness.tape.deck.playing import Played
from harness.tape.deck.taken import told

_MOST = 10
"""Differences that are shown of a request."""


def differing(number: int, played: Played) -> str:
    """What differs in a request from the recorded one."""
    found = [each for each in played.differences if each.neutral]
    lines = [
        f"request {number}, {told(played.request)}, is not the recorded one (interaction {played.index}):",
        *(line for each in found[:_MOST] for line in _difference(each)),
    ]
    if len(found) > _MOST:
        lines.append(f"  and {len(found) - _MOST} more")
    return _joined(lines)


def spelled(number: int, played: Played) -> str:
    """What differs in a request that is read as the recorded one."""
    said = "; ".join(each.message for each in played.differences[:_MOST])
    return _joined([f"request {number}, {told(played.request)}: means what was recorded, but {said}"])


def unrecorded(number: int, played: Played, total: int) -> str:
    """That nothing is left to answer a request with."""
    left = f"none of the {count(total, 'recorded exchange')} is left for it" if total else "nothing was recorded"
    return _joined([f"request {number}, {told(played.request)}, was not recorded: {left}"])


def unused(index: int, request: str) -> str:
    """That a recorded exchange did not happen."""
    return _joined([f"interaction {index}, {request}, was not asked for"])


def finding(each: Finding) -> str:
    """What the witness has found."""
    lines = [f"{each.rule} ({each.kind}, {each.severity}): {each.message}"]
    if where := place(each):
        lines.append(f"  at:       {where}")
    if each.actual is not None or each.expected is not None:
        lines += [f"  actual:   {short(each.actual)}", f"  expected: {short(each.expected)}"]
    lines += [f"    {line}" for line in each.piece]
    lines.append(f"  more:     harness explain {each.rule}")
    return _joined(lines)


def _difference(each: RequestDifference) -> Sequence[str]:
    return [f"  {each.pointer or 'request'}", f"    {each.message}"] if each.pointer else [f"    {each.message}"]


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(plain_line(line) for line in lines)
