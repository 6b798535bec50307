"""Tools as objects: instances of a third-party tool class, or of a subclass of it."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from harness.bridge.call_log import call
from harness.bridge.clients.annotations import hints_of
from harness.bridge.clients.forms import OPENAI
from harness.bridge.clients.inherited_tools import RUNNING_METHODS, InheritedTools, as_model, part_attributes
from harness.bridge.clients.methods import method_of, public_methods
from harness.bridge.clients.names import EXECUTORS
from harness.bridge.clients.own_keys import Declaration
from harness.bridge.clients.sources import ClassSource
from harness.bridge.clients.tool_declarations import (
    TOOL_PARTS,
    check_schema,
    part_named,
    parts_of_tool,
    tool_parameters,
)
from harness.bridge.clients.tool_functions import make_function
from harness.model.protocols import ConversationTool


class CallableTool(Declaration):
    """A declaration that is also a function. Its parts are keys, and attributes, under any usual name.

    Copies and JSON contain only the fields of the API's format. With `has_declaration`, its attribute for a schema is
    the whole declaration.
    """

    def __init__(self, tool: ConversationTool, fields: Mapping[str, Any], *, has_declaration: bool = False) -> None:
        super().__init__(fields)
        parameters = {"parameters": fields} if has_declaration else {}
        self.__dict__.update({**parts_of_tool(tool), "declaration": fields, **parameters})

    def __call__(self, *args: Any, **kwargs: Any) -> object:
        """Run the tool."""
        return self.__dict__["handler"](*args, **kwargs)

    def __missing__(self, key: str) -> Any:
        try:
            return super().__missing__(key)
        except KeyError:
            return part_named(self.__dict__, key)

    def __getattr__(self, name: str) -> Any:
        try:
            return part_named(self.__dict__, name)
        except KeyError:
            raise AttributeError(name) from None


ToolMaker: TypeAlias = Callable[[ConversationTool], object]


def executing_method(kind: type) -> str | None:
    """Return the method of a class that executes a call, if it has one."""
    names = (each.path[0] for each in public_methods(kind))
    return next((each for each in names if each in RUNNING_METHODS or EXECUTORS.fullmatch(each)), None)


def tool_maker(kind: type, code: ClassSource) -> ToolMaker | None:
    """Return a function that makes a tool of a class, or of a class that implements it. Return `None` if it cannot."""
    if typing.is_typeddict(kind):
        parts = parts_named(hints_of(kind))
        is_whole = "handler" in parts.values() and {"name", "declaration"} & {*parts.values()}
        return tested_maker(TypedDictionaries(parts)) if is_whole else None
    running = [each for each in RUNNING_METHODS if callable(vars(kind).get(each))]
    others = [each for each in code.classes if each is not kind and _implements(each, kind)] if running else []
    for each in (kind, *others):
        named = tool_parameters(made := method_of((), each))
        if "handler" in named and named.keys() & {"name", "declaration", "parameters"}:  # the function has a name, too
            is_whole = made.required <= {*named.values()} and {"parameters", "properties", "declaration"} & named.keys()
            in_part = not {"parameters", "declaration"} & named.keys()
            maker = ConstructedTools(each, named, str(made.hints.get(named["handler"])), is_by_signature=in_part)
            return tested_maker(maker) if is_whole else None
        if named.keys() == {"handler"} and made.required <= {named["handler"]}:
            return tested_maker(ConstructedTools(each, named, "", is_by_signature=True))
    attributes = part_attributes(kind, "", running)
    if not running or not attributes:
        return None
    return tested_maker(InheritedTools(kind, running, attributes, tool_parameters(method_of((), kind))))


def _implements(kind: type, protocol: type) -> bool:
    """Return whether a class is a subclass, or has the methods of a protocol."""
    if not getattr(protocol, "_is_protocol", False):
        return issubclass(kind, protocol)
    methods = [name for name, each in vars(protocol).items() if inspect.isfunction(each) and name[:1] != "_"]
    return all(callable(getattr(kind, each, None)) for each in methods)


def tested_maker(make: ToolMaker) -> ToolMaker | None:
    """Return a function that makes tools, if it can make one."""
    sample = ConversationTool("look", "Looks.", {"type": "object", "properties": {}}, cast("Any", None))
    try:
        make(sample)
    except Exception:  # noqa: BLE001 - the user's constructor may fail in any way
        return None
    return make


@dataclass(frozen=True, slots=True)
class ConstructedTools:
    """Creates tools with a constructor whose parameters were recognised by their names. `form` is the format of
    declarations.
    """

    kind: type
    named: Mapping[str, str]
    hint: str
    is_by_signature: bool = False
    form: str = OPENAI.name

    @property
    def takes_declaration(self) -> bool:
        """Return whether a parameter takes the declaration of a tool."""
        return "declaration" in self.named

    def __call__(self, tool: ConversationTool) -> object:
        """Return an instance that is made for a tool."""
        if "properties" in self.named:
            check_schema(tool, takes_required="required" in self.named)
        parts = parts_of_tool(tool, self.hint, self.form)
        parts["handler"] = make_function(tool, self.hint) if self.is_by_signature else parts["handler"]
        parts["parameters"] = as_model(tool, hints_of(self.kind).get(self.named.get("parameters", "")))
        return call(self.kind, **{name: parts[part] for part, name in self.named.items()})


@dataclass(frozen=True, slots=True)
class TypedDictionaries:
    """Creates tools as dictionaries. `parts` maps the keys to the parts of the tool, and `form` is the format of
    declarations.
    """

    parts: Mapping[str, str]
    form: str = OPENAI.name

    def __call__(self, tool: ConversationTool) -> object:
        """Return the dictionary of a tool."""
        given = parts_of_tool(tool, form=self.form)
        return {key: given[part] for key, part in self.parts.items()}


def parts_named(keys: Iterable[str]) -> dict[str, str]:
    """Return the parts of a tool that these keys mean."""
    return {key: part for key in keys for part, names in TOOL_PARTS.items() if key in names}
