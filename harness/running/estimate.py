"""What recording would cost, before anything is sent: the chosen cells, rehearsed with the reference server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from harness import catalog
from harness.apis.api import Api
from harness.apis.view import ResponseView
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import Usage
from harness.reference.session import Session
from harness.results import Spending
from harness.running.costs import cost
from harness.running.play import BROKEN, play
from harness.running.stages import Cell, Replay

CellKey: TypeAlias = tuple[str, str, str]
"""Scenario, target and variant."""

_BYTES = 4
"""Bytes of JSON that count as one token: a rule of thumb for English."""


def estimate(
    cells: Sequence[Cell], *, base_urls: Mapping[str, str] | None = None, max_requests: int | None = None
) -> dict[str, Spending]:
    """What the cells would take, by target. Nothing leaves this process.

    Each request counts with the bytes of its body, each answer with those that the scenario scripts, up to the bound
    that the request sets: a model may well say more, and its reasoning comes on top. `base_urls` are the servers that
    stand in for providers, by target; `max_requests` is the most that would be sent.
    """
    rehearsal = _Rehearsal(base_urls or {}, max_requests)
    with Replay(()) as stages:
        for cell in cells:
            try:
                rehearsal.play(cell, stages)
            except _Enough:
                break
    return {target: Spending.together(parts) for target, parts in rehearsal.parts.items()}


@dataclass(frozen=True, slots=True)
class Foreseen:
    """One request as it is rehearsed: the tokens of its text and of the scripted answer, and the most that it allows
    (`None`: it sets no bound; 0: of embeddings nothing is written)."""

    read: int
    written: int
    bound: int | None


def foreseen(cells: Sequence[Cell]) -> dict[CellKey, list[Foreseen]]:
    """The requests of each cell; of one whose adapter cannot be rehearsed here there are none. Nothing leaves this
    process."""
    rehearsal = _Rehearsal({}, None)
    with Replay(()) as stages:
        for cell in cells:
            rehearsal.play(cell, stages)
    return rehearsal.requests


class _Rehearsal:
    def __init__(self, base_urls: Mapping[str, str], max_requests: int | None) -> None:
        self.parts: dict[str, list[Spending]] = {}
        self.requests: dict[CellKey, list[Foreseen]] = {}
        self._base_urls = base_urls
        self._max_requests = max_requests
        self._begun = 0

    def play(self, cell: Cell, stages: Replay) -> None:
        """Play one cell, noting what each of its requests would take. Raises `_Enough`."""
        target = cell.target
        wire = catalog.api(target.api)
        session = Session(cell.scenario, wire, target.model, target.profile)

        def handle(request: HttpRequest) -> HttpResponse:
            response = session(request)
            if response.status < 400:
                self._note(cell, wire, request, response)
            return response

        with stages.endpoint(target, handle) as endpoint:
            try:
                play(cell.scenario, target, endpoint, self._begin, cell.variant)
            except _Enough:
                raise
            except BROKEN:  # the recording will tell, and whose fault it is
                return

    def _begin(self, _chat: int) -> None:
        if self._begun == self._max_requests:
            raise _Enough
        self._begun += 1

    def _note(self, cell: Cell, wire: Api, request: HttpRequest, response: HttpResponse) -> None:
        target, model, said, most = cell.target, cell.target.model, 0, None
        if cell.scenario.embeddings is not None and wire.embeddings is not None:
            model, most = wire.embeddings.view(request).model or model, 0
        else:
            said = _tokens(_said(wire.read(response)))
            bound = wire.view(request).settings.get("max_tokens")
            if bound is not None and isinstance(bound.value, int):
                said, most = min(said, bound.value), bound.value
        usage = Usage(_tokens(request.body), said)
        self.requests.setdefault(key_of(cell), []).append(Foreseen(_tokens(request.body), said, most))
        dollars = cost(target.api, model, usage, url=self._base_urls.get(target.name))
        part = Spending(model, 1, usage, dollars, int(dollars is None))
        self.parts.setdefault(target.name, []).append(part)


def key_of(cell: Cell) -> CellKey:
    """Which cell of a run it is."""
    return cell.scenario.id, cell.target.name, cell.variant


class _Enough(Exception):  # not an error: the recording may send nothing more
    pass


def _said(view: ResponseView) -> bytes:
    """The text of an answer and the JSON of its calls: what of it the model writes."""
    calls = [json.dumps({call.name: call.arguments}, ensure_ascii=False) for call in view.calls]
    return "".join([view.text, *calls]).encode("utf-8", "backslashreplace")


def _tokens(text: bytes) -> int:
    return -(-len(text) // _BYTES)
