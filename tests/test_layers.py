from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def contract(name: str) -> dict[str, Any]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return next(each for each in settings["tool"]["importlinter"]["contracts"] if each["id"] == name)


def test_the_architecture_that_is_described_is_the_one_that_is_enforced() -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text().split("## Architecture\n")[1].split("\n## ")[0]
    rows = [re.findall(r"`(\w+)`", line.split("|")[2]) for line in section.splitlines() if line.startswith("| ")]
    described = [row for row in rows if row]
    layer_of = {room: at for at, layer in enumerate(contract("layers")["layers"]) for room in layer.split(" | ")}

    assert sorted(room for row in described for room in row) == sorted(layer_of.keys() - {"__main__"})
    for above, below in pairwise(described):
        assert max(layer_of[room] for room in above) <= min(layer_of[room] for room in below)


def test_every_api_is_held_apart_from_its_siblings_and_imported_by_nobody() -> None:
    packages = sorted(f"harness.apis.{path.parent.name}" for path in ROOT.glob("harness/apis/*/__init__.py"))

    assert contract("apis")["modules"] == packages
    assert contract("api-names")["protected_modules"] == packages


def test_reports_may_import_nothing_but_results() -> None:
    below = {name for layer in contract("layers")["layers"][4:] for name in layer.split(" | ")}

    assert {name.removeprefix("harness.") for name in contract("reports")["forbidden_modules"]} == below - {"results"}
