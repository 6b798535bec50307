"""`harness try` finds reasoning that a tool loop loses, with an effort and with a token budget."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Command

AGENTS = '''
from __future__ import annotations
from typing import Any
import httpx2


class Agent:
    """An agent that reasons with a number of tokens."""

    known = {"text", "tool_use", "thinking", "redacted_thinking"}

    def __init__(self, base_url: str, api_key: str = "", model: str = "claude-sonnet-4-6",
                 thinking_budget: int = 2000, max_tokens: int = 16000) -> None:
        headers = {"x-api-key": api_key, "anthropic-version": "2023-06-01"}
        self.http = httpx2.Client(base_url=base_url, headers=headers, trust_env=False)
        self.model, self.max_tokens = model, max_tokens
        self.tools: dict[str, Any] = {}
        self.messages: list[dict[str, Any]] = []
        self.reasoning: dict[str, Any] = {"thinking": {"type": "enabled", "budget_tokens": thinking_budget}}

    def add_tool(self, name: str, description: str, schema: dict[str, Any], function: Any) -> None:
        self.tools[name] = {"name": name, "description": description, "input_schema": schema}, function

    def ask(self, text: str) -> str:
        self.messages.append({"role": "user", "content": text})
        while True:
            reply = self.http.post("v1/messages", json={
                "model": self.model, "max_tokens": self.max_tokens, "messages": self.messages,
                "tools": [spec for spec, _ in self.tools.values()], **self.reasoning,
            })
            reply.raise_for_status()
            answer = reply.json()
            if answer["stop_reason"] not in ("end_turn", "tool_use"):
                raise RuntimeError(answer["stop_reason"])
            blocks = [each for each in answer["content"] if each["type"] in self.known]
            self.messages.append({"role": "assistant", "content": blocks})
            results = [self.run(each) for each in blocks if each["type"] == "tool_use"]
            if not results:
                return "".join(each["text"] for each in blocks if each["type"] == "text")
            self.messages.append({"role": "user", "content": results})

    def run(self, call: dict[str, Any]) -> dict[str, Any]:
        try:
            content, failed = str(self.tools[call["name"]][1](**call["input"])), {}
        except Exception as error:
            content, failed = str(error), {"is_error": True}
        return {"type": "tool_result", "tool_use_id": call["id"], "content": content, **failed}


class KnownKinds(Agent):
    known = {"text", "tool_use", "thinking"}


class Effort(Agent):
    """An agent that reasons with an effort."""

    def __init__(self, base_url: str, api_key: str = "", model: str = "claude-opus-4-8", effort: str = "low") -> None:
        super().__init__(base_url, api_key, model)
        self.reasoning = {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}


class KnownKindsWithEffort(Effort):
    known = {"text", "tool_use", "thinking"}
'''


@pytest.mark.parametrize(
    ("name", "loses"), [("Agent", False), ("KnownKinds", True), ("Effort", False), ("KnownKindsWithEffort", True)]
)
def test_a_lost_redacted_part_of_the_reasoning_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harness: Command, name: str, *, loses: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "agents.py").write_text(AGENTS)

    done = harness("try", f"agents:{name}")

    assert "a tool loop of anthropic" in done.out
    assert ("opaque-state-lost" in re.findall(r"\(([\w-]+), \d+ cell", done.out)) is loses, done.out
    assert (done.code == 1) is loses, done.out
