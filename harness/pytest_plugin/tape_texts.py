"""Messages about a test with a tape: differences, findings and advice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.cassettes.compare import RequestDifference
from harness.cassettes.tape_recorder import TapeExchange, told
from harness.model.http import HttpRequest
from harness.reports.words import count, place, plain_line, values
from harness.results import Finding

_MOST = 10
"""Maximum number of differences shown for a request."""


@dataclass(frozen=True, slots=True)
class TapeProblem:
    """A problem that fails a test.

    `headline` describes it in one line, which pytest's summary shows. `rule` is the broken rule or limit, if any.
    """

    headline: str
    text: str
    rule: str | None = None


def differing(exchanges: Sequence[TapeExchange], numbers: Sequence[int]) -> Iterator[TapeProblem]:
    """Yield a problem for each request that differs from the recorded one. Repeated differences are only described
    once.
    """
    said: dict[tuple[str, ...], int] = {}
    for at in numbers:
        played = exchanges[at]
        found = tuple(each.message for each in played.differences if each.neutral)
        if not found:
            continue
        head = f"request {at + 1}, {told(played.request)}, is not the recorded one (interaction {played.index})"
        headline = f"request {at + 1}: {_changed(played.differences)}"
        if found in said:
            yield TapeProblem(headline, _joined([f"{head}: as request {said[found] + 1}"]))
            continue
        said[found] = at
        shown = [each for each in played.differences if each.neutral][:_MOST]
        more = [f"  and {len(found) - _MOST} more"] if len(found) > _MOST else []
        yield TapeProblem(
            headline, _joined([f"{head}:", *(line for each in shown for line in _difference(each)), *more])
        )


def spelled(number: int, played: TapeExchange) -> str:
    """Describe how a request is spelled differently, although it has the recorded meaning."""
    said = "; ".join(each.message for each in played.differences[:_MOST])
    return _joined([f"request {number}, {told(played.request)}: means what was recorded, but {said}"])


def unrecorded(number: int, played: TapeExchange, total: int) -> TapeProblem:
    """Describe a request for which the cassette has no response left."""
    left = f": the cassette ({count(total, 'exchange')}) has none left for it" if total else ""
    headline = f"request {number}, {told(played.request)}, was not recorded"
    return TapeProblem(headline, _joined([f"{headline}{left}"]))


def unused(index: int, request: HttpRequest) -> TapeProblem:
    """Describe a recorded exchange whose request the test did not send."""
    headline = f"interaction {index}, {told(request)}, was not requested"
    return TapeProblem(headline, _joined([headline]))


def finding(each: Finding) -> str:
    """Describe a finding."""
    lines = [f"{each.rule} ({each.kind}, {each.severity}): {each.message}"]
    if where := place(each):
        lines.append(f"  at:       {where}")
    lines += [f"  {f'{name}:':<9} {value}" for name, value in values(each)]
    lines += [f"    {line}" for line in each.piece]
    lines += [f"  to do:    {each.remedy}"] if each.remedy else []
    lines.append(f"  more:     harness explain {each.rule}")
    return _joined(lines)


_PLACES = (
    (r"system\b", "the system prompt"),
    (r"turns\[\d+\]\.parts\[\d+\]\.payload", "a tool result"),
    (r"turns\[\d+\]\.parts\[\d+\]\.arguments", "the arguments of a call"),
    (r"turns\[\d+\]\.parts\[\d+\]\.text", "a text of the conversation"),
    (r"turns\b", "the conversation"),
    (r"tools\b", "a tool"),
    (r"model\b", "the model"),
    (r"settings\.(\w+)", r"the setting \1"),
)
"""Patterns for paths in the neutral view of a request, each with a readable name."""


def _changed(differences: Sequence[RequestDifference]) -> str:
    """Describe the first difference that fails the test. Use the readable name of its path if `_PLACES` has one."""
    first = next(each for each in differences if each.neutral)
    for pattern, words in _PLACES:
        match = re.match(pattern, first.place)
        if match is not None:
            said = first.message.removeprefix(first.place).removeprefix("system prompt").lstrip(":, ")
            return f"{match.expand(words)} has changed: {said}"
    return first.message


def _difference(each: RequestDifference) -> Sequence[str]:
    return [f"  {each.pointer or 'request'}", f"    {each.message}"] if each.pointer else [f"    {each.message}"]


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(plain_line(line) for line in lines)
