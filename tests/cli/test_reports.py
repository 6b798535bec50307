"""Reports of runs: kept, made again, compared, and what their files hold when a run does not end."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from harness.cli.main import main
from harness.cli.progress import Progress
from harness.results import RunResult
from tests.cli.conftest import Command, without_workers

RUN = (
    *("run", "--mode", "reference", "call-parallel-same-tool"),
    *("--adapter", "tests.examples.swapped_results:ADAPTER", "--adapter", "gemini", "--target", "gemini-3"),
    *("--target", "openai-chat"),
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A red run: as json, as an archive, and as a page that was made beside it."""
    folder = tmp_path_factory.mktemp("kept")
    reports = [f"--report={name}:{folder / name}" for name in ("json", "archive", "html", "terminal")]
    with pytest.MonkeyPatch.context() as patch:
        without_workers(patch)
        assert main([*RUN, *reports, "--report=junit:/dev/null"]) == 1
    return folder


def cells(file: Path) -> list[dict[str, Any]]:
    return json.loads(file.read_text())["cells"]


def test_only_an_archive_has_conversations(kept: Path) -> None:
    assert all("conversation" not in cell for cell in cells(kept / "json"))
    assert all(cell["conversation"]["exchanges"] for cell in cells(kept / "archive"))

    (reported,) = (
        cell["conversation"]
        for cell in cells(kept / "archive")
        if (cell["target"], cell["variant"]) == ("gemini-3", "whole")
    )
    assert [(each["by"], each["what"]) for each in reported["said"]] == [
        ("user", "text"),
        ("assistant", "call"),
        ("assistant", "call"),
        ("tool", "result"),
        ("tool", "result"),
        ("assistant", "text"),
    ]
    first, second = reported["exchanges"]
    assert first["request"].startswith("POST http")
    assert "functionCall" in first["received"]
    assert json.loads(second["sent"])["contents"][:1] == json.loads(first["sent"])["contents"]
    assert (second["status"], second["chat"], second["streamed"]) == (200, 1, False)


def test_a_saved_run_has_the_reports_of_the_original(harness: Command, folder: Path, kept: Path) -> None:
    names = ("archive", "html", "json", "terminal")
    outcome = harness("report", str(kept / "archive"), *(f"--report={name}:{name}" for name in names))

    assert (outcome.code, outcome.err) == (1, "")  # as the run
    for name in names:
        assert (folder / name).read_text() == (kept / name).read_text()
    assert outcome.out == (kept / "terminal").read_text()


def test_a_run_that_was_not_finished_stays_so(harness: Command, folder: Path) -> None:
    (folder / "run.json").write_text('{"mode": "replay", "cells": [], "stopped": "interrupted"}')

    outcome = harness("report", "run.json")

    assert outcome.code == 2
    assert outcome.out.startswith("UNFINISHED  interrupted; 0 cells done: nothing")


def test_the_page_of_an_audit_has_the_exchanges_of_the_files(harness: Command, folder: Path, cassettes: Path) -> None:
    (folder / "theirs.yaml").write_bytes((cassettes / "call-single" / "anthropic.yaml").read_bytes())

    reports = ("--report=html:page.html", "--report=archive:run.json", "--report=json:small.json")
    outcome = harness("audit", "theirs.yaml", *reports)

    page = (folder / "page.html").read_text()
    assert "requests break a limit" in page
    assert 'href="#cell/theirs.yaml/anthropic/whole"' in page
    (cell,) = cells(folder / "run.json")
    assert [each["index"] for each in cell["conversation"]["exchanges"]] == list(range(cell["exchanges"]))
    assert cell["conversation"]["said"] == []
    assert "conversation" not in cells(folder / "small.json")[0]
    assert outcome.code == 0


REPORTS = ("--report=json:out/run.json", "--report=junit:out/run.xml", "--report=markdown:out/run.md")


@pytest.mark.usefixtures("in_process")
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


GOLDEN = Path(__file__).parent / "golden"

PLANTED = """\
from harness.stdio import adapter_specs
from tests.broken.faults import FAULTS

ADAPTER = next(each for _, each in FAULTS if each.name == "results-swapped").wrap(adapter_specs.adapter("openai-chat"))
"""
COMPARED = ("run", "--mode=reference", "--target=openai-chat", "--report=terminal:/dev/null", "call-single")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs before and after somebody broke the adapter; the later one has another scenario, and lacks one."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        without_workers(patch)
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        Path("planted.py").write_text(PLANTED, encoding="utf-8")
        before = (*COMPARED, "call-parallel-same-tool", "json-mode", "--report=json:before.json")
        after = (*COMPARED, "call-parallel-same-tool", "call-parallel-many", "--adapter=planted:ADAPTER")
        assert main(before) == 0
        assert main((*after, "--report=json:after.json")) == 1
    return folder


def timeless(text: str) -> str:
    """Without what changes with the day: times, and prices."""
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", "2026-11-23T08:00:00+00:00", text)
    return re.sub(r"\$0\.\d{4}", "$0.0000", text)


@pytest.mark.parametrize(("report", "name"), [("terminal", "compare.txt"), ("markdown", "compare.md")])
def test_worse_results_are_reported_as_stored(harness: Command, runs: Path, report: str, name: str) -> None:
    outcome = harness("compare", str(runs / "before.json"), str(runs / "after.json"), "--report", report)

    assert (outcome.code, outcome.err) == (1, "")
    assert timeless(outcome.out) == (GOLDEN / name).read_text(encoding="utf-8")


def test_better_and_unchanged_results_are_reported(harness: Command, runs: Path) -> None:
    better = harness("compare", str(runs / "after.json"), str(runs / "before.json"))
    same = harness("compare", str(runs / "after.json"), str(runs / "after.json"))

    assert (better.code, better.out.splitlines()[0]) == (
        0,
        "NOT WORSE  Changed: 6 cells, 1 cause, 2 differences, 1 cost. No cell is worse.",
    )
    assert (same.code, same.out.splitlines()[0]) == (0, "SAME  Nothing changed except times and versions.")


def test_programs_get_the_changes_as_json(harness: Command, runs: Path, folder: Path) -> None:
    files = (str(runs / "before.json"), str(runs / "after.json"))
    outcome = harness("compare", *files, "--report=json", "--report=markdown:comment.md")

    made = json.loads(outcome.out)
    assert outcome.code == 1
    assert made["worse"] is True
    assert {"what", "before", "now", "worse", "better", "key"} == set(made["cells"][0])
    assert [each["now"] for each in made["causes"]] == ["4 cells, which fail only for this"]
    assert made["conditions"] == [
        "Only in the earlier run: 1 scenario: json-mode.",
        "Only in the later run: 1 scenario: call-parallel-many.",
    ]
    assert (folder / "comment.md").read_text().startswith("## harness: worse\n")
