"""Versions of the installed packages that can affect results."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from harness import plugins
from harness.apis import registry
from harness.model import distribution
from harness.model.protocols import Adapter


def versions() -> dict[str, str]:
    """Return the versions of the installed packages that can affect results."""
    found = {package: _version(package) for package in _packages()}
    return {package: number for package, number in found.items() if number is not None}


def sdk_version(adapter: Adapter) -> dict[str, str]:
    """Return the version of an adapter's SDK; empty if the adapter needs no SDK or it is not installed."""
    needed = adapter.requires
    number = _version(needed.name) if needed is not None and needed.extra is not None else None
    return {} if needed is None or number is None else {needed.name: number}


@cache
def _packages() -> tuple[str, ...]:
    """Return the packages that can affect results. Cached, because reading their metadata takes longer than running a
    cell.
    """
    needed = (plugins.adapter(shipped.adapter).requires for shipped in registry.shipped_targets())
    sdks = (each.name for each in needed if each is not None and each.extra is not None)
    return tuple(dict.fromkeys((distribution.NAME, *sdks, "httpx2")))


@cache
def _version(package: str) -> str | None:
    """Return the version of an installed package, or `None`. Cached, because each lookup takes milliseconds."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
