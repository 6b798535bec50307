"""Broken adapters end in an error of theirs, with its place, quickly, within memory, and in no traceback."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.hardness.adapters import BROKEN, HARMLESS, HEAD, LIMITED, STREAMING
from tests.hardness.commands import Ended, commands, within
from tests.hardness.conftest import Figure

RUN = ("run", "call-single", "--mode", "reference", "--target", "openai-chat", "--cell-timeout", "3")
SAMPLE = ("raises", "name-number", "capabilities-none", "chat-gives-wrong-parts", "chat-gives-far-too-much")
SOUND = ("closes-stdout", "forks-and-goes-on")


def outcomes(names: Iterable[str], folder: Path) -> dict[str, Ended]:
    every = {**BROKEN, **STREAMING, **HARMLESS}
    found: dict[str, Ended] = {}
    with commands(folder) as command:
        for name in names:
            module = name.replace("-", "_")
            (folder / f"{module}.py").write_text(HEAD + every[name], encoding="latin-1")
            variant = "stream" if name in STREAMING else "whole"
            found[name] = command(*RUN, "--adapter", f"{module}:ADAPTER", "--variant", variant, until=within(60))
    return found


def wrong_with(name: str, measured: Ended) -> str | None:
    said = " ".join(measured.output.split())
    if measured.code not in ((0,) if name in HARMLESS else (1, 2)):
        return f"{name} ended with {measured.code}: {said[-300:]}"
    if "Traceback" in said:
        return f"{name}: a traceback: {said[-300:]}"
    if name not in HARMLESS and not {"error", "cannot be used", "unknown capability", "speaks"} & set(_words(said)):
        return f"{name}: no error is named: {said[-300:]}"
    return None


def _words(said: str) -> list[str]:
    return [phrase for phrase in ("error", "cannot be used", "unknown capability", "speaks") if phrase in said]


def all_wrong(found: dict[str, Ended]) -> list[str | None]:
    return [wrong for name, measured in found.items() if (wrong := wrong_with(name, measured))]


def test_some_broken_adapters_end_in_an_error_and_odd_ones_pass(tmp_path: Path) -> None:
    assert all_wrong(outcomes((*SAMPLE, *SOUND), tmp_path)) == []


@pytest.mark.long
def test_all_broken_adapters_end_in_an_error_in_time_and_memory(tmp_path: Path, figure: Figure) -> None:
    found = outcomes((*BROKEN, *STREAMING, *HARMLESS), tmp_path)
    quick = {name: measured for name, measured in found.items() if name not in LIMITED}
    seconds = max(measured.cpu_seconds for measured in quick.values())
    # An adapter that answers too much has made it in a process of its own, of which nothing is said here.
    megabytes = max(measured.megabytes for name, measured in found.items() if name != "chat-gives-far-too-much")

    figure(
        "broken adapters", len(BROKEN) + len(STREAMING), "each an error", most_CPU_seconds=seconds, most_MB=megabytes
    )
    figure("odd adapters", len(HARMLESS), "each passes")

    assert len(BROKEN) + len(STREAMING) >= 55
    assert all_wrong(found) == []
    assert megabytes < 300.0
