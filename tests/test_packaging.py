from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SHIPPED = ("scenarios", "cassettes")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", str(folder), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode and "hatchling" in built.stderr and "No matching distribution" in built.stderr:
        pytest.skip("offline: pip cannot fetch hatchling to build the wheel")
    assert built.returncode == 0, built.stderr
    return next(folder.glob("toolcall_harness-*.whl"))


def test_a_wheel_ships_every_scenario_and_cassette(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())

    shipped = {path.relative_to(ROOT) for path in (ROOT / "scenarios").rglob("*.yaml")}
    assert shipped
    assert {f"harness/_shipped/{path.as_posix()}" for path in shipped} <= names
    assert wheel.stat().st_size < 4_000_000
    assert not {name for name in names if name.split("/")[0] in (*SHIPPED, "tests")}
    assert "harness/scenarios/scenario.schema.json" in names
    assert "harness/py.typed" in names
    assert {f"harness/reports/html/{name}" for name in ("page.html", "script.js", "style.css")} <= names


@pytest.mark.parametrize("is_writable", [True, False])
def test_what_it_ships_is_found_from_any_folder(wheel: Path, tmp_path: Path, *, is_writable: bool) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "package")
    cache = tmp_path / "cache"
    if not is_writable:
        cache.write_text("a file, and no folder")
    code = (
        "from harness.platform.files import shipped_folder as shipped; "
        "print(shipped('scenarios'), shipped('cassettes'), sum(1 for _ in shipped('cassettes').rglob('*.yaml')))"
    )

    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(tmp_path / "package"), "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )

    scenarios, cassettes, number = found.stdout.split()
    assert scenarios == str(tmp_path / "package" / "harness" / "_shipped" / "scenarios")
    assert Path(cassettes).is_relative_to(cache / "toolcall-harness") is is_writable
    assert Path(cassettes).is_dir() is is_writable
    assert int(number) == sum(1 for _ in (ROOT / "cassettes").rglob("*.yaml"))


def test_a_checkout_uses_its_own_files() -> None:
    from harness.platform.files import shipped_folder

    assert [shipped_folder(name) for name in SHIPPED] == [ROOT / name for name in SHIPPED]
