"""Text of `harness show`: a cell's canonical conversation, its HTTP exchanges, and the findings at their places."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import typer
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.apis.jsonvalue import loads, loads_or_none
from harness.apis.view import WireError
from harness.cli import execution
from harness.cli.outputs import on_screen
from harness.cli.selection import select
from harness.cli.settings import EffectiveOptions, complete_options
from harness.model.errors import UsageError
from harness.model.messages import (
    JSON,
    ChatRequest,
    File,
    Image,
    Message,
    Opaque,
    Part,
    Refusal,
    Thinking,
    ToolCall,
    ToolResult,
)
from harness.model.messages import (
    Text as Said,
)
from harness.reports.page import Page, heading, indent
from harness.reports.words import count, list_names, place, plain, plain_line, short, values, what_to_do
from harness.results import (
    CellResult,
    Chat,
    DrivenTranscript,
    EmbeddingCall,
    EmbeddingTranscript,
    Finding,
    Mode,
    Presentation,
    RunResult,
    Severity,
)
from harness.rules.evidence import Evidence, ParsedExchange
from harness.runner import excerpts
from harness.runner.cells import Cell
from harness.runner.suite_run import Plan
from harness.stdio.workers import WorkerPool

_MIN_TWO_COLUMNS_WIDTH = 100

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


@dataclass(frozen=True, slots=True)
class _Numbered:
    """A finding with the number that marks its place."""

    number: int
    finding: Finding

    @property
    def mark(self) -> str:
        return f"<-- {self.number} {self.finding.rule}"


def show_cell(options: EffectiveOptions, mode: Mode) -> int:
    """Run the selected cell, print it, and return the exit code.

    Raises:
        UsageError: the options select several cells, or one is wrong.
    """
    any_variant = not options.variants
    options = complete_options(options, mode)
    with execution.environment(mode), execution.redactor_of(options, mode).redact_exceptions():
        finished = run_selected_cell(options, mode, any_variant=any_variant)
    for line in lines(finished.result, finished.evidence, on_screen(Presentation(verbose=True))):
        typer.echo(line)
    return RunResult(mode, (finished.result,)).exit_code


@dataclass(frozen=True, slots=True)
class FinishedCell:
    """A cell with its result and, if it ran, its evidence."""

    cell: Cell
    result: CellResult
    evidence: Evidence | None


ShrinkCell: TypeAlias = "Callable[[FinishedCell, Callable[[Cell], FinishedCell]], FinishedCell]"
"""Function that returns the cell to show, given the one that was run. It can run further cells with its second
argument.
"""


def run_selected_cell(
    options: EffectiveOptions,
    mode: Mode,
    *,
    any_variant: bool,
    recuts: int = 0,
    smaller: ShrinkCell | None = None,
) -> FinishedCell:
    """Run the only cell that the completed options select. With `any_variant`, the whole variant is preferred to the
    streamed one. A streamed cell is repeated with `recuts` other chunk boundaries. `smaller` may run further cells, and
    return another one.

    Raises:
        UsageError: the options select several cells, or one is wrong.
    """
    libraries = execution.cassette_libraries(options)[0] if mode == "replay" else []
    with WorkerPool(execution.cell_time_limit(options, mode), offline=mode != "live") as workers:
        selection = select(options, workers)
        cells = [*selection.cells]
        if any_variant:
            cells = [each for each in cells if each.variant == "whole"] or cells
        if len(cells) > 1:
            chosen = list_names([f"--target {each.target.name} --variant {each.variant}" for each in cells], 3)
            raise UsageError(f"{len(cells)} cells match, but only one can be shown. Select it with: {chosen}.")
        plan = Plan(
            mode=mode,
            libraries=libraries,
            own=frozenset(selection.files),
            base_urls=execution.base_urls_for(options.base_urls, mode, selection.targets),
            recuts=recuts,
            strict=bool(options.strict),
            scope=options.scope,
            outdated=options.outdated,
        )

        def run_cell(cell: Cell) -> FinishedCell:
            return FinishedCell(cell, *plan.run(selection.targets).run_one(cell))

        finished = run_cell(cells[0])
        return finished if smaller is None else smaller(finished, run_cell)


def lines(result: CellResult, evidence: Evidence | None, presentation: Presentation) -> list[str]:
    """Return the lines that show a cell: its verdict, its numbered findings, and each chat with its exchanges."""
    page = Page(presentation)
    found = [_Numbered(number, finding) for number, finding in enumerate(result.findings, 1)]
    parts: list[RenderableType] = [
        heading(f"{result.scenario} [{result.variant}] . {result.target}: {result.verdict.value}")
    ]
    if result.reason is not None:
        parts.append(indent(result.reason))
    made = page.lines([*parts, *_findings(found)])
    for section in _exchanges(evidence, found, page.width) if evidence is not None else ():
        made += ["", *page.lines(section)]
    for title, text in (("printed by the adapter", result.printed), ("traceback of the adapter", result.traceback)):
        if text:
            made += ["", *page.lines([heading(title), *(indent(line) for line in text.splitlines())])]
    return made


def _findings(found: Sequence[_Numbered]) -> Iterator[RenderableType]:
    for each in found:
        finding = each.finding
        where = place(finding)
        link = "" if finding.follows is None else f", follows from {finding.follows + 1}"
        text = f"{each.number} {finding.rule} ({finding.severity}, {finding.kind}, blame: {finding.blame}{link}): "
        yield indent(f"{text}{f'{where}: ' if where else ''}{finding.message}", _STYLES[finding.severity])
        for name, value in values(finding):
            yield indent(f"{name:<8}  {value}", by=4)
        if finding.follows is None and finding.severity is not Severity.NOTE:
            yield indent(f"to do     {what_to_do(finding)}", by=4)


def _right(here: Sequence[_Numbered], width: int) -> Iterator[RenderableType]:
    """Yield the differences between the request and the built-in adapter's request in two columns."""
    found = [each.finding for each in here if not excerpts.is_about_response(each.finding)]
    pair = next((each.exhibits for each in found if each.exhibits), None)
    if pair is None:
        return
    sent, right = pair
    yield Text()
    yield indent(f"what differs between {sent.end} and {right.end}", "bold")
    left, other = ([Text(plain_line(line)) for line in body.piece] for body in (sent, right))
    yield from _columns(left, other, width)


def _exchanges(evidence: Evidence, found: Sequence[_Numbered], width: int) -> Iterator[Iterable[RenderableType]]:
    """Yield a section for each exchange and its chat. Chats without requests come last."""
    transcript = evidence.transcript
    chats, embedded = transcript.chats, transcript.embedded if isinstance(transcript, EmbeddingTranscript) else ()
    side = width * 3 // 5 - 4 if width >= _MIN_TWO_COLUMNS_WIDTH else width - 4
    before: ParsedExchange | None = None
    for parsed in evidence.parsed_exchanges:
        chat = None if parsed.exchange.chat is None else parsed.exchange.chat
        made = chats[chat] if chat is not None and chat < len(chats) else None
        request = _request(made.request, _messages_before(evidence, chat)) if made else []
        outcome = _outcome(made) if made else []
        if chat is not None and chat < len(embedded):
            request = [Text(plain(f"text: {text}")) for text in embedded[chat].texts]
            outcome = _vectors(embedded[chat])
        if isinstance(transcript, DrivenTranscript) and chat is not None:
            outcome = [
                Text(plain(f"runs {run.name}({json.dumps(run.arguments, ensure_ascii=False)})"))
                for run in transcript.runs
                if run.answers == chat + 1
            ]
        here = [each for each in found if each.finding.exchange == parsed.index]
        title = f"request {parsed.index + 1}" + (f", turn {made.turn + 1}, answer {made.step + 1}" if made else "")
        sent = _body(
            parsed.exchange.request.body,
            before and loads_or_none(before.exchange.request.body),
            here,
            response=False,
            width=side,
        )
        got = _response(transcript.api, parsed, here, side)
        yield [
            heading(f"{title}: {parsed.exchange.request.method} {parsed.exchange.request.url}"),
            *_columns(request, sent, width),
            *_right(here, width),
            *_columns(outcome, got, width),
        ]
        before = parsed
    silent = [each for index, each in enumerate(chats) if not evidence.exchanges(index)]
    for made in silent:
        yield [heading(f"turn {made.turn + 1}, answer {made.step + 1}: nothing was sent"), *_request(made.request, 0)]
        yield _outcome(made)


def _messages_before(evidence: Evidence, chat: int | None) -> int:
    """Return the number of messages in the previous request. These are not shown again."""
    return len(evidence.transcript.chats[chat - 1].request.messages) if chat else 0


def _request(request: ChatRequest, known: int) -> list[Text]:
    shown: list[Text] = []
    if known:
        shown.append(Text(f"({count(known, 'message')} as before)", style="dim"))
    elif request.system:
        shown.append(Text(plain(f"system: {request.system}")))
    for message in request.messages[known:]:
        shown += _message(message)
    if not known and request.tools:
        shown.append(Text(plain(f"tools: {', '.join(tool.name for tool in request.tools)}")))
    return shown


def _outcome(chat: Chat) -> list[Text]:
    response = chat.response
    if response is None:
        return [Text(plain(f"{chat.raised}{chat.words}"), style="red")]
    return [*_message(response.message), Text(plain(f"stop reason: {response.stop_reason.value}"), style="dim")]


def _vectors(made: EmbeddingCall) -> list[Text]:
    if made.vectors is None:
        return [Text(plain(f"raises {made.error}: {made.error_text}"), style="red")]
    lengths = sorted({len(vector) for vector in made.vectors})
    return [Text(f"{count(len(made.vectors), 'vector')} of {' or '.join(map(str, lengths)) or 'no'} dimensions")]


def _message(message: Message) -> list[Text]:
    return [Text(plain(f"{message.role.value}: {_part(part)}")) for part in message.parts] or [
        Text(f"{message.role.value}: (nothing)")
    ]


def _part(part: Part) -> str:
    match part:
        case Said(text):
            return text
        case Thinking(text):
            return f"(thinks) {text}"
        case Refusal(text):
            return f"(refuses) {text}"
        case ToolCall():
            return f"calls {part.name}({json.dumps(dict(part.arguments), ensure_ascii=False)}) as {part.id}"
        case ToolResult():
            return f"{'error' if part.is_error else 'result'} of {part.name} for {part.call_id}: {_content(part)}"
        case Image() | File():
            return f"({part.media_type}, {'by address' if part.data is None else f'{len(part.data)} bytes'})"
        case Opaque(api):
            return f"(state of {api}: {short(part.raw, 80)})"


def _content(result: ToolResult) -> str:
    if isinstance(result.content, tuple):
        return "; ".join(map(_part, result.content))
    return result.content if isinstance(result.content, str) else json.dumps(result.content, ensure_ascii=False)


def _response(api: str, parsed: ParsedExchange, here: Sequence[_Numbered], width: int) -> list[Text]:
    response = parsed.exchange.response
    if response is None:
        return [Text("no response", style="red")]
    status = Text(f"{response.status}", style="dim")
    if parsed.response is None:
        raw = _raw(api, parsed, here) or [Text(plain(response.body[:500].decode(errors="replace")))]
        return [status, *raw]
    if parsed.response.streamed:
        status.append(", streamed; shown as the equivalent whole body")
    body = _json(parsed.response.body, None, here, response=True, width=width)
    return [status, *body, *_raw(api, parsed, here)]


def _raw(api: str, parsed: ParsedExchange, here: Sequence[_Numbered]) -> list[Text]:
    """Return the raw stream. Events that have findings are marked."""
    stream = excerpts.raw_stream(api, parsed)
    if stream is None:
        return []
    marks: dict[int, list[_Numbered]] = {}
    for each in here:
        if excerpts.is_about_response(each.finding):
            for at in stream.marks(each.finding.pointer or ""):
                marks.setdefault(at, []).append(each)
    made = [Text(f"the raw stream, {count(len(stream.frames), 'event')}:", style="dim")]
    before = -1
    for line, at in stream.lines(marks):
        text = Text(plain_line(line))
        for each in marks.get(at, ()) if at != before else ():
            text.append(f"  {each.mark}", style=_STYLES[each.finding.severity])
        made.append(text)
        before = at
    return made


def _body(body: bytes, before: JSON, here: Sequence[_Numbered], *, response: bool, width: int) -> list[Text]:
    try:
        value = loads(body)
    except WireError:
        return [Text(plain(body[:500].decode(errors="replace")))]
    return _json(value, before, here, response=response, width=width)


def _json(value: JSON, before: JSON, here: Sequence[_Numbered], *, response: bool, width: int) -> list[Text]:
    """Return the body with findings at their lines. Parts that the previous request had in the same
    place are omitted.
    """
    pointed = [each for each in here if each.finding.pointer and each.finding.of_response is response]
    opened = [each.finding.pointer or "" for each in pointed]
    shown = excerpts.json_lines(value, width, "", [*opened, *_grown_lists(value, before)])
    marks: dict[int, list[_Numbered]] = {}
    for each in pointed:
        marks.setdefault(excerpts.marked_line(shown, each.finding.pointer or ""), []).append(each)
    same = excerpts.unchanged_members(value, before)
    made: list[Text] = []
    skipped = 0
    for number, line in enumerate(shown):
        if number not in marks and any(line.pointer == at or line.pointer.startswith(f"{at}/") for at in same):
            skipped += 1
            continue
        if skipped:
            made.append(Text(f"  ... {skipped} lines as before", style="dim"))
            skipped = 0
        text = Text(plain_line(line.text))
        for each in marks.get(number, ()):
            text.append(f"  {each.mark}", style=_STYLES[each.finding.severity])
        made.append(text)
    if skipped:
        made.append(Text(f"  ... {skipped} lines as before", style="dim"))
    return made


def _grown_lists(value: JSON, before: JSON) -> list[str]:
    """Return a pointer into each list that both bodies have, so that these lists are shown with one entry per line."""
    if not isinstance(value, dict) or not isinstance(before, dict):
        return []
    return [f"/{key}/0" for key, now in value.items() if isinstance(now, list) and isinstance(before.get(key), list)]


def _columns(left: Sequence[Text], right: Sequence[Text], width: int) -> Iterator[RenderableType]:
    """Yield two columns. On narrow screens, yield one below the other."""
    if width < _MIN_TWO_COLUMNS_WIDTH:
        yield from (Padding(line, (0, 0, 0, 2)) for line in (*left, *right))
        return
    table = Table.grid(padding=(0, 2, 0, 2), expand=True)
    table.add_column(ratio=2, overflow="fold")
    table.add_column(ratio=3, overflow="fold")
    table.add_row(Text("\n").join(left), Text("\n").join(right))
    yield table
