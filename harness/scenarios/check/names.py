"""Names that a scenario refers to, of which each has to be known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness import catalog
from harness.contract.errors import UnknownName
from harness.scenarios.check.problem import Problem
from harness.scenarios.document import Path


def unknown(kind: str, given: Iterable[str], known: list[str], path: Path) -> Iterator[Problem]:
    """The names that are not among the known ones of their kind."""
    for index, name in enumerate(given):
        if name not in known:
            yield Problem((*path, index), str(UnknownName(kind, name, known)))


def unknown_apis(by_api: Iterable[str], path: Path) -> Iterator[Problem]:
    """The names that no API has."""
    for name in by_api:
        if all(name != api.name for api in catalog.apis()):  # which are looked up once: a folder has many steps
            yield Problem((*path, name), str(UnknownName("API", name, catalog.APIS.names())))
