"""Hints for common mistakes. `python -m tests.scenarios.test_hints` writes the golden file anew."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import pytest

from harness.scenarios.load import problems

BASE = """\
version: 1
id: hint
title: A tool is called
covers: [tools]
requires: [tools]
tools:
  - name: look
    description: Looks.
    parameters: {type: object, properties: {at: {type: string}}, required: [at]}
    results: [{return: seen}]
turns:
  - user: Look.
    model:
      - calls: [{look: {at: there}}]
      - text: Seen.
"""

FILE = Path(__file__).parent / "golden" / "hints.txt"
"""Changes of the lines of `BASE`, each followed by the errors of the file."""

GOLDEN = FILE.read_text(encoding="utf-8")


def changed(change: list[str]) -> str:
    """Apply a change to `BASE`. Lines with a plus replace those with a minus. Without any they are inserted before the
    turns or at the end."""
    gone = [f"{line[2:]}\n" for line in change if line.startswith("- ")]
    new = "".join(f"{line[2:]}\n" for line in change if line.startswith("+ "))
    if gone:
        head, first, tail = BASE.partition("".join(gone))
        assert first, gone
        return head + new + tail
    return BASE + new if new.startswith(("  ", "expect")) else BASE.replace("turns:\n", f"{new}turns:\n")


@pytest.mark.parametrize("example", GOLDEN.strip().split("\n\n"), ids=range(GOLDEN.strip().count("\n\n") + 1))
def test_a_mistake_has_its_hint(folder_of_hints: Path, example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder_of_hints)
    assert with_errors(example) == example


def with_errors(example: str) -> str:
    change = [line for line in example.splitlines() if line[:2] in ("- ", "+ ")]
    Path("hint.yaml").write_text(changed(change), encoding="utf-8")
    return "\n".join([*change, *map(str, problems(Path("hint.yaml")))])


@pytest.fixture
def folder_of_hints(tmp_path: Path) -> Path:
    (tmp_path / "hint.yaml").write_text(BASE, encoding="utf-8")
    assert problems(tmp_path / "hint.yaml") == []
    return tmp_path


QUOTED = re.findall(r"^- (.*)\n\+ ( *).*\n.* needs quotes: write (.*)\.$", GOLDEN, re.MULTILINE)


@pytest.mark.parametrize(("before", "margin", "advice"), QUOTED, ids=[advice for _, _, advice in QUOTED])
def test_the_line_that_is_advised_can_be_read(folder_of_hints: Path, before: str, margin: str, advice: str) -> None:
    file = folder_of_hints / "hint.yaml"
    file.write_text(BASE.replace(f"{before}\n", f"{margin}{advice}\n"), encoding="utf-8")

    assert problems(file) == []
    assert advice in file.read_text(encoding="utf-8")


if __name__ == "__main__":
    os.chdir(tempfile.mkdtemp())
    FILE.write_text("\n\n".join(map(with_errors, GOLDEN.strip().split("\n\n"))) + "\n", encoding="utf-8")
