"""Values as Python code, for scripts that reproduce a finding."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from types import ModuleType
from typing import Any, cast

from harness.bridge.call_log import BoundMethod
from harness.model.protocols import Conversation, ConversationTool, Endpoint

_WIDTH = 140


class CannotWrite(Exception):
    """A value has no representation as Python code."""


class Raw(str):
    """Code that is written unchanged."""

    __slots__ = ()


Parts = tuple[str, list[tuple[str, Any]], str]
"""Opening text, entries with their prefixes, and closing text. A value without entries is only its opening text."""


class ScriptCode:
    """Writes values as code, and collects the imports and the wrapper's functions that the code uses.

    `names` maps the results of earlier calls to their variables. `strings` maps strings to the code that replaces them.
    `results` are the results of a loop's tools, by name. `width` is the maximum line length.
    """

    def __init__(
        self,
        module: ModuleType | None,
        strings: Mapping[str, str],
        results: Mapping[str, Sequence[object]] | None = None,
        width: int = _WIDTH,
    ) -> None:
        self._module = module
        self._strings = strings
        self._results = results or {}
        self._width = width
        self._names_in: set[str] = set()
        self.names: list[tuple[object, str]] = []
        self.imports: set[str] = set()
        self.roots: list[str] = []

    def code(self, value: object, indent: int = 0, prefix: int = 0) -> str:
        """Return a value as code.

        `indent` is the indentation of the line on which the code starts. `prefix` is the length of the text before the
        code on that line.
        """
        opening, entries, closing = self._parts(value)
        flat = opening + ", ".join(name + self.code(each) for name, each in entries) + closing
        if not entries or ("\n" not in flat and indent + prefix + len(flat) <= self._width):
            return flat
        if len(entries) == 1:
            ((name, each),) = entries
            return f"{opening}{name}{self.code(each, indent, prefix + len(opening + name))}{closing}"
        inner = indent + 4
        comma = "" if opening == "(" and all(isinstance(each, Raw) for _, each in entries) else ","
        lines = [f"{' ' * inner}{name}{self.code(each, inner, len(name) + 1)}{comma}" for name, each in entries]
        return "\n".join([opening, *lines, " " * indent + closing])

    def call(self, function: object, args: Sequence[object], kwargs: Mapping[str, object], indent: int = 0) -> str:
        """Return a call as code."""
        if isinstance(function, functools.partial):
            function, args, kwargs = function.func, (*function.args, *args), {**function.keywords, **kwargs}
        self._names_in.clear()
        entries = [*(("", each) for each in args), *((f"{name}=", each) for name, each in kwargs.items())]
        return self.code(CallCode(self.function(function), entries), indent)

    def function(self, function: object) -> str:
        """Return the name of a function, a class or a client's method."""
        if isinstance(function, BoundMethod):
            return ".".join((self.code(function.client), *function.path))
        name, module = getattr(function, "__qualname__", ""), getattr(function, "__module__", None)
        if not name.isidentifier() or module is None:
            raise CannotWrite(f"{function!r} is not a function of a module")
        if self._module is not None and vars(self._module).get(name) is function:
            self.roots.append(name)
        elif module != "builtins":
            self.imports.add(f"from {_public(module, name, function)} import {name}")
        return name

    def _parts(self, value: object) -> Parts:
        known = self._existing_code(value)
        if known is not None:
            return known, [], ""
        match value:
            case CallCode():
                return f"{value.name}(", value.entries, ")"
            case Enum():
                return f"{self.function(type(value))}.{value.name}", [], ""
            case str():
                return _text(value)
            case None | bool() | int() | float() | bytes():
                return repr(value), [], ""
            case list():
                return "[", [("", each) for each in cast("list[object]", value)], "]"
            case tuple():
                each = cast("tuple[object, ...]", value)
                return (
                    ("(", [("", one) for one in each], ")") if len(each) != 1 else (f"({self.code(each[0])},)", [], "")
                )
            case dict():
                named = cast("dict[object, object]", value)
                return "{", [(f"{name!r}: ", each) for name, each in named.items()], "}"
            case _:
                return self._object(value)

    def _existing_code(self, value: object) -> str | None:
        """Return the code for a value that the script already has, such as the endpoint or an earlier result."""
        if isinstance(value, Endpoint):
            return "endpoint"
        if isinstance(value, str) and type(value) is str and value in self._strings:
            return self._strings[value]
        if isinstance(value, Raw):
            return str(value)
        if isinstance(value, Joined):
            return " + ".join(self.code(each, 4) for each in value)
        for result, name in self.names:
            is_used = name in self._names_in and name.startswith("answer")
            path = (_id_path(result, value) if is_used else None) if isinstance(value, str) else _path(result, value)
            if path is not None:
                self._names_in.add(name)
                return name + path
        return None

    def _conversation(self, value: Conversation | ConversationTool) -> Parts:
        self.imports.add("from types import SimpleNamespace")
        if isinstance(value, ConversationTool):
            about = [(f"{name}=", getattr(value, name)) for name in ("name", "description", "parameters")]
            return "scripted_tool(", [("", [*self._results.get(value.name, ())]), *about], ")"
        turns = [CallCode("SimpleNamespace", [("text=", each.text)]) for each in value.turns]
        source = inspect.getsource(self._module) if self._module else ""
        names = [name for name in ("tools", "system", "stream", "max_tokens", "max_answers") if f".{name}" in source]
        given = {name: _as_list(getattr(value, name)) for name in names}
        short = [f"{name}={each!r}" for name, each in given.items() if isinstance(each, int | None)]
        others = [(f"{name}=", each) for name, each in given.items() if not isinstance(each, int | None)]
        return "SimpleNamespace(", [("turns=", turns), *others, ("", Raw(", ".join(short)))], ")"

    def _object(self, value: object) -> Parts:
        if isinstance(value, Conversation | ConversationTool):
            return self._conversation(value)
        if inspect.isfunction(value) or inspect.isclass(value):
            return self.function(value), [], ""
        if inspect.isbuiltin(value) and isinstance(value.__self__, list):
            return f"[].{value.__name__}", [], ""
        kind = cast("Any", type(value))
        if is_dataclass(value):
            given = [
                (f"{each.name}=", getattr(value, each.name))
                for each in fields(value)
                if each.init and not _is_default(each, getattr(value, each.name))
            ]
        elif hasattr(kind, "model_fields"):
            given = [
                (f"{field.alias or name}=", getattr(value, name))
                for name, field in kind.model_fields.items()
                if getattr(value, name) != field.get_default(call_default_factory=True)
            ]
        elif type(value).__module__ == "datetime":
            self.imports.add("import datetime")
            return repr(value), [], ""
        else:
            raise CannotWrite(f"an object of {type(value).__module__}.{type(value).__name__}")
        return f"{self.function(type(value))}(", given, ")"


class Joined(list[Any]):
    """Texts that are joined by `+`."""


class CallCode:
    """A call that is written as code."""

    def __init__(self, name: str, entries: Iterable[tuple[str, Any]]) -> None:
        self.name, self.entries = name, [*entries]


def _as_list(value: object) -> object:
    return [*cast("tuple[object, ...]", value)] if isinstance(value, tuple) else value


def _is_default(field: Field[Any], value: object) -> bool:
    default = field.default
    if default is MISSING and field.default_factory is not MISSING:
        default = field.default_factory()
    return default is not MISSING and bool(default == value)


def _text(value: str) -> Parts:
    """Return the parts of a string literal. A long text is split into one literal per line, or per paragraph if it has
    blank lines.
    """
    lines = value.splitlines(keepends=True)
    if len(lines) < 2 or len(value) < _WIDTH:
        return repr(value), [], ""
    blocks = re.findall(r".+?(?:\n\n|\Z)", value, re.DOTALL) if "\n\n" in value else lines
    return "(", [("", Raw(repr(each))) for each in blocks], ")"


def _public(module: str, name: str, value: object) -> str:
    """Return the shortest package from which a name can be imported."""
    packages = module.split(".")
    candidates = (".".join(packages[:size]) for size in range(1, len(packages) + 1))
    return next((each for each in candidates if getattr(sys.modules.get(each), name, None) is value), module)


def _path(result: object, value: object) -> str | None:
    """Return the indices and attributes that lead from the result of a call to a value in it, as code."""
    if isinstance(value, str | int | float | bool | None):
        return None
    if result is value:
        return ""
    if isinstance(result, list):
        inner = ((f"[{at}]", each) for at, each in enumerate(cast("list[object]", result)))
    else:
        inner = ((f".{name}", each) for name, each in getattr(result, "__dict__", {}).items())
    for step, each in inner:
        if each is value:
            return step
        if isinstance(result, list) and (path := _path(each, value)) is not None:
            return step + path
    return None


def _id_path(result: object, value: str, depth: int = 0) -> str | None:
    """Return the indices and attributes that lead from the result of a call to an id in it, as code. Such ids can
    differ in each run, so the script must not contain them.
    """
    if isinstance(result, list):
        inner = [(f"[{at}]", each) for at, each in enumerate(cast("list[object]", result))]
    elif isinstance(result, dict):
        inner = [(f"[{name!r}]", each) for name, each in cast("dict[str, object]", result).items()]
    else:
        inner = [(f".{name}", each) for name, each in getattr(result, "__dict__", {}).items()]
    for step, each in inner:
        if isinstance(each, str) and each == value and step.rstrip("]'").endswith("id"):
            return step
        if depth < _MAX_DEPTH and not isinstance(each, str) and (path := _id_path(each, value, depth + 1)) is not None:
            return step + path
    return None


_MAX_DEPTH = 4


_EVENT = re.compile(r"(?:event: (\w[\w.]*)\n)?data: (\{.*\}) *\n\n")
_IGNORED = frozenset(
    ("obfuscation", "created", "system_fingerprint", "service_tier", "annotations", "stop_details", "inference_geo")
)
"""Fields of answers that clients ignore. `_is_ignored` adds usage details, and fields that may be omitted if they are
`null`.
"""


def body_code(text: str, *, is_short: bool) -> object:
    """Return a body as the code that builds it: a JSON document, the events of a stream, or a string.

    With `is_short`, fields that clients ignore are left out.
    """
    simple = shorten_answer if is_short else _whole
    with contextlib.suppress(ValueError):
        value = json.loads(text)
        return CallCode("json.dumps", [("", simple(value))]) if isinstance(value, dict | list) else text
    events, names, end = list[Any](), set[str](), 0
    while found := _EVENT.match(text, end):
        events.append(json.loads(found[2]))
        names.add("" if found[1] is None else "type" if found[1] == events[-1].get("type") else "another")
        end = found.end()
    if names not in ({""}, {"type"}):
        return text
    made = CallCode("events" if names == {""} else "named_events", [("", simple(each)) for each in events])
    return Joined([made, text[end:]]) if text[end:] else made


def _whole(value: Any) -> Any:
    return value


def shorten_answer(value: Any) -> Any:
    """Return a value without the fields that clients ignore."""
    if isinstance(value, list):
        return [shorten_answer(each) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    named = cast("dict[str, Any]", value)
    return {name: shorten_answer(each) for name, each in named.items() if not _is_ignored(name, each)}


def _is_ignored(name: str, value: object) -> bool:
    is_empty = value is None and name in ("logprobs", "usage", "refusal", "stop_sequence")
    return is_empty or name in _IGNORED or name == "cache_creation" or name.lower().endswith("details")
