"""Streams read strictly: the chunks, and what holds them together (openai-chat-call-deltas)."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from harness.apis.departure import ARGUMENTS, CALL_ID, END, ERROR_STATUS, EVENTS, FIELDS, INDEX, STOP_REASON, Departure
from harness.apis.jsonvalue import join
from harness.apis.strictly import DONE, Sent, framing, number_at, sent, text_at, whole_number
from harness.contract.http import HttpResponse
from harness.contract.model import JSON

_STABLE = ("id", "model")
"""What is the same in every chunk of an answer. The time of creation is, by the documents; that of some servers is the
chunk's, and nobody is harmed by it."""

_DELTA = "/choices/0/delta"


def streamed(response: HttpResponse) -> Generator[Departure, None, dict[str, JSON]]:
    """Where a stream departs; returns the answer that it spells out, as its indices say."""
    yield from framing(response)
    came = sent(response)
    yield from _ended(came)
    answer = _Answer()
    for chunk in came:
        if chunk.data is not None:
            yield from answer.take(chunk.data, chunk.index)
    yield from answer.unsaid()
    return answer.body


def _ended(came: list[Sent]) -> Iterator[Departure]:
    ends = [chunk.index for chunk in came if chunk.text == DONE]
    if not ends:
        yield END.broken("the stream has no end: there is no 'data: [DONE]', so that a cut looks the same")
    elif ends[0] != len(came) - 1:
        yield EVENTS.broken("something comes behind the end of the stream", event=ends[0] + 1)


class _Answer:
    """An answer as its chunks spell it out."""

    def __init__(self) -> None:
        self._head: dict[str, JSON] = {}
        self._message: dict[str, Any] = {}
        self._calls: list[dict[str, Any]] = []
        self._ends: list[JSON] = []
        self._usage: JSON = None
        self._chunks = 0
        self._flawed: set[str] = set()

    @property
    def body(self) -> dict[str, JSON]:
        """The whole answer, as far as the promises of whole answers look at it."""
        if not self._chunks:
            return {"usage": self._usage}
        message: dict[str, JSON] = {**self._message}
        if self._calls:
            message["tool_calls"] = [*self._calls]
        end = self._ends[-1] if self._ends else None
        choice: dict[str, JSON] = {"index": 0, "message": message, "finish_reason": end}
        return {**self._head, "choices": [choice], "usage": self._usage}

    def take(self, chunk: dict[str, JSON], at: int) -> Iterator[Departure]:
        """One chunk."""
        if chunk.get("error") is not None:
            said = "an error comes inside a stream whose status says that all is well"
            yield ERROR_STATUS.broken(said, "/error", event=at, actual=chunk["error"])
            return
        yield from self._once(self._named(chunk, at))
        if chunk.get("usage") is not None:
            self._usage = chunk["usage"]
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            yield from self._once([FIELDS.broken("a chunk has no choices", "/choices", event=at, actual=choices)])
            return
        choice = choices[0] if choices else None
        if isinstance(choice, dict):
            yield from self._said(choice, at)

    def _once(self, found: Iterator[Departure] | list[Departure]) -> Iterator[Departure]:
        """What is wrong with every chunk is said of the first."""
        for each in found:
            if each.message not in self._flawed:
                self._flawed.add(each.message)
                yield each

    def _named(self, chunk: dict[str, JSON], at: int) -> Iterator[Departure]:
        yield from text_at(chunk, "id", event=at)
        yield from text_at(chunk, "object", event=at, among={"chat.completion.chunk"})
        yield from text_at(chunk, "model", event=at)
        yield from number_at(chunk, "created", event=at)
        for name in _STABLE:
            known, given = self._head.setdefault(name, chunk.get(name)), chunk.get(name)
            if known != given:
                said = f"the {name!r} of a chunk is not that of the chunk before"
                yield FIELDS.broken(said, f"/{name}", event=at, actual=given, expected=known)

    def _said(self, choice: dict[str, JSON], at: int) -> Iterator[Departure]:
        delta, end = choice.get("delta"), choice.get("finish_reason") or None
        if choice.get("finish_reason") == "":
            said = "the finish reason of a chunk is an empty text: clients take what is not null for the end"
            yield from self._once([STOP_REASON.broken(said, "/choices/0/finish_reason", event=at, actual="")])
        if not isinstance(delta, dict):
            yield FIELDS.broken("a choice has no delta", _DELTA, event=at, actual=delta)
            return
        says = any(delta.get(key) for key in ("content", "tool_calls", "refusal"))
        if self._ends and says:
            yield EVENTS.broken(
                "a delta comes behind the finish reason: clients have stopped reading", _DELTA, event=at
            )
        if not self._chunks:
            yield from text_at(delta, "role", _DELTA, event=at, among={"assistant"})
        self._chunks += 1
        if isinstance(delta.get("content"), str):
            self._message["content"] = self._message.get("content", "") + delta["content"]
        calls = delta.get("tool_calls")
        for number, piece in enumerate(calls if isinstance(calls, list) else ()):
            if isinstance(piece, dict):
                yield from self._piece(piece, join(f"{_DELTA}/tool_calls", number), at)
        if end is not None:
            if self._ends and end not in self._ends:  # a last chunk, for the usage, may say it again
                said = "the stream says twice why it stopped, and not the same"
                yield STOP_REASON.broken(said, "/choices/0/finish_reason", event=at, actual=end, expected=self._ends[0])
            self._ends.append(end)

    def _piece(self, piece: dict[str, JSON], pointer: str, at: int) -> Iterator[Departure]:
        """One piece of a call, which belongs to a call by its index and by nothing else."""
        index, function = piece.get("index"), piece.get("function")
        if not whole_number(index) or not isinstance(index, int):
            yield from self._once(
                [INDEX.broken("a piece of a call has no index", f"{pointer}/index", event=at, actual=index)]
            )
            index = len(self._calls) if piece.get("id") else max(len(self._calls) - 1, 0)
        known = next((call for call in reversed(self._calls) if call["index"] == index), None)
        told = function if isinstance(function, dict) else {}
        if known is None:
            yield from self._opened(piece, index, pointer, at)
        elif piece.get("id") and piece["id"] != known.get("id"):
            if told.get("name"):  # what both have for arguments is judged call by call, since each may be right
                said = "two calls have one index: clients put their arguments together into one call"
                yield INDEX.broken(said, f"{pointer}/index", event=at, actual=piece.get("index"))
                known = None
            else:
                said = "the id of a call changes from one piece to the next"
                yield CALL_ID.broken(said, f"{pointer}/id", event=at, actual=piece["id"], expected=known.get("id"))
        elif known["index"] == piece.get("index"):
            yield from self._once(_again(piece, told, pointer, at))
        if known is None:
            known = {**piece, "index": index, "function": {**told, "arguments": None}}
            self._calls.append(known)
        yield from self._grown(known, told, pointer, at)

    def _opened(self, piece: dict[str, JSON], index: int, pointer: str, at: int) -> Iterator[Departure]:
        if index != len(self._calls):
            said = f"call {len(self._calls) + 1} of the answer has another index than {len(self._calls)}"
            yield INDEX.broken(said, f"{pointer}/index", event=at, actual=index, expected=len(self._calls))
        if not piece.get("id"):
            said = "the first piece of a call has no id"
            yield CALL_ID.broken(said, f"{pointer}/id", event=at, actual=piece.get("id"))

    @staticmethod
    def _grown(known: dict[str, Any], told: dict[str, JSON], pointer: str, at: int) -> Iterator[Departure]:
        if "arguments" not in told:
            return
        arguments, before = told["arguments"], known["function"].get("arguments")
        if isinstance(arguments, str):
            known["function"]["arguments"] = (before if isinstance(before, str) else "") + arguments
        elif arguments is not None:
            said = "a piece of arguments is no text"
            yield ARGUMENTS.broken(said, f"{pointer}/function/arguments", event=at, actual=arguments)
            known["function"]["arguments"] = before or "{}"

    def unsaid(self) -> Iterator[Departure]:
        """What the stream should have said by its end."""
        if not self._chunks:
            yield EVENTS.broken("the stream has no chunk with a choice")


def _again(piece: dict[str, JSON], told: dict[str, JSON], pointer: str, at: int) -> list[Departure]:
    """What only the first piece of a call has: OpenAI's own SDK joins the texts of one call, whatever they are
    (`openai/lib/streaming/_deltas.py` of 3.54.0)."""
    found: list[Departure] = []
    for promise, key, holder in ((CALL_ID, "id", piece), (FIELDS, "name", told)):
        if holder.get(key):
            said = f"a later piece of a call has its {key} again: clients put the two together"
            place = f"{pointer}/id" if holder is piece else f"{pointer}/function/name"
            found.append(promise.broken(said, place, event=at, actual=holder[key]))
    return found
