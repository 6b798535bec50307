"""The environment of a run: current time, hidden variables and installed packages."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from harness.model.errors import MissingDependency, OutdatedDependency

if TYPE_CHECKING:
    from collections.abc import Generator

    from harness.model.protocols import Requirement


def utc_now() -> str:
    """Return the current UTC time in ISO 8601 format, with a precision of one second."""
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
"""Prefixes of variables that the SDKs, google-auth, OpenTelemetry and HTTP clients read (anthropic 2.11, openai 3.52,
google-genai 3.4).

The variables set keys, addresses, headers, clouds and debugging. Some debugging variables make a library print
requests.
"""

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
"""Other variables to hide. Most name certificate files, which HTTP clients read when they are created; a missing file
would end the run.
"""

_PROXY = "_proxy"


@contextmanager
def hidden_variables() -> Generator[None, None, None]:
    """Hide keys, base URLs, headers, proxies, certificates and debugging variables from adapters in an offline run.

    Built-in adapters read no variables, but others may, and could then send prompts to other servers. HTTP_PROXY, for
    example, applies even to 127.0.0.1.
    """
    taken = {name: os.environ.pop(name) for name in [*os.environ] if is_hidden(name)}
    try:
        yield
    finally:
        os.environ.update(taken)


def is_hidden(name: str) -> bool:
    """Return whether offline runs hide this variable."""
    return name.startswith(PREFIXES) or name in _NAMES or name.lower().endswith(_PROXY)


@contextmanager
def importing_sdk(adapter: str, sdk: Requirement, *modules: str) -> Generator[None]:
    """Context manager for imports that need an SDK. `modules` are the modules whose absence means that the SDK is not
    installed.

    Raises:
        MissingDependency: The SDK is not installed.
        OutdatedDependency: The installed SDK is too old.
    """
    _refuse_outdated(adapter, sdk)
    try:
        yield
    except ImportError as error:
        if error.name not in modules:
            raise
        raise MissingDependency(adapter, sdk.name, sdk.extra or sdk.name) from None


def is_installed(sdk: Requirement) -> bool:
    """Return whether a package is installed and recent enough. Only its metadata is read; it is not imported."""
    installed = _installed(sdk.name)
    return installed is not None and not _is_outdated(sdk, installed)


def is_older(installed: str, at_least: str) -> bool:
    """Return whether one version is older than another. Only the leading numbers are compared: `2.0` equals `2`, and
    `3.0rc1` equals `3.0`.
    """
    return _numbers(installed) < _numbers(at_least)


def _refuse_outdated(adapter: str, sdk: Requirement) -> None:
    installed = _installed(sdk.name)
    if sdk.at_least is not None and installed is not None and _is_outdated(sdk, installed):
        raise OutdatedDependency(adapter, sdk.name, sdk.extra or sdk.name, sdk.at_least, installed)


def _is_outdated(sdk: Requirement, installed: str) -> bool:
    return sdk.at_least is not None and is_older(installed, sdk.at_least)


@cache
def _installed(name: str) -> str | None:
    """Return the installed version of a package, or `None`. Cached, because a run creates thousands of clients."""
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
