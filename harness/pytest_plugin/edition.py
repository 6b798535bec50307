"""Selection of the facts for a session, from the project's settings and pytest's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.apis import registry
from harness.apis.fact_files import FactSelection, parse_day
from harness.platform.project import Project


def edition(config: pytest.Config, own: Project) -> FactSelection:
    """Return the facts to use: their files and the day. Raises `UsageError` or `FactsError`."""
    given: str = config.getini("harness_as_of")
    made = FactSelection(parse_day(given, "harness_as_of") if given else None, _files(config, own))
    made.check(registry.APIS.names())
    return made


def _files(config: pytest.Config, own: Project) -> tuple[Path, ...]:
    files = (config.rootpath / file for file in own.facts)
    return tuple(dict.fromkeys((*files, *config.getini("harness_facts"))))
