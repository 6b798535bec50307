"""Text report of an audit and its redrive (`harness audit --redrive`). Without `verbose`, it has at most 60 lines, 25
of them for the redrive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from harness.reports.groups import facts, scope
from harness.reports.words import count, list_names, plain, short
from harness.results import (
    AuditResult,
    Finding,
    Outcome,
    PairCounts,
    PairDisagreement,
    RedriveResult,
    RunResult,
    Severity,
)

_MAX_RULES = 12
_MAX_FILES = 3
_MAX_KINDS = 8
_MAX_MESSAGE_CHARACTERS = 160
_MAX_VALUE_CHARACTERS = 120

_TITLES = {
    Outcome.ACCEPTED: "Found in requests that were accepted",
    Outcome.REFUSED: "Found in requests that were refused",
    Outcome.UNDECIDED: "Found in requests that their server did not judge",
}
AUDIT_COLUMNS = ("exchanges", "unread", "accepted", "flagged", "refused", "flagged", "streamed", "broken")


def audit_lines(run: RunResult, audit: AuditResult, *, verbose: bool, quiet: bool = False) -> Iterator[str]:
    """Yield the counts of each API, the findings, the files that were not read, and the verdict.

    `verbose` shows every finding, `quiet` only errors and the verdict.
    """
    yield f"Audit of {count(audit.files, 'cassette')}"
    yield from map(plain, (*facts(run), *scope(run)))
    if not quiet:
        yield from _table(audit)
    yield from _findings(run, verbose=verbose, quiet=quiet)
    if not quiet:
        yield from map(plain, unexplained_lines(audit, None if verbose else _MAX_FILES))
    if audit.redrive is not None and not (quiet and not audit.redrive.disagreements):
        yield from redrive_lines(audit.redrive, verbose=verbose)
    yield from _skipped_lines(audit, verbose=verbose, quiet=quiet)
    yield ""
    yield audit_verdict(audit)


def _table(result: AuditResult) -> Iterator[str]:
    yield ""
    if any(counts.exchanges for counts in result.apis.values()):
        yield f"{'API':<18}" + "".join(f"{head:>11}" for head in AUDIT_COLUMNS)
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
        if found.outcome is not None:  # findings of a redrive have no outcome and are shown in its section
            groups.setdefault((found.outcome, found.severity.value, found.rule), []).append(found)
    ordered = sorted(groups, key=lambda key: (key[0], key[1], -len(groups[key]), key[2]))
    title: Outcome | None = None
    for outcome, severity, rule in ordered if verbose else ordered[:_MAX_RULES]:
        if outcome is not title:
            title = outcome
            yield ""
            yield _TITLES[outcome]
        members = groups[outcome, severity, rule]
        yield f"  {severity}: {rule} ({members[0].kind}), {count(len(members), 'time')}"
        for found in members if verbose else members[:1]:
            yield from _evidence(found, values=verbose)
    if not verbose and len(ordered) > _MAX_RULES:
        yield f"  {len(ordered) - _MAX_RULES} more rules: --verbose shows all findings, --report json:PATH keeps them"


def _evidence(finding: Finding, *, values: bool) -> Iterator[str]:
    at = "" if finding.index is None else f", interaction {finding.index}"
    yield plain(f"    {finding.file}{at} {finding.pointer or ''}".rstrip())
    yield f"      {_cut(finding.message)} [{finding.source}]"
    for name, value in (("actual", finding.actual), ("expected", finding.expected)):
        if values and value is not None:
            yield f"      {name}: {short(value)}"


def unexplained_lines(audit: AuditResult, max_lines: int | None) -> Iterator[str]:
    """Yield at most `max_lines` refused requests in which no rule found anything, with the server's message."""
    if not audit.unexplained:
        return
    yield ""
    yield f"Refused, and no rule explains why: {len(audit.unexplained)}. The server's messages:"
    for each in audit.unexplained[:max_lines]:
        yield f"  {each.file}, interaction {each.index}"
        yield f"    HTTP {each.status}: {_cut(each.words)}"
    left = len(audit.unexplained[max_lines:]) if max_lines is not None else 0
    if left:
        yield f"  {left} more: --verbose shows all of them, --report json:PATH keeps them"


def _skipped_lines(result: AuditResult, *, verbose: bool, quiet: bool) -> Iterator[str]:
    damaged = [skipped for skipped in result.skipped if skipped.damaged]
    others = [skipped.file for skipped in result.skipped if not skipped.damaged]
    if damaged:
        yield ""
        yield f"Not audited, since it cannot be read: {count(len(damaged), 'cassette')}"
        yield from (f"  {plain(each.reason)}" for each in (damaged if verbose else damaged[:_MAX_FILES]))
    if others and not quiet:
        yield ""
        named = plain(list_names(others, len(others) if verbose else _MAX_FILES))
        yield f"Skipped, because it is not a cassette: {count(len(others), 'file')} ({named})"


def audit_verdict(result: AuditResult) -> str:
    """Return the result of an audit as a sentence."""
    counts = result.apis.values()
    audited = sum(each.exchanges for each in counts)
    if not audited:
        return f"NOTHING AUDITED: no exchange is a chat of {', '.join(result.apis)}."
    accepted, refused = sum(each.accepted for each in counts), sum(each.refused for each in counts)
    undecided = audited - accepted - refused
    return (
        f"{sum(each.accepted_flagged for each in counts)} of {accepted} accepted and "
        f"{sum(each.refused_flagged for each in counts)} of {refused} refused requests break a limit."
        + (f" The server of {undecided} did not judge them." if undecided else "")
    )


def _cut(text: str) -> str:
    line = plain(" ".join(text.split()))
    return line if len(line) <= _MAX_MESSAGE_CHARACTERS else f"{line[:_MAX_MESSAGE_CHARACTERS]}..."


def redrive_lines(result: RedriveResult, *, verbose: bool) -> Iterator[str]:
    """Yield the counts of request pairs by API, the allowed differences and the disagreements. `verbose` shows all
    disagreements.
    """
    yield ""
    driven = {api: counts for api, counts in result.apis.items() if counts.pairs}
    if not driven:
        yield "Nothing to drive again: no request sends tool calls of an earlier response back with their results."
        return
    yield f"{'driven again':<18}{'pairs':>11}{'agree':>11}{'disagree':>11}{'not driven':>11}"
    for api, counts in driven.items():
        left = sum(counts.not_redrivable.values())
        values = (counts.pairs, counts.agreeing, counts.pairs - counts.agreeing - left, left)
        reasons = ", ".join(f"{reason}: {number}" for reason, number in counts.not_redrivable.items())
        yield f"{api:<18}" + "".join(f"{value:>11}" for value in values) + (f"   ({reasons})" if reasons else "")
    if streamed := sum(counts.streamed for counts in driven.values()):
        cuts = f" and in {count(result.recuts, 'other chunking')}" if result.recuts else ""
        yield f"{count(streamed, 'streamed response')}: driven as recorded, as a whole body{cuts}."
    yield from _edited_lines(list(driven.values()))
    allowances = sum((Counter(counts.allowances) for counts in driven.values()), Counter[str]())
    if allowances:
        yield "Allowed: " + ", ".join(f"{kind} {number}" for kind, number in allowances.most_common())
    yield from _disagreements(result, verbose=verbose)


def _edited_lines(driven: Sequence[PairCounts]) -> Iterator[str]:
    if edited := sum(counts.edited for counts in driven):
        edits = sum((Counter(counts.edits) for counts in driven), Counter[str]())
        classes = ", ".join(f"{kind} {number}" for kind, number in edits.most_common())
        yield f"{count(edited, 'pair')} edited by the client; only the unedited parts were compared: {classes}"


def _disagreements(result: RedriveResult, *, verbose: bool) -> Iterator[str]:
    groups: dict[str, list[PairDisagreement]] = {}
    for found in result.disagreements:
        groups.setdefault(found.kind, []).append(found)
    ordered = sorted(groups, key=lambda kind: (-len(groups[kind]), kind))
    if ordered:
        yield "Follow-up requests that disagree with the recorded ones"
    for kind in ordered if verbose else ordered[:_MAX_KINDS]:
        first, *others = groups[kind]
        yield f"  {kind}, {count(1 + len(others), 'time')}"
        for found in (first, *others) if verbose else (first,):
            yield plain(f"    {found.file}, response {found.i}, request {found.j} {found.pointer}".rstrip())
            if verbose:
                yield f"      recorded: {short(found.recorded, _MAX_VALUE_CHARACTERS)}"
                yield f"      produced: {short(found.produced, _MAX_VALUE_CHARACTERS)}"
    if not verbose and len(ordered) > _MAX_KINDS:
        yield f"  {len(ordered) - _MAX_KINDS} more kinds: --verbose shows all, --report json:PATH keeps them"
