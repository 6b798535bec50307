"""Examples of the objects that third-party code requires, such as a database, a folder, a clock or a repository."""

from __future__ import annotations

import datetime as dt
import decimal
import inspect
import io
import logging
import os
import re
import sqlite3
import sys
import tempfile
import threading
import typing
import uuid
import zoneinfo
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path, PurePath
from typing import Any, TypeAlias, cast

from harness.bridge.call_log import call
from harness.bridge.clients.annotations import has_only_fields, hints_of, is_enum, members_of, own_classes_in
from harness.bridge.clients.content_blocks import required_parameters
from harness.bridge.clients.names import BASE_URLS, KEYS, KNOWN_PARAMETERS, MODELS, SYNONYMS, TOOL_PARAMETERS
from harness.bridge.clients.sources import classes_with_imports, source_of

ExampleMaker: TypeAlias = Callable[[], object]
"""Function that makes a value for a parameter."""


def example_maker(name: str, hint: object, outer: object, values: Mapping[str, str]) -> ExampleMaker | None:
    """Return a function that makes a value for a required parameter of a class or function of the user, or `None`.

    The annotation must show a database of SQLite, a file, a clock, or another object of the standard library, a client
    for HTTP, or a class of the same package that is made from such values. Without an annotation, the use of the
    parameter must show it. `values` are those for the base URL, the key and the model of settings.
    """
    within = (outer,) if inspect.isclass(outer) and has_only_fields(outer) else ()
    return _Makers(values).maker(name, hint, outer, within)


def implementations(kind: type) -> list[type]:
    """Return the classes of the package of a protocol or an abstract class that have all its methods."""
    if not inspect.isabstract(kind) and not getattr(kind, "_is_protocol", False):
        return []
    names = {name for name, each in vars(kind).items() if callable(each) and not name.startswith("_")}
    others = classes_with_imports(kind.__module__).values()
    concrete = [each for each in others if not inspect.isabstract(each) and not getattr(each, "_is_protocol", False)]
    return [each for each in concrete if names and names <= {*dir(each)}]


def is_usual_object(name: str, hint: object) -> bool:
    """Return whether a parameter of a method takes an object of the application, such as a database or a user. The name
    of a parameter for an object of its own class must show it.
    """
    kinds = [cast("type[Any]", each) for each in members_of(hint) if inspect.isclass(each)]
    if not kinds or hint in _PLAIN or typing.get_origin(hint) is _CALLABLE:
        return False
    is_known = all(
        each in _EXAMPLES or _is_made_without_arguments(each) or issubclass(each, PurePath) for each in kinds
    )
    return is_known or (kinds[0].__module__ != "builtins" and _OBJECTS.search(name) is not None)


_OBJECTS = re.compile(
    r"(^|_)(repo|repository|store|db|database|deps|dependencies|context|ctx|user|customer|account|tenant|profile|settings"
    r"|config|env|caller|actor|catalog|catalogue|inventory|calendar|ledger|service|services)$"
)
"""Names of parameters for objects of the application that have classes of their own."""


@dataclass(frozen=True, slots=True)
class _Makers:
    """Makers of values. `values` are those for settings."""

    values: Mapping[str, str]

    def maker(self, name: str, hint: object, outer: object, within: tuple[type, ...]) -> ExampleMaker | None:
        """Return a function that makes a value for a parameter of `outer`. `within` are the classes around it."""
        if hint is None:
            return self._maker_by_use(name, outer, within)
        if typing.get_origin(hint) is _CALLABLE:
            return self._maker_of_function(name, hint, outer, within)
        if hint is threading.Lock:  # before Python 3.13, it is a function
            return partial(call, threading.Lock)
        if not within and _may_hold_tools(hint):
            return None
        kinds = (cast("type[Any]", each) for each in members_of(hint) if inspect.isclass(each))
        return next(filter(None, (self._maker_of_class(name, each, outer, within) for each in kinds)), None)

    def _maker_of_function(
        self, name: str, hint: object, outer: object, within: tuple[type, ...]
    ) -> ExampleMaker | None:
        """Return a function that makes a function without parameters, such as a clock."""
        parameters, returned = typing.get_args(hint) or ((), None)
        if parameters != [] or returned in (None, type(None)):
            return None
        made = self.maker(name, returned, outer, within)
        return None if made is None else lambda: made

    def _maker_of_class(
        self, name: str, kind: type[Any], outer: object, within: tuple[type, ...]
    ) -> ExampleMaker | None:
        if issubclass(kind, PurePath) or kind is os.PathLike or (kind is str and _PATHS.search(name)):
            return partial(_make_path, str if kind is str else Path, name, outer)
        if kind in _PLAIN:
            is_free = (bool(within) or kind in (list, dict)) and name not in _OTHER_PARAMETERS
            return partial(copy, _PLAIN[kind]) if is_free else None
        if is_enum(kind):
            return lambda: next(iter(cast("Any", kind)))
        if kind in _EXAMPLES or _is_made_without_arguments(kind):
            return _EXAMPLES.get(kind, partial(call, kind))
        near = classes_with_imports(getattr(outer, "__module__", "")).values()
        if kind in within or kind not in (*near, *_local_classes(outer, kind)):
            return None
        kinds = sorted(implementations(kind), key=lambda each: len(required_parameters(each))) or [kind]
        found = (self._maker_of_own(each, (*within, kind)) for each in kinds)
        return next(filter(None, found), None)

    def _maker_of_own(self, kind: type, within: tuple[type, ...]) -> ExampleMaker | None:
        """Return a function that makes an object of a class of the user from examples of its required arguments."""
        if inspect.isabstract(kind) or getattr(kind, "_is_protocol", False) or typing.is_typeddict(kind):
            return None
        required, hints = required_parameters(kind), hints_of(kind)
        makers = {
            name: self._setting(name, kind) or self.maker(name, hints.get(name), kind, within) for name in required
        }
        if any(each is None for each in makers.values()):
            return None
        known = cast("Mapping[str, ExampleMaker]", makers)
        return lambda: call(cast("Callable[..., object]", kind), **{name: make() for name, make in known.items()})

    def _setting(self, name: str, kind: type) -> ExampleMaker | None:
        """Return a function that returns the key, or for a class of settings the base URL or the model."""
        known = (("api_key", KEYS), *((("base_url", BASE_URLS), ("model", MODELS)) if has_only_fields(kind) else ()))
        key = next((key for key, names in known if name in names), "")
        return partial(copy, self.values[key]) if key in self.values else None

    def _maker_by_use(self, name: str, outer: object, within: tuple[type, ...]) -> ExampleMaker | None:
        """Return a function that makes a value for a parameter without an annotation, as its use in the code shows."""
        used = {*re.findall(rf"\b_?{name}\.([a-zA-Z]\w*)\b", source_of(outer))}
        if not used:
            return None
        if used <= {*dir(sqlite3.Connection)} and used & {"execute", "cursor", "executescript"}:
            return _EXAMPLES[sqlite3.Connection]
        if used <= {*dir(logging.Logger)} and "log" in name:
            return _EXAMPLES[logging.Logger]
        if used <= {*dir(Path)} and _PATHS.search(name):
            return partial(_make_path, Path, name, outer)
        others = classes_with_imports(getattr(outer, "__module__", "")).values()
        fitting = (each for each in others if each not in (outer, *within) and used <= {*dir(each)})
        return next(filter(None, (self._maker_of_own(each, (*within, each)) for each in fitting)), None)


_CALLABLE = typing.get_origin(Callable[..., None])

_OTHER_PARAMETERS = KNOWN_PARAMETERS | TOOL_PARAMETERS | {*SYNONYMS["messages"]}


def _may_hold_tools(hint: object) -> bool:
    """Return whether a list or dictionary may be one of tools: its items are functions, or objects with methods."""
    is_container = typing.get_origin(hint) is not None and re.search("list|dict|Mapping|Sequence|Iterable", str(hint))
    has_code = "Callable" in str(hint) or not all(map(has_only_fields, own_classes_in(hint)))
    return bool(
        is_container and (has_code or re.search("tool|function|handler|action|skill", str(hint), re.IGNORECASE))
    )


def _local_classes(outer: object, kind: type[Any]) -> list[type[Any]]:
    """Return a class that a function defines, next to the one that requires it."""
    return [kind] if kind.__module__ == getattr(outer, "__module__", None) else []


def _is_made_without_arguments(kind: type) -> bool:
    """Return whether a class of the standard library, or a client for HTTP, is made without arguments."""
    root = kind.__module__.partition(".")[0]
    if f"{root}.{kind.__name__}" in _HTTP_CLIENTS:
        return True
    if root not in sys.stdlib_module_names or root in _ABSTRACT_MODULES or inspect.isabstract(kind):
        return False
    try:
        return not required_parameters(kind)
    except (TypeError, ValueError):  # a class in C may have no signature
        return False


_ABSTRACT_MODULES = frozenset({"builtins", "typing", "collections", "types", "abc"})


_PLAIN: Mapping[object, object] = {
    str: "example",
    int: 1,
    float: 1.0,
    bool: False,
    list: list[object](),
    dict: dict[str, object](),
    tuple: (),
    set: set[object](),
    frozenset: frozenset[object](),
}
"""Type of a field about which nothing else is known → its value."""

_HTTP_CLIENTS = frozenset(
    {"requests.Session", "httpx.Client", "httpx.AsyncClient", "httpx2.Client", "httpx2.AsyncClient"}
)


def _database() -> object:
    return call(sqlite3.connect, ":memory:", check_same_thread=False)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


_EXAMPLES: Mapping[object, ExampleMaker] = {
    sqlite3.Connection: _database,
    logging.Logger: partial(call, logging.getLogger, "example"),
    dt.datetime: _now,
    dt.date: lambda: _now().date(),
    dt.time: lambda: _now().time(),
    dt.timedelta: lambda: dt.timedelta(hours=1),
    dt.tzinfo: lambda: dt.UTC,
    zoneinfo.ZoneInfo: lambda: zoneinfo.ZoneInfo("UTC"),
    decimal.Decimal: lambda: decimal.Decimal(1),
    uuid.UUID: uuid.uuid4,
    typing.TextIO: io.StringIO,
}
"""Class of the standard library → function that makes a usual object of it."""

_PATHS = re.compile(r"(^|_)(path|file|filename|root|dir|directory|folder|workspace|workdir|db_file)$")
_FOLDERS = re.compile(r"(^|_)(root|dir|directory|folder|workspace|workdir|home|base|vault|checkout)$")
_USES_OF_FOLDERS = r"\b_?{name}(?:\.(?:iterdir|rglob|glob|mkdir|is_dir)\(| / )"


def _make_path(kind: type, name: str, outer: object) -> object:
    """Return the path of a new folder, or of a file in one that does not exist yet, as a text or as a `Path`."""
    folder = tempfile.mkdtemp(dir=_folder().name)
    is_folder = _FOLDERS.search(name) or re.search(_USES_OF_FOLDERS.format(name=name), source_of(outer))
    return call(kind, folder if is_folder else str(Path(folder) / "example"))


@lru_cache(maxsize=1)
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="harness-")
