"""Malformed files end in an error with the file, quickly, within memory, and in no traceback."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.hardness.commands import Commands, Ended, commands, within
from tests.hardness.conftest import Figure
from tests.hardness.malformed import Malformed, every

SECONDS, MEGABYTES = 2.0, 300.0


def met(malformed: Iterable[Malformed], folder: Path) -> list[tuple[Malformed, Ended]]:
    with commands(folder) as command:
        return [(each, met_by(command, each, folder / each.name)) for each in malformed]


def met_by(command: Commands, malformed: Malformed, folder: Path) -> Ended:
    path = folder / malformed.path
    path.parent.mkdir(parents=True)
    malformed.put(path)
    return command.at(folder)(*malformed.words, until=within(60))


def wrong_with(malformed: Malformed, measured: Ended) -> str | None:
    said = " ".join(measured.output.split())
    if measured.code not in ((1, 2) if malformed.sure else (0, 1, 2)):
        return f"ended with {measured.code}: {said[-300:]}"
    if "Traceback" in said:
        return f"a traceback: {said[-300:]}"
    if measured.code and Path(malformed.path).name not in said.replace(" ", ""):
        return f"the file is not named: {said[-300:]}"
    return None


def test_some_malformed_files_are_refused(tmp_path: Path) -> None:
    met_files = met(list(every())[::10], tmp_path)

    assert [(each.name, wrong_with(each, measured)) for each, measured in met_files if wrong_with(each, measured)] == []


@pytest.mark.long
def test_all_malformed_files_are_refused_in_time_and_memory(tmp_path: Path, figure: Figure) -> None:
    met_files = met(every(), tmp_path)
    seconds = max(measured.cpu_seconds for _, measured in met_files)
    megabytes = max(measured.megabytes for _, measured in met_files)

    refused = sum(measured.code != 0 for _, measured in met_files)
    figure("malformed files", len(met_files), f"{refused} refused", most_CPU_seconds=seconds, most_MB=megabytes)

    assert refused >= 240
    assert [(each.name, wrong_with(each, measured)) for each, measured in met_files if wrong_with(each, measured)] == []
    assert seconds < SECONDS, max(met_files, key=lambda each: each[1].cpu_seconds)[0].name
    assert megabytes < MEGABYTES, max(met_files, key=lambda each: each[1].megabytes)[0].name
