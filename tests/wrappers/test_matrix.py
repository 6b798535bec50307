"""The matrix of libraries: its squares, its causes, and the page that says its date."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from harness.results import RunResult
from harness.wrappers import WRAPPERS
from tests.cli.conftest import without_workers
from tests.wrappers import page, play

ORIGINS = {*page.ORIGINS}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Sequence[play.Row]:
    """A row of a wrapper whose results are swapped, and one that could not be run."""
    file = tmp_path_factory.mktemp("run") / "run.json"
    words = ["--adapter=tests.examples.swapped_results:ADAPTER", "--target=openai-chat", f"--report=json:{file}"]
    with pytest.MonkeyPatch.context() as patch:
        without_workers(patch)
        main(["run", "call-parallel-same-tool", "system-plain", "--mode=reference", "--variant=whole", *words])
    run = RunResult.from_json(file.read_text(encoding="utf-8"))
    about = {"library": "litellm", "adapter": "litellm-anthropic", "versions": {"litellm": "1.110.2"}, "command": "x"}
    measured = {"features": play.squares(run), "causes": play.described(run, "litellm")}
    return [
        {**about, "played": "2026-11-26", **measured},
        {**about, "adapter": "litellm-openai", "played": "2026-10-01", "broken": "Error: <no> such thing"},
    ]


def test_squares_count_verdicts_and_causes_have_their_evidence(rows: Sequence[play.Row]) -> None:
    (cause,) = rows[0]["causes"]

    assert rows[0]["features"] == {"id-matching": {"fail": 1}, "system-prompt": {"pass": 1}}
    assert (cause["rule"], cause["features"], cause["example"]) == (
        "result-swapped",
        ["id-matching"],
        "call-parallel-same-tool whole",
    )
    assert cause["evidence"]["pointer"].startswith("/messages/")


def test_the_page_is_one_file_with_its_date_and_every_cause(rows: Sequence[play.Row]) -> None:
    text = page.html({"written": "2026-11-26", "commit": "abc1234", "rows": rows})

    assert "data-played='2026-10-01'" in text
    assert "<dd>from 2026-10-01 to 2026-11-26</dd>" in text
    assert "commit <code>abc1234</code>" in text
    assert "<td><a class='v v-fail' href='#litellm-anthropic-1.110.2'>✕ 0/1</a>" in text
    assert "<details id='litellm-anthropic-1.110.2'>" in text
    assert "✕ not played" in text
    assert "result-swapped" in text
    assert "&lt;no&gt; such thing" in text
    assert not {word for word in ("http://", "https://", "<link", " src=") if word in text}


@pytest.mark.parametrize(
    ("actual", "expected", "shown"),
    [("null", "null", []), ("null", "false", ["(nothing)", "false"]), ('"a:0"', "null", ["&quot;a:0&quot;"])],
)
def test_values_that_are_unknown_are_not_shown_as_null(
    rows: Sequence[play.Row], actual: str, expected: str, shown: list[str]
) -> None:
    (cause,) = rows[0]["causes"]
    evidence = {**cause["evidence"], "actual": actual, "expected": expected}
    changed = {**rows[0], "causes": [{**cause, "evidence": evidence}]}

    text = page.html({"written": "2026-11-26", "commit": "abc1234", "rows": [changed]})

    assert re.findall("<pre>(.*?)</pre>", text) == shown
    assert "<dt>played</dt><dd>2026-11-26</dd>" in text


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
@pytest.mark.parametrize(("days", "is_stale"), [(page.STALE_DAYS, False), (page.STALE_DAYS + 2, True)])
def test_the_page_calls_itself_stale(days: int, is_stale: bool) -> None:
    script = (
        f"const now = 1e12 + {days} * 864e5; Date.now = () => now; const line = {{hidden: true}};"
        "globalThis.document = {body: {dataset: {played: new Date(1e12).toISOString()}}, querySelector: () => line};"
        f"{page.SCRIPT.replace('DAYS', str(page.STALE_DAYS))}; console.log(JSON.stringify(line));"
    )

    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True)

    line = json.loads(done.stdout)
    assert line["hidden"] is not is_stale
    assert ("Stale" in line.get("textContent", "")) is is_stale


def test_rows_of_the_same_adapter_and_version_are_replaced(rows: Sequence[play.Row], tmp_path: Path) -> None:
    file = tmp_path / "matrix.json"
    other = {**rows[0], "versions": {"litellm": "1.100.0"}}

    file.write_text(json.dumps(play.merged(file, rows)))
    merged: Any = play.merged(file, [{**rows[0], "played": "2026-12-01"}, other])

    assert [(each["adapter"], each["versions"]["litellm"], each["played"]) for each in merged["rows"]] == [
        ("litellm-openai", "1.110.2", "2026-10-01"),
        ("litellm-anthropic", "1.110.2", "2026-12-01"),
        ("litellm-anthropic", "1.100.0", "2026-11-26"),
    ]


@pytest.mark.parametrize(
    ("library", "adapter", "versions", "first"),
    [
        ("langchain", "langchain-gemini", {"langchain-openai": "1.7.4", "langchain-google-genai": "4.4.3"}, "4.4.3"),
        ("langchain-js", "langchain-js-openai", {"@langchain/core": "1.4.0", "@langchain/openai": "1.5.8"}, "1.5.8"),
        ("agno", "agno-anthropic", {"agno": "3.1.10", "anthropic": "2.14.0"}, "3.1.10"),
        ("litellm", "litellm-openai", {"litellm": "1.110.2", "python": "3.11.7"}, "1.110.2"),
    ],
)
def test_a_row_shows_the_version_of_its_own_package(
    library: str, adapter: str, versions: dict[str, str], first: str
) -> None:
    found = play.own_first({"library": library, "adapter": adapter, "versions": versions})

    assert (next(iter(found.values())), found) == (first, versions)


def test_traced_causes_name_known_libraries_and_a_place() -> None:
    traced = json.loads(play.TRACED.read_text(encoding="utf-8"))

    assert {each["library"] for each in traced} <= {each.library for each in WRAPPERS}
    assert {each["origin"] for each in traced} <= ORIGINS
    assert len({each["id"] for each in traced}) == len(traced)
    assert all(each["place"] and each["says"] and each["rule"] for each in traced)


def test_a_cause_is_found_by_its_library_rule_and_text() -> None:
    entry = {"library": "litellm", "rule": "usage", "contains": "output", "id": "x", "origin": "library"}
    traced = [{**entry, "place": "a.py:1", "says": "counts twice"}]

    assert play.trace_of(traced, "litellm", "usage", "output_tokens is not what the answer says")
    assert play.trace_of(traced, "litellm", "usage", "input_tokens is not what the answer says") is None
    assert play.trace_of(traced, "agno", "usage", "output_tokens is not what the answer says") is None


def test_a_trace_of_a_refusal_explains_no_other_stop_reason() -> None:
    traced = json.loads(play.TRACED.read_text(encoding="utf-8"))
    other = "the provider's stop reason 'new_word' means refusal, and the adapter reports end_turn"

    assert not [each.library for each in WRAPPERS if play.trace_of(traced, each.library, "stop-reason", other)]
