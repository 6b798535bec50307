"""Recording of a user's test."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from threading import Lock

from harness.contract.errors import CassetteError
from harness.contract.http import HttpRequest, HttpResponse
from harness.tape.cassette import Cassette, Interaction
from harness.tape.content_encoding import missing
from harness.tape.deck.playing import Played
from harness.tape.deck.storing import (
    Taken,
    brings_tokens,
    learned,
    redactor,
    request_as_stored,
    response_as_stored,
    spoken,
    told,
)
from harness.tape.interception.seam import Keep
from harness.tape.suspects import suspects, unallowed
from harness.tape.write import dumps_of_test, replace


class Recording:
    """Collects requests and responses of a test, in the order of the requests; thread-safe.

    Suspected secrets may be stored in the `allowed` places.
    """

    def __init__(self, taken: Taken, allowed: Sequence[str] = ()) -> None:
        self._taken = taken
        self._allowed = allowed
        self._lock = Lock()
        self._requests: list[HttpRequest] = []
        self._responses: dict[int, HttpResponse] = {}

    def asked(self, request: HttpRequest) -> Keep | None:
        """Return the function that receives the response; `None` if the request is not recorded."""
        if not self._taken(request):
            return None
        with self._lock:
            self._requests.append(request)
            return partial(self._keep, len(self._requests) - 1)

    @property
    def forms(self) -> list[str]:
        """Descriptions of the exchanges that issue tokens. Only their structure is stored."""
        found = [each.recorded for each in self.exchanges if each.recorded is not None]
        return [told(each.request) for each in found if brings_tokens(each)]

    @property
    def exchanges(self) -> list[Played]:
        """The answered requests."""
        return [
            Played(request, at, Interaction(request, self._responses[at]))
            for at, request in enumerate(self._requests)
            if at in self._responses
        ]

    def save(self, path: Path) -> int:
        """Write the cassette without secrets, if there are exchanges, and return their number.

        Raises:
            CassetteError: an answer cannot be kept, a secret would be written, or the folder cannot be.
        """
        interactions = [each.recorded for each in self.exchanges if each.recorded is not None]
        if interactions:
            note = f"Recorded by a test, with harness, on {dt.datetime.now(dt.UTC).date()}."
            replace(path, text(Cassette(tuple(interactions)), note, str(path), self._allowed))
        return len(interactions)

    def _keep(self, at: int, response: HttpResponse) -> None:
        with self._lock:
            self._responses[at] = response


def text(
    cassette: Cassette, note: str, file: str, allowed: Sequence[str] = (), option: str = "--harness-allow-secret"
) -> bytes:
    """Return the text of a test's cassette without secrets.

    `file` is named in errors. Suspected secrets in a conversation may be stored in the `allowed` places, which `option`
    sets.

    Raises:
        CassetteError: an answer is missing or cannot be unpacked, a secret or what looks like one would be in it, or
            YAML cannot carry it.
    """
    clean = redactor([each.request for each in cassette.interactions], learned(cassette.interactions))
    kept: list[Interaction] = []
    for at, each in enumerate(cassette.interactions):
        response = each.response
        if response is not None and "content-encoding" in response.headers:
            encoding = response.headers["content-encoding"]
            package = missing().get(encoding.strip().lower())
            way_out = f": pip install {package}." if package else "."
            reason = f"the answer to {told(each.request)} came as {encoding!r}, which cannot be unpacked here{way_out}"
            raise CassetteError(file, reason, f"interaction {at}")
        answer = response and response_as_stored(each.request, response, clean)
        kept.append(Interaction(request_as_stored(each.request, clean), answer))
    found = suspects(kept, [spoken(each.request) for each in cassette.interactions], Path(file))
    refused = unallowed(found, allowed, option)
    if refused is not None:
        raise CassetteError(file, f"{refused}.")
    data = dumps_of_test(Cassette(tuple(kept)), note, file)
    if clean.finds(data):
        raise CassetteError(file, "a key would be in it, so nothing was written. Please report this.")
    return data
