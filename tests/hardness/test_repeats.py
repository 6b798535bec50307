"""The same run says the same, whatever the hash seed, the order of arguments, -n, the time zone, the locale, the
folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.hardness.conftest import Figure
from tests.hardness.provider import ROOT

SCENARIOS = ("call-parallel-same-tool", "json-mode", "system-changed")
PLAIN: Mapping[str, str] = {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
SURROUNDINGS: Mapping[str, Mapping[str, str]] = {
    "hash seed 1": {"PYTHONHASHSEED": "1"},
    "hash seed 4242": {"PYTHONHASHSEED": "4242"},
    "random hash seed": {"PYTHONHASHSEED": "random"},
    "time zone ahead": {"TZ": "Pacific/Kiritimati"},
    "time zone behind": {"TZ": "America/St_Johns"},
    "locale C": {"LC_ALL": "C"},
    "locale that is none": {"LC_ALL": "tr_TR.UTF-8"},
    "ASCII": {"PYTHONIOENCODING": "ascii", "LC_ALL": "POSIX"},
}
MODES = (("run",), ("run", "--mode", "reference"))


def reported(folder: Path, words: tuple[str, ...], environment: Mapping[str, str] = PLAIN) -> dict[str, Any]:
    """The reports of a run in `folder` that depend on nothing but what it plays."""
    reports = ("json:run.json", "junit:run.xml", "markdown:run.md")
    command = [sys.executable, "-m", "harness", *words, *(f"--report={each}" for each in reports)]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **PLAIN, **environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    document = json.loads((folder / "run.json").read_text())
    assert document.pop("timing")
    assert document.pop("checkout")["project"] == folder.name
    return document


def same(folder: Path, scenarios: tuple[str, ...]) -> int:
    """Run the scenarios in other ways in each mode; how many runs were held against the plain ones."""
    made = 0
    for mode in MODES:
        recorded = () if mode[1:] else ("--cassettes", str(ROOT / "cassettes"))  # else a scenario of one's own has none
        words = (*mode, *recorded, "--target", "openai-chat", "--target", "gemini-3")
        places = [folder / f"{len(mode)}-{name}" for name in ("one", "another place, with ünicode")]
        for place in places:
            (place / "mine").mkdir(parents=True)
            for name in scenarios:
                shutil.copy(ROOT / "scenarios" / f"{name}.yaml", place / "mine")
        files = tuple(f"mine/{name}.yaml" for name in scenarios)
        plain = reported(places[0], (*words, *files))
        assert plain["summary"]["pass"] == len(plain["cells"]) > 0
        different: list[tuple[Path, tuple[str, ...], Mapping[str, str]]] = [
            (places[1], (*words, *files, "-n", "4"), {"PYTHONHASHSEED": "7"}),
            (places[1], (*words, *files), {}),
            *((places[0], (*words, *files), environment) for environment in SURROUNDINGS.values()),
            (places[0], (*words, *reversed(files)), {}),
        ]
        for place, command, environment in different:
            result = reported(place, command, environment)
            if command != (*words, *files):  # what was typed is repeated as it was typed
                result["invocation"]["selection"] = plain["invocation"]["selection"]
            assert result == plain, (command, environment)
            made += 1
    return made


@pytest.mark.long
def test_a_run_repeats_in_every_way(tmp_path: Path, figure: Figure) -> None:
    scenarios = (*SCENARIOS, "history-two-turns", "stream-text-then-calls", "seeds-code-search-embeddings")
    made = same(tmp_path, scenarios)
    figure("runs in other ways: seeds, order, -n, TZ, …", made, "equal but for timings")
