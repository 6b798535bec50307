from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from harness.reports.terminal import render
from harness.results import (
    Blame,
    CellResult,
    Difference,
    ExpectedFailure,
    Kind,
    Mode,
    Presentation,
    Provenance,
    RunResult,
    Severity,
    Verdict,
)
from tests.reports.runs import (
    PROVIDER,
    TARGETS,
    both,
    cell,
    failed,
    finding,
    red,
    skipped,
    whole_suite,
    with_many_skipped,
)

PLAIN = Presentation()


def lines(run: RunResult, presentation: Presentation = PLAIN) -> list[str]:
    return render(run, presentation).splitlines()


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_green_run_of_the_whole_suite_takes_fifteen_lines(width: int) -> None:
    shown = lines(whole_suite(), Presentation(width=width))

    assert len(shown) <= 15
    assert max(map(len, shown)) <= width
    assert shown[0].startswith("PASS  1006 cells (503 whole, 503 streamed): 1000 pass, 6 not applicable")
    assert shown[-1] == "All answers are harness's own; no provider was asked. --verbose shows more."


def test_a_narrow_screen_shows_totals_of_a_green_run() -> None:
    run = RunResult("replay", tuple(cell(target=f"target{number}") for number in range(9)))

    assert lines(run, Presentation(width=60))[2:4] == ["feature  all 9 targets", "tools    9 pass"]


_ALL = "2 pass, 1 note, 1 warn, 1 fail, 1 inconclusive, 1 missing, 1 error, 1 expected"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_column_of_the_matrix_is_cut(width: int) -> None:
    cells = [cell(f"a-{n}", t, verdict=v) for t in TARGETS for n, v in enumerate([*Verdict, Verdict.PASS])]

    shown = lines(RunResult("replay", tuple(cells)), Presentation(width=width))

    start, end = (next(i for i, line in enumerate(shown) if line.startswith(word)) for word in ("feature", "error in"))
    words = " ".join(" ".join(shown[start:end]).split())
    assert words.replace("tools ", "").count(_ALL) == len(TARGETS)


def test_a_wide_matrix_breaks_its_heads_and_then_continues_below() -> None:
    run = replace(whole_suite(), cells=(*whole_suite().cells, failed("a", covers=("tools",))))

    def heads(width: int) -> list[list[str]]:
        shown = lines(run, Presentation(width=width))
        return [line.split() for line in shown if line.startswith("feature")]

    assert heads(84) == [["feature", *TARGETS]]
    assert heads(70) == [["feature", "anthropic", "chat", "responses", "3", "2.5"]]
    assert [head[0] for head in heads(60)] == ["feature", "feature"]


def test_targets_of_a_difference_are_abbreviated() -> None:
    columns = ("anthropic", "openai-chat", "openai-responses", "gemini-3", "gemini-2.5")

    def shown(*values: str) -> str:
        row = Difference("tools", "it", dict(zip(columns, values, strict=True)), differs=True)
        return next(
            line for line in lines(RunResult("replay", (), (row,)), Presentation(verbose=True)) if "  it" in line
        ).split("it  ")[1]

    assert shown("a", "a", "a", "a", "b") == "b (gemini-2.5); a (others)"
    assert shown("a", "b", "b", "c", "c") == "a (anthropic); b (openai-*); c (gemini-*)"
    assert (
        shown("a", "a", "b", "b", "c") == "c (gemini-2.5); a (anthropic, openai-chat); b (openai-responses, gemini-3)"
    )


def test_a_cause_shows_the_evidence_of_one_cell() -> None:
    run = RunResult("replay", tuple(failed(f"scenario-{number}") for number in range(7)))

    short, verbose = lines(run), lines(run, Presentation(verbose=True))

    assert [line for line in short if "7 cells, which fail only for this" in line]
    assert len([line for line in short if line.startswith("  scenario-")]) == 1
    assert (
        "  also in scenario-1 . anthropic, scenario-2 . anthropic, scenario-3 . anthropic and 3 more cells; "
        "--verbose shows each"
    ) in short
    assert len([line for line in verbose if line.startswith("  scenario-")]) == 7


@pytest.mark.parametrize("blame", list(Blame))
def test_there_is_something_to_do_whoever_is_to_blame(blame: Blame) -> None:
    run = RunResult("replay", (failed("a", "anthropic", finding(blame=blame, remedy="")),))

    advice = next(line for line in lines(run) if line.startswith("  What to do"))
    assert len(advice) > 30


def test_another_model_is_suggested_for_a_limit() -> None:
    known = Provenance("reference", model_requested="gpt-6-sol")

    def alternative(mode: Mode, **changes: Any) -> list[str]:
        one = failed("a", "openai-chat", finding("openai-chat-tools-with-reasoning", **changes), provenance=known)
        return [line for line in lines(RunResult(mode, (one,))) if line.startswith("  Or")]

    refused = {"kind": Kind.LIMIT}
    assert alternative("reference", **refused) == [
        "  Or           If the adapter is for other models than gpt-6-sol: --model openai-chat=NAME"
    ]
    assert alternative("replay", **refused) == alternative("reference", kind=Kind.LOSS) == []
    assert alternative("reference", blame=Blame.PROVIDER, **refused) == []


def test_the_origin_of_the_answers_is_stated() -> None:
    mixed = (cell(), cell("b", "gemini-3", provenance=PROVIDER))

    def provenance(mode: Mode, *cells: CellResult, verbose: bool = False) -> list[str]:
        run = RunResult(mode, cells)
        words = ("reference server", "provider")
        return [line for line in lines(run, Presentation(verbose=verbose)) if any(each in line for each in words)]

    assert provenance("replay", cell()) == ["All answers are harness's own; no provider was asked."]
    assert provenance("replay", cell(), verbose=True)[1:] == [
        "Answers of the reference server: 1 cell of anthropic (a-model-1)."
    ]
    assert provenance("replay", *mixed) == [
        "Answered by harness's reference server, not by a provider: 1 cell of anthropic (a-model-1).",
        "Recorded from the provider: 1 cell of gemini-3 (a-model-1-0042, 2026-11-20).",
    ]
    assert provenance("live", *mixed)[1].startswith("Answered by the provider")


def test_warnings_of_a_green_run_are_named_by_rule() -> None:
    warned = cell(verdict=Verdict.WARN, findings=(finding(severity=Severity.WARNING),))
    run = RunResult("replay", (warned, replace(warned, scenario="other")))

    shown = lines(run)

    assert "Warnings that fail nothing: 1; --verbose shows each" in shown
    warning = (
        "the result of one call is sent as that of another (result-swapped; call-single . anthropic and 1 more cell)"
    )
    assert f"  {warning}" in shown
    assert shown[0] == "PASS  2 cells (whole): 2 warn"


def section(run: RunResult, start: str, presentation: Presentation = PLAIN) -> list[str]:
    """The lines from the one that begins so to the next empty one."""
    shown = lines(run, presentation)
    first = next(number for number, line in enumerate(shown) if line.startswith(start))
    return shown[first : [*shown, ""].index("", first)]


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([cell("a"), cell("b")], "PASS  2 cells (whole): 2 pass"),
        ([cell("a", variant="stream")], "PASS  1 cell (streamed): 1 pass"),
        ([*both("a"), cell("b", variant="stream")], "PASS  3 cells (1 whole, 2 streamed): 3 pass"),
        (
            [cell("a"), cell("a", variant="stream", recuts=3), cell("b", variant="stream", recuts=3)],
            "PASS  3 cells (1 whole, 2 streamed, 6 recuts): 3 pass",
        ),
        ([cell("a", variant="stream", recuts=1)], "PASS  1 cell (streamed, 1 recut): 1 pass"),
        ([], "NOTHING RAN  0 cells: there was no cell to run"),
    ],
)
def test_the_total_counts_variants_and_recuts(cells: list[CellResult], words: str) -> None:
    assert lines(RunResult("replay", tuple(cells)))[0] == words


def test_what_befell_both_variants_for_one_reason_is_named_once() -> None:
    run = RunResult(
        "replay",
        (
            *both("thinking", verdict=Verdict.NOT_APPLICABLE, reason="it does not think"),
            *both("broken", verdict=Verdict.ERROR, reason="KeyError: 'text'"),
            *both("known", verdict=Verdict.EXPECTED_FAILURE, findings=(finding(accepted="#12"),), reason="#12"),
            cell("half-known", verdict=Verdict.PASS),
            cell(
                "half-known",
                variant="stream",
                verdict=Verdict.EXPECTED_FAILURE,
                findings=(finding(accepted="#13"),),
                reason="#13",
            ),
        ),
        stale=(ExpectedFailure("call-*", "anthropic", "usage", "#7", "stream"),),
    )

    verbose = Presentation(verbose=True)
    assert section(run, "Not applicable", verbose) == [
        "Not applicable: 2 cells",
        "  anthropic: thinking: it does not think",
    ]
    assert section(run, "Expected failures: ") == [
        "Expected failures: 3 cells",
        "  known . anthropic: #12",
        "  half-known [stream] . anthropic: #13",
    ]
    assert section(run, "error in 2 cells: KeyError")[1] == "  broken . anthropic"
    assert "  usage in call-* [stream], anthropic (listed because: #7)" in lines(run)


def test_texts_of_a_model_are_no_terminal_commands() -> None:
    hostile = "\x1b]0;owned\x07 [bold]not mark-up[/bold] \u202e :smile:"
    run = RunResult("replay", (failed("a", "anthropic", finding(message=hostile, actual=hostile)),))

    shown = render(run, PLAIN)

    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", shown)
    assert "[bold]not mark-up[/bold]" in shown
    assert ":smile:" in shown


def test_long_texts_are_shown_where_they_change() -> None:
    rules = [f"Rule {number}: answer politely, and say the price." for number in range(60)]
    changed = "\n".join([*rules[:37], rules[37].replace("the price", "the list price"), *rules[38:]])
    run = RunResult("replay", (failed("a", "anthropic", finding(actual=changed, expected="\n".join(rules))),))

    words = " ".join(render(run, PLAIN).split())

    assert "answer politely, and say the [list ]price" in words
    assert "(1 word added)" in words
    assert "expected line 38: …" in words
    assert "Rule 0" not in words


def test_colours_are_for_terminals_only() -> None:
    assert "\x1b[" not in render(red(), PLAIN)
    coloured = render(red(), Presentation(colour=True))
    assert "\x1b[" in coloured
    bare = re.sub(r"\x1b\[[\d;]*m", "", coloured)
    assert [line.rstrip() for line in bare.splitlines()] == lines(red())


def test_not_applicable_is_shown_if_nothing_ran() -> None:
    reason = "it is only for the profiles gemini-4, gemini-3, claude"
    many = [replace(skipped("a", "anthropic", "x"), scenario=f"s-{number}", reason=reason) for number in range(9)]

    assert section(RunResult("replay", tuple(many)), "Not applicable") == [
        "Not applicable: 9 cells",
        "  anthropic: 9 cells: the scenario is about other models",
    ]
    shown = render(replace(with_many_skipped(), cells=with_many_skipped().cells[1:]), PLAIN)
    assert "openai-chat: 9 cells: the adapter does not have: tools (9), history (2)" in shown
