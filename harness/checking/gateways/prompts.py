"""What is said to the model: the system prompt, the texts of the conversation, pictures and other media."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from harness.apis.view import MediaView, RequestView, ResultView, TextView
from harness.checking.gateways.fact import Fact, Fared, added, lost, told
from harness.checking.gateways.passage import Passage
from harness.meaning.results import is_told, joined


def _system(passage: Passage) -> Iterable[Fared]:
    if passage.asked is None:
        return
    sent, arrived = passage.asked
    given, found = [part.text for part in sent.system], [part.text for part in arrived.system]
    place, there = (sent.system[0].pointer if sent.system else ""), (arrived.system[0].pointer if found else "")
    if not any(given):
        if any(found) and sent.response_format is None:  # which may take an instruction
            yield added("there is no system prompt, and the upstream gets one", there, "".join(found))
        return
    if is_told(given, found):
        yield told(same=len(given) == len(found))
    elif any(text in "".join(found) for text in joined(given)):
        yield told(same=False)
    elif any(text in part.text for text in joined(given) for _, part in _user_texts(arrived)):
        yield lost("the system prompt reaches the upstream as words of the user", place, "", None, "".join(given))
    else:
        what = "changed" if any(found) else "not at all"
        yield lost(f"the system prompt arrives {what}", place, there, "".join(found) if found else None, "".join(given))


def _user_texts(view: RequestView) -> Iterator[tuple[str, TextView]]:
    for turn in view.turns:
        for part in turn.parts:
            if isinstance(part, TextView) and turn.role == "user":
                yield turn.role, part


def _runs(view: RequestView) -> list[tuple[str, list[TextView]]]:
    """The texts of each role that stand side by side, whatever calls and results are between them."""
    texts = (
        (turn.role, part)
        for turn in view.turns
        for part in turn.parts
        if isinstance(part, TextView) and part.text.strip()
    )
    return [(role, [part for _, part in run]) for role, run in groupby(texts, key=lambda text: text[0])]


def _texts(passage: Passage) -> Iterable[Fared]:
    if passage.asked is None:
        return
    sent, arrived = passage.asked
    given, found = _runs(sent), _runs(arrived)
    adds = sent.response_format is not None or any(_media(sent))  # an instruction, or a caption
    system = "".join(part.text for part in sent.system)
    is_same = True
    for place in range(max(len(given), len(found))):
        role, texts = given[place] if place < len(given) else ("", [])
        there, parts = found[place] if place < len(found) else ("", [])
        words, told_words = [part.text for part in texts], [part.text for part in parts]
        if role == there and is_told(words, told_words):
            is_same &= len(words) == len(told_words)
        elif (
            role == there
            and any(text in "".join(told_words) for text in joined(words))
            and (
                adds or (system and system in "".join(told_words))  # system-prompt says the second
            )
        ):
            is_same = False
        else:
            yield _text_lost(role, texts, there, parts)
            return
    if given:
        yield told(same=is_same)


def _text_lost(role: str, texts: list[TextView], there: str, parts: list[TextView]) -> Fared:
    given, found = "".join(part.text for part in texts), "".join(part.text for part in parts)
    if not texts:
        what = "the upstream gets a text that nobody gave"
    elif not parts:
        what = "a text of the conversation does not arrive"
    else:
        what = "a text of the conversation arrives changed, or with other words beside it"
    return lost(
        what,
        texts[0].pointer if texts else "",
        parts[0].pointer if parts else "",
        f"{there}: {found}" if parts else None,
        f"{role}: {given}" if texts else None,
    )


def _media(view: RequestView) -> Iterator[tuple[MediaView, bool]]:
    """Each medium, and whether it stands inside a tool's result."""
    for turn in view.turns:
        for part in turn.parts:
            if isinstance(part, MediaView):
                yield part, False
            elif isinstance(part, ResultView):
                yield from ((each, True) for each in part.payload if isinstance(each, MediaView))


def _pictures(passage: Passage) -> Iterable[Fared]:
    if passage.asked is None:
        return
    sent, arrived = passage.asked
    found = [*_media(arrived)]
    for medium, inside in _media(sent):
        same = [(each, within) for each, within in found if _is_same(medium, each)]
        if same:
            yield told(same=inside in [within for _, within in same])
        elif medium.uri is not None and any(each.data is not None for each, _ in found):
            yield told(same=False)  # fetched by the gateway: nobody here knows its bytes
        else:
            yield lost(
                f"{_shown(medium)} does not arrive",
                medium.pointer,
                found[0][0].pointer if found else "",
                [_shown(each) for each, _ in found],
                _shown(medium),
            )


def _is_same(one: MediaView, other: MediaView) -> bool:
    if one.data is not None:
        return one.data == other.data and one.media_type == other.media_type
    return one.uri == other.uri


def _shown(medium: MediaView) -> str:
    size = f"{len(medium.data)} bytes" if medium.data is not None else str(medium.uri)
    return f"a medium of type {medium.media_type} ({size})"


FACTS = (
    Fact(
        "gateway-system-prompt",
        "system prompt",
        "The system prompt reaches the upstream as one, and no other does.",
        "the model does not know its instructions, or follows others",
        _system,
        lambda request: any(part.text for part in request.system),
    ),
    Fact(
        "gateway-texts",
        "message texts",
        "The texts of the conversation reach the upstream to the code point, each under its role.",
        "the model reads other words than were said",
        _texts,
    ),
    Fact(
        "gateway-media",
        "images and files",
        "Images and files reach the upstream to the byte.",
        "the model sees another picture, or none",
        _pictures,
        lambda request: any(True for _ in _media(request)),
    ),
)
