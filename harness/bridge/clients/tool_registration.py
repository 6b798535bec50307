"""Methods of third-party classes that register a tool."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from harness.bridge.call_log import BoundMethod, call
from harness.bridge.clients.annotations import item_class, own_classes_in
from harness.bridge.clients.field_tools import field_tools
from harness.bridge.clients.inherited_tools import as_model
from harness.bridge.clients.methods import Method, public_methods
from harness.bridge.clients.names import first_known
from harness.bridge.clients.sources import ClassSource, options_in_source
from harness.bridge.clients.tool_declarations import (
    TOOL_PARTS,
    check_schema,
    declarations,
    parts_of_tool,
    tool_parameters,
)
from harness.bridge.clients.tool_functions import make_function
from harness.bridge.clients.tool_objects import ToolMaker, tool_maker
from harness.bridge.clients.values import without_keys
from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.protocols import ConversationTool


@dataclass(frozen=True, slots=True)
class Registrar:
    """A method that registers a tool: with its parts, as an object, as a function, or as a decorator.

    `path` leads from the client to the object that has the method. `named` maps parts of a tool to the method's
    parameters. `item` is the parameter for a tool as an object, and `make` makes it. With `takes_properties`, the
    schema of each property is a keyword argument.
    """

    method: Method
    named: Mapping[str, str]
    is_decorator: bool = False
    item: str = ""
    make: ToolMaker | None = None
    path: tuple[str, ...] = ()
    takes_properties: bool = False

    @property
    def is_by_signature(self) -> bool:
        """Return whether a tool is described by the signature of its function."""
        if self.make is not None:
            return getattr(self.make, "is_by_signature", False)
        return not self.takes_properties and not self.named.keys() & {"parameters", "declaration"}

    @property
    def _takes_types(self) -> bool:
        """Return whether the method takes the type of each parameter of the tool as a keyword argument."""
        return (
            self.is_by_signature
            and self.method.is_open
            and re.search(r"[\"']type[\"']", self.method.source) is not None
        )

    def __call__(self, client: object, tool: ConversationTool, api: str) -> object:
        """Register a tool with a client of an API. Return the client, or a copy that has the tool."""
        made = self._register(client, tool, api)
        return made if isinstance(made, type(client)) else client

    def _register(self, client: object, tool: ConversationTool, api: str) -> object:
        register = BoundMethod(client, (*self.path, *self.method.path))
        if self.make is not None:
            return call(register, **{self.item: self.make(tool)})
        hint = str(self.method.hints.get(self.named.get("handler", "")))
        parts = parts_of_tool(tool, hint)
        function = make_function(tool, hint) if self.is_by_signature else parts["handler"]
        parts |= {"handler": function, "declaration": declarations([tool], api, self.method.module)[0]}
        parts["parameters"] = as_model(tool, self.method.hints.get(self.named.get("parameters", "")))
        types = _types_of_parameters(tool) if self._takes_types else {}
        types |= self._properties(tool) if self.takes_properties else {}
        made = call(register, **{name: parts[part] for part, name in self.named.items()}, **types)
        return call(cast("Callable[..., object]", made), function) if self.is_decorator else made

    def _properties(self, tool: ConversationTool) -> dict[str, object]:
        """Return the schema of each property of a tool's arguments."""
        if "additionalProperties" in self.method.source and tool.parameters.get("additionalProperties") is False:
            tool = replace(tool, parameters=without_keys(tool.parameters, "additionalProperties"))
        check_schema(tool, takes_required=False)
        found = cast("dict[str, object]", tool.parameters.get("properties") or {})
        if found.keys() & self.method.names:
            raise Unsupported(RECOGNISED_CLIENT, tool.name, "it has parameters of the same names")
        return found


def _types_of_parameters(tool: ConversationTool) -> dict[str, object]:
    """Return the JSON type of each parameter of a tool."""
    properties = cast("dict[str, Any]", tool.parameters.get("properties") or {})
    return {name: schema["type"] for name, schema in properties.items() if isinstance(schema.get("type"), str)}


_REGISTERING_NAMES = re.compile(
    r"_?(add|register|tool|use|function|define|declare|include|handle|bind|expose|action|skill|provide|attach|append"
    r"|equip|install|with_tool|on_tool|__call__)(?!.*(message|history|context|hook|callback|listener|middleware|event))"
)
"""Names of methods that register a tool."""


def registrar_method(kind: type) -> Registrar | None:
    """Return the method of a class that registers a tool with its function. Prefer one that also takes its schema."""
    methods = [each for each in public_methods(kind) if each.names]
    found = [made for each in methods if (made := registrar_by(each, kind)) is not None]
    return min(found, key=lambda each: (each.is_by_signature, each.is_decorator), default=None)


def registrar_by(method: Method, owner: type | None = None) -> Registrar | None:
    """Return a registrar for a method of a class, or for a function. Return `None` if it registers no tools."""
    if is_event_method(method):
        return None
    found = [made for find in _REGISTRATIONS if (made := find(method, owner)) is not None]
    best = min(found, key=lambda each: (each.is_by_signature, each.is_decorator), default=None)
    takes_properties = best is not None and best.is_by_signature and _takes_properties(method)
    return replace(best, takes_properties=True) if best and takes_properties else best


def _takes_properties(method: Method) -> bool:
    """Return whether the `**options` of a method are the properties of a schema, as they are."""
    options = options_in_source(method.source)
    schema = rf"[\"']properties[\"']:\s*(dict\()?{options}\b(?!\.)"
    return bool(options) and re.search(schema, method.source) is not None


def is_event_method(method: Method) -> bool:
    """Return whether a method registers a callback for an event, as in `on_tool_result(callback)`."""
    return method.path[-1].startswith("on_") and bool(method.required & _CALLBACK_PARAMETERS)


_CALLBACK_PARAMETERS = frozenset({"callback", "cb", "listener", "hook", "observer"})


def _registrar_by_parts(method: Method, _kind: type | None) -> Registrar | None:
    named = tool_parameters(method)
    is_whole = "handler" in named and named.keys() & {"name", "declaration"}
    is_named = named.keys() & {"parameters", "declaration"} or _REGISTERING_NAMES.match(method.path[0])
    is_fitting = is_whole and is_named and method.required <= {"self", *named.values()}
    return Registrar(method, named) if is_fitting else None


def _registrar_by_object(method: Method, kind: type | None) -> Registrar | None:
    required = [*(method.required - {"self"})]
    if len(required) != 1 or not _REGISTERING_NAMES.match(method.path[0]):
        return None
    hint = method.hints.get(required[0])
    kinds = [each for each in own_classes_in(hint) if each is not kind]
    makers = (field_tools(hint, each) or tool_maker(each, ClassSource(each, "", method.module)) for each in kinds)
    maker = next(filter(None, makers), None)
    if maker is None:
        return None
    is_list = item_class(hint) is not None
    return Registrar(method, {}, item=required[0], make=(lambda tool: [maker(tool)]) if is_list else maker)


def _registrar_by_function(method: Method, _kind: type | None) -> Registrar | None:
    """Return a method that takes a function. Its other parameters have defaults."""
    named = tool_parameters(method)
    is_fitting = "handler" in named and (_REGISTERING_NAMES.match(method.path[0]) or "description" in named)
    is_fitting = is_fitting and method.required <= {"self", *named.values()}
    return Registrar(method, named) if is_fitting else None


def _registrar_by_decorator(method: Method, _kind: type | None) -> Registrar | None:
    """Return a method that returns a decorator."""
    named = {part: name for part, name in tool_parameters(method).items() if part != "handler"}
    is_fitting = (
        returns_decorator(method)
        and _REGISTERING_NAMES.match(method.path[0])
        and method.required <= {"self", *named.values()}
    )
    is_fitting = is_fitting and not first_known(TOOL_PARTS["handler"], method.names)
    return Registrar(method, named, is_decorator=True) if is_fitting else None


def returns_decorator(method: Method) -> bool:
    """Return whether a method returns a function that it defines."""
    made = re.search(r"\n\s+(async )?def (\w+)\(.*\n(.*\n)*\s+return \2\b|return lambda \w+:", method.source)
    return made is not None


_REGISTRATIONS = (_registrar_by_parts, _registrar_by_object, _registrar_by_function, _registrar_by_decorator)


def registrar_of(value: type, code: ClassSource) -> Registrar | None:
    """Return the method that registers a tool with a class, or with an object that its constructor creates."""
    if (found := registrar_method(value)) is not None:
        return found
    kinds = {each.__name__: each for each in code.classes if each is not value}
    for name, kind in re.findall(r"self\.(\w+)(?::[^=\n]+)?\s*=\s*(\w+)\(", code.source):
        if kind in kinds and name[0] != "_" and (found := registrar_method(kinds[kind])) is not None:
            return replace(found, path=(name,))
    return None
