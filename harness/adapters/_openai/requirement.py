"""The SDK that both adapters need, which loads when a client is wanted."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.contract.errors import MissingDependency
from harness.contract.protocols import Requirement

if TYPE_CHECKING:
    from collections.abc import Generator

SDK = Requirement("openai", "openai")


@contextmanager
def needing_the_sdk(api: str) -> Generator[None]:
    """Import what needs the SDK inside. Raises `MissingDependency` if it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "openai":
            raise
        raise MissingDependency(api, "openai", "openai") from error
