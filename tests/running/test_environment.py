import os

import httpx2
import pytest

from harness import catalog
from harness.apis.targets import targets_for
from harness.contract.model import ChatRequest, ChatResponse, Message, Role, StopReason, Text, Usage
from harness.contract.protocols import Adapter, Capability, Endpoint
from harness.results import Verdict
from harness.running.environment import isolated, variables_of_clients
from harness.running.run import Run, cells
from harness.running.stages import Reference
from harness.scenarios.load import load_paths
from harness.scenarios.suite import shipped

POISON = {
    "ANTHROPIC_API_KEY": "sk-ant-real",
    "OPENAI_BASE_URL": "http://127.0.0.1:9/elsewhere",
    "GEMINI_API_KEY": "real",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
}


def test_what_leads_out_is_gone_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in POISON.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME_OF_MINE", "stays")

    with isolated(variables_of_clients()):
        assert not POISON.keys() & os.environ.keys()
        assert os.environ["HOME_OF_MINE"] == "stays"
    assert {name: os.environ[name] for name in POISON} == POISON


class Trusting:
    """A client that lets the environment choose: proxies are honoured, as most HTTP clients do."""

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        self.http = httpx2.Client(base_url=endpoint.base_url, timeout=5)
        self.keys = {name for name in POISON if name in os.environ}

    def chat(self, request: ChatRequest) -> ChatResponse:
        turns = [{"role": m.role, "content": m.text} for m in request.messages]
        body = {"model": request.model, "max_completion_tokens": request.max_tokens, "messages": turns}
        answer = self.http.post("/chat/completions", json=body).json()["choices"][0]
        assert not self.keys
        return ChatResponse(
            Message(Role.ASSISTANT, (Text(answer["message"]["content"]),)), StopReason.END_TURN, Usage()
        )

    def close(self) -> None:
        self.http.close()


def test_an_adapter_that_trusts_its_environment_stays_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in POISON.items():
        monkeypatch.setenv(name, value)
    adapter = Adapter("trusting", "openai-chat", frozenset({Capability.SYSTEM_PROMPT}), Trusting)
    scenarios = [s for s in load_paths([shipped("scenarios")]) if s.id == "system-absent"]

    (cell,) = Run(Reference(), catalog.rules())(cells(scenarios, targets_for([adapter], [], {}))).cells

    # it reads no usage, which is a convention; that it was answered is the point
    assert {finding.rule for finding in cell.findings} == {"usage-offered"}
    assert cell.verdict is Verdict.NOTE
