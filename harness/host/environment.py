"""The environment of an offline run: without what would lead an adapter out of it.

The shipped adapters read no variable whatever; somebody else's may, and a proxy or a real key would then take a prompt
to where it was not meant to go (HTTP_PROXY applies even to 127.0.0.1).
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from harness.contract.errors import MissingDependency, OutdatedDependency

if TYPE_CHECKING:
    from collections.abc import Generator

    from harness.contract.protocols import Requirement


def now() -> str:
    """The time in UTC, to the second, as ISO 8601 has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


PREFIXES = (
    "ANTHROPIC_",
    "AWS_",
    "AZURE_OPENAI_",
    "CLAUDE_CODE_",
    "CLOUDSDK_",
    "GCE_",
    "GEMINI_",
    "GOOGLE_",
    "HTTPCORE_",
    "HTTPX_",
    "OPENAI_",
    "OTEL_",
)
"""What the SDKs, google-auth, OpenTelemetry and HTTP clients read (anthropic 2.11, openai 3.52, google-genai 3.4):
keys, addresses, headers, clouds, and switches of debugging, of which some write what is sent to standard error."""

_NAMES = frozenset(
    {
        "CLOUD_ML_REGION",
        "CURL_CA_BUNDLE",
        "GCLOUD_PROJECT",
        "NETRC",
        "NO_GCE_CHECK",
        "REQUESTS_CA_BUNDLE",
        "SSLKEYLOGFILE",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
    }
)
"""Certificates, for which an HTTP client looks as soon as it is made: one that is not there would end the run."""

_PROXY = "_proxy"


@contextmanager
def isolated() -> Generator[None, None, None]:
    """Take keys, base URLs, headers, proxies, certificates and debugging out of the process's environment, and put them
    back after."""
    taken = {name: os.environ.pop(name) for name in [*os.environ] if leads_out(name)}
    try:
        yield
    finally:
        os.environ.update(taken)


def leads_out(name: str) -> bool:
    """Whether an offline run hides the variable."""
    return name.startswith(PREFIXES) or name in _NAMES or name.lower().endswith(_PROXY)


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
