"""Prices: those of the library, for the tokens that the witness reads."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from genai_prices import Usage as Tokens
from genai_prices import calc_price

from harness.apis import registry
from harness.cassettes.transport import Handler
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import Usage
from harness.results import CellResult, Spending, total_usage
from harness.runner.cells import Cell
from harness.runner.costs import cost, price_version, priced_models
from harness.runner.suite_run import Run
from tests.stages import InProcess, shipped_scenarios, shipped_targets

ROOT = Path(__file__).parent.parent.parent
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


def test_reasoning_is_part_of_the_output_and_not_paid_twice() -> None:
    assert cost("anthropic", "claude-opus-5-5", USAGE, day=DAY) == cost(
        "anthropic", "claude-opus-5-5", replace(USAGE, reasoning_tokens=None), day=DAY
    )


def test_the_prefix_of_gemini_does_not_count() -> None:
    assert cost("gemini", "models/gemini-2.5-flash", USAGE) == cost("gemini", "gemini-2.5-flash", USAGE)


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


def test_embeddings_write_nothing_that_would_have_a_price() -> None:
    found = cost("openai-chat", "text-embedding-3-small", Usage(1000, 0), day=DAY)
    assert found == rates("openai", "text-embedding-3-small", input_tokens=1000)


def test_every_shipped_target_has_a_price() -> None:
    assert [each.name for each in registry.targets() if cost(each.api, each.model, USAGE) is None] == []


def test_prices_come_with_the_package_and_without_a_request() -> None:
    code = (
        "import socket, threading\n"
        "def refuse(*a, **k): raise AssertionError('a connection')\n"
        "socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse\n"
        "from harness.runner.costs import cost, priced_models\nfrom harness.model.messages import Usage\n"
        "assert cost('anthropic', 'claude-opus-5-5', Usage(10, 5)) and priced_models('gemini', '')\n"
        "assert [each.name for each in threading.enumerate()] == ['MainThread']\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_the_library_is_loaded_only_for_a_price() -> None:
    code = "import sys, harness.runner.suite_run, harness.runner.costs; sys.exit('genai_prices' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_the_list_is_of_the_providers_own_models_for_text() -> None:
    names = {
        api: {each.id for each in priced_models(api, model)} for api, model in (("gemini", ""), ("openai-chat", ""))
    }
    assert "gemini-2.5-flash" in names["gemini"]
    assert not any("claude" in name or "embedding" in name for name in names["gemini"])
    assert not names["openai-chat"] & {"whisper-1", "text-embedding-3-small"}
    assert {each.id for each in priced_models("claude-cli", "claude-opus-5-5")} == {
        each.id for each in priced_models("anthropic", "")
    }


def one(scenario: str, target: str, stages: InProcess | None = None, variant: str = "whole") -> CellResult:
    cell = Cell(shipped_scenarios()[scenario], shipped_targets()[target], variant)  # pyright: ignore[reportArgumentType]
    return Run(stages or InProcess(), [])([cell]).cells[0]


@pytest.mark.parametrize("target", shipped_targets())
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


def test_a_refusal_costs_nothing() -> None:
    def provider(_request: HttpRequest, _session: Handler) -> HttpResponse:
        return HttpResponse(429, {"content-type": "application/json"}, b'{"error": {"type": "rate_limit_error"}}')

    spending = one("call-single", "anthropic", InProcess(provider)).spending

    assert spending == Spending("claude-opus-5-5", 1, Usage(), Decimal(0))


def test_an_answer_that_does_not_say_what_it_took_has_no_price() -> None:
    def provider(request: HttpRequest, session: Handler) -> HttpResponse:
        response = session(request)
        body = json.loads(response.body)
        del body["usage"]
        return replace(response, body=json.dumps(body).encode())

    spending = one("call-single", "anthropic", InProcess(provider)).spending

    assert spending == Spending("claude-opus-5-5", 2, Usage(), None, 2)


def test_an_answer_that_was_cut_off_has_no_price() -> None:
    def provider(request: HttpRequest, session: Handler) -> HttpResponse:
        response = session(request)
        return replace(response, body=response.body[: response.body.index(b"event: content_block_stop")])

    spending = one("call-single", "anthropic", InProcess(provider), "stream").spending

    assert spending is not None
    assert (spending.requests, spending.dollars, spending.unpriced) == (1, None, 1)


def test_a_model_that_is_served_without_a_price_has_that_of_the_one_that_was_asked_for() -> None:
    def provider(request: HttpRequest, session: Handler) -> HttpResponse:
        response = session(request)
        return replace(response, body=response.body.replace(b"claude-opus-5-5", b"internal-4711"))

    spending, usual = (one("call-single", "anthropic", stages).spending for stages in (InProcess(provider), None))

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


def test_the_version_of_the_prices_is_in_the_run() -> None:
    run = Run(InProcess(), [])([])
    assert price_version().items() <= run.versions.items()
    assert price_version()
