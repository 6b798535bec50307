"""An answer as it is kept: decoded, and cut where its pieces ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from harness.contract.http import Delivery, Ending, HttpResponse
from harness.tape.content_encoding import decode

PLAIN = "identity"
"""What is accepted of encodings while answers are kept: where pieces of what is packed end, nothing in it does."""


def kept(status: int, headers: Mapping[str, str], pieces: Sequence[bytes], ending: Ending) -> HttpResponse:
    """A response whose body came in `pieces`. What a server packs though nobody asked for it is unpacked, and in one
    piece; what cannot be unpacked here stays as it came, and its header says so."""
    plain = {name.lower(): value for name, value in headers.items()}
    body = b"".join(pieces)
    try:
        unpacked = decode(body, plain.get("content-encoding", ""), whole=ending == "complete")
    except ValueError:
        return HttpResponse(status, plain, body, Delivery(ending=ending))
    cuts = _cuts(pieces) if unpacked == body else ()
    without = {name: value for name, value in plain.items() if name != "content-encoding"}
    return HttpResponse(status, without, unpacked, Delivery(cuts, ending=ending))


def _cuts(pieces: Iterable[bytes]) -> tuple[int, ...]:
    """Where pieces end, but for the last one."""
    return tuple(accumulate(len(piece) for piece in pieces if piece))[:-1]
