"""The environment of an offline run: without what would lead an adapter out of it.

The shipped adapters read no variable whatever; somebody else's may, and a proxy or a real key would then take a prompt
to where it was not meant to go (HTTP_PROXY applies even to 127.0.0.1).
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

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
