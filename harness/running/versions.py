"""The packages that a result depends on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from harness import catalog
from harness.contract import distribution


def _packages() -> Iterator[str]:
    """What a result depends on: ourselves, the SDKs of the shipped adapters, and the HTTP client that they share."""
    needed = (catalog.adapter(shipped.adapter).requires for shipped in catalog.shipped_targets())
    sdks = (each.name for each in needed if each is not None and each.extra is not None)
    yield from dict.fromkeys((distribution.NAME, *sdks, "httpx2"))


def versions() -> dict[str, str]:
    """The versions of the packages that a result depends on, of those that are installed."""
    found = {package: _version(package) for package in _packages()}
    return {package: number for package, number in found.items() if number is not None}


@cache
def _version(package: str) -> str | None:
    """Looked up once: it takes milliseconds, and every recording states it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
