"""Changes of an adapter's code at random, each run through the whole suite: what survives is a change that no
scenario and no rule has noticed.

`python -m tests.hardness.mutants openai-chat --sample 150` prints the survivors. Most are code for other models, or say
the same in another way; a loss among them is a hole in the suite. POSIX only: each change has a process of its own.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import random
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import harness
from harness.cli.main import main

ADAPTERS = Path(harness.__file__).parent / "adapters"
PACKAGES = {
    "anthropic": ("anthropic", "_common"),
    "openai-chat": ("openai_chat", "_openai", "_common"),
    "openai-responses": ("openai_responses", "_openai", "_common"),
    "gemini-3": ("gemini", "_common"),
}
"""Where the code of a target's adapter is."""

_SECONDS = 120
"""What hangs longer has been noticed."""

Change = tuple[int, str, Callable[[], object]]
"""The line, the change in words, and what makes it."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A changed module. `line` is where it was changed, `how` in words."""

    file: Path
    line: int
    how: str
    source: str

    @property
    def module(self) -> str:
        """The name by which it is imported."""
        parts = self.file.relative_to(ADAPTERS.parent.parent).with_suffix("").parts
        return ".".join(part for part in parts if part != "__init__")


def mutants(file: Path) -> Iterator[Mutant]:
    """All changes of a module."""
    text = file.read_text(encoding="utf-8")
    for number in range(sum(1 for _ in _changes(ast.parse(text)))):
        tree = ast.parse(text)
        line, how, change = list(_changes(tree))[number]
        change()
        yield Mutant(file, line, how, ast.unparse(ast.fix_missing_locations(tree)))


def _changes(tree: ast.Module) -> Iterator[Change]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                yield from _choices(node)
                yield from _entries(node)
                yield from _statements(node)


def _choices(node: ast.AST) -> Iterator[Change]:
    """A condition that always holds or never does, and a result that is none."""
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        for value in (True, False):
            yield (
                node.lineno,
                f"condition {value}: {_said(node.test)}",
                partial(setattr, node, "test", _constant(value)),
            )
    if isinstance(node, ast.Return) and node.value is not None:
        yield node.lineno, f"returns None: {_said(node)}", partial(setattr, node, "value", _constant(None))


def _entries(node: ast.AST) -> Iterator[Change]:
    """One condition, entry or argument fewer."""
    match node:
        case ast.BoolOp():
            lists: tuple[list[Any], ...] = (node.values,)
        case ast.Dict():
            lists = (node.values, node.keys)
        case ast.Call():
            lists = (node.keywords,)
        case ast.comprehension():
            lists = (node.ifs,)
        case _:
            return
    for index, entry in enumerate(lists[-1]):
        named = entry or lists[0][index]
        yield named.lineno, f"without: {_said(named)}", partial(_taken, lists, index)


def _taken(lists: Iterable[list[Any]], index: int) -> None:
    for each in lists:
        del each[index]


def _statements(node: ast.AST) -> Iterator[Change]:
    """A statement that does nothing."""
    for name in ("body", "orelse"):
        block = getattr(node, name, None)
        for index, statement in enumerate(block if isinstance(block, list) else ()):
            if isinstance(statement, ast.Expr | ast.AugAssign | ast.Assign) and not _is_docstring(statement):
                yield statement.lineno, f"dropped: {_said(statement)}", partial(block.__setitem__, index, ast.Pass())


def _constant(value: object) -> ast.Constant:
    return ast.Constant(value)  # pyright: ignore[reportArgumentType]


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _said(node: ast.AST) -> str:
    return ast.unparse(node).split("\n")[0][:90]


class _Changed(MetaPathFinder, Loader):
    """Imports the changed module in place of the one that is installed."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._mutant.module:
            return None
        places = [str(self._mutant.file.parent)] if self._mutant.file.stem == "__init__" else None
        return importlib.util.spec_from_file_location(
            fullname, self._mutant.file, loader=self, submodule_search_locations=places
        )

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._mutant.source, str(self._mutant.file), "exec"), module.__dict__)  # noqa: S102


def survives(mutant: Mutant | None, target: str) -> bool:
    """Whether the suite passes with it; `None` is the code as it stands."""
    child = os.fork()
    if child == 0:
        os._exit(_outcome(mutant, target))
    return os.waitpid(child, 0)[1] == 0


def _outcome(mutant: Mutant | None, target: str) -> int:
    signal.alarm(_SECONDS)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    if mutant is not None:
        sys.meta_path.insert(0, _Changed(mutant))
    try:
        return main(["run", "--mode=reference", "--strict", "--recut=1", "-x", "-n1", f"--target={target}"])
    except BaseException:  # noqa: BLE001 - whatever it is, it was noticed
        return 1


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.hardness.mutants")
    parser.add_argument("target", choices=PACKAGES)
    parser.add_argument("--sample", type=int, default=100, help="how many changes are played")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if not survives(None, given.target):
        sys.exit("the suite fails as it stands")
    every = [
        each
        for package in PACKAGES[given.target]
        for file in sorted((ADAPTERS / package).rglob("*.py"))
        for each in mutants(file)
    ]
    chosen = random.Random(given.seed).sample(every, min(given.sample, len(every)))  # noqa: S311 - to be had again
    left = 0
    for mutant in sorted(chosen, key=lambda each: (each.file, each.line)):
        if survives(mutant, given.target):
            left += 1
            sys.stdout.write(f"{mutant.file.relative_to(ADAPTERS)}:{mutant.line}  {mutant.how}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{left} of {len(chosen)} survived; there are {len(every)}\n")


if __name__ == "__main__":
    _main()
