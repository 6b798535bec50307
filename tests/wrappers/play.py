"""Rows of the matrix: a wrapper in the environment of its library, with the squares and causes of a run."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.reports.finding_causes import Cause, causes
from harness.reports.groups import feature
from harness.results import CellResult, RunResult, Severity, Verdict
from harness.wrappers import WRAPPERS, NodeWrapper, Wrapper

ROOT = Path(__file__).parent.parent.parent
TRACED = Path(__file__).parent / "traced.json"
"""Causes that were traced by hand: whose fault each is, and the place in the library's source."""

TARGETS = {
    "openai-chat": ("openai-chat", "gpt-5.4"),
    "openai-responses": ("openai-responses", None),
    "anthropic": ("anthropic", None),
    "gemini": ("gemini-4", None),
}
"""For each API a target, and a model that accepts tools without further settings."""

RED = {Verdict.FAIL, Verdict.ERROR}
MAX_SECONDS = 3600.0
MAX_EVIDENCE = 400

Row = dict[str, Any]


def rows(library: str, venvs: Path, scenarios: Sequence[str], *, fresh: bool) -> Iterator[Row]:
    """Play all adapters of a library."""
    name, _, version = library.partition("==")
    wrapper = next((each for each in WRAPPERS if each.library == name), None)
    if wrapper is None:
        raise SystemExit(f"{name}: no wrapper has this name. Known: {', '.join(each.library for each in WRAPPERS)}")
    folder = venvs.absolute() / (wrapper.library.replace("-", "_") + (f"-{version}" if version else ""))
    for adapter in wrapper.adapters:
        print(f"{library}: {adapter}", file=sys.stderr, flush=True)  # noqa: T201 - progress
        try:
            python = (of_node if isinstance(wrapper, NodeWrapper) else of_python)(wrapper, version, folder, fresh=fresh)
            yield row(wrapper, adapter, python, folder, scenarios)
        except (OSError, subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            known = {"library": wrapper.library, "adapter": adapter, "kind": wrapper.kind, "played": today()}
            yield {**known, "versions": {wrapper.library: version or "newest"}, "broken": str(error)}


def of_python(wrapper: Wrapper, version: str, folder: Path, *, fresh: bool) -> Path:
    """Return the Python of an environment that has the library and this checkout."""
    python = folder / "bin" / "python"
    if fresh or not python.exists():
        first, *others = wrapper.tried
        wanted = [f"{first.split('>=')[0]}=={version}" if version else first, *others]
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "-e", str(ROOT), *wanted], check=True)
    return python


def of_node(wrapper: Wrapper, version: str, folder: Path, *, fresh: bool) -> Path:
    """Install the packages of a library in the folder, and return this Python, which runs Node there."""
    if fresh or not (folder / "node_modules").exists():
        first, *others = wrapper.tried
        wanted = [f"{first.rpartition('@')[0]}@{version}" if version else first, *others]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        subprocess.run(["npm", "install", "--silent", *wanted], cwd=folder, check=True)
    return Path(sys.executable)


def row(wrapper: Wrapper, adapter: str, python: Path, folder: Path, scenarios: Sequence[str]) -> Row:
    """Play one adapter."""
    api = wrapper.api(wrapper.adapters[adapter])
    target, model = TARGETS[api]
    chosen = ["--target", target, *(["--model", f"{target}={model}"] if model else [])]
    report = folder / f"{adapter}.json"
    report.unlink(missing_ok=True)
    words = ["run", *scenarios, "--mode", "reference", "-n", "1", "--adapter", adapter, *chosen]
    command = [str(python), "-m", "harness", *words, "--report", f"json:{report}"]
    done = subprocess.run(
        command, cwd=folder, env=paths(), capture_output=True, text=True, timeout=MAX_SECONDS, check=False
    )
    known = {"library": wrapper.library, "adapter": adapter, "kind": wrapper.kind, "api": api, "played": today()}
    known |= {"versions": versions(python, folder, wrapper), "command": " ".join(["harness", *words])}
    if not report.exists():
        return {**known, "broken": (done.stderr or done.stdout).strip()[-2000:]}
    run = RunResult.from_json(report.read_text(encoding="utf-8"))
    verdicts = Counter(cell.verdict.value for cell in run.cells)
    return {**known, "verdicts": verdicts, "features": squares(run), "causes": described(run, wrapper.library)}


def paths() -> dict[str, str]:
    """Return the environment of processes that import this checkout."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def squares(run: RunResult) -> dict[str, dict[str, int]]:
    """Return the counts of verdicts for each feature."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for cell in run.cells:
        found[feature(cell)][cell.verdict.value] += 1
    return {name: dict(counted) for name, counted in sorted(found.items())}


def described(run: RunResult, library: str) -> list[Row]:
    """Return the causes of red squares, each with its evidence and, if it was traced, its origin."""
    traced = json.loads(TRACED.read_text(encoding="utf-8"))
    of_cells = {id(cell): cell for cell in run.cells}
    return [_described(each, library, traced, of_cells.values()) for each in causes(run, Severity.ERROR)]


def _described(cause: Cause, library: str, traced: Sequence[Row], cells: Any) -> Row:
    first = cause.places[0].findings[0]
    shown = [cell for place in cause.places for cell in place.cells]
    features = sorted({feature(cell) for cell in cells if any(cell is each for each in shown)})
    example: CellResult = shown[0]
    return {
        "rule": cause.rule,
        "message": cause.message,
        "blame": cause.blame.value,
        "cells": cause.cells,
        "features": features,
        "example": f"{example.scenario} {example.variant}",
        "evidence": {
            "exchange": first.exchange,
            "pointer": first.pointer,
            "actual": _short(first.actual),
            "expected": _short(first.expected),
        },
        "traced": trace_of(traced, library, cause.rule, cause.message),
    }


def trace_of(traced: Sequence[Row], library: str, rule: str, message: str) -> Row | None:
    """Return the entry of a cause that was traced by hand: the first of its library and rule whose text it contains."""
    for each in traced:
        if (each["library"], each["rule"]) == (library, rule) and each.get("contains", "") in message:
            return {"id": each["id"], "origin": each["origin"], "place": each["place"], "says": each["says"]}
    return None


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_EVIDENCE else f"{text[:MAX_EVIDENCE]} …"


def versions(python: Path, folder: Path, wrapper: Wrapper) -> dict[str, str]:
    """Return the installed versions of a wrapper's distributions, and of Python."""
    code = (
        "import json, platform, sys; from harness.wrappers import find; wrapper, _ = find(sys.argv[1]); "
        "print(json.dumps({**wrapper.installed, 'python': platform.python_version()}))"
    )
    if isinstance(wrapper, NodeWrapper):
        code = code.replace("'python': platform.python_version()", "'node': subprocess.getoutput('node --version')[1:]")
        code = f"import subprocess; {code}"
    words = [str(python), "-c", code, wrapper.library]
    done = subprocess.run(words, cwd=folder, env=paths(), capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def merged(path: Path, played: Sequence[Row]) -> Row:
    """Return the contents of the file with new rows in the place of those of the same adapter and versions."""
    before: list[Row] = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    for each in (*before, *played):
        each["versions"] = own_first(each)
    replaced = {_key(each) for each in played}
    every = [*(each for each in before if _key(each) not in replaced), *played]
    asked = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    traced = json.loads(TRACED.read_text(encoding="utf-8"))
    for each in every:  # causes may have been traced since they were run
        for cause in each.get("causes", ()):
            cause["traced"] = trace_of(traced, each["library"], cause["rule"], cause["message"])
    order = [each.library for each in WRAPPERS]
    every.sort(key=lambda each: order.index(each["library"]))
    return {"written": today(), "commit": commit.stdout.strip(), "rows": every}


def own_first(row: Row) -> dict[str, str]:
    """Return the versions of a row. A package of the library for the adapter's provider comes first, if there is one.

    For example, langchain-anthropic has a version of its own.
    """
    provider = row["adapter"].removeprefix(row["library"]).strip("-").replace("gemini", "google")
    library = row["library"].removesuffix("-js")
    own = {name: number for name, number in row["versions"].items() if provider in name and library in name}
    return {**own, **row["versions"]} if provider else row["versions"]


def _key(each: Row) -> tuple[str, str]:
    return each["adapter"], next(iter(each["versions"].values()))


def today() -> str:
    return dt.datetime.now(dt.UTC).date().isoformat()
