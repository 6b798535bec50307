"""What a shell is given to complete, and the script by which it asks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.apis import registry
from harness.cli.main import COMPLETING, main
from harness.runner.verdicts import known_finding_ids
from tests.cli.conftest import Command

ROOT = Path(__file__).parent.parent.parent


def completed(words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What comes instead of the last word."""
    monkeypatch.setenv(COMPLETING, "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    with pytest.raises(SystemExit):
        main([])
    return capsys.readouterr().out.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("harness comp", ["compare", "completion"]),
        ("harness run --last", ["--last-failed"]),
        ("harness run call-si", ["call-single"]),
        ("harness show mine/", ["mine/sub/", "mine/one.yaml"]),
        ("harness run --target openai", ["openai-chat", "openai-responses"]),
        ("harness run --adapter gem", ["gemini"]),
        ("harness run --model openai-c", ["openai-chat="]),
        ("harness run --variant s", ["stream"]),
        ("harness audit --ignore result-sw", ["result-swapped"]),
        ("harness help iter", ["iterating"]),
        ("harness schema c", ["config"]),
        ("harness list c", ["cassettes"]),
        ("harness run --target nosuch", []),
        ("harness run none/at/all/", []),
    ],
)
def test_what_has_a_name_is_completed(
    words: str,
    expected: list[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (folder / "mine" / "sub").mkdir(parents=True)
    for name in ("one.yaml", "two.txt"):
        (folder / "mine" / name).touch()

    assert sorted(completed(words, monkeypatch, capsys)) == sorted(expected)


@pytest.mark.usefixtures("folder")
def test_all_names_are_offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert completed("harness run --target ", monkeypatch, capsys) == sorted(each.name for each in registry.targets())
    assert completed("harness run --rule ", monkeypatch, capsys) == sorted(known_finding_ids())
    (model, *_) = completed("harness run --model gemini-3=gemini-3", monkeypatch, capsys)
    assert model.startswith("gemini-3=gemini-3")


def test_a_shell_completes_by_the_script(folder: Path) -> None:
    shell = (
        f'harness() {{ {sys.executable} -m harness "$@"; }}; eval "$(harness completion bash)"; '
        'env() { command env "${@:1:3}" bash -c \'exec "$0" -m harness\' ' + sys.executable + "; }; "
        "COMP_WORDS=(harness run call-si); COMP_CWORD=2; _harness_completion harness; echo ${COMPREPLY[@]}"
    )

    done = subprocess.run(
        ["bash", "-c", shell],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("call-single\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_each_shell_has_its_script(harness: Command, shell: str) -> None:
    outcome = harness("completion", shell)

    assert outcome.code == 0
    assert f"complete_{shell if shell in ('bash', 'zsh', 'fish') else 'pow'}" in outcome.out
    assert COMPLETING in outcome.out
