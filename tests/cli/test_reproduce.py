from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Command

CLIENT = """
import httpx2


class Client:
    def __init__(self, base_url, api_key, model):
        self.http, self.model = httpx2.Client(base_url=base_url, timeout=60), model

    def chat(self, messages, tools=None, **options):
        sent = [dict(each) for each in messages]
        for each in sent:
            if "tool_call_id" in each:
                each["tool_call_id"] = each["tool_call_id"][:9]
        body = {"model": self.model, "messages": sent, "tools": tools, **options}
        headers = {"authorization": "Bearer none"}
        return self.http.post("chat/completions", json=body, headers=headers).raise_for_status().json()

    def close(self):
        self.http.close()
"""
MENDED = CLIENT.replace('["tool_call_id"][:9]', '["tool_call_id"]')
SPEC = "client@openai-chat own_client:Client"


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "own_client", raising=False)


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "reproduce_call_single.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_reproduction_fails_with_the_fault_and_passes_without_it(harness: Command, folder: Path) -> None:
    (folder / "own_client.py").write_text(CLIENT)
    words = ["reproduce", "call-single", "--adapter", SPEC, "--target", "openai-chat"]
    done = harness(*words, "--model", f"{SPEC.split()[1]}=gpt-5.4")

    assert done.code == 0, done.err
    assert "Written: reproduce_call_single.py, reproduce_call_single.md" in done.out
    script = (folder / "reproduce_call_single.py").read_text()
    assert "harness" not in script.partition('"""\n\nimport')[2]
    faulty = run(folder)
    assert (faulty.returncode, "The fault is there." in faulty.stdout) == (1, True), faulty.stderr
    issue = (folder / "reproduce_call_single.md").read_text()
    assert "**What happens.** Request 2: the result" in issue
    assert '`/messages/2/tool_call_id` is `"call_' in issue
    assert '"tool_call_id": "call_' in issue

    (folder / "own_client.py").write_text(MENDED)
    mended = run(folder)
    assert (mended.returncode, "The fault is mended." in mended.stdout) == (0, True), mended.stdout


def test_the_text_of_an_issue_is_written_for_any_adapter(harness: Command, folder: Path) -> None:
    (folder / "own_client.py").write_text(CLIENT)
    (folder / "own_adapter.py").write_text(
        "from harness.bridge.client_shapes import adapter_for\n"
        "from own_client import Client\n"
        'ADAPTER = adapter_for(Client, "own", "openai-chat", lambda url: url)\n'
    )
    words = ("--target", "openai-chat", "--model", "own=gpt-5.4", "--output", "found")

    done = harness("reproduce", "call-single", "--adapter", "own_adapter:ADAPTER", *words)
    assert (done.code, [each.name for each in (folder / "found").iterdir()]) == (0, ["reproduce_call_single.md"])
    assert "No Python file: how own_adapter:ADAPTER calls its library is not known" in done.out

    again = harness("reproduce", "call-single", "--adapter", "own_adapter:ADAPTER", *words)
    assert (again.code, again.err) == (
        2,
        "harness: found/reproduce_call_single.md: it exists. Remove it, or name another folder by --output.\n",
    )


def test_a_cell_without_a_finding_is_not_reproduced(harness: Command, folder: Path) -> None:
    done = harness(
        "reproduce", "call-single", "--adapter", "tests.examples.plain_http:ADAPTER", "--target", "openai-chat"
    )

    assert done.code == 2
    assert "no failed finding of this cell is about a request" in done.err
    assert not list(folder.glob("reproduce*"))


def test_what_was_made_of_an_answer_is_not_reproduced(harness: Command, folder: Path) -> None:
    pytest.importorskip("openai")
    spec = "client@openai-chat openai:OpenAI"  # the SDK ends a cut stream without an error
    words = ("--variant", "stream", "--target", "openai-chat", "--model", "openai:OpenAI=gpt-5.4")

    done = harness("reproduce", "stream-cut-in-arguments", "--adapter", spec, *words)

    assert done.code == 2
    assert "no failed finding of this cell is about a request" in done.err
