"""Prices for the tokens that the witness reads, and the list of models."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from genai_prices import Usage as Tokens
from genai_prices import calc_price
from genai_prices.data_snapshot import get_snapshot

from harness.apis import registry
from harness.apis.prices import cost
from harness.cassettes.transport import Handler
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import Usage
from harness.model.protocols import Capability
from harness.results import CellResult, Spending, total_usage
from harness.runner.cells import Cell
from harness.runner.costs import ModelInfo, models
from harness.runner.suite_run import Run
from harness.stdio import adapter_specs
from tests.backends import InProcess, shipped_scenarios, shipped_targets

DAY = date(2026, 11, 20)
USAGE = Usage(1000, 100, 600, 300, 40)


def rates(provider: str, model: str, **tokens: int) -> Decimal:
    noon = datetime(DAY.year, DAY.month, DAY.day, 12, tzinfo=UTC)
    return calc_price(Tokens(**tokens), model, provider_id=provider, genai_request_timestamp=noon).total_price


@pytest.mark.parametrize(
    ("api", "provider", "model"),
    [
        ("anthropic", "anthropic", "claude-opus-5-5"),
        ("openai-chat", "openai", "gpt-5.6"),
        ("openai-responses", "openai", "gpt-5.6"),
        ("gemini", "google", "gemini-2.5-flash"),
        ("claude-cli", "anthropic", "claude-opus-5-5"),
    ],
)
def test_what_a_cache_holds_is_part_of_the_input_and_has_its_own_price(api: str, provider: str, model: str) -> None:
    def alone(**tokens: int) -> Decimal:
        return rates(provider, model, **tokens)

    read = alone(input_tokens=600, cache_read_tokens=600)
    written = alone(input_tokens=300, cache_write_tokens=300)
    expected = alone(input_tokens=100) + read + written + alone(output_tokens=100)

    assert read < alone(input_tokens=600)
    assert cost(api, model, USAGE, day=DAY) == expected > 0


@pytest.mark.parametrize(
    ("api", "model", "usage", "url"),
    [
        ("anthropic", "claude-of-my-own", USAGE, None),
        ("gemini", "gemma-3", USAGE, None),  # the library knows it and has no price
        ("anthropic", "claude-opus-5-5", Usage(1000, None), None),
        ("anthropic", "claude-opus-5-5", Usage(None, 100), None),
        ("anthropic", "claude-opus-5-5", Usage(10, 5, cache_read_tokens=20), None),  # it contradicts itself
        ("openai-chat", "gpt-5.6", USAGE, "http://127.0.0.1:4000/v1/chat/completions"),
        ("claude-cli", "opus", USAGE, None),
    ],
)
def test_what_is_not_known_is_never_free(api: str, model: str, usage: Usage, url: str | None) -> None:
    assert cost(api, model, usage, url=url) is None


def test_the_server_says_whose_price_it_is() -> None:
    usage, url = Usage(1000, 100), "https://api.deepseek.com/v1/chat/completions"

    found = cost("openai-chat", "deepseek-chat", usage, url=url, day=DAY)

    assert found == rates("deepseek", "deepseek-chat", input_tokens=1000, output_tokens=100)
    assert cost("openai-chat", "deepseek-chat", usage) is None


def test_the_price_is_that_of_the_day() -> None:
    usage = Usage(1_000_000, 0)
    before, after = (cost("openai-chat", "o3", usage, day=date(2025, 6, day)) for day in (9, 10))
    assert before is not None
    assert after is not None
    assert before > after


def one(scenario: str, target: str, backend: InProcess | None = None, variant: str = "whole") -> CellResult:
    cell = Cell(shipped_scenarios()[scenario], shipped_targets()[target], variant)  # pyright: ignore[reportArgumentType]
    return Run(backend or InProcess(), [])([cell]).cells[0]


@pytest.mark.parametrize("target", ["anthropic", "openai-chat", "openai-responses", "gemini-4"])
def test_a_cell_takes_what_its_answers_say(target: str) -> None:
    said: list[Usage] = []

    def provider(request: HttpRequest, session: Handler) -> HttpResponse:
        response = session(request)
        said.append(wire_usage(target, response))
        return response

    cell = one("call-single", target, InProcess(provider))
    prices = [cost(cell.api, shipped_targets()[target].model, usage) for usage in said]

    assert cell.spending is not None
    assert (cell.spending.requests, cell.spending.unpriced) == (2, 0)
    assert cell.spending.usage == total_usage(said)
    assert cell.spending.dollars == sum(each for each in prices if each is not None)


def wire_usage(target: str, response: HttpResponse) -> Usage:

    return registry.api(shipped_targets()[target].api).read(response).usage


def test_retellings_are_not_paid_for() -> None:
    whole, streamed = (one("call-single", "anthropic", variant=variant).spending for variant in ("whole", "stream"))
    assert whole == streamed
    assert whole is not None


def test_a_long_request_has_the_price_of_its_own_length() -> None:
    def provider(request: HttpRequest, session: Handler) -> HttpResponse:
        response = session(request)
        body = json.loads(response.body)
        body["usage"] = {"input_tokens": 200_000, "output_tokens": 10, "total_tokens": 200_010}
        return replace(response, body=json.dumps(body).encode())

    spending = one("call-single", "openai-responses", InProcess(provider)).spending
    single, both = (cost("openai-responses", "gpt-6-astra", Usage(200_000 * n, 10 * n)) for n in (1, 2))

    assert spending is not None
    assert single is not None
    assert both is not None
    assert spending.dollars == 2 * single != both


def test_an_answer_that_does_not_say_what_it_took_has_no_price() -> None:
    def provider(request: HttpRequest, session: Handler) -> HttpResponse:
        response = session(request)
        body = json.loads(response.body)
        del body["usage"]
        return replace(response, body=json.dumps(body).encode())

    spending = one("call-single", "anthropic", InProcess(provider)).spending

    assert spending == Spending("claude-opus-5-5", 2, Usage(), None, 2)


def test_a_model_that_is_served_without_a_price_has_that_of_the_one_that_was_asked_for() -> None:
    def provider(request: HttpRequest, session: Handler) -> HttpResponse:
        response = session(request)
        return replace(response, body=response.body.replace(b"claude-opus-5-5", b"internal-4711"))

    spending, usual = (one("call-single", "anthropic", backend).spending for backend in (InProcess(provider), None))

    assert spending == usual
    assert spending is not None
    assert spending.dollars


def test_embeddings_count_by_their_own_model() -> None:
    spendings = {target: one("seeds-code-search-embeddings", target).spending for target in ("openai-chat", "gemini-3")}

    openai, gemini = spendings["openai-chat"], spendings["gemini-3"]
    assert openai is not None
    assert gemini is not None
    assert (openai.model, openai.unpriced) == ("text-embedding-3-small", 0)
    assert openai.dollars
    assert (gemini.model, gemini.unpriced, gemini.dollars) == ("gemini-embedding-2", gemini.requests, None)


APIS = sorted({each.api for each in registry.targets()})


@pytest.mark.parametrize("api", APIS)
def test_every_model_is_one_that_somebody_keeps(api: str) -> None:
    priced = {model.id: model for provider in get_snapshot().providers for model in provider.models}
    shipped = {each.model for each in registry.targets() if each.api == api}
    found = models(api)

    assert len(found) > 10
    assert [each.id for each in found] == sorted({each.id for each in found})
    assert shipped <= {each.id for each in found} <= priced.keys() | shipped
    assert all(each.profile == registry.api(api).profile_for(each.id).name for each in found)


def test_vision_and_thinking_are_claimed_only_where_a_source_says_so() -> None:
    def info(api: str, model: str) -> ModelInfo:
        return next(each for each in models(api) if each.id == model)

    noon = datetime.now(UTC)
    prices = {
        each.id: each.get_prices(noon) for each in get_snapshot().find_provider("gemini-3-flash", None, None).models
    }
    found = models("gemini")
    assert {each.id for each in found if each.vision} == {
        each.id for each in found if each.id in prices and prices[each.id].input_image_mtok is not None
    }
    assert any(each.vision for each in found)

    opus, flash = info("anthropic", "claude-opus-5-5"), info("gemini", "gemini-2.5-flash-lite")
    assert (opus.vision, opus.thinking) == (None, True)  # the profile says how its reasoning is asked for
    assert (flash.thinking, flash.context) == (True, 1_000_000)
    for api, model in (
        ("openai-chat", "gpt-4-32k"),
        ("gemini", "gemini-2.5-flash-tts"),
        ("gemini", "gemini-2.0-flash"),
    ):
        assert (info(api, model).vision, info(api, model).thinking) in {(None, None), (None, False)}
    assert Capability.THINKING not in adapter_specs.adapter("openai-chat").capabilities
    assert info("openai-chat", registry.target_named("openai-chat").model).thinking is False
    assert {(each.vision, each.thinking) for each in models("claude-cli")} == {(False, False)}
