"""The environment of an offline run: without what would lead an adapter out of it.

The shipped adapters read no variable whatever; somebody else's may, and a proxy or a real key would then take a prompt
to where it was not meant to go (reliability-facts: HTTP_PROXY applies even to 127.0.0.1).
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

PREFIXES = ("ANTHROPIC_", "OPENAI_", "GOOGLE_", "GEMINI_", "AZURE_OPENAI_", "CLAUDE_CODE_")
"""How the names of the variables begin that the providers' SDKs and tools read."""

_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy"})


@contextmanager
def isolated() -> Generator[None, None, None]:
    """Take keys, base URLs, custom headers and proxies out of the process's environment, and put them back after."""
    taken = {name: os.environ.pop(name) for name in [*os.environ] if _leads_out(name)}
    try:
        yield
    finally:
        os.environ.update(taken)


def _leads_out(name: str) -> bool:
    return name.startswith(PREFIXES) or name.lower() in _PROXIES
