from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from harness import plugins
from harness.model.errors import MissingDependency, OutdatedDependency
from harness.model.protocols import Requirement
from harness.platform.environment import importing_sdk, is_older
from harness.stdio import adapter_specs

ROOT = Path(__file__).resolve().parents[2]


def test_an_sdk_that_is_too_old_is_named_with_its_version_before_it_is_imported() -> None:
    with (
        pytest.raises(OutdatedDependency) as raised,
        importing_sdk("mine", Requirement("pytest", "all", "999.1"), "pytest"),
    ):
        pytest.fail("imported all the same")
    assert str(raised.value).startswith(
        f"the adapter 'mine' needs 'pytest' 999.1 or newer, but version {version('pytest')} is installed. "
    )


def test_a_module_that_is_missing_is_the_sdk_and_another_is_none() -> None:
    with (
        pytest.raises(MissingDependency),
        importing_sdk("mine", Requirement("no-such-sdk", "all", "1.0"), "no_such_sdk"),
    ):
        import no_such_sdk  # type: ignore[import-not-found]
    with pytest.raises(ModuleNotFoundError), importing_sdk("mine", Requirement("pytest", "all"), "pytest"):
        import no_such_sdk  # type: ignore[import-not-found]  # noqa: F401


@pytest.mark.parametrize(
    ("installed", "at_least", "older"),
    [
        ("2.54.0", "3.0", True),
        ("3.0.0", "3.0", False),
        ("3", "3.0", False),
        ("3.0rc1", "3.0", False),
        ("10.1", "9.2", False),
        ("2.9.9", "2.10", True),
        ("unknown", "1.0", True),
    ],
)
def test_versions_are_compared_by_number(installed: str, at_least: str, older: bool) -> None:
    assert is_older(installed, at_least) is older


def test_an_adapter_asks_for_what_its_extra_installs() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    adapters = [adapter_specs.adapter(name) for name in plugins.ADAPTERS.names()]
    needed = [each.requires for each in adapters if each.requires is not None and each.requires.extra is not None]
    assert len(needed) == 4
    for requirement in needed:
        (line,) = extras[str(requirement.extra)]
        assert re.fullmatch(r"([\w-]+)>=([\d.]+)", line), line
        assert line == f"{requirement.name}>={requirement.at_least}"
