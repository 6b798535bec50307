"""Settings of a test's tape. They come from the marks on the test, its class and its module, and from the options of
the session.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from harness.apis import registry
from harness.apis.fact_files import FactSelection, parse_day
from harness.model.errors import UnknownName, UsageError
from harness.platform.project import Project

MARK = "tape"

_SETTINGS = ("allow_hosts", "cassette", "ignore", "judge")

_VCRPY_OPTIONS = frozenset(
    {
        "decode_compressed_response",
        "filter_headers",
        "filter_post_data_parameters",
        "filter_query_parameters",
        "match_on",
        "record_mode",
        "record_on_exception",
        "serializer",
    }
)
"""Options of pytest-recording's marks. A tape does not need them: it stores few headers, matches requests by meaning,
and records only on request.
"""

_FORBIDDEN = str.maketrans(dict.fromkeys(r"<>?%*:|\"'/" + "\\" + "".join(map(chr, range(32))), "-"))
"""Characters that some file systems reject. They are replaced as in pytest-recording, so that its cassettes are found.
"""

_MAX_NAME_CHARACTERS = 255
_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class TapeSettings:
    """Settings of a test's tape.

    `cassette` is the path of the cassette. `judge` is set if the exchanges are to be judged. `allow_hosts` lists hosts
    whose requests are not recorded. `ignored_findings` contains ids of limits and rules. `ignored_pointers` contains
    places in requests whose differences are ignored. `allowed_secrets` contains places where suspected secrets may be
    stored.
    """

    cassette: Path
    judge: bool
    allow_hosts: tuple[str, ...]
    ignored_findings: frozenset[str]
    ignored_pointers: tuple[str, ...]
    allowed_secrets: tuple[str, ...] = ()


def settings(item: pytest.Item, fact_selection: FactSelection) -> TapeSettings:
    """Return the settings of a test. The nearest mark takes precedence, but lists are joined.

    Raises:
        UsageError: a mark or the configuration has an invalid value.
    """
    marks = [_check(mark, item) for mark in item.iter_markers(MARK)]
    names = [mark["cassette"] for mark in marks if "cassette" in mark]
    judge = next((mark["judge"] for mark in marks if "judge" in mark), True)
    hosts = [
        *item.config.getini("harness_tape_allow_hosts"),
        *(each for mark in marks for each in _list(mark, "allow_hosts")),
    ]
    ignored = [*item.config.getini("harness_tape_ignore"), *(each for mark in marks for each in _list(mark, "ignore"))]
    pointers = tuple(each for each in ignored if each.startswith("/"))
    ids = frozenset(ignored) - {*pointers}
    if ids:
        from harness.runner.verdicts import known_finding_ids  # noqa: PLC0415 - who ignores nothing need not wait for it

        known = known_finding_ids(fact_selection)
        for each in sorted(ids - {*known}):
            raise UnknownName("limit or rule", each, [*known], f"{item.nodeid}: ignore")
    allowed = (
        *item.config.getini("harness_tape_allow_secrets"),
        *(item.config.getoption("--harness-allow-secret") or ()),
    )
    return TapeSettings(_path(item, names[0] if names else None), judge, tuple(hosts), ids, pointers, allowed)


def _check(mark: pytest.Mark, item: pytest.Item) -> dict[str, Any]:
    place = f"{item.nodeid}: @pytest.mark.{MARK}"
    given: dict[str, Any] = {**mark.kwargs}
    if len(mark.args) > 1 or (mark.args and "cassette" in given):
        raise UsageError(f"{place}: a test has only one cassette, but the mark names more.")
    if mark.args:
        given["cassette"] = mark.args[0]
    for name, value in given.items():
        if name in _VCRPY_OPTIONS:
            raise UsageError(f"{place}: {name} is a setting of vcrpy that tapes do not need. Remove it.")
        if name not in _SETTINGS:
            raise UnknownName("setting", name, _SETTINGS, place)
        if name in ("allow_hosts", "ignore") and not _is_list(value):
            raise UsageError(f"{place}: {name} must be a list of strings.")
        if name == "cassette" and not (isinstance(value, str | Path) and str(value)):
            raise UsageError(f"{place}: cassette must be the name of a file.")
        if name == "judge" and not isinstance(value, bool):
            raise UsageError(f"{place}: judge must be True or False.")
    return given


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in cast("Sequence[Any]", value))


def _list(mark: dict[str, Any], name: str) -> Sequence[str]:
    return mark.get(name, ())


def _path(item: pytest.Item, name: str | Path | None) -> Path:
    """Return the path of the cassette. By default it is `cassettes/MODULE/TEST.yaml` next to the module, as in
    pytest-recording.
    """
    folder = item.path.parent / "cassettes" / item.path.stem
    if name is not None:
        path = folder / name
        return path if path.suffix in _SUFFIXES else path.with_name(f"{path.name}.yaml")
    owner = getattr(item, "cls", None)
    plain = f"{owner.__name__}.{item.name}" if owner is not None else item.name
    stem = plain.translate(_FORBIDDEN)
    if len(stem) + len(_SUFFIXES[0]) > _MAX_NAME_CHARACTERS:
        digest = hashlib.md5(stem.encode(), usedforsecurity=False).hexdigest()
        stem = f"{stem[: _MAX_NAME_CHARACTERS - len(_SUFFIXES[0]) - len(digest) - 3]}...{digest}"
    path = folder / f"{stem}.yaml"
    other = folder / f"{stem}.json"
    return other if other.exists() and not path.exists() else path


def fact_selection_for(config: pytest.Config, own: Project) -> FactSelection:
    """Return the facts to use: their files and the day. Raises `UsageError` or `FactsError`."""
    given: str = config.getini("harness_as_of")
    made = FactSelection(parse_day(given, "harness_as_of") if given else None, _files(config, own))
    made.check(registry.APIS.names())
    return made


def _files(config: pytest.Config, own: Project) -> tuple[Path, ...]:
    files = (config.rootpath / file for file in own.facts)
    return tuple(dict.fromkeys((*files, *config.getini("harness_facts"))))
