from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def contract(name: str) -> dict[str, Any]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return next(each for each in settings["tool"]["importlinter"]["contracts"] if each["id"] == name)


def layers() -> list[list[str]]:
    return [re.split(r" [:|] ", layer) for layer in contract("layers")["layers"]]


def test_the_architecture_that_is_described_is_the_one_that_is_enforced() -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text().split("## Architecture\n")[1].split("\n## ")[0]
    rows = [re.findall(r"`(\w+)`", line.split("|")[2]) for line in section.splitlines() if line.startswith("| ")]
    *upper, knowledge, under_test, foundations = [row for row in rows if row]
    described = [["__main__"], *upper, knowledge + under_test, foundations]

    assert [sorted(row) for row in described] == [sorted(layer) for layer in layers()]


def test_every_api_is_held_apart_from_its_siblings_and_imported_by_nobody() -> None:
    packages = sorted(f"harness.apis.{path.parent.name}" for path in ROOT.glob("harness/apis/*/__init__.py"))

    assert contract("apis")["modules"] == packages
    assert contract("api-names")["protected_modules"] == packages


def test_reports_may_import_nothing_but_results() -> None:
    above = {"__main__", "cli", "pytest_plugin", "checks", "audit", "reports", "runner"}
    below = {name for layer in layers() for name in layer} - above

    assert {name.removeprefix("harness.") for name in contract("reports")["forbidden_modules"]} == below - {
        "results",
        "plugins",
    }
