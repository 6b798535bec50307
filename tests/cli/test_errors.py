"""What a user reads who did something wrong: every message in full, exit code 2, one paragraph, no traceback."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Command, without_workers

ROOT = Path(__file__).parent.parent.parent
BROKEN_ADAPTERS = """
from dataclasses import replace

from harness.adapters.anthropic import ADAPTER as SHIPPED

CLAIMS = replace(SHIPPED, name="claims", capabilities=frozenset({"toools"}))
NAMELESS = replace(SHIPPED, name=5)
LINES = replace(SHIPPED, name="a\\nb")
INCAPABLE = replace(SHIPPED, name="x", capabilities=None)
ROUTED = replace(SHIPPED, name="x", route="client")
UNCONNECTED = replace(SHIPPED, name="x", connect="here")
EMBEDS = replace(SHIPPED, name="x", capabilities=frozenset({"embeddings"}))
REQUIRES = replace(SHIPPED, name="x", requires="curl")
NONE = 5
"""

EXAMPLES = (Path(__file__).parent / "golden" / "errors.txt").read_text().strip().split("\n\n")
"""Command lines, each with the files that it reads (name and JSON text) and its one line on standard error."""


@pytest.fixture
def inputs(folder: Path) -> None:
    (folder / "broken_adapters.py").write_text(BROKEN_ADAPTERS)
    (folder / "loops.py").write_text("def drive(endpoint, model, conversation):\n    pass\n\nNONE = 5\n")
    (folder / "exits.py").write_text("raise SystemExit(0)\n")
    (folder / "without_library.py").write_text("import json\nimport a_library_that_is_not_there.client\n")
    (folder / "exits_hard.py").write_text("import os\nprint('a last word')\nos._exit(3)\n")
    (folder / "interrupts.py").write_text("raise KeyboardInterrupt('stop')\n")
    (folder / "empty").mkdir()
    os.mkfifo(folder / "pipe.yaml")
    (folder / "circle.yaml").symlink_to("circle.yaml")
    (folder / "twice.yaml").write_text(
        "version: 1\ninteractions:\n- request:\n    method: POST\n    uri: http://a.invalid\n    body: ''\n"
        "    uri: http://b.invalid\n  response: null\n"
    )
    (folder / "twice.json").write_text(
        '{"version": 1, "interactions": [{"request": {"method": "POST", "uri": "http://a.invalid", "uri": "b"}}]}'
    )
    (folder / "unreasoned.yaml").write_text("- {scenario: '*', target: '*', rule: usage}\n")
    (folder / "misspelt.yaml").write_text(
        "- {scenario: 'call-*', target: mine, rule: usage, reason: known}\n"
        "- {scenario: 'call-*', target: mine, rule: 'anthropic-choise-forced', reason: known}\n"
    )
    (folder / "done.json").write_text('{"mode": "replay", "cells": []}')
    (folder / "audited.json").write_text(
        '{"mode": "audit", "cells": [], "audit": {"files": 0, "apis": {}, "unknown": 0}}'
    )
    (folder / "glob.yaml").write_text("- {scenario: '*', target: mine, rule: 'results-swap*', reason: known}\n")
    (folder / "own-facts.yaml").write_text(
        "api: anthropic\nfacts:\n  - id: anthropic-ours-a\n    verdict: refuse\n    says: It is refused.\n"
        "    evidence: [{kind: probe, date: 2026-11-01, address: 'https://wiki.example.com/gateway'}]\n"
    )
    (folder / "whole-only.yaml").write_text(
        "version: 1\nid: whole-only\ntitle: Whole\ncovers: [tools]\nvariants: [whole]\n"
        "turns: [{user: Hi., model: [{text: Hello.}]}]\n"
    )
    (folder / "malformed.yaml").write_text(
        "version: 1\nid: malformed\ntitle: Wrong\ncovers: [tools]\nrequires: [toools]\nturns: [{user: Hi.}]\n"
    )


@pytest.mark.usefixtures("inputs")
@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_a_message_says_what_is_wrong_where_and_the_way_out(
    harness: Command, monkeypatch: pytest.MonkeyPatch, example: str
) -> None:
    *files, command, message = example.splitlines()
    if not any(word in command for word in ("exits_hard", "interrupts", "--executor")):  # these are about processes
        without_workers(monkeypatch)
        monkeypatch.setattr(sys, "path", [*sys.path])
        for name in ("broken_adapters", "exits"):
            monkeypatch.delitem(sys.modules, name, raising=False)
    for file in files:
        name, _, text = file.partition(" = ")
        Path(name).write_text(json.loads(text))

    outcome = harness(*shlex.split(command)[2:])

    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"{message}\n")


@pytest.mark.parametrize("damage", ["edited", "foreign"])  # tests/runner/test_run.py cuts one
def test_a_damaged_cassette_is_blamed_for_its_cell(
    harness: Command, cassettes: Path, folder: Path, damage: str
) -> None:
    source = (cassettes / "call-single" / "anthropic.yaml").read_text()
    place = folder / "own" / "call-single" / "anthropic.yaml"
    place.parent.mkdir(parents=True)
    place.write_text(
        {
            "edited": source.replace("get_weather", "get_whether", 1),
            "foreign": "version: 1\ninteractions: []\n",
        }[damage]
    )

    outcome = harness("run", "call-single", "--target", "anthropic", "--cassettes", "own")

    text = " ".join(outcome.out.split())
    assert outcome.code == 1
    assert "own/call-single/anthropic.yaml" in text
    assert "at fault: cassette" in text
    assert "What to do The recording does not fit the scenario: record the cell again with 'harness record'." in text
    assert "Traceback" not in text + outcome.err


STREAMS = """
harness list wrappers | head -n 1
harness list wrappers > /dev/full
echo $?
harness run nosuch 2> /dev/full
echo $?
harness run call-single --target openai-chat --variant whole --report json:run.json >&- 2>&-
echo $?
"""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_streams_that_end_are_full_or_closed_give_no_traceback(folder: Path) -> None:
    script = STREAMS.replace("harness ", f"{sys.executable} -m harness ")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )

    head, *codes = done.stdout.splitlines()
    assert head.startswith("LIBRARY ")
    assert codes == ["2", "2", "0"]
    assert done.stderr == "harness: standard output cannot be written: No space left on device.\n"
    assert json.loads((folder / "run.json").read_text())["summary"]["pass"] == 1
