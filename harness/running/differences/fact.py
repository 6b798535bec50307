"""A fact that is observed on the wire, and what of a cell's exchanges facts are read off."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from harness.apis.entries import parsed
from harness.apis.view import PartView, ResultView, TurnView, WireError
from harness.contract.model import JSON
from harness.rules.evidence import Asked, Evidence
from harness.scenarios.schema import Subject


@dataclass(frozen=True, slots=True)
class Fact:
    """One row: what is looked at, and how it is read off a cell's exchanges (nothing: the cell does not show it)."""

    subject: Subject
    name: str
    observe: Callable[[Evidence], Iterable[str]]


@lru_cache(4096)
def place(pointer: str) -> str:
    """A pointer with its indices left open: `/messages/3/content/0` → `messages[].content[]`."""
    return re.sub(r"/\d+(?=/|$)", "[]", pointer).lstrip("/").replace("/", ".")


def body_of(asked: Asked) -> JSON:
    """The body of a request, `None` for one that cannot be read."""
    try:
        return parsed(asked.reading.exchange.request.body)
    except WireError:
        return None


def parts_of(evidence: Evidence) -> Iterator[tuple[Asked, TurnView, PartView]]:
    """All that was said, each part once: that it is said again with the next request shows nothing else."""
    for asked in evidence.asked:
        for turn in evidence.new_turns(asked):
            for part in turn.parts:
                yield asked, turn, part


def results_of(evidence: Evidence) -> Iterator[ResultView]:
    """All results of tools, each once."""
    return (part for _, _, part in parts_of(evidence) if isinstance(part, ResultView))
