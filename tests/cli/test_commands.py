"""The command line as a whole: its options, what a shell completes, and what a command imports."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from harness.apis import registry
from harness.cli.main import COMMANDS, COMPLETING, HEADINGS, main
from harness.runner.verdicts import known_finding_ids
from tests.cli.conftest import Command, command_of

NARROWER = {
    "--model": {"serve", "list", "check server", "check gateway", "try"},  # names a model alone, without a target
    "--from": {"reproduce"},  # a run that is kept
    "--to": {"adopt", "accept"},  # where to: a folder, a file
    "--strict": {"list"},  # what is not fresh fails
}
"""What takes another value somewhere, and where: known, and said in its help."""


def options() -> Iterator[tuple[str, str, str | None, str]]:
    """Option, command, what stands for its value (`None`: it takes none), and the help."""
    for name in (*COMMANDS, *(f"check {kind}" for kind in command_of("check").commands)):
        for parameter in command_of(*name.split()).params:
            for option in parameter.opts:
                if option.startswith("-"):
                    flag = getattr(parameter, "is_flag", False)
                    yield option, name, None if flag else parameter.metavar or "", parameter.help or ""


def test_an_option_takes_the_same_kind_of_value_in_every_command() -> None:
    values: dict[str, dict[str | None, set[str]]] = {}
    for option, command, value, _ in options():
        if command not in NARROWER.get(option, ()):
            values.setdefault(option, {}).setdefault(value, set()).add(command)

    assert {option: reported for option, reported in values.items() if len(reported) > 1} == {}


def test_the_version_is_that_of_the_package(harness: Command) -> None:
    assert harness("--version").out == f"harness {version('toolcall-harness')}\n"


def test_every_option_says_what_it_is_for() -> None:
    assert [(command, option) for option, command, _, said in options() if not said and option != "--help"] == []


def test_every_command_stands_under_one_of_the_four_headings() -> None:
    assert len(HEADINGS) == 4
    assert list(COMMANDS) == list(command_of().commands)
    assert "compare" in HEADINGS["Results"]


@pytest.mark.parametrize("command", [*COMMANDS, *(f"check {kind}" for kind in command_of("check").commands)])
def test_the_help_of_a_command_fits(harness: Command, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    lines = harness(*command.split(), "--help").out.splitlines()

    assert len(lines) <= 100
    assert max(map(len, lines)) <= 80


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
    assert completed("harness run --target ", monkeypatch, capsys) == sorted(
        [*(each.name for each in registry.all_targets()), "all-servers"]
    )
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


SDKS = {"anthropic", "google.genai", "openai"}
LATE = {"dask", "jinja2", "jsonschema", "harness.cassettes.loopback_server", "vcr", "harness.cli.check"}

FORKS = """
import gc, os, sys
before = {*sys.modules}
for words in sys.argv[1:]:
    if os.fork():
        os.wait()
        continue
    if "import" in words:
        exec(words)
        sys.stdout.flush()
        os._exit(0)
    sys.stdout, sys.argv = open(os.devnull, "w"), ["harness", *words.split()]
    from harness.cli.main import main
    collections = gc.get_stats()[0]["collections"]
    code = main()
    collections = gc.get_stats()[0]["collections"] - collections
    gc.collect(0)
    collector = gc.get_threshold()[0], gc.get_freeze_count() > 0, len(gc.callbacks)
    print(code, collections, *collector, *({*sys.modules} - before), file=sys.stderr, flush=True)
    os._exit(0)
"""
"""Run each command or program in a fork of a process that has imported nothing."""


LOADING = """
import socket, sys, threading
before = {*sys.modules}
import harness
print(*({*sys.modules} - before))
from harness import Message, Thread, Usage, ask
print(*({*sys.modules} - before))

def refuse(*_, **__):
    raise AssertionError("a connection")

socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from harness.apis.prices import cost, priced_models
assert cost("anthropic", "claude-opus-5-5", Usage(10, 5)) and priced_models("gemini", "")
assert [each.name for each in threading.enumerate()] == ["MainThread"]

import harness.cli.main
from harness.equivalence.schema_changes import change
change({"not": {"type": "string"}}, {"not": {"type": "null"}})
assert not [name for name in sys.modules if name.startswith("hypothesis")]
"""
"""Prices need no request, and judging a schema no generator of tests."""


def test_names_and_commands_import_only_what_they_need_and_the_garbage_collector_waits() -> None:
    words = [LOADING, "--help", "providers", "list rules", "run call-single --target openai-chat"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", FORKS, *words]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)

    reported = [line.split() for line in ended.stderr.splitlines()]
    plain, providers, rules, run = ({*each[5:]} for each in reported)
    assert plain - {"__future__", "errno", "contextvars", "_contextvars"} == {
        "harness",
        "harness.cli",
        "harness.cli.main",
    }
    assert providers & SDKS == set()
    assert rules & (SDKS | {"harness.cli.check", "harness.cli.run", "harness.cli.execution", "rich"}) == set()
    assert run & ({"anthropic", "google.genai"} | LATE) == set()
    assert reported[-1][:5] == ["0", "0", "20000", "True", "0"]
    package, names = ended.stdout.splitlines()
    assert {*package.split()} - {"__future__", "errno"} == {"harness"}
    assert {name.partition(".")[0] for name in names.split()} - {*sys.stdlib_module_names} == {
        "harness",
        "typing_extensions",
    }
