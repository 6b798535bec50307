"""A shipped adapter's client with the reference server in this process, and the wire reader's views of both."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import cast

import httpx2

from harness.apis import registry
from harness.apis.registry import Target
from harness.apis.view import RequestView, ResponseView
from harness.model.messages import ChatRequest
from harness.model.protocols import StreamingChatClient
from harness.results import Exchange
from harness.runner.cells import Cell
from harness.scenarios.canonical import settings_of, system_of, tools
from tests.backends import InProcess, shipped_scenarios

Transport = Callable[[httpx2.Client], httpx2.BaseTransport]


@dataclass(frozen=True, slots=True)
class Connected:
    """A client, the request that its scenario begins with, and the exchanges so far."""

    client: StreamingChatClient
    template: ChatRequest
    api: str
    exchanges: list[Exchange]

    @property
    def asked(self) -> list[RequestView]:
        """The requests so far."""
        return [registry.api(self.api).view(exchange.request) for exchange in self.exchanges]

    @property
    def answered(self) -> list[ResponseView]:
        """The responses so far."""
        return [registry.api(self.api).read(each.response) for each in self.exchanges if each.response is not None]


@contextmanager
def connected(scenario: str, target: Target, through: Transport | None = None) -> Generator[Connected, None, None]:
    """The target's adapter, connected `through` another transport if one is given, where `scenario` is run."""
    asked = shipped_scenarios()[scenario]
    with InProcess().open_cell(Cell(asked, target, "whole")) as environment:
        endpoint = environment.endpoint
        if through is not None:
            inner = cast("httpx2.Client", endpoint.http_client)
            endpoint = replace(endpoint, http_client=httpx2.Client(transport=through(inner), trust_env=False))
        client = cast("StreamingChatClient", target.adapter.connect(endpoint, target.model))
        settings = settings_of(asked, 0)
        template = ChatRequest(
            target.model,
            (),
            system_of(asked, 0),
            tools(asked),
            max_tokens=settings.max_tokens,
            thinking=settings.reasoning(),
            cache=settings.cache,
        )
        yield Connected(client, template, target.api, environment.log.exchanges)
        client.close()
