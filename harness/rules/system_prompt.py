"""The system prompt: once in every request, in the API's place, verbatim, in no message; absent when there is none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from harness.apis.view import SystemView, TextView
from harness.contract.model import JSON_INSTRUCTION
from harness.meaning.result_meaning import fold_system_texts
from harness.results import Kind
from harness.rules.emulation import format_tool
from harness.rules.evidence import Asked, Evidence
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject


def _wanted(asked: Asked) -> str | None:
    return asked.chat.request.system or None


def _prompts(asked: Asked) -> list[SystemView]:
    """The system texts but for what JSON mode needs without a switch. What is told in several blocks is the one text
    that they amount to."""
    system = _wanted(asked)
    told = fold_system_texts(asked.view.system, system) if system else [*asked.view.system]
    if asked.chat.request.response_format is None:
        return told
    tool = format_tool(asked)
    words = ("json",) if tool is None else ("json", tool.name.lower())
    prompts = [_uninstructed(part, system, words) for part in told if not _is_instruction(part, system, words)]
    return prompts or [part for part in told if system and _retells(part.text, system)]


def _is_instruction(part: SystemView, system: str | None, words: tuple[str, ...]) -> bool:
    """A block of its own that asks for JSON, by one of these words."""
    if system and system.strip() in part.text:
        return False
    return part.text == JSON_INSTRUCTION or _speaks_of(part.text, words)


def _uninstructed(part: SystemView, system: str | None, words: tuple[str, ...]) -> SystemView:
    """The prompt alone where the instruction stands right behind it in the same block."""
    if system and part.text.startswith(system) and _speaks_of(part.text.removeprefix(system), words):
        return replace(part, text=system)
    return part


def _retells(text: str, system: str) -> bool:
    """Most words of the prompt are there: it is the prompt in other words, where it speaks of JSON by itself."""
    wanted = {*system.split()}
    return len(wanted.intersection(text.split())) > len(wanted) / 2


def _speaks_of(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text.lower() for word in words)


def _texts(asked: Asked) -> list[TextView]:
    return [part for turn in asked.view.turns for part in turn.parts if isinstance(part, TextView)]


def _given_texts(asked: Asked) -> str:
    return "\0".join(message.text for message in asked.chat.request.messages)


def _missing(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.asked:
        system = _wanted(asked)
        if system is not None and not any(part.text for part in _prompts(asked)):
            yield Flaw("the system prompt is nowhere in the API's place for it", asked.reading.index, "", None, system)


def _in_message(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.asked:
        system = _wanted(asked)
        found = [part for part in _texts(asked) if system is not None and system in part.text]
        if system is None or not found or system in _given_texts(asked):
            continue
        for part in found:
            yield Flaw(
                "the system prompt stands in a message of the conversation",
                asked.reading.index,
                part.pointer,
                part.text,
            )


def _repeated(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.asked:
        system = _wanted(asked)
        if system is None:
            continue
        copies = [(part, part.text.count(system)) for part in _prompts(asked)]
        if sum(count for _, count in copies) > 1:
            part = [part for part, count in copies if count][-1]
            total = sum(count for _, count in copies)
            yield Flaw("the system prompt stands there more than once", asked.reading.index, part.pointer, total, 1)
    if not evidence.transcript.chats:
        for reading in evidence.readings:
            seen: set[str] = set()
            for part in reading.request.system if reading.request else ():
                if part.text in seen:
                    yield Flaw("the same system text stands there twice", reading.index, part.pointer, part.text)
                seen.add(part.text)


def _not_verbatim(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.asked:
        system, previous = _wanted(asked), _previous(evidence, asked)
        for part in _prompts(asked) if system is not None else ():
            stale = previous is not None and previous in part.text
            repeated = system is not None and part.text.count(system) > 1
            if part.text != system and not stale and not repeated:
                trimmed = system is not None and part.text.strip() == system.strip()
                what = (
                    "is sent with other blank space around it"
                    if trimmed
                    else "is not what was given, to the code point"
                )
                yield Flaw(
                    f"the system prompt {what}",
                    asked.reading.index,
                    part.pointer,
                    part.text,
                    system,
                    kind=Kind.CONVENTION if trimmed else None,  # it holds no instruction
                )


def _misplaced(evidence: Evidence) -> Iterator[Flaw]:
    places = evidence.api.system_places
    for asked in evidence.asked:
        for part in _prompts(asked):
            if part.place not in places:
                yield Flaw(
                    f"a system text stands in {part.place}",
                    asked.reading.index,
                    part.pointer,
                    part.place,
                    [*sorted(places)],
                )
            elif part.before_turn:
                yield Flaw(
                    f"a system text stands behind {part.before_turn} entries of the conversation",
                    asked.reading.index,
                    part.pointer,
                    part.before_turn,
                    0,
                )


def _when_absent(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.asked:
        if _wanted(asked) is None:
            previous = _previous(evidence, asked)
            for part in _prompts(asked):
                if part.text != previous:
                    yield Flaw(
                        "there is no system prompt, and the request has a system text",
                        asked.reading.index,
                        part.pointer,
                        part.text,
                    )


def _stale(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.asked:
        previous = _previous(evidence, asked)
        system = _wanted(asked)
        if previous is None or previous == system or previous in (system or ""):
            continue
        for part in _prompts(asked):
            if previous in part.text:
                yield Flaw(
                    "the system prompt has changed, and the one before still goes out",
                    asked.reading.index,
                    part.pointer,
                    part.text,
                    system,
                )


def _previous(evidence: Evidence, asked: Asked) -> str | None:
    """The last system prompt that was in force before another one took over."""
    system = _wanted(asked)
    earlier = [_wanted(other) for other in evidence.asked if other.index < asked.index]
    return next((prompt for prompt in reversed(earlier) if prompt is not None and prompt != system), None)


_SYSTEM = "harness.contract.model: the system prompt is a field"

RULES = (
    Rule(
        "system-missing",
        Subject.SYSTEM_PROMPT,
        "The system prompt is in every request.",
        _SYSTEM,
        _missing,
        kind=Kind.LOSS,
        because="the model does not know its instructions",
        remedy="put the system prompt into {system}, in every request",
    ),
    Rule(
        "system-in-message",
        Subject.SYSTEM_PROMPT,
        "The system prompt is in no message.",
        _SYSTEM,
        _in_message,
        kind=Kind.LOSS,
        because="the user speaks with the voice of the system",
        remedy="put the system prompt into {system}, and not among what the user and the assistant say",
    ),
    Rule(
        "system-repeated",
        Subject.SYSTEM_PROMPT,
        "The system prompt is there once.",
        _SYSTEM,
        _repeated,
        kind=Kind.LOSS,
        because="the model reads its instructions twice, at the caller's cost",
        remedy="put the system prompt into {system} once",
    ),
    Rule(
        "system-verbatim",
        Subject.SYSTEM_PROMPT,
        "The system prompt is sent as given.",
        _SYSTEM,
        _not_verbatim,
        kind=Kind.LOSS,
        because="the model reads other instructions",
        remedy="send the system prompt as it was given; instructions of the adapter's own go into another block",
    ),
    Rule(
        "system-place",
        Subject.SYSTEM_PROMPT,
        "The system prompt stands in the API's place for it.",
        "anthropic-system-field, openai-chat-system-anywhere, openai-responses-system-places, "
        "gemini-system-instruction",
        _misplaced,
        kind=Kind.LOSS,
        because="instructions in another place have another weight",
        remedy="put the system prompt into {system}",
    ),
    Rule(
        "system-when-absent",
        Subject.SYSTEM_PROMPT,
        "Without a system prompt, or with an empty one, nothing is sent in its place.",
        _SYSTEM + "; anthropic-no-empty-text, anthropic-system-field",
        _when_absent,
        kind=Kind.LOSS,
        because="the model gets instructions that nobody gave",
        remedy="send nothing as a system prompt where there is none or an empty one",
    ),
    Rule(
        "system-stale",
        Subject.SYSTEM_PROMPT,
        "A changed system prompt replaces the one before.",
        _SYSTEM,
        _stale,
        kind=Kind.LOSS,
        because="the model follows instructions that are no longer in force",
        remedy="send the system prompt of this request, not the one of an earlier request",
    ),
)
