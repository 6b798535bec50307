"""Source code of third-party classes, functions, methods and modules, and what it shows."""

from __future__ import annotations

import ast
import inspect
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast


def source_of(value: object) -> str:
    """Return the source of a class, function, method or module, or an empty text if there is none."""
    try:
        return _read_source(value.__func__ if inspect.ismethod(value) else value)
    except (OSError, TypeError):
        return ""


@lru_cache(maxsize=512)
def _read_source(value: object) -> str:
    """Return the source of a value. For each class, Python before 3.13 parses the whole module."""
    return inspect.getsource(cast("Any", value))


@lru_cache(maxsize=64)
def functions_in(source: str) -> Mapping[str, str]:
    """Return the sources of the functions and methods that the source of a module defines, by name."""
    try:
        nodes = [
            each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
    except SyntaxError:
        return {}
    return {each.name: "\n".join(source.splitlines()[each.lineno - 1 : each.end_lineno]) for each in nodes}


@lru_cache(maxsize=64)
def passed_on(source: str, name: str, caller: str = "") -> tuple[tuple[str, str], ...]:
    """Return the parameters of functions in a source that get the value of a variable or attribute `name`, each with
    the source of its function. Only calls in `caller` count, if it is given.
    """
    try:
        nodes = [*ast.walk(ast.parse(source))]
        calls = [*ast.walk(ast.parse(textwrap.dedent(caller)))] if caller else nodes
    except SyntaxError:
        return ()
    functions = [each for each in nodes if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    lines = source.splitlines()
    found = dict[tuple[str, str], None]()
    for each in (one for one in calls if isinstance(one, ast.Call)):
        called = plain_name(each.func)
        for function in (one for one in functions if one.name == called):
            known = [one.arg for one in (*function.args.args, *function.args.kwonlyargs)]
            by_place = zip((one for one in known if one not in ("self", "cls")), each.args, strict=False)
            by_name = ((str(one.arg), one.value) for one in each.keywords)
            parameters = [parameter for parameter, value in (*by_place, *by_name) if _given_name(value) == name]
            code = "\n".join(lines[function.lineno - 1 : function.end_lineno]) if parameters else ""
            found |= {(parameter, code): None for parameter in parameters}
    return tuple(found)


def fields_given(source: str, name: str) -> tuple[str, ...]:
    """Return the fields of objects that get the value of a variable `name` when the object is made, by its name."""
    try:
        nodes = [*ast.walk(ast.parse(source))]
    except SyntaxError:
        return ()
    classes = {each.name for each in nodes if isinstance(each, ast.ClassDef)}
    made = (each for each in nodes if isinstance(each, ast.Call) and plain_name(each.func) in classes)
    given = (one for each in made for one in each.keywords if one.arg is not None)
    return tuple(dict.fromkeys(str(one.arg) for one in given if _given_name(one.value) == name))


def _given_name(node: ast.AST) -> str:
    """Return the name of a variable or an attribute.

    It may have a default, as in `tools or []`, or be in a new list, as in `list(tools)`.
    """
    if isinstance(node, ast.Call) and plain_name(node.func) in ("list", "tuple") and len(node.args) == 1:
        return _given_name(node.args[0])
    return plain_name(node.values[0] if isinstance(node, ast.BoolOp) else node)


def plain_name(node: ast.AST) -> str:
    """Return the name of a variable or of an attribute, or an empty text for another expression."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def modules_of_package(name: str) -> list[str]:
    """Return the names of a module and of the modules of its package that define what it imports.

    The values of its dictionaries count as imported. Files and packages beside a module that is in no package count as
    its package.
    """
    known = [*{**vars(sys.modules[name])}.values()] if name in sys.modules else []
    registries = [cast("dict[Any, Any]", each) for each in known if type(each) is dict]
    members = [*known, *(one for each in registries if len(each) <= _MAX_REGISTERED for one in each.values())]
    modules = (each.__name__ if inspect.ismodule(each) else getattr(each, "__module__", None) for each in members)
    package = f"{name.partition('.')[0]}."
    own = dict.fromkeys((name, *modules))
    return [
        each for each in own if isinstance(each, str) and (f"{each}.".startswith(package) or _is_beside(each, name))
    ]


_MAX_REGISTERED = 20
"""Limit of the number of entries of a dictionary of classes, functions or modules."""


def _is_beside(other: str, name: str) -> bool:
    """Return whether a module is in the folder of another one that is in no package, or in a package there."""
    if "." in name:
        return False
    folders = {_folder_of(each) for each in (other.partition(".")[0], name)}
    return len(folders) == 1 and "site-packages" not in folders.pop()


def _folder_of(name: str) -> str:
    """Return the folder that a module or a package is in, or a name of its own if it has no file."""
    module = sys.modules.get(name)
    if (file := getattr(module, "__file__", None)) is None:
        return name
    folder = os.path.dirname(file)  # noqa: PTH120 - this is called often
    return os.path.dirname(folder) if hasattr(module, "__path__") else folder  # noqa: PTH120


def modules_around(name: str) -> list[str]:
    """Return the names of the modules of a package that a module and the package itself import, directly or not."""
    pending, found = [name, name.partition(".")[0]], dict[str, None]()
    while pending and len(found) < _MAX_MODULES:
        each = pending.pop(0)
        if each in sys.modules and each not in found:
            found[each] = None
            pending += modules_of_package(each)
    return [*found]


_MAX_MODULES = 40
"""Limit of the number of modules of a package to read. A large library has hundreds of them."""


def source_around(name: str) -> str:
    """Return the source of the modules of `modules_around`."""
    return "\n".join(source_of(sys.modules[each]) for each in modules_around(name))


def source_with_imports(name: str) -> str:
    """Return the source of a module and of the modules of its package that define what it imports."""
    return "\n".join(source_of(sys.modules.get(each)) for each in modules_of_package(name))


def classes_with_imports(name: str) -> dict[str, type]:
    """Return the classes by name that a module and the modules of its package define whose definitions it imports."""
    return classes_of_modules(modules_of_package(name))


def classes_of_modules(names: Iterable[str]) -> dict[str, type]:
    """Return the classes by name that these modules define."""
    return {
        each.__name__: each
        for module in names
        if module in sys.modules
        for each in {**vars(sys.modules[module])}.values()
        if inspect.isclass(each) and each.__module__ == module
    }


@lru_cache(maxsize=256)
def arguments_beside_options(source: str) -> tuple[frozenset[str], int]:
    """Return the arguments that a method gives to the calls that get its `**options`: names, and the number of
    arguments by place. Arguments that it reads from the options first are left out.
    """
    try:
        (function,) = ast.parse(textwrap.dedent(source)).body
    except (SyntaxError, ValueError):
        return frozenset(), 0
    options = getattr(getattr(getattr(function, "args", None), "kwarg", None), "arg", "")
    names, places = set[str](), 0
    for call in (each for each in ast.walk(function) if isinstance(each, ast.Call)):
        unpacked = [each.value for each in call.keywords if each.arg is None]
        if any(isinstance(each, ast.Name) and each.id == options for value in unpacked for each in ast.walk(value)):
            names |= {each.arg for each in call.keywords if each.arg is not None}
            places = max(places, sum(not isinstance(each, ast.Starred) for each in call.args))
    read = {each.value for each in ast.walk(function) if isinstance(each, ast.Constant) and isinstance(each.value, str)}
    return frozenset(names - read), places


def source_of_class(value: type) -> str:
    """Return the source of a class and of its base classes, as far as it is known."""
    return "\n".join(filter(None, map(source_of, value.__mro__[:-1])))


@dataclass(frozen=True, slots=True)
class ClassSource:
    """The code in which a class or a function is defined: its source and the source of its module. `called` is the
    source of the functions that a function calls.
    """

    owner: type | Callable[..., object]
    source: str
    module: str
    called: str = ""

    @property
    def classes(self) -> list[type]:
        """The classes that the module of the class or function defines."""
        members = vars(sys.modules[self.owner.__module__]).values()
        return [each for each in members if inspect.isclass(each) and each.__module__ == self.owner.__module__]

    @property
    def runs_tools(self) -> bool:
        """Return whether the class passes the arguments of a call to a function. Code outside the class is ignored,
        because the caller may use it to run the tools.
        """
        return runs_tools(self.source) or runs_tools(self.called)


def merges_options(value: object) -> bool:
    """Return whether a constructor only merges its `**options` into another dictionary, and its module reads no base
    URL. They may be part of each request then.
    """
    function = value.__init__ if inspect.isclass(value) else value
    options = name_of_options(function) if inspect.isfunction(function) else None
    try:
        nodes = [*ast.walk(ast.parse(textwrap.dedent(source_of(function))))] if options else []
    except SyntaxError:
        return False
    uses = sum(isinstance(each, ast.Name) and each.id == options for each in nodes)
    pairs = (pair for each in nodes if isinstance(each, ast.Dict) for pair in zip(each.keys, each.values, strict=True))
    merged = sum(key is None and plain_name(each) == options for key, each in pairs)
    return 0 < uses == merged and "base_url" not in source_of(inspect.getmodule(value))


def name_of_options(function: Callable[..., object]) -> str | None:
    """Return the name of the `**options` in the signature of a function, or `None` if it has none."""
    parameters = inspect.signature(function).parameters.values()
    return next((each.name for each in parameters if each.kind is each.VAR_KEYWORD), None)


def options_in_source(source: str) -> str:
    """Return the name of the `**options` of the first function in a source that has some, or an empty text."""
    found = re.search(r"def \w+\([^)]*\*\*(\w+)", source)
    return found[1] if found else ""


def runs_tools(source: str) -> bool:
    """Return whether code passes the arguments of a call to a function."""
    return _RUNS_TOOLS.search(source) is not None


_ARGUMENT_NAMES = r"(arguments|args|input|inputs|params|parameters|parsed|tool_args|tool_input)\b"

_RUNS_TOOLS = re.compile(
    rf"\*\*\(?((json\.)?loads\(|[\w.]*\b{_ARGUMENT_NAMES}|\w+(\[|\.get\()[\"']{_ARGUMENT_NAMES})"
    rf"|\b(fn|func|function|handler|callback|run|call|execute|invoke|tool)[\"'\])]*\((\w+\.)?{_ARGUMENT_NAMES}"
)
"""Code that calls a tool: `fn(**args)`, `tool.run(**call.input)`, `handlers[name](**json.loads(text))`, `fn(args)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodCode:
    """Source code of a method, of its class and of its module, if they are known, and the name of that module."""

    source: str = ""
    class_source: str = ""
    module: str = ""
    module_name: str = ""

    @property
    def with_imports(self) -> str:
        """The source of its module and of the modules of its package that define what its module imports."""
        return source_with_imports(self.module_name) or self.module

    @property
    def called_source(self) -> str:
        """The source of the method and of the functions of its module that it calls, also through others."""
        return "\n".join(self._called_sources(functions_in(self.module)))

    @property
    def sends_requests(self) -> bool:
        """Return whether the method sends a request, itself or by another function of its module or package."""
        known = {**functions_in(self.with_imports), **functions_in(self.module)}
        return any(map(_SENDS_REQUEST.search, self._called_sources(known)))

    @property
    def sends_no_conversation(self) -> bool:
        """Return whether the method sends a request to another endpoint of a provider, such as that for embeddings."""
        found = self.called_source
        return _OTHER_ENDPOINT.search(found) is not None and _CHAT_ENDPOINT.search(found) is None

    def _called_sources(self, known: Mapping[str, str]) -> Iterator[str]:
        """Yield the source of the method, and of those of the known functions that it calls, also through others."""
        left, seen = [self.source], set[str]()
        while left:
            source = left.pop()
            yield source
            called = {*_CALLED_NAME.findall(source)} & known.keys() - seen
            seen |= called
            left += [known[each] for each in called]

    @property
    def receives_by_send(self) -> bool:
        """Return whether the method is a generator that its caller sends the messages to."""
        return re.search(r"=\s*\(?yield\b(?!\s+from\b)", self.source) is not None

    @property
    def always_streams(self) -> bool:
        """Return whether each call of the method requests a stream. The functions that it calls may do it, unless they
        decide about it.
        """
        if re.search(rf"\byield\b|{_REQUESTS_STREAM}", self.source):
            return True
        code = self.called_source
        return re.search(_REQUESTS_STREAM, code) is not None and not re.search(_DECIDES_ABOUT_STREAM, code)

    @property
    def mentions_images(self) -> bool:
        """Return whether the client's module mentions images. If not, the client is not expected to send them."""
        return bool(re.search(r"image|inline_?data", self.module, re.IGNORECASE))

    @property
    def joins_parts(self) -> bool:
        """Return whether the client's module takes content that is a list of parts, and joins the texts among them.

        It skips the parts that have no text. A client that fails for them accepts only texts.
        """
        return _JOINS_PARTS.search(self.module) is not None

    @property
    def reads_parts(self) -> bool:
        """Return whether the source of the client's module handles content that is a list of parts."""
        tested = "" if self.mentions_images else r"content[^)]*"
        return re.search(rf"image_url|isinstance\([^)]*{tested}\b(list|str)\b", self.module) is not None


_JOINS_PARTS = re.compile(
    r"isinstance\((?P<parts>\w+), \(?list\b[^\n]*(?:\n[^\n]*){0,3}?\.join\("
    r"[^\n]*\n?[^\n]*\bfor (?P<part>\w+) in (?P=parts)\s+if [^\n]*\b(?P=part)(?:\.get\(|\[)[\"'](?:text|type)[\"']"
)
"""Code that tests for a list and joins the texts of those of its items that have one."""

_REQUESTS_STREAM = r"[\"']?\bstream[\"']?\s*[:=]\s*True|stream_generate|streamGenerate"

_DECIDES_ABOUT_STREAM = r"\b(if|not|while|and|or)\b[^\n:]*\bstream|\bstream\w*\s*[:=]\s*(False|bool|None)"

_OTHER_ENDPOINT = re.compile(
    r"\bembeddings?\b|embed_?content|\bmoderations?\b|count_?tokens|images/generations|\bimages\.(generate|edit)\b"
    r"|audio[./](speech|transcriptions)",
    re.IGNORECASE,
)
"""Code that sends a request to another endpoint than that for conversations."""

_CHAT_ENDPOINT = re.compile(r"completions|\bmessages\b|\bresponses\b|generate_?content", re.IGNORECASE)

_CALLED_NAME = re.compile(r"\b(\w+)\(")

_SENDS_REQUEST = re.compile(
    r"\.(create|stream|parse|post|request|urlopen|generate_content\w*|send_message\w*|a?completion|complete)\(|\burlopen\("
)
"""Code that sends a request by an SDK or an HTTP client."""
