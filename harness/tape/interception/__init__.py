"""The HTTP clients of a process, intercepted while code runs that nobody hands a client: tests of an application.

Each client is taken hold of where a request is whole and its connection is not made yet: the transports of httpx and
httpx2, the pools of urllib3 (and so requests and botocore), the connectors of aiohttp (and what puts httpx on top of
it), the connections of Python's own http.client. Nothing is imported for it: a client that is not loaded is taken hold
of when it is.

vcrpy patches the same clients. Its stand-ins are made for its own cassettes, play each answer in one piece, and import
whatever is installed; and of aiohttp's own behaviour (redirects, cookies, middlewares) it has copies. Here a client
gets back what it would read off a connection, so that its own code makes a response of it.
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

from harness.tape.interception import aiohttp_connectors, http_client, httpx_transports
from harness.tape.interception.seam import Asked, Keep, Patch

_Patches: TypeAlias = Callable[[Any, Asked], Iterator[Patch]]

_CLIENTS: Mapping[str, _Patches] = {
    "aiohttp": aiohttp_connectors.patches,
    "http.client": http_client.patches,
    "httpx": httpx_transports.patches,
    "httpx2": httpx_transports.patches,
    "urllib3.connectionpool": http_client.urllib3_patches,
}
"""By the module whose import completes what is patched."""


@contextmanager
def intercepted(asked: Asked) -> Generator[None, None, None]:
    """Whatever a known client of this process would send, `asked` is asked for first."""
    with ExitStack() as stack:

        def patch(name: str, module: ModuleType) -> None:
            for each in _CLIENTS[name](module, asked):
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
    """Finds nothing itself, but hears of clients that are loaded."""

    def __init__(self, loaded: Callable[[str, ModuleType], None]) -> None:
        self._loaded = loaded
        self._looking: set[str] = set()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - as importlib calls it
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """The module as anybody would find it, with a loader that tells when it has loaded it."""
        if fullname not in _CLIENTS or fullname in self._looking:
            return None
        self._looking.add(fullname)  # what is asked now is asked of the finders behind this one
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking.discard(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Telling(spec.loader, fullname, self._loaded)
        return spec


class _Telling(Loader):
    def __init__(self, inner: Loader, name: str, loaded: Callable[[str, ModuleType], None]) -> None:
        self._inner = inner
        self._name = name
        self._loaded = loaded

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the loader does that finds it."""
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Load it, and tell."""
        self._inner.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        self._loaded(self._name, module)


__all__ = ["Asked", "Keep", "intercepted"]
