"""Event streams → the whole message that they spell out."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from harness.apis.eventstream import events_of
from harness.apis.jsonvalue import join, loads
from harness.apis.view import WireError
from harness.contract.model import JSON

_DONE = "[DONE]"
"""The end of OpenAI's streams, which compatible servers send here too. The SDKs skip events with a name that they do
not know."""


def _empty() -> dict[str, JSON]:
    return {}


def _no_blocks() -> dict[int, _Block]:
    return {}


@dataclass(slots=True)
class _Block:
    """A block under construction. `fragments` are the pieces of its input, `None` before the first."""

    data: dict[str, JSON]
    fragments: list[str] | None = None

    def extend(self, delta: dict[str, JSON]) -> None:
        """Apply one `content_block_delta` (anthropic-stream-arguments, anthropic-stream-signature)."""
        kind = delta.get("type")
        if kind == "input_json_delta":
            fragment = delta.get("partial_json")
            self.fragments = [*(self.fragments or ()), fragment if isinstance(fragment, str) else ""]
        elif kind == "citations_delta":
            self._append("citations", [delta.get("citation")])
        elif kind == "signature_delta":
            self.data["signature"] = delta.get("signature")  # replaces what stands there
        else:  # text_delta, thinking_delta, and deltas of another day
            for key, value in delta.items():
                if key != "type":
                    self._append(key, value)

    def finished(self) -> dict[str, JSON]:
        """The block as a whole response has it. Input that is no JSON stays the text it is."""
        text = "".join(self.fragments or ())
        if text:
            try:
                return {**self.data, "input": loads(text)}
            except WireError:
                return {**self.data, "input": text}
        return self.data

    def _append(self, key: str, value: JSON) -> None:
        before = self.data.get(key)
        if isinstance(before, str) and isinstance(value, str):
            self.data[key] = before + value
        elif isinstance(before, list) and isinstance(value, list):
            self.data[key] = [*before, *value]
        else:
            self.data[key] = value


@dataclass(slots=True)
class Folded:
    """What a stream said. `complete` is true once `message_stop` came; `error` is the body of an `error` event."""

    message: dict[str, JSON] = field(default_factory=_empty)
    complete: bool = False
    error: JSON = None


@dataclass(slots=True)
class _Fold:
    result: Folded = field(default_factory=Folded)
    blocks: dict[int, _Block] = field(default_factory=_no_blocks)

    def take(self, event: dict[str, JSON]) -> None:
        match event.get("type"):
            case "message_start":
                self.result.message = _member(event, "message")
            case "content_block_start":
                self.blocks[_index(event)] = _Block(_member(event, "content_block"))
            case "content_block_delta":
                self._block(event).extend(_member(event, "delta"))
            case "message_delta":
                self._finish(event)
            case "message_stop":
                self.result.complete = True
            case "error":
                self.result.error = event
            case None if "error" in event:  # an error that a proxy or a compatible server put in
                self.result.error = event
            case _:  # content_block_stop says nothing new, ping nothing, and events of another day are let pass
                pass

    def _block(self, event: dict[str, JSON]) -> _Block:
        try:
            return self.blocks[_index(event)]
        except KeyError:
            raise WireError("a delta for a block that has not started", "/index") from None

    def _finish(self, event: dict[str, JSON]) -> None:
        """Apply a `message_delta`: its numbers are cumulative, and what it does not say stays (anthropic-stream-usage).

        Beside `delta` and `usage` an event of the beta surface holds fields of the message (`context_management`).
        """
        message = self.result.message
        known, counted = message.get("usage"), event.get("usage")
        said = {key: value for key, value in event.items() if key not in ("type", "delta", "usage")}
        self.result.message = _updated(_updated(message, _member(event, "delta")), said)
        if isinstance(counted, dict):
            self.result.message["usage"] = _updated(known if isinstance(known, dict) else {}, counted)


def _updated(known: dict[str, JSON], said: dict[str, JSON]) -> dict[str, JSON]:
    """`known` with what is said now; null says nothing new."""
    return {**known, **{key: value for key, value in said.items() if value is not None or key not in known}}


def fold(body: bytes) -> Folded:
    """Fold an event stream into the message of a whole response; one that is cut before its first event is empty.

    Raises:
        WireError: this is no event stream, an event is no JSON object, a delta belongs to no block, or there is neither
            a message nor an error.
    """
    fold_ = _Fold()
    silent = True
    for event in events_of(body):
        if event.data == _DONE:
            continue
        data = loads(event.data)
        if not isinstance(data, dict):
            raise WireError("an event is not an object")
        fold_.take(data)
        silent = silent and data == {"type": "ping"}
    result = fold_.result
    if not result.message and result.error is None and not silent:
        raise WireError("a stream without message_start")
    if result.message or silent:
        result.message["content"] = [fold_.blocks[index].finished() for index in sorted(fold_.blocks)]
    return result


def _member(event: dict[str, JSON], key: str) -> dict[str, JSON]:
    value = event.get(key)
    if not isinstance(value, dict):
        raise WireError("not an object", join("", key))
    return copy.deepcopy(value)


def _index(event: dict[str, JSON]) -> int:
    index = event.get("index")
    if not isinstance(index, int):
        raise WireError("not an index", "/index")
    return index
