"""Pieces of a message → what they add up to (openai-chat-call-deltas), from the API and from servers that are only like
it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.adapters._openai.jsontext import loads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.contract.model import JSON

_WHOLE = frozenset({"role", "type", "id", "name", "format", "channel", "signature"})
"""Strings that never come in pieces, so that one which comes again is the same and is not appended."""


class StreamedCall:
    """A call as it grows. `wire` is the call as a whole message would have it, `number` is its index among the events
    once it has been announced; from then on its id and name are fixed."""

    def __init__(self, index: JSON) -> None:
        self.index = index
        self.number: int | None = None
        self.wire: dict[str, JSON] = {}
        self._shown = 0

    @property
    def id(self) -> str:
        """The id that the server issued; empty while there is none."""
        return _string(self.wire.get("id"))

    @property
    def name(self) -> str:
        """The function's name; empty while there is none."""
        return _string(_function(self.wire).get("name"))

    @property
    def arguments(self) -> str:
        """The text of the arguments, as far as it has come."""
        return _string(_function(self.wire).get("arguments"))

    @property
    def is_known(self) -> bool:
        """The call can be announced. A server that gives an id does so before the arguments."""
        return bool(self.name and (self.id or self.arguments))

    def add(self, piece: dict[str, JSON]) -> None:
        """Take the next piece."""
        fixed = {"id", "name"} if self.number is not None else {"id"} if self.id else set[str]()
        fields = {key: value for key, value in piece.items() if key not in {"index", *fixed}}
        if isinstance(piece.get("function"), dict):
            function = _function(piece).items()
            fields["function"] = {key: value for key, value in function if key not in fixed and value is not None}
        self.wire = {**self.wire, **{key: grown(key, self.wire.get(key), value) for key, value in fields.items()}}

    def unseen(self) -> str:
        """What has come of the arguments since this was asked last."""
        unseen = self.arguments[self._shown :]
        self._shown += len(unseen)
        return unseen

    def is_behind(self, piece: dict[str, JSON]) -> bool:
        """A piece without an id that tells begins another call: it names another function, or it names this one again
        and brings arguments although those of this call are whole."""
        name = _string(_function(piece).get("name"))
        if not name or not self.name:
            return False
        return name != self.name or (bool(_function(piece).get("arguments")) and _is_json(self.arguments))


def owner(calls: Sequence[StreamedCall], piece: dict[str, JSON]) -> StreamedCall | None:
    """The call that a piece belongs to, or `None` if it begins one.

    Pieces of a call carry its index (openai-chat-call-deltas). Where a server sends no index, or the same for every
    call, the id tells calls apart; where it sends no ids, the name does. A piece without a name continues a call even
    under a new id: some servers make an id for each piece (openai-chat-id-per-delta).
    """
    index, call_id = piece.get("index"), _string(piece.get("id"))
    near = [call for call in calls if index is None or call.index == index]
    if not near:
        return None
    if call_id and near[-1].id:
        known = next((call for call in reversed(near) if call.id == call_id), None)
        return known if known or _string(_function(piece).get("name")) or "custom" in piece else near[-1]
    return None if near[-1].is_behind(piece) else near[-1]


def grown(key: str, old: JSON, new: JSON) -> JSON:
    """The value of a field and the next piece of it."""
    match old, new:
        case _, None:
            return old
        case str(), str():
            return (new or old) if key in _WHOLE else old + new
        case dict(), dict():
            return old | {name: grown(name, old.get(name), value) for name, value in new.items()}
        case list(), list():
            return _with_details(old, new) if key == "reasoning_details" else [*old, *new]
        case str(), list() if key == "content":  # Mistral: a text may be followed by parts, and parts by a text
            return [*_text_part(old), *new]
        case list(), str() if key == "content":
            return [*old, *_text_part(new)]
        case ((str() | list()), _):  # a value of another kind is no piece of it
            return old
        case _:
            return new


_PIECEWISE = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""Type of an entry of `reasoning_details` → its field that comes in pieces. Any other entry comes whole."""


def _with_details(old: list[JSON], new: list[JSON]) -> list[JSON]:
    """OpenRouter's `reasoning_details` and the next pieces of them.

    A piece belongs to the last entry of its index, as long as that is of its type. The index alone does not tell: a
    stream may have the same for all (OpenRouterTeam/ai-sdk-provider#519), a summary and what is encrypted among them.
    """
    joined = list(old)
    for piece in new:
        index = piece.get("index") if isinstance(piece, dict) else None
        places = [place for place, one in enumerate(joined) if isinstance(one, dict) and one.get("index") == index]
        entry = joined[places[-1]] if places and index is not None else None
        if isinstance(entry, dict) and isinstance(piece, dict) and _goes_on(entry, piece):
            joined[places[-1]] = _continued(entry, piece)
        else:
            joined.append(piece)
    return joined


def _goes_on(entry: dict[str, JSON], piece: dict[str, JSON]) -> bool:
    """Of the same type and id; and a signature ends an entry, so that text behind it begins another."""
    kind = entry.get("type")
    if kind != piece.get("type") or not isinstance(kind, str) or kind not in _PIECEWISE:
        return False
    same = not entry.get("id") or not piece.get("id") or entry["id"] == piece["id"]
    return same and not (entry.get("signature") and piece.get(_PIECEWISE[kind]))


def _continued(entry: dict[str, JSON], piece: dict[str, JSON]) -> dict[str, JSON]:
    """Its text grows; what else a piece says comes whole."""
    growing = _PIECEWISE[_string(entry.get("type"))]
    said = {key: value for key, value in piece.items() if value not in (None, "") or key not in entry}
    text = _string(entry.get(growing)) + _string(piece.get(growing))
    return entry | said | ({growing: text} if text else {})


def _text_part(text: str) -> list[JSON]:
    return [{"type": "text", "text": text}] if text else []


def _function(call: dict[str, JSON]) -> dict[str, JSON]:
    function = call.get("function")
    return function if isinstance(function, dict) else {}


def _string(value: JSON) -> str:
    return value if isinstance(value, str) else ""


def _is_json(text: str) -> bool:
    try:
        loads(text)
    except ValueError:
        return False
    return True
