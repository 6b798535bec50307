"""How many requests a check of a server sends, and what they cost: rehearsed with the reference server beforehand."""

from __future__ import annotations

import json
from dataclasses import replace

from harness.apis.view import RequestView
from harness.checking.servers.inspection import Asked
from harness.checking.servers.line import Line
from harness.checking.servers.playing import played
from harness.checking.servers.price import Price, spending
from harness.checking.servers.server import Server
from harness.checking.servers.talk import Reply
from harness.checking.servers.understudy import Understudy
from harness.contract.model import Usage
from harness.results import Spending
from harness.running.play import BROKEN
from harness.running.stages.routes import NO_KEY

_BYTES = 4
"""Bytes of JSON that count as one token: a rule of thumb for English."""

_MODEL = "rehearsal"
"""A model that nobody knows, so that the reference server has no rules of a provider's for it."""

_GREETING = Usage(20, 20)
"""What the first request takes, which only greets, or a little less."""


def rehearsed(server: Server, asked: Asked, most: int | None, price: Price | None) -> Spending:
    """What the checks would take, at about the length that their scripts have. Nothing leaves this process."""
    understudy = Understudy(server.api, _MODEL)
    stand_in = replace(server, model=_MODEL, bound=server.questions.bounds[0])
    usages = [_GREETING]
    with Line(server.api, NO_KEY, send=understudy) as line:
        for check, variant in asked.cells():
            if check.lacks(server) is not None:
                continue
            try:
                talk = played(check, stand_in, line, _unseen, variant).talk
            except BROKEN:  # the check itself will tell
                continue
            usages += [_usage(reply) for reply in talk.replies] * asked.repeat
    sent = usages[:most]
    return spending(sent, len(sent), api=server.api.name, model=server.model, url=server.base_url, price=price)


def _unseen(check: str, reply: Reply, asked: RequestView | None) -> None:
    """Nobody watches a rehearsal."""
    del check, reply, asked


def _usage(reply: Reply) -> Usage:
    view = reply.view
    calls = [json.dumps({call.name: call.arguments}) for call in view.calls] if view is not None else []
    said = "".join([view.text if view is not None else "", *calls])
    return Usage(-(-len(reply.request.body) // _BYTES), -(-len(said.encode()) // _BYTES))
