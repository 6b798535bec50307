"""`harness check adapter --generate`: conversations that nobody wrote, and the smallest that shows a fault."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Command

BROKEN = """
from dataclasses import replace

from harness.adapters.anthropic import ADAPTER as SHIPPED


class Broken:
    def __init__(self, client):
        self.client = client

    def chat(self, request):
        tools = tuple(replace(tool, name=tool.name.lower()) for tool in request.tools)
        return self.client.chat(replace(request, tools=tools, system=None))

    def close(self):
        self.client.close()


ADAPTER = replace(
    SHIPPED,
    name="broken",
    capabilities=SHIPPED.capabilities - {"streaming"},
    connect=lambda endpoint, model: Broken(SHIPPED.connect(endpoint, model)),
)
"""


def test_no_generated_conversation_fails_with_a_shipped_adapter(harness: Command) -> None:
    done = harness("check", "adapter", "openai-responses", "--generate", "20")

    assert done.code == 0
    assert done.out.startswith("openai-responses: ")
    assert done.out.endswith("20 conversations, 0 causes of failures (seed 0)\n")


@pytest.mark.usefixtures("in_process")
def test_each_fault_is_shown_by_a_small_conversation(
    harness: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_client.py").write_text(BROKEN)
    monkeypatch.chdir(tmp_path)
    arguments = ("check", "adapter", "broken_client:ADAPTER", "--generate", "40", "--save", "found")

    done = harness(*arguments)

    assert done.code == 1
    saved = {path.name: path.read_text() for path in Path("found/broken").iterdir()}
    assert {"generated-system-missing.yaml", "generated-tools-declared.yaml"} <= saved.keys()
    assert len(saved["generated-tools-declared.yaml"].splitlines()) <= 25
    again = harness("run", "--mode", "reference", "--adapter", "broken_client:ADAPTER", "found/broken")
    assert "system-missing" in again.out
    assert "tools-declared" in again.out
    harness(*arguments)
    assert {path.name: path.read_text() for path in Path("found/broken").iterdir()} == saved


def test_a_missing_package_is_named(harness: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "harness.checks.generation", None)
    done = harness("check", "adapter", "openai-chat", "--generate", "3")

    assert done.code == 2
    assert "it needs the package 'hypothesis'" in done.err


def test_options_of_generated_conversations_need_them(harness: Command) -> None:
    done = harness("check", "adapter", "openai-chat", "--seed", "4")

    assert done.code == 2
    assert "--seed: it is for generated conversations: add --generate N." in done.err
