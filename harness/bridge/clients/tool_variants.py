"""Further forms in which third-party code may take its tools, for a trial that shows which of them it takes."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

from harness.bridge.clients.annotations import BUILTIN_MODULES, hints_of, members_of, own_classes_in
from harness.bridge.clients.forms import GEMINI, OPENAI
from harness.bridge.clients.methods import Method, public_methods
from harness.bridge.clients.names import EXECUTORS, FUNCTION_MAPS, NO_TOOL_PARAMETERS, TOOL_PARAMETERS
from harness.bridge.clients.sent_tools import names_sent_as_tools
from harness.bridge.clients.sources import ClassSource, classes_with_imports, source_of
from harness.bridge.clients.tool_arguments import (
    ExecutorArgument,
    FunctionsArgument,
    ObjectsArgument,
    PairsArgument,
    RegistryArgument,
    ToolArgument,
    TuplesArgument,
    takes_mapping,
)
from harness.bridge.clients.tool_classes import ClassMaker, own_tool_maker
from harness.bridge.clients.tool_declarations import BARE, TOOL_PARTS, declaration_of, declared_as, parts_of_tool
from harness.bridge.clients.tool_functions import ToolSequence, as_method, make_function, make_handler
from harness.bridge.clients.tool_objects import ConstructedTools, ToolMaker, TypedDictionaries, parts_named, tool_maker
from harness.bridge.clients.tool_registration import registrar_method
from harness.model.protocols import ConversationTool

ToolArguments: TypeAlias = Mapping[str, ToolArgument]


def tool_variants(value: Callable[..., object], method: Method, code: ClassSource, api: str) -> Iterator[ToolArguments]:
    """Yield the ways to give tools to a method or constructor, by the parameters that may take them.

    `value` is the method or the function that is called, and `code` is that of its class, which calls `api`.
    """
    names = _candidates(value, method, code)
    open_names = [each for each in names if not own_classes_in(method.hints.get(each))]
    pairs = [(first, second) for first in open_names for second in open_names if first != second]
    pairs.sort(key=lambda each: not _takes_functions(each[1], method))
    for name in (each for each in names if each not in open_names):
        yield from ({name: each} for each in _whole_forms(name, method.hints.get(name), code, api))
    for declared, run in pairs if len(open_names) <= _MAX_NAMES else []:
        for one in _declared_forms():
            yield from ({declared: one, run: each} for each in _running_forms(method.hints.get(run)))
    for name in open_names:
        yield from ({name: each} for each in _whole_forms(name, method.hints.get(name), code, api))


_MAX_NAMES = 3


def _candidates(value: Callable[..., object], method: Method, code: ClassSource) -> list[str]:
    """Return the parameters that may take tools: those with a usual name, and required ones of unknown meaning."""
    others = {*NO_TOOL_PARAMETERS, *method.example_names, method.prompt}
    sent, found = names_sent_as_tools(code.source), list[str]()
    own = inspect.signature(value).parameters
    inner = [each for each in sorted(method.names & TOOL_PARAMETERS) if each not in own]  # of a configuration object
    for name, each in own.items():
        default = cast("object", each.default)
        is_empty = default is each.empty or default is None or isinstance(default, _CONTAINERS)
        is_plain = re.fullmatch(_PLAIN_HINT, str(each.annotation)) is not None
        if name in others or is_plain or not is_empty or each.kind is each.VAR_KEYWORD or name.startswith("on_"):
            continue
        if default is not each.empty and any(map(_declares_own_methods, own_classes_in(method.hints.get(name)))):
            continue
        is_named = name in TOOL_PARAMETERS or EXECUTORS.fullmatch(name) or _TOOL_WORDS.search(name) or name in sent
        is_named = is_named or any(map(_is_tool_source, own_classes_in(method.hints.get(name))))
        is_required = each.default is each.empty and not _is_of_library(method.hints.get(name), code)
        if is_named or is_required:
            found.append(name)
    return [*inner, *(each for each in found if not inner or not own_classes_in(method.hints.get(each)))]


def _declares_own_methods(kind: type[Any]) -> bool:
    """Return whether a class has methods that it declares as tools itself, by their names."""
    named = {*re.findall(r"[\"'](\w+)[\"']", source_of(kind))}
    return len({each.path[0] for each in public_methods(kind)} & named) > 1


def _is_of_library(hint: object, code: ClassSource) -> bool:
    """Return whether an annotation names only classes of libraries, such as `Path` or the client of an SDK."""
    kinds = [each for each in members_of(hint) if inspect.isclass(each)]
    own = classes_with_imports(code.owner.__module__).values()
    return bool(kinds) and not any(each in own or each.__module__ in _GENERAL_MODULES for each in kinds)


_GENERAL_MODULES = (*BUILTIN_MODULES, "collections")


_CONTAINERS = (tuple, list, dict)
_PLAIN_HINT = r"(?:(?:\w+\.)?Optional\[)?(?:<class ')?(?:str|int|float|bool)\b.*"
_TOOL_WORDS = re.compile(
    "tool|function|handler|spec|schema|action|command|skill|dispatch|regist|plugin|capabilit|abilit"
)


def _is_tool_source(kind: type[Any]) -> bool:
    """Return whether a caller implements a class that returns the declarations of tools and executes their calls."""
    missing = list[str](getattr(kind, "__abstractmethods__", ()))
    numbers = {len(inspect.signature(getattr(kind, each)).parameters) for each in missing}
    return re.search("Tool|Function|Skill|Action|Command", kind.__name__) is not None and {1, 3} <= numbers


def _takes_functions(name: str, method: Method) -> bool:
    """Return whether the name or the annotation of a parameter shows that it takes functions."""
    return name in FUNCTION_MAPS or EXECUTORS.fullmatch(name) is not None or "Callable" in str(method.hints.get(name))


def _declared_forms() -> Iterator[ToolArgument]:
    """Yield the forms of a parameter for declarations next to one for functions."""
    for is_mapping in (False, True):
        yield from (_Declarations(form, is_mapping) for form in ("", OPENAI.name, BARE))


def _running_forms(hint: object) -> Iterator[ToolArgument]:
    """Yield the forms of a parameter for functions next to one for declarations."""
    yield FunctionsArgument(str(hint), is_mapping=True, is_by_signature=False)
    yield FunctionsArgument(str(hint), is_mapping=False, is_by_signature=False)
    yield ExecutorArgument(own_classes_in(hint))


def _whole_forms(name: str, hint: object, code: ClassSource, api: str) -> Iterator[ToolArgument]:
    """Yield the forms of a parameter that takes whole tools, in a list or by name."""
    is_mapping, is_open = takes_mapping(name, hint, code), not _HAS_ITEMS.search(str(hint))
    known = classes_with_imports(code.owner.__module__).values()
    kinds: list[type[Any]] = own_classes_in(hint) or [*known]
    kinds = [each for each in kinds if each is not code.owner and not issubclass(each, BaseException)]
    if _READS_MEMBERS.search(code.module):
        yield from map(_Namespaces, own_classes_in(hint) or (None, object) if is_open else ())
    if is_open and re.search(rf"\b_?{name}\.\w+\(", code.module):
        yield from (_ToolSources(form, kinds=own_classes_in(hint)) for form in ("", OPENAI.name, BARE))
    if _calls_items(name, code.module):
        for has_functions in (False, True):
            yield from (
                _ToolSources(form, is_list=True, has_functions=has_functions) for form in ("", OPENAI.name, BARE)
            )
    for kind in filter(_is_tool_source, kinds):
        yield from (_ToolSources(form, kind, is_list=not is_open) for form in ("", OPENAI.name, BARE))
    registrars = ((each, registrar_method(each)) for each in kinds)
    yield from (RegistryArgument(kind, registrar) for kind, registrar in registrars if registrar is not None)
    makers = [maker for each in kinds for maker in _makers_of(each, code, api)]
    for by_name in (is_mapping, not is_mapping) if is_open else (is_mapping,):
        for maker in makers:
            yield ObjectsArgument(maker, by_name)
            yield ObjectsArgument(ClassMaker(maker), by_name)
        yield from (_Dictionaries(keys, by_name) for keys in _keys_read(code.module))
        yield FunctionsArgument(str(hint), by_name)
        yield ObjectsArgument(None, by_name)
        yield ObjectsArgument(None, by_name, has_declaration=True)
        for starts_with_function in (False, True):
            yield PairsArgument(str(hint), by_name, starts_with_function, code.module)
        yield from (TuplesArgument(parts, str(hint), by_name) for parts in _TUPLES if by_name or "name" in parts)


def _calls_items(name: str, source: str) -> bool:
    """Return whether code calls methods without arguments of the items of a parameter."""
    items = re.findall(rf"\bfor (\w+) in \(?(?:self\.)?_?{name}\b", source)
    return any(re.search(rf"\b{each}\.\w+\(\)", source) for each in items)


_HAS_ITEMS = re.compile(r"\b([lL]ist|[sS]equence|[iI]terable|[tT]uple|[cC]ollection|[dD]ict|Mapping)\b")
"""Annotation of a container."""

_READS_MEMBERS = re.compile(r"\bgetmembers\(|\bdir\(|\bvars\(|\.__dict__\b")
"""Code that reads the members of an object."""

_TUPLES = (
    *(("parameters", "handler"), ("handler", "parameters"), ("described_parameters", "handler")),
    *(("description", "parameters", "handler"), ("description", "handler", "parameters")),
    *(("handler", "description", "parameters"), ("name", "description", "parameters", "handler")),
    *(("name", "handler", "description", "parameters"), ("handler", "name", "description", "parameters")),
)
"""Parts of tools that are tuples, in the orders that are tried. Those without a name are in a dictionary by name."""


def _makers_of(kind: type, code: ClassSource, api: str) -> Iterator[ToolMaker]:
    """Yield functions that make tools of a class. A declaration among their parts may have several formats."""
    forms = dict.fromkeys((api or OPENAI.name, OPENAI.name, *(() if api == GEMINI.name else (BARE,))))
    if typing.is_typeddict(kind):
        parts = parts_named(hints_of(kind))
        declared = {key: "declaration" if part == "parameters" else part for key, part in parts.items()}
        if "handler" in parts.values():
            yield from (TypedDictionaries(each, form) for each in (parts, declared) for form in forms)
        return
    for maker in filter(None, (tool_maker(kind, code), own_tool_maker(kind, code.module))):
        if isinstance(maker, ConstructedTools) and maker.takes_declaration:
            yield from (replace(maker, form=form) for form in forms)
        else:
            yield maker


def _keys_read(source: str) -> Iterator[Mapping[str, str]]:
    """Yield the keys that code reads from dictionaries and that mean parts of a tool, with one key for the function.

    The key `function` comes last, because the calls of OpenAI's format have it, too.
    """
    read = {*re.findall(r"(?:\[|\.get\(|\.pop\()[\"'](\w+)[\"']", source)}
    parts = {key: part for part, names in TOOL_PARTS.items() for key in names if key in read and part != "handler"}
    functions = [each for each in TOOL_PARTS["handler"] if each in read]
    for key in sorted(functions, key=lambda each: each == "function"):
        yield {**parts, key: "handler"}


def attribute_variants(kind: type, code: ClassSource, api: str) -> Iterator[ToolArguments]:
    """Yield the ways to give tools to the objects of a class by a public attribute, which is empty at first. A class
    whose constructor fills it with its own methods has tools of its own.
    """
    if _OWN_METHOD_AS_TOOL.search(source_of(kind.__init__)):
        return
    for name, hint in _EMPTY_ATTRIBUTE.findall(code.source):
        if name in TOOL_PARAMETERS:
            members = {"__annotations__": {name: hint} if hint else {}, "__module__": kind.__module__}
            own_hint = hints_of(type("Attributes", (), members)).get(name)
            yield from ({name: each} for each in _whole_forms(name, own_hint, code, api))


_OWN_METHOD_AS_TOOL = re.compile(r"\bself\.\w*(?:tool|register|add|function)\w*\(\s*self\.\w+\s*[,)]")

_EMPTY_ATTRIBUTE = re.compile(
    r"\bself\.([a-z]\w*)(?::\s*([^=\n]+?))?\s*=\s*(?:\[\]|\{\}|dict\(\)|list\(\))\s*$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class _Declarations:
    """Tools as declarations in the format of an API, or as bare ones, in a list or by name."""

    form: str
    is_mapping: bool

    def __call__(self, tools: ToolSequence, api: str) -> object:
        made = [_declared_as(self.form, each, api) for each in tools]
        return dict(zip((each.name for each in tools), made, strict=True)) if self.is_mapping else made


def _declared_as(form: str, tool: ConversationTool, api: str) -> Mapping[str, Any]:
    """Return a tool as a declaration in the format of `form`, or in that of an API if `form` is empty.

    A bare declaration of Gemini has the API's own keys, because the schema under `parameters` is not a JSON schema.
    """
    made = declared_as(api if form == BARE and api == GEMINI.name else form or api, tool)
    return {"functionDeclarations": [made]} if api == GEMINI.name and not form else made


@dataclass(frozen=True, slots=True)
class _ToolSources:
    """Tools as an object with methods of any name: one returns the declarations, and one executes a call.

    `form` is that of `_Declarations`. The object may have to implement the class `kind`, and may be in a list. With
    `has_functions`, each declaration is in a pair with its function. `kinds` are the classes of the annotation, whose
    place the object takes.
    """

    form: str
    kind: type[Any] = object
    is_list: bool = False
    has_functions: bool = False
    kinds: Sequence[type] = ()

    def __call__(self, tools: ToolSequence, api: str) -> object:
        declared = [_declared_as(self.form, each, api) for each in tools]
        pairs = [*zip(declared, map(make_handler, tools), strict=True)]
        execute = ExecutorArgument(self.kinds).executor(tools)
        made: object = _ToolSource(execute, pairs if self.has_functions else declared)
        if missing := list[str](getattr(self.kind, "__abstractmethods__", ())):
            made = type("Tools", (self.kind,), {name: as_method(getattr(made, name)) for name in missing})()
        return [made] if self.is_list else made


class _ToolSource:
    """An object whose methods, of any name, return the declarations of tools or execute a call."""

    def __init__(self, execute: Callable[..., object], declared: Sequence[object]) -> None:
        self._execute, self._declared = execute, _AwaitableList(declared)

    def __getattr__(self, name: str) -> Callable[..., object]:
        if name.startswith("_"):
            raise AttributeError(name)

        def run(*args: object, **kwargs: object) -> object:
            return self._execute(*args, **kwargs) if args or kwargs else self._declared

        return run


class _AwaitableList(list[object]):
    """Declarations of tools. A client may await them or not."""

    def __await__(self) -> Generator[Any, None, list[object]]:
        return self
        yield


@dataclass(frozen=True, slots=True)
class _Namespaces:
    """Tools as the functions of an object such as a module, or as the methods of a subclass of `base`."""

    base: type[Any] | None

    @property
    def is_by_signature(self) -> bool:
        """Return whether only the signatures of the functions describe the tools."""
        return True

    def __call__(self, tools: ToolSequence, _api: str) -> object:
        functions = {each.name: make_function(each) for each in tools}
        if self.base is None:
            return SimpleNamespace(**functions)
        return type("Tools", (self.base,), {name: _described_method(each) for name, each in functions.items()})()


def _described_method(function: Callable[..., object]) -> Callable[..., object]:
    """Return a method with the name, the parameters and the description of a function."""
    method, own = cast("Any", as_method(function)), inspect.signature(function)
    method.__name__, method.__doc__ = function.__name__, function.__doc__
    method.__annotations__ = function.__annotations__
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method.__signature__ = own.replace(parameters=[this, *own.parameters.values()])
    return method


@dataclass(frozen=True, slots=True)
class _Dictionaries:
    """Tools as dictionaries, in a list or by name. `keys` maps their keys to the parts of a tool."""

    keys: Mapping[str, str]
    is_mapping: bool

    @property
    def is_by_signature(self) -> bool:
        """Return whether only the signatures of the functions describe the tools."""
        return not {*self.keys.values()} & {"parameters", "properties", "declaration"}

    def __call__(self, tools: ToolSequence, api: str) -> object:
        made = {each.name: self._dictionary(each, api) for each in tools}
        return made if self.is_mapping else [*made.values()]

    def _dictionary(self, tool: ConversationTool, api: str) -> Mapping[str, Any]:
        make = make_function if self.is_by_signature else make_handler
        parts = {**parts_of_tool(tool), "declaration": declaration_of(tool, api), "handler": make(tool)}
        return {key: parts[part] for key, part in self.keys.items()}
