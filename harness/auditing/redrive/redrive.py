"""Drives every pair of the cassettes it is given, and counts what came of it."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Self, TypeAlias, cast

from harness import catalog
from harness.apis.api import Api
from harness.apis.jsonvalue import loads
from harness.apis.view import OpaqueView
from harness.auditing.redrive.comparison import (
    Comparison,
    Disagreement,
    hosted_facts,
    system_facts,
    tool_facts,
    turn_facts,
)
from harness.auditing.redrive.drive import Driven, Driver
from harness.auditing.redrive.edits import unedited
from harness.auditing.redrive.pairs import Pair, answered_turns, lifted, pairs, recorded
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import JSON
from harness.contract.protocols import Capability, Route
from harness.meaning.differences import WHOLE_JSON, diff, json_pointer
from harness.results import PairCounts, PairDisagreement, RedriveResult
from harness.tape.cassette import Cassette
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
    """The first place, as deep as it goes, where two tellings differ."""
    pairs = {"/answer": (_plain(one.answer), _plain(other.answer)), "/follow-up": (_said(one), _said(other))}
    found = ((f"{at}{json_pointer(each.path)}", each) for at, pair in pairs.items() for each in diff(*pair, WHOLE_JSON))
    return next(((at, each.one, each.other) for at, each in found), None)


def _said(driven: Driven) -> JSON:
    return {"url": driven.request.url, "body": loads(driven.request.body)}


def _plain(value: object) -> JSON:
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


RECUTS = 3
"""So many other cuts of each stream are driven, unless somebody wants more."""

_ENCRYPTED = re.compile(rb'"encrypted_content"\s*:\s*"([\w+/=-]+)"')


class Redrive:
    """A redrive in the making: takes cassettes one by one. A context manager, since it holds clients.

    A response that was streamed is streamed again: as it was recorded, and cut in `recuts` other ways.
    """

    def __init__(self, recuts: int = RECUTS) -> None:
        self._recuts = recuts
        self._drivers: dict[str, Driver] = {}
        apis = [api.name for api in catalog.apis() if _is_driven(api)]
        self._counts = {api: Counter[str]() for api in apis}
        self._not_redrivable = {api: Counter[str]() for api in apis}
        self._allowances = {api: Counter[str]() for api in apis}
        self._edits = {api: Counter[str]() for api in apis}
        self._disagreements: list[PairDisagreement] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for driver in self._drivers.values():
            driver.close()

    def add(self, file: str, cassette: Cassette) -> None:
        """Drive the pairs of one cassette, of those APIs whose requests carry their history.

        Raises:
            harness.contract.errors.MissingDependency: the SDK of an API that has pairs is not installed.
        """
        for api, exchanges in recorded(cassette).items():
            for pair in pairs(exchanges) if api in self._counts else ():
                self._counts[api]["pairs"] += 1
                reason = leaning(pair)
                if reason is not None:
                    self._not_redrivable[api][reason] += 1
                    continue
                found = self._driven(pair)
                self._counts[api]["streamed"] += pair.i.response.streamed
                self._counts[api]["agreeing"] += not found.disagreements
                self._counts[api]["edited"] += bool(found.edits)
                self._edits[api].update(found.edits.keys())
                self._allowances[api].update(found.allowances)
                self._disagreements += [_placed(file, pair, each) for each in found.disagreements]

    def result(self) -> RedriveResult:
        """What has come of it so far."""
        counts = {
            api: PairCounts(
                counter["pairs"],
                counter["agreeing"],
                counter["streamed"],
                dict(self._not_redrivable[api]),
                {kind: count for kind, count in sorted(self._allowances[api].items()) if count},
                counter["edited"],
                dict(sorted(self._edits[api].items())),
            )
            for api, counter in self._counts.items()
        }
        return RedriveResult(counts, tuple(self._disagreements), self._recuts)

    def _driven(self, pair: Pair) -> Comparison:
        api = pair.j.wire
        if api.name not in self._drivers:
            self._drivers[api.name] = Driver(api)
        driver, stream = self._drivers[api.name], _stream(pair)
        try:
            driven = driver.streamed(pair, stream) if stream else driver.whole(pair)
            found = compare(pair, driven.request)
        except Exception as error:  # noqa: BLE001 - an adapter may fail in any way at all: one pair, not the audit
            return Comparison.failed(pair.slice.answers[0].part.pointer, str(error) or repr(error))
        if stream:
            found.disagreements += disagreements(driver, pair, driven, stream, self._recuts)
        return found


def _is_driven(api: Api) -> bool:
    """Whether its requests can be lifted, and its adapter sends through the client that it is handed, and nowhere else:
    nothing that was recorded is sent to anybody."""
    adapter = catalog.adapter(api.targets[0].adapter)
    return api.lift is not None and adapter.route is Route.CLIENT and Capability.STREAMING in adapter.capabilities


def _stream(pair: Pair) -> HttpResponse | None:
    answer = pair.i.answer
    if not pair.i.response.streamed:
        return None
    headers = {name: value for name, value in answer.headers.items() if name == "content-type"}
    return HttpResponse(answer.status, headers, answer.body)


def leaning(pair: Pair) -> str | None:
    """Why a follow-up cannot be made again from the response: the field, or kind of item, by which it leans on state
    that the server keeps instead of carrying the turn itself."""
    kinds = [entry.part.kind for entry in pair.slice.spoken if isinstance(entry.part, OpaqueView)]
    whole = pair.slice.calls and "item_reference" not in kinds
    return None if whole else pair.j.request.stateful


def compare(pair: Pair, produced: HttpRequest) -> Comparison:
    """Hold what an adapter sent against request j."""
    wire, calls = pair.j.wire, pair.i.response.calls
    found = Comparison(frozenset(call.id for call in calls if call.id), _reissued(pair))
    view = wire.view(produced)
    turns = answered_turns(view, pair.i.response)
    recorded_turn = unedited(pair.i.response, pair.slice, _reissued(pair))
    found.edits = recorded_turn.edits
    found.turn(recorded_turn.facts, turn_facts(turns[-1]) if turns else ())
    stated, sent = lifted(wire, pair.j.body, pair.j.request), lifted(wire, loads(produced.body), view)
    for facts in (system_facts, tool_facts, hosted_facts):
        found.sequence(facts(stated), facts(sent))
    return found


def _reissued(pair: Pair) -> frozenset[str]:
    """Encrypted contents of reasoning items that the stream gives before its last event gives others."""
    if not pair.i.response.streamed:
        return frozenset()
    last = set(_ENCRYPTED.findall(json.dumps(pair.i.response.body).encode()))
    return frozenset(content.decode() for content in _ENCRYPTED.findall(pair.i.answer.body) if content not in last)


def _placed(file: str, pair: Pair, found: Disagreement) -> PairDisagreement:
    return PairDisagreement(
        pair.j.wire.name,
        file,
        pair.i.index,
        pair.j.index,
        found.pointer,
        found.recorded,
        found.produced,
        found.kind,
    )
