"""Malformed files end in an error that names the file, quickly, within memory, and without a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.main import main
from tests.hardness.commands import Ended, harness, within
from tests.hardness.conftest import Figure
from tests.hardness.malformed import Malformed, every

SECONDS, MEGABYTES = 2.0, 300.0


def placed(malformed: Malformed, folder: Path) -> Path:
    """The folder with the file."""
    path = folder / malformed.name / malformed.path
    path.parent.mkdir(parents=True)
    malformed.put(path)
    return folder / malformed.name


def fault_of(malformed: Malformed, ended: Ended) -> str | None:
    said = " ".join(ended.output.split())
    if ended.code not in ((1, 2) if malformed.sure else (0, 1, 2)):
        return f"{malformed.name} ended with {ended.code}: {said[-300:]}"
    if "Traceback" in said:
        return f"{malformed.name}: a traceback: {said[-300:]}"
    if ended.code and Path(malformed.path).name not in said.replace(" ", ""):
        return f"{malformed.name}: the file is not named: {said[-300:]}"
    return None


def test_some_malformed_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for each in [each for each in every() if each.is_regular][::14]:
        monkeypatch.chdir(placed(each, tmp_path))
        code = main(each.words)
        assert fault_of(each, Ended(code, *capsys.readouterr())) is None


@pytest.mark.long
def test_all_malformed_files_are_refused_in_time_and_memory(tmp_path: Path, figure: Figure) -> None:
    ended = [(each, harness(placed(each, tmp_path), *each.words, until=within(60))) for each in every()]
    seconds = max(measured.cpu_seconds for _, measured in ended)
    megabytes = max(measured.megabytes for _, measured in ended)
    refused = sum(measured.code != 0 for _, measured in ended)
    figure("malformed files", len(ended), f"{refused} refused", most_CPU_seconds=seconds, most_MB=megabytes)
    assert refused >= 240
    assert [fault for each, measured in ended if (fault := fault_of(each, measured))] == []
    assert seconds < SECONDS, max(ended, key=lambda each: each[1].cpu_seconds)[0].name
    assert megabytes < MEGABYTES, max(ended, key=lambda each: each[1].megabytes)[0].name
