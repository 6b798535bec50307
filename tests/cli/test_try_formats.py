"""`harness try` finds the message format of a client by sending it a conversation in each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Command

CLIENTS = '''
from __future__ import annotations
from dataclasses import dataclass, field
from typing import Any, Literal, Sequence, Union
import httpx2


@dataclass
class Words:
    text: str


@dataclass
class Outcome:
    tool_use_id: str
    content: Any
    is_error: bool = False


@dataclass
class Unchanged:
    """A block of an answer, which goes back as it is."""
    raw: dict[str, Any]


@dataclass
class Turn:
    role: Literal["user", "assistant"]
    content: Union[str, Sequence[Union[Words, Outcome, Unchanged]]]


@dataclass
class Reply:
    blocks: list[dict[str, Any]]
    stop_reason: str
    usage: dict[str, Any]

    def as_turn(self) -> Turn:
        return Turn("assistant", [Unchanged(each) for each in self.blocks])


class Blocks:
    """A client with a class for each content block of Anthropic."""

    def __init__(self, base_url: str, api_key: str = "", model: str = "claude-sonnet-4-6") -> None:
        headers = {"x-api-key": api_key, "anthropic-version": "2023-06-01"}
        self.http, self.model = httpx2.Client(base_url=base_url, headers=headers, trust_env=False), model

    def send(self, messages: Sequence[Turn], system: str | None = None, tools: Sequence[dict[str, Any]] = (),
             tool_choice: dict[str, Any] | None = None, max_tokens: int = 1000) -> Reply:
        body = {"model": self.model, "max_tokens": max_tokens, "messages": [self.encode(each) for each in messages]}
        given = {"system": system, "tools": list(tools), "tool_choice": tool_choice}
        reply = self.http.post("v1/messages", json=body | {key: each for key, each in given.items() if each})
        reply.raise_for_status()
        answer = reply.json()
        return Reply(answer["content"], answer["stop_reason"], answer["usage"])

    def encode(self, turn: Turn) -> dict[str, Any]:
        if isinstance(turn.content, str):
            return {"role": turn.role, "content": turn.content}
        return {"role": turn.role, "content": [self.block(each) for each in turn.content]}

    def block(self, block: Any) -> dict[str, Any]:
        if isinstance(block, Unchanged):
            return block.raw
        if isinstance(block, Words):
            return {"type": "text", "text": block.text}
        failed = {"is_error": True} if block.is_error else {}
        return {"type": "tool_result", "tool_use_id": block.tool_use_id, "content": block.content, **failed}


class NoFlag(Blocks):
    def block(self, block: Any) -> dict[str, Any]:
        made = super().block(block)
        return {key: each for key, each in made.items() if key != "is_error"}


class Reasoning(Blocks):
    """A client that always asks for reasoning, which excludes sampling settings."""

    body: dict[str, Any] = {"thinking": {"type": "adaptive"}}

    def send(self, messages: Sequence[dict[str, Any]], system: str = "", tools: Sequence[dict[str, Any]] = (),
             max_tokens: int = 4000, temperature: float | None = None, top_p: float | None = None) -> dict[str, Any]:
        given = {"system": system, "tools": list(tools)}
        body = {"model": self.model, "max_tokens": max_tokens, "messages": list(messages), **self.body}
        body |= self.sampling(temperature=temperature, top_p=top_p)
        reply = self.http.post("v1/messages", json=body | {key: each for key, each in given.items() if each})
        reply.raise_for_status()
        return reply.json()

    def sampling(self, **given: float | None) -> dict[str, Any]:
        return {}


class NoSampling(Reasoning):
    body: dict[str, Any] = {}


class BothSent(Reasoning):
    def sampling(self, **given: float | None) -> dict[str, Any]:
        return {name: each for name, each in given.items() if each is not None}


class Items:
    """A client of Responses whose parameter for its items has the name of a conversation."""

    def __init__(self, base_url: str, api_key: str = "", model: str = "gpt-5.5") -> None:
        headers = {"authorization": f"Bearer {api_key}"}
        self.http, self.model = httpx2.Client(base_url=base_url, headers=headers, trust_env=False), model

    def respond(self, conversation: Sequence[dict[str, Any]], instructions: str | None = None,
                tools: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
        items = [each for each in conversation if self.is_sent(each)]
        body = {"model": self.model, "store": False, "include": ["reasoning.encrypted_content"], "input": items}
        given = {"instructions": instructions, "tools": list(tools)}
        reply = self.http.post("responses", json=body | {key: each for key, each in given.items() if each})
        reply.raise_for_status()
        return reply.json()

    def is_sent(self, item: dict[str, Any]) -> bool:
        return True


class NoReasoning(Items):
    def is_sent(self, item: dict[str, Any]) -> bool:
        return item.get("type") != "reasoning"


class TextOrItems(Items):
    """A client that takes a text of the user, or native messages."""

    def say(self, what: str | list[dict[str, Any]], instructions: str = "", tools: Sequence[dict[str, Any]] = ()):
        items = [{"role": "user", "content": what}] if isinstance(what, str) else what
        return self.respond(items, instructions, tools)


class Parts:
    """A client that takes a text of the user, or the parts of a single message."""

    def __init__(self, base_url: str, model: str = "gpt-4.1") -> None:
        self.http, self.model = httpx2.Client(base_url=base_url, trust_env=False), model

    def say(self, what: str | list[dict[str, Any]]) -> str:
        messages = [{"role": "user", "content": what}]
        reply = self.http.post("chat/completions", json={"model": self.model, "messages": messages})
        reply.raise_for_status()
        return reply.json()["choices"][0]["message"]["content"]


class OwnHistory(Parts):
    """A client that keeps its conversation, and takes a text of the user or further messages."""

    def say(self, what: str | list[dict[str, Any]]) -> str:
        self.kept = getattr(self, "kept", [])
        self.kept += [{"role": "user", "content": what}] if isinstance(what, str) else what
        reply = self.http.post("chat/completions", json={"model": self.model, "messages": self.kept})
        reply.raise_for_status()
        self.kept.append(reply.json()["choices"][0]["message"])
        return self.kept[-1]["content"]
'''


@pytest.fixture
def clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "formats.py").write_text(CLIENTS)


@pytest.mark.parametrize(
    ("name", "api", "cause"),
    [
        ("Blocks", "anthropic", None),
        ("NoFlag", "anthropic", "error-flag"),
        ("Reasoning", "anthropic", None),
        ("NoSampling", "anthropic", "setting-lost"),
        ("BothSent", "anthropic", "anthropic-temperature-with-adaptive-thinking-refused"),
        ("Items", "openai-responses", None),
        ("NoReasoning", "openai-responses", "opaque-state-lost"),
        ("TextOrItems.say", "openai-responses", None),
    ],
)
def test_a_client_gets_the_format_in_which_calls_arrive(
    clients: None, harness: Command, name: str, api: str, cause: str | None
) -> None:
    done = harness("try", f"formats:{name}")

    assert f"a client of {api}, called as" in done.out
    assert "in the API's own format" in done.out
    assert {*re.findall(r"\(([\w-]+), \d+ cell", done.out)} == ({cause} - {None}), done.out


@pytest.mark.parametrize("name", ["Parts", "OwnHistory"])
def test_a_list_of_parts_and_a_history_of_its_own_leave_a_client_its_prompt(
    clients: None, harness: Command, name: str
) -> None:
    done = harness("try", f"formats:{name}")

    assert "in the API's own format" not in done.out
    assert f"formats:{name}.say(what)" in done.out
    assert "Nothing is wrong" in done.out, done.out
