"""How often something was so: what a model does, of which no single answer proves anything."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt

from harness.results import Rate

_Z = 1.959963984540054
"""The normal quantile of an interval of 95 %."""


def rate(name: str, target: str, tries: Iterable[bool]) -> Rate:
    """The share of the tries that came out, with its Wilson interval: it says something of few tries too, and stays
    within 0 and 1. There has to be one try at least."""
    every = list(tries)
    played, hits = len(every), sum(every)
    share, square = hits / played, _Z * _Z
    centre = (share + square / (2 * played)) / (1 + square / played)
    reach = _Z * sqrt(share * (1 - share) / played + square / (4 * played * played)) / (1 + square / played)
    return Rate(name, target, hits, played, round(max(centre - reach, 0.0), 4), round(min(centre + reach, 1.0), 4))
