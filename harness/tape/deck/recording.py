"""A test recorded."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from threading import Lock

from harness.contract.errors import CassetteError
from harness.contract.http import HttpRequest, HttpResponse
from harness.host import keys
from harness.host.secret_names import is_secret_header
from harness.tape.cassette import Cassette, Interaction
from harness.tape.deck.playing import Played
from harness.tape.deck.taken import Taken, told
from harness.tape.interception.seam import Keep
from harness.tape.redact import RESPONSE_HEADERS, Redactor
from harness.tape.redact.address import carried, secrets
from harness.tape.write import dumps_of_test, replace

HEADERS = RESPONSE_HEADERS | {"date", "location"}
"""The headers of responses that are kept: with the day that an exchange is judged by, and what a redirect needs."""


def redactor(requests: Collection[HttpRequest] = ()) -> Redactor:
    """Takes out the keys of the environment, those that requests carry, and what has the shape of a key."""
    in_addresses = (secret for url in keys.addresses() for secret in secrets(url))
    return Redactor({*keys.secrets(), *in_addresses, *_carried(requests)}, shaped=True, answered=HEADERS)


class Recording:
    """Has the requests of a test sent, and keeps what comes back in the order in which they were sent; thread-safe."""

    def __init__(self, taken: Taken) -> None:
        self._taken = taken
        self._lock = Lock()
        self._requests: list[HttpRequest] = []
        self._responses: dict[int, HttpResponse] = {}

    def asked(self, request: HttpRequest) -> Keep | None:
        """What takes the answer to a request; `None` if nobody wants it."""
        if not self._taken(request):
            return None
        with self._lock:
            self._requests.append(request)
            return partial(self._keep, len(self._requests) - 1)

    @property
    def exchanges(self) -> list[Played]:
        """What was sent and answered."""
        return [
            Played(request, at, Interaction(request, self._responses[at]))
            for at, request in enumerate(self._requests)
            if at in self._responses
        ]

    def save(self, path: Path) -> int:
        """Write the cassette, without secrets; returns how many exchanges are in it. Nothing is written of none.

        Raises:
            CassetteError: an answer cannot be kept, a secret would be written, or the folder cannot be.
        """
        interactions = [each.recorded for each in self.exchanges if each.recorded is not None]
        if interactions:
            note = f"Recorded by a test, with harness, on {dt.datetime.now(dt.UTC).date()}."
            replace(path, text(Cassette(tuple(interactions)), note, str(path)))
        return len(interactions)

    def _keep(self, at: int, response: HttpResponse) -> None:
        with self._lock:
            self._responses[at] = response


def text(cassette: Cassette, note: str, file: str) -> bytes:
    """The text of a test's cassette, without what may not be stored. `file` is named in errors.

    Raises:
        CassetteError: an answer is missing or cannot be unpacked, a secret would be in it, or YAML cannot carry it.
    """
    clean = redactor([each.request for each in cassette.interactions])
    kept: list[Interaction] = []
    for at, each in enumerate(cassette.interactions):
        response = each.response
        if response is not None and "content-encoding" in response.headers:
            encoding = response.headers["content-encoding"]
            reason = f"the answer to {told(each.request)} came as {encoding!r}, which cannot be unpacked here."
            raise CassetteError(file, reason, f"interaction {at}")
        kept.append(Interaction(clean.request(each.request), response and clean.response(response)))
    data = dumps_of_test(Cassette(tuple(kept)), note, file)
    if clean.finds(data):
        raise CassetteError(file, "a key would be in it, so nothing was written. Please report this.")
    return data


def _carried(requests: Collection[HttpRequest]) -> Iterator[str]:
    for request in requests:
        yield from carried(request.url)
        for name, value in request.headers.items():
            if is_secret_header(name):
                yield value
                yield value.rpartition(" ")[2]  # behind `Bearer`
