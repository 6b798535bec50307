"""Plays one cell through a gateway: our adapter of the client's API asks, the reference server answers behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx2

from harness.checking.gateways.passage import Passage, Way, passages
from harness.checking.gateways.saying import saying
from harness.checking.gateways.upstream import Upstream
from harness.contract.protocols import Endpoint
from harness.results import Chat, ServedTranscript, TurnedAway
from harness.rules.evidence import Evidence
from harness.running.play import play
from harness.running.stages import Cell
from harness.tape.tap import Tap
from harness.tape.transport import ALONE, TapTransport


@dataclass(frozen=True, slots=True)
class Door:
    """The address of the gateway: its base URL in the form that the client's SDK takes, the key, the seconds that an
    answer may take, and further headers."""

    url: str
    key: str
    seconds: float = 60.0
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class _Heading(httpx2.BaseTransport):
    """Sends requests on with more headers, which nothing in front of it sees."""

    def __init__(self, inner: httpx2.BaseTransport, headers: Mapping[str, str]) -> None:
        self._inner, self._headers = inner, headers

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        sent = httpx2.Request(
            request.method,
            request.url,
            headers={**request.headers, **self._headers},
            content=request.read(),
            extensions=request.extensions,
        )
        return self._inner.handle_request(sent)


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a cell at both ends. `upstream` is what the upstream got, as the rules look at it."""

    passages: tuple[Passage, ...]
    chats: tuple[Chat, ...]
    upstream: Evidence

    @property
    def turned_away(self) -> tuple[TurnedAway, ...]:
        """The requests that the upstream refused for what is around their chat."""
        transcript = self.upstream.transcript
        return transcript.turned_away if isinstance(transcript, ServedTranscript) else ()


def played(cell: Cell, way: Way, door: Door, upstream: Upstream) -> Played:
    """Play a cell.

    Raises:
        harness.contract.errors.UsageError: the adapter cannot be connected.
    """
    tap = Tap(door.url, door.url)
    secured = door.url.startswith("https:")  # certificates take long to load
    line = httpx2.HTTPTransport(verify=secured, trust_env=False, limits=ALONE)
    with (
        upstream.holding(cell.scenario, way.upstream, lambda: len(tap.exchanges)) as held,
        httpx2.Client(
            transport=TapTransport(_Heading(line, door.headers), tap), trust_env=False, timeout=door.seconds
        ) as client,
    ):
        endpoint = Endpoint(door.url, door.key, client)
        playing = play(cell.scenario, saying(cell.scenario.id, cell.target), endpoint, lambda _chat: None, cell.variant)
        found = passages(way, cell.scenario, tap.exchanges, held.exchanges)
        return Played(found, playing.chats, held.evidence)
