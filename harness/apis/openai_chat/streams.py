"""Folds the chunks of a stream into the body of a non-streamed response (openai-chat-call-deltas,
openai-chat-stream-usage)."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.apis.eventstream import events_of
from harness.apis.jsonvalue import as_list, as_object, loads
from harness.apis.view import WireError
from harness.model.messages import JSON

WHOLE = frozenset({"role", "type", "id", "name", "format", "channel", "signature"})
"""String fields that are sent complete and may be repeated. All other strings are sent in pieces."""

_NOISE = frozenset({"choices", "object", "obfuscation", "p", "error"})
"""Fields of a chunk that a non-streamed body does not have, or that are handled separately."""


@dataclass(slots=True)
class _Choice:
    """A choice under construction. `calls` has its tool calls, each with the index that its pieces use."""

    message: dict[str, JSON] = field(default_factory=lambda: {"role": "assistant", "content": None})
    calls: list[tuple[JSON, dict[str, JSON]]] = field(default_factory=list[tuple[JSON, dict[str, JSON]]])
    rest: dict[str, JSON] = field(default_factory=lambda: {"finish_reason": None})

    def body(self, index: int) -> dict[str, JSON]:
        """Return the choice as in a non-streamed body."""
        calls: list[JSON] = [call for _, call in self.calls]
        message = dict(self.message)
        if calls:
            message["tool_calls"] = calls
        body: dict[str, JSON] = {"index": index, "message": message}
        return body | self.rest


def fold(stream: bytes) -> tuple[dict[str, JSON], bool]:
    """Return the folded body, and whether the stream is complete. An error is stored in `error`.

    A stream is complete after `[DONE]`, which some compatible servers omit, or once every choice has a finish reason.

    Raises:
        WireError: the body is not an event stream, or an event is not a chunk.
    """
    whole: dict[str, JSON] = {"object": "chat.completion"}
    choices: dict[int, _Choice] = {}
    complete = False
    for event in events_of(stream):
        if event.data.strip() == "[DONE]":
            complete = True
            break
        chunk = loads(event.data)
        if not isinstance(chunk, dict):
            raise WireError("an event of the stream is no chunk")
        if event.name == "error" or chunk.get("object") == "error":
            whole["error"] = chunk.get("error", chunk)
            continue
        _take(whole, choices, chunk)
    whole["choices"] = [choices[index].body(index) for index in sorted(choices)]
    finished = all(choice.rest["finish_reason"] for choice in choices.values())
    return whole, complete or (finished and bool(choices))


def _take(whole: dict[str, JSON], choices: dict[int, _Choice], chunk: dict[str, JSON]) -> None:
    for key, value in chunk.items():
        if key == "usage" and isinstance(value, dict):
            counted = {name: number for name, number in value.items() if number is not None}
            whole["usage"] = as_object(whole.get("usage")) | counted  # absent counts keep their value
        elif key not in _NOISE and (value is not None or key not in whole):
            whole[key] = value
    if chunk.get("error") is not None:
        whole["error"] = chunk["error"]
    for piece in as_list(chunk.get("choices")):
        if isinstance(piece, dict):
            index = piece.get("index")
            _grow(choices.setdefault(index if isinstance(index, int) else 0, _Choice()), piece)


def _grow(choice: _Choice, piece: dict[str, JSON]) -> None:
    for key, value in piece.items():
        if key == "logprobs":  # each chunk has only the values of its own tokens
            choice.rest[key] = _grown(key, choice.rest.get(key), value)
        elif key not in ("index", "delta") and (value is not None or key not in choice.rest):
            choice.rest[key] = value
    delta = piece.get("delta")
    for key, value in delta.items() if isinstance(delta, dict) else ():
        if key == "tool_calls":
            for call in as_list(value):
                if isinstance(call, dict):
                    _grow_call(choice.calls, call)
        else:
            choice.message[key] = _grown(key, choice.message.get(key), value)


def _grow_call(calls: list[tuple[JSON, dict[str, JSON]]], piece: dict[str, JSON]) -> None:
    """Add a piece to its call: the last call with the same index, unless the piece starts a new call.

    A piece without an index belongs to the last call. Some servers send every call with index 0 and a new id. Others
    send a new id with each piece (openai-chat-id-per-delta). Therefore only a piece with a function name starts a new
    call. A call keeps its first id.
    """
    index, call_id = piece.get("index"), piece.get("id")
    near = [i for i in reversed(range(len(calls))) if index is None or calls[i][0] == index]
    fresh: dict[str, JSON] = {key: value for key, value in piece.items() if key != "index"}
    known = calls[near[0]][1].get("id") if near else None
    if call_id and known and call_id != known:
        same = [i for i in near if calls[i][1].get("id") == call_id]
        if same or _says_what_is_called(piece):
            near = same
        else:
            fresh["id"] = known
    if near:
        merged = _grown("", calls[near[0]][1], fresh)
        calls[near[0]] = (calls[near[0]][0], merged if isinstance(merged, dict) else fresh)
    else:
        calls.append((index, _with_arguments(fresh)))


def _says_what_is_called(piece: dict[str, JSON]) -> bool:
    """Return whether a piece names a function, or belongs to a tool of another kind."""
    function = piece.get("function")
    return "custom" in piece or (isinstance(function, dict) and bool(function.get("name")))


def _with_arguments(call: dict[str, JSON]) -> dict[str, JSON]:
    """Return the first piece of a call. Missing arguments become an empty string, to which later pieces can be
    appended.
    """
    function = call.get("function")
    if isinstance(function, dict) and function.get("arguments") is None:
        called = dict(function)
        called["arguments"] = ""
        return {**call, "function": called}
    return call


def _grown(key: str, old: JSON, new: JSON) -> JSON:
    """Return the value of a message field extended by its next piece."""
    if new is None or old is None:
        return old if new is None else new
    if isinstance(old, str) and isinstance(new, str):
        return (new or old) if key in WHOLE else old + new
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {name: _grown(name, old.get(name), value) for name, value in new.items()}
    if isinstance(old, list) and isinstance(new, list):
        return _details(old, new) if key == "reasoning_details" else [*old, *new]
    if key == "content" and isinstance(new, list):  # text first, then parts (Mistral)
        return [*([{"type": "text", "text": old}] if old else []), *new]
    if key == "content" and isinstance(old, list) and isinstance(new, str):
        return [*old, {"type": "text", "text": new}] if new else old
    return new


_GROWING = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""Maps reasoning block types to the field that is sent in pieces."""


def _details(old: list[JSON], new: list[JSON]) -> list[JSON]:
    """Return the blocks of `reasoning_details` extended by further deltas (OpenRouter's guide to reasoning tokens).

    Text and summaries are sent in pieces; encrypted data is not. All blocks may have the same index. A different type
    (OpenRouterTeam/ai-sdk-provider#519, #520), a different id or a signature therefore also ends a block. A delta
    without an index is a complete block.
    """
    blocks = list(old)
    for delta in new:
        at = _open_block(blocks, delta)
        block = None if at is None else blocks[at]
        if at is None or not isinstance(block, dict) or not isinstance(delta, dict):
            blocks.append(delta)
            continue
        merged = dict(block)
        for key, value in delta.items():
            before = merged.get(key)
            if key == _GROWING.get(str(merged["type"])) and isinstance(before, str) and isinstance(value, str):
                merged[key] = before + value
            elif value or key not in merged:
                merged[key] = value
        blocks[at] = merged
    return blocks


def _open_block(blocks: list[JSON], delta: JSON) -> int | None:
    """Return the position of the block that a delta extends."""
    if not isinstance(delta, dict) or delta.get("index") is None:
        return None
    growing = _GROWING.get(str(delta.get("type")))
    if growing is None:
        return None
    for at in reversed(range(len(blocks))):
        block = blocks[at]
        if not isinstance(block, dict) or block.get("index") != delta["index"]:
            continue
        told_apart = block.get("id") and delta.get("id") and block["id"] != delta["id"]
        signed = block.get("signature") and delta.get(growing)
        return None if block.get("type") != delta["type"] or told_apart or signed else at
    return None
