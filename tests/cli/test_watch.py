"""A run that is repeated when its files are saved."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli.settings import EffectiveOptions, complete_options
from harness.cli.watch import WatchedFiles, changed_files, count_files
from harness.platform.files import shipped_folder

ROOT = Path(__file__).parent.parent.parent
SHIPPED = shipped_folder("scenarios")
ADAPTER = """\
from dataclasses import replace
from mine.words import SAID
from tests.examples.plain_http import ADAPTER as GOOD

def connect(endpoint, model):
    if SAID:
        raise RuntimeError(SAID)
    return GOOD.connect(endpoint, model)

ADAPTER = replace(GOOD, name="mine", connect=connect)
"""


@pytest.fixture
def project(folder: Path) -> Path:
    """A project with two scenarios and an adapter of its own, in a package."""
    (folder / "pyproject.toml").write_text(
        '[tool.harness]\nscenarios = ["llm"]\nadapters = ["mine.adapter:ADAPTER"]\nvariants = ["whole"]\n'
    )
    for name in ("llm", "mine", "cassettes/call-single"):
        (folder / name).mkdir(parents=True)
    for name in ("call-single", "system-plain"):
        shutil.copy(SHIPPED / f"{name}.yaml", folder / "llm")
    (folder / "cassettes" / "call-single" / "openai-chat.yaml").touch()
    (folder / "mine" / "__init__.py").touch()
    (folder / "mine" / "adapter.py").write_text(ADAPTER)
    (folder / "mine" / "words.py").write_text('SAID = ""\n')
    return folder


def watched(*, replay: bool = True) -> WatchedFiles:
    return WatchedFiles.of(complete_options(EffectiveOptions(), "replay" if replay else "reference"), replay=replay)


@pytest.mark.parametrize(
    ("files", "meant"),
    [
        (["llm/call-single.yaml"], ["llm/call-single.yaml"]),
        (["llm/new.yml"], ["llm/new.yml"]),
        (["cassettes/call-single/openai-chat.yaml"], ["llm/call-single.yaml"]),
        (["cassettes/system-plain/openai-chat.stream.yaml"], ["llm/system-plain.yaml"]),
        (["llm/call-single.yaml", "cassettes/system-plain/a.yaml"], ["llm/system-plain.yaml", "llm/call-single.yaml"]),
        (["cassettes/gone/openai-chat.yaml"], None),
        (["mine/words.py"], None),
        (["mine/new.py"], None),
        (["pyproject.toml"], None),
        (["llm/call-single.yaml", "mine/adapter.py"], None),
        (["README.md", "mine/notes.txt", "other.py"], []),
    ],
)
def test_a_change_means_what_is_sure_and_else_all(project: Path, files: list[str], meant: list[str] | None) -> None:
    found = watched()
    before = found.snapshot()
    for name in files:
        (project / name).parent.mkdir(exist_ok=True)
        with (project / name).open("a") as file:
            file.write("\n# saved\n")

    after = found.snapshot()

    assert found.affected_scenarios(before, after) == meant
    assert [str(each) for each in changed_files(before, after)] == (sorted(files) if meant != [] else [])


def test_a_scenario_that_is_gone_means_all(project: Path) -> None:
    found = watched()
    before = found.snapshot()
    (project / "llm" / "call-single.yaml").unlink()

    assert found.affected_scenarios(before, found.snapshot()) is None


def test_watched_files_are_counted(project: Path) -> None:
    assert project.is_dir()
    assert count_files(watched()) == {"scenario": 2, "cassette": 1, "other file": 4}
    assert count_files(watched(replay=False)) == {"scenario": 2, "cassette": 0, "other file": 4}


@pytest.mark.parametrize(
    ("adapters", "files"),
    [
        (["openai-chat"], set[str]()),
        (["$ node own/my.mjs --fast"], {"own/my.mjs", "own/beside.mjs"}),
        (["one:ADAPTER"], {"one.py", "two.py"}),
        (["drive@openai-chat one:drive"], {"one.py", "two.py"}),
        (["json:loads", "nowhere.at.all:ADAPTER", "$ 'unclosed"], set[str]()),
    ],
)
def test_the_code_of_an_adapter_is_watched(folder: Path, adapters: list[str], files: set[str]) -> None:
    (folder / "own").mkdir()
    for name in ("own/my.mjs", "own/beside.mjs", "own/other.txt", "one.py", "two.py"):
        (folder / name).touch()

    found = WatchedFiles.of(replace(EffectiveOptions(), adapters=adapters), replay=True)

    assert {str(each) for each in found.snapshot()} & {
        str(each.relative_to(folder)) for each in folder.rglob("*")
    } == files


def lines_until(running: subprocess.Popen[str], end: str) -> Iterator[str]:
    assert running.stdout is not None
    for line in running.stdout:
        yield line.rstrip("\n")
        if line.startswith(end):
            return
    raise AssertionError(f"it has ended before it said {end!r}")


def test_a_saved_file_is_run_again_until_ctrl_c(project: Path) -> None:
    code = (  # what a shell starts behind it ignores Ctrl-C
        "import signal, sys; from harness.cli.main import main\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler); sys.exit(main(sys.argv[1:]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, "run", "--watch", "--mode=reference", "-q"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        watching = "-- watching 2 scenarios, 4 other files; Ctrl-C ends"
        first = [*lines_until(running, watching)]
        (project / "mine" / "words.py").write_text('SAID = "not today"\n')
        broken = [*lines_until(running, watching)]
        (project / "llm" / "call-single.yaml").write_text("version: 1\n")
        wrong = [*lines_until(running, watching)]
        running.send_signal(signal.SIGINT)
        rest = running.communicate()[0]

    assert first[0].startswith("PASS  2 cells (whole): 2 pass")
    assert broken[0] == "-- mine/words.py changed: all scenarios are run again"
    assert "RuntimeError: not today" in " ".join(broken)
    assert wrong[0] == "-- llm/call-single.yaml changed: only llm/call-single.yaml"
    assert wrong[1].startswith("harness: llm/call-single.yaml:1:1 at ")
    assert (rest, running.returncode) == ("", 2)
