"""A line: what is kept of an adapter from one cell to the next, as an application keeps its client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import httpx2

from harness.apis.targets import Target
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.protocols import Endpoint
from harness.tape.transport import Handler


class Later:
    """A handler whose work is known only once it has an address, and may be another for each cell."""

    handler: Handler

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer a request."""
        return self.handler(request)


@dataclass(frozen=True, eq=False)
class Line(Endpoint):
    """An endpoint for the `lasting` clients of a target, of which one cell after another has the same client; who
    answers there, `answering`, is another for each."""

    answering: Later = field(default_factory=Later)
    _clients: dict[str, Any] = field(default_factory=dict[str, Any])

    def client(self, target: Target) -> Any:
        """The client of the target's model, which is connected when it is first asked for.

        Raises:
            harness.contract.errors.UsageError: it cannot be connected.
        """
        if target.model not in self._clients:
            self._clients[target.model] = target.adapter.connect(self, target.model)
        cast("httpx2.Client", self.http_client).cookies.clear()  # which a browser would send to the next as well
        return self._clients[target.model]

    def close(self) -> None:
        """Close the clients."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()
