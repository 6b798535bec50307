"""The smallest chat of an API: what a probe of a provider starts from."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.apis.twins import Request
from harness.contract.http import HttpRequest
from harness.contract.model import JSON


@dataclass(frozen=True, slots=True)
class Smallest:
    """A chat that is taken, cheap, and not streamed.

    `path` stands behind the SDK's base URL; `{}` in it is the model, which else the body names. `body` has nothing but
    what is required. `bounds` are the fields that keep the answer short, the one to be tried first in front; an empty
    one is no bound. `company` are fields that some servers, or other fields, ask for beside. `key_header` and `scheme`
    say how the key is sent, `headers` what goes beside it.
    """

    path: str
    body: Mapping[str, JSON]
    bounds: tuple[Mapping[str, JSON], ...]
    key_header: str
    scheme: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    company: tuple[Mapping[str, JSON], ...] = ()

    def bodies(self, model: str) -> Iterator[dict[str, Any]]:
        """The body for a model, with each of the bounds, alone and in company: the barest first."""
        named: dict[str, JSON] = {} if "{}" in self.path else {"model": model}
        alone: Mapping[str, JSON] = {}
        for beside in (alone, *self.company):
            for bound in self.bounds:
                yield copy.deepcopy({**named, **self.body, **bound, **beside})

    def request(self, made: Request, model: str, base_url: str) -> HttpRequest:
        """What was made of a body, as it is sent to a base URL; without a key."""
        headers = {"content-type": "application/json", **self.headers, **made.headers}
        url = base_url.rstrip("/") + self.path.format(model.removeprefix("models/"))
        return HttpRequest("POST", url, headers, json.dumps(made.body, ensure_ascii=False).encode())

    def authorized(self, request: HttpRequest, key: str) -> HttpRequest:
        """The same request with a key."""
        headers = {**request.headers, self.key_header: self.scheme + key}
        return HttpRequest(request.method, request.url, headers, request.body)
