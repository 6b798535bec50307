"""A client that sends again what failed waits as long as it was asked to, on a clock that goes on when it waits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.cassettes import player
from harness.model.errors import ProviderError
from harness.model.messages import ChatRequest, ChatResponse
from harness.model.protocols import Capability
from tests.backends import InProcess
from tests.broken.fault import Wrapped, client, declaring
from tests.broken.running import run_cell


class Clock:
    """Seconds that pass only by `sleep`."""

    def __init__(self) -> None:
        self.now = 100.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(player, "monotonic", lambda: clock.now)
    return clock


def found(clock: Clock, scenario: str, wait: Callable[[ProviderError], float]) -> list[str]:
    """What is found of an adapter that waits so long before its only retry."""

    class Retrying(Wrapped):
        def chat(self, request: ChatRequest) -> ChatResponse:
            try:
                return super().chat(request)
            except ProviderError as error:
                clock.sleep(wait(error))
                return super().chat(request)

    wrap = declaring(client(Retrying), Capability.RETRIES)
    cell = run_cell(scenario, "openai-chat", wrap, InProcess())
    return [f"{each.rule}: {each.message}" for each in cell.findings]


@pytest.mark.parametrize("scenario", ["error-503-retry-after", "error-429-retry-after"])
def test_the_time_to_wait_may_be_kept_to_the_second_or_rounded_up(clock: Clock, scenario: str) -> None:
    assert found(clock, scenario, lambda error: error.retry_after or 0.0) == []
    assert found(clock, scenario, lambda error: (error.retry_after or 0.0) + 1) == []


def test_a_retry_before_its_time_is_found(clock: Clock) -> None:
    early = "the request is sent again before the {} seconds that the provider asked for are over"

    assert found(clock, "error-503-retry-after", lambda _: 0.5) == [f"retry-early: {early.format('1.5')}"]
    assert found(clock, "error-429-retry-after", lambda _: 0.007) == [f"retry-early: {early.format('7')}"]
