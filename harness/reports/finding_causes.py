"""Grouping of a run's findings into causes.

A cause has the findings of one rule and case at one place in a body. Causes that differ only in their API are joined.
Findings that follow from others are left out.

The report `worst` shows the three worst causes in at most 25 lines, for `harness try`.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from typing import TypeAlias

from rich.console import RenderableType
from rich.text import Text

from harness.reports import groups, words
from harness.reports.groups import CellPlace, count_cells, group_by, places_of
from harness.reports.page import Page, hanging, heading
from harness.reports.words import count, list_names
from harness.results import Blame, CellResult, Finding, Kind, Presentation, Report, RunResult, Severity, Subject

_FREE_KEYS = frozenset(
    {"parameters", "parametersJsonSchema", "input_schema", "schema", "responseJsonSchema", "args", "input"}
)
"""Keys whose content is chosen by the scenario. Differences below them do not count as different places."""

_VARIABLE = re.compile(r"'[^']*'|\"[^\"]*\"|\([^()]*\)|\b\w*\d\w*\b")
"""Parts of a message that are specific to one call, value or request."""
_MAX_FOLLOWERS = 5

_Location: TypeAlias = tuple[tuple[str, str], ...]
"""Pairs of an API and a location in its request or response bodies."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A defect with all cells that show it.

    `at` is the place in the bodies of each API, without indices. `alone` counts the cells that fail for no other
    reason. `followers` counts findings that follow from the defect, by rule.
    """

    rule: str
    kind: Kind
    severity: Severity
    blame: Blame
    source: str
    at: _Location
    places: tuple[CellPlace, ...]
    alone: int
    followers: tuple[tuple[str, int], ...] = ()
    remedy: str = ""

    @property
    def message(self) -> str:
        """The message of the first finding."""
        return self.places[0].findings[0].message

    @property
    def cells(self) -> int:
        """The number of cells that show the defect."""
        return count_cells(self.places)

    @property
    def extent(self) -> str:
        """The number of affected cells: `5 cells; 3 fail only for this`."""
        cells, number = count(self.cells, "cell"), self.cells
        if self.severity is not Severity.ERROR:
            return cells
        if number == self.alone:
            return f"{cells}, which fail{'s' if number == 1 else ''} only for this"
        return f"{cells}; {self.alone or 'none'} fail{'' if self.alone > 1 else 's'} only for this"

    @property
    def location(self) -> str:
        """The APIs, each with the place in its bodies."""
        return ", ".join(f"{api} {place}".strip() for api, place in self.at)

    @property
    def following(self) -> str:
        """A summary of the findings that follow from the defect, such as `and 2 that follow from it: exchange-unplayed,
        chat-refused`. It is empty if there are none.
        """
        if not self.followers:
            return ""
        total = sum(number for _, number in self.followers)
        names = [f"{rule} ({number})" if number > 1 else rule for rule, number in self.followers]
        return f"and {total} that {'follow' if total > 1 else 'follows'} from it: {list_names(names, _MAX_FOLLOWERS)}"


_Key: TypeAlias = tuple[str, Kind, Severity, Blame, str | None, str, str]
"""Common properties of the findings of one cause. The last two are the API and the place."""


@dataclass(frozen=True, slots=True)
class _Occurrence:
    """Finding in a cell. `is_alone` is set if the cell fails for no other reason."""

    cell: CellResult
    finding: Finding
    followers: tuple[str, ...]
    is_alone: bool


def general_pointer(finding: Finding) -> str:
    """Return the pointer of a finding with `*` for each index: `/messages/*/content/*/id`. An empty string means the
    whole body.
    """
    steps: list[str] = []
    for step in (finding.pointer or "").split("/")[1:]:
        steps.append("*" if step.isdigit() else step)
        if len(steps) > 1 and step in _FREE_KEYS:
            break
    return "".join(f"/{step}" for step in steps)


def causes(run: RunResult, severity: Severity) -> list[Cause]:
    """Return the causes of one severity, without findings that are expected failures. The sort key is the number of
    cells that fail only because of the cause, then the number of cells that show it. The largest comes first.
    """
    found: dict[_Key, list[_Occurrence]] = {}
    for cell in run.cells:
        keys = {
            index: _key(cell, finding)
            for index, finding in enumerate(cell.findings)
            if finding.severity is severity and finding.accepted is None and finding.follows is None
        }
        is_alone = len(set(keys.values())) == 1  # joined causes are from different APIs, so they never share a cell
        for index, key in keys.items():
            followers = _followers(cell.findings, index)
            found.setdefault(key, []).append(_Occurrence(cell, cell.findings[index], followers, is_alone))
    made = [_cause(run, at, members) for at, members in _join(list(found.items()))]
    return sorted(made, key=lambda cause: (-cause.alone, -cause.cells))


def _key(cell: CellResult, finding: Finding) -> _Key:
    what = finding.rule, finding.kind, finding.severity, finding.blame, finding.case or finding.raised
    return *what, cell.api, general_pointer(finding)


def _followers(findings: Sequence[Finding], index: int) -> tuple[str, ...]:
    rule = findings[index].rule
    return tuple(each.rule for each in findings if each.follows == index and each.rule != rule)


def _join(parts: Sequence[tuple[_Key, list[_Occurrence]]]) -> Iterator[tuple[_Location, list[_Occurrence]]]:
    """Join causes that differ only in their API."""
    for _, alike in group_by(parts, lambda part: (part[0][:5], part[1][0].finding.source, _common_text(part[1][0]))):
        at = tuple((api, place) for (*_, api, place), _ in alike)
        if len({api for api, _ in at}) == len(at):
            yield at, [each for _, members in alike for each in members]
        else:
            yield from (((each,), members) for each, (_, members) in zip(at, alike, strict=True))


def _common_text(found: _Occurrence) -> str:
    """Return the message without the parts specific to one call or value, so that causes of several APIs can be joined.
    For a limit, prepend the API and the location, so that limits are never joined.
    """
    finding = found.finding
    text = _VARIABLE.sub("", finding.message)
    return text if finding.kind is not Kind.LIMIT else f"{found.cell.api} {general_pointer(finding)} {text}"


def _cause(run: RunResult, at: _Location, found: Sequence[_Occurrence]) -> Cause:
    first = found[0].finding
    by_cell = list(_by_cell(found))
    places = ((own[0].cell, tuple(each.finding for each in own)) for own in by_cell)
    return Cause(
        first.rule,
        first.kind,
        first.severity,
        first.blame,
        first.source,
        at,
        places_of(run, places, both=" [whole and stream]"),
        sum(own[0].is_alone for own in by_cell),
        tuple(Counter(rule for each in found for rule in each.followers).most_common()),
        _remedy(found),
    )


def _remedy(found: Sequence[_Occurrence]) -> str:
    by_api = {each.cell.api: each.finding.remedy for each in reversed(found) if each.finding.remedy}
    if len({*by_api.values()}) == 1:
        return next(iter(by_api.values()))
    return "; ".join(f"{api}: {remedy}" for api, remedy in sorted(by_api.items()))


def _by_cell(found: Iterable[_Occurrence]) -> Iterator[list[_Occurrence]]:
    """Group findings by cell. The findings of a cell are adjacent, because a cell has one API and a cause has only one
    location per API.
    """
    return ([*members] for _, members in groupby(found, lambda each: id(each.cell)))


MAX_CAUSES = 3
_MAX_LINES = 21
_LABEL_WIDTH = 9


def render(run: RunResult, presentation: Presentation) -> str:
    """Return the verdict and the worst causes.

    Each cause has the wrong and the right value, a remedy, and a command that shows or reproduces a cell.
    """
    page = Page(presentation)
    lines: list[str] = []
    # Spend the space on the other causes first, then on second lines of messages and remedies, then on blank lines.
    for is_spaced, wrapped, max_listed in (
        (True, 2, 4),
        (False, 2, 4),
        (False, 2, 1),
        (True, 2, 0),
        (False, 2, 0),
        (True, 1, 0),
    ):
        lines = [line for part in _parts(run, is_spaced, max_listed) for line in _render(page, part, wrapped)]
        if len(lines) <= _MAX_LINES:
            break
    return "\n".join(lines) + "\n"


def _render(page: Page, part: RenderableType, wrapped: int) -> list[str]:
    """Return the lines of a part. A command stays on one line, so that it can be copied."""
    if isinstance(part, str):
        return [part]
    if isinstance(part, Text):
        part.truncate(page.width, overflow="ellipsis")
    lines = page.lines([part])
    return [*lines[: wrapped - 1], f"{lines[wrapped - 1][: page.width - 2]} …"] if len(lines) > wrapped else lines


def _parts(run: RunResult, is_spaced: bool, max_listed: int) -> Iterator[RenderableType]:
    """Yield the parts of the report. At most `max_listed` further causes have a line of their own."""
    word, totals = words.verdict(run)
    yield heading(f"{word}  {totals}")
    found = by_rule(run)
    for number, same in enumerate(found[:MAX_CAUSES], 1):
        yield from [""] if is_spaced or number == 1 else []
        yield from _numbered_lines(run, number, same)
    broken = groups.broken_cells(run)
    for reason, places in broken[: max(MAX_CAUSES - len(found), 0)]:
        yield ""
        cells = words.count(count_cells(places), "cell")
        yield _cut(f"error in {cells}: {reason or 'no reason is known'}", "bold")
        show = groups.show_command(run, places[0].cells[0])
        yield _command("see", groups.rerun_command(run, places[0]) if _is_trial(run) else show)
    yield ""
    others = found[MAX_CAUSES:]
    for number, same in enumerate(others[:max_listed], MAX_CAUSES + 1):
        yield _cut(f"{number}  {_message(run, same[0])} ({same[0].rule})")
    if others[max_listed:]:
        more = ", ".join(same[0].rule for same in others[max_listed:])
        yield _cut(f"and {words.count(len(others[max_listed:]), 'more cause')}: {more}")
    elif not found and not broken:
        yield heading("Nothing is wrong in the cells that were run.")


def by_rule(run: RunResult) -> list[list[Cause]]:
    """Return the causes grouped by rule, so that each rule takes only one of the entries shown. Errors come before
    warnings, and causes in many cells before those in few. Rules that report the same defect share a group.

    A cause with another case than the first cause of its rule, such as another setting, is in a separate group. These
    groups follow the groups of all rules, except those that `_is_last` shows last.
    """
    rules: dict[str, list[Cause]] = {}
    cases: dict[tuple[str, str | None], list[Cause]] = {}
    repeated: list[list[Cause]] = []  # in recuts, although whole answers show the defect, too
    errors, warnings = (sorted(causes(run, each), key=_place) for each in (Severity.ERROR, Severity.WARNING))
    found = [*errors, *warnings]
    for each in sorted(found, key=lambda each: _is_last(each) or _may_follow(each, found)):
        if each.rule == "stream-recut" and _same_text_rule(each) in rules:
            repeated.append([each])
            continue
        same = rules.setdefault(_RULES_OF_ONE_DEFECT.get(each.rule, each.rule), [])
        same = same if not same or _case(same[0]) == _case(each) else cases.setdefault((each.rule, _case(each)), [])
        same.append(each)
    for same in rules.values():
        same.sort(key=lambda each: each.rule in _RULES_OF_ONE_DEFECT)
    groups_shown = sorted([*rules.values(), *cases.values()], key=lambda same: all(map(_is_last, same)))
    return [*groups_shown, *repeated]


_RULES_OF_ONE_DEFECT = {"arguments-no-object": "arguments-changed", "openai-chat-arguments-json": "arguments-changed"}
"""Rules that report changed arguments in requests whose calls are not compared."""


def _place(cause: Cause) -> tuple[int, int]:
    """Return the sort key of a cause. A server's response rule is one cell, and its message counts the other responses
    that break it.
    """
    more = _SIMILAR_COUNT.search(cause.message)
    return -cause.cells - (int(more[1]) if more else 0), -cause.alone


_SIMILAR_COUNT = re.compile(r"and (\d+) more like it\)$")


def _same_text_rule(cause: Cause) -> str:
    """Return the rule that would report a recut's difference in whole answers: `response-text` or `response-calls`.
    Return an empty string if both the text and the calls differ.
    """
    differing = cause.places[0].findings[0].actual
    names = "".join(differing) if isinstance(differing, dict) else ""
    return "" if "text" in names and "call" in names else "response-text" if "text" in names else "response-calls"


def _case(cause: Cause) -> str | None:
    return cause.places[0].findings[0].case


_RULES_SHOWN_LAST = ("usage", "usage-offered", "loop-usage", "stream-equals-whole", "response-refusal")
"""Rules whose causes are shown last. Wrong token counts harm the least. If two results differ, another rule usually
names the defect. Refusals are rare.
"""


def _is_last(cause: Cause) -> bool:
    """Return whether a cause is shown last. Its rule is in `_RULES_SHOWN_LAST`, or it is a refusal's stop reason or an
    answer that is no answer of the API.
    """
    cells = (cell for place in cause.places for cell in place.cells)
    is_refusal = all(any(each.rule == "response-refusal" for each in cell.findings) for cell in cells)
    is_refusal = is_refusal or (_case(cause) or "").startswith("refusal:")
    is_page = (_case(cause) or "").startswith("unreadable:")  # of a proxy, in place of an answer
    is_rare = cause.rule in _RULES_SHOWN_LAST or is_page
    return is_rare or (cause.rule == "stop-reason" and is_refusal)


_SUBJECTS_OF_RESULTS = (Subject.STREAMING, Subject.RESPONSES, Subject.ERRORS)
"""Subjects whose findings are about what an adapter returns or raises, unless they have a pointer into a request."""


def _may_follow(cause: Cause, others: Sequence[Cause]) -> bool:
    """Return whether a cause probably follows from another one, which its own cells cannot show, because a request was
    refused. In at least as many other cells, its rule follows from that cause.
    """
    cells = [cell for place in cause.places for cell in place.cells]
    follows = any(cause.rule in dict(each.followers) and each.cells >= cause.cells for each in others)
    return follows and all(_has_refusal(cell) for cell in cells)


def _has_refusal(cell: CellResult) -> bool:
    return any(each.kind is Kind.LIMIT and each.severity is Severity.ERROR for each in cell.findings)


def _numbered_lines(run: RunResult, number: int, same: list[Cause]) -> Iterator[RenderableType]:
    cause = same[0]
    place, finding = cause.places[0], cause.places[0].findings[0]
    cells = words.count(groups.count_cells([place for each in same for place in each.places]), "cell")
    title = Text(words.plain_line(f"{_message(run, cause)} ({cause.rule}, {cells})"), style="bold")
    yield hanging(Text(str(number), style="bold"), title, width=1, by=0)
    values = dict(words.values(with_one_value(finding)))
    if "actual" in values and "expected" in values:
        values["actual"], values["expected"] = _without_shared_start(values["actual"], values["expected"])
    side = side_of(finding) if "actual" in values else "at"
    shown = "  ".join(part for part in (words.place(finding), values.get("actual", "")) if part)
    yield from [_cut(f"   {side:{_LABEL_WIDTH}}{shown}")] if shown else []
    if "expected" in values:
        yield _cut(f"   {'right':{_LABEL_WIDTH}}{values['expected']}")
    remedy = words.what_to_do(cause)
    if _is_trial(run) and cause.blame in (Blame.ADAPTER, Blame.CLIENT):
        remedy = next((plain for pattern, plain in _PLAIN_REMEDIES if re.search(pattern, remedy)), remedy)
    yield hanging("do", remedy.replace("the adapter", "the client"), width=_LABEL_WIDTH - 2, by=3)
    if command := _command_for(run, cause.rule, place.cells[0]):
        yield _command("see", command)


def _without_shared_start(actual: str, expected: str) -> tuple[str, str]:
    """Return two texts without the beginning that they share, if it is so long that the line may end before they
    differ.
    """
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(actual, expected, strict=False)))
    start = shared - _SHARED_CHARACTERS
    return (actual, expected) if start <= _SHARED_CHARACTERS else (f"…{actual[start:]}", f"…{expected[start:]}")


_SHARED_CHARACTERS = 20
"""Number of shared characters that are shown before a difference."""


def _message(run: RunResult, cause: Cause) -> str:
    """Return the message of a cause. If the run suggests `harness reproduce` for its cells, the message calls the
    adapter a client.
    """
    return cause.message.replace("the adapter", "the client") if _is_trial(run) else cause.message


def _is_trial(run: RunResult) -> bool:
    return run.invocation.show[1:2] == ("reproduce",)


_PLAIN_REMEDIES = (
    (r"`Refusal` part", "Return the text of the refusal, as text or in a field of its own."),
    (r"`StopReason`", "Return the stop reason of the answer, or a value of your own that means the same."),
    (r"`ToolCall.id`", "Return the id of the call as the API issued it."),
    (r"instead of returning a response|if the stream ends", "Raise an exception instead of returning a response."),
    (r"^Raise |error's `status`", "Raise an exception with the status and the message of the answer."),
    (r"`raw_stop_reason`", "Return the stop reason of this answer unchanged, or none."),
    (r"`retry_after`", "Let the exception report how long to wait, if the answer does."),
    (r"`endpoint\.", "Send requests to the base URL that the client was given."),
    (r"`Thinking` part", "Return each text of the reasoning once, or none."),
    (r"`provider_metadata`", "Send an id that the client made up only as its own."),
)
"""Pairs of a pattern and a remedy. The pattern matches a remedy that names classes of harness. The author of a client
without a wrapper reads the paired remedy instead.
"""


def _command_for(run: RunResult, rule: str, cell: CellResult) -> str:
    """Return the command that shows a cell. If the run suggests `harness reproduce`, return the command that reproduces
    the cell.
    """
    if not _is_trial(run):
        return groups.show_command(run, cell)
    is_program = cell.scenario in run.invocation.programs
    stream = ["--variant", "stream"] if cell.variant == "stream" and not is_program else []
    failing = [each for each in cell.findings if each.fails]
    worst = failing or [each for each in cell.findings if each.severity is Severity.WARNING]
    options = [*stream, *(["--rule", rule] if {each.rule for each in worst} != {rule} else [])]
    targets = {each.target for each in run.cells if each.scenario == cell.scenario}
    options += ["--target", cell.target] if len(targets) > 1 and not is_program else []
    return shlex.join([*run.invocation.show[:2], cell.scenario, *options, *run.invocation.show[2:]])


def side_of(finding: Finding) -> str:
    """Return whether the wrong value was sent, returned to the caller, or received."""
    if not finding.of_response and (finding.pointer or finding.subject not in _SUBJECTS_OF_RESULTS):
        return "sent"
    return "returned" if finding.blame in (Blame.ADAPTER, Blame.CLIENT) else "received"


def with_one_value(finding: Finding) -> Finding:
    """Return the finding with its expected value unwrapped if it is a list with one entry. The list is kept if the
    actual value is a list, too.
    """
    expected = finding.expected
    if isinstance(expected, list) and len(expected) == 1 and not isinstance(finding.actual, list):
        return replace(finding, expected=expected[0])
    return finding


def _command(label: str, command: str) -> str:
    return words.plain_line(f"   {label:{_LABEL_WIDTH}}{command}")


def _cut(text: str, style: str = "") -> RenderableType:
    """Return one line, which `_render` truncates at the width of the page."""
    return Text(words.plain_line(text), style=style)


REPORT = Report("worst", render)
