"""Ids of calls: an API's own are facts, any others are names that only have to pair."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from harness.apis.view import CallView, PartView, RequestView, ResultView
from harness.meaning.pairing import paired


def with_ids_of(model: RequestView, view: RequestView, issued: Container[str]) -> RequestView:
    """`view` with the ids of `model` in place of those that no API issued, on each call and on what answers it.

    Ids that an adapter makes are random, or a function of something that it alone knows, and where the API can do
    without them some send none: what can be compared is which result they give to which call. A call that has no
    counterpart in `model`, or whose id two calls share, keeps its own.
    """
    pairing = paired(view)
    ids = [call.id for call in view.calls]
    renamed: dict[int, str | None] = {}
    for call, counterpart, results in zip(pairing.calls, model.calls, pairing.results, strict=False):
        own = call.id is None or (call.id not in issued and ids.count(call.id) == 1)
        foreign = counterpart.id is None or counterpart.id not in issued
        if own and foreign and call.name == counterpart.name:
            renamed |= {id(part): counterpart.id for part in (call, *results)}
    turns = [replace(turn, parts=tuple(_renamed(part, renamed) for part in turn.parts)) for turn in view.turns]
    return replace(view, turns=tuple(turns))


def _renamed(part: PartView, names: dict[int, str | None]) -> PartView:
    if id(part) not in names:
        return part
    if isinstance(part, CallView):
        return replace(part, id=names[id(part)])
    return replace(part, call_id=names[id(part)]) if isinstance(part, ResultView) else part
