"""`harness show`: one cell, its conversation, its HTTP exchanges, and findings at their places."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.show import lines as lines_of
from harness.results import Presentation
from tests.cli.conftest import Command
from tests.reports.runs import cell

GOLDEN = Path(__file__).parent / "golden"
SWAPPED = ("--adapter", "tests.examples.swapped_results:ADAPTER", "--mode", "reference", "--variant", "whole")

RAISING = """
from dataclasses import replace
from tests.examples import plain_http

class Client(plain_http.Client):
    def chat(self, request):
        raise KeyError("text")

ADAPTER = replace(plain_http.ADAPTER, name="raising", connect=Client)
"""


@pytest.mark.usefixtures("in_process")
def test_a_red_cell_is_shown_with_its_findings_where_they_are(
    harness: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")

    shown = harness("show", "call-parallel-same-tool", *SWAPPED)

    assert (shown.code, shown.err) == (1, "")
    assert shown.out == (GOLDEN / "show.txt").read_text()
    monkeypatch.setenv("COLUMNS", "80")
    narrow = harness("show", "call-parallel-same-tool", *SWAPPED).out.splitlines()
    assert len(narrow) > len(shown.out.splitlines())  # what stood side by side stands below each other


SILENT = """
from dataclasses import replace
from harness.stdio import adapter_specs
from tests.bridge.test_planted import wrapped

ADAPTER = replace(wrapped(ends_silently=True)(adapter_specs.adapter("openai-chat")), name="silent")
"""


@pytest.mark.usefixtures("in_process")
def test_the_raw_stream_is_shown_with_a_mark_where_it_was_cut(
    harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "silent_show.py").write_text(SILENT)
    monkeypatch.syspath_prepend(folder)
    words = ("--adapter", "silent_show:ADAPTER", "--mode", "reference", "--variant", "stream")

    shown = harness("show", "stream-cut-before-end", *words)
    page = harness("run", "stream-cut-before-end", *words, "--report", "html:page.html")
    green = harness("show", "call-single", "--target", "anthropic", "--variant", "stream", "--mode", "reference")

    end = "(the stream ends here, without its last event)"
    assert (shown.code, page.code, green.code) == (1, 1, 0)
    assert "the raw stream, " in shown.out
    assert f"{end}  <-- 1 stream-cut" in " ".join(shown.out.split()).replace(f"{end} <--", f"{end}  <--")
    assert f"<mark>&gt; {end}</mark>" in (folder / "page.html").read_text()
    assert green.out.startswith("call-single [stream] . anthropic: pass\n")
    assert "200, streamed; shown as the equivalent whole body" in green.out
    assert '"type": "tool_use"' in green.out
    assert "event: message_stop" in green.out
    assert end not in green.out


def test_embedded_texts_stand_beside_their_requests(harness: Command) -> None:
    words = ("--target", "openai-chat", "--variant", "whole", "--mode", "reference")

    shown = harness("show", "seeds-code-search-embeddings", *words)

    assert shown.code == 0
    assert "text: " in shown.out
    assert "vectors of " in shown.out
    assert "/v1/embeddings" in shown.out


@pytest.mark.usefixtures("in_process")
def test_what_is_not_applicable_and_what_is_missing_say_why(harness: Command, folder: Path) -> None:
    (folder / "empty").mkdir()

    skipped = harness("show", "thinking-tool-loop", *SWAPPED)
    missing = harness("show", "call-single", "--target=anthropic", "--variant=whole", "--cassettes=empty")

    assert skipped.code == 2
    assert skipped.out.splitlines() == [
        "thinking-tool-loop [whole] . swapped-results: not-applicable",
        "  the adapter 'swapped-results' does not have: thinking",
    ]
    assert missing.code == 2
    assert missing.out.startswith(
        "call-single [whole] . anthropic: missing\n  empty/call-single/anthropic.yaml: there "
    )


@pytest.mark.usefixtures("in_process")
def test_show_prints_output_and_traceback_of_an_adapter(
    harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "raising_show.py").write_text(RAISING)
    monkeypatch.syspath_prepend(folder)

    shown = harness("show", "call-single", "--adapter", "raising_show:ADAPTER", "--mode", "reference")

    lines = [line.strip() for line in shown.out.splitlines()]
    assert shown.code == 1
    assert lines[0] == "call-single [whole] . raising: error"
    assert [line for line in lines if line.startswith("Traceback")]
    assert 'raise KeyError("text")' in lines
    assert "nothing was sent" in shown.out
    printed = cell("call-single", "raising", printed="about to fail\n")
    assert lines_of(printed, None, Presentation())[-2:] == ["printed by the adapter", "  about to fail"]
