"""The pairs of the facts through the public commands: what an audit of other people's recordings says of both requests,
and what a replay says of an adapter that sends them. Nothing is held against the twin."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from harness.tape.library import Library
from tests.limits.pairs import SIDES, WITHOUT_ADDRESS, Pair, foreign, pairs, record, scenario
from tests.limits.proof import command, found_from_here
from tests.once import once

Told: TypeAlias = dict[str, str]
"""The ids of the limits and facts that were told of a request, with their severities."""

PLAYED = {name: made for name, made in pairs().items() if not WITHOUT_ADDRESS.intersection(made.fact.service or ())}
"""The pairs whose server is told by its address, as in any recording."""


def audited(folder: Path) -> dict[str, Told]:
    """By the names of requests, what one audit of all of them says."""
    for name, made in PLAYED.items():
        for side in SIDES:
            (folder / f"{name}-{side}.json").write_text(json.dumps(foreign(made, side)))
    _, report = command("audit", str(folder))
    return _told(report, lambda cell: Path(cell["scenario"]).stem)


def replayed(folder: Path) -> dict[str, Told]:
    """By the names of requests, what runs in replay say of them: one for each model."""
    groups: dict[tuple[str, str], list[Pair]] = defaultdict(list)
    for made in PLAYED.values():
        groups[made.api.name, made.model].append(made)
    told: dict[str, Told] = {}
    with found_from_here():
        for number, ((api, model), of_model) in enumerate(groups.items()):
            place = folder / str(number)
            place.mkdir()
            target = of_model[0].api.targets[0]
            library, files = Library(place / "cassettes"), list[str]()
            for made in of_model:
                for side in SIDES:
                    file = place / f"{made.fact.id}-{side}.yaml"
                    file.write_text(json.dumps(scenario(made, side)))
                    record(made, side, file, library)
                    files.append(str(file))
            adapter = f"tests.limits.sender:{api.replace('-', '_').upper()}"
            chosen = ["--adapter", adapter, "--target", target.name, "--variant", "whole"]
            chosen += ["--model", f"{target.name}={model}", "--cassettes", str(library.root)]
            _, report = command("run", *chosen, *files)
            told |= _told(report, lambda cell: cell["scenario"])
    return told


def _told(report: dict[str, Any], name_of: Any) -> dict[str, Told]:
    return {
        name_of(cell): {found["rule"]: found["severity"] for found in cell["findings"] if found["kind"] == "limit"}
        for cell in report["cells"]
    }


@pytest.fixture(scope="session", params=[audited, replayed], ids=["audit", "replay"])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Told]:
    """What a command says of all requests, played once for all processes that run tests."""
    return once(tmp_path_factory, request.param.__name__, request.param)


@pytest.mark.parametrize("fact", PLAYED)
def test_what_breaks_a_fact_is_told_so_and_its_twin_is_not(fact: str, told: Mapping[str, Told]) -> None:
    broken, twin = told[f"{fact}-broken"], told[f"{fact}-twin"]

    new = {rule: severity for rule, severity in broken.items() if rule not in twin}
    assert new
    assert fact not in twin
    assert "error" not in twin.values()
    if PLAYED[fact].fact.is_certain:
        assert "error" in new.values()
