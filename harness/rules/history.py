"""History: append-only, texts and media verbatim."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, takewhile
from typing import TypeVar

from harness.apis.jsonvalue import parsed, resolve
from harness.apis.view import MediaView, PartView, RequestView, ResultView, TextView, TurnView
from harness.contract.model import JSON, JSON_INSTRUCTION, File, Image, Message, Role, Text, Thinking, ToolResult
from harness.meaning.request_meaning import normal_form, with_ids_of
from harness.meaning.result_meaning import is_same_text, same_medium
from harness.meaning.view_differences import alike
from harness.results import Kind, Severity
from harness.rules.evidence import Asked, Evidence
from harness.rules.inlined import conversation
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject

T = TypeVar("T")


def _append_only(evidence: Evidence) -> Iterator[Flaw]:
    previous: Asked | None = None
    for asked in evidence.asked:
        before = previous
        previous = asked
        if before is None or asked.view.stateful or before.view.stateful:
            continue
        if _says_again(before.view, asked.view):
            continue
        trims = _trims(evidence, before, asked)
        then = normal_form(_uninstructed(before, before.view)).turns
        now = normal_form(_uninstructed(asked, with_ids_of(before.view, asked.view, evidence.issued_ids))).turns
        for position, turn in enumerate(then):
            found = now[position] if position < len(now) else None
            if found is None or not _is_continued(
                _weighed(turn, trims), _weighed(found, trims), is_last=turn is then[-1]
            ):
                yield Flaw(
                    "an entry that was sent before is gone or changed: the history is append-only",
                    asked.reading.index,
                    found.pointer if found else "",
                    _written(asked, found) if found else None,
                    _written(before, turn),
                )
                break


def _says_again(before: RequestView, now: RequestView) -> bool:
    """All entries are there as they were: what they mean may differ all the same, where several calls have one id."""
    then, again = before.turns, now.turns[: len(before.turns)]
    return len(then) == len(again) and all(
        one is other or alike(one, other) for one, other in zip(then, again, strict=True)
    )


def _uninstructed(asked: Asked, view: RequestView) -> RequestView:
    """The request without the instruction of JSON mode, which is the setting's and comes and goes with it."""
    turns = (
        replace(turn, parts=tuple(p for p in turn.parts if not (isinstance(p, TextView) and _is_instruction(asked, p))))
        for turn in view.turns
    )
    return replace(view, turns=tuple(turns))


def _written(asked: Asked, turn: TurnView) -> JSON:
    """An entry as it stands in the request."""
    return resolve(parsed(asked.reading.exchange.request.body), turn.pointer)


def _is_continued(turn: TurnView, now: TurnView, *, is_last: bool) -> bool:
    """The entry says what it said before; the last one may go on, where an answer failed and the user spoke again."""
    parts, found = turn.parts, now.parts
    if is_last:
        found = found[: len(parts)]
        before, after = parts[-1] if parts else None, found[-1] if found else None
        if isinstance(before, TextView) and isinstance(after, TextView) and after.text.startswith(before.text):
            found = (*found[:-1], replace(after, text=before.text))
    return alike(replace(turn, parts=parts), replace(now, parts=found))


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
    """Each text that was given is there, in its order and under its role, and no other stands in the conversation.

    Where one part ends and the next begins does not matter: the texts of a role that stand side by side are compared as
    one.
    """
    for asked in evidence.asked:
        if asked.view.stateful:
            continue
        thoughts = [*_foreign_thoughts(evidence, asked)]
        given_texts, sent_texts = evidence.once(_given_texts, asked), evidence.once(_sent_texts, asked)
        retold = [part for _, part in sent_texts if part and _tells(part, thoughts, given_texts)] if thoughts else []
        for part in retold:
            yield Flaw(
                "reasoning of another model is told as a text of the conversation",
                asked.reading.index,
                part.pointer,
                part.text,
                severity=Severity.WARNING,  # nothing that was given is lost, and no API has a place for it
            )
        wanted = [*_runs(given_texts)]
        sent = [*_runs((role, part) for role, part in sent_texts if part not in retold)]
        for position in range(max(len(wanted), len(sent))):
            role, given = wanted[position] if position < len(wanted) else ("", [])
            found_role, found = sent[position] if position < len(sent) else ("", [])
            if role == found_role and is_same_text(given, [part.text for part in found]):
                continue
            missing, flawed = _first_difference(wanted[position:], sent[position:])
            if _is_system(asked, flawed[1] if flawed else None):
                break  # system-in-message says it
            yield Flaw(
                "a text of the conversation is missing, changed or added",
                asked.reading.index,
                flawed[1].pointer if flawed else "",
                f"{flawed[0]}: {flawed[1].text}" if flawed else None,
                None if missing is None else f"{missing[0]}: {missing[1]}",
            )
            break


def _first_difference(
    wanted: Iterable[tuple[str, list[str]]], sent: Iterable[tuple[str, list[TextView]]]
) -> tuple[tuple[str, str] | None, tuple[str, TextView] | None]:
    """The first text that was given and is not there, and the one in its place: one of them alone where a text is
    missing or was added, and the rest goes on as it was given."""
    given = [(role, text) for role, run in wanted for text in run]
    found = [(role, part) for role, run in sent for part in run]
    told = [(role, part.text) for role, part in found]
    at = _alike(given, told)
    missing = given[at] if at < len(given) else None
    flawed = found[at] if at < len(found) else None
    if missing is None or flawed is None:
        return missing, flawed
    without, beside = _alike(given[at + 1 :], told[at:]), _alike(given[at:], told[at + 1 :])
    if without or beside:
        return (missing, None) if without > beside else (None, flawed)
    return missing, flawed


def _alike(given: list[tuple[str, str]], told: list[tuple[str, str]]) -> int:
    """How many texts are the same from the first one on."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(given, told, strict=False)))


def _foreign_thoughts(evidence: Evidence, asked: Asked) -> Iterator[str]:
    """Reasoning in a history that came from elsewhere, and bears no field of this API that it could go back by."""
    for message in evidence.transcript.chats[0].request.messages:
        for part in message.parts:
            if isinstance(part, Thinking) and part.text.strip() and asked.view.api not in part.provider_metadata:
                yield part.text.strip()


def _tells(part: TextView, thoughts: list[str], given_texts: Sequence[tuple[str, str | None]]) -> bool:
    """A text that nobody gave, and that holds such reasoning."""
    return any(thought in part.text for thought in thoughts) and not any(part.text == given for _, given in given_texts)


def _runs(texts: Iterable[tuple[str, T | None]]) -> Iterator[tuple[str, list[T]]]:
    """The texts of each role that stand side by side; `None` is what separates them and is no text itself."""
    for role, group in groupby(texts, key=lambda text: text[0]):
        run = [text for _, text in group if text is not None]
        if run:
            yield role, run


def _given_texts(_evidence: Evidence, asked: Asked) -> Sequence[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    for message in asked.chat.request.messages:
        for part in message.parts:
            if isinstance(part, ToolResult):
                found.append((message.role.value, None))
            elif isinstance(part, Text) and part.text:
                found.append((message.role.value, part.text))
    return found


def _sent_texts(evidence: Evidence, asked: Asked) -> Sequence[tuple[str, TextView | None]]:
    """The texts of the conversation, without those that an API makes necessary: the instruction of JSON mode, and what
    is said of media that cannot stand inside a result (openai-chat-result-text-only)."""
    found: list[tuple[str, TextView | None]] = []
    for turn in evidence.once(conversation, asked).turns:
        for part in turn.parts:
            if isinstance(part, ResultView):
                found.append((turn.role, None))
            elif (
                isinstance(part, TextView)
                and part.text
                and not _is_instruction(asked, part)
                and not _is_caption(evidence, asked, turn.parts, part)
            ):
                found.append((turn.role, part))
    return found


def _is_instruction(asked: Asked, text: TextView) -> bool:
    return text.text == JSON_INSTRUCTION and asked.chat.request.response_format is not None


def _is_system(asked: Asked, found: TextView | None) -> bool:
    system = asked.chat.request.system
    return bool(system and found and system in found.text)


def _is_caption(evidence: Evidence, asked: Asked, parts: tuple[PartView, ...], text: TextView) -> bool:
    """A text right beside a medium of a tool result that had to move into a user turn, and none that was given."""
    position = next(index for index, part in enumerate(parts) if part is text)
    beside = (*parts[max(position - 1, 0) : position], *parts[position + 1 : position + 2])
    media = [part for part in beside if isinstance(part, MediaView)]
    if not media or any(given == text.text for _, given in evidence.once(_given_texts, asked)):
        return False
    moved = [part for message in asked.chat.request.messages for part in _result_media(message)]
    return any(part.data == near.data and part.uri == near.uri for near in media for part in moved)


def _result_media(message: Message) -> Iterator[Image | File]:
    for result in message.tool_results:
        for part in result.content if isinstance(result.content, tuple) else ():
            if isinstance(part, Image | File):
                yield part


def _media(evidence: Evidence) -> Iterator[Flaw]:
    """Each medium of the user is there, behind as much text as it was given behind."""
    for asked in evidence.asked:
        given_media = [] if asked.view.stateful else [*_given_media(asked)]
        if not given_media:
            continue
        given_texts, sent_texts = evidence.once(_given_texts, asked), evidence.once(_sent_texts, asked)
        told_in = evidence.once(conversation, asked)
        sent = _sent_media(told_in.turns, sent_texts)
        told = "".join(part.text for _, part in sent_texts if part)
        complete = told == "".join(text for _, text in given_texts if text)  # else text-changed says it
        for given, behind in given_media:
            what = "an image" if isinstance(given, Image) else "a file"
            same = [(medium, before) for medium, before in sent if same_medium(medium, given)]
            if not same:
                yield Flaw(
                    f"{what} of the conversation is missing or changed",
                    asked.reading.index,
                    sent[0][0].pointer if sent else "",
                    [f"{medium.media_type}, {len(medium.data or b'')} bytes" for medium, _ in sent],
                    f"{given.media_type}, {len(given.data or b'')} bytes",
                    case="missing",
                )
            elif complete and behind not in [before for _, before in same]:
                yield Flaw(
                    f"{what} of the conversation stands in another place",
                    asked.reading.index,
                    same[0][0].pointer,
                    f"behind {same[0][1]} characters of text",
                    f"behind {behind} characters of text",
                    case="moved",
                )
        for medium in () if evidence.api.traits.files_are_pdf else told_in.inlined:
            yield Flaw(
                "a text file is told as a text of the conversation, and the API takes it as a file",
                asked.reading.index,
                medium.pointer,
                severity=Severity.WARNING,  # all of its words arrive
                case="inlined",
            )


def _given_media(asked: Asked) -> Iterator[tuple[Image | File, int]]:
    """The user's media, each with the length of the text in front of it."""
    behind = 0
    for message in asked.chat.request.messages:
        for part in message.parts:
            if isinstance(part, Text):
                behind += len(part.text)
            elif isinstance(part, Image | File) and message.role is Role.USER:
                yield part, behind


def _sent_media(
    turns: Sequence[TurnView], sent_texts: Sequence[tuple[str, TextView | None]]
) -> list[tuple[MediaView, int]]:
    """The media of the conversation, each with the length of the text in front of it."""
    texts = {id(text) for _, text in sent_texts if text}
    behind = 0
    found: list[tuple[MediaView, int]] = []
    for turn in turns:
        for part in turn.parts:
            if isinstance(part, TextView) and id(part) in texts:
                behind += len(part.text)
            elif isinstance(part, MediaView):
                found.append((part, behind))
    return found


_HISTORY = "harness.kit.thread: history is append-only"

RULES = (
    Rule(
        "history-append-only",
        Subject.HISTORY,
        "What was sent once is sent again, unchanged, before what is new.",
        _HISTORY + "; anthropic-thinking-bound-to-prefix",
        _append_only,
        kind=Kind.LOSS,
        because="the model reads another past than it had, and a signed prefix is refused",
        remedy="send the earlier messages unchanged, and add new ones after them",
    ),
    Rule(
        "text-changed",
        Subject.HISTORY,
        "Texts of the conversation arrive to the code point.",
        _HISTORY,
        _texts,
        kind=Kind.LOSS,
        because="the model reads other words than were said",
        remedy="send the text as it was given: do not trim, join, escape or reword it",
    ),
    Rule(
        "media-changed",
        Subject.HISTORY,
        "Images and files of the conversation arrive to the byte.",
        _HISTORY,
        _media,
        kind=Kind.LOSS,
        because="the model sees another picture or reads another file",
        remedy="send the bytes as they were given, in base64 with their own media type",
    ),
)
