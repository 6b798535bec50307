"""The reference server in a thread of this process, for tests that record: nobody's traffic but its own."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from harness.apis.facts import Edition
from harness.running.serving.conversation import Terms
from harness.running.serving.reception import Reception
from harness.running.serving.ways import cut
from harness.scenarios import suite
from harness.scenarios.load import load_file
from harness.tape.server import serve

SCENARIO = "call-parallel-same-tool"
PACE = 0.002


@contextmanager
def serving(*, recut: int | None = None) -> Generator[str, None, None]:
    """Its origin. Below `/SCENARIO/SESSION` there is a conversation, whose streams come in pieces: an event each, or
    cut in the way of a number."""
    found = load_file(suite.shipped("scenarios") / f"{SCENARIO}.yaml")
    ways = None if recut is None else (lambda _: [cut(recut)])
    reception = Reception([found], {}, Terms(edition=Edition(), pace=PACE, ways=ways), print)
    with serve(reception) as server:
        reception.origin = server.origin
        yield server.origin
