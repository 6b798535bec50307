from __future__ import annotations

from pathlib import Path

import pytest

from harness.contract.errors import ScenarioError
from harness.scenarios import packed
from harness.scenarios.load import digest, load_files, scenario_files
from harness.scenarios.packed import load_many
from harness.scenarios.suite import shipped

FILES = scenario_files([shipped("scenarios")])


def test_what_is_packed_is_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "ROOM", 0)

    found, plain = load_many(FILES[::-1]), load_files(FILES)

    assert [*found] == plain
    assert [digest(each) for each in found] == [digest(each) for each in plain]  # of what a file says, not of defaults
    assert (found[-1], [*found[3:5]], len(found)) == (plain[-1], plain[3:5], len(plain))
    with pytest.raises(IndexError):
        found[len(plain)]


def test_one_is_the_same_until_another_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "ROOM", 0)
    found = load_many(FILES)
    first = found[0]

    assert found[0] is first
    assert found[1] is found[1]
    assert found[0] is not first


def test_few_are_kept_as_they_were_read() -> None:
    found = load_many(FILES)
    assert all(one is other for one, other in zip(found, found, strict=True))


def test_what_is_wrong_is_said_of_the_first_file_that_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "ROOM", 0)
    wrong = [tmp_path / "b.yaml", tmp_path / "a.yaml"]
    for file in wrong:
        file.write_text("version: 2\n")

    with pytest.raises(ScenarioError, match=r"b\.yaml"):
        load_many([*FILES[:2], *wrong])
