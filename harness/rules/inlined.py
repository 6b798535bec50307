"""Text files of the user whose text stands in a text part, as APIs want it that take no other file than a PDF."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from harness.apis.view import MediaView, PartView, TextView, TurnView
from harness.contract.model import File, Role, Text
from harness.meaning.result_meaning import same_medium
from harness.rules.evidence import Asked, Evidence


@dataclass(frozen=True, slots=True)
class Conversation:
    """The turns of a request with `inlined` files as media in their places. The words next to such a file that tell
    what it is are left out."""

    turns: tuple[TurnView, ...]
    inlined: tuple[MediaView, ...] = ()


def conversation(_evidence: Evidence, asked: Asked) -> Conversation:
    """The conversation of a request."""
    turns, inlined = asked.view.turns, list[MediaView]()
    said = [message for message in asked.chat.request.messages if message.role is Role.USER]
    given = [part.text for message in said for part in message.parts if isinstance(part, Text) and part.text]
    for file in (part for message in said for part in message.parts if isinstance(part, File)):
        text = _text_of(file)
        if text and not any(
            isinstance(part, MediaView) and same_medium(part, file) for part in _parts(asked.view.turns)
        ):
            turns, found = _taken_out(turns, file, text, given)
            inlined += [found] if found else []
    return Conversation(turns, tuple(inlined))


def _parts(turns: Sequence[TurnView]) -> Iterator[PartView]:
    for turn in turns:
        yield from turn.parts


def _text_of(file: File) -> str | None:
    if file.data is None or not file.media_type.startswith("text/"):
        return None
    try:
        return file.data.decode()
    except UnicodeDecodeError:
        return None


def _taken_out(
    turns: tuple[TurnView, ...], file: File, text: str, given: Sequence[str]
) -> tuple[tuple[TurnView, ...], MediaView | None]:
    """The turns with a file in place of the first text that holds its words and is not one that was given."""
    for place, turn in enumerate(turns):
        for index, part in enumerate(turn.parts):
            if turn.role != "user" or not isinstance(part, TextView) or text not in part.text or part.text in given:
                continue
            head, _, tail = part.text.partition(text)
            medium = MediaView(file.media_type, part.pointer, file.data)
            ahead, behind = [*turn.parts[:index]], [*turn.parts[index + 1 :]]
            if not head and ahead and _is_caption(ahead[-1], given):
                ahead.pop()
            if not tail and behind and _is_caption(behind[0], given):
                behind.pop(0)
            own = [replace(part, text=_up_to_last(head, given)), medium, replace(part, text=_from_first(tail, given))]
            parts = (*ahead, *(each for each in own if not isinstance(each, TextView) or each.text), *behind)
            return (*turns[:place], replace(turn, parts=parts), *turns[place + 1 :]), medium
    return turns, None


def _is_caption(part: PartView, given: Sequence[str]) -> bool:
    return isinstance(part, TextView) and not any(text in part.text for text in given)


def _up_to_last(head: str, given: Sequence[str]) -> str:
    return head[: max((head.rfind(text) + len(text) for text in given if text in head), default=0)]


def _from_first(tail: str, given: Sequence[str]) -> str:
    starts = [tail.find(text) for text in given if text in tail]
    return tail[min(starts) :] if starts else ""
