"""Code of scripts that reproduce a finding: for Python, the functions of a wrapper that a script needs and the values
of its calls; for Node, the program that wraps the library.
"""

from __future__ import annotations

import ast
import functools
import inspect
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from harness.bridge.call_log import BoundMethod
from harness.model.messages import JSON
from harness.model.protocols import Conversation, ConversationTool, Endpoint
from harness.platform.exceptions import shorten

if TYPE_CHECKING:  # it imports this module
    from harness.checks.reproduction import Reproduction, ScriptClaim

_WIDTH = 110
_OWN = "harness"


class CannotWrite(Exception):
    """A value has no representation as Python code."""


class Raw(str):
    """Code that is written as it is."""

    __slots__ = ()


Parts = tuple[str, list[tuple[str, Any]], str]
"""Opening text, entries with their prefixes, and closing text. A value without entries is only its opening text."""


class ScriptCode:
    """Writes values as code, and collects the imports and the wrapper's functions that the code uses.

    `names` maps the results of earlier calls to their variables. `strings` maps strings to code. `results` are the
    results of the tools of a loop.
    """

    def __init__(
        self,
        module: ModuleType | None,
        strings: Mapping[str, str],
        results: Mapping[str, Sequence[object]] | None = None,
    ) -> None:
        self._module = module
        self._strings = strings
        self._results = results or {}
        self._names_in: set[str] = set()
        self.names: list[tuple[object, str]] = []
        self.imports: set[str] = set()
        self.roots: list[str] = []

    def code(self, value: object, indent: int = 0, prefix: int = 0) -> str:
        """Return a value as code whose further lines are indented."""
        opening, entries, closing = self._parts(value)
        flat = opening + ", ".join(name + self.code(each) for name, each in entries) + closing
        if not entries or ("\n" not in flat and indent + prefix + len(flat) <= _WIDTH):
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
        return self.code(_CallCode(self.function(function), entries), indent)

    def function(self, function: object) -> str:
        """Return the name of a function, a class or a client's method."""
        if isinstance(function, BoundMethod):
            return ".".join((self.code(function.client), *function.path))
        name, module = getattr(function, "__qualname__", ""), getattr(function, "__module__", None)
        if not name.isidentifier() or module is None:
            raise CannotWrite(f"{function!r} is no function of a module")
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
            case Raw():
                return str(value), [], ""
            case _CallCode():
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
        """Return the code of a value that the script has already."""
        if isinstance(value, Endpoint):
            return "endpoint"
        if isinstance(value, str) and type(value) is str and value in self._strings:
            return self._strings[value]
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
            about = [("", value.name), ("", value.description), ("", value.parameters)]
            return "scripted_tool(", [*about, ("", [*self._results.get(value.name, ())])], ")"
        turns = [_CallCode("SimpleNamespace", [("text=", each.text)]) for each in value.turns]
        names = ("tools", "system", "stream", "max_tokens", "max_answers")
        given = [(f"{name}=", _listed(getattr(value, name))) for name in names]
        return "SimpleNamespace(", [("turns=", turns), *given], ")"

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


class _CallCode:
    def __init__(self, name: str, entries: Iterable[tuple[str, Any]]) -> None:
        self.name, self.entries = name, [*entries]


def _listed(value: object) -> object:
    return [*cast("tuple[object, ...]", value)] if isinstance(value, tuple) else value


def _is_default(field: Field[Any], value: object) -> bool:
    default = field.default
    if default is MISSING and field.default_factory is not MISSING:
        default = field.default_factory()
    return default is not MISSING and bool(default == value)


def _text(value: str) -> Parts:
    """Return a text. A long one with several lines is written line by line."""
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
    """Return the code that leads from the result of a call to a value in it."""
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
    """Return the code that leads from the result of a call to an id in it, which may be another one in each run."""
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


# --- functions of a wrapper ---


def wrapper_source(module: ModuleType, roots: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the imports and the definitions of a module that its functions `roots` need.

    Names of harness are left out; the script has to define those that are no annotations.
    """
    source = inspect.getsource(module)
    tree = ast.parse(source)
    made = {name: node for node in tree.body for name in _defined(node)}
    needed, left = set[str](), [*roots, *(name for node in tree.body if _is_setup(node) for name in _names_in(node))]
    while left:
        name = left.pop()
        if name not in needed:
            needed.add(name)
            left += _names_in(made[name]) if name in made else []
    imports, definitions, own = list[str](), list[str](), list[str]()
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            origin = getattr(node, "module", None) or node.names[0].name
            names = [each for each in node.names if (each.asname or each.name).partition(".")[0] in needed]
            if origin.partition(".")[0] == _OWN:
                own += [each.name for each in names]
            elif names:
                node.names = names
                imports.append(ast.unparse(node))
        elif _is_setup(node):
            (definitions or imports).append(ast.unparse(node))
        elif needed & {*_defined(node)}:
            definitions.append(ast.get_source_segment(source, node) or "")
    foreign = re.compile(rf": ({'|'.join(own)})(?=[,)])|\s*# noqa.*") if own else re.compile(r"\s*# noqa.*")
    return imports, [foreign.sub("", each) for each in definitions]


def _is_setup(node: ast.stmt) -> bool:
    """Return whether a statement of a module only sets up a library."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute)


def _defined(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign():
            return [each.id for each in node.targets if isinstance(each, ast.Name)]
        case _:
            return []


def _names_in(node: ast.AST) -> list[str]:
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]


def json_code(text: str) -> object:
    """Return a body as the code that makes it: an object that is written as JSON, or a text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return _CallCode("json.dumps", [("", cast("object", value))]) if isinstance(value, dict | list) else text


CALL_LOG = "HARNESS_CALL_LOG"
"""Environment variable with the file to which a program writes the calls of its library."""

_MARKED = re.compile(r"^// --- calls of the library.*?\n(.*?)^// --- end ---", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class NodeProgram:
    """A program that wraps a library of npm.

    `kind` is its argument, and `calls` are the lines of its log: the name of a function, and its arguments. `tools` are
    the results of a loop's tools, by name.
    """

    file: Path
    kind: str
    calls: Sequence[Sequence[JSON]]
    tools: Mapping[str, Sequence[JSON]]

    @property
    def source(self) -> str:
        """The lines of the program that call the library."""
        found = _MARKED.search(self.file.read_text(encoding="utf-8"))
        return "" if found is None else found[1]

    def script(self, made: Reproduction, claim: ScriptClaim, file: str) -> str:
        """Return a script that checks a claim."""
        at = made.finding.exchange
        is_loop = made.owns_loop
        chosen = 0 if is_loop or at is None else min(made.readings[at].exchange.chat or 0, len(self.calls) - 1)
        name, _, model, *given = self.calls[chosen]
        answers: list[JSON] = [[*each] for each in made.answers(0 if is_loop or at is None else at)]
        arguments = [json.dumps(model), *(_code(each) for each in given)]
        run = f", {_RUN.format(results=_code({key: [*each] for key, each in self.tools.items()}))}" if is_loop else ""
        call = f"answer = await {name}(endpoint, {', '.join(arguments)}{run});"
        if name == "stream":
            call += "\n  for await (const _ of chunks(answer));"
        return _SCRIPT.format(
            title=shorten(f"{made.subject}: {made.title}", 200),
            versions=", ".join(f"{each} {number}" for each, number in made.versions.items()),
            today=made.today,
            packages=" ".join(made.packages),
            file=file,
            kind=self.kind,
            answers=_code(answers),
            base_path=made.base_path,
            source=self.source.strip(),
            call=call,
            end=_end(made, claim),
        )


def _end(made: Reproduction, claim: ScriptClaim) -> str:
    says, value = json.dumps(made.says(claim)), _code(claim.value)
    at = (made.finding.exchange or 0) if made.owns_loop else "requests.length - 1"
    steps = "".join(f"?.[{json.dumps(each)}]" for each in claim.path)
    listed = "(await read(answer)).calls.map((each) => [each.name, each.input])"
    values = {
        "sent": f"requests[{at}]{steps}",
        "status": "error?.statusCode ?? error?.status",
        "runs": "runs",
        "calls": listed,
        "whole calls": listed,
        "text": "(await read(answer)).text",
        "usage": "(await read(answer)).written",
        "reason": "(await read(answer)).reason",
    }
    if claim.subject == "has":
        return f"assert.ok(JSON.stringify(requests[{at}]).includes(JSON.stringify({value}).slice(1, -1)), {says});"
    if claim.subject not in values:
        return f"assert.{'equal' if claim.subject == 'no error' else 'notEqual'}(error, undefined, {says});"
    got = f'const got = {values[claim.subject]};\nconsole.log("got:", JSON.stringify(got));'
    if claim.subject == "reason":
        return f"{got}\nassert.ok({value}.includes(String(got).toLowerCase()), {says});"
    return f"{got}\nassert.{'deepEqual' if claim.is_right else 'notDeepEqual'}(got, {value}, {says});"


def _code(value: JSON, indent: int = 0) -> str:
    """Return a value as code: on one line if it fits."""
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(flat) + indent <= _WIDTH:
        return flat
    inner = " " * (indent + 2)
    if isinstance(value, dict):
        lines = [f"{inner}{json.dumps(key)}: {_code(each, indent + 2)}," for key, each in value.items()]
    else:
        lines = [f"{inner}{_code(each, indent + 2)}," for each in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return "\n".join([opening, *lines, " " * indent + closing])


_RUN = """async (name, input) => {{
    runs.push([name, input]);
    return {results}[name][runs.filter(([each]) => each === name).length - 1];
  }}"""

_SCRIPT = """// {title}
//
// Seen on {today} with {versions}.
// Run it in a folder where only the library is installed:
//
//     npm install {packages}
//     node {file}
//
// A server on 127.0.0.1 gives the answers. They come from the reference server of harness, not from a provider. The
// script ends with an AssertionError as long as the fault exists.

import assert from "node:assert/strict";
import {{ createServer }} from "node:http";

const load = (name) => import(name);
const kind = {kind!r};
const ANSWERS = {answers};
const [requests, runs] = [[], []];

const server = createServer(async (request, response) => {{
  let sent = "";
  for await (const piece of request) sent += piece;
  requests.push(JSON.parse(sent));
  const [status, headers, body] = ANSWERS[Math.min(requests.length, ANSWERS.length) - 1];
  const isCut = "content-length" in headers;
  response.writeHead(status, {{ "content-length": Buffer.byteLength(body), ...headers }});
  response.write(body, () => (isCut ? response.destroy() : response.end()));
}});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const endpoint = {{ base_url: `http://127.0.0.1:${{server.address().port}}{base_path}`, api_key: "none" }};

{source}

let answer, error;
try {{
  {call}
}} catch (raised) {{
  error = raised;
  console.log("raised:", String(raised));
}}

{end}
process.exit(0);
"""
