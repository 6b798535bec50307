"""Subjects and files that a command does not expect: the error names the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.results import RunResult
from tests.cli.conftest import Command

CLIENT = '''
from dataclasses import dataclass, field

import httpx2


@dataclass
class Call:
    id: str
    name: str
    arguments: str


@dataclass
class Reply:
    text: str
    tool_calls: list[Call]
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Client:
    def __init__(self, api_key, base_url="https://api.openai.com/v1", model="gpt-4o-mini"):
        self.model = model
        self.http = httpx2.Client(base_url=base_url, headers={"authorization": f"Bearer {api_key}"}, timeout=60)

    def complete(self, messages, tools=None) -> Reply:
        body = {"model": self.model, "messages": messages, **({"tools": tools} if tools else {})}
        data = self.http.post("/chat/completions", json=body).raise_for_status().json()
        message, usage = data["choices"][0]["message"], data["usage"]
        calls = [Call(each["id"], **each["function"]) for each in message.get("tool_calls") or []]
        return Reply(message["content"] or "", calls, *self.counts(usage))

    def close(self):
        self.http.close()

    def counts(self, usage):
        return usage["prompt_tokens"], usage["completion_tokens"]


class Miscounting(Client):
    def counts(self, usage):
        return usage["completion_tokens"], usage["prompt_tokens"]


class Uncounted(Client):
    def counts(self, usage):
        return ()


def chat(messages, tools=None):
    """A function that sends one request."""
'''


@pytest.fixture
def project(folder: Path, in_process: None) -> Path:
    (folder / "own_replies.py").write_text(CLIENT)
    return folder


def played(harness: Command, folder: Path, client: str, *words: str) -> RunResult:
    report = folder / "run.json"
    harness(
        *("run", "--mode=reference", "--target=openai-chat", f"--model=own_replies:{client}=gpt-4o-mini"),
        *(f"--adapter=client@openai-chat own_replies:{client}", f"--report=json:{report}", *words),
    )
    return RunResult.from_json(report.read_text(encoding="utf-8"))


def found(run: RunResult) -> set[str]:
    return {f"{each.rule}: {each.message}" for cell in run.cells for each in cell.findings}


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ("Client", set[str]()),
        (
            "Miscounting",
            {f"usage: {name}_tokens is not the value in the answer" for name in ("input", "output")},
        ),
        (
            "Uncounted",
            {
                f"usage-offered: the answer has {name}_tokens, but the adapter does not return it"
                for name in ("input", "output")
            },
        ),
    ],
)
def test_counts_may_be_fields_of_the_answer(harness: Command, project: Path, client: str, expected: set[str]) -> None:
    assert found(played(harness, project, client, "call-single", "--variant=whole")) == expected


@pytest.mark.parametrize("attribute", ["Client", "chat"])
def test_a_client_is_neither_a_loop_nor_an_adapter(harness: Command, project: Path, attribute: str) -> None:
    name = f"own_replies:{attribute}"
    as_agent = harness("check", "agent", name, "--api", "openai-chat")
    as_adapter = harness("check", "adapter", name)

    assert (as_agent.code, as_agent.out) == (2, "")
    assert "it is no tool loop that harness recognises: it does not take the arguments of drive(" in as_agent.err
    assert as_agent.err.endswith(f"Is it a client? harness try {name}\n")
    assert (as_adapter.code, as_adapter.out) == (2, "")
    assert as_adapter.err.endswith(f"Is it a client? harness try {name}\n")
