from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from harness.platform import environment
from harness.results import RunResult
from harness.scenarios import suite
from tests.cli.conftest import FIVE, NO_SUCH_TOOL, RECORDED, Command

ROOT = Path(__file__).parent.parent.parent

WRONG_ADAPTER = """
from dataclasses import replace

from harness.adapters.anthropic import ADAPTER as SHIPPED
from harness.platform import environment
from harness.model.protocols import Capability


class Shouting:
    def __init__(self, client):
        self.client = client

    def chat(self, request):
        return self.client.chat(replace(request, system=(request.system or "").upper()))

    def stream(self, request):
        return self.client.stream(replace(request, system=(request.system or "").upper()))

    def close(self):
        self.client.close()


ADAPTER = replace(SHIPPED, name="shouting", connect=lambda *place: Shouting(SHIPPED.connect(*place)))


class Crashing(Shouting):
    def chat(self, request):
        raise KeyError("no \\x1b[31mred\\x1b[0m please")

    stream = chat


class ShoutingInStreams(Shouting):
    def chat(self, request):
        return self.client.chat(request)


IN_STREAMS = replace(SHIPPED, name="in-streams", connect=lambda *place: ShoutingInStreams(SHIPPED.connect(*place)))
WHOLE_ONLY = replace(SHIPPED, name="whole-only", capabilities=SHIPPED.capabilities - {Capability.STREAMING})

CRASHING = replace(SHIPPED, name="crashing", connect=lambda *place: Crashing(SHIPPED.connect(*place)))
"""


FIRST = ("--target", "anthropic")
"""One column, where cells are counted of an adapter that could have two."""


@pytest.fixture
def adapters(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (folder / "made_up_adapters.py").write_text(WRONG_ADAPTER)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "made_up_adapters", raising=False)
    return "made_up_adapters"


def without_timing(text: str) -> dict[str, Any]:
    document = json.loads(text)
    assert document.pop("timing")["seconds"] > 0
    return document


def test_a_green_run_shows_verdict_table_and_provenance(harness: Command, cassettes: Path) -> None:
    outcome = harness("run", *RECORDED, *FIVE, "--cassettes", str(cassettes))

    lines = outcome.out.splitlines()
    starts = [
        next(number for number, line in enumerate(lines) if line.startswith(start))
        for start in (
            "PASS  40 cells (20 whole, 20 streamed): 38 pass, 2 not applicable (",
            "feature ",
            "All answers are harness's own; no provider was asked. --verbose shows more.",
        )
    ]
    assert outcome.code == 0
    assert outcome.err == ""
    assert starts[0] == 0
    assert starts == sorted(starts)
    assert len(lines) <= 15
    assert "\x1b" not in outcome.out


def test_two_runs_give_the_same_json_but_for_the_timing(harness: Command, cassettes: Path) -> None:
    words = ("run", "call-single", "json-mode", "--recut=1", "--cassettes", str(cassettes), "--report=json")
    runs = [harness(*words, "-n", jobs).out for jobs in ("1", "3")]

    assert without_timing(runs[0]) == without_timing(runs[1])
    assert runs[0].split('"timing"')[0] == runs[1].split('"timing"')[0]


def test_the_json_report_is_complete(harness: Command, cassettes: Path) -> None:
    options = ("--cassettes", str(cassettes), "--report", "json")

    outcome = harness("run", *RECORDED, "-k", "json-mode and (gemini-3 or openai-chat)", *options)

    document = without_timing(outcome.out)
    assert [(cell["scenario"], cell["target"], cell["variant"], cell["verdict"]) for cell in document["cells"]] == [
        ("json-mode", "openai-chat", "whole", "pass"),
        ("json-mode", "openai-chat", "stream", "pass"),
        ("json-mode", "gemini-3", "whole", "pass"),
        ("json-mode", "gemini-3", "stream", "pass"),
    ]
    assert document["cells"][0]["provenance"]["origin"] == "reference"
    assert document["summary"]["pass"] == 4
    assert {"subject", "fact", "values", "differs"} == set(document["differences"][0])
    assert {difference["differs"] for difference in document["differences"]} == {True, False}
    assert {"toolcall-harness", "httpx2"} <= document["versions"].keys()


def test_several_reports_are_written_at_once(harness: Command, cassettes: Path, folder: Path) -> None:
    outcome = harness(
        "run",
        "call-single",
        *FIVE,
        "--cassettes",
        str(cassettes),
        *("--report", "json:out/run.json", "--report", "junit:out/deep/run.xml", "--report", "markdown:out/run.md"),
    )

    run = RunResult.from_json((folder / "out" / "run.json").read_text())
    assert outcome.code == 0
    assert outcome.out.splitlines()[0].startswith("PASS  10 cells (5 whole, 5 streamed): 10 pass")
    assert len(run.cells) == 10
    assert '<testsuites name="harness"' in (folder / "out" / "deep" / "run.xml").read_text()
    assert (folder / "out" / "run.md").read_text().startswith("## harness: PASS\n")


def test_what_is_wrong_is_shown_with_evidence_and_a_way_out(harness: Command, cassettes: Path, adapters: str) -> None:
    outcome = harness("run", "system-plain", "--adapter", f"{adapters}:ADAPTER", *FIRST, "--cassettes", str(cassettes))

    assert outcome.code == 1
    assert "system-verbatim: data lost or wrong; at fault: adapter; 2 cells, which fail only for this" in outcome.out
    assert "  system-plain [whole and stream] . shouting" in outcome.out
    assert "    request 1 /system" in outcome.out
    assert '      actual    "YOU ' in outcome.out
    assert "  What to do   Send the system prompt as it was given; " in outcome.out
    again = f"harness run --cassettes {cassettes} system-plain --adapter {adapters}:ADAPTER --target anthropic"
    assert f"  Play again   {again}" in outcome.out.replace("\n" + " " * 15, " ")
    assert outcome.out.splitlines()[0].startswith("FAIL  2 cells (1 whole, 1 streamed): 2 fail")


def test_a_crash_is_an_error_without_a_traceback(harness: Command, adapters: str) -> None:
    outcome = harness("run", "call-single", "--adapter", f"{adapters}:CRASHING", "--mode", "reference")

    assert outcome.code == 1
    assert "KeyError" in outcome.out
    assert "Traceback" not in outcome.out + outcome.err
    assert "\x1b" not in outcome.out


def test_a_missing_cassette_prints_working_commands(harness: Command, cassettes: Path, folder: Path) -> None:
    partial = folder / "partial"
    (partial / "call-single").mkdir(parents=True)
    for name in ("anthropic.yaml", "anthropic.stream.yaml"):
        (partial / "call-single" / name).write_bytes((cassettes / "call-single" / name).read_bytes())

    outcome = harness("run", "call-single", "system-plain", "--target", "anthropic", "--cassettes", "partial")

    lines = [line.strip() for line in outcome.out.splitlines()]
    assert outcome.code == 2
    assert "Could not look: no cassette of 2 cells in partial" in lines
    assert "system-plain: anthropic" in lines
    assert lines[0].startswith("INCOMPLETE  4 cells (2 whole, 2 streamed): 2 pass, 2 missing")
    record = next(line for line in lines if line.startswith("record ")).removeprefix("record").split()
    play = next(line for line in lines if line.startswith("or play ")).removeprefix("or play").split()
    assert record == ["harness", "record", "--cassettes", "partial", "system-plain", "--target", "anthropic"]
    assert harness(*play[1:]).code == 0
    assert harness(*record[1:], "--from", "reference").code == 0
    assert harness("run", "call-single", "system-plain", "--target", "anthropic", "--cassettes", "partial").code == 0


def test_only_missing_streams_are_recorded(harness: Command, cassettes: Path, folder: Path) -> None:
    place = folder / "partial" / "call-single" / "anthropic.yaml"
    place.parent.mkdir(parents=True)
    place.write_bytes((cassettes / "call-single" / "anthropic.yaml").read_bytes())
    written = place.stat().st_mtime_ns

    outcome = harness("run", "call-single", "--target", "anthropic", "--cassettes", "partial")

    lines = [line.strip() for line in outcome.out.splitlines()]
    assert outcome.code == 2
    assert "Could not look: no cassette of 1 cell in partial" in lines
    assert "call-single [stream]: anthropic" in lines
    record = next(line for line in lines if line.startswith("record ")).removeprefix("record").split()
    play = next(line for line in lines if line.startswith("or play ")).removeprefix("or play").split()
    words = ["--variant", "stream", "call-single", "--target", "anthropic"]
    assert record == ["harness", "record", "--cassettes", "partial", *words]
    assert play[1:] == ["run", "--mode", "reference", *words]
    assert harness(*play[1:]).code == 0
    assert harness(*record[1:], "--from", "reference").code == 0
    assert place.stat().st_mtime_ns == written
    assert harness("run", "call-single", "--target", "anthropic", "--cassettes", "partial").code == 0


def test_a_failure_outranks_a_missing_cassette(harness: Command, cassettes: Path, folder: Path) -> None:
    (folder / "ours.yaml").write_text(NO_SUCH_TOOL)
    outcome = harness(
        "run", "call-single", "call-after-text", *FIRST, "--facts=ours.yaml", "--cassettes", str(cassettes)
    )

    assert outcome.code == 1
    assert "2 fail, 2 missing" in outcome.out.splitlines()[0]


def test_expected_failures_pass_and_stale_or_other_ones_fail(harness: Command, folder: Path) -> None:
    (folder / "ours.yaml").write_text(NO_SUCH_TOOL)
    run = ("run", "call-single", *FIRST, "--facts=ours.yaml")
    entry = "scenario: 'call-*', target: anthropic, rule: 'anthropic-ours-no-weather', reason: 'issue 7'"
    (folder / "known.yaml").write_text(f"- {{{entry}}}\n")
    (folder / "stale.yaml").write_text(f"- {{{entry}}}\n- {{scenario: '*', target: '*', rule: usage, reason: old}}\n")
    (folder / "streams.yaml").write_text(f"- {{{entry}, variant: stream}}\n")

    known, stale, streams = (
        harness(*run, "--expected-failures", f"{name}.yaml") for name in ("known", "stale", "streams")
    )
    alone = harness(*run, "--variant=whole", "--expected-failures=streams.yaml")

    assert (known.code, stale.code, streams.code, alone.code) == (0, 1, 1, 1)
    assert "  call-single . anthropic: issue 7" in known.out.splitlines()
    assert known.out.splitlines()[0].startswith("PASS  2 cells (1 whole, 1 streamed): 2 expected failure")
    assert "  usage in *, * (listed because: old)" in stale.out.splitlines()
    assert streams.out.splitlines()[0].startswith("FAIL  2 cells (1 whole, 1 streamed): 1 fail, 1 expected failure")


def test_a_variant_that_is_named_is_played_alone(harness: Command, cassettes: Path) -> None:
    run = ("run", "call-single", "--target", "gemini-3", "--cassettes", str(cassettes))

    whole, stream, both = (
        harness(*run, *words).out.splitlines()[0]
        for words in (
            ("--variant", "whole"),
            ("--variant", "stream"),
            ("--variant", "stream", "--variant", "whole"),
        )
    )

    assert whole.startswith("PASS  1 cell (whole): 1 pass")
    assert stream.startswith("PASS  1 cell (streamed): 1 pass")
    assert both.startswith("PASS  2 cells (1 whole, 1 streamed): 2 pass")


def test_a_failure_of_streams_names_only_streams(harness: Command, cassettes: Path, adapters: str) -> None:
    run = ("run", "system-plain", "--adapter", f"{adapters}:IN_STREAMS", *FIRST, "--cassettes", str(cassettes))

    outcome = harness(*run, "--recut", "1")

    again = (
        f"harness run --cassettes {cassettes} --variant stream --recut 1 system-plain "
        f"--adapter {adapters}:IN_STREAMS --target anthropic"
    )
    assert outcome.code == 1
    assert "  system-plain [stream] . in-streams" in outcome.out.splitlines()
    assert f"  Play again   {again}" in outcome.out.replace("\n" + " " * 15, " ")
    assert outcome.out.splitlines()[0].startswith("FAIL  2 cells (1 whole, 1 streamed, 1 recut): 1 pass, 1 fail")


def test_recuts_use_the_one_cassette_of_a_cell(harness: Command, cassettes: Path) -> None:
    before = sorted(cassettes.rglob("*"))

    outcome = harness("run", *RECORDED, *FIVE, "--recut", "3", "--cassettes", str(cassettes))

    assert outcome.code == 0
    assert "PASS  40 cells (20 whole, 20 streamed, 75 recuts): 38 pass" in outcome.out
    assert sorted(cassettes.rglob("*")) == before


def test_streams_do_not_apply_to_an_adapter_without_streaming(harness: Command, cassettes: Path, adapters: str) -> None:
    run = ("run", "call-single", "--adapter", f"{adapters}:WHOLE_ONLY", *FIRST, "--cassettes", str(cassettes))

    default, streams = harness(*run), harness(*run, "--variant", "stream")

    assert default.out.splitlines()[0].startswith("PASS  1 cell (whole): 1 pass")
    assert streams.code == 2
    assert "  whole-only: call-single [stream]: the adapter does not have: streaming" in streams.out


def test_nothing_applicable_is_not_a_pass(harness: Command) -> None:
    outcome = harness("run", "thinking-tool-loop", "--target", "openai-chat", "--mode", "reference")

    assert outcome.code == 2
    assert outcome.out.splitlines()[0].startswith("NOTHING RAN  2 cells (1 whole, 1 streamed): no cell")


def without_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the SDK are gone."""
    for package in ("openai_chat", "_openai"):
        monkeypatch.delitem(sys.modules, f"harness.adapters.{package}.client", raising=False)
    monkeypatch.setitem(sys.modules, "openai", None)


def test_targets_whose_sdk_is_missing_are_left_out_aloud(
    harness: Command, cassettes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_openai(monkeypatch)
    monkeypatch.setattr(environment, "_installed", lambda name: None if name == "openai" else version(name))

    rest = harness("run", "call-single", "--cassettes", str(cassettes))
    chosen = harness("run", "call-single", "--cassettes", str(cassettes), "--target", "openai-chat")

    assert rest.code == 0
    assert "openai-chat is left out: the adapter 'openai-chat' needs the package 'openai'" in rest.out
    assert "pip install 'toolcall-harness[openai]'" in rest.out
    assert chosen.code == 2
    assert chosen.out == ""
    assert chosen.err == (
        "harness: the adapter 'openai-chat' needs the package 'openai', which is not installed. "
        "Install it with: pip install 'toolcall-harness[openai]' (in a checkout: pip install -e '.[openai]')\n"
    )


def test_a_broken_sdk_installation_is_named(harness: Command, cassettes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_openai(monkeypatch)

    outcome = harness("run", "call-single", "--cassettes", str(cassettes))

    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(
        "harness: the adapter 'openai-chat' needs the package 'openai', which is not installed. "
    )


def test_it_runs_with_the_network_shut(cassettes: Path) -> None:
    if subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let us make a network namespace")
    command = ["unshare", "-rn", sys.executable, "-m", "harness", "run", *RECORDED, "--cassettes", str(cassettes)]

    played = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert played.returncode == 0, played.stdout + played.stderr


def test_a_machine_without_loopback_is_not_the_adapters_fault() -> None:
    if subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let us make a network namespace")
    command = ["unshare", "-rn", sys.executable, "-m", "harness", "run", "call-single", "--mode", "reference"]

    played = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (played.returncode, played.stdout) == (2, "")
    assert played.stderr == (
        "harness: the server of this run cannot be reached on 127.0.0.1: Network is unreachable. Where the network is "
        "shut off, loopback has to stay up, as with 'ip link set lo up'; a replay of the shipped adapters needs none.\n"
    )


@pytest.mark.skipif(not suite.shipped("cassettes").is_dir(), reason="no cassettes are shipped with this checkout")
def test_the_shipped_suite_passes_strictly_from_any_folder() -> None:
    played = subprocess.run(
        [sys.executable, "-m", "harness", "run", "--strict", "--variant", "whole"],  # .ci/run plays streams
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert played.returncode == 0, played.stdout + played.stderr
    assert len(played.stdout.splitlines()) <= 60


def test_sound_is_sent_by_the_models_that_are_made_for_it(harness: Command) -> None:
    words = ("run", "--mode", "reference", "audio-from-user", "--target", "openai-chat")
    others, made = harness(*words), harness(*words, "--model", "openai-chat=gpt-audio")
    assert (others.code, made.code) == (2, 0)
    assert "does not have: audio" in " ".join(others.out.split())
    assert made.out.startswith("PASS  2 cells")
