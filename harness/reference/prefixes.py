"""What a request has in common with the one before it: what a provider may have cached of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from harness.apis.jsonvalue import canonical
from harness.apis.view import CallView, JsonView, MediaView, OpaqueView, Prefix, RequestView, ResultView, TextView
from harness.contract.model import JSON

_CHARACTERS = 4
"""Of a token, in English text. The counts of the reference server are made up, and only have to be plausible."""


class Prefixes:
    """The requests of one conversation, each compared with the one before it."""

    def __init__(self) -> None:
        self._fixed: list[str] = []
        self._said: list[str] = []

    def of(self, request: RequestView) -> Prefix:
        """The prefix of the next request."""
        fixed = [*_fixed(request)]
        said = fixed + [canonical(_value(part)) for turn in request.turns for part in turn.parts]
        repeated = takewhile(lambda pair: pair[0] == pair[1], zip(said, self._said, strict=False))
        prefix = Prefix(
            repeated=_tokens([piece for piece, _ in repeated]),
            marked=_tokens(fixed) if request.cache_marks else 0,
            again=fixed == self._fixed,
        )
        self._fixed, self._said = fixed, said
        return prefix


def _tokens(pieces: list[str]) -> int:
    return sum(map(len, pieces)) // _CHARACTERS


def _fixed(request: RequestView) -> Iterator[str]:
    for tool in request.tools:
        yield canonical([tool.name, tool.description, tool.parameters])
    for system in request.system:
        yield system.text


def _value(part: object) -> JSON:
    match part:
        case TextView(text):
            return text
        case CallView():
            return [part.name, part.arguments]
        case ResultView():
            return [_value(each) for each in part.payload]
        case JsonView(value):
            return value
        case OpaqueView():
            return part.raw
        case MediaView():
            return part.uri or ""
        case _:
            return None
