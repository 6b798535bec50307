"""What a command does not need it does not import: that is what its start takes, whatever the machine."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.benchmarks.contenders import ROOT

_SDKS = ["anthropic", "google.genai", "openai"]
_LATE = [
    "dask",
    "jinja2",
    "jsonschema",
    "harness.cassettes.loopback_server",
    "vcr",
    "harness.cli.check",
    "harness.cli.providers",
]

_REPORTED = """
import atexit, sys
from harness.cli.main import main
atexit.register(lambda: sys.stderr.write("\\n" + " ".join(sys.modules)))
sys.exit(main())
"""


def imported(*words: str) -> set[str]:
    """The modules that a command has imported when it ends."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "-c", _REPORTED, *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return set(ended.stderr.rpartition("\n")[2].split())


@pytest.mark.parametrize(
    ("words", "unneeded"),
    [
        (["--version"], [*_SDKS, *_LATE, "httpx2", "yaml", "harness.plugins", "harness.cli.options"]),
        (["providers"], _SDKS),
        (["list", "rules"], [*_SDKS, "harness.cli.check", "harness.cli.run", "harness.cli.execution", "rich"]),
        (["run", "call-single", "--target", "openai-chat"], ["anthropic", "google.genai", *_LATE]),
    ],
)
def test_a_command_imports_only_what_it_needs(words: list[str], unneeded: list[str]) -> None:
    assert sorted(imported(*words) & set(unneeded)) == []


_COLLECTED = """
import gc, sys
from harness.cli.main import main
before = gc.get_stats()[0]["collections"]
code = main()
imported = gc.get_stats()[0]["collections"] - before
gc.collect(0)
after = gc.get_threshold()[0], gc.get_freeze_count() > 0
gc.collect(0)
sys.stderr.write(f"\\n{imported} {after} {len(gc.callbacks)}")
sys.exit(code)
"""


def test_the_garbage_collector_waits_for_the_imports() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _COLLECTED, "run", "call-single", "--target", "openai-chat"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    collections, after = ended.stderr.rpartition("\n")[2].split(" ", 1)

    assert int(collections) == 0
    assert after == "(20000, True) 0"
