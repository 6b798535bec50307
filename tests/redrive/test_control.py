"""The negative control: what is wrong in a follow-up turns its agreement into a disagreement."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import Any

from harness.redrive.apis import LIFTS
from harness.redrive.drive import Driver
from harness.redrive.pairs import Pair, pairs
from harness.redrive.recording import recorded
from harness.redrive.redrive import Redrive, compare, leaning
from harness.redrive.turns import answered_turns
from harness.tape.cassette import Cassette, Interaction
from harness.tape.read import read
from harness.wire.view import CallView, OpaqueView, ResultView
from tests.traffic import FOLDERS, ROOT, needs_traffic

pytestmark = needs_traffic

SAMPLE = 200
SIGNATURES = {"signature", "encrypted_content", "thoughtSignature", "thought_signature"}

Body = dict[str, Any]
Mutation = Callable[[Pair, Body, random.Random], bool]
"""Puts a fault into the body of a follow-up. False: there is no place for it."""


def holder(body: Body, pointer: str) -> tuple[Any, Any]:
    """What holds the value that a pointer leads to, and its key there."""
    place: Any = body
    *path, last = [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]
    for token in path:
        place = place[int(token)] if isinstance(place, list) else place[token]
    return place, int(last) if isinstance(place, list) else last


def swap_results(pair: Pair, body: Body, chance: random.Random) -> bool:
    """Two results change places; of those that say the same nothing would tell it."""
    places = [holder(body, result.pointer) for result in pair.slice.results]
    unlike = [
        (one, other)
        for at, one in enumerate(places)
        for other in places[at + 1 :]
        if one[0][one[1]] != other[0][other[1]]
    ]
    if not unlike:
        return False
    (one, key), (other, other_key) = chance.choice(unlike)
    one[key], other[other_key] = other[other_key], one[key]
    return True


def change_an_id(pair: Pair, body: Body, chance: random.Random) -> bool:
    parts = [*pair.slice.calls, *pair.slice.results]
    named = [part for part in parts if (part.id if isinstance(part, CallView) else part.call_id) is not None]
    if not named:
        return False
    place, key = holder(body, chance.choice(named).id_pointer)
    place[key] += "x"
    return True


def lose_a_signature(pair: Pair, body: Body, chance: random.Random) -> bool:
    roots = [holder(body, entry.part.pointer.removesuffix("/text")) for entry in pair.slice.spoken]
    found = [each for place, key in roots for each in signatures(place[key])]
    if not found:
        return False
    place, key = chance.choice(found)
    del place[key]
    return True


def signatures(value: Any) -> Iterator[tuple[Any, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in SIGNATURES and inner:
                yield value, key
            else:
                yield from signatures(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from signatures(inner)


def drop_a_part(pair: Pair, body: Body, chance: random.Random) -> bool:
    """A call, a result while there is another one, or a part without a type; all text or reasoning may be dropped."""
    parts = [entry.part for entry in (*pair.slice.spoken, *pair.slice.answers)]
    loose = [part for part in parts if isinstance(part, OpaqueView) and "reasoning" not in part.kind]
    loose = [part for part in loose if part.kind not in ("thinking", "thought")]
    results = [part for part in parts if isinstance(part, ResultView)]
    calls = [part for part in parts if isinstance(part, CallView)]
    place, key = holder(body, chance.choice([*calls, *loose, *(results if len(results) > 1 else ())]).pointer)
    del place[key]
    return True


MUTATIONS: tuple[Mutation, ...] = (swap_results, change_an_id, lose_a_signature, drop_a_part)


@dataclass(frozen=True)
class Mutant:
    """A pair with a faulty follow-up in the place of request j."""

    fault: str
    pair: Pair
    faulty: Pair


def recording(pair: Pair) -> Cassette:
    return Cassette((Interaction(pair.i.http, pair.i.answer), Interaction(pair.j.http, pair.j.answer)))


def with_body(pair: Pair, body: Body) -> Pair:
    http = replace(pair.j.http, body=json.dumps(body).encode())
    follow_up = replace(pair.j, http=http, body=body, request=pair.j.wire.view(http))
    return replace(pair, j=follow_up, slice=answered_turns(follow_up.request, pair.i.response)[-1])


def kinds(cassette: Cassette) -> list[str]:
    """What disagrees when the only pair of a recording is driven again."""
    with Redrive(recuts=0) as redrive:
        redrive.add("", cassette)
        result = redrive.result()
    assert sum(counts.pairs for counts in result.apis.values()) == 1
    return [each.kind for each in result.disagreements]


@cache
def mutants() -> tuple[Mutant, ...]:
    """A random 200 of the pairs that agree, each with a random fault that there is a place for."""
    chance = random.Random(20261121)  # noqa: S311 - a sample that repeats
    found = [
        pair
        for folder in FOLDERS
        for file in sorted((ROOT / folder).glob("*.yaml"))
        for exchanges in recorded(read(file)).values()
        for pair in pairs(exchanges)
        if leaning(pair) is None and pair.slice == answered_turns(pair.j.request, pair.i.response)[-1]
    ]
    chance.shuffle(found)
    made = (mutant(pair, chance) for pair in found if not kinds(recording(pair)))
    return tuple(islice(made, SAMPLE))


def mutant(pair: Pair, chance: random.Random) -> Mutant:
    rare, *others = MUTATIONS
    for mutation in (rare, *chance.sample(others, len(others))):
        body = json.loads(pair.j.http.body)
        if mutation(pair, body, chance):
            return Mutant(mutation.__name__, pair, with_body(pair, body))
    raise AssertionError("a follow-up without a place for any fault")


def test_the_faults_are_of_all_kinds() -> None:
    made = Counter(each.fault for each in mutants())
    assert made.total() == SAMPLE
    assert {name: count >= 10 for name, count in made.items()} == {fault.__name__: True for fault in MUTATIONS}


def test_a_fault_in_the_follow_up_disagrees_with_what_the_adapter_sends() -> None:
    drivers = {api: Driver(api) for api in LIFTS}
    silent = [
        (each.fault, each.pair.j.http.body)
        for each in mutants()
        if not compare(each.faulty, drivers[each.pair.j.wire.api].whole(each.pair).request).disagreements
    ]
    assert silent == []
    for driver in drivers.values():
        driver.close()


def can_tell(each: Mutant) -> bool:
    """Whether the recording itself has what tells the fault.

    Without ids swapped results are simply other results. A turn without its only call, whose result has no id that the
    API issued, is not there at all.
    """
    if each.fault == "swap_results":
        return all(result.call_id is not None for result in each.pair.slice.results)
    issued = {call.id for call in each.pair.i.response.calls} - {None}
    kept = any(result.call_id in issued for result in each.pair.slice.results)
    return each.fault != "drop_a_part" or len(each.pair.slice.calls) > 1 or kept


def test_a_recording_with_the_fault_in_it_disagrees() -> None:
    """The follow-up is driven again from the faulty recording, as if it were right."""
    told = [each for each in mutants() if can_tell(each)]
    assert len(told) > 0.8 * SAMPLE
    assert [(each.fault, each.faulty.j.http.body) for each in told if not kinds(recording(each.faulty))] == []
