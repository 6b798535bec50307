"""The SDK of an adapter, which is imported when a client is wanted, and may be missing or too old then."""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from harness.contract.errors import MissingDependency, OutdatedDependency

if TYPE_CHECKING:
    from collections.abc import Generator

    from harness.contract.protocols import Requirement


@contextmanager
def needing(adapter: str, sdk: Requirement, *modules: str) -> Generator[None]:
    """Import inside what needs the SDK. `modules` are those that are missing where it is.

    Raises:
        MissingDependency: it is not installed.
        OutdatedDependency: it is, and too old.
    """
    _refuse_outdated(adapter, sdk)
    try:
        yield
    except ImportError as error:
        if error.name not in modules:
            raise
        raise MissingDependency(adapter, sdk.name, sdk.extra or sdk.name) from None


def is_there(sdk: Requirement) -> bool:
    """Whether a package is installed, and new enough, by what its installer wrote: nothing is imported. One that came
    without that is not known to be there."""
    installed = _installed(sdk.name)
    return installed is not None and not _is_outdated(sdk, installed)


def is_before(installed: str, at_least: str) -> bool:
    """Whether a version comes before another, by the numbers that it begins with: `2.0` is as new as `2`, and `3.0rc1`
    as `3.0`."""
    return _numbers(installed) < _numbers(at_least)


def _refuse_outdated(adapter: str, sdk: Requirement) -> None:
    installed = _installed(sdk.name)
    if sdk.at_least is not None and installed is not None and _is_outdated(sdk, installed):
        raise OutdatedDependency(adapter, sdk.name, sdk.extra or sdk.name, sdk.at_least, installed)


def _is_outdated(sdk: Requirement, installed: str) -> bool:
    return sdk.at_least is not None and is_before(installed, sdk.at_least)


@cache
def _installed(name: str) -> str | None:
    """The version of a package, found once: a run makes thousands of clients."""
    try:
        return version(name)
    except PackageNotFoundError:  # the import will tell, or it came without metadata
        return None


def _numbers(text: str) -> list[int]:
    found = re.match(r"\d+(?:\.\d+)*", text)
    numbers = [int(each) for each in found[0].split(".")] if found else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers
