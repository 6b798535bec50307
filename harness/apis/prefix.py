"""The prefix of a request: its tools, system prompt and conversation, in the order in which providers read them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import chain, takewhile
from typing import Literal, TypeAlias

from harness.apis.jsonvalue import as_object, canonical, resolve
from harness.apis.view import (
    CallView,
    JsonView,
    MediaView,
    OpaqueView,
    PartView,
    RequestView,
    ResultView,
    SystemView,
    TextView,
    ToolView,
)
from harness.model.messages import JSON

Section: TypeAlias = Literal["settings", "tools", "system", "turns"]

_SECTIONS: tuple[Section, ...] = ("settings", "tools", "system", "turns")

_THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning"})
"""Kinds of reasoning that a provider can bind to the prefix."""

COMPACTION = "compaction"
"""Kind of the part that replaces earlier messages. Providers do not count this as a change of the prefix."""

CACHE_FIELDS = frozenset({"cache_control", "prompt_cache_breakpoint"})
"""Fields that mark the end of a cached prefix. They are not part of it and may move."""

_CHARACTERS_PER_TOKEN = 4
"""Characters per token. The counts only have to be plausible."""


@dataclass(frozen=True, slots=True)
class PrefixPiece:
    """A setting, a tool, a system text or a part of the conversation.

    Pieces with equal content have the same `value`: lists keep their order, and the order of keys is ignored. `name` is
    the name of a tool, or the kind of any other piece. `answers` is the id of the call that a result belongs to.
    `spelling` is the declaration of a tool or the arguments of a call as written. `size` is the number of characters
    that the model reads.
    """

    section: Section
    name: str
    value: str
    pointer: str
    answers: str | None = None
    spelling: str = ""
    size: int = field(default=0, compare=False)

    @property
    def is_thought(self) -> bool:
        """True for reasoning, which may be bound to the pieces before it."""
        return self.section == "turns" and self.name in _THOUGHTS


def prefix_pieces(
    view: RequestView,
    body: JSON,
    *,
    settings: Collection[str] = (),
    trailing: Collection[str] = (),
    ignored: Collection[str] = (),
) -> tuple[PrefixPiece, ...]:
    """Return the pieces of a request.

    `settings` are pointers to settings that belong to the prefix. `trailing` are the places of system texts that the
    provider appends to the conversation. These texts, the `ignored` texts and deferred tools
    (anthropic-deferred-tools-outside-prefix) are left out.
    """
    said = [each for each in view.system if each.place not in trailing and each.text not in ignored]
    inside = [each for each in said if each.before_turn]
    return (
        *_fixed_pieces(view, body, settings, [each for each in said if not each.before_turn]),
        *_join_texts(_entries(view, inside, ignored), body),
    )


def _fixed_pieces(
    view: RequestView, body: JSON, settings: Collection[str], system: Sequence[SystemView]
) -> Iterator[PrefixPiece]:
    for pointer in sorted(settings):
        value = resolve(body, pointer)
        yield PrefixPiece("settings", pointer, canonical(value), pointer if value is not None else "")
    for tool in view.tools:
        declared = as_object(resolve(body, tool.pointer))
        if declared.get("defer_loading") is not True:
            yield _tool(tool, declared)
    yield from (_system(each, "system") for each in system)


_Entry: TypeAlias = tuple[str, PartView]


def _join_texts(entries: Iterable[_Entry], body: JSON = None) -> Iterator[PrefixPiece]:
    """Yield the pieces of a conversation. Adjacent texts of one role are joined, because clients may split a text
    differently.
    """
    joined: list[_Entry] = []
    for role, part in entries:
        last = joined[-1][1] if joined and joined[-1][0] == role else None
        if isinstance(part, TextView) and isinstance(last, TextView) and not (part.opaque and last.opaque):
            joined[-1] = role, replace(last, text=last.text + part.text, opaque=last.opaque or part.opaque)
        else:
            joined.append((role, part))
    return (part_piece(part, role, body) for role, part in joined)


def _entries(view: RequestView, system: Sequence[SystemView] = (), ignored: Collection[str] = ()) -> Iterator[_Entry]:
    for number in range(len(view.turns) + 1):
        yield from ((each.place, TextView(each.text, each.pointer)) for each in system if each.before_turn == number)
        turn = view.turns[number] if number < len(view.turns) else None
        for part in turn.parts if turn else ():
            if turn and not (isinstance(part, TextView) and (part.text in ignored or not (part.text or part.opaque))):
                yield turn.role, part


def _tool(tool: ToolView, declared: dict[str, JSON]) -> PrefixPiece:
    content = {key: value for key, value in declared.items() if key not in CACHE_FIELDS}
    spelling = json.dumps(content, ensure_ascii=False)
    own: JSON = {
        key: value for key, value in content.items() if value is not None and (key, value) != ("type", "custom")
    }
    return PrefixPiece("tools", tool.name, canonical(own), tool.pointer, spelling=spelling, size=len(spelling))


def _system(text: SystemView, section: Section) -> PrefixPiece:
    return PrefixPiece(section, "system", canonical([text.place, text.text]), text.pointer, size=len(text.text))


def part_piece(part: PartView, role: str, body: JSON = None) -> PrefixPiece:
    """Return the piece of a part of the conversation. Without the request's body, it has no spelling."""
    name = part.kind if isinstance(part, OpaqueView) else _NAMES[type(part)]
    answers = part.call_id if isinstance(part, ResultView) else None
    value = canonical([role, name, _value(part, body)])
    arguments = resolve(body, part.arguments_pointer) if isinstance(part, CallView) else None
    spelling = json.dumps(arguments, ensure_ascii=False) if arguments is not None else ""
    return PrefixPiece("turns", name, value, part.pointer, answers, spelling, size=_size(part))


_UNREAD = frozenset({"signature", "encrypted_content", "data"})
"""Fields of reasoning that a model does not read as text."""


def _size(part: PartView | JsonView) -> int:
    match part:
        case TextView():
            return len(part.text)
        case CallView():
            return len(part.name) + len(part.malformed or canonical(part.arguments))
        case ResultView():
            return sum(map(_size, part.payload))
        case JsonView():
            return len(canonical(part.value))
        case OpaqueView(raw={**fields}):
            return len(canonical({key: value for key, value in fields.items() if key not in _UNREAD}))
        case _:
            return 0


_NAMES: dict[type, str] = {TextView: "text", CallView: "call", ResultView: "result", MediaView: "media"}


_MEDIA_OPTIONS = frozenset({"citations", "context", "detail", "mediaResolution", "title", "videoMetadata"})
"""Fields of a media part, other than its data, that change what the model reads."""


def _media_options(part: MediaView, body: JSON) -> JSON:
    """Return the options of a media part that differ from the defaults."""
    wire = as_object(resolve(body, part.pointer))
    fields = chain(wire.items(), as_object(wire.get("image_url")).items())
    return {key: value for key, value in fields if key in _MEDIA_OPTIONS and value not in (None, "auto")}


def _value(part: PartView | JsonView, body: JSON = None) -> JSON:
    match part:
        case TextView():
            return [part.text, part.opaque]
        case CallView():
            return [part.id, part.name, part.arguments, part.malformed, part.opaque]
        case ResultView():
            return [part.call_id, part.name, part.error_mark, *(_value(each, body) for each in part.payload)]
        case JsonView():
            return part.value
        case MediaView():
            medium = part.uri or sha256(part.data or b"").hexdigest()
            return [part.media_type, medium, _media_options(part, body)]
        case OpaqueView(raw={**fields}):
            return {key: value for key, value in fields.items() if key not in part.labels}
        case OpaqueView():
            return part.raw


def tokens(pieces: Sequence[PrefixPiece]) -> int:
    """Return the approximate number of tokens of pieces."""
    return sum(each.size for each in pieces) // _CHARACTERS_PER_TOKEN


def count_equal(then: Sequence[PrefixPiece], now: Sequence[PrefixPiece]) -> int:
    """Return the number of equal pieces at the start of both sequences."""
    return sum(1 for _ in takewhile(lambda pair: pair[0].value == pair[1].value, zip(then, now, strict=False)))


@dataclass(frozen=True, slots=True)
class CallerChanges:
    """Changes of the prefix that the caller requested.

    `tools` are the names of tools that were added, removed or changed, and `tool_order` is set if the others have a new
    order. `results` is set if only contents of results changed, and `history` if messages changed in another way.
    """

    settings: bool = False
    tools: frozenset[str] = frozenset()
    tool_order: bool = False
    system: bool = False
    results: bool = False
    history: bool = False


ToolChangeKind: TypeAlias = Literal["tool-order", "tool-changed", "tool-missing", "tool-added", "key-order"]
TurnChangeKind: TypeAlias = Literal["thinking-dropped", "result-order", "history", "call-spelling"]
ChangeKind: TypeAlias = ToolChangeKind | TurnChangeKind | Literal["setting", "system"]


@dataclass(frozen=True, slots=True)
class PrefixChange:
    """The first change of a section of the prefix.

    `then` is the piece of the earlier request and `now` the piece in its place; `None` if there is none. `unchanged` is
    the number of pieces before the change, over all sections. `bound` are the thoughts after it.
    """

    kind: ChangeKind
    then: PrefixPiece | None
    now: PrefixPiece | None
    unchanged: int
    bound: tuple[PrefixPiece, ...]

    @property
    def by_spelling(self) -> bool:
        """True if only the spelling changed: the order of keys, or white space. No source documents that a provider
        compares these.
        """
        return self.kind in {"key-order", "call-spelling"}

    @property
    def section(self) -> Section:
        """The section of the prefix in which the change is."""
        piece = self.then or self.now
        return piece.section if piece else "turns"

    @property
    def pointer(self) -> str:
        """JSON pointer into the later request. If the end of a message is missing, it points to that message."""
        if self.then and self.now and self.section == "turns":
            (place, index), (same, later) = _entry(self.then.pointer), _entry(self.now.pointer)
            if place == same and later > index:
                return f"/{place}/{index}"
        return self.now.pointer if self.now else ""


def _entry(pointer: str) -> tuple[str, int]:
    _, place, index, *_ = [*pointer.split("/"), "", ""]
    return place, int(index) if index.isdecimal() else -1


def prefix_changes(
    then: Sequence[PrefixPiece],
    now: Sequence[PrefixPiece],
    caller: CallerChanges | None = None,
    *,
    may_leave: bool = False,
) -> list[PrefixChange]:
    """Return the first change of each section, except for changes that the caller requested.

    The later request may add pieces after the earlier ones. With `may_leave`, it may leave out the first thoughts.
    """
    caller = caller or CallerChanges()
    found: list[PrefixChange] = []
    for section in _SECTIONS:
        before, after = ([each for each in pieces if each.section == section] for pieces in (then, now))
        match section:
            case "settings":
                change = None if caller.settings else _first_change("setting", before, after)
            case "tools":
                change = _in_tools(before, after, caller)
            case "system":
                change = None if caller.system else _first_change("system", before, after)
            case "turns":
                change = (
                    None if caller.history else _in_turns(before, after, trimmed=caller.results, may_leave=may_leave)
                )
        if change is None:
            continue
        kind, one, other = change
        # without a piece in its place, the change is before all that follows this section
        start = (
            now.index(other)
            if other
            else sum(_SECTIONS.index(each.section) <= _SECTIONS.index(section) for each in now)
        )
        bound = tuple(each for each in now[start:] if each.is_thought)
        if kind == "system" and one is not None and other is None:
            other = _moved_to(one, now)
        found.append(PrefixChange(kind, one, other, count_equal(then, now), bound))
    return found


_PieceChange: TypeAlias = tuple[ChangeKind, PrefixPiece | None, PrefixPiece | None]


def _in_tools(then: list[PrefixPiece], now: list[PrefixPiece], caller: CallerChanges) -> _PieceChange | None:
    then, now = ([each for each in pieces if each.name not in caller.tools] for pieces in (then, now))
    if caller.tool_order:
        then, now = (sorted(pieces, key=lambda each: each.value) for pieces in (then, now))
    at = count_equal(then, now)
    one, other = then[at] if at < len(then) else None, now[at] if at < len(now) else None
    if one is None and other is None:
        differs = next((pair for pair in zip(then, now, strict=True) if pair[0].spelling != pair[1].spelling), None)
        return ("key-order", *differs) if differs and not caller.tool_order else None
    if Counter(each.value for each in then) == Counter(each.value for each in now):
        return "tool-order", one, other
    same = {each.name: each for each in now}
    for each in then:
        if each.name not in same:
            return "tool-missing", each, other
        if each.value != same[each.name].value and sum(one.name == each.name for one in then) == 1:
            return "tool-changed", each, same[each.name]
    return "tool-added", one, next((each for each in now if each.name not in {one.name for one in then}), other)


def _moved_to(system: PrefixPiece, now: Sequence[PrefixPiece]) -> PrefixPiece | None:
    """Return the message that has the text of a missing system prompt."""
    text = canonical(json.loads(system.value)[1])
    return next((each for each in now if each.section == "turns" and text[1:-1] in each.value), None)


def _first_change(kind: ChangeKind, then: list[PrefixPiece], now: list[PrefixPiece]) -> _PieceChange | None:
    at = count_equal(then, now)
    if at == len(then) == len(now):
        return None
    return kind, then[at] if at < len(then) else None, now[at] if at < len(now) else None


def _in_turns(
    then: list[PrefixPiece], now: list[PrefixPiece], *, trimmed: bool, may_leave: bool
) -> _PieceChange | None:
    compacted = {each.value for each in now if each.name == COMPACTION}
    if not compacted <= {each.value for each in then}:
        return None
    at, has_thought = 0, False
    for index, each in enumerate(then):
        other = now[at] if at < len(now) else None
        is_same_turn = at == len(now) - 1 or all(later.value.startswith('["user"') for later in now[at:])
        grows = index == len(then) - 1 and (is_same_turn or each.value.startswith('["assistant"'))
        if other is not None and _is_repeated(each, other, trimmed=trimmed, grows=grows):
            has_thought = has_thought or each.is_thought
            at += 1
        elif each.is_thought and may_leave and not has_thought:
            continue  # the provider reads a conversation without its first thoughts
        else:
            return _kind_of(each, then[index:], now[at:]), each, other
    respelled = Counter(map(_spelling_of, then)) - Counter(map(_spelling_of, now))
    for each in then:
        other = next((one for one in now if one.value == each.value and one.spelling != each.spelling), None)
        if other is not None and _spelling_of(each) in respelled:
            return "call-spelling", each, other
    return None


def _spelling_of(piece: PrefixPiece) -> tuple[str, str]:
    return piece.value, piece.spelling


def _is_repeated(then: PrefixPiece, now: PrefixPiece, *, trimmed: bool, grows: bool) -> bool:
    if then.value == now.value or (trimmed and then.name == now.name == "result" and then.answers == now.answers):
        return True
    # the last text may be longer: its answer failed and the user sent more, or a paused answer goes on
    return grows and then.name == now.name == "text" and now.value.startswith(then.value.removesuffix('",null]]'))


def _kind_of(changed: PrefixPiece, then: Sequence[PrefixPiece], now: Sequence[PrefixPiece]) -> ChangeKind:
    if changed.is_thought and (len(then) == 1 or (now and now[0].value == then[1].value)):
        return "thinking-dropped"
    run = [*takewhile(lambda each: each.name == "result", then)]
    if run and Counter(each.value for each in run) == Counter(each.value for each in now[: len(run)]):
        return "result-order"
    return "history"


@dataclass(frozen=True, slots=True)
class PrefixMismatch:
    """Reasoning that is sent back after a prefix that differs from the one for which it was issued.

    `issued` is the reasoning as issued. `change` is the first difference between the prefixes, or `None` if the request
    only has additional pieces before the reasoning.
    """

    thought: PrefixPiece
    issued: OpaqueView
    change: PrefixChange | None


class BoundThoughts:
    """The prefixes after which a provider issued reasoning in one conversation."""

    def __init__(self) -> None:
        self._last: Callable[[], tuple[list[PrefixPiece], list[_Entry]]] = lambda: ([], [])
        self._issued: dict[str, tuple[OpaqueView, tuple[PrefixPiece, ...]]] = {}

    def receive(
        self,
        view: RequestView,
        body: JSON,
        *,
        settings: Collection[str] = (),
        trailing: Collection[str] = (),
        may_leave: bool = False,
    ) -> list[PrefixMismatch]:
        """Record a request, and return the reasoning in it whose prefix has changed."""

        def parts() -> tuple[list[PrefixPiece], list[_Entry]]:
            said = [each for each in view.system if each.place not in trailing]
            fixed = [*_fixed_pieces(view, body, settings, [each for each in said if not each.before_turn])]
            return fixed, [*_entries(view, [each for each in said if each.before_turn])]

        self._last = parts
        if not self._issued:
            return []
        fixed, entries = parts()
        pieces = (*fixed, *_join_texts(entries))
        found: list[PrefixMismatch] = []
        for at, piece in enumerate(pieces):
            issued = self._issued.get(piece.value) if piece.is_thought else None
            if issued is not None and not _is_prefix_kept(issued[1], pieces[:at], may_leave=may_leave):
                changes = prefix_changes(issued[1], pieces[:at], may_leave=may_leave)
                real = [change for change in changes if not change.by_spelling]
                found.append(PrefixMismatch(piece, issued[0], real[0] if real else None))
        return found

    def issue(self, parts: Sequence[PartView]) -> None:
        """Bind the reasoning of a response to the last request and to the parts before it."""
        for at, part in enumerate(parts):
            if isinstance(part, OpaqueView) and part.kind in _THOUGHTS:
                fixed, entries = self._last()
                before = (*entries, *(("assistant", each) for each in parts[:at]))
                self._issued[part_piece(part, "assistant").value] = part, (*fixed, *_join_texts(before))


def _is_prefix_kept(then: Sequence[PrefixPiece], now: Sequence[PrefixPiece], *, may_leave: bool) -> bool:
    left = sum(each.is_thought for each in then) - sum(each.is_thought for each in now) if may_leave else 0
    kept: list[str] = []
    for each in then:
        if each.is_thought and left > 0:
            left -= 1
        else:
            kept.append(each.value)
    return COMPACTION in {each.name for each in now} or kept == [each.value for each in now]
