"""A server under test: what it speaks, where it is, and as what it is asked."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import Any

from harness.apis.api import Api
from harness.apis.departure import Strictly
from harness.apis.facts import SHIPPED, Edition
from harness.apis.law import Law
from harness.apis.profile import Profile
from harness.apis.questions import Body, Questions
from harness.contract.errors import UsageError
from harness.contract.http import HttpRequest
from harness.contract.model import ChatRequest

LONGEST = 1024
"""Tokens that an answer may take: enough for what is asked. A model that reasons takes more."""

NAME = "server"
"""The target of a check's cells, unless the server has a name of its own."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server of an API at a base URL, asked for a model; reports call it `name`. `bound` is the field that keeps its
    answers short, which may be `longest` tokens long unless a check is about that."""

    api: Api
    model: str
    base_url: str
    profile: Profile
    law: Law
    questions: Questions
    strictly: Strictly
    bound: str
    longest: int = LONGEST
    name: str = NAME

    @staticmethod
    def of(api: Api, model: str, base_url: str, longest: int = LONGEST, edition: Edition = SHIPPED) -> Server:
        """The server at a base URL, which is asked for what it takes by an edition of the facts.

        Raises:
            UsageError: nothing is known here of how a server of the API is asked.
            FactsError: see `Api.profile_for`.
        """
        if api.questions is None or api.departures is None or api.smallest is None:
            raise UsageError(f"--api {api.name}: 'harness check --server' has no checks for this API.")
        profile = api.profile_for(model, edition)
        law = api.services.law_at(profile, model, base_url)
        bounds = api.questions.bounds
        own = api.is_provider(base_url)
        bound = bounds[-1] if own else bounds[0]  # the newest is the provider's own, and others know the oldest
        root = _root(base_url, api.questions.path)
        return Server(api, model, root, profile, law, api.questions, api.departures, bound, longest)

    def sources(self, source: str) -> str:
        """Those of the sources of a rule that are about this API, or all if none is."""
        own = [each for each in source.split(", ") if each.startswith(f"{self.api.name}-")]
        return ", ".join(own) or source

    def written(self, request: ChatRequest) -> Body:
        """The body of a request."""
        return self.questions.write(request, self.bound)

    def request(self, body: Body | bytes, *, stream: bool, model: str | None = None) -> HttpRequest:
        """A body as it is sent, without a key; one that is bytes goes as it is."""
        path = self.questions.stream_path if stream else self.questions.path
        url = self.base_url + path.format((model or self.model).removeprefix("models/"))
        headers = {"content-type": "application/json", **(self.api.smallest.headers if self.api.smallest else {})}
        if isinstance(body, bytes):
            return HttpRequest("POST", url, headers, body)
        made: dict[str, Any] = copy.deepcopy(body)
        if stream:
            made |= self.questions.streaming
        return HttpRequest("POST", url, headers, json.dumps(made, ensure_ascii=False).encode())


def _root(base_url: str, path: str) -> str:
    """The base URL without the version that the path begins with: SDKs add it or want it to be there, and people write
    it down either way."""
    return base_url.rstrip("/").removesuffix(f"/{path.split('/')[1]}")
