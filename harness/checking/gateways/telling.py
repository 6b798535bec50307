"""What was said in a cell, and what passed both ends of a gateway for it, as reports show it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from harness.checking.gateways.passage import Side
from harness.checking.gateways.playing import Played
from harness.results import Conversation, Sent
from harness.rules.conversation import fitting, said, sent
from harness.tape.redact import Redactor


def told(played: Played, redactor: Redactor, most: int) -> Conversation:
    """The conversation of a cell, in about `most` characters. Its exchanges have numbers that no finding names, since
    these have the places of both bodies themselves."""
    words = said(played.chats, redactor)
    left = most - sum(len(each.text) for each in words)
    return Conversation(words, fitting(_exchanges(played, redactor), left))


def _exchanges(played: Played, redactor: Redactor) -> Iterator[Sent]:
    number = 0
    for passage in played.passages:
        ends = [("client to gateway", passage.client), *(("gateway to upstream", each) for each in passage.upstream)]
        for end, side in ends:
            number -= 1
            yield _exchange(number, end, side, redactor)


def _exchange(number: int, end: str, side: Side, redactor: Redactor) -> Sent:
    exchange = side.exchange
    shown = sent(number, exchange.request, exchange.response, side.response, redactor)
    return replace(shown, request=f"{end}: {shown.request}", chat=exchange.chat)
