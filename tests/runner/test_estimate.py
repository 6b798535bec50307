"""What recording would cost: counted in a rehearsal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.apis import registry
from harness.apis.prices import cost
from harness.apis.registry import Target
from harness.cassettes.transport import Handler
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import Usage
from harness.model.protocols import Endpoint
from harness.results import Spending
from harness.runner.cells import Cell
from harness.runner.costs import estimate
from harness.runner.suite_run import Run
from tests.backends import InProcess, shipped_scenarios, shipped_targets


def cell(scenario: str, target: Target, variant: str = "whole") -> Cell:
    return Cell(shipped_scenarios()[scenario], target, variant)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", shipped_targets())
@pytest.mark.parametrize("variant", ["whole", "stream"])
def test_it_counts_the_bytes_that_are_sent_and_the_words_of_the_script(name: str, variant: str) -> None:
    target = shipped_targets()[name]
    lengths: list[int] = []

    def provider(request: HttpRequest, session: Handler) -> HttpResponse:
        lengths.append(-(-len(request.body) // 4))
        return session(request)

    found = estimate([cell("call-single", target, variant)])[name]
    Run(InProcess(provider), [])([cell("call-single", target, variant)])

    sent = lengths[:2]
    assert (found.model, found.requests, found.unpriced) == (target.model, 2, 0)
    assert found.usage.input_tokens == sum(sent)
    said = found.usage.output_tokens
    assert said is not None
    assert 0 < said < 100
    assert found.dollars == cost(target.api, target.model, Usage(sum(sent), said))


def test_no_more_is_counted_than_would_be_sent() -> None:
    cells = [cell("call-single", shipped_targets()[name]) for name in ("anthropic", "gemini-3")]
    found = estimate(cells, max_requests=3)
    assert {name: each.requests for name, each in found.items()} == {"anthropic": 2, "gemini-3": 1}


def test_embeddings_are_counted_with_their_own_model() -> None:
    found = estimate([cell("seeds-code-search-embeddings", shipped_targets()["openai-chat"])])["openai-chat"]
    assert (found.model, found.usage.output_tokens, found.unpriced) == ("text-embedding-3-small", 0, 0)
    assert found.dollars


def test_an_adapter_that_breaks_is_the_recordings_to_tell() -> None:
    def connect(_endpoint: Endpoint, _model: str) -> None:
        raise RuntimeError("boom")

    target = shipped_targets()["anthropic"]
    broken = replace(target, name="broken", adapter=replace(target.adapter, connect=connect))

    found = estimate([cell("call-single", broken), cell("call-single", target)])

    assert {name: each.requests for name, each in found.items()} == {"anthropic": 2}


def test_nothing_is_sent_to_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("a connection"))
    for name, target in shipped_targets().items():
        assert isinstance(estimate([cell("call-single", target)])[name], Spending)
        assert registry.api(target.api).provider_url.startswith("https://")
