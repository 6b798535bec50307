"""The smallest chat of an API, in which examples change something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.contract.http import HttpRequest
from harness.contract.model import JSON


@dataclass(frozen=True, slots=True)
class Smallest:
    """A chat that is taken, cheap, and not streamed.

    `path` follows the SDK's base URL; `{}` in it is the model, which else the body names. `body` has what is required
    and a bound that keeps the answer short. `key_header` and `scheme` say how the key is sent; `headers` go with it.
    `model` is one of which little else is known.
    """

    path: str
    body: Mapping[str, JSON]
    key_header: str
    scheme: str = ""
    model: str = "a-model"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def authorized(self, request: HttpRequest, key: str) -> HttpRequest:
        """The same request with a key."""
        headers = {**request.headers, self.key_header: self.scheme + key}
        return HttpRequest(request.method, request.url, headers, request.body)
