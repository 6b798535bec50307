"""What a long run takes of memory: it must not grow with its scenarios as they are read, nor with files that were."""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.running import trial
from harness.running.forks import WORTH
from harness.running.play import Playing
from harness.running.workers.pool import played
from harness.scenarios import packed
from harness.scenarios.schema import Scenario
from tests.benchmarks.contenders import ROOT
from tests.cli.conftest import Command, Outcome

SOME = ("call-single", "call-parallel-same-tool", "error-429", "json-mode", "stream-split-characters", "system-changed")

SCENARIO = """\
version: 1
id: call-no-{number}
title: One call gets one result, number {number}
covers: [id-matching, tools]
requires: [tools]
tools:
  - name: get_weather
    description: Current weather in a city.
    parameters: {{type: object, properties: {{city: {{type: string, description: City name}}}}, required: [city]}}
    results:
      - return: {{city: Reykjavik, temp_c: -3, sky: sleet}}
turns:
  - user: How cold is it in Reykjavik? Number {number}.
    model:
      - calls: [{{get_weather: {{city: Reykjavik}}}}]
      - text: It is -3 °C with sleet in Reykjavik, says {number}.
    expect: {{text: {{contains: "3"}}, calls: [{{name: get_weather}}]}}
"""

_PEAK = """
import atexit, sys
from harness.cli.main import main
atexit.register(lambda: sys.stderr.write("\\n" + open("/proc/self/status").read()))
sys.exit(main())
"""


def written(folder: Path, number: int) -> Path:
    """A folder of so many scenarios."""
    folder.mkdir()
    for each in range(number):
        (folder / f"call-no-{each}.yaml").write_text(SCENARIO.format(number=each), encoding="utf-8")
    return folder


def peak(*words: str, code: int) -> int:
    """The most memory that a command has held, in KiB."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "-c", _PEAK, *words], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == code, ended.stderr
    found = re.search(r"^VmHWM:\s*(\d+) kB$", ended.stderr, re.MULTILINE)
    assert found is not None
    return int(found[1])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process has held")
def test_a_scenario_more_takes_little_of_a_long_run(folder: Path) -> None:
    """Parsed, one takes 10 KiB; what reading its file left behind until somebody looked for cycles took 20."""
    few, many = 20, 3_000
    words = ("run", "--mode=reference", "--target=claude-cli", "-n1")  # which has no tools: nothing else is imported

    before = peak(*words, str(written(folder / "few", few)), code=2)
    after = peak(*words, str(written(folder / "many", many)), code=2)

    assert (after - before) / (many - few) < 8


def test_no_more_scenarios_are_in_memory_than_are_played(
    harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def counted(*cell: Any) -> Playing:
        seen.append(sum(type(each) is Scenario and each.id.startswith("call-no-") for each in gc.get_objects()))
        return played(*cell)

    monkeypatch.setattr(packed, "ROOM", 0)
    monkeypatch.setattr(trial, "played", counted)
    words = (str(written(folder / "scenarios", 40)), "--mode=reference", "--target=openai-chat", "-n1")

    assert harness("run", *words).code == 0
    assert len(seen) >= 80
    # those that are judged together, which have two cells each; that of the cell before, and one that was read last
    assert max(seen) <= trial.TOGETHER / 2 + 2


@pytest.mark.parametrize("jobs", ["-n1", "-n2"])
def test_a_run_says_the_same_whether_its_scenarios_are_packed(
    harness: Command, monkeypatch: pytest.MonkeyPatch, jobs: str
) -> None:
    words = ("run", *SOME, "--report=json", jobs)
    plain = said(harness(*words))
    monkeypatch.setattr(packed, "ROOM", 0)

    assert said(harness(*words)) == plain
    assert len(plain["cells"]) > WORTH * 2


def said(outcome: Outcome) -> dict[str, Any]:
    """What a run says but for its times."""
    document: dict[str, Any] = json.loads(outcome.out)
    del document["timing"]
    return document
