"""The packages that a result depends on."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from harness import catalog
from harness.contract import distribution
from harness.contract.protocols import Adapter


def versions() -> dict[str, str]:
    """The versions of the packages that a result depends on, of those that are installed."""
    found = {package: _version(package) for package in _packages()}
    return {package: number for package, number in found.items() if number is not None}


def sdk_version(adapter: Adapter) -> dict[str, str]:
    """The version of the SDK that an adapter sends with; nothing if it says that it needs none, or that is not
    installed."""
    needed = adapter.requires
    number = _version(needed.name) if needed is not None and needed.extra is not None else None
    return {} if needed is None or number is None else {needed.name: number}


@cache
def _packages() -> tuple[str, ...]:
    """What a result depends on: ourselves, the SDKs of the shipped adapters, and the HTTP client that they share.

    Looked up once: it reads what every installed package brings, which takes longer than to play a cell.
    """
    needed = (catalog.adapter(shipped.adapter).requires for shipped in catalog.shipped_targets())
    sdks = (each.name for each in needed if each is not None and each.extra is not None)
    return tuple(dict.fromkeys((distribution.NAME, *sdks, "httpx2")))


@cache
def _version(package: str) -> str | None:
    """Looked up once: it takes milliseconds, and every live recording states one."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
