"""Patches for the HTTP clients in a process, for testing applications that create their own clients.

Each client is patched where a request is complete but no connection exists yet: the transports of httpx and httpx2, the
pools of urllib3 (used by requests and botocore), the connectors of aiohttp (also when httpx runs on aiohttp), and the
connections of http.client. A client is not imported for this; it is patched when the application imports it.

vcrpy patches the same clients, but its replacements depend on its own cassettes. They return each response in one
chunk, import all installed clients, and reimplement parts of aiohttp (redirects, cookies, middlewares). Here the client
parses the bytes of a connection, so its own code builds the response.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from harness.cassettes.client_patches import aiohttp_connectors, http_client, httpx_transports
from harness.cassettes.client_patches.connection_bytes import Patch, RequestHook, StoreResponse

_Patches: TypeAlias = Callable[[Any, RequestHook], Iterator[Patch]]

_CLIENTS: Mapping[str, _Patches] = {
    "aiohttp": aiohttp_connectors.patches,
    "http.client": http_client.patches,
    "httpx": httpx_transports.patches,
    "httpx2": httpx_transports.patches,
    "urllib3.connectionpool": http_client.urllib3_patches,
}
"""Patch functions, by the module that they patch."""


@contextmanager
def intercept_requests(hook: RequestHook) -> Generator[None, None, None]:
    """Patch all known clients in this process. `hook` is called for each request and decides how to handle it."""
    with ExitStack() as stack:

        def patch(name: str, module: ModuleType) -> None:
            for each in _CLIENTS[name](module, hook):
                stack.callback(setattr, each.owner, each.name, getattr(each.owner, each.name))
                setattr(each.owner, each.name, each.replacement)

        watch = _Watch(patch)
        sys.meta_path.insert(0, watch)
        stack.callback(sys.meta_path.remove, watch)
        for name in _CLIENTS:
            module = sys.modules.get(name)
            if module is not None:
                patch(name, module)
        yield


class _Watch(MetaPathFinder):
    """Import hook that patches clients as they are imported."""

    def __init__(self, loaded: Callable[[str, ModuleType], None]) -> None:
        self._loaded = loaded
        self._looking: set[str] = set()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - as importlib calls it
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return the spec of a client's module, with a loader that patches it."""
        if fullname not in _CLIENTS or fullname in self._looking:
            return None
        self._looking.add(fullname)  # the next lookup skips this finder
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking.discard(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _PatchingLoader(spec.loader, fullname, self._loaded)
        return spec


class _PatchingLoader(Loader):
    def __init__(self, inner: Loader, name: str, loaded: Callable[[str, ModuleType], None]) -> None:
        self._inner = inner
        self._name = name
        self._loaded = loaded

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module with the original loader."""
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Load the module and patch it."""
        self._inner.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        self._loaded(self._name, module)


_LOCAL = ("127.0.0.1", "localhost", "::1")


def is_local(url: str) -> bool:
    """Return whether a URL leads to this machine."""
    return urlsplit(url).hostname in _LOCAL


__all__ = ["RequestHook", "StoreResponse", "intercept_requests", "is_local"]
