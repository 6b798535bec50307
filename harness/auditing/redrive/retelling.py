"""Tells an adapter a streamed answer in other ways: whole, and cut elsewhere. What comes of it has to be the same.

Kinds of disagreement, whose pointer leads to where request j carries response i:

- `stream-whole`: `chat`, given the body that the witness folds the stream to, makes something else of it.
- `stream-recut`: the same bytes in other pieces, or in another spelling, give another answer or another follow-up.

`recorded` is what comes of the stream as it was recorded, at the place of the answer or the follow-up where they part;
`produced` what comes of the other telling there.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias, cast

from harness.apis.jsonvalue import equal, join, loads
from harness.auditing.redrive.comparison import Disagreement
from harness.auditing.redrive.drive import Driven, Driver
from harness.auditing.redrive.pairs import Pair
from harness.contract.http import HttpResponse
from harness.contract.model import JSON
from harness.tape.recut import recut

_Parting: TypeAlias = tuple[str, JSON, JSON]
"""Where two values part, by pointer, and what each has there."""


def disagreements(
    driver: Driver, pair: Pair, told: Driven, stream: HttpResponse, recuts: int
) -> Iterator[Disagreement]:
    """What comes otherwise than of the stream, `told`, once it is told as a whole, and cut in `recuts` other ways."""
    yield from _disagreement("stream-whole", "as a whole body", pair, told, partial(driver.whole, pair))
    for number in range(recuts):
        other, way = recut(stream, number, f"{pair.j.wire.name} {pair.i.index}")
        yield from _disagreement("stream-recut", way, pair, told, partial(driver.streamed, pair, other))


def _disagreement(
    kind: str, way: str, pair: Pair, told: Driven, retell: Callable[[], Driven]
) -> Iterator[Disagreement]:
    pointer = (pair.slice.spoken or pair.slice.answers)[0].part.pointer
    try:
        parting = _parting(told, retell())
    except Exception as error:  # noqa: BLE001 - as in a redrive: an adapter may fail in any way at all
        yield Disagreement(pointer, None, {"told": way, "error": str(error) or repr(error)}, kind)
        return
    if parting is not None:
        at, one, other = parting
        yield Disagreement(pointer, {"at": at, "value": one}, {"told": way, "value": other}, kind)


def _parting(one: Driven, other: Driven) -> _Parting | None:
    found = _first(_plain(one.answer), _plain(other.answer), "/answer")
    return found or _first(_said(one), _said(other), "/follow-up")


def _said(driven: Driven) -> JSON:
    return {"url": driven.request.url, "body": loads(driven.request.body)}


def _first(one: JSON, other: JSON, at: str) -> _Parting | None:
    """The first place, as deep as it goes, where two values part."""
    if equal(one, other):
        return None
    inner: Iterator[_Parting | None] = iter(())
    if isinstance(one, dict) and isinstance(other, dict):
        inner = (_first(one.get(key), other.get(key), join(at, key)) for key in {**one, **other})
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        inner = (_first(*each, join(at, number)) for number, each in enumerate(zip(one, other, strict=True)))
    return next((found for found in inner if found), (at, one, other))


def _plain(value: object) -> JSON:
    """A canonical value as JSON, to be compared and shown."""
    if dataclasses.is_dataclass(value):
        fields = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"is": type(value).__name__, **fields}
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case tuple() | list():
            return [_plain(each) for each in cast("Sequence[object]", value)]
        case Mapping():
            return {str(key): _plain(each) for key, each in cast("Mapping[object, object]", value).items()}
        case _:
            return cast("JSON", value)
