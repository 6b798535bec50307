"""Reproductions that are run before they are written."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import typer

from harness.checks.issues import issue_text
from harness.checks.reproduction import Reproduction
from harness.checks.script_code import CannotWrite, LacksAnswer
from harness.model.errors import UsageError
from harness.results import Finding


@dataclass(frozen=True, slots=True)
class ShownScript:
    """A script that shows a finding, with the name of its file and its output. Without a script, there is a reason."""

    file: str
    script: str = ""
    printed: str = ""
    reason: str = ""


def first_shown(scripts: Iterable[str], file: str, finding: Finding) -> ShownScript:
    """Run possible scripts, and return the first one that shows the finding."""
    reason = ""
    try:
        for script in scripts:
            beside = Path.cwd() if file.endswith(".mjs") else None  # Node looks for packages in the folders above
            with tempfile.TemporaryDirectory(dir=beside) as folder:
                (Path(folder) / file).write_text(script, encoding="utf-8")
                printed = _output(Path(folder) / file)
            last = printed.splitlines()[-1]
            if last.startswith("AssertionError") and (shown := _with_exception(script, printed, finding)):
                return ShownScript(file, shown, printed)
            reason = reason or f"without harness, the fault is not seen. The last line of the script's output: {last}"
    except CannotWrite as unknown:
        reason = f"an argument of the library's call cannot be written as code: {unknown}."
    except LacksAnswer:
        reason = "the client returns nothing that a script could send back with the state that is lost."
    return ShownScript(file, reason=reason or "the finding has no value that a script could compare.")


def _with_exception(script: str, printed: str, finding: Finding) -> str:
    """Return the script, extended to re-raise any exception whose type differs from the one in its output.

    A script that printed no exception is unchanged. Return an empty text if the exception is probably a fault of the
    script itself.
    """
    raised = re.search(r"^raised: (\w+)\(", printed, re.MULTILINE)
    check = re.search(r"^assert (error is None|received),", script, re.MULTILINE)
    if check is None or raised is None:
        return script
    name = raised[1]
    if name in _SCRIPT_FAULTS and name not in finding.message:
        return ""
    failed = "error is not None" if check[1] == "error is None" else "not received"
    other = f"if {failed} and type(error).__name__ != {name!r}:\n    raise error\n"
    return script[: check.start()] + other + script[check.start() :]


_SCRIPT_FAULTS = ("NameError", "ImportError", "ModuleNotFoundError", "SyntaxError", "TypeError", "IndexError")
"""Exceptions that a bug in the script itself may cause."""


def _output(script: Path) -> str:
    """Run a script in the working folder, and return its output without the lines of a traceback."""
    nowhere = dict.fromkeys(("HTTPS_PROXY", "https_proxy"), "http://127.0.0.1:9")  # no provider is reached by mistake
    environment = {
        **os.environ,
        **nowhere,
        "PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")]),
    }
    is_node = script.suffix == ".mjs"
    command = ["node" if is_node else sys.executable, str(script)]
    try:
        done = subprocess.run(  # noqa: S603 - a file that was just written
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {_TIMEOUT_SECONDS:g} seconds."
    lines = done.stderr.strip().splitlines() or [""]
    failed = (f"AssertionError: {each.partition(': ')[2]}" for each in lines if each.startswith("AssertionError"))
    ended = next(failed, lines[-1]) if done.returncode else "the script ended normally"
    return f"{done.stdout.strip()}\n{ended}".strip()


_TIMEOUT_SECONDS = 60.0


def write_reproduction(made: Reproduction, shown: ShownScript, curl: str, folder: Path) -> int:
    """Write a script, or else the command `curl`, with the text of an issue. Return the exit code of
    `harness reproduce`.

    Raises:
        UsageError: a file exists.
    """
    name, kind = Path(shown.file).stem, Path(shown.file).suffix
    curl = "" if shown.script else curl
    texts = {
        kind: shown.script,
        ".sh": curl,
        ".md": issue_text(made, shown.printed, shown.script or curl, kind.strip(".") if shown.script else "sh"),
    }
    written = write_files(folder, name, texts)[0]
    if not shown.script:
        what = "" if made.gateway is not None else " of the library's call"
        typer.echo(f"No script{what}: {shown.reason}")
        return 0 if curl else 1
    runner = Path(sys.executable).name if kind == ".py" else "node"
    where = "Run it here" if made.program else "Run where the library is installed"
    where = "Run it while the gateway runs" if made.gateway is not None else where
    typer.echo(f"{where}: {shlex.join([runner, str(written)])}")
    typer.echo(f"It was run here: {shown.printed.splitlines()[-1]}")
    return 0


def write_files(folder: Path, name: str, texts: Mapping[str, str]) -> list[Path]:
    """Write the texts that are not empty, print the names of their files, and return them. `texts` maps suffixes to
    texts.

    Raises:
        UsageError: a file exists.
    """
    files = [_write(folder / f"{name}{suffix}", text) for suffix, text in texts.items() if text]
    typer.echo(f"Written: {', '.join(map(str, files))}")
    return files


def _write(file: Path, text: str) -> Path:
    if file.exists():
        raise UsageError(f"{file}: it exists. Remove it, or name another folder by --output.")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file
