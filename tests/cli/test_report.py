"""`harness report`: any report of a run that was kept; and what of a run's conversations is kept where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from tests.cli.conftest import Command

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
    assert main([*RUN, *reports, "--report=junit:/dev/null"]) == 1
    return folder


def cells(file: Path) -> list[dict[str, Any]]:
    return json.loads(file.read_text())["cells"]


def test_only_an_archive_has_conversations(kept: Path) -> None:
    assert all("conversation" not in cell for cell in cells(kept / "json"))
    assert all(cell["conversation"]["exchanges"] for cell in cells(kept / "archive"))

    (told,) = (
        cell["conversation"]
        for cell in cells(kept / "archive")
        if (cell["target"], cell["variant"]) == ("gemini-3", "whole")
    )
    assert [(each["by"], each["what"]) for each in told["said"]] == [
        ("user", "text"),
        ("assistant", "call"),
        ("assistant", "call"),
        ("tool", "result"),
        ("tool", "result"),
        ("assistant", "text"),
    ]
    first, second = told["exchanges"]
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


def test_the_page_of_a_json_report_has_all_but_the_conversations(harness: Command, folder: Path, kept: Path) -> None:
    assert harness("report", str(kept / "json"), "--report", "html:page.html").code == 1

    page, whole = (folder / "page.html").read_text(), (kept / "html").read_text()
    assert "harness explain" in page
    assert "The conversations of cells are not in this run" in page
    assert "The conversations of cells are not in this run" not in whole
    assert len(page) < len(whole)


def test_two_runs_are_compared(harness: Command, folder: Path, kept: Path) -> None:
    before = json.loads((kept / "json").read_text())
    before["cells"] = [cell for cell in before["cells"] if cell["verdict"] == "pass"]
    (folder / "old.json").write_text(json.dumps(before))

    outcome = harness("report", str(kept / "json"), "--against", "old.json", "--report=html:page.html", "--report=json")

    assert outcome.code == 1
    assert json.loads(outcome.out)["summary"]["fail"] == 1
    page = (folder / "page.html").read_text()
    assert "Changed: 1 cell, 1 cause" in page
    assert "result-swapped (error, blame: adapter): openai-chat" in page


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


def test_a_badge_and_a_table_of_an_old_run_are_expired(harness: Command, folder: Path) -> None:
    (folder / "run.json").write_text('{"mode": "replay", "cells": [], "timing": {"at": "2020-01-01T00:00:00+00:00"}}')

    harness("report", "run.json", "--report=badge:badge.json", "--report=badge:badge.svg", "--report=table:table.md")

    assert json.loads((folder / "badge.json").read_text())["message"] == "expired 2020-03-31"
    assert ">expired 2020-03-31</text>" in (folder / "badge.svg").read_text()
    assert (folder / "table.md").read_text().startswith("**Expired on 2020-03-31: ")


def test_a_device_takes_the_first_form_of_a_report(harness: Command, folder: Path) -> None:
    (folder / "run.json").write_text('{"mode": "replay", "cells": []}')

    outcome = harness("report", "run.json", "--report=badge:/dev/null", "--report=table:/dev/null")

    assert (outcome.code, outcome.err) == (2, "")  # as the run, in which nothing was played
