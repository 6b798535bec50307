"""Python code for scripts that reproduce a finding: values, source code of modules, and expressions that read a
library's object.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import re
import sys
import warnings
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from itertools import chain
from types import ModuleType, SimpleNamespace
from typing import Any, cast

from harness.apis.jsonvalue import as_object
from harness.bridge.call_log import BoundMethod
from harness.bridge.clients.complete_answers import message_methods
from harness.bridge.clients.inherited_tools import recorded_object
from harness.bridge.clients.shaped_client import AwaitedTexts
from harness.bridge.clients.tool_functions import RecordedTool
from harness.bridge.clients.user_answers import CALLBACK_CODE
from harness.bridge.openai_messages import plain
from harness.checks.reproduction import ScriptClaim
from harness.model.messages import JSON, ToolResult
from harness.model.protocols import Conversation, ConversationTool, Endpoint

_WIDTH = 140


class CannotWrite(Exception):
    """A value has no representation as Python code."""


class LacksAnswer(Exception):
    """A call has no part of the client's earlier answer, so that a script cannot send it back."""


class RawCode(str):
    """Code that is written unchanged."""

    __slots__ = ()


Parts = tuple[str, list[tuple[str, Any]], str]
"""Opening text, entries with their prefixes, and closing text. A value without entries is only its opening text."""


class ScriptCode:
    """Writes values as code, and collects the imports and the wrapper's functions that the code uses.

    `names` maps the results of earlier calls to their variables. `strings` maps strings to the code that replaces them.
    `results` are the results of a loop's tools, by name. `width` is the maximum line length. If `sends_answers_back` is
    set, arguments that are equal to a part of an earlier answer are taken from that answer. `awaits_tools` is set if
    the code may await the result of a tool's function that is not asynchronous.
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
        self.sends_answers_back = False
        self.awaits_tools = False

    def code(self, value: object, indent: int = 0, prefix: int = 0) -> str:
        """Return a value as code.

        `indent` is the indentation of the line on which the code starts. `prefix` is the length of the text before the
        code on that line.
        """
        opening, entries, closing = self._parts(value)
        is_text = opening == "(" and all(isinstance(each, RawCode) for _, each in entries)  # literals side by side
        flat = opening + (" " if is_text else ", ").join(name + self.code(each) for name, each in entries) + closing
        if not entries or ("\n" not in flat and indent + prefix + len(flat) <= self._width):
            return flat
        if len(entries) == 1:
            ((name, each),) = entries
            return f"{opening}{name}{self.code(each, indent, prefix + len(opening + name))}{closing}"
        inner = indent + 4
        comma = "" if is_text else ","
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
        known = next((made for result, made in self.names if result is function and result is not None), None)
        if known is not None:
            return known
        if isinstance(function, BoundMethod) and isinstance(function.client, SimpleNamespace):  # a module's members
            function = getattr(function.client, function.path[0])
        if isinstance(function, BoundMethod):
            return ".".join((self.code(function.client), *function.path))
        name, module = getattr(function, "__qualname__", ""), getattr(function, "__module__", None)
        if not name.isidentifier() or module is None:
            raise CannotWrite(f"{function!r} is not a function of a module")
        if module.partition(".")[0] == _OWN and getattr(self._module, "__name__", None) != module:
            raise CannotWrite(f"{function!r} is made by harness")
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
                return "[", [("", each) for each in self._with_answers(cast("list[object]", value))], "]"
            case tuple():
                each = cast("tuple[object, ...]", value)
                items = [("", one) for one in each]
                return ("(", items, ")") if len(each) != 1 else (f"({self.code(each[0])},)", [], "")
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
        if isinstance(value, RawCode):
            return str(value)
        if isinstance(value, JoinedTexts):
            return " + ".join(self.code(each, 4) for each in value)
        for result, name in self.names:
            is_answer = name.startswith("answer")
            if isinstance(value, str):
                path = _id_path(result, value) if is_answer and name in self._names_in else None
            else:
                path = _path(result, value, is_answer=is_answer)
                if path is None and is_answer and self.sends_answers_back:
                    path = _equal_path(result, value)
            if path is not None:
                self._names_in.add(name)
                return name + path
        return None

    def _with_answers(self, values: list[object]) -> list[object]:
        """Return a list in which the items of an earlier answer's list are taken from that answer."""
        answers = [(result, name) for result, name in self.names if name.startswith("answer")]
        for result, name in answers if self.sends_answers_back else ():
            for path, key, each in _places(result, ""):
                items = cast("list[object]", each) if isinstance(each, list) and not _CALLS.search(key) else []
                is_of_parts = items and all("type" in as_object(cast("JSON", item)) for item in items)
                for start in range(len(values) - len(items) + 1) if is_of_parts else ():
                    end = start + len(items)
                    if all(map(_has_members, items, cast("list[JSON]", values[start:end]))):
                        self._names_in.add(name)
                        values = [*values[:start], RawCode(f"*{name}{path}"), *values[end:]]
                        break
        return values

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
        return "SimpleNamespace(", [("turns=", turns), *others, ("", RawCode(", ".join(short)))], ")"

    def _tool_function(self, recorded: RecordedTool, *, is_async: bool) -> Parts:
        tool, results = recorded.tool, list[object]()
        for each in cast("Sequence[ToolResult]", self._results.get(tool.name, ())):
            value = each.text if isinstance(each.content, tuple) or not recorded.gives_values else each.content
            made = CallCode("AwaitableResult", [("", value)]) if self.awaits_tools and isinstance(value, str) else value
            results.append(CallCode("ToolFailed", [("", each.text)]) if each.is_error else made)
        name = "async_tool_function" if is_async else "tool_function"
        if recorded.has_context and is_async:
            raise CannotWrite("an asynchronous function with a context")
        opening, closing = ("with_context(", "))") if recorded.has_context else ("", ")")
        given = (tool.name, tool.description, tool.parameters, results)
        return f"{opening}{name}(", [("", each) for each in given], closing

    def _tool(self, value: object) -> Parts | None:
        """Return the code for a tool of an agent as a function or an object, or `None` for anything else."""
        if isinstance(tool := getattr(value, "recorded_tool", None), RecordedTool):
            return self._tool_function(tool, is_async=inspect.iscoroutinefunction(value))
        if (recorded := recorded_object(value)) is None:
            return None
        function = next(iter(recorded.functions.values()))
        parts = (recorded.kind, recorded.attributes, [*recorded.functions], function)
        return "tool_object(", [("", each) for each in parts], ")"

    def _object(self, value: object) -> Parts:
        if isinstance(value, Conversation | ConversationTool):
            return self._conversation(value)
        if (tool := self._tool(value)) is not None:
            return tool
        if inspect.isfunction(value) or inspect.isclass(value):
            code = CALLBACK_CODE.get(value, "")
            self.imports |= {"import asyncio"} if "asyncio" in code else set[str]()
            return code or self.function(value), [], ""
        if inspect.isbuiltin(value) and isinstance(value.__self__, list):
            return f"[].{value.__name__}", [], ""
        if inspect.ismethod(value) and isinstance(value.__self__, AwaitedTexts):
            return "ignoring()", [], ""
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
        elif (name := _name_in_module(value)) is not None:
            self.imports.add(f"from {type(value).__module__} import {name}")
            return name, [], ""
        else:
            raise CannotWrite(f"an object of {type(value).__module__}.{type(value).__name__}")
        return f"{self.function(type(value))}(", given, ")"


def _name_in_module(value: object) -> str | None:
    """Return the name of the only object of its class in the module of that class. The object may be a copy of it."""
    members = vars(sys.modules.get(type(value).__module__, inspect)).items()
    found = [name for name, each in members if type(each) is type(value)]
    return found[0] if len(found) == 1 else None


class JoinedTexts(list[Any]):
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
    return "(", [("", RawCode(repr(each))) for each in blocks], ")"


def _public(module: str, name: str, value: object) -> str:
    """Return the shortest package from which a name can be imported."""
    packages = module.split(".")
    candidates = (".".join(packages[:size]) for size in range(1, len(packages) + 1))
    return next((each for each in candidates if getattr(sys.modules.get(each), name, None) is value), module)


def _path(result: object, value: object, *, is_answer: bool) -> str | None:
    """Return the indices and attributes that lead from the result of a call to a value in it, as code. A client's
    attributes are not searched further.
    """
    if isinstance(value, str | int | float | bool | None):
        return None
    attributes = cast("dict[str, object]", getattr(result, "__dict__", {}))
    places = [("", result), *((f".{name}", each) for name, each in attributes.items())]
    places = ((path, each) for path, _, each in _places(result, "")) if is_answer else places
    return next((path for path, each in places if each is value), None)


def _equal_path(answer: object, value: object) -> str | None:
    """Return the code that leads from an answer to an object or a list in it that has all members of a JSON value.

    A method of the answer may also return the object. An answer's list of calls is no list of a message's parts.
    """
    if not value or not isinstance(value, list | dict):
        return None
    value = cast("JSON", value)
    parts = value if isinstance(value, list) else [value]
    is_of_parts = all("type" in as_object(each) for each in parts)
    places = ((path, each) for path, name, each in _places(answer, "") if not (is_of_parts and _CALLS.search(name)))
    found = (path for path, each in places if _has_members(each, value))
    methods = (f".{name}()" for name, made in message_methods(answer) if _has_members(made, value))
    return next(chain(found, methods), None)


_CALLS = re.compile("call|tool_use")


def _has_members(value: object, wanted: JSON) -> bool:
    """Return whether a value of a client is equal to a JSON value. Its objects may have further members."""
    if isinstance(wanted, dict):
        own = cast("dict[str, object]", value) if isinstance(value, dict) else {}
        return wanted.keys() <= own.keys() and all(_has_members(own[name], each) for name, each in wanted.items())
    if isinstance(wanted, list):
        items = cast("list[object]", value) if isinstance(value, list) else []
        return len(items) == len(wanted) and all(map(_has_members, items, wanted))
    return value == wanted


def _id_path(result: object, value: str, depth: int = 0) -> str | None:
    """Return the indices and attributes that lead from the result of a call to an id in it, as code. Such ids can
    differ in each run, so the script must not contain them.
    """
    for step, _, each in _members(result):
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


def body_code(body: str | list[str], *, is_short: bool) -> object:
    """Return a body as the code that builds it: a JSON document, the events of a stream, a string, or its chunks.

    With `is_short`, fields that clients ignore are left out.
    """
    if not isinstance(body, str):
        return body
    text = body
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
    return JoinedTexts([made, text[end:]]) if text[end:] else made


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


# --- source code ---

_MAX_CALLS = 4


def reader(claim: ScriptClaim, made: tuple[Any, Any] | None) -> str | None:
    """Return an expression that reads the claim's value from the library's own object, or `None` if none is found.

    `made` holds the library's object, and the completion that its wrapper reads from it.
    """
    subject, count = claim.subject, next(iter(claim.path), "")
    if made is None:
        return None
    answer, body = made[0], plain(made[1])
    choice = plain(next(iter(body.get("choices") or ()), None))
    message = plain(choice.get("message"))
    match subject:
        case "text":
            wanted, part = message.get("content"), ""
        case "reason":
            wanted, part = choice.get("finish_reason"), "reason|stop|finish|status"
        case "usage":
            key, part = {"read": ("prompt_tokens", "put"), "written": ("completion_tokens", "put")}.get(
                str(count), ("", "")
            )
            wanted = plain(body.get("usage")).get(key)
        case _:
            calls = [plain(plain(each)["function"]) for each in message.get("tool_calls") or ()]
            given = [(each["name"], each["arguments"]) for each in calls]
            names = {each[0] for each in cast("list[Any]", claim.value or [])}
            return _calls_reader(answer, given, names, whole=subject != "calls")
    if subject == "text" and isinstance(answer, list):
        return _joined_reader(cast("list[object]", answer), str(wanted))
    every = [
        (f"{path}.value", name, value.value) if isinstance(value, Enum) else (path, name, value)
        for path, name, value in _places(answer)
    ]
    places = ((path, value) for path, name, value in every if re.search(part, name)) if wanted else ()
    found = next((path for path, value in places if isinstance(value, str | int) and value == wanted), None)
    if found is None and subject == "reason":  # in a word of the client's own
        return next((path for path, name, value in every if isinstance(value, str) and _REASON.fullmatch(name)), None)
    return found


_REASON = re.compile(r"(stop|finish)(_?reason)?", re.IGNORECASE)


def _joined_reader(pieces: list[object], text: str) -> str | None:
    """Return an expression that joins the texts in the pieces of a stream, or `None` if none is found."""
    names = dict.fromkeys(step for each in pieces for step, _, one in _members(each) if isinstance(one, str))
    codes = ["''.join(each for each in answer if isinstance(each, str))"]
    for step in names:
        condition = f"{step[1:-1]} in each" if step.startswith("[") else f"hasattr(each, {step[1:]!r})"
        codes.append(f"''.join(each{step} or '' for each in answer if {condition})")
    for code in codes:
        with contextlib.suppress(Exception):
            if eval(code, {"answer": pieces}) == text:  # noqa: S307 - code that was just made
                return code
    return None


def _calls_reader(answer: object, calls: list[tuple[str, Any]], names: Container[str], *, whole: bool) -> str | None:
    """Return an expression for the list of all calls as pairs of name and arguments, or `None` if none is found.

    If `whole` is set, only calls with parsed arguments are in the list. If no list has exactly these `calls`, return
    the expression for the pieces of a stream of which one is a call with one of the `names`.
    """
    wanted = [(name, _parse(args)) for name, args in calls]
    for path, _, value in _places(answer) if calls else ():
        items = cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
        for item in [each for each in items if not isinstance(each, str)][:_MAX_CALLS]:
            inner = [*_places(item, "call", _MAX_CALLS - 1)]
            name = next((one for one, _, each in inner if each == wanted[0][0]), "")
            given = next(((one, each) for one, _, each in inner if _parse(each) == wanted[0][1]), None)
            code = _list_code(path, name, given, is_mixed=len(items) > len(calls), whole=whole)
            with contextlib.suppress(Exception):
                found = eval(code, {"answer": answer, "json": json})  # noqa: S307 - code that was just made
                if found and found == [each for each in wanted if isinstance(each[1], dict) or not whole]:
                    return code
    for piece in cast("list[object]", answer) if isinstance(answer, list) else ():
        inner = [each for each in _places(piece, "call", _MAX_CALLS - 1) if not re.search(r"\[-?\d", each[0])]
        name = next((one for one, _, each in inner if isinstance(each, str) and each in names), "")
        given = next(((one, each) for one, key, each in inner if re.match("arg|input|param", key)), None)
        if code := _list_code("answer", name, given, is_mixed=True, whole=whole):
            return code
    return None


def _list_code(path: str, name: str, given: tuple[str, object] | None, *, is_mixed: bool, whole: bool) -> str:
    """Return the expression for the calls in the list at `path`, or an empty string if a call's parts are unknown.

    `name` and `given` are the expressions for a call's name and arguments, with an example of the arguments. With
    `is_mixed`, the list contains other objects, too.
    """
    step = re.match(r"call(?:\.(\w+)|\[('[^']*')\])", name)
    if given is None or step is None:
        return ""
    args = f"json.loads({given[0]})" if isinstance(given[1], str) else given[0]
    conditions = [f"hasattr(call, {step[1]!r})" if step[1] else f"{step[2]} in call"] if is_mixed else []
    conditions += [f"isinstance({given[0]}, dict)"] if whole else []
    return f"[({name}, {args}) for call in {path}{''.join(f' if {each}' for each in conditions)}]"


def _parse(arguments: Any) -> Any:
    with contextlib.suppress(ValueError):
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    return arguments


def _places(value: object, path: str = "answer", depth: int = 6) -> Iterator[tuple[str, str, object]]:
    """Yield each value in an object, with the expression that reads it and its name. Values closest to the root come
    first.
    """
    level, seen = [(path, "", value)], set[int]()
    for _ in range(depth):
        yield from level
        inner = list[tuple[str, str, object]]()
        for at, name, each in level:
            if not isinstance(each, str | int | float | bytes | None) and id(each) not in seen:
                seen.add(id(each))
                inner += [(at + step, key or name, one) for step, key, one in _members(each)]
        level = inner[:_MAX_PLACES]


def _members(value: object) -> Iterator[tuple[str, str, object]]:
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", str(key), each) for key, each in cast("dict[object, object]", value).items())
    elif isinstance(value, tuple) and hasattr(named := cast("Any", value), "_fields"):
        yield from ((f".{name}", name, getattr(named, name)) for name in named._fields)
    elif isinstance(value, list | tuple):
        size = len(cast("list[object]", value))
        steps = (at if size < 2 or at < size - 1 else -1 for at in range(size))
        yield from ((f"[{at}]", "", each) for at, each in zip(steps, cast("list[object]", value), strict=True))
    elif hasattr(value, "__dict__") and not callable(value):
        kinds = {name: each for kind in type(value).__mro__ for name, each in vars(kind).items()}
        properties = [name for name, each in kinds.items() if isinstance(each, property)]
        for name in (each for each in [*vars(value), *properties] if not each.startswith(("_", "model_"))):
            with warnings.catch_warnings(action="ignore"), contextlib.suppress(Exception):
                yield f".{name}", name, getattr(value, name)


_MAX_PLACES = 3000

_OWN = "harness"
