import os
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from harness.apis.registry import targets_for
from harness.model.messages import ChatRequest, ChatResponse, Message, Role, StopReason, Text, Usage
from harness.model.protocols import Adapter, Capability, Endpoint
from harness.platform.environment import hidden_variables
from harness.platform.files import shipped_folder
from harness.results import Verdict
from harness.rules.rule import all_rules
from harness.runner.backends import ReferenceBackend
from harness.runner.cells import cells
from harness.runner.suite_run import Run
from harness.scenarios.load import load_paths

POISON = {
    "ANTHROPIC_API_KEY": "sk-ant-real",
    "OPENAI_BASE_URL": "http://127.0.0.1:9/elsewhere",
    "GEMINI_API_KEY": "real",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
    "ANTHROPIC_LOG": "debug",
    "OPENAI_LOG": "debug",
    "HTTPX_LOG_LEVEL": "debug",
    "GOOGLE_GENAI_HTTP_CLIENT": "aiohttp",
    "OTEL_TRACES_EXPORTER": "console",
    "AWS_REGION": "eu-west-1",
    "SSL_CERT_FILE": "/nonexistent",
    "SSL_CERT_DIR": "/nonexistent",
    "SSLKEYLOGFILE": "/nonexistent/keys",
}


def test_what_leads_out_is_gone_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in POISON.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME_OF_MINE", "stays")

    with hidden_variables():
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
    scenarios = [s for s in load_paths([shipped_folder("scenarios")]) if s.id == "system-absent"]

    (cell,) = Run(ReferenceBackend(), all_rules())(cells(scenarios, targets_for([adapter], [], {}))).cells

    # it reads no usage, which is a convention; that it was answered is the point
    assert {finding.rule for finding in cell.findings} == {"usage-offered"}
    assert cell.verdict is Verdict.NOTE


def test_nothing_of_it_reaches_an_offline_run_not_even_the_import_of_an_adapter(tmp_path: Path) -> None:
    """In a process of its own: an SDK reads its switches of debugging once, when it is imported."""
    root = Path(__file__).parents[2]
    names = sorted(POISON)
    (tmp_path / "looks.py").write_text(
        f"import os\nassert not [name for name in {names} if name in os.environ]\n"
        "import openai\nfrom dataclasses import replace\nfrom harness.adapters.openai_chat import ADAPTER\n"
        "ADAPTER = replace(ADAPTER, name='looks')\n"
    )
    run = ["run", "call-single", "--mode", "reference", "--variant", "whole"]
    adapters = ["--adapter", "openai-chat", "--adapter", "looks:ADAPTER"]

    done = subprocess.run(
        [sys.executable, "-m", "harness", *run, *adapters],
        cwd=tmp_path,
        env={**os.environ, **POISON, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
