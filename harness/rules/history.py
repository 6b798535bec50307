"""History: append-only, texts and media verbatim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from harness.model import JSON_INSTRUCTION, File, Image, Role, Text
from harness.results import Kind
from harness.rules.content import same_medium
from harness.rules.evidence import Asked, Evidence
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject
from harness.wire.compare import likeness
from harness.wire.view import MediaView, PartView, ResultView, TextView, TurnView


def _append_only(evidence: Evidence) -> Iterator[Flaw]:
    previous: Asked | None = None
    for asked in evidence.asked:
        before = previous
        previous = asked
        if before is None or asked.view.stateful or before.view.stateful:
            continue
        trims = _trims(evidence, before, asked)
        for position, turn in enumerate(before.view.turns):
            now = asked.view.turns[position] if position < len(asked.view.turns) else None
            if now is None or likeness(_weighed(now, trims)) != likeness(_weighed(turn, trims)):
                yield Flaw(
                    "an entry that was sent before is gone or changed: the history is append-only",
                    asked.reading.index,
                    now.pointer if now else "",
                    repr(likeness(now)) if now else None,
                    repr(likeness(turn)),
                )
                break


def _trims(evidence: Evidence, before: Asked, asked: Asked) -> bool:
    scenario = evidence.transcript.scenario
    return scenario is not None and scenario.trim is not None and before.chat.turn < asked.chat.turn


def _weighed(turn: TurnView, trims: bool) -> TurnView:
    """The turn, without what results say where they may be trimmed: result-changed knows what they have to say."""
    if not trims:
        return turn
    parts = (replace(part, payload=()) if isinstance(part, ResultView) else part for part in turn.parts)
    return replace(turn, parts=tuple(parts))


def _texts(evidence: Evidence) -> Iterator[Flaw]:
    """Each text that was given is there, in its order and under its role, and no other stands in the conversation."""
    for asked in evidence.asked:
        if asked.view.stateful:
            continue
        wanted = _given_texts(asked)
        sent = _sent_texts(asked)
        for position in range(max(len(wanted), len(sent))):
            given = wanted[position] if position < len(wanted) else None
            found = sent[position] if position < len(sent) else None
            if given is not None and found is not None and (found[0], found[1].text) == given:
                continue
            if _is_system(asked, found):
                break  # system-in-message says it
            yield Flaw(
                "a text of the conversation is missing, changed or added",
                asked.reading.index,
                found[1].pointer if found else "",
                f"{found[0]}: {found[1].text}" if found else None,
                f"{given[0]}: {given[1]}" if given else None,
            )
            break


def _given_texts(asked: Asked) -> list[tuple[str, str]]:
    return [
        (message.role.value, part.text)
        for message in asked.chat.request.messages
        for part in message.parts
        if isinstance(part, Text) and part.text
    ]


def _sent_texts(asked: Asked) -> list[tuple[str, TextView]]:
    """The texts of the conversation, without those that an API makes necessary: the instruction of JSON mode, and what
    is said of media that cannot stand inside a result (OC-8)."""
    return [
        (turn.role, part)
        for turn in asked.view.turns
        for part in turn.parts
        if isinstance(part, TextView)
        and part.text
        and not _is_instruction(asked, part)
        and not _is_caption(asked, turn.parts, part)
    ]


def _is_instruction(asked: Asked, text: TextView) -> bool:
    return text.text == JSON_INSTRUCTION and asked.chat.request.response_format is not None


def _is_system(asked: Asked, found: tuple[str, TextView] | None) -> bool:
    system = asked.chat.request.system
    return bool(system and found and system in found[1].text)


def _is_caption(asked: Asked, parts: tuple[PartView, ...], text: TextView) -> bool:
    """A text right before a medium of a tool result that had to move into a user turn."""
    position = next(index for index, part in enumerate(parts) if part is text)
    following = parts[position + 1] if position + 1 < len(parts) else None
    return isinstance(following, MediaView) and any(
        isinstance(part, Image | File) and part.data == following.data and part.uri == following.uri
        for message in asked.chat.request.messages
        for result in message.tool_results
        if isinstance(result.content, tuple)
        for part in result.content
    )


def _media(evidence: Evidence) -> Iterator[Flaw]:
    """Each image that was given is there, behind as many texts as it was given behind."""
    for asked in evidence.asked:
        if asked.view.stateful:
            continue
        sent = _sent_media(asked)
        complete = len(_given_texts(asked)) == len(_sent_texts(asked))  # else text-changed says it
        for image, texts in _given_images(asked):
            same = [(medium, before) for medium, before in sent if same_medium(medium, image)]
            if not same:
                yield Flaw(
                    "an image of the conversation is missing or changed",
                    asked.reading.index,
                    sent[0][0].pointer if sent else "",
                    [f"{medium.media_type}, {len(medium.data or b'')} bytes" for medium, _ in sent],
                    f"{image.media_type}, {len(image.data or b'')} bytes",
                )
            elif complete and texts not in [before for _, before in same]:
                yield Flaw(
                    "an image of the conversation stands in another place",
                    asked.reading.index,
                    same[0][0].pointer,
                    f"behind {same[0][1]} texts",
                    f"behind {texts} texts",
                )


def _given_images(asked: Asked) -> Iterator[tuple[Image, int]]:
    """The user's images, each with the number of texts in front of it."""
    texts = 0
    for message in asked.chat.request.messages:
        for part in message.parts:
            if isinstance(part, Text) and part.text:
                texts += 1
            elif isinstance(part, Image) and message.role is Role.USER:
                yield part, texts


def _sent_media(asked: Asked) -> list[tuple[MediaView, int]]:
    """The media of the conversation, each with the number of texts in front of it."""
    texts = {id(text) for _, text in _sent_texts(asked)}
    before = 0
    found: list[tuple[MediaView, int]] = []
    for turn in asked.view.turns:
        for part in turn.parts:
            if id(part) in texts:
                before += 1
            elif isinstance(part, MediaView):
                found.append((part, before))
    return found


_HISTORY = "harness.thread: history is append-only"

RULES = (
    Rule(
        "history-append-only",
        Subject.HISTORY,
        "What was sent once is sent again, unchanged, before what is new.",
        _HISTORY + "; AN-52",
        _append_only,
        kind=Kind.LOSS,
        because="the model reads another past than it had, and a signed prefix is refused",
    ),
    Rule(
        "text-changed",
        Subject.HISTORY,
        "Texts of the conversation arrive to the code point.",
        _HISTORY,
        _texts,
        kind=Kind.LOSS,
        because="the model reads other words than were said",
    ),
    Rule(
        "media-changed",
        Subject.HISTORY,
        "Images of the conversation arrive to the byte.",
        _HISTORY,
        _media,
        kind=Kind.LOSS,
        because="the model sees another picture",
    ),
)
