"""A redrive put into words: at most 25 lines, unless everything is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from harness.reports._words import count, plain, short
from harness.results import PairCounts, PairDisagreement, RedriveResult

_KINDS = 8
"""As many kinds of disagreement are shown."""
_LENGTH = 120


def redrive_lines(result: RedriveResult, *, verbose: bool) -> Iterator[str]:
    """The pairs of each API, what was allowed, what disagrees. `verbose`: every disagreement."""
    yield ""
    driven = {api: counts for api, counts in result.apis.items() if counts.pairs}
    if not driven:
        yield "Nothing to drive again: no request carries back the tool calls of a response with their results."
        return
    yield f"{'driven again':<18}{'pairs':>11}{'agree':>11}{'disagree':>11}{'not driven':>11}"
    for api, counts in driven.items():
        left = sum(counts.not_redrivable.values())
        values = (counts.pairs, counts.agreeing, counts.pairs - counts.agreeing - left, left)
        reasons = ", ".join(f"{reason}: {number}" for reason, number in counts.not_redrivable.items())
        yield f"{api:<18}" + "".join(f"{value:>11}" for value in values) + (f"   ({reasons})" if reasons else "")
    if streamed := sum(counts.streamed for counts in driven.values()):
        cuts = f" and in {count(result.recuts, 'other cut')}" if result.recuts else ""
        yield f"{count(streamed, 'response')} came as a stream: driven as recorded, as a whole{cuts}."
    yield from _edited(list(driven.values()))
    allowances = sum((Counter(counts.allowances) for counts in driven.values()), Counter[str]())
    if allowances:
        yield "Allowed: " + ", ".join(f"{kind} {number}" for kind, number in allowances.most_common())
    yield from _disagreements(result, verbose=verbose)


def _edited(driven: Sequence[PairCounts]) -> Iterator[str]:
    """What clients made of answers before they sent them back, which is nobody's fault here."""
    if edited := sum(counts.edited for counts in driven):
        edits = sum((Counter(counts.edits) for counts in driven), Counter[str]())
        classes = ", ".join(f"{kind} {number}" for kind, number in edits.most_common())
        yield f"{count(edited, 'pair')} edited by its client, judged on what it did carry: {classes}"


def _disagreements(result: RedriveResult, *, verbose: bool) -> Iterator[str]:
    groups: dict[str, list[PairDisagreement]] = {}
    for found in result.disagreements:
        groups.setdefault(found.kind, []).append(found)
    ordered = sorted(groups, key=lambda kind: (-len(groups[kind]), kind))
    if ordered:
        yield "Follow-ups that disagree with the recorded ones"
    for kind in ordered if verbose else ordered[:_KINDS]:
        first, *others = groups[kind]
        yield f"  {kind}, {count(1 + len(others), 'time')}"
        for found in (first, *others) if verbose else (first,):
            yield plain(f"    {found.file}, response {found.i}, request {found.j} {found.pointer}".rstrip())
            if verbose:
                yield f"      recorded: {short(found.recorded, _LENGTH)}"
                yield f"      produced: {short(found.produced, _LENGTH)}"
    if not verbose and len(ordered) > _KINDS:
        yield f"  {len(ordered) - _KINDS} more kinds: --verbose shows all, --report json:PATH keeps them"
