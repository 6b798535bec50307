"""What a project says in `[tool.harness]`, and a repository that begins with nothing."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from harness.platform.files import shipped_folder
from tests.cli.conftest import Command

SCENARIO = (shipped_folder("scenarios") / "call-single.yaml").read_text()
SETTINGS = """
[tool.harness]
scenarios = ["llm"]
cassettes = "tapes"
targets = ["anthropic"]
variants = ["whole"]
"""


def cells(reported: str) -> dict[str, str]:
    return {cell["scenario"]: cell["verdict"] for cell in json.loads(reported)["cells"]}


@pytest.fixture
def mine(folder: Path) -> Path:
    """A repository with a scenario of its own, which is named like a shipped one."""
    (folder / "pyproject.toml").write_text(SETTINGS)
    (folder / "llm").mkdir()
    (folder / "llm" / "call-single.yaml").write_text(SCENARIO)
    return folder


def test_a_run_of_project_scenarios_ignores_shipped_cassettes(harness: Command, mine: Path) -> None:
    missing = harness("run")

    assert missing.code == 2
    assert "Not checked: no cassette for 1 cell in tapes" in missing.out
    assert "tapes/call-single/anthropic.yaml: there is no such cassette." in missing.out
    assert harness("record", "--from=reference").code == 0
    assert (mine / "tapes" / "call-single" / "anthropic.yaml").exists()
    assert cells(harness("run", "--report=json").out) == {"call-single": "pass"}


def test_settings_apply_in_subfolders_below_options(
    harness: Command, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(mine / "llm")

    report = json.loads(harness("run", "--mode=reference", "--target=gemini-3", "--report=json").out)

    assert [(cell["target"], cell["variant"], cell["verdict"]) for cell in report["cells"]] == [
        ("gemini-3", "whole", "pass")
    ]
    assert len(cells(harness("run", "call-parallel-same-tool", "--report=json").out)) == 1


def test_a_project_adapter_is_run_and_checked_strictly(
    harness: Command, folder: Path, in_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "my_adapter", raising=False)
    begun = harness("init", "--with-adapter")
    with (folder / "pyproject.toml").open("a") as file:
        file.write("strict = true\n")

    result = harness("run", "--mode=reference")
    checked = harness("check", "--report=json")

    assert begun.code == 0, begun.err
    assert "my-adapter" in result.out
    assert "--strict" in json.loads(harness("run", "--mode=reference", "--report=json").out)["invocation"]["rerun"]
    lenient = harness("run", "--mode=reference", "--no-strict", "--report=json")
    assert "--strict" not in json.loads(lenient.out)["invocation"]["rerun"]
    assert checked.code == 0, checked.out
    assert {cell["adapter"] for cell in json.loads(checked.out)["cells"]} == {"my-adapter"}


@pytest.mark.usefixtures("in_process")
def test_an_agent_can_be_named_in_the_settings(harness: Command, folder: Path) -> None:
    (folder / "pyproject.toml").write_text(
        '[tool.harness]\nconversations = ["tests.examples.runner_loop:drive"]\napi = "anthropic"\n'
    )

    result = harness("run", "--mode=reference", "call-single", "--report=json")
    reported = harness("config").out

    assert {cell["adapter"] for cell in json.loads(result.out)["cells"]} == {"runner_loop"}
    assert result.code == 0
    assert re.search(r"^conversations +tests.examples.runner_loop:drive +pyproject.toml$", reported, re.MULTILINE)


def test_what_holds_is_shown_with_its_origin(harness: Command, mine: Path) -> None:
    (mine / "known.yaml").write_text("[]")
    with (mine / "pyproject.toml").open("a") as file:
        file.write('expected-failures = "known.yaml"\nmodels = {anthropic = "x", gemini-3 = "gemini-3.6-pro"}\n')

    rows = [re.split(r"  +", line) for line in harness("config").out.splitlines()]

    assert rows[0] == ["KEY", "VALUE", "FROM"]
    reported = {key: (value, origin) for key, value, origin in rows[1:]}
    assert reported["scenarios"] == ("llm", "pyproject.toml")
    assert reported["models"] == ("anthropic=x, gemini-3=gemini-3.6-pro", "pyproject.toml")
    assert reported["expected-failures"] == ("known.yaml", "pyproject.toml")
    assert reported["strict"] == ("false", "default")
    assert harness("config").code == 0


def test_base_urls_apply_only_to_live_runs(harness: Command, mine: Path) -> None:
    with (mine / "pyproject.toml").open("a") as file:
        file.write('base-urls = {anthropic = "http://127.0.0.1:9"}\n')

    live = harness("run", "--mode=live")

    assert harness("run", "--mode=reference").code == 0
    assert "http://127.0.0.1:9" in live.out + live.err


@pytest.mark.usefixtures("in_process")
def test_init_writes_files_that_run_and_keeps_existing_ones(harness: Command, folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[project]\nname = "mine"')

    first = harness("init")

    assert (folder / "pyproject.toml").read_text().startswith('[project]\nname = "mine"\n\n[tool.harness]')
    assert "pyproject.toml: [tool.harness] is added." in first.out
    assert harness("validate").out == "1 scenario is valid.\n"
    assert harness("list", "scenarios").out.count("\n") == 2
    assert harness("run", "--mode=reference").code == 0
    assert harness("record", "--from=reference").code == 0
    assert harness("run").code == 0
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    again = harness("init")
    assert (again.code, again.out.count("already, and is not changed.")) == (0, 4)
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before


CLIENT = 'import httpx\nreply = httpx.post("https://api.openai.com/v1/chat/completions")\n'


@pytest.mark.parametrize(
    ("files", "options", "written", "said"),
    [
        ({"acme/llm.py": CLIENT}, (), {"my_adapter.py"}, "a client of a model: acme/llm.py"),
        (
            {"acme/llm.py": CLIENT + "calls = reply['tool_calls']"},
            (),
            {"my_adapter.py", "my_loop.py"},
            "runs the tools",
        ),
        ({"tests/test_llm.py": CLIENT}, (), set[str](), "pytest --harness-record=missing"),
        ({"acme/llm.py": CLIENT}, ("--for", "loop"), {"my_loop.py"}, "my_loop:drive"),
        ({".venv/x.py": CLIENT}, (), {"my_adapter.py"}, "No code here calls a model"),
        ({}, ("--for", "server"), set[str](), "harness check local"),
    ],
)
def test_what_a_repository_has_decides_what_it_begins_with(  # noqa: PLR0917 - a parameter for each column
    harness: Command, folder: Path, files: dict[str, str], options: tuple[str, ...], written: set[str], said: str
) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)

    begun = harness("init", *options)

    assert begun.code == 0, begun.err
    assert said in begun.out
    assert {path.name for path in folder.glob("my_*.py")} == written
    workflow = folder / ".github" / "workflows" / "harness.yml"
    assert workflow.exists() is ("server" not in options)
    if workflow.exists():
        assert ("harness run shipped" in workflow.read_text()) is bool(written)
        assert not [word for word in ("# PLAY", "# END", "# TESTS", "# DONE") if word in workflow.read_text()]


def test_settings_are_read_in_any_notation(harness: Command, folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool]\nharness = {strict = true}\n")
    inline = harness("init")
    (folder / "pyproject.toml").write_bytes(b'harness = "\xff"\n')
    unread = harness("init")

    assert "pyproject.toml has [tool.harness] already, and is not changed." in inline.out
    assert unread.code == 2
    assert unread.err.startswith("harness: pyproject.toml: not valid TOML: ")
    assert (folder / "pyproject.toml").read_bytes() == b'harness = "\xff"\n'
