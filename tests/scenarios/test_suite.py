from __future__ import annotations

from pathlib import Path

import pytest

from harness.scenarios import suite


def test_a_checkout_has_its_scenarios_beside_the_package() -> None:
    assert (suite.shipped("scenarios") / "call-single.yaml").is_file()


def test_an_installed_package_has_them_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages" / "harness"
    (package / "_shipped" / "scenarios").mkdir(parents=True)
    monkeypatch.setattr(suite, "_PACKAGE", package)
    assert suite.shipped("scenarios") == package / "_shipped" / "scenarios"
    assert suite.shipped("cassettes") == tmp_path / "site-packages" / "cassettes"
