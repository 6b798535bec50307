"""Signs by which a third-party tool loop may report that an answer is truncated.

A loop may return a field, raise an exception, keep the answer in an attribute, or report the stop reason by a log, a
callback or an event. If any of this is possible, the loop is assumed to do it.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import lru_cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from harness.bridge.clients.returning_code import returning_code
from harness.bridge.clients.sources import source_of
from harness.bridge.clients.stop_reason_uses import may_notice_truncation
from harness.model.messages import JSON


def may_report_truncation(
    returned: JSON, objects: Iterable[object], module: str, *, has_returned: bool = False
) -> bool:
    """Return whether an application may learn that an answer is truncated.

    `returned` is what the loop returned, as JSON. `objects` are those that the application has after the call, such as
    the client. `module` is the name of the loop's module. If one of them cannot be read, the answer is yes. With
    `has_returned`, it is known that the loop raised no exception for a truncated answer.
    """
    known = [*objects]
    modules = {module, *(kind.__module__ for each in known for kind in type(each).__mro__)}
    own = (each for each in modules if each.partition(".")[0] not in sys.stdlib_module_names | _SILENT_LIBRARIES)
    try:
        may_report = partial(_code_may_report, has_returned=has_returned)
        if {*_states_in(returned)} == {_CLAIMS_WHOLE}:
            return _holds_stop_word(known)
        return any(_states_in(returned)) or _holds_stop_word(known) or any(map(may_report, own))
    except Exception:  # noqa: BLE001 - third-party objects may fail in any way
        return True


def _states_in(value: JSON, key: str = "") -> Iterator[str]:
    """Yield the states in a value: a truth value, or a text whose name means a state. A flag that says that the answer
    is whole yields `_CLAIMS_WHOLE`.
    """
    if isinstance(value, Mapping):
        for name, each in cast("Mapping[str, JSON]", value).items():
            yield from _states_in(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from _states_in(each, key)
    elif isinstance(value, bool):
        is_whole = (_WHOLE_FLAGS if value else _PARTIAL_FLAGS).fullmatch(key) is not None
        yield _CLAIMS_WHOLE if is_whole else key or "a flag"
    elif isinstance(value, str) and value not in _KINDS_OF_PARTS and _STATE_FIELDS.search(key):
        yield key


_CLAIMS_WHOLE = "the answer is whole"

_WHOLE_FLAGS, _PARTIAL_FLAGS = re.compile("(is_)?complete"), re.compile("(is_|was_)?(truncated|incomplete|cut_off)")

_KINDS_OF_PARTS = frozenset({"text", "output_text", "message"})

_STATE_FIELDS = re.compile("(type|kind|event|status|state|stop|reason|outcome|ending|finish(ed)?)$", re.IGNORECASE)


def _holds_stop_word(objects: Iterable[object]) -> bool:
    """Return whether objects, or the objects in their attributes, hold the stop reason of a truncated answer."""
    left, seen = deque(objects), set[int]()
    while left and len(seen) < _MAX_OBJECTS:
        each = left.popleft()
        if isinstance(each, str | bytes | bytearray):
            text = each if isinstance(each, str) else each.decode("utf-8", "replace")
            if text in _STOP_WORDS or _QUOTED_STOP_WORD.search(text):
                return True
        elif id(each) not in seen and not isinstance(each, ModuleType | type | int | float | None):
            seen.add(id(each))
            left.extend(_parts(each))
    return False


_MAX_OBJECTS = 3000

_STOP_WORDS = frozenset({"length", "max_tokens", "MAX_TOKENS", "incomplete", "max_output_tokens"})

_QUOTED_STOP_WORD = re.compile(rf"[\"'](?:{'|'.join(_STOP_WORDS)})\\?[\"'](?!\s*:)")
"""A stop reason in the text of a response."""


def _parts(value: object) -> Iterator[object]:
    """Yield the items, the values and the attributes of an object. Properties are not read."""
    yield from _items(value)
    if isinstance(value, Enum):
        yield value.value
    elif inspect.ismethod(value):
        yield value.__self__
    elif not inspect.isroutine(value):
        yield from cast("dict[str, object]", getattr(value, "__dict__", {})).values()
        for kind in type(value).__mro__:
            slots = cast("str | Iterable[str]", vars(kind).get("__slots__", ()))
            yield from (getattr(value, name, None) for name in ([slots] if isinstance(slots, str) else slots))


def _items(value: Any) -> Iterator[object]:
    """Yield the items or values of a container. They are read by the methods of Python's own classes, because those of
    other classes may change the container or fail.
    """
    if isinstance(value, dict):
        yield from dict[object, object].values(cast("dict[object, object]", value))
    for kind in _CONTAINERS:
        if isinstance(value, kind):
            yield from kind.__iter__(value)


_CONTAINERS: tuple[Any, ...] = (list, tuple, set, frozenset, deque)


@lru_cache(maxsize=64)
def _code_may_report(name: str, *, has_returned: bool = False) -> bool:
    """Return whether the code of a module, or of the loaded modules that belong to it, may report a stop reason. This
    is assumed if the code is not known, or if it uses a library that may report it. `has_returned` leaves out code that
    raises exceptions.
    """
    sources = [source_of(each) for each in _modules_loaded_with(name)]
    if not any(sources):
        return True
    read = returning_code if has_returned else str
    return any(_source_may_report(read(_without_docstrings(each))) or _uses_unknown_library(each) for each in sources)


def may_report_filter(module: str) -> bool:
    """Return whether the code of a module's package may report a filter of the provider, other than by an exception.
    Such a filter cuts an answer off.
    """
    sources = (returning_code(_without_docstrings(source_of(each))) for each in _modules_loaded_with(module))
    return any(_FILTER_WORDS.search(each) for each in sources)


_FILTER_WORDS = re.compile("refus|filter|safety|block_?reason|moderat|flagged|prohibit", re.IGNORECASE)


def _source_may_report(source: str) -> bool:
    return _REPORTS.search(source) is not None or may_notice_truncation(source)


def _without_docstrings(source: str) -> str:
    """Return code without the text of its docstrings, which may have examples of its use."""
    try:
        nodes = [*ast.walk(ast.parse(source))]
    except SyntaxError:
        return source
    bodies = (each.body for each in nodes if isinstance(each, _DOCUMENTED) and each.body)
    first = (body[0] for body in bodies)
    exprs = (each.value for each in first if isinstance(each, ast.Expr))
    texts = [each for each in exprs if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    starts = {each.lineno: each.col_offset for each in texts}
    rest = {line for each in texts for line in range(each.lineno + 1, (each.end_lineno or each.lineno) + 1)}
    kept = ((number, line) for number, line in enumerate(source.splitlines(), 1) if number not in rest)
    empty = '""'  # a body needs a statement
    return "\n".join(
        f"{line.encode()[: starts[number]].decode()}{empty}" if number in starts else line for number, line in kept
    )


_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _modules_loaded_with(name: str) -> list[ModuleType]:
    """Return the loaded modules of a module's package. If that is not installed, add those in the same folder."""
    package = name.partition(".")[0]
    every = [*{**sys.modules}.items()]
    own = [each for known, each in every if known.partition(".")[0] == package]
    files = {_file_of(each) for each in own if each.__name__ in (package, name)} - {None}
    folders = [each.parent.parent if each.name == "__init__.py" else each.parent for each in files if each]
    folders = [each for each in folders if not _is_installed(each)]
    beside = [
        each
        for _, each in every
        if (file := _file_of(each)) is not None
        and not _is_installed(file)
        and any(file.is_relative_to(folder) for folder in folders)
    ]
    return [*dict.fromkeys([*own, *beside])]


def _file_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file) if file else None


def _is_installed(path: Path) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(path.parts) or path.is_relative_to(_STANDARD_LIBRARY)


_STANDARD_LIBRARY = Path(inspect.__file__).parent


def _uses_unknown_library(source: str) -> bool:
    """Return whether code imports an installed library other than those that send requests or hold values."""
    try:
        nodes = [*ast.walk(ast.parse(source))]
    except SyntaxError:
        return True
    names = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
    names += [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom) and node.level == 0]
    roots = {each.partition(".")[0] for each in names} - sys.stdlib_module_names - _SILENT_LIBRARIES
    files = [_file_of(sys.modules[each]) for each in roots if each in sys.modules]
    return any(each is not None and _is_installed(each) for each in files)


_SILENT_LIBRARIES = frozenset(
    {
        *("aiohttp", "anthropic", "google", "httpx", "httpx2", "httpx_sse", "openai", "requests", "urllib3"),
        *("annotated_types", "attr", "attrs", "jsonschema", "msgspec", "orjson", "pydantic", "pydantic_core", "yaml"),
        *("anyio", "backoff", "certifi", "dotenv", "pydantic_settings", "stamina", "tenacity", "typing_extensions"),
    }
)
"""Libraries that report no stop reason by themselves."""

_OF_CONTAINERS = r"(?:append|extend|add|update|get|pop|clear|items|keys|values|setdefault)\("
"""Methods of lists and dictionaries, which are read when the loop has ended."""

_REPORTS = re.compile(
    r"[\"'](?:length|end_turn|completed|MAX_TOKENS)[\"']|\.MAX_TOKENS\b|(?:==|\bcase)\s*[\"']max_(?:output_)?tokens[\"']"
    r"|(?i:incomplete(?!_?read)|truncat|cut_?(?:off|short)|is_?(?:cut|partial)\b|[\"']partial[\"'])"
    rf"|\b\w*(?:log(?:ger|ging)?|print|echo)\b(?!\.{_OF_CONTAINERS})[\w.]*\("
    r"[^\n]*(?:resp|repl(?:y|ies)|answer|data\b|raw|completion|body|status)"
    r"|warn\w*\([^()]*\b(?:resp\w*|repl(?:y|ies)\w*|answer|data|raw|completion|stop\w*|finish\w*|tokens?|limit)\b"
    r"|\b(?:\w+_)?(?:emit|publish|notify|dispatch|fire|trigger|callback|hook|observer|listener"
    rf"|middleware|record|track|trace|persist|on)(?:_\w+|s)?(?:\[[^\]\n]*\])?(?:\.(?!{_OF_CONTAINERS})\w+)?\("
    rf"|\b(?:\w+_)?handler(?:_\w+|s)?(?:\[[^\]\n]*\])?(?:\.(?!{_OF_CONTAINERS})\w+)?\((?!\*\*)"
    r"|\b(?:\w+_)?(?:write|dump|save|store|put)\w*\([^)\n]*\b(?:resp\w*|repl(?:y|ies)\w*|data|raw|completion|answer)\b"
    r"|^\s*(?:global|nonlocal)\s|\bContextVar\b",
    re.MULTILINE,
)
"""Code that has a word for truncated answers, or that may pass the response on: to a log, a file, a callback or an
event. A handler that gets unpacked arguments is a tool.
"""
