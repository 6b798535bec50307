"""Parameters of third-party code that take tools, and the values that they get."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeAlias, cast

from harness.bridge.call_log import call
from harness.bridge.clients.annotations import own_classes_in
from harness.bridge.clients.answer_fields import own_calls
from harness.bridge.clients.declared_parts import parts_by_name
from harness.bridge.clients.field_tools import field_tools
from harness.bridge.clients.message_classes import as_annotated
from harness.bridge.clients.methods import Method, method_of
from harness.bridge.clients.names import EXECUTORS, FUNCTION_MAPS, SYNONYMS, TOOL_PARAMETERS
from harness.bridge.clients.sent_tools import names_sent_as_tools
from harness.bridge.clients.signature_reading import reads_signatures
from harness.bridge.clients.sources import ClassSource, passed_on, source_of
from harness.bridge.clients.tool_declarations import (
    TOOL_PARTS,
    declaration_of,
    declarations,
    parts_of_tool,
    tool_parameters,
)
from harness.bridge.clients.tool_functions import (
    AwaitableText,
    ToolSequence,
    as_method,
    make_function,
    make_handler,
    parsed_arguments,
)
from harness.bridge.clients.tool_objects import CallableTool, ToolMaker, executing_method, tool_maker
from harness.bridge.clients.tool_registration import Registrar, registrar_method
from harness.model.errors import ToolFailed


def tool_arguments(method: Method, code: ClassSource, *, only_if_clear: bool) -> dict[str, ToolArgument]:
    """Return a function for each parameter of a method that takes tools to run. The function builds the argument.

    With `only_if_clear`, the annotations must show that the method runs the tools. Without them, it may be a client
    that returns its calls to the caller.
    """
    names = sorted({*method.names, method.variadic} - {"self", ""})
    executors = [each for each in names if EXECUTORS.fullmatch(each) and _may_execute_calls(method, each)]
    found = {name: made for name in names if (made := _clear_argument(name, method, code))}
    if not found and executors:
        declared = _declaring_names(method, code, executors)
        found = {each: declarations_argument(code.module, method.hints.get(each)) for each in declared}
        found |= {name: ExecutorArgument(own_classes_in(method.hints.get(name))) for name in executors[:1]}
    if not found and not only_if_clear:
        found = {
            name: made for name in names if name in TOOL_PARAMETERS and (made := _likely_argument(name, method, code))
        }
    functions = {name: made for name, made in found.items() if isinstance(made, FunctionsArgument)}
    declared = _declaring_names(method, code, functions) if functions else frozenset[str]()
    if functions and len(declared) == 1:
        found = {name: replace(made, is_by_signature=False) for name, made in functions.items()}
        found |= {each: declarations_argument(code.module, method.hints.get(each)) for each in declared}
    return found


def _declaring_names(method: Method, code: ClassSource, others: Collection[str]) -> frozenset[str]:
    """Return the parameters for declarations, without those for functions. If none has a usual name, a required list
    that the code sends as its tools is one.
    """
    named = method.names & {*SYNONYMS["tools"]} - {*others}
    hints = {name: str(method.hints.get(name, list)) for name in method.required - {*others}}
    lists = frozenset(name for name, hint in hints.items() if re.search("list|List|Sequence|Iterable", hint))
    sent = lists & names_sent_as_tools(code.source)
    return sent if not named and len(sent) == 1 else named


def _may_execute_calls(method: Method, name: str) -> bool:
    """Return whether a parameter takes a function or an object that executes calls, not one that only observes them."""
    hint = method.hints.get(name)
    returned = next(
        (typing.get_args(each)[-1] for each in (hint, *typing.get_args(hint)) if _is_function_type(each)), 0
    )
    if name.startswith("on_") and (returned is type(None) or (returned == 0 and name not in method.required)):
        return False
    return hint is None or "Callable" in str(hint) or any(map(executing_method, own_classes_in(hint)))


def _is_function_type(hint: object) -> bool:
    return typing.get_origin(hint) is cast("object", Callable) and bool(typing.get_args(hint))


def _clear_argument(name: str, method: Method, code: ClassSource) -> ToolArgument | None:
    """Return the function that makes an argument whose annotation, or default class, holds tools to run."""
    hint = method.hints.get(name)
    for kind in own_classes_in(hint) or _default_classes(name, code):
        if (registrar := registrar_method(kind)) is not None:
            return RegistryArgument(kind, registrar)
    if name not in TOOL_PARAMETERS:
        return None
    for kind in own_classes_in(hint):
        if (maker := field_tools(hint, kind) or tool_maker(kind, code)) is not None:
            return ObjectsArgument(maker, takes_mapping(name, hint, code))
    if "Callable" not in str(hint):
        return None
    return _pairs_argument(name, hint, code) or FunctionsArgument(str(hint), is_mapping=takes_mapping(name, hint, code))


def _likely_argument(name: str, method: Method, code: ClassSource) -> ToolArgument | None:
    """Return the function that builds an argument whose annotation is too general, if the source shows that it runs
    tools.
    """
    hint = method.hints.get(name)
    if (unpacked := _unpacked_argument(name, code)) is not None:
        return unpacked
    is_mapping, of_dicts = takes_mapping(name, hint, code), re.search(r"\[.*\b[dD]ict|Mapping\[.*\]\]", str(hint))
    if code.runs_tools and (pairs := _pairs_argument(name, hint, code)) is not None:
        return pairs
    if name in FUNCTION_MAPS and is_mapping and code.runs_tools:
        return FunctionsArgument(str(hint), is_mapping=True)
    if not of_dicts and reads_signatures(method.with_imports, name):
        return FunctionsArgument(str(hint), is_mapping=is_mapping)
    kinds = [each for each in code.classes if re.search("Tool|Function|Skill|Action", each.__name__)]
    makers = [maker for each in kinds if (maker := tool_maker(each, code)) is not None]
    if not of_dicts and len(makers) == 1:
        return ObjectsArgument(makers[0], is_mapping)
    return ObjectsArgument(None, is_mapping) if code.runs_tools else None


def _unpacked_argument(name: str, code: ClassSource) -> UnpackedArgument | None:
    """Return the function that makes an argument with dictionaries which the class unpacks into a method of its own."""
    found = re.search(rf"\bfor (\w+) in \(?(?:self\.)?_?{name}\b[^:\n]*:\s+self\.(\w+)\(\*\*\1\)", code.source)
    method = getattr(code.owner, found[2], None) if found else None
    named = tool_parameters(method_of((), method)) if method is not None else {}
    return UnpackedArgument(named) if {"name", "handler"} <= named.keys() else None


def _pairs_argument(name: str, hint: object, code: ClassSource) -> PairsArgument | TuplesArgument | None:
    """Return the function that makes an argument with pairs of a declaration and a function, if there are such pairs.

    The annotation or the source shows them. The annotation may also have tuples of a function, texts and a schema.
    """
    is_mapping = takes_mapping(name, hint, code)
    kinds = next(_tuples_in(hint), ())
    if len(kinds) > _PAIR:
        return _tuples_argument(kinds, is_mapping)
    if hint is None and (unpacked := _tuples_by_use(name, code)) is not None:
        return unpacked
    if any("Callable" in str(each) for each in kinds):
        typed = next((each for each in kinds if inspect.isclass(each) and own_classes_in(each)), None)
        return PairsArgument(str(hint), is_mapping, "Callable" in str(kinds[:1]), code.module, cast("Any", typed))
    read = re.search(rf"\bfor \(?(\w+), (\w+)\)? in (?:self\.)?_?{name}(\.values\(\))?(?![\w.])", code.source)
    if hint is not None or read is None or is_mapping is not bool(read[3]):
        return None
    is_function, is_declaration = (
        [each in (*TOOL_PARTS[part], *others) for each in read.groups()[:2]]
        for part, others in (("handler", ()), ("declaration", ("schema", "decl", "tool")))
    )
    if not any(is_declaration) and not (any(is_function) and "_" in read.groups()[:2]):
        return None
    return PairsArgument("", is_mapping, is_function[0] or is_declaration[1], code.module)


def _tuples_by_use(name: str, code: ClassSource) -> TuplesArgument | None:
    """Return the argument for tuples that the class unpacks into the parts of a declaration and a function."""
    read = re.search(
        rf"\bfor (?:(\w+), \()?((?:\w+, ){{2,3}}\w+)\)? in (?:self\.)?_?{name}(\.items\(\)|\.values\(\))?(?![\w.])",
        code.source,
    )
    if read is None:
        return None
    known = parts_by_name(code.source)
    parts = [known.get(each, "handler") for each in read[2].split(", ")]
    is_clear = "handler" in parts and len({*parts}) == len(parts) and {*parts} <= _PARTS_OF_TUPLES
    return TuplesArgument(parts, "", bool(read[3])) if is_clear else None


def _tuples_in(hint: object) -> Iterator[tuple[object, ...]]:
    """Yield the members of the tuples in an annotation."""
    inner = typing.get_args(hint)
    if typing.get_origin(hint) is tuple and len(inner) >= _PAIR and ... not in inner:
        yield inner
    else:
        yield from chain.from_iterable(map(_tuples_in, inner))


def _tuples_argument(kinds: Sequence[object], is_mapping: bool) -> TuplesArgument | None:
    """Return the argument for tuples of these types, if one is a function and the others are texts and a schema. Of two
    texts, the first is the name.
    """
    texts = iter(("name", "description") if [*kinds].count(str) == _PAIR else ("description",))
    parts = [
        "handler" if "Callable" in str(each) else next(texts, "") if each is str else "parameters" for each in kinds
    ]
    is_clear = "handler" in parts and "" not in parts and len({*parts}) == len(parts)
    return TuplesArgument(parts, str(kinds[parts.index("handler")]), is_mapping) if is_clear else None


_PAIR = 2

_PARTS_OF_TUPLES = frozenset({"name", "description", "parameters", "handler"})


def takes_mapping(name: str, hint: object, code: ClassSource) -> bool:
    """Return whether a parameter for tools is a dictionary by name, by its annotation or by how the class uses it."""
    if hint is not None and hint is not Any:
        return re.match(r"(<class '|typing\.\w+\[)?(\w+\.)*([dD]ict|Mapping|MutableMapping)\b", str(hint)) is not None
    is_kept = re.search(rf"self\.(\w+)(?::[^=\n]+)?\s*=\s*{name}\b(?!\.)", code.source)
    names = rf"((?<![\w.]){name}|self\.{is_kept[1]})" if is_kept else rf"(?<![\w.]){name}"
    if inspect.isfunction(code.owner) and (source := source_of(code.owner)):
        return _function_takes_mapping(name, source, code)
    return re.search(names + _MAPPING_USE, code.source) is not None


_MAPPING_USE = r"(\s+or\s+\{\}|\.get\(|\.items\(|\.values\(|\.keys\()"
"""Code after the name of a dictionary."""


def _function_takes_mapping(name: str, source: str, code: ClassSource) -> bool:
    """Return whether a function uses a parameter as a dictionary, itself or in a function that gets its value."""
    for item in re.findall(rf"\bfor (\w+) in \(?{name}(?![\w.(\[])", source):
        if {*re.findall(rf"(?<![\w.]){item}\.(\w+)", source)} - {*dir(str)}:
            return False  # the keys of a dictionary of tools are texts
    uses = [(name, source), *passed_on(code.module, name, source)]
    by_key = rf"{_MAPPING_USE}|\[(?![-\d:]|(?:i|j|k|idx|index)\])"
    return any(re.search(rf"(?<![\w.]){each}(?:{by_key})|\*\*{each}\b", user) for each, user in uses)


def _default_classes(name: str, code: ClassSource) -> list[type]:
    """Return the class that a constructor instantiates if the argument is missing. If there is none, return the class
    of the module that has all methods which the class calls on the argument.
    """
    made = re.search(rf"\b{name}\s+(?:or|if\s+{name}\s+is\s+not\s+None\s+else)\s+(\w+)\(", code.source)
    made = made or re.search(rf"\b(\w+)\(\)\s+if\s+(?:{name}\s+is\s+None|not\s+{name})\b", code.source)
    if made:
        return [each for each in code.classes if each.__name__ == made[1]]
    used = {*re.findall(rf"\b_?{name}\.([a-zA-Z]\w*)\b", code.source)} - {*dir(dict), *dir(list)}
    return [each for each in code.classes if used and all(hasattr(each, one) for one in used)][:1]


ToolArgument: TypeAlias = Callable[[ToolSequence, str], object]
"""Function that makes the value of a parameter for tools, from the tools and the name of the API."""


@dataclass(frozen=True, slots=True)
class RegistryArgument:
    """A registry of a third-party class with all tools."""

    kind: type
    registrar: Registrar

    @property
    def is_by_signature(self) -> bool:
        """Return whether the registry describes each tool by its signature."""
        return self.registrar.is_by_signature

    def __call__(self, tools: ToolSequence, api: str) -> object:
        """Return a registry with these tools."""
        registry = call(self.kind)
        for each in tools:
            self.registrar(registry, each, api)
        return registry


@dataclass(frozen=True, slots=True)
class ObjectsArgument:
    """Tools as objects of a third-party class, or as declarations that can also be called, in a list or by name.

    `has_declaration` is that of `CallableTool`.
    """

    make: ToolMaker | None
    is_mapping: bool
    has_declaration: bool = False

    @property
    def is_by_signature(self) -> bool:
        """Return whether each object describes its tool by the signature of a function."""
        return getattr(self.make, "is_by_signature", False)

    def __call__(self, tools: ToolSequence, api: str) -> object:
        """Return the objects for these tools."""
        has_declaration = self.has_declaration
        callables = (CallableTool(each, declaration_of(each, api), has_declaration=has_declaration) for each in tools)
        made = [*map(self.make, tools)] if self.make else [*callables]
        return {each.name: one for each, one in zip(tools, made, strict=True)} if self.is_mapping else made


@dataclass(frozen=True, slots=True)
class UnpackedArgument:
    """Tools as a list of dictionaries. `named` maps the parts of a tool to their keys."""

    named: Mapping[str, str]

    def __call__(self, tools: ToolSequence, _api: str) -> object:
        """Return the dictionaries for these tools."""
        return [{name: parts_of_tool(tool)[part] for part, name in self.named.items()} for tool in tools]


@dataclass(frozen=True, slots=True)
class FunctionsArgument:
    """Tools as functions, in a list or by name."""

    hint: str
    is_mapping: bool
    is_by_signature: bool = True

    def __call__(self, tools: ToolSequence, _api: str) -> object:
        """Return the functions for these tools."""
        make = make_function if self.is_by_signature else make_handler
        made = {each.name: make(each, self.hint) for each in tools}
        return made if self.is_mapping else [*made.values()]


@dataclass(frozen=True, slots=True)
class PairsArgument:
    """Tools as pairs of a declaration and a function, in a list or by name."""

    hint: str
    is_mapping: bool
    starts_with_function: bool
    module: str
    kind: type | None = None

    def __call__(self, tools: ToolSequence, api: str) -> object:
        """Return the pairs for these tools."""
        declared = as_annotated(declarations(tools, api, self.module), list[self.kind] if self.kind else None)
        pairs = [*zip(declared, (make_handler(each, self.hint) for each in tools), strict=True)]
        ordered = [(function, each) for each, function in pairs] if self.starts_with_function else pairs
        return dict(zip((each.name for each in tools), ordered, strict=True)) if self.is_mapping else ordered


@dataclass(frozen=True, slots=True)
class TuplesArgument:
    """Tools as tuples of a function, texts and a schema, in a list or by name."""

    parts: Sequence[str]
    hint: str
    is_mapping: bool

    def __call__(self, tools: ToolSequence, _api: str) -> object:
        """Return the tuples for these tools."""
        known = [parts_of_tool(each, self.hint) for each in tools]
        made = [tuple(each[part] for part in self.parts) for each in known]
        return dict(zip((each.name for each in tools), made, strict=True)) if self.is_mapping else made


def declarations_argument(module: str, hint: object) -> ToolArgument:
    """Return a function that makes the declarations of tools for code with the source `module`, as annotated."""
    return lambda tools, api: as_annotated(declarations(tools, api, module), hint)


@dataclass(frozen=True, slots=True)
class ExecutorArgument:
    """A function that executes a call, or an object of a third-party class with such a method."""

    kinds: Sequence[type]

    def __call__(self, tools: ToolSequence, _api: str) -> object:
        """Return the executor for these tools."""
        execute = self.executor(tools)
        for kind in self.kinds:
            if (name := executing_method(kind)) is not None:
                return type(kind.__name__, (kind,), {name: as_method(execute)})()
        return execute

    def executor(self, tools: ToolSequence) -> Callable[..., str]:
        """Return the function that executes a call of one of these tools. It returns the error of a tool if the method
        that it replaces does.
        """
        known = {each.name: each for each in tools}

        def execute(*args: Any, **kwargs: Any) -> str:
            values = [*args, *kwargs.values()]
            if len(values) == 1:
                ((_, _, name, arguments),) = own_calls([values[0]])
                return AwaitableText(known[name].text(arguments or {}))
            name = next(each for each in values if isinstance(each, str) and each in known)
            return AwaitableText(known[name].text(parsed_arguments(next(each for each in values if each is not name))))

        return _reporting_failures(execute) if any(map(_catches_failures, self.kinds)) else execute


def _catches_failures(kind: type) -> bool:
    """Return whether the method of a class that executes a call catches exceptions."""
    name = executing_method(kind)
    return name is not None and re.search(r"^\s*except\b", source_of(getattr(kind, name)), re.MULTILINE) is not None


def _reporting_failures(execute: Callable[..., str]) -> Callable[..., str]:
    """Return an executor that returns the error of a tool as a text."""

    def executed(*args: Any, **kwargs: Any) -> str:
        try:
            return execute(*args, **kwargs)
        except ToolFailed as error:
            return AwaitableText(f"Error: {error}")

    return executed
