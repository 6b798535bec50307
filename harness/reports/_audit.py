"""An audit put into words: at most 60 lines, unless everything is asked for."""

from __future__ import annotations

from collections.abc import Iterator

from harness.reports._groups import facts, scope
from harness.reports._redrive import redrive_lines
from harness.reports._words import count, listed, plain, short
from harness.results import Audited, Finding, Outcome, RunResult, Severity

_RULES = 12
_FILES = 3
"""As many rules, and files that were refused or not read, are shown: the whole stays within 60 lines."""
_LENGTH = 160

_TITLES = {
    Outcome.ACCEPTED: "Found in requests that were accepted",
    Outcome.REFUSED: "Found in requests that were refused",
    Outcome.UNDECIDED: "Found in requests that their server did not judge",
}


def lines(run: RunResult, audit: Audited, *, verbose: bool, quiet: bool = False) -> Iterator[str]:
    """The counts of each API, what was found, what was not read, the verdict. `verbose`: every finding; `quiet`: only
    what fails, and the verdict."""
    yield f"Audit of {count(audit.files, 'cassette')}"
    yield from map(plain, (*facts(run), *scope(run)))
    if not quiet:
        yield from _table(audit)
    yield from _findings(run, verbose=verbose, quiet=quiet)
    if not quiet:
        yield from map(plain, unexplained(audit, None if verbose else _FILES))
    if audit.redrive is not None and not (quiet and not audit.redrive.disagreements):
        yield from redrive_lines(audit.redrive, verbose=verbose)
    yield from _skipped(audit, verbose=verbose, quiet=quiet)
    yield ""
    yield verdict(audit)


def _table(result: Audited) -> Iterator[str]:
    yield ""
    if any(counts.exchanges for counts in result.apis.values()):
        heads = ("exchanges", "unread", "accepted", "flagged", "refused", "flagged", "streamed", "broken")
        yield f"{'API':<18}" + "".join(f"{head:>11}" for head in heads)
    for api, counts in result.apis.items():
        accepted = (counts.accepted, counts.accepted_flagged)
        refused, streamed = (counts.refused, counts.refused_flagged), (counts.streamed, counts.streamed_broken)
        values = (counts.exchanges, counts.unread, *accepted, *refused, *streamed)
        if counts.exchanges:
            yield f"{api:<18}" + "".join(f"{value:>11}" for value in values)
    if result.unknown:
        yield f"{'unknown':<18}{result.unknown:>11}   no chat of these APIs: not audited"


def _findings(run: RunResult, *, verbose: bool, quiet: bool) -> Iterator[str]:
    groups: dict[tuple[Outcome, str, str], list[Finding]] = {}
    for found in (finding for cell in run.cells for finding in cell.findings):
        if quiet and found.severity is not Severity.ERROR:
            continue
        if found.outcome is not None:  # what a redrive has found has none, and is told with it
            groups.setdefault((found.outcome, found.severity.value, found.rule), []).append(found)
    ordered = sorted(groups, key=lambda key: (key[0], key[1], -len(groups[key]), key[2]))
    title: Outcome | None = None
    for outcome, severity, rule in ordered if verbose else ordered[:_RULES]:
        if outcome is not title:
            title = outcome
            yield ""
            yield _TITLES[outcome]
        members = groups[outcome, severity, rule]
        yield f"  {severity}: {rule} ({members[0].kind}), {count(len(members), 'time')}"
        for found in members if verbose else members[:1]:
            yield from _evidence(found, values=verbose)
    if not verbose and len(ordered) > _RULES:
        yield f"  {len(ordered) - _RULES} more rules: --verbose shows all findings, --report json:PATH keeps them"


def _evidence(finding: Finding, *, values: bool) -> Iterator[str]:
    at = "" if finding.index is None else f", interaction {finding.index}"
    yield plain(f"    {finding.file}{at} {finding.pointer or ''}".rstrip())
    yield f"      {_cut(finding.message)} [{finding.source}]"
    for name, value in (("actual", finding.actual), ("expected", finding.expected)):
        if values and value is not None:
            yield f"      {name}: {short(value)}"


def unexplained(audit: Audited, most: int | None) -> Iterator[str]:
    """The refusals for which no rule gives a reason, in the words of their servers; at most so many of them."""
    if not audit.unexplained:
        return
    yield ""
    yield f"Refused, and no rule says why: {len(audit.unexplained)}. What the server answered:"
    for each in audit.unexplained[:most]:
        yield f"  {each.file}, interaction {each.index}"
        yield f"    HTTP {each.status}: {_cut(each.words)}"
    left = len(audit.unexplained[most:]) if most is not None else 0
    if left:
        yield f"  {left} more: --verbose shows all of them, --report json:PATH keeps them"


def _skipped(result: Audited, *, verbose: bool, quiet: bool) -> Iterator[str]:
    damaged = [skipped for skipped in result.skipped if skipped.damaged]
    others = [skipped.file for skipped in result.skipped if not skipped.damaged]
    if damaged:
        yield ""
        yield f"Not audited, since it cannot be read: {count(len(damaged), 'cassette')}"
        yield from (f"  {plain(each.reason)}" for each in (damaged if verbose else damaged[:_FILES]))
    if others and not quiet:
        yield ""
        named = plain(listed(others, len(others) if verbose else _FILES))
        yield f"Skipped, being no cassette: {count(len(others), 'file')} ({named})"


def verdict(result: Audited) -> str:
    """The sentence that an audit comes to."""
    counts = result.apis.values()
    audited = sum(each.exchanges for each in counts)
    if not audited:
        return f"NOTHING AUDITED: no exchange is a chat of {', '.join(result.apis)}."
    accepted, refused = sum(each.accepted for each in counts), sum(each.refused for each in counts)
    undecided = audited - accepted - refused
    return (
        f"{sum(each.accepted_flagged for each in counts)} of {accepted} accepted and "
        f"{sum(each.refused_flagged for each in counts)} of {refused} refused requests break a limit."
        + (f" {undecided} got no verdict of their server." if undecided else "")
    )


def _cut(text: str) -> str:
    line = plain(" ".join(text.split()))
    return line if len(line) <= _LENGTH else f"{line[:_LENGTH]}..."
