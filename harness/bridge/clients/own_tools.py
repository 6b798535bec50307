"""Tools that a class gets by parameters and methods with any name, recognised by what its package does with them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from harness.bridge.clients.annotations import own_classes_in
from harness.bridge.clients.declared_parts import parts_by_name
from harness.bridge.clients.methods import Method, public_methods
from harness.bridge.clients.names import METHODS, NO_TOOL_PARAMETERS
from harness.bridge.clients.signature_reading import attributes_read, creates_instances, reads_signatures
from harness.bridge.clients.sources import (
    ClassSource,
    classes_of_modules,
    modules_around,
    options_in_source,
    passed_on,
    source_around,
    source_of_class,
)
from harness.bridge.clients.tool_arguments import (
    FunctionsArgument,
    ObjectsArgument,
    RegistryArgument,
    ToolArgument,
    takes_mapping,
)
from harness.bridge.clients.tool_classes import ClassMaker, own_tool_maker, parts_of_signature
from harness.bridge.clients.tool_objects import ToolMaker
from harness.bridge.clients.tool_registration import Registrar, is_event_method, returns_decorator


@dataclass(frozen=True, slots=True)
class PackageCode:
    """Source and classes of the package of a client."""

    owner: type
    source: str
    classes: Mapping[str, type]

    @classmethod
    def around(cls, owner: type) -> PackageCode:
        """Return the code of the package in which a class is defined."""
        modules = modules_around(owner.__module__)
        return cls(owner, source_around(owner.__module__), classes_of_modules(modules))

    def attributes(self, kind: type) -> Iterator[tuple[str, type]]:
        """Yield the attributes for which the constructor of a class creates an object of a class of the package."""
        source = source_of_class(kind)
        for name, made in re.findall(r"self\.(\w+)(?::[^=\n]+)?\s*=\s*(?:\w+ or |[^\n]* else )?(\w+)\(", source):
            if made in self.classes and self.classes[made] is not kind:
                yield name, self.classes[made]

    def default_class(self, parameter: str) -> type | None:
        """Return the class of the object that a constructor creates if an argument is missing."""
        made = re.search(rf"\b{parameter}\s+(?:or|if\s+{parameter}\s+is\s+not\s+None\s+else)\s+(\w+)\(\)", self.source)
        made = made or re.search(rf"\b(\w+)\(\)\s+if\s+(?:{parameter}\s+is\s+None|not\s+{parameter})\b", self.source)
        return self.classes.get(made[1]) if made else None

    def iterates(self, parameter: str) -> bool:
        """Return whether code iterates over the value of a parameter, perhaps in a function that receives it."""
        names = {parameter, *(name for name, _ in passed_on(self.source, parameter))}
        return any(re.search(rf"\bin (?:self\.)?_?{each}\b|\bmap\(\w+, {each}\b", self.source) for each in names)

    def maker_of_items(self, parameter: str) -> ToolMaker | None:
        """Return a function that makes tools as objects of the class that the items of a parameter have.

        The class is the one with the most of the attributes that the code reads from these items.
        """
        read = attributes_read(self.source, parameter) - {*dir(dict), *dir(list), *dir(str)}
        used = {each: len(read & _members(each)) for each in self.classes.values() if each is not self.owner}
        for kind in sorted(used, key=lambda each: -used[each]):
            is_used = used[kind] > 1 and not issubclass(kind, BaseException)
            if is_used and (maker := own_tool_maker(kind, self.source)) is not None:
                return maker
        return None


def _members(kind: type) -> set[str]:
    """Return the attributes of a class and of its instances, except those of every class."""
    fields = {*dir(kind), *getattr(kind, "__annotations__", ())}
    return fields | {*re.findall(r"self\.(\w+)(?::[^=\n]+)?\s*=[^=]", source_of_class(kind))} - {*dir(object)}


_CONTAINERS = (tuple, list, dict, set, frozenset)


def own_tool_argument(
    value: Callable[..., object], method: Method, code: ClassSource, package: PackageCode
) -> dict[str, ToolArgument]:
    """Return the parameter of a method or constructor that takes tools to run, with the function that builds the
    argument; `{}` if there is none.
    """
    for name, each in inspect.signature(value).parameters.items():
        is_open = each.kind is each.VAR_KEYWORD or name in NO_TOOL_PARAMETERS or name == method.prompt
        is_empty = each.default is each.empty or each.default is None or isinstance(each.default, _CONTAINERS)
        if is_open or not is_empty or re.fullmatch(_PLAIN_HINT, str(each.annotation)):
            continue
        if (made := _argument(name, method.hints.get(name), code, package)) is not None:
            return {name: made}
    return {}


_PLAIN_HINT = r"(?:(?:\w+\.)?Optional\[)?(?:<class ')?(?:str|int|float|bool)\b.*"
"""Annotation of a parameter for a text or a number."""


def _argument(name: str, hint: object, code: ClassSource, package: PackageCode) -> ToolArgument | None:
    is_mapping = takes_mapping(name, hint, code)
    kinds = [each for each in own_classes_in(hint) if each is not package.owner]
    for kind in kinds or filter(None, [package.default_class(name)]):
        if (registrar := own_registrar(kind, package)) is not None and not registrar.path:
            return RegistryArgument(kind, registrar)
    makers = [maker for each in kinds if (maker := own_tool_maker(each, package.source)) is not None]
    if not makers and package.iterates(name) and (maker := package.maker_of_items(name)) is not None:
        makers = [maker]
    is_function = (hint is None or "Callable" in str(hint)) and reads_signatures(package.source, name)
    if makers and not (is_function and getattr(makers[0], "is_by_signature", False)):
        takes_class = re.search(r"\b[tT]ype\[", str(hint)) and not re.search(r"Union|\|", str(hint))
        as_class = takes_class or creates_instances(package.source, name)
        return ObjectsArgument(ClassMaker(makers[0]) if as_class else makers[0], is_mapping)
    return FunctionsArgument(str(hint), is_mapping) if is_function else None


def own_registrar(kind: type, package: PackageCode) -> Registrar | None:
    """Return the method that registers a tool, of a class or of an object that its constructor creates.

    A method that takes the schema of the tool is preferred.
    """
    if (found := _registrar_of(kind, package)) is not None:
        return found
    for name, made in package.attributes(kind):
        if name[0] != "_" and (found := _registrar_of(made, package)) is not None:
            return replace(found, path=(name,))
    return None


def _registrar_of(kind: type, package: PackageCode) -> Registrar | None:
    methods = [each for each in public_methods(kind) if each.path[0] not in METHODS and _STORES.search(each.source)]
    methods = [each for each in methods if not is_event_method(each) and not each.sends_requests]
    found = [made for each in methods for find in _WAYS if (made := find(each, kind, package)) is not None]
    return min(found, key=lambda each: (each.is_by_signature, each.is_decorator), default=None)


_STORES = re.compile(r"self\.[\w.]+(?:\[[^\]\n]+\]\s*=|\(|\s*\+=|\s*=\s*[\w.]+\s*\+)")
"""Code that stores a value in an attribute, or passes it on to one."""


def _by_parts(method: Method, kind: type, package: PackageCode) -> Registrar | None:
    """Return a method that takes a function with at least two other parts of a tool."""
    named = parts_of_signature(inspect.getattr_static(kind, method.path[0]), package.source)
    is_whole = "handler" in named and len(named) > _LEAST_PARTS and method.required <= {"self", *named.values()}
    return Registrar(method, named) if is_whole and not returns_decorator(method) else None


_LEAST_PARTS = 2


def _by_decorator(method: Method, kind: type, package: PackageCode) -> Registrar | None:
    """Return a method that returns a decorator."""
    if not returns_decorator(method):
        return None
    named = parts_of_signature(inspect.getattr_static(kind, method.path[0]), package.source)
    named = {part: name for part, name in named.items() if part != "handler"}
    takes_properties = parts_by_name(package.source).get(options_in_source(method.source)) == "properties"
    is_whole = takes_properties or named.keys() & {"description", "parameters", "declaration"}
    is_fitting = is_whole and method.required <= {"self", *named.values()}
    return Registrar(method, named, is_decorator=True, takes_properties=takes_properties) if is_fitting else None


def _by_value(method: Method, kind: type, package: PackageCode) -> Registrar | None:
    """Return a method that takes a tool as an object, or as a function whose signature the code reads."""
    required = [*(method.required - {"self"})]
    if len(required) != 1:
        return None
    name, hint = required[0], method.hints.get(required[0])
    makers = (own_tool_maker(each, package.source) for each in own_classes_in(hint) if each is not kind)
    if (maker := next(filter(None, makers), None) or package.maker_of_items(name)) is not None:
        return Registrar(method, {}, item=name, make=maker)
    is_function = (hint is None or "Callable" in str(hint)) and reads_signatures(package.source, name)
    return Registrar(method, {"handler": name}) if is_function else None


_WAYS = (_by_parts, _by_decorator, _by_value)
