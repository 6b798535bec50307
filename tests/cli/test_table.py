"""Listings fit the terminal in which somebody looks at them, and are whole where they are piped."""

from __future__ import annotations

import sys

import pytest

from harness.scenarios.load import load_paths
from harness.scenarios.suite import shipped
from tests.cli.conftest import Command, Outcome

LEFT_OUT = "Not shown in this width, but in a pipe: "


def looked_at(harness: Command, what: str, width: int, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    """A listing in a terminal."""
    with monkeypatch.context() as terminal:
        terminal.setattr(sys.stdout, "isatty", lambda: True)
        terminal.setenv("COLUMNS", str(width))
        return harness("list", what)


@pytest.mark.parametrize(
    ("what", "width"), [("scenarios", 80), ("scenarios", 120), ("targets", 80), ("rules", 80), ("facts", 120)]
)
def test_a_listing_fits_and_cuts_no_name(
    harness: Command, what: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, piped = looked_at(harness, what, width, monkeypatch), harness("list", what)

    lines, whole = shown.out.splitlines(), piped.out.splitlines()
    assert max(map(len, lines)) <= width
    assert [line.split()[0] for line in lines] == [line.split()[0] for line in whole]
    left_out = shown.err.removeprefix(LEFT_OUT).removesuffix(".\n").replace(",", "").split()
    assert sorted([*lines[0].split(), *left_out]) == sorted(whole[0].split())
    assert piped.err == ""


@pytest.mark.parametrize(
    ("width", "heads"),
    [(80, ["SCENARIO", "VARIANTS", "TITLE"]), (120, ["SCENARIO", "COVERS", "VARIANTS", "TITLE"])],
)
def test_scenarios_have_their_titles_at_any_width(
    harness: Command, width: int, heads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenarios = load_paths([shipped("scenarios")])

    head, *lines = looked_at(harness, "scenarios", width, monkeypatch).out.splitlines()

    assert head.split() == heads
    begins = head.index("TITLE")
    for line, scenario in zip(lines, scenarios, strict=True):
        title = line[begins:]
        assert title == scenario.title or (title[-1] == "…" and scenario.title.startswith(title[:-1]))
    assert any(line.endswith("…") for line in lines)
    assert "…" not in harness("list", "scenarios").out
