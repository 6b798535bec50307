"""What a project says of itself in `pyproject.toml`, and a reference server that obeys facts of one's own."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import NO_SUCH_TOOL, Command

ONE = ("call-single", "--target=anthropic", "--variant=whole")

ASKING = """
import json, os, urllib.request
tools = [{"name": "get_weather", "input_schema": {"type": "object"}}]
messages = [{"role": "user", "content": "Weather?"}]
body = {"model": "claude-opus-5-5", "max_tokens": 99, "messages": messages, "tools": tools}
headers = {"x-api-key": "k", "anthropic-version": "2023-06-01", "content-type": "application/json"}
url = os.environ["HARNESS_URL"] + "/call-single/1/v1/messages"
urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers))
"""


@pytest.fixture
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder inside a repository whose project has facts of its own."""
    (folder / ".git").mkdir()
    (folder / "ours.yaml").write_text(NO_SUCH_TOOL)
    (folder / "pyproject.toml").write_text('[tool.harness]\nfacts = ["ours.yaml"]\n')
    (folder / "tests").mkdir()
    (folder / "tests" / "pyproject.toml").write_text("[tool.ruff]\n")
    monkeypatch.chdir(folder / "tests")
    return folder / "tests"


@pytest.mark.parametrize(
    "command",
    [
        ("list", "facts", "--api=anthropic"),
        ("explain", "anthropic-ours-no-weather"),
        ("show", *ONE),
        ("run", *ONE, "--mode=reference"),
        ("record", *ONE, "--from=reference"),
        ("check", "anthropic", "--target=anthropic"),
        ("serve", "call-single", f"--command={shlex.join([sys.executable, '-c', ASKING])}"),
    ],
    ids=lambda command: command[0],
)
def test_every_command_knows_the_facts_of_the_project(harness: Command, inside: Path, command: tuple[str, ...]) -> None:
    assert inside.is_dir()
    assert "anthropic-ours-no-weather" in harness(*command).out


def test_a_fact_of_the_project_can_be_probed(harness: Command, inside: Path) -> None:
    assert inside.is_dir()
    nowhere = "--base-url=anthropic=http://127.0.0.1:9"
    asked = harness("probe", "--target=anthropic", "--fact=anthropic-ours-no-weather", nowhere)
    assert "To be sent: at most 2 requests for 1 fact" in asked.err


def test_options_add_to_what_the_project_says(harness: Command, inside: Path) -> None:
    (inside / "more.yaml").write_text(NO_SUCH_TOOL.replace("no-weather", "no-wether"))
    outcome = harness("list", "facts", "--api=anthropic", "--facts=more.yaml", "--facts=../ours.yaml")
    assert [outcome.out.count(f"anthropic-ours-no-{name} ") for name in ("weather", "wether")] == [1, 1]


def test_nothing_beyond_the_repository_counts(harness: Command, inside: Path) -> None:
    (inside / ".git").mkdir()
    assert "anthropic-ours" not in harness("list", "facts", "--api=anthropic").out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "fact = []",
            (
                "pyproject.toml at tool.harness: unknown key 'fact'. Did you mean 'facts'? Known: adapter-commands, "
                "adapters, agent-commands, api, base-urls, cassettes, concurrency, conversations, expected-failures, "
                "facts, gateways, ignore, max-age, models, rates, scenarios, servers, strict, targets, variants."
            ),
        ),
        (
            'facts = "ours.yaml"',
            ('pyproject.toml at tool.harness.facts: it has to be a list of files, as in facts = ["ours.yaml"].'),
        ),
        (
            "facts = [1]",
            'pyproject.toml at tool.harness.facts: it has to be a list of files, as in facts = ["ours.yaml"].',
        ),
        ('facts = ["no.yaml"]', "pyproject.toml at tool.harness.facts: there is no file no.yaml."),
        ("facts = [", "pyproject.toml: this is no TOML: Invalid value (at end of document)."),
    ],
)
@pytest.mark.parametrize("command", ["run", "list facts", "explain error", "audit ."])
def test_what_a_project_says_wrong_is_named(harness: Command, folder: Path, command: str, text: str, said: str) -> None:
    (folder / "pyproject.toml").write_text(f"[tool.harness]\n{text}\n")
    outcome = harness(*command.split())
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"harness: {said}\n")


def test_a_table_that_is_none_is_named(harness: Command, folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool]\nharness = 5\n")
    said = "harness: pyproject.toml at tool.harness: it has to be a table, [tool.harness].\n"
    assert harness("list", "facts").err == said


def test_recordings_of_the_reference_server_obey_user_facts(harness: Command, folder: Path) -> None:
    (folder / "ours.yaml").write_text(NO_SUCH_TOOL)
    kept = folder / "cassettes" / "call-single" / "anthropic.yaml"

    refused = harness("record", *ONE, "--from=reference", "--facts=ours.yaml", "--report=json:run.json")

    assert (refused.code, kept.exists()) == (1, False)
    assert "call-single . anthropic: not recorded: a chat failed" in refused.out + refused.err
    report = json.loads((folder / "run.json").read_text())
    assert report["facts"] == ["ours.yaml"]
    assert "--facts ours.yaml" in " ".join(report["invocation"]["rerun"])
    assert harness("record", *ONE, "--from=reference").code == 0
    assert kept.exists()
