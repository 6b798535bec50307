"""Rules about the history: it is append-only, and its texts and media arrive unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import groupby, takewhile, zip_longest
from typing import Any, TypeAlias, TypeVar

from harness.apis.jsonvalue import parse_body, resolve
from harness.apis.response_rules import Subject
from harness.apis.view import MediaView, PartView, RequestView, ResultView, TextView, TurnView
from harness.equivalence.request_meaning import normal_form, with_ids_of
from harness.equivalence.result_meaning import is_same_text, same_medium
from harness.equivalence.view_differences import alike
from harness.model.messages import (
    JSON,
    JSON_INSTRUCTION,
    File,
    Image,
    Message,
    Refusal,
    Role,
    Text,
    Thinking,
    ToolResult,
)
from harness.results import Severity
from harness.rules.evidence import ChatExchange, Evidence
from harness.rules.rule import RuleTable, RuleViolation


@dataclass(frozen=True, slots=True)
class InlinedFiles:
    """The turns of a request, with text files that the adapter sent as text turned back into media.

    `inlined` lists these files. Captions that the adapter added to them are removed.
    """

    turns: tuple[TurnView, ...]
    inlined: tuple[MediaView, ...] = ()


def with_inlined_files(_evidence: Evidence, req: ChatExchange) -> InlinedFiles:
    """Return the turns of a request, with the user's text files turned back into media if the adapter sent them as
    text.
    """
    turns, inlined = req.view.turns, list[MediaView]()
    user_messages = [message for message in req.chat.request.messages if message.role is Role.USER]
    given = [part.text for message in user_messages for part in message.parts if isinstance(part, Text) and part.text]
    for file in (part for message in user_messages for part in message.parts if isinstance(part, File)):
        text = _text_of(file)
        if text and not any(
            isinstance(part, MediaView) and same_medium(part, file) for part in _all_parts(req.view.turns)
        ):
            turns, found = _restore_file(turns, file, text, given)
            inlined += [found] if found else []
    return InlinedFiles(turns, tuple(inlined))


def _all_parts(turns: Sequence[TurnView]) -> Iterator[PartView]:
    for turn in turns:
        yield from turn.parts


def _text_of(file: File) -> str | None:
    if file.data is None or not file.media_type.startswith("text/"):
        return None
    try:
        return file.data.decode()
    except UnicodeDecodeError:
        return None


def _restore_file(
    turns: tuple[TurnView, ...], file: File, text: str, given: Sequence[str]
) -> tuple[tuple[TurnView, ...], MediaView | None]:
    """Replace the first text that contains a file's content with the file. Texts of the caller are not replaced."""
    for place, turn in enumerate(turns):
        for index, part in enumerate(turn.parts):
            if turn.role != "user" or not isinstance(part, TextView) or text not in part.text or part.text in given:
                continue
            head, _, tail = part.text.partition(text)
            medium = MediaView(file.media_type, part.pointer, file.data)
            ahead, following = [*turn.parts[:index]], [*turn.parts[index + 1 :]]
            # a text that is a part of its own may be so short that a caption contains it by chance
            separate = {each.text for each in _all_parts(turns) if isinstance(each, TextView)}
            joined = [each for each in given if each not in separate]
            if not head and ahead and _is_file_caption(ahead[-1], given, joined):
                ahead.pop()
            if not tail and following and _is_file_caption(following[0], given, joined):
                following.pop(0)
            own = [
                replace(part, text=_up_to_last_text(head, joined)),
                medium,
                replace(part, text=_from_first_text(tail, joined)),
            ]
            parts = (*ahead, *(each for each in own if not isinstance(each, TextView) or each.text), *following)
            return (*turns[:place], replace(turn, parts=parts), *turns[place + 1 :]), medium
    return turns, None


def _is_file_caption(part: PartView, given: Sequence[str], joined: Sequence[str]) -> bool:
    return isinstance(part, TextView) and part.text not in given and not any(text in part.text for text in joined)


def _up_to_last_text(head: str, given: Sequence[str]) -> str:
    return head[: max((head.rfind(text) + len(text) for text in given if text in head), default=0)]


def _from_first_text(tail: str, given: Sequence[str]) -> str:
    starts = [tail.find(text) for text in given if text in tail]
    return tail[min(starts) :] if starts else ""


T = TypeVar("T")


_HISTORY = "harness.kit.thread: history is append-only"
RULES = RuleTable(Subject.HISTORY, _HISTORY)


@RULES.add(
    "history-append-only",
    "Earlier messages are sent again unchanged, before new ones.",
    source=_HISTORY + "; anthropic-thinking-bound-to-prefix",
    because="the model reads a different history, and the provider refuses a changed signed prefix",
    remedy="send the earlier messages unchanged, and add new ones after them",
)
def _append_only(evidence: Evidence) -> Iterator[RuleViolation]:
    previous: ChatExchange | None = None
    for req in evidence.chat_exchanges:
        before = previous
        previous = req
        if before is None or req.view.stateful or before.view.stateful:
            continue
        if _repeats(before.view, req.view):
            continue
        trims = _trims(evidence, before, req)
        then = normal_form(_without_instruction(before, before.view)).turns
        now = normal_form(_without_instruction(req, with_ids_of(before.view, req.view, evidence.issued_ids))).turns
        for position, turn in enumerate(then):
            found = now[position] if position < len(now) else None
            if found is None or not _is_continued(
                _without_trimmed_results(turn, trims), _without_trimmed_results(found, trims), is_last=turn is then[-1]
            ):
                message = "an entry that was sent before is gone or changed: the history is append-only"
                yield req.parsed.violation(
                    message, found.pointer if found else "", _entry(req, found) if found else None, _entry(before, turn)
                )
                break


def _repeats(before: RequestView, now: RequestView) -> bool:
    then, again = before.turns, now.turns[: len(before.turns)]
    return len(then) == len(again) and all(
        one is other or alike(one, other) for one, other in zip(then, again, strict=True)
    )


def _without_instruction(req: ChatExchange, view: RequestView) -> RequestView:
    """Return the request without the JSON instruction, which may differ from request to request."""
    turns = (
        replace(turn, parts=tuple(p for p in turn.parts if not (isinstance(p, TextView) and _is_instruction(req, p))))
        for turn in view.turns
    )
    return replace(view, turns=tuple(turns))


def _entry(req: ChatExchange, turn: TurnView) -> JSON:
    return resolve(parse_body(req.parsed.exchange.request.body), turn.pointer)


def _is_continued(turn: TurnView, now: TurnView, *, is_last: bool) -> bool:
    """Return whether an entry is unchanged. The last one may be longer if an answer failed and the user sent more."""
    parts, found = turn.parts, now.parts
    if is_last:
        found = found[: len(parts)]
        before, after = parts[-1] if parts else None, found[-1] if found else None
        if isinstance(before, TextView) and isinstance(after, TextView) and after.text.startswith(before.text):
            found = (*found[:-1], replace(after, text=before.text))
    return alike(replace(turn, parts=parts), replace(now, parts=found))


def _trims(evidence: Evidence, before: ChatExchange, req: ChatExchange) -> bool:
    scenario = evidence.transcript.scenario
    return scenario is not None and scenario.trim is not None and before.chat.turn < req.chat.turn


def _without_trimmed_results(turn: TurnView, trims: bool) -> TurnView:
    """Return the turn without result contents if results may be trimmed. `result-changed` checks contents.

    In the normal form, the media of results follow them. A text right before media may be their caption.
    """
    if not trims or not any(isinstance(part, ResultView) for part in turn.parts):
        return turn
    media = [isinstance(part, MediaView) for part in turn.parts] + [False]
    kept = (
        part
        for part, is_media, is_caption in zip(turn.parts, media, media[1:], strict=False)
        if not is_media and not (is_caption and isinstance(part, TextView))
    )
    parts = (replace(part, payload=()) if isinstance(part, ResultView) else part for part in kept)
    return replace(turn, parts=tuple(parts))


@RULES.add(
    "text-changed",
    "Texts of the conversation arrive unchanged.",
    because="the model reads different words",
    remedy="send the text unchanged: do not trim, join, escape or reword it",
)
def _texts(evidence: Evidence) -> Iterator[RuleViolation]:
    """Report texts that are missing, changed or added, by role and in order.

    Adjacent texts of a role are compared as one, since part boundaries do not matter.
    """
    for req in evidence.chat_exchanges:
        if req.view.stateful:
            continue
        given_texts, sent_texts = evidence.compute_once(_given_texts, req), evidence.compute_once(_sent_texts, req)
        thoughts = [*_foreign_thoughts(evidence, req)]
        converted = [part for _, part in sent_texts if part and _is_reasoning_as_text(part, thoughts, given_texts)]
        for part in converted:
            message = "reasoning of another model is sent as text of the conversation"
            # no text of the caller is lost, and no API has a field for this one
            yield req.parsed.violation(message, part.pointer, part.text, severity=Severity.WARNING)
        refusals = _refusals(req)
        wanted = [*_group_by_role(each for each in given_texts if each not in refusals)]
        kept = [(role, part) for role, part in sent_texts if part not in converted]
        sent = [*_group_by_role((role, part) for role, part in kept if (role, part and part.text) not in refusals)]
        position = _first_mismatch(wanted, sent)
        if position is None:
            continue
        blank = _blank_texts(req)
        if blank and _first_mismatch(_without_blanks(wanted, blank), _without_blanks(sent, blank)) is None:
            message = "a text of white space only was left out"
            yield req.parsed.violation(message, "", severity=Severity.NOTE, case="blank text")
            continue
        missing, flawed = _first_difference(wanted[position:], sent[position:])
        if _is_system(req, flawed[1] if flawed else None):
            continue  # reported by system-in-message
        yield req.parsed.violation(
            _text_message(missing, flawed),
            flawed[1].pointer if flawed else "",
            f"{flawed[0]}: {flawed[1].text}" if flawed else None,
            None if missing is None else f"{missing[0]}: {missing[1]}",
            case=_text_case(missing, flawed),
        )


_Runs: TypeAlias = Sequence[tuple[str, list[T]]]
"""Adjacent texts of a role, with the role."""


def _first_mismatch(wanted: _Runs[str], sent: _Runs[TextView]) -> int | None:
    """Return the position of the first texts that differ, or `None`."""
    for position, ((role, given), (found_role, found)) in enumerate(
        zip_longest(wanted, sent, fillvalue=("", list[Any]()))
    ):
        if role != found_role or not is_same_text(given, [part.text for part in found]):
            return position
    return None


def _blank_texts(req: ChatExchange) -> AbstractSet[tuple[str, str]]:
    """Return the texts of white space only, except those that are a whole user message.

    Adapters may leave them out, because Anthropic refuses messages of white space only (anthropic-no-empty-text).
    """
    return {
        (message.role.value, part.text)
        for message in req.chat.request.messages
        if message.role is Role.ASSISTANT or len(message.parts) > 1
        for part in message.parts
        if isinstance(part, Text) and part.text.isspace()
    }


def _without_blanks(runs: _Runs[T], blank: AbstractSet[tuple[str, str]]) -> _Runs[T]:
    kept = (
        (role, part)
        for role, run in runs
        for part in run
        if (role, part.text if isinstance(part, TextView) else part) not in blank
    )
    return [*_group_by_role(kept)]


def _text_message(missing: tuple[str, str] | None, flawed: tuple[str, TextView] | None) -> str:
    if flawed is None:
        return "a text of the conversation is missing"
    if missing is None:
        return "the request has a text that is not in the conversation"
    is_same_role = missing[0] == flawed[0]
    return f"a text of the conversation {'was changed' if is_same_role else 'is missing, or has another place'}"


def _text_case(missing: tuple[str, str] | None, flawed: tuple[str, TextView] | None) -> str:
    if missing is None or flawed is None:
        return f"{flawed[0]} added" if flawed else f"{missing[0]} missing" if missing else ""
    return f"{missing[0]} changed"


def _refusals(req: ChatExchange) -> Sequence[tuple[str, str | None]]:
    """Return the refusals of the history, with the assistant's role. For an API without refusals, an adapter may send
    them as text or leave them out.
    """
    parts = [part for message in req.chat.request.messages for part in message.parts]
    return [(Role.ASSISTANT.value, part.text) for part in parts if isinstance(part, Refusal)]


def _first_difference(
    wanted: Iterable[tuple[str, list[str]]], sent: Iterable[tuple[str, list[TextView]]]
) -> tuple[tuple[str, str] | None, tuple[str, TextView] | None]:
    """Return the first differing pair: the caller's text and the text that was sent. One is `None` if the text is
    missing or was added."""
    given = [(role, text) for role, run in wanted for text in run]
    found = [(role, part) for role, run in sent for part in run]
    sent_texts = [(role, part.text) for role, part in found]
    at = _count_equal(given, sent_texts)
    missing = given[at] if at < len(given) else None
    flawed = found[at] if at < len(found) else None
    if missing is None or flawed is None:
        return missing, flawed
    without, beside = _count_equal(given[at + 1 :], sent_texts[at:]), _count_equal(given[at:], sent_texts[at + 1 :])
    if without or beside:
        return (missing, None) if without > beside else (None, flawed)
    return missing, flawed


def _count_equal(given: list[tuple[str, str]], sent: list[tuple[str, str]]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(given, sent, strict=False)))


def _foreign_thoughts(evidence: Evidence, req: ChatExchange) -> Iterator[str]:
    """Yield the reasoning in the initial history that another API issued. This API has no field for it."""
    for message in evidence.transcript.chats[0].request.messages:
        for part in message.parts:
            if isinstance(part, Thinking) and part.text.strip() and req.view.api not in part.provider_metadata:
                yield part.text.strip()


def _is_reasoning_as_text(part: TextView, thoughts: list[str], given_texts: Sequence[tuple[str, str | None]]) -> bool:
    """Return whether the adapter added this text and it contains one of the `thoughts`."""
    return any(thought in part.text for thought in thoughts) and not any(part.text == given for _, given in given_texts)


def _group_by_role(texts: Iterable[tuple[str, T | None]]) -> Iterator[tuple[str, list[T]]]:
    """Group adjacent texts by role. An entry without text (`None`) only separates groups."""
    for role, group in groupby(texts, key=lambda text: text[0]):
        run = [text for _, text in group if text is not None]
        if run:
            yield role, run


def _given_texts(_evidence: Evidence, req: ChatExchange) -> Sequence[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    for message in req.chat.request.messages:
        for part in message.parts:
            if isinstance(part, ToolResult):
                found.append((message.role.value, None))
            elif isinstance(part, Text) and part.text:
                found.append((message.role.value, part.text))
    return found


def _sent_texts(evidence: Evidence, req: ChatExchange) -> Sequence[tuple[str, TextView | None]]:
    """Return the texts of the conversation, without JSON instructions and captions of moved media
    (openai-chat-result-text-only)."""
    found: list[tuple[str, TextView | None]] = []
    turns = evidence.compute_once(with_inlined_files, req).turns
    if evidence.transcript.profile.reply_after_results:
        given = {text for _, text in evidence.compute_once(_given_texts, req)}
        turns = [turn for at, turn in enumerate(turns) if not _is_required_reply(turns, at, given)]
    for turn in turns:
        for part in turn.parts:
            if isinstance(part, ResultView):
                found.append((turn.role, None))
            elif (
                isinstance(part, TextView)
                and part.text
                and not _is_instruction(req, part)
                and not _is_caption(evidence, req, turn.parts, part)
            ):
                found.append((turn.role, part))
    return found


def _is_required_reply(turns: Sequence[TurnView], at: int, given: AbstractSet[str | None]) -> bool:
    """Return whether an adapter added a reply between results and a user turn (openai-chat-mistral-user-after-tool)."""
    if not 0 < at < len(turns) - 1:
        return False
    texts = [part for part in turns[at].parts if isinstance(part, TextView)]
    after_results = any(isinstance(part, ResultView) for part in turns[at - 1].parts)
    alone = turns[at].role == "assistant" and len(texts) == len(turns[at].parts) == 1 and texts[0].text not in given
    return after_results and alone and turns[at + 1].role == "user"


def _is_instruction(req: ChatExchange, text: TextView) -> bool:
    return text.text == JSON_INSTRUCTION and req.chat.request.response_format is not None


def _is_system(req: ChatExchange, found: TextView | None) -> bool:
    system = req.chat.request.system
    return bool(system and found and system in found.text)


def _is_caption(evidence: Evidence, req: ChatExchange, parts: tuple[PartView, ...], text: TextView) -> bool:
    """Return whether a text is a caption that the adapter added to media that it moved out of a tool result."""
    position = next(index for index, part in enumerate(parts) if part is text)
    beside = (*parts[max(position - 1, 0) : position], *parts[position + 1 : position + 2])
    media = [part for part in beside if isinstance(part, MediaView)]
    if not media or any(given == text.text for _, given in evidence.compute_once(_given_texts, req)):
        return False
    moved = [part for message in req.chat.request.messages for part in _result_media(message)]
    return any(part.data == near.data and part.uri == near.uri for near in media for part in moved)


def _result_media(message: Message) -> Iterator[Image | File]:
    for result in message.tool_results:
        for part in result.content if isinstance(result.content, tuple) else ():
            if isinstance(part, Image | File):
                yield part


@RULES.add(
    "media-changed",
    "Images and files of the conversation arrive unchanged.",
    because="the model sees another picture or reads another file",
    remedy="send the bytes unchanged, in base64 and with their media type",
)
def _media(evidence: Evidence) -> Iterator[RuleViolation]:
    for req in evidence.chat_exchanges:
        given_media = [] if req.view.stateful else [*_given_media(req)]
        if not req.view.stateful:
            yield from _repeated_media(req)
        if not given_media:
            continue
        given_texts, sent_texts = evidence.compute_once(_given_texts, req), evidence.compute_once(_sent_texts, req)
        with_files = evidence.compute_once(with_inlined_files, req)
        sent = _sent_media(with_files.turns, sent_texts)
        joined = "".join(part.text for _, part in sent_texts if part)
        complete = joined == "".join(text for _, text in given_texts if text)  # text-changed reports the others
        for given, offset in given_media:
            what = "an image" if isinstance(given, Image) else "a file"
            same = [(medium, before) for medium, before in sent if same_medium(medium, given)]
            if not same:
                message = f"{what} of the conversation is missing or changed"
                yield req.parsed.violation(
                    message,
                    sent[0][0].pointer if sent else "",
                    [f"{medium.media_type}, {len(medium.data or b'')} bytes" for medium, _ in sent],
                    f"{given.media_type}, {len(given.data or b'')} bytes",
                    case="missing",
                )
            elif complete and offset not in [before for _, before in same]:
                message = f"{what} of the conversation is in another place"
                yield req.parsed.violation(
                    message,
                    same[0][0].pointer,
                    f"after {same[0][1]} characters of text",
                    f"after {offset} characters of text",
                    case="moved",
                )
        for medium in () if evidence.api.traits.files_are_pdf else with_files.inlined:
            message = "a text file is sent as text, although the API accepts it as a file"
            # the whole text arrives
            yield req.parsed.violation(message, medium.pointer, severity=Severity.WARNING, case="inlined")


def _repeated_media(req: ChatExchange) -> Iterator[RuleViolation]:
    """Report media of the user and of results that are sent more often than they were given."""
    given = [part for part, _ in _given_media(req)]
    given += [part for message in req.chat.request.messages for part in _result_media(message)]
    sent: list[MediaView] = []
    for turn in req.view.turns if given else ():
        for part in turn.parts:
            payload = part.payload if isinstance(part, ResultView) else (part,)
            sent += [each for each in payload if isinstance(each, MediaView)]
    for place, medium in enumerate(sent):
        before = sum(medium.data == other.data and medium.uri == other.uri for other in sent[:place])
        if before and before == sum(same_medium(medium, each) for each in given):
            message = "an image or file of the conversation is sent more than once"
            yield req.parsed.violation(message, medium.pointer, before + 1, before, case="repeated")


def _given_media(req: ChatExchange) -> Iterator[tuple[Image | File, int]]:
    """Yield the user's media, each with the length of the preceding text."""
    offset = 0
    for message in req.chat.request.messages:
        for part in message.parts:
            if isinstance(part, Text):
                offset += len(part.text)
            elif isinstance(part, Image | File) and message.role is Role.USER:
                yield part, offset


def _sent_media(
    turns: Sequence[TurnView], sent_texts: Sequence[tuple[str, TextView | None]]
) -> list[tuple[MediaView, int]]:
    """Return the media of the conversation, each with the length of the preceding text."""
    texts = {id(text) for _, text in sent_texts if text}
    offset = 0
    found: list[tuple[MediaView, int]] = []
    for turn in turns:
        for part in turn.parts:
            if isinstance(part, TextView) and id(part) in texts:
                offset += len(part.text)
            elif isinstance(part, MediaView):
                found.append((part, offset))
    return found
