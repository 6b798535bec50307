"""What stands in the files of reports when a run does not come to its end: never what an earlier run has left."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from harness.cli.progress import Progress
from harness.results import RunResult
from tests.cli.conftest import Command

REPORTS = ("--report=json:out/run.json", "--report=junit:out/run.xml", "--report=markdown:out/run.md")


def test_what_cannot_begin_leaves_no_report_of_an_earlier_run(harness: Command, folder: Path) -> None:
    assert harness("run", "call-single", "--mode", "reference", "--target", "openai-chat", *REPORTS).code == 0
    assert json.loads((folder / "out" / "run.json").read_text())["finished"] is True

    failed = harness("run", "call-single", "--mode", "reference", "--adapter", "nowhere:ADAPTER", *REPORTS)

    why = "the adapter 'nowhere:ADAPTER' cannot be used: no module 'nowhere'."
    run = RunResult.from_json((folder / "out" / "run.json").read_text())
    assert (failed.code, failed.out) == (2, "")
    assert (run.finished, run.cells) == (False, ())
    assert (run.stopped or "").startswith(why)
    (error,) = ET.parse(folder / "out" / "run.xml").iter("error")  # noqa: S314 - harness wrote it
    assert str(error.get("message")).startswith(f"the run is not finished: {why}")
    assert (folder / "out" / "run.md").read_text().startswith("## harness: UNFINISHED\n")
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["run.json", "run.md", "run.xml"]


def test_a_run_that_we_break_leaves_the_cells_that_were_done(
    harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def once(self: Progress, result: object) -> None:
        raise MemoryError("no more")

    monkeypatch.setattr(Progress, "__call__", once)

    with pytest.raises(MemoryError):
        harness("run", "call-single", "--mode", "reference", "--target", "openai-chat", *REPORTS)

    run = RunResult.from_json((folder / "out" / "run.json").read_text())
    assert [(cell.scenario, cell.variant) for cell in run.cells] == [("call-single", "whole")]
    assert (run.stopped, run.exit_code) == ("harness broke: MemoryError: no more", 2)


def test_a_report_may_be_a_link_and_keeps_the_rights_of_its_file(harness: Command, folder: Path) -> None:
    real, link = folder / "real.json", folder / "link.json"
    real.write_text("{}")
    real.chmod(0o640)
    link.symlink_to(real)

    done = harness("run", "call-single", "--mode", "reference", "--target", "openai-chat", "--report=json:link.json")

    assert done.code == 0
    assert link.is_symlink()
    assert json.loads(real.read_text())["finished"] is True
    assert real.stat().st_mode & 0o777 == 0o640


def test_what_is_no_file_is_written_at_the_end_alone(harness: Command) -> None:
    run = ("run", "call-single", "--mode", "reference", "--target", "openai-chat")
    assert harness(*run, "--report=json:/dev/null").code == 0
