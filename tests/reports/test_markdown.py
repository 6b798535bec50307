from __future__ import annotations

import re
from dataclasses import replace

import pytest

from harness.reports.markdown_report import render
from harness.results import ExpectedFailure, Presentation, RunResult, Verdict
from tests.reports.runs import TARGETS, both, cell, failed, finding, red, with_many_skipped


def table(text: str, head: str) -> list[list[str]]:
    """The rows of the table whose first head is this."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {head} |"))
    rows: list[list[str]] = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([part.strip() for part in line.strip("|").split(" | ")])
    return rows


def test_the_verbose_matrix_has_a_row_for_each_scenario() -> None:
    run = RunResult("replay", (*both("alike"), cell("unlike"), failed("unlike", variant="stream")))

    assert table(render(run, Presentation(verbose=True)), "scenario")[2:] == [
        ["alike", "✅"],
        ["unlike", "whole ✅ stream ❌"],
    ]
    assert table(render(run, Presentation()), "feature")[2:] == [["tools", "3 ✅ 1 ❌"]]


def test_the_same_findings_in_both_variants_are_there_once() -> None:
    one, other = both("alike", verdict=Verdict.FAIL, findings=(finding(),))
    differing = (cell("unlike"), failed("unlike", variant="stream"))
    stale = (ExpectedFailure("call-*", "anthropic", "usage", "old", "stream"),)

    shown = render(RunResult("replay", (one, other, *differing), stale=stale), Presentation())

    assert "sent as that of another (result-swapped; 3 cells, which fail only for this)</summary>" in shown
    assert re.findall(r"^\*\*[^W].*", shown, re.MULTILINE) == [
        "**alike \\[whole and stream\\]**, anthropic",
        "**unlike \\[stream\\]**, anthropic",
    ]
    assert (
        "```sh\nharness show --variant whole alike --target anthropic\nharness run alike --target anthropic\n```"
        in shown
    )
    assert "| call-\\* | stream | anthropic | usage | old |" in shown


def test_texts_of_a_model_are_no_markup() -> None:
    hostile = "a | b <script>x</script> `code` **bold** [link](http://x)\nnew line \x1b[31m"
    run = RunResult(
        "replay", (failed("a", "anthropic", finding(hostile, message=hostile, actual=hostile + "``", source=hostile)),)
    )

    shown = render(replace(run, left_out={"x": hostile}), Presentation())

    outside_code = "".join(part for number, part in enumerate(shown.split("```")) if number % 2 == 0)
    assert "<script>" not in outside_code
    assert "\x1b" not in shown
    assert "\\*\\*bold\\*\\*" in shown
    assert "\nnew line" not in shown


def test_a_large_red_run_fits_into_a_job_summary() -> None:
    finding_ = finding(actual="x" * 10_000)
    cells = [failed(f"scenario-{number}", target, *[finding_] * 9) for number in range(100) for target in TARGETS]

    assert len(render(RunResult("replay", tuple(cells)), Presentation()).encode()) < 100_000


def test_not_applicable_cells_are_counted_by_capability() -> None:
    heads = ["target", "cells", "reason"]
    vision = ["anthropic, gemini-3", "image-from-user", "the adapter does not have: vision"]

    assert table(render(with_many_skipped(), Presentation()), "target") == [
        heads,
        ["---"] * 3,
        ["openai-chat", "9 cells", "the adapter does not have: tools (9), history (2)"],
        vision,
    ]
    assert table(render(with_many_skipped(), Presentation(verbose=True)), "target") == [
        heads,
        ["---"] * 3,
        ["openai-chat", ", ".join(f"call-{n}" for n in range(7)), "the adapter does not have: tools"],
        ["openai-chat", "history-a, history-b", "the adapter does not have: history, tools"],
        vision,
    ]


@pytest.mark.parametrize("most", [500, 1_500, 3_000])
def test_a_bounded_report_leaves_out_whole_parts(most: int) -> None:
    whole = render(red(), Presentation(verbose=True))

    text = render(red(), Presentation(verbose=True, max_bytes=most))

    assert len(text.encode()) <= most < len(whole.encode())
    assert text.startswith("## harness: FAIL")
    assert text.count("<details>") == text.count("</details>")
    assert "of this report did not fit here. Write the report to a file to see all of it." in text
    assert render(red(), Presentation(verbose=True, max_bytes=len(whole.encode()))) == whole
