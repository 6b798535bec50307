"""The negative control: a fault in the request of an adapter is a disagreement with the recording."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import Any

from harness.apis.view import CallView, OpaqueView, TextView
from harness.audit.client_edits import undo_edits
from harness.audit.redrive import AdapterDriver, compare_requests, server_state_field
from harness.audit.redrive_pairs import (
    RedrivePair,
    accepted_exchanges,
    answered_turns,
    find_pairs,
    match_answered_calls,
    match_issued_calls,
)
from harness.cassettes.cassette_files import read
from harness.model.http import HttpRequest
from tests.traffic import FOLDERS, ROOT, needs_traffic

pytestmark = needs_traffic

EACH = 12
"""So many pairs get each fault."""

SIGNATURES = {"signature", "encrypted_content", "thoughtSignature", "thought_signature"}

Body = dict[str, Any]
Mutation = Callable[[RedrivePair, Body, random.Random], bool]
"""Puts a fault into the body of a follow-up. False: there is no place for it."""


def holder(body: Body, pointer: str) -> tuple[Any, Any]:
    """What holds the value that a pointer leads to, and its key there."""
    place: Any = body
    *path, last = [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]
    for token in path:
        place = place[int(token)] if isinstance(place, list) else place[token]
    return place, int(last) if isinstance(place, list) else last


def swap_results(pair: RedrivePair, body: Body, chance: random.Random) -> bool:
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


def change_an_id(pair: RedrivePair, body: Body, chance: random.Random) -> bool:
    parts = [*pair.slice.calls, *pair.slice.results]
    named = [part for part in parts if (part.id if isinstance(part, CallView) else part.call_id) is not None]
    if not named:
        return False
    place, key = holder(body, chance.choice(named).id_pointer)
    place[key] += "x"
    return True


def lose_a_signature(pair: RedrivePair, body: Body, chance: random.Random) -> bool:
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


def drop_a_result(pair: RedrivePair, body: Body, chance: random.Random) -> bool:
    """One of several: without any nothing is answered."""
    if len(pair.slice.results) < 2:
        return False
    place, key = holder(body, chance.choice(pair.slice.results).pointer)
    del place[key]
    return True


def drop_a_call(pair: RedrivePair, body: Body, chance: random.Random) -> bool:
    """With its result, as a client does that runs only some of the calls."""
    answers = match_answered_calls(pair.slice, pair.i.response.calls)
    if len(pair.slice.calls) < 2 or len(answers) < 2 or None in answers:
        return False
    dropped = chance.choice([at for at in answers if at is not None])
    call = pair.slice.calls[match_issued_calls(pair.slice.calls, pair.i.response.calls).index(dropped)]
    pointers = [call.pointer, pair.slice.results[answers.index(dropped)].pointer]
    for place, key in [holder(body, pointer) for pointer in reversed(pointers)]:  # the later one first
        del place[key]
    return True


def drop_a_part(pair: RedrivePair, body: Body, chance: random.Random) -> bool:
    """One without a type; all reasoning may be dropped."""
    parts = [entry.part for entry in pair.slice.spoken]
    loose = [part for part in parts if isinstance(part, OpaqueView) and part.kind not in REASONING]
    if not loose:
        return False
    place, key = holder(body, chance.choice(loose).pointer)
    del place[key]
    return True


def rename_a_call(pair: RedrivePair, body: Body, chance: random.Random) -> bool:
    call = chance.choice(pair.slice.calls)
    place, key = holder(body, call.pointer)
    held = place[key]
    for inner in ("function", "functionCall", "function_call", "custom"):
        held = held.get(inner, held)
    held["name"] = "renamed_" + held["name"]
    return call.id is not None or bool(call.arguments)


def rewrite_arguments(pair: RedrivePair, body: Body, chance: random.Random) -> bool:
    call = chance.choice(pair.slice.calls)
    place, key = holder(body, call.arguments_pointer)
    if key not in place or not isinstance(call.arguments, dict):
        return False
    other = {**call.arguments, "altered": True}
    place[key] = json.dumps(other) if isinstance(place[key], str) else other
    return True


def reword_a_text(pair: RedrivePair, body: Body, chance: random.Random) -> bool:
    texts = [entry.part for entry in pair.slice.spoken if isinstance(entry.part, TextView) and entry.part.text]
    if not texts:
        return False
    place, key = holder(body, chance.choice(texts).pointer)
    place[key] = place[key].strip() + " Or so."
    return True


def leave_ids_out(pair: RedrivePair, body: Body, chance: random.Random) -> bool:
    """Where they are optional, and the answer had them: to leave out one's own is no edit."""
    if any(call.id is None for call in pair.i.response.calls):
        return False
    calls = [call for call in pair.slice.calls if call.id is not None]
    if pair.j.wire.name != "gemini" or not calls or len(calls) != len(pair.slice.results):
        return False
    for part in (*calls, *pair.slice.results):
        place, key = holder(body, part.id_pointer)
        place.pop(key, None)
    return True


REASONING = {"thinking", "redacted_thinking", "thought", "reasoning", "reasoning_content", "reasoning_details"}

FAULTS: tuple[Mutation, ...] = (
    *(swap_results, change_an_id, lose_a_signature, drop_a_result, drop_a_call, drop_a_part),
    *(rename_a_call, rewrite_arguments, reword_a_text, leave_ids_out),
)


@dataclass(frozen=True)
class Mutant:
    """A pair in whose follow-up a fault has a place. `seed` makes the same fault in another body."""

    fault: Mutation
    seed: int
    pair: RedrivePair


@cache
def agreeing() -> tuple[RedrivePair, ...]:
    """The pairs that nobody edited, in an order of chance."""
    found = [
        pair
        for folder in FOLDERS
        for file in sorted((ROOT / folder).glob("*.yaml"))
        for exchanges in accepted_exchanges(read(file)).values()
        for pair in find_pairs(exchanges)
        if server_state_field(pair) is None
        and pair.slice == answered_turns(pair.j.request, pair.i.response)[-1]
        and not undo_edits(pair.i.response, pair.slice).edits
    ]
    random.Random(20261121).shuffle(found)  # noqa: S311 - a sample that repeats
    return tuple(found)


@cache
def mutants() -> tuple[Mutant, ...]:
    """Each fault in as many pairs as have a place for it, up to `EACH`."""
    return tuple(mutant for fault in FAULTS for mutant in islice(_mutants(fault), EACH))


def _mutants(fault: Mutation) -> Iterator[Mutant]:
    for seed, pair in enumerate(agreeing()):
        body = json.loads(pair.j.http.body)
        if fault(pair, body, random.Random(seed)):  # noqa: S311 - it repeats
            yield Mutant(fault, seed, pair)


@cache
def sent(seed: int) -> HttpRequest:
    """What the adapter sends where pair number `seed` of those that agree has its follow-up."""
    pair = agreeing()[seed]
    driver = AdapterDriver(pair.j.wire)
    request = driver.whole(pair).request
    driver.close()
    return request


def sent_with_the_fault(each: Mutant) -> HttpRequest | None:
    """What the adapter would send if the fault were its own."""
    request = sent(each.seed)
    view = each.pair.j.wire.view(request)
    place = replace(each.pair, slice=answered_turns(view, each.pair.i.response)[-1])
    body = json.loads(request.body)
    if not each.fault(place, body, random.Random(each.seed)):  # noqa: S311 - it repeats
        return None
    return replace(request, body=json.dumps(body).encode())


def test_a_fault_of_the_adapter_disagrees() -> None:
    silent, made = [], 0
    for each in mutants():
        request = sent_with_the_fault(each)
        if request is not None:
            made += 1
            if not compare_requests(each.pair, request).disagreements:
                silent.append((each.fault.__name__, each.pair.j.http.body, request.body))
    assert silent == []
    assert made > 0.8 * len(mutants()) > 70
    found = Counter(each.fault for each in mutants())
    assert {fault.__name__ for fault in FAULTS if found[fault] < (1 if fault is drop_a_part else 5)} == set()
