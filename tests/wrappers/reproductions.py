"""The proof of `harness reproduce`: scripts for true causes, run where only the library is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.wrappers import NodeWrapper, Wrapper, find
from tests.wrappers import play

PROOF = Path(__file__).parent / "proof.txt"
"""One cause a line: adapter, rule, scenario, variant; and versions for a fault that is mended: broken, mended."""

FAULT, GONE = "AssertionError", "passes"


@dataclass(frozen=True)
class Proof:
    """A cause to reproduce. `versions` are those of the library with the fault and without it, if it is mended."""

    adapter: str
    rule: str
    scenario: str
    variant: str
    versions: tuple[str, ...] = ()

    @property
    def wrapper(self) -> Wrapper:
        found = find(self.adapter)
        assert found is not None, self.adapter
        return found[0]

    @property
    def name(self) -> str:
        return "-".join((self.adapter, self.rule, self.scenario, self.variant, *self.versions[:1]))


def proofs(libraries: Sequence[str] = ()) -> list[Proof]:
    """Return the causes of these libraries, or all."""
    lines = [line.split() for line in PROOF.read_text(encoding="utf-8").splitlines() if line.strip()]
    every = [Proof(*words[:4], versions=tuple(words[4:])) for words in lines]
    return [each for each in every if not libraries or each.wrapper.library in libraries]


def table(libraries: Sequence[str], venvs: Path, folder: Path) -> Iterator[str]:
    """Write and run the scripts. Yield the lines of a table in Markdown."""
    yield "| adapter | rule | scenario | lines (of the file) | packages | with the library alone | mended version |"
    yield "|---|---|---|---|---|---|---|"
    for each in proofs(libraries):
        yield row(each, venvs.absolute(), folder.absolute() / each.name)


def row(proof: Proof, venvs: Path, folder: Path) -> str:
    """Write the script of a cause, and run it with the library alone."""
    wrapper, (broken, *mended) = proof.wrapper, proof.versions or ("",)
    at = venvs / (wrapper.library.replace("-", "_") + (f"-{broken}" if broken else ""))
    is_node = isinstance(wrapper, NodeWrapper)
    python = (play.of_node if is_node else play.of_python)(wrapper, broken, at, fresh=False)
    shutil.rmtree(folder, ignore_errors=True)
    target, model = play.TARGETS[wrapper.api(wrapper.adapters[proof.adapter])]
    chosen = ["--target", target, *(["--model", f"{target}={model}"] if model else []), "--variant", proof.variant]
    words = ["reproduce", proof.scenario, "--adapter", proof.adapter, "--rule", proof.rule, *chosen]
    command = [str(python), "-m", "harness", *words, "--output", str(folder)]
    done = subprocess.run(command, cwd=at, env=play.paths(), capture_output=True, text=True, check=False)
    script = next((each for each in folder.glob("*.*") if each.suffix in (".py", ".mjs")), None)
    if script is None:
        why = (done.stdout or done.stderr).strip().splitlines()[-1]
        return f"| {proof.adapter} | {proof.rule} | {proof.scenario} {proof.variant} | no script: {why} | | | |"
    text = script.read_text(encoding="utf-8")
    packages = text.partition("npm install " if is_node else "pip install ")[2].partition("\n")[0]
    alone_in = node_folder if is_node else alone_with
    first, *others = packages.replace("'", "").split()
    alone = outcome(script, alone_in([first, *others], venvs))
    pin = "@" if is_node else "=="
    name = first.rpartition(pin)[0]
    fixed = [outcome(script, alone_in([f"{name}{pin}{each}", *others], venvs)) for each in mended]
    lines = f"{len(code_lines(text))} ({len(text.splitlines())})"
    shown = [proof.adapter, proof.rule, f"{proof.scenario} {proof.variant}", lines, packages.replace("'", ""), alone]
    return f"| {' | '.join([*shown, *(fixed or ['']), ''])}".rstrip()


def code_lines(text: str) -> list[str]:
    """Return the lines of a script without blank ones and without the answers of the server."""
    rest = re.sub(
        r"^(const )?ANSWERS = .*?^(received = \[\]|const \[requests[^\n]*)$", "", text, flags=re.DOTALL | re.MULTILINE
    )
    return [line for line in rest.splitlines() if line.strip()]


def alone_with(packages: Sequence[str], venvs: Path) -> Path:
    """Return the Python of an environment that has only these packages."""
    folder = venvs / "alone" / "-".join(packages).replace("[", "_").replace("]", "")
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        uv = shutil.which("uv")
        install = [uv, "pip", "install", "-q", "--python", str(python)] if uv else [str(python), "-m", "pip", "install"]
        subprocess.run([*install, *packages], check=True, capture_output=True)
    return python


def node_folder(packages: Sequence[str], venvs: Path) -> Path:
    """Return a folder in which only these npm packages are installed."""
    folder = venvs / "alone" / "-".join(packages).replace("/", "_")
    if not (folder / "node_modules").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        subprocess.run(["npm", "install", "--silent", *packages], cwd=folder, check=True, capture_output=True)
    return folder


def outcome(script: Path, where: Path) -> str:
    """Run a script with a Python, or in a folder with `node_modules`. Return how it ends."""
    if where.is_dir():  # Node looks for packages in the folders above a script
        script = Path(shutil.copy(script, where))
    command = ["node", script.name] if script.suffix == ".mjs" else [str(where), "-I", script.name]
    done = subprocess.run(command, cwd=script.parent, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode == 0:
        return GONE
    lines = done.stderr.strip().splitlines()
    found = [each.strip().removeprefix("Uncaught ") for each in lines]
    return FAULT if any(each.startswith(FAULT) for each in found) else f"broken: {lines[-1]}"
