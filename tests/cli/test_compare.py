"""`harness compare` of two real runs: the shipped adapter, and one with a planted fault in its place."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from harness.cli.main import main
from tests.cli.conftest import Command

GOLDEN = Path(__file__).parent / "golden"

PLANTED = """\
from harness.stdio import adapter_specs
from tests.broken.faults import FAULTS

ADAPTER = next(each for _, each in FAULTS if each.name == "results-swapped").wrap(adapter_specs.adapter("openai-chat"))
"""
RUN = ("run", "--mode=reference", "--target=openai-chat", "--report=terminal:/dev/null", "call-single")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs before and after somebody broke the adapter; the later one has another scenario, and lacks one."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        Path("planted.py").write_text(PLANTED, encoding="utf-8")
        before = (*RUN, "call-parallel-same-tool", "json-mode", "--report=json:before.json")
        after = (*RUN, "call-parallel-same-tool", "call-parallel-many", "--adapter=planted:ADAPTER")
        assert main(before) == 0
        assert main((*after, "--report=json:after.json")) == 1
    return folder


def timeless(text: str) -> str:
    """Without what changes with the day: times, and prices."""
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", "2026-11-23T08:00:00+00:00", text)
    return re.sub(r"\$0\.\d{4}", "$0.0000", text)


@pytest.mark.parametrize(("report", "name"), [("terminal", "compare.txt"), ("markdown", "compare.md")])
def test_what_got_worse_is_told_as_it_is_kept(harness: Command, runs: Path, report: str, name: str) -> None:
    outcome = harness("compare", str(runs / "before.json"), str(runs / "after.json"), "--report", report)

    assert (outcome.code, outcome.err) == (1, "")
    assert timeless(outcome.out) == (GOLDEN / name).read_text(encoding="utf-8")


def test_what_got_better_and_what_is_the_same_is_told(harness: Command, runs: Path) -> None:
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
