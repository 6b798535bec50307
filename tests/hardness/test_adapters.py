"""Broken adapters end in an error that names them, quickly, within memory, and without a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.main import main
from tests.hardness.adapters import BROKEN, HARMLESS, HEAD, LIMITED, STREAMING
from tests.hardness.commands import Ended, harness, within
from tests.hardness.conftest import Figure

RUN = ("run", "call-single", "--mode", "reference", "--target", "openai-chat", "--cell-timeout", "3")
EVERY = {**BROKEN, **STREAMING, **HARMLESS}


def words(name: str, folder: Path) -> tuple[str, ...]:
    """Write the adapter's module, and return the command that runs it."""
    module = name.replace("-", "_")
    (folder / f"{module}.py").write_text(HEAD + EVERY[name], encoding="latin-1")
    return (*RUN, "--adapter", f"{module}:ADAPTER", "--variant", "stream" if name in STREAMING else "whole")


def fault_of(name: str, ended: Ended) -> str | None:
    said = " ".join(ended.output.split())
    if ended.code not in ((0,) if name in HARMLESS else (1, 2)):
        return f"{name} ended with {ended.code}: {said[-300:]}"
    if "Traceback" in said:
        return f"{name}: a traceback: {said[-300:]}"
    named = ("error", "cannot be used", "unknown capability", "speaks")
    if name not in HARMLESS and not any(phrase in said for phrase in named):
        return f"{name}: no error is named: {said[-300:]}"
    return None


@pytest.mark.parametrize("name", ["chat-gives-wrong-parts", "forks-and-goes-on"])
def test_a_broken_adapter_ends_in_an_error_and_an_odd_one_passes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = main(words(name, tmp_path))
    assert fault_of(name, Ended(code, *capsys.readouterr())) is None


@pytest.mark.long
def test_all_broken_adapters_end_in_an_error_in_time_and_memory(tmp_path: Path, figure: Figure) -> None:
    ended = {name: harness(tmp_path, *words(name, tmp_path), until=within(60)) for name in EVERY}
    seconds = max(each.cpu_seconds for name, each in ended.items() if name not in LIMITED)
    # An adapter that answers too much has made it in a process of its own, which is not measured here.
    megabytes = max(each.megabytes for name, each in ended.items() if name != "chat-gives-far-too-much")
    broken = len(BROKEN) + len(STREAMING)
    figure("broken adapters", broken, "each an error", most_CPU_seconds=seconds, most_MB=megabytes)
    figure("odd adapters", len(HARMLESS), "each passes")
    assert broken >= 55
    assert [fault for name, each in ended.items() if (fault := fault_of(name, each))] == []
    assert megabytes < 300.0
