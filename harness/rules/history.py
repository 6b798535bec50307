"""History: append-only, texts and media verbatim, opaque state returned untouched and in its place."""

from __future__ import annotations

from collections.abc import Iterator

from harness.model import JSON, JSON_INSTRUCTION, File, Image, Role, Text
from harness.rules.evidence import Asked, Evidence
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject
from harness.wire.compare import likeness
from harness.wire.jsonvalue import equal
from harness.wire.view import CallView, MediaView, OpaqueView, PartView, ResponseView, TextView

_NOT_RETURNED = frozenset({"reasoning_content", "reasoning", "refusal", "annotations", "audio"})
"""Kinds that Chat Completions shows and has no field to take back (OC-15)."""


def _append_only(evidence: Evidence) -> Iterator[Flaw]:
    previous: Asked | None = None
    for asked in evidence.asked:
        before = previous
        previous = asked
        if before is None or asked.view.stateful or before.view.stateful:
            continue
        for position, turn in enumerate(before.view.turns):
            now = asked.view.turns[position] if position < len(asked.view.turns) else None
            if now is None or likeness(now) != likeness(turn):
                yield Flaw(
                    "an entry that was sent before is gone or changed: the history is append-only",
                    asked.reading.index,
                    now.pointer if now else "",
                    repr(likeness(now)) if now else None,
                    repr(likeness(turn)),
                )
                break


def _texts(evidence: Evidence) -> Iterator[Flaw]:
    """Each text that was given is there, in its order and under its role; no other text stands in the conversation but
    what comes with media that an API does not take in its place (OC-8)."""
    for asked in evidence.asked:
        if asked.view.stateful:
            continue
        wanted = [
            (message.role.value, part.text)
            for message in asked.chat.request.messages
            for part in message.parts
            if isinstance(part, Text) and part.text
        ]
        sent = [
            (turn.role, part)
            for turn in asked.view.turns
            for part in turn.parts
            if isinstance(part, TextView) and part.text and not _is_caption(asked, turn.parts, part)
        ]
        for position in range(max(len(wanted), len(sent))):
            given = wanted[position] if position < len(wanted) else None
            found = sent[position] if position < len(sent) else None
            if given is not None and found is not None and (found[0], found[1].text) == given:
                continue
            if found is not None and found[1].text == JSON_INSTRUCTION and asked.chat.request.response_format:
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
    for asked in evidence.asked:
        wanted = [
            part
            for message in asked.chat.request.messages
            if message.role is Role.USER
            for part in message.parts
            if isinstance(part, Image)
        ]
        sent = [part for turn in asked.view.turns for part in turn.parts if isinstance(part, MediaView)]
        for image in wanted:
            if not any(m.data == image.data and (image.data is not None or m.uri == image.uri) for m in sent):
                yield Flaw(
                    "an image of the conversation is missing or changed",
                    asked.reading.index,
                    sent[0].pointer if sent else "",
                    [f"{m.media_type}, {len(m.data or b'')} bytes" for m in sent],
                    f"{image.media_type}, {len(image.data or b'')} bytes",
                )


def _opaque_of(api: str, response: ResponseView) -> list[tuple[str, JSON, str]]:
    """The opaque state of a response: what kind, the state itself, what it sits on."""
    state: list[tuple[str, JSON, str]] = []
    for part in response.parts:
        if isinstance(part, OpaqueView):
            if api == "openai-chat" and part.kind in _NOT_RETURNED:
                continue
            if part.kind in ("thought", "refusal") and _signature(part.raw) is None:
                continue  # a summary for people, without state
            state.append((part.kind, part.raw, "a part of its own"))
        elif isinstance(part, CallView | TextView) and part.opaque is not None:
            state.append(("signature", part.opaque, part.name if isinstance(part, CallView) else "text"))
    return state


def _signature(raw: JSON) -> JSON:
    if not isinstance(raw, dict):
        return None
    return raw.get("thoughtSignature", raw.get("thought_signature"))


def _state_in(asked: Asked) -> list[tuple[str, JSON, str, str]]:
    state: list[tuple[str, JSON, str, str]] = []
    for turn in asked.view.turns:
        for part in turn.parts:
            if isinstance(part, OpaqueView):
                state.append((part.kind, part.raw, "a part of its own", part.pointer))
            elif isinstance(part, CallView | TextView) and part.opaque is not None:
                state.append(
                    ("signature", part.opaque, part.name if isinstance(part, CallView) else "text", part.pointer)
                )
    return state


def _opaque(evidence: Evidence) -> Iterator[Flaw]:
    """Every opaque thing of earlier responses is in the request, untouched, in the order it came."""
    api = evidence.transcript.api
    for asked in evidence.asked:
        if asked.view.stateful:
            continue
        sent = _state_in(asked)
        position = 0
        for earlier in range(asked.index):
            reading = evidence.answer(earlier)
            if reading is None or reading.response is None or evidence.transcript.chats[earlier].response is None:
                continue
            for kind, raw, holder in _opaque_of(api, reading.response):
                match = next(
                    (
                        index
                        for index in range(position, len(sent))
                        if sent[index][0] == kind and sent[index][2] == holder and _same_state(sent[index][1], raw)
                    ),
                    None,
                )
                if match is None:
                    near = next((entry for entry in sent[position:] if entry[0] == kind), None)
                    yield Flaw(
                        f"opaque state of an earlier answer ({kind} on {holder}) did not come back untouched in its "
                        "place",
                        asked.reading.index,
                        near[3] if near else "",
                        near[1] if near else None,
                        raw,
                    )
                    return
                position = match + 1


_STATELESS_KEYS = frozenset({"id", "status"})
"""Labels of a Responses item that carry no state (RS-7)."""


def _same_state(sent: JSON, issued: JSON) -> bool:
    if isinstance(sent, dict) and isinstance(issued, dict):
        labels = _STATELESS_KEYS if issued.get("type") == "reasoning" else frozenset[str]()
        keys = (sent.keys() | issued.keys()) - labels - {"cache_control"}
        return all(equal(sent.get(key), issued.get(key)) for key in keys)
    return equal(sent, issued)


def _audit_append_only(evidence: Evidence) -> Iterator[Flaw]:
    if evidence.transcript.chats:
        yield from _append_only(evidence)


_HISTORY = "DESIGN.md, canonical contract: history is append-only"

RULES = (
    Rule(
        "history-append-only",
        Subject.HISTORY,
        "What was sent once is sent again, unchanged, before what is new.",
        _HISTORY + "; AN-52",
        _audit_append_only,
    ),
    Rule("text-changed", Subject.HISTORY, "Texts of the conversation arrive to the code point.", _HISTORY, _texts),
    Rule("media-changed", Subject.HISTORY, "Images of the conversation arrive to the byte.", _HISTORY, _media),
    Rule(
        "opaque-state-lost",
        Subject.HISTORY,
        "Signatures, reasoning items and unknown parts go back untouched, in their place.",
        "AN-51, RS-7, GM-10; wire-facts 9.10",
        _opaque,
    ),
)
