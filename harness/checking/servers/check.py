"""A check of a server: what it promises, what is sent, how the answers are judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.checking.servers.server import Server
from harness.checking.servers.talk import Talk
from harness.scenarios.schema import HistoryMessage, StepSpec, Subject, Variant

BOTH: tuple[Variant, ...] = ("whole", "stream")


def _anybody(_server: Server) -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A check with a stable kebab-case `id`.

    `promise` says in one sentence what has to hold, `source` where that comes from, and `because` what a breach costs.
    `sends` says what is asked. `prompt` is the first text of its user, by which the reference server knows the check,
    and `script` what a model answers that does as it is told: by it the cost is reckoned beforehand, and by it the
    checks themselves are tested. `history` is what of the conversation came from elsewhere.
    `play` asks and judges. `lacks(server)` says why it cannot be asked of a server.
    `never` is what is said if in no playing came out what is counted under `counted`: no single answer proves that.
    """

    id: str
    subject: Subject
    promise: str
    source: str
    because: str
    sends: str
    prompt: str
    script: tuple[StepSpec, ...]
    play: Callable[[Talk], None]
    history: tuple[HistoryMessage, ...] = ()
    variants: tuple[Variant, ...] = BOTH
    lacks: Callable[[Server], str | None] = _anybody
    counted: str = ""
    never: str = ""
