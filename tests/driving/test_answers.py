"""What a loop returns to its application, by the public command."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.main import main
from harness.results import CellResult, RunResult, Verdict
from tests.once import once

WHOLE = "model: [{text: The harbour opens at six.}]"
ANSWERS = {
    "plain": WHOLE,
    "thoughts": WHOLE,
    "max": "model: [{text: The first lighthouse stood on a rock that the sea, stop: max_tokens}]",
    "refusal": "model: [{refusal: I cannot help with that.}]",
    "400": f"{WHOLE}\n    expect: {{error: invalid-request}}\nfaults: [{{status: 400}}]",
    "503": f"{WHOLE}\n    expect: {{error: overloaded}}\nfaults: [{{status: 503}}]",
    "html": f"{WHOLE}\n    expect: {{error: malformed-response}}\nfaults: [{{body: html}}]",
    "streamed": f"{WHOLE}\n    expect: {{error: {{name: [overloaded, server-error]}}}}\n"
    "faults: [{stream_error: 529, at: end}]",
}
RIGHT = (
    *("plain-right", "plain-framed", "plain-unknown", "max-right", "max-raises", "max-reported", "max-replaced"),
    *("refusal-right", "refusal-named", "refusal-raises", "400-raises", "400-returned", "400-named", "html-raises"),
    *(
        "503-raises",
        "503-again",
        "503-other-settings",
        "503-noted",
        "streamed-raises",
        "streamed-noted",
        "streamed-event",
    ),
)
WRONG = {
    "plain-loses": "loop-answer: the model's final text is not in the answer that the loop returns",
    "plain-uncounted": "loop-usage: input_tokens is neither that of the last answer nor a sum",
    "max-complete": "loop-stop-reason: the model's answer ended with 'length', and the loop returns it as complete "
    "('end_turn')",
    "max-shortened": "loop-answer: the model's final text is not in the answer that the loop returns",
    "max-emptied": "loop-answer: the model's final text is not in the answer that the loop returns",
    "refusal-empty": "loop-answer: the model refuses, and the loop returns an empty answer",
    "400-empty": "loop-error: the provider answered with status 400, but the loop returned an empty answer as if it "
    "were complete",
    "503-doubled": "loop-retry-changed: after status 503, the request is sent again with the user's message twice",
    "503-joined": "loop-retry-changed: after status 503, the request is sent again with the user's message twice",
    "503-lost": "loop-retry-changed: after status 503, the request is sent again without the user's last message",
    "html-empty": "loop-error: the answer cannot be read, but the loop returned an empty answer as if it were complete",
    "streamed-hides": "loop-error: the stream ended with an error, but the loop returned the text before it as if it "
    "were complete",
    "plain-returns-number": "loop-failed: the conversation broke off: it raises TypeError: drive returned a int, not a "
    "list of ChatResponse",
    "plain-returns-text": "loop-failed: the conversation broke off: it raises TypeError: drive returned a str, not a "
    "ChatResponse",
}

Cells = dict[str, CellResult]


def scenario(way: str) -> str:
    kind = way.partition("-")[0]
    model, _, faults = ANSWERS[kind].partition("\nfaults: ")
    return f"""version: 1
id: {way}
title: What the application gets
covers: [responses]
scripted: true
settings: {{max_tokens: 64}}
requires: [{"truncation" if kind == "max" else ""}]
faults: {faults or []}
variants: [{"stream" if kind == "streamed" else "whole"}]
turns:
  - user: "{way}: When does it open?"
    {model}
"""


def run_ways(folder: Path, ways: list[str], loop: str, api: str = "openai-chat", *options: str) -> Cells:
    files = [folder / f"{way}.yaml" for way in ways]
    for file in files:
        file.write_text(scenario(file.stem), encoding="utf-8")
    words = [f"--conversation=tests.driving.answering:{loop}", f"--api={api}", f"--report=json:{folder / 'run'}"]
    main(["run", "--mode=reference", *map(str, files), *words, *options])
    run = RunResult.from_json((folder / "run").read_text(encoding="utf-8"))
    return {cell.scenario: cell for cell in run.cells}


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    return once(tmp_path_factory, "answers", lambda folder: run_ways(folder, [*RIGHT, *WRONG, "400-again"], "LOOP"))


@pytest.mark.parametrize("way", RIGHT)
def test_an_application_may_get_its_answer_in_any_way(results: Cells, way: str) -> None:
    assert (results[way].verdict, [each.message for each in results[way].findings]) == (Verdict.PASS, [])


@pytest.mark.parametrize("way", WRONG)
def test_what_the_application_does_not_get_is_found(results: Cells, way: str) -> None:
    causes = [each for each in results[way].findings if each.follows is None]

    assert results[way].verdict is Verdict.FAIL
    assert f"{causes[0].rule}: {causes[0].message}".startswith(WRONG[way])


def test_kinds_of_hidden_errors_are_separate_causes(results: Cells) -> None:
    cases = [results[way].findings[0].case for way in ("400-empty", "html-empty", "streamed-hides")]

    assert len({*cases}) == len(cases)


def test_repeating_an_invalid_request_is_a_warning(results: Cells) -> None:
    cell = results["400-again"]

    assert cell.verdict is Verdict.WARN
    assert [each.message for each in cell.findings] == ["the same request is sent again after status 400"]


def test_a_loop_may_wait_long_before_it_sends_a_failed_request_again(tmp_path: Path) -> None:
    cells = run_ways(tmp_path, ["503-waits", "400-waits"], "LOOP", "openai-chat", "--cell-timeout=1")

    assert {way: [each.rule for each in cell.findings] for way, cell in cells.items()} == {
        "503-waits": [],
        "400-waits": ["loop-failed"],
    }


def test_a_truncated_answer_without_any_sign_of_it_is_a_warning(tmp_path: Path) -> None:
    cells = run_ways(tmp_path, ["max-bare", "max-noted", "max-repeated"], "LOOP")

    complete = "the model's answer ended with 'length', and the loop returns it as complete"
    assert {way: [finding.message for finding in each.findings] for way, each in cells.items()} == {
        "max-bare": [complete],
        "max-noted": [],
        "max-repeated": [complete],
    }


def test_a_refusal_without_text_that_nobody_sees_is_a_warning(tmp_path: Path) -> None:
    cells = run_ways(tmp_path, ["refusal-unseen", "refusal-seen"], "THINKING_LOOP", "gemini")

    assert {way: [each.message for each in cell.findings] for way, cell in cells.items()} == {
        "refusal-unseen": ["the model's answer ended with 'SAFETY', and the loop returns it as complete"],
        "refusal-seen": [],
    }


def test_reasoning_is_not_joined_to_the_answer(tmp_path: Path) -> None:
    ways = ["thoughts-joined", "thoughts-apart", "thoughts-left"]
    cells = run_ways(tmp_path, ways, "THINKING_LOOP", "gemini")

    assert [(cells[way].verdict, [each.message for each in cells[way].findings]) for way in ways] == [
        (Verdict.FAIL, ["the answer that the loop returns begins with the model's reasoning"]),
        (Verdict.PASS, []),
        (Verdict.PASS, []),
    ]


def test_a_loop_that_returns_nothing_gets_no_scenario_about_its_answers(tmp_path: Path) -> None:
    cells = run_ways(tmp_path, ["max-right", "refusal-right", "400-raises"], "drive")

    assert {each.verdict for each in cells.values()} == {Verdict.NOT_APPLICABLE}
