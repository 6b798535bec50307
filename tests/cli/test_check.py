"""`harness check`, through the public command: what is run, the scorecard, what capabilities come to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.checks.adapter_check import SAMPLE
from harness.cli.main import main
from harness.model.protocols import Capability
from harness.platform.files import shipped_folder
from harness.results import CheckResult, RunResult, Verdict
from harness.scenarios.load import load_paths
from tests.cli.conftest import without_workers

UNTRUE = """
from dataclasses import replace

from harness import Capability
from tests.examples.swapped_results import ADAPTER as SWAPPED

CAN = (SWAPPED.capabilities | {Capability.VISION}) - {Capability.HISTORY}
ADAPTER = replace(SWAPPED, name="untrue", capabilities=CAN)
"""
"""It takes results for one another, says that it sees pictures, which it drops, and does not say that it takes turns.
"""


@dataclass(frozen=True)
class Scorecard:
    code: int
    text: str
    run: RunResult
    markdown: str

    @property
    def said(self) -> CheckResult:
        assert self.run.check is not None
        return self.run.check

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


@pytest.fixture(scope="module")
def scorecard(tmp_path_factory: pytest.TempPathFactory) -> Scorecard:
    folder = tmp_path_factory.mktemp("check")
    (folder / "untrue.py").write_text(UNTRUE)
    reports = [f"--report={name}:{folder / name}" for name in ("terminal", "json", "markdown")]
    with pytest.MonkeyPatch.context() as patch:
        without_workers(patch)
        patch.syspath_prepend(str(folder))
        code = main(["check", "untrue:ADAPTER", "-n", "2", *reports])
    run = RunResult.from_json((folder / "json").read_text())
    return Scorecard(code, (folder / "terminal").read_text(), run, (folder / "markdown").read_text())


def test_the_sample_covers_every_subject_and_capability() -> None:
    suite = load_paths([shipped_folder("scenarios")])
    sample = [scenario for scenario in suite if scenario.id in SAMPLE]

    assert {scenario.id for scenario in sample} == SAMPLE
    subjects = {scenario.covers[0] for scenario in suite}
    assert {scenario.covers[0] for scenario in sample} == subjects
    asked = {capability for scenario in sample for capability in scenario.requires}
    of_loops = {Capability.ANSWERS, Capability.TEMPERATURE}
    assert asked == set(Capability) - {Capability.STREAMING, Capability.RETRIES} - of_loops


def test_causes_are_ranked_and_the_worst_shows_its_request(scorecard: Scorecard) -> None:
    assert scorecard.code == 1
    assert re.match(r"FAIL  \d+ cells", scorecard.text)
    assert re.search(r"^feature +whole +streamed", scorecard.text, re.MULTILINE)
    assert "2 causes, the worst first" in scorecard.words
    assert scorecard.text.index("\n  1   ") < scorecard.text.index("result-swapped;") < scorecard.text.index("\n  2   ")
    assert scorecard.text.count("\nCause ") == 1
    assert '"tool_call_id": "call_' in scorecard.text  # the request
    assert "--adapter untrue:ADAPTER" in scorecard.words.partition("Run again harness run --mode reference")[2]


def test_a_capability_that_works_though_undeclared_is_named(scorecard: Scorecard) -> None:
    (history,) = [tried for tried in scorecard.said.undeclared if tried.capability == "history"]

    assert (history.target, history.worked, history.played) == ("untrue", 2, 2)
    assert "Works, but is not declared history (untrue): 2 of 2 cells passed. Declare it" in scorecard.words
    assert "- history (untrue): 2 of 2 cells passed" in scorecard.markdown


def test_what_does_not_work_is_not_advised(scorecard: Scorecard) -> None:
    """It drops every setting that it does not know, so none of these is found to work."""
    named = {tried.capability for tried in scorecard.said.undeclared}

    assert not named & {"json-mode", "json-schema", "thinking", "tool-choice", "streaming", "image-results"}


def test_a_declared_capability_that_fails_is_named(scorecard: Scorecard) -> None:
    assert [tried.capability for tried in scorecard.said.broken] == ["vision"]
    assert "Declared, but does not work vision (untrue): none of 1 cell passed." in scorecard.words


def test_omitted_parts_are_listed_with_their_options(scorecard: Scorecard) -> None:
    scenarios, streams = scorecard.said.not_played

    said = re.fullmatch(r"(\d+) of (\d+) scenarios, since this was a sample\. --all adds them: (.+)\.", scenarios)
    assert said is not None, scenarios
    left_out, total, added = said.groups()
    ids = {cell.scenario for cell in scorecard.run.cells}
    assert (int(left_out), int(total)) == (int(total) - len(ids), len(load_paths([shipped_folder("scenarios")])))
    assert sum(int(each.split()[1]) for each in added.split(", ")) == int(left_out)
    assert streams == "streamed answers: the adapter does not declare 'streaming'."
    assert {cell.scenario for cell in scorecard.run.cells} <= SAMPLE


def test_the_cells_of_what_was_only_tried_are_not_in_the_run(scorecard: Scorecard) -> None:
    without = [cell for cell in scorecard.run.cells if cell.scenario == "history-two-turns"]

    assert [cell.verdict for cell in without] == [Verdict.NOT_APPLICABLE]


OLDER = """
from dataclasses import replace

from harness.adapters.openai_chat import ADAPTER as SHIPPED
from tests.broken.fault import sends

ADAPTER = replace(
    sends(lambda _, body: {key: value for key, value in body.items() if key != "reasoning_effort"})(SHIPPED),
    name="an older one",
)
"""
"""An adapter for models that take tools without a word about reasoning, which the default model refuses."""


@pytest.mark.parametrize(
    ("model", "code", "note"),
    [
        (None, 1, "Run with gpt-5.4: "),
        ("gpt-5.4", 0, ""),
        ("gpt-6-sol", 1, ""),
    ],
)
@pytest.mark.usefixtures("in_process")
def test_a_default_model_that_hides_the_rest_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str | None, code: int, note: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("older.py").write_text(OLDER)
    named = [f"--model=an older one={model}"] if model else []

    assert main(["check", "older:ADAPTER", "-n1", "--variant=whole", "--report=json:run.json", *named]) == code

    run = RunResult.from_json(Path("run.json").read_text())
    assert run.check is not None
    assert run.check.model_note[: len(note)] == note
    assert bool(run.check.model_note) == bool(note)
    failed = [cell for cell in run.cells if cell.verdict is Verdict.FAIL]
    assert bool(failed) == (model == "gpt-6-sol")
    assert run.summary[Verdict.PASS] > 5
