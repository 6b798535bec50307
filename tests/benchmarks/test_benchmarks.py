from collections.abc import Callable, Sequence
from pathlib import Path

import httpx2
import pytest

from harness.apis import registry
from harness.model.http import HttpRequest
from harness.model.protocols import Endpoint
from harness.runner.tool_loop import run_scenario
from tests.benchmarks import speed
from tests.benchmarks.bare import SDKS
from tests.benchmarks.contenders import Field, contenders, lead
from tests.benchmarks.conversations import Conversation
from tests.benchmarks.raw import conversing
from tests.benchmarks.recordings import Canned, record
from tests.stages import shipped_targets

IN_PROCESS = [
    each for each in contenders(None) if each.missing is None and not each.name.startswith(("pytest", "aimock"))
]


@pytest.mark.filterwarnings("ignore::UserWarning")  # an SDK's, about words that it does not know yet
@pytest.mark.parametrize("name", SDKS)
def test_all_contenders_lead_the_same_conversations_to_the_same_answers(name: str, tmp_path: Path) -> None:
    chosen = [Conversation(0), Conversation(1, steps=3)]

    rows = speed.measure(shipped_targets()[name], IN_PROCESS, chosen, rounds=1, folder=tmp_path)

    assert [row.contender for row in rows] == [each.name for each in IN_PROCESS]
    assert len(rows) == 7
    assert all(len(row.milliseconds) == len(row.ratios) == 1 for row in rows)


class Noting(Canned):
    """Notes what is sent."""

    def __init__(self, bodies: Sequence[bytes]) -> None:
        super().__init__(bodies)
        self.sent: list[HttpRequest] = []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(HttpRequest(request.method, str(request.url), {}, request.read()))
        return super().handle_request(request)


@pytest.mark.filterwarnings("ignore::UserWarning")  # as above
@pytest.mark.parametrize("name", SDKS)
@pytest.mark.parametrize("tools", [1, 4])
def test_all_floors_do_the_same_work(name: str, tools: int, tmp_path: Path) -> None:
    """Raw bodies are those of our adapter to the byte; the SDK's own types write the same conversation in their way."""
    target, chosen = shipped_targets()[name], [Conversation(0, tools=tools), Conversation(1, steps=3, tools=tools)]
    field = Field(target, chosen, record(tmp_path, chosen, [target]), tmp_path)

    def sent(lead_all: Callable[[httpx2.Client], None]) -> list[HttpRequest]:
        transport = Noting(field.recorded(chosen))
        with httpx2.Client(transport=transport, trust_env=False) as client:
            lead_all(client)
        return transport.sent

    def alone(client: httpx2.Client) -> None:
        for each in chosen:
            run_scenario(each.scenario(), target, Endpoint(field.base_url, "not-a-key", client), lambda _chat: None)

    def raw(client: httpx2.Client) -> None:
        lead(conversing(name, field.base_url, target.model, client, field.first()), chosen)

    ours, bare = sent(alone), sent(raw)
    assert [(each.url, each.body) for each in bare] == [(each.url, each.body) for each in ours]
    typed = sent(lambda client: lead(field.sdk(client), chosen))
    view = registry.api(target.api).view
    for one, other in zip(map(view, typed), map(view, ours), strict=True):
        assert [tool.name for tool in one.tools] == [tool.name for tool in other.tools]
        assert [(call.id, call.name, call.arguments) for call in one.calls] == [
            (call.id, call.name, call.arguments) for call in other.calls
        ]
        assert [result.call_id for result in one.results] == [result.call_id for result in other.results]
        assert one.settings["max_tokens"].value == other.settings["max_tokens"].value
