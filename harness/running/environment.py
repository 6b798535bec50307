"""The environment of an offline run: without what would lead an adapter out of it.

The shipped adapters read no variable whatever; somebody else's may, and a proxy or a real key would then take a prompt
to where it was not meant to go (reliability-facts: HTTP_PROXY applies even to 127.0.0.1).
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

from harness import catalog

_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy"})


def variables_of_clients() -> tuple[str, ...]:
    """How the names of variables begin that the clients of any API read."""
    return tuple(dict.fromkeys(each for api in catalog.apis() for each in api.variables))


@contextmanager
def isolated(variables: tuple[str, ...]) -> Generator[None, None, None]:
    """Take keys, base URLs, custom headers and proxies out of the process's environment, and put them back after.

    `variables` are beginnings of names, as `variables_of_clients` has them.
    """
    taken = {name: os.environ.pop(name) for name in [*os.environ] if _leads_out(name, variables)}
    try:
        yield
    finally:
        os.environ.update(taken)


def _leads_out(name: str, variables: tuple[str, ...]) -> bool:
    return name.startswith(variables) or name.lower() in _PROXIES
