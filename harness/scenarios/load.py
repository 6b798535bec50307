"""Load scenarios from files and folders. Errors have the format `file:line:column at key: reason`."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path as FilePath
from typing import Any, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from harness.documents.document import MAX_BYTES, Path, YamlDocument, read
from harness.documents.strict_models import describe, explain, hint, path_of
from harness.model.errors import FileError, ScenarioError
from harness.model.messages import JSON
from harness.platform.files import read_file
from harness.scenarios import validation
from harness.scenarios.schema import Scenario

SUFFIXES = (".yaml", ".yml")


def load_file(path: FilePath) -> Scenario:
    """Read one scenario.

    Raises:
        ScenarioError: the first error of the file; `problems` returns all.
    """
    scenario, errors = _load(path)
    if scenario is None or errors:
        raise errors[0]
    return scenario


def problems(path: FilePath) -> list[FileError]:
    """Return all errors of a scenario file, ordered by line."""
    return _load(path)[1]


def load_paths(paths: Iterable[FilePath]) -> list[Scenario]:
    """Read scenario files and all scenarios below folders, sorted by id.

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
            raise ScenarioError(str(file), f"{files[scenario.id]} has the id {scenario.id!r} already.", key="id")
        files[scenario.id] = file
        scenarios.append(scenario)
    return sorted(scenarios, key=lambda scenario: scenario.id)


def scenario_files(paths: Iterable[FilePath]) -> list[FilePath]:
    """Return the given files, and all `*.yaml` and `*.yml` files below the given folders, each once.

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
            found.setdefault(os.path.realpath(file), file)  # `resolve` fails on circular links
    return list(found.values())


def lines(path: FilePath) -> tuple[int, tuple[int, ...]]:
    """Return the line of a scenario's id and the lines of its turns, counted from 1.

    Raises:
        ScenarioError: the file cannot be read any more.
    """
    marks = read(_bytes(path), str(path)).marks
    turns = sorted(where[1] for where in marks if len(where) == 2 and where[0] == "turns")
    return marks.get(("id",), (1, 1))[0], tuple(marks["turns", each][0] for each in turns)


def digest(scenario: Scenario) -> str:
    """Return the SHA-256 of the content. It does not depend on comments, layout, key order or new defaults."""
    content = scenario.model_dump(exclude_unset=True)
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


_SENT_KEYS = ("system", "settings", "tools", "history", "embeddings", "max_iterations", "trim", "faults")
"""Keys that determine the requests. `faults` is one of them, because a fault ends the chat or causes a retry."""

_SENT_KEYS_OF_TURN = ("user", "system", "settings")


def sent_content(scenario: Scenario) -> dict[str, Any]:
    """Return the part of the content that determines the requests, as written in the file.

    The model's responses are not included, except for the order of the tool results.
    """
    content: dict[str, Any] = scenario.model_dump(exclude_unset=True)
    turns = [
        {key: turn[key] for key in _SENT_KEYS_OF_TURN if key in turn}
        | {"answers": {at: step["answers"] for at, step in enumerate(turn["model"]) if step.get("answers") is not None}}
        for turn in content.get("turns", ())
    ]
    return {**{key: content[key] for key in _SENT_KEYS if key in content}, "turns": turns}


def sent_digest(scenario: Scenario) -> str:
    """Return the SHA-256 of the part that determines the requests. If it is unchanged, no new recording is needed."""
    return hashlib.sha256(
        json.dumps(sent_content(scenario), sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def _load(path: FilePath) -> tuple[Scenario | None, list[FileError]]:
    try:
        document = read(_bytes(path), str(path))
    except ScenarioError as error:
        return None, [error]
    if not isinstance(document.value, dict):
        return None, [document.error((), f"a scenario is a mapping, not {describe(document.value)}.")]
    try:
        scenario = Scenario.model_validate_json(json.dumps(document.value))
    except ValidationError as error:
        return None, _in_order(_explain(document, each) for each in _all_errors(document.value, error))
    errors = [
        hint(document, problem.path) or document.error(problem.path, problem.reason)
        for problem in validation.problems(scenario)
    ]
    if path.stem != scenario.id:
        errors.append(document.error(("id",), f"the id must be the file's name, {path.stem!r}."))
    return scenario, _in_order(errors)


def _all_errors(value: JSON, error: ValidationError) -> Iterator[ErrorDetails]:
    """Yield the errors of a scenario. An unknown key hides the other errors of its mapping, so validate the value again
    without it. Errors of that mapping then follow from the missing key.
    """
    found, rest, mappings = error.errors(include_url=False), copy.deepcopy(value), set[Path]()
    yield from found
    for _ in range(_MAX_UNKNOWN_KEYS):
        unknown = [path_of(each) for each in found if _is_of_key(each)]
        mappings |= {path[:-1] for path in unknown}
        if not [path for path in unknown if _remove(rest, path)]:
            return
        try:
            Scenario.model_validate_json(json.dumps(rest))
        except ValidationError as other:
            found = other.errors(include_url=False)
            yield from (each for each in found if _is_of_key(each) or mappings.isdisjoint(_paths_around(each)))
        else:
            return


def _paths_around(error: ErrorDetails) -> tuple[Path, Path]:
    """Return the path of an error, and that of the mapping with the key that it may be about."""
    path = path_of(error)
    return path, path[:-1]


def _is_of_key(error: ErrorDetails) -> bool:
    return bool(error.get("ctx", {}).get("at"))


_MAX_UNKNOWN_KEYS = 20


def _remove(value: JSON, path: Sequence[str | int]) -> bool:
    """Remove the key at a path, and return whether it was there."""
    for step in path[:-1]:
        try:
            value = cast("Any", value)[step]
        except (LookupError, TypeError):
            return False
    return isinstance(value, dict) and value.pop(str(path[-1]), _NOTHING) is not _NOTHING


_NOTHING = object()


def _explain(document: YamlDocument, details: ErrorDetails) -> FileError:
    advice = hint(document, path_of(details), of_key="at" in details.get("ctx", {}))
    return advice or explain(document, details)


def _bytes(path: FilePath) -> bytes:
    try:
        return read_file(path, MAX_BYTES)
    except FileNotFoundError:
        raise ScenarioError(str(path), "there is no such file.") from None
    except OSError as error:
        raise ScenarioError(str(path), f"cannot be read: {error.strerror}.") from None


def _in_order(errors: Iterable[FileError]) -> list[FileError]:
    once = {str(error): error for error in errors}.values()  # one hint may apply to several errors
    return sorted(once, key=lambda error: (error.line or 0, error.column or 0))
