"""Scenario files and folders → scenarios. Strict, and every error says where: file:line:column at key: reason."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from harness.contract.errors import FileError, ScenarioError
from harness.host.files import contents
from harness.scenarios.check import problems as contradictions
from harness.scenarios.document import MAX_BYTES, Document, read
from harness.scenarios.explain import explain, kind, path_of
from harness.scenarios.hints.structure import hint
from harness.scenarios.schema import Scenario

SUFFIXES = (".yaml", ".yml")


def load_file(path: FilePath) -> Scenario:
    """Read one scenario.

    Raises:
        ScenarioError: the first thing that is wrong with it; `problems` has them all.
    """
    scenario, errors = _load(path)
    if scenario is None or errors:
        raise errors[0]
    return scenario


def problems(path: FilePath) -> list[FileError]:
    """Everything that is wrong with a scenario file, in the order of its lines."""
    return _load(path)[1]


def load_paths(paths: Iterable[FilePath]) -> list[Scenario]:
    """Read scenario files, and all those below folders, sorted by id.

    Raises:
        ScenarioError: a path does not exist, a folder has no scenario, a file is wrong, or an id occurs twice.
    """
    return load_files(scenario_files(paths))


def load_files(chosen: Iterable[FilePath]) -> list[Scenario]:
    """Read scenario files, sorted by id.

    Raises:
        ScenarioError: a file is wrong, or an id occurs twice.
    """
    files: dict[str, FilePath] = {}
    scenarios: list[Scenario] = []
    for file in chosen:
        scenario = load_file(file)
        if scenario.id in files:
            raise ScenarioError(str(file), f"the id {scenario.id!r} is taken by {files[scenario.id]}.", key="id")
        files[scenario.id] = file
        scenarios.append(scenario)
    return sorted(scenarios, key=lambda scenario: scenario.id)


def scenario_files(paths: Iterable[FilePath]) -> list[FilePath]:
    """The files themselves, and every `*.yaml` and `*.yml` below the folders; each once.

    Raises:
        ScenarioError: a path does not exist, or a folder has no such file.
    """
    found: dict[str, FilePath] = {}
    for path in paths:
        if not path.exists():
            raise ScenarioError(str(path), "there is no such file or folder.")
        files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES) if path.is_dir() else [path]
        if not files:
            raise ScenarioError(str(path), f"no scenario in this folder: no file ends in {' or '.join(SUFFIXES)}.")
        for file in files:
            found.setdefault(os.path.realpath(file), file)  # `resolve` refuses links that go in a circle
    return list(found.values())


def lines(path: FilePath) -> tuple[int, tuple[int, ...]]:
    """The line of a scenario's id, and those of its user turns, from 1.

    Raises:
        ScenarioError: it cannot be read any more.
    """
    marks = read(_bytes(path), str(path)).marks
    turns = sorted(where[1] for where in marks if len(where) == 2 and where[0] == "turns")
    return marks.get(("id",), (1, 1))[0], tuple(marks["turns", each][0] for each in turns)


def digest(scenario: Scenario) -> str:
    """SHA-256 of what the file says: comments, layout and the order of keys do not count, nor do new defaults."""
    content = scenario.model_dump(exclude_unset=True)
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


_SENT = (
    "system",
    "settings",
    "tools",
    "history",
    "embeddings",
    "max_iterations",
    "trim",
    "faults",
)
"""What of a scenario decides which requests are sent: a fault does, since a chat ends with it or asks again."""

_SENT_IN_TURN = ("user", "system", "settings")


def sent(scenario: Scenario) -> dict[str, Any]:
    """What of the file is sent, as it is written there.

    What the model answers is no part of it, other than the order in which the results of its calls go back.
    """
    content: dict[str, Any] = scenario.model_dump(exclude_unset=True)
    turns = [
        {key: turn[key] for key in _SENT_IN_TURN if key in turn}
        | {"answers": {at: step["answers"] for at, step in enumerate(turn["model"]) if step.get("answers") is not None}}
        for turn in content.get("turns", ())
    ]
    return {**{key: content[key] for key in _SENT if key in content}, "turns": turns}


def sent_digest(scenario: Scenario) -> str:
    """SHA-256 of what of the file is sent: the rest is judged afresh against what was recorded."""
    return hashlib.sha256(json.dumps(sent(scenario), sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _load(path: FilePath) -> tuple[Scenario | None, list[FileError]]:
    try:
        document = read(_bytes(path), str(path))
    except ScenarioError as error:
        return None, [error]
    if not isinstance(document.value, dict):
        return None, [document.error((), f"a scenario is a mapping, not {kind(document.value)}.")]
    try:
        scenario = Scenario.model_validate_json(json.dumps(document.value))
    except ValidationError as error:
        found = error.errors(include_url=False)
        return None, _in_order(_explained(document, each) for each in found)
    errors = [
        hint(document, problem.path) or document.error(problem.path, problem.reason)
        for problem in contradictions(scenario)
    ]
    if path.stem != scenario.id:
        errors.append(document.error(("id",), f"the id has to be the file's name, {path.stem!r}."))
    return scenario, _in_order(errors)


def _explained(document: Document, details: ErrorDetails) -> FileError:
    meant = hint(document, path_of(details), of_key="at" in details.get("ctx", {}))
    return meant or explain(document, details)


def _bytes(path: FilePath) -> bytes:
    try:
        return contents(path, MAX_BYTES)
    except FileNotFoundError:
        raise ScenarioError(str(path), "there is no such file.") from None
    except OSError as error:
        raise ScenarioError(str(path), f"cannot be read: {error.strerror}.") from None


def _in_order(errors: Iterable[FileError]) -> list[FileError]:
    once = {str(error): error for error in errors}.values()  # what was meant may explain several
    return sorted(once, key=lambda error: (error.line or 0, error.column or 0))
