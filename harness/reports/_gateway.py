"""What became of facts on their way through a gateway, as a table: the same for every report that people read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.results import FactFates, Fate

HEADING = "Through the gateway: what the client says and what the upstream answers, by cells"


def heads(fates: Sequence[FactFates]) -> list[str]:
    """The columns: the client's API and the upstream."""
    return ["", *dict.fromkeys(map(pair, fates))]


def pair(fates: FactFates) -> str:
    """What a column is called."""
    return f"{fates.client}>{fates.upstream}"


def rows(fates: Sequence[FactFates]) -> Iterator[tuple[str, list[list[tuple[Fate, int]]]]]:
    """A row for each fact: for each column how many cells ended in which fate, the best first."""
    columns = heads(fates)[1:]
    for fact in dict.fromkeys(each.fact for each in fates):
        by_column = {pair(each): each for each in fates if each.fact == fact}
        yield fact, [counts(by_column[column]) if column in by_column else [] for column in columns]


def counts(fates: FactFates) -> list[tuple[Fate, int]]:
    """The fates that occur, each with the number of its cells."""
    return [(fate, number) for fate in Fate if (number := int(getattr(fates, fate.value)))]


def told(found: Sequence[tuple[Fate, int]]) -> str:
    """`40 preserved, 2 lost`; `-` where nobody said it."""
    return ", ".join(f"{number} {fate}" for fate, number in found) or "-"
