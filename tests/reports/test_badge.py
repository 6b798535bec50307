"""The badge and the table of features: what they claim, by what evidence, and until when."""

from __future__ import annotations

import datetime as dt
import json
import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from harness.reports import published_reports
from harness.reports.published_reports import evidence
from harness.results import Definition, Presentation, RunPart, RunResult, Verdict
from tests.reports.runs import PROVIDER, both, cell, failed, hostile, skipped

PLAYED = "2026-11-23T08:00:00+00:00"
GREEN = RunResult("replay", both(), versions={"toolcall-harness": "0.1.0"}, played_at=PLAYED)
"""Played on a day, from the reference server's answers."""
UNTIL = "2027-02-21"


def made(run: RunResult, today: str = "2026-11-23") -> dict[str, Any]:
    return json.loads(
        published_reports.render_badge(run, Presentation(form=".json", today=dt.date.fromisoformat(today)))
    )


def test_a_badge_states_result_origin_and_validity() -> None:
    assert made(GREEN) == {
        "schemaVersion": 1,
        "label": "tool calling",
        "message": f"2 of 2 cells, reference server only, until {UNTIL}",
        "color": "blue",
        "isError": False,
        "cacheSeconds": 3600,
    }


def test_recordings_of_a_provider_count_from_their_day() -> None:
    run = replace(GREEN, cells=both(provenance=PROVIDER))

    assert (made(run)["message"], made(run)["color"]) == (
        "2 of 2 cells, recorded from the provider 2026-11-20, until 2027-02-18",
        "brightgreen",
    )
    mixed = replace(run, cells=(cell(provenance=PROVIDER), cell("b")))
    assert made(mixed)["color"] == "blue"
    assert (
        "1 cell recorded from the provider 2026-11-20, 1 cell recorded from the reference server"
        in (made(mixed)["message"])
    )
    live = replace(run, mode="live", cells=both(provenance=replace(PROVIDER, recorded_at=None)))
    assert made(live)["message"] == f"2 of 2 cells, answered by the provider, until {UNTIL}"


@pytest.mark.parametrize(
    ("run", "said", "colour"),
    [
        (replace(GREEN, cells=(cell(), failed("b"))), "1 of 2 cells,", "red"),
        (replace(GREEN, cells=(cell(), cell("b", verdict=Verdict.EXPECTED_FAILURE))), "1 of 2 cells,", "orange"),
        (replace(GREEN, cells=(cell(), cell("b", verdict=Verdict.MISSING))), "incomplete, 1 of 2 cells,", "orange"),
        (replace(GREEN, stopped="interrupted"), "unfinished, 2 of 2 cells,", "orange"),
        (replace(GREEN, cells=()), "nothing ran, 0 of 0 cells,", "orange"),
        (replace(GREEN, cells=(cell(), skipped("b", "anthropic", "tools"))), "1 of 1 cells,", "blue"),
        (replace(GREEN, ignored=("usage",)), "2 of 2 cells, not all rules,", "blue"),
    ],
)
def test_nothing_that_is_not_right_reads_as_if_it_were(run: RunResult, said: str, colour: str) -> None:
    assert made(run)["message"].startswith(said)
    assert made(run)["color"] == colour


def test_a_badge_of_a_run_too_long_ago_says_only_that() -> None:
    assert made(GREEN, UNTIL)["color"] == "blue"
    assert made(GREEN, "2027-02-22") == {
        "schemaVersion": 1,
        "label": "tool calling",
        "message": f"expired {UNTIL}",
        "color": "lightgrey",
        "isError": True,
        "cacheSeconds": 3600,
    }
    assert made(replace(GREEN, played_at=None))["message"] == "not dated"


def test_the_svg_loads_nothing() -> None:
    text = published_reports.render_badge(GREEN, Presentation())
    root = ET.fromstring(text)  # noqa: S314 - our own XML

    assert root.get("aria-label") == f"tool calling: 2 of 2 cells, reference server only, until {UNTIL}"
    words = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert words == ["tool calling", f"2 of 2 cells, reference server only, until {UNTIL}"]
    about = root.findtext("{http://www.w3.org/2000/svg}desc") or ""
    assert f"Run {evidence(GREEN).run} of 2026-11-23, harness 0.1.0." in about
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]
    assert "expired" in published_reports.render_badge(GREEN, Presentation(today=dt.date(2028, 1, 1)))


def test_a_run_is_known_by_what_came_out_and_not_by_when() -> None:
    other = replace(GREEN, played_at="2026-12-01T00:00:00+00:00", timing={"seconds": 5.0})
    worse = replace(GREEN, cells=(*both()[:1], failed(variant="stream")))

    assert evidence(other).run == evidence(GREEN).run != evidence(worse).run
    asked = {"call-single": Definition("other")}
    assert evidence(replace(GREEN, definitions=asked)).run != evidence(GREEN).run


def featured() -> RunResult:
    cells = (
        *both("a", covers=("tools", "id-matching")),
        *both("a", "gemini-3", covers=("tools", "id-matching")),
        failed("b", "anthropic", covers=("tools",)),
        skipped("b", "gemini-3", "thinking"),
        cell("c", verdict=Verdict.EXPECTED_FAILURE, covers=("streaming",)),
        cell("d", "gemini-3", verdict=Verdict.MISSING, provenance=None, covers=("streaming",)),
    )
    asked = {
        "a": Definition("1", ("tools",)),
        "b": Definition("2", ("tools", "thinking")),
        "c": Definition("3", (), ("interleaved-calls",)),
    }
    return replace(GREEN, cells=cells, definitions=asked)


TABLE = f"""\
FAIL: 8 cells (6 whole, 2 streamed): 4 pass, 1 fail, 1 not applicable, 1 missing, 1 expected failure. Reference server \
only. Valid until {UNTIL}.

| feature | anthropic | gemini-3 |
| --- | --- | --- |
| adapter | anthropic | gemini |
| model | a-model-1 | a-model-1 |
| answers | reference server only | reference server only |
| subject: |  |  |
| id-matching | ✅ pass 2 | ✅ pass 2 |
| streaming | ⚠️ expected failure 1 | ❔ missing 1 |
| tools | ❌ fail 1 of 3 | ✅ pass 2 |
| capability: |  |  |
| thinking | ❌ fail 1 | not applicable |
| tools | ❌ fail 1 of 3 | ✅ pass 2 |
| provocation: |  |  |
| interleaved-calls | ⚠️ expected failure 1 | not asked |

A cell is one scenario, whole or streamed. It counts for each feature that it covers or requires. \
Run RUN of 2026-11-23, harness 0.1.0.
"""


def test_a_table_has_what_each_target_makes_of_each_feature() -> None:
    assert published_reports.render_table(featured(), Presentation()) == TABLE.replace("RUN", evidence(featured()).run)


def test_a_table_of_a_run_too_long_ago_is_struck_through() -> None:
    late = Presentation(today=dt.date(2027, 2, 22))
    text = published_reports.render_table(featured(), late)
    page = published_reports.render_table(featured(), replace(late, form=".html"))

    assert text.startswith(f"**Expired on {UNTIL}: this table was valid on 2026-11-23 and is no longer evidence.**")
    assert "| id-matching | ~~✅ pass 2~~ | ~~✅ pass 2~~ |" in text
    assert '<table class="expired"><caption>Expired on' in page
    assert published_reports.render_table(replace(featured(), played_at=None), late).startswith("**Not dated")


def test_a_table_in_html_says_the_same_and_loads_nothing() -> None:
    page = published_reports.render_table(featured(), Presentation(form=".html"))
    root = ET.fromstring(f"<div>{page}</div>")  # noqa: S314 - our own markup, which is XML as well

    rows = [[each.text for each in row] for row in root.iter("tr")]
    assert ["tools", "fail 1 of 3", "pass 2"] in rows
    assert ["thinking", "fail 1", "not applicable"] in rows
    assert "http" not in page
    tags = {"div", "style", "table", "caption", "thead", "tbody", "tr", "th", "td", "p"}
    assert {each.tag for each in root.iter()} == tags


@pytest.mark.parametrize("form", [".md", ".html"])
def test_names_of_somebody_else_are_text(form: str) -> None:
    asked = {"a": Definition("1", ("<script>|x|</script>",))}
    run = replace(GREEN, cells=(cell("a", "<b>|`"), *hostile().cells), definitions=asked)

    text = published_reports.render_table(run, Presentation(form=form))

    assert "<script>" not in text
    assert "<b>" not in text
    if form == ".md":
        lines = [line for line in text.splitlines() if line.startswith("|")]
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1


def test_shards_and_unfinished_runs_are_named() -> None:
    shard = replace(GREEN, part=RunPart(1, 4, {}))

    assert (made(shard)["message"][:24], made(shard)["color"]) == ("shard 1/4, 2 of 2 cells,", "orange")
    assert made(RunResult("replay", (), stopped="begun"))["message"] == "unfinished"
