"""What owns its tool loop, by the public command: what is right passes, be it unusual, and what is wrong is found."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.results import CellResult, RunResult, Verdict
from harness.runner import served_session
from tests.cli.conftest import without_workers
from tests.driving.ways import AT_ONCE, CUT, NOTED, OTHERS, RIGHT, SCENARIO, WRONG
from tests.once import once

AGENTS = {
    "agent-exits": "the conversation broke off: the program ended with exit status 1",
    "agent-talks": "the conversation broke off: the program wrote a line that is not a message. A message is "
    '{"id": …, "call": NAME, "arguments": {…}} or {"unsupported": WHAT}: \'Thinking about '
    "it.'. Write other output to standard error",
    "agent-calls-another": "the conversation broke off: the program called the tool 'get_time', and the conversation "
    "has none of this name",
    "agent-garbles": 'the conversation broke off: the program called a tool by {"id": 1, "call": "get_weather", '
    '"arguments_json": "{\'city\'"}, which must be {"id": …, "call": NAME, "arguments": {…}} or {"unsupported": '
    "WHAT}",
}
DECLINING = {
    "declines": "it declines before anything is sent: ways: everything is not supported: it is not in the mood",
    "declines-later": "it declines after 2 answers, before anything more is sent: ways: a second turn is not "
    "supported: it keeps no history",
}
PROGRAM = shlex.join([sys.executable, str(Path(__file__).parent / "agent.py")])
LOOPS = "tests.driving.ways"

Cells = dict[str, CellResult]


def written(folder: Path, ways: Iterable[str]) -> list[str]:
    files = [folder / f"{way}.yaml" for way in ways]
    for file in files:
        text = OTHERS.get(file.stem, CUT if file.stem.startswith("cut-") else SCENARIO)
        file.write_text(text.format(way=file.stem), encoding="utf-8")
    return [str(file) for file in files]


def run_ways(folder: Path, ways: Iterable[str], *words: str, patience: float = 0.01) -> tuple[int, str, Cells]:
    """Run the ways. Calls that are run at once need `patience`: on a busy machine their results come late."""
    folder.mkdir(exist_ok=True)
    reports = [f"--report=json:{folder / 'run.json'}", f"--report=terminal:{folder / 'run.txt'}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(served_session, "_ARRIVAL_SECONDS", patience)
        patch.setattr(served_session, "_HANDOVER_SECONDS", patience)
        code = main(["run", "--mode=reference", *written(folder, ways), *words, *reports])
    run = RunResult.from_json((folder / "run.json").read_text(encoding="utf-8"))
    text = " ".join((folder / "run.txt").read_text(encoding="utf-8").split())
    return code, text, {cell.scenario: cell for cell in run.cells}


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    """The cells of all ways, by one loop: which it is, each has its own user message."""

    def make(folder: Path) -> Cells:
        loop = (f"--conversation={LOOPS}:drive", "--api=openai-chat")
        ways = [
            each
            for each in (*RIGHT, *WRONG, *NOTED, *DECLINING, "not-run-id-lost", "id-lost-then-system")
            if each not in AT_ONCE
        ]
        code, _, cells = run_ways(folder, ways, *loop)
        at_once, _, others = run_ways(folder / "at-once", AT_ONCE, *loop, patience=0.5)
        assert (code, at_once) == (1, 1)
        return cells | others

    return once(tmp_path_factory, "loops", make)


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    without_workers(monkeypatch)


def said(cell: CellResult) -> Sequence[str]:
    return [f"{finding.rule}: {finding.message}" for finding in cell.findings]


@pytest.mark.parametrize("way", RIGHT)
def test_what_is_right_passes_be_it_unusual(results: Cells, way: str) -> None:
    assert (results[way].verdict, said(results[way])) == (Verdict.PASS, [])


@pytest.mark.parametrize("way", WRONG)
def test_what_is_wrong_is_found_by_what_it_is(results: Cells, way: str) -> None:
    causes = [finding.rule for finding in results[way].findings if finding.follows is None]

    assert results[way].verdict is Verdict.FAIL
    assert causes[:1] == [WRONG[way]], said(results[way])
    also = {"loop-history"} if way == "trims-in-a-turn" else set[str]()
    assert {*causes} <= {WRONG[way], "openai-chat-tools-empty", "prefix-changed", *also}, said(results[way])


def test_a_refused_request_does_not_hide_the_defects_of_a_later_one(results: Cells) -> None:
    found = {(finding.rule, finding.exchange) for finding in results["id-lost-then-system"].findings}

    assert {("result-orphan", 1), ("loop-system", 2)} <= found, said(results["id-lost-then-system"])


def test_a_tool_that_was_not_run_is_found_although_the_results_are_refused(results: Cells) -> None:
    causes = {finding.rule for finding in results["not-run-id-lost"].findings if finding.follows is None}

    assert causes == {"result-orphan", "tool-run-missing"}


@pytest.mark.parametrize("way", NOTED)
def test_what_costs_more_is_noted(results: Cells, way: str) -> None:
    assert results[way].verdict in (Verdict.NOTE, Verdict.WARN)
    assert {finding.rule for finding in results[way].findings} == NOTED[way], said(results[way])


def test_what_ends_the_loop_is_shown_with_what_it_said(results: Cells) -> None:
    raises, exits = results["raises"], results["exits"]

    assert re.fullmatch(
        r"the conversation broke off: it raises LookupError: no model of this name \(.*ways\.py, line \d+\)",
        raises.findings[0].message,
    )
    assert re.fullmatch(
        r"the conversation broke off: the library httpx2 raises InvalidURL: .* "
        r"\(httpx2/_\w+\.py, line \d+, called in .*ways\.py, line \d+\)",
        results["library-raises"].findings[0].message,
    )
    assert raises.traceback is not None
    assert raises.traceback.endswith("LookupError: no model of this name\n")
    assert exits.findings[0].message == "the conversation broke off: the adapter ended the process with exit code 3"
    assert exits.printed == "a last word\n"


@pytest.mark.parametrize("way", DECLINING)
def test_declining_before_a_turn_is_not_applicable(results: Cells, way: str) -> None:
    assert (results[way].verdict, results[way].reason) == (Verdict.NOT_APPLICABLE, DECLINING[way])


def test_one_that_hangs_is_ended_and_the_line_is_shown(tmp_path: Path) -> None:
    code, _, cells = run_ways(
        tmp_path, ["hangs"], f"--conversation={LOOPS}:LOOP", "--variant=whole", "--cell-timeout=1"
    )

    assert code == 1
    (finding, unplayed) = sorted(cells["hangs"].findings, key=lambda each: each.rule)
    assert re.fullmatch(
        r"the conversation broke off: the loop took longer than 1 seconds \(.*ways\.py, line \d+\); --cell-timeout "
        r"sets the limit \(under pytest, harness_cell_timeout\)",
        finding.message,
    )
    assert (unplayed.rule, cells["hangs"].findings[unplayed.follows or 0].rule) == ("script-unplayed", "loop-failed")


@pytest.mark.usefixtures("in_process")
def test_a_loop_says_by_which_call_its_turns_end(tmp_path: Path) -> None:
    code, _, cells = run_ways(tmp_path / "said", ["finishes", "ends-with-call"], f"--conversation={LOOPS}:FINISHING")
    assert (code, {each.verdict for each in cells.values()}) == (0, {Verdict.PASS})

    code, text, _ = run_ways(tmp_path / "unsaid", ["finishes"], f"--conversation={LOOPS}:LOOP", "--variant=whole")
    assert code == 1
    assert "LookupError: the model has to call a tool" in text


@pytest.mark.usefixtures("in_process")
def test_the_commands_that_are_shown_ask_for_the_loop_again(tmp_path: Path) -> None:
    _, text, _ = run_ways(tmp_path, ["run-twice"], f"--conversation={LOOPS}:drive", "--target=openai-chat")

    again = f"run-twice.yaml --conversation {LOOPS}:drive --target openai-chat"
    assert re.search(rf"Look harness show --mode reference \S*{again}", text.replace("--variant whole ", ""))
    assert re.search(rf"Run again harness run --mode reference \S*{again}", text.replace("--variant whole ", ""))


@pytest.mark.usefixtures("in_process")
def test_what_was_run_is_shown_beside_the_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file,) = written(tmp_path, ["run-twice"])

    assert main(["show", file, "--mode=reference", f"--conversation={LOOPS}:drive", "--api=openai-chat"]) == 1

    assert capsys.readouterr().out.count('runs get_weather({"city": "Paris"})') == 2


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    def make(folder: Path) -> Cells:
        ways = ["right", "own-tool", "at-once", "agent-zips", "agent-endless", *AGENTS, "agent-declines"]
        words = ("arguments-large-integers", f"--agent-command={PROGRAM}", "--api=openai-chat")
        return run_ways(folder, ways, *words, patience=0.5)[2]

    return once(tmp_path_factory, "agents", make)


@pytest.mark.parametrize("way", ["right", "own-tool", "at-once", "arguments-large-integers"])
def test_a_right_program_passes(programs: Cells, way: str) -> None:
    assert (programs[way].verdict, programs[way].target, said(programs[way])) == (Verdict.PASS, "agent.py", [])


def test_program_that_pairs_results_by_order_is_found(programs: Cells) -> None:
    assert {each.rule for each in programs["agent-zips"].findings} == {"result-swapped"}


def test_a_program_that_runs_tools_without_end_is_stopped(programs: Cells) -> None:
    broken = [each.message for each in programs["agent-endless"].findings if each.rule == "loop-failed"]

    assert broken == [
        "the conversation broke off: the loop was stopped: it ran more than 1000 tools in one conversation"
    ]


@pytest.mark.parametrize("way", AGENTS)
def test_faulty_program_fails_its_cell_with_its_output(programs: Cells, way: str) -> None:
    cell = programs[way]

    assert cell.verdict is Verdict.FAIL
    assert [each.message for each in cell.findings if each.follows is None] == [AGENTS[way]]
    assert (cell.printed or "").endswith("no such model\n") is (way == "agent-exits")


def test_a_program_can_decline(programs: Cells) -> None:
    cell = programs["agent-declines"]

    assert cell.verdict is Verdict.NOT_APPLICABLE
    assert cell.reason is not None
    assert cell.reason.endswith("tools is not supported: the program says so")
