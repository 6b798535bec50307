from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from harness.platform import environment
from harness.platform.files import shipped_folder
from tests.cli.conftest import FIVE, NO_SUCH_TOOL, RECORDED, Command

ROOT = Path(__file__).parent.parent.parent

SHOUTING = """
from dataclasses import replace

from harness.adapters.anthropic import ADAPTER as SHIPPED
from tests.broken.fault import asks

ADAPTER = replace(asks(lambda each: replace(each, system=(each.system or "").upper()))(SHIPPED), name="shouting")
"""


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


@pytest.mark.usefixtures("in_process")
def test_what_is_wrong_is_shown_with_evidence_and_a_way_out(
    harness: Command, cassettes: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "shouting.py").write_text(SHOUTING)
    monkeypatch.syspath_prepend(folder)
    words = ("system-plain", "--adapter", "shouting:ADAPTER", "--target", "anthropic")

    outcome = harness("run", *words, "--cassettes", str(cassettes))

    assert outcome.code == 1
    assert "system-verbatim: data lost or wrong; at fault: adapter; 2 cells, which fail only for this" in outcome.out
    assert "  system-plain [whole and stream] . shouting" in outcome.out
    assert "    request 1 /system" in outcome.out
    assert '      actual    "YOU ' in outcome.out
    assert "  What to do   Send the system prompt unchanged, and " in outcome.out
    again = f"harness run --cassettes {cassettes} {' '.join(words)}"
    assert f"  Run again    {again}" in outcome.out.replace("\n" + " " * 15, " ")
    assert outcome.out.splitlines()[0].startswith("FAIL  2 cells (1 whole, 1 streamed): 2 fail")


def test_only_missing_streams_are_recorded(harness: Command, cassettes: Path, folder: Path) -> None:
    place = folder / "partial" / "call-single" / "anthropic.yaml"
    place.parent.mkdir(parents=True)
    place.write_bytes((cassettes / "call-single" / "anthropic.yaml").read_bytes())
    written = place.stat().st_mtime_ns

    outcome = harness("run", "call-single", "--target", "anthropic", "--cassettes", "partial")

    lines = [line.strip() for line in outcome.out.splitlines()]
    assert outcome.code == 2
    assert "Not checked: no cassette for 1 cell in partial" in lines
    assert "call-single [stream]: anthropic" in lines
    record = next(line for line in lines if line.startswith("record ")).removeprefix("record").split()
    play = next(line for line in lines if line.startswith("or run ")).removeprefix("or run").split()
    words = ["--variant", "stream", "call-single", "--target", "anthropic"]
    assert record == ["harness", "record", "--cassettes", "partial", *words]
    assert play[1:] == ["run", "--mode", "reference", *words]
    assert harness(*play[1:]).code == 0
    assert harness(*record[1:], "--from", "reference").code == 0
    assert place.stat().st_mtime_ns == written
    assert harness("run", "call-single", "--target", "anthropic", "--cassettes", "partial").code == 0


def test_expected_failures_pass_and_stale_or_other_ones_fail(harness: Command, folder: Path) -> None:
    (folder / "ours.yaml").write_text(NO_SUCH_TOOL)
    run = ("run", "call-single", "--target=anthropic", "--facts=ours.yaml")
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


def test_recuts_use_the_one_cassette_of_a_cell(harness: Command, cassettes: Path) -> None:
    before = sorted(cassettes.rglob("*"))

    outcome = harness("run", *RECORDED, *FIVE, "--recut", "3", "--cassettes", str(cassettes))

    assert outcome.code == 0
    assert "PASS  40 cells (20 whole, 20 streamed, 75 recuts): 38 pass" in outcome.out
    assert sorted(cassettes.rglob("*")) == before


def without_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the SDK are gone."""
    for package in ("openai_chat", "_openai"):
        monkeypatch.delitem(sys.modules, f"harness.adapters.{package}.client", raising=False)
    monkeypatch.setitem(sys.modules, "openai", None)


def test_targets_whose_sdk_is_missing_are_left_out_aloud(
    harness: Command, cassettes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_openai(monkeypatch)
    monkeypatch.setattr(environment, "installed_version", lambda name: None if name == "openai" else version(name))

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


def test_with_the_network_shut_a_replay_runs_and_a_server_is_missed(cassettes: Path) -> None:
    if subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let us make a network namespace")
    words = ["run", "call-single", "--target=openai-chat"]  # its SDK is imported in half the time of others
    runs = [[*words, f"--cassettes={cassettes}"], [*words, "--mode=reference"]]
    code = f"import sys; from harness.cli.main import main; sys.exit(str([main(words) for words in {runs}]))"

    done = subprocess.run(
        ["unshare", "-rn", sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.stdout.startswith("PASS  2 cells")
    assert done.stderr == (
        "harness: the server of this run cannot be reached on 127.0.0.1: Network is unreachable. Where the network is "
        "shut off, loopback has to stay up, as with 'ip link set lo up'; a replay of the shipped adapters needs none.\n"
        "[0, 2]\n"
    )


@pytest.mark.skipif(not shipped_folder("cassettes").is_dir(), reason="no cassettes are shipped with this checkout")
def test_shipped_scenarios_pass_strictly_from_any_folder(harness: Command) -> None:
    result = harness("run", "--strict", "-n1", "-k", "call-")  # .ci/run runs all

    assert result.code == 0, result.out + result.err
    assert len(result.out.splitlines()) <= 60


def test_sound_is_sent_by_the_models_that_are_made_for_it(harness: Command) -> None:
    words = ("run", "--mode", "reference", "audio-from-user", "--target", "openai-chat")
    others, made = harness(*words), harness(*words, "--model", "openai-chat=gpt-audio")
    assert (others.code, made.code) == (2, 0)
    assert "does not have: audio" in " ".join(others.out.split())
    assert made.out.startswith("PASS  2 cells")
