"""Tools of third-party classes whose parts have names of their own, as the code of the package uses them."""

from __future__ import annotations

import copy
import importlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from harness.bridge.call_log import call
from harness.bridge.clients.annotations import hints_of
from harness.bridge.clients.declared_parts import parts_by_name
from harness.bridge.clients.methods import method_of
from harness.bridge.clients.sources import source_of, source_of_class
from harness.bridge.clients.tool_declarations import TOOL_PARTS, check_schema, parts_of_tool, tool_parameters
from harness.bridge.clients.tool_functions import as_function, as_handler
from harness.bridge.clients.tool_objects import RUNNING_METHODS, ToolMaker, as_method, function_returning, tested_maker
from harness.model.protocols import ConversationTool

_SCHEMA_PARTS = {"parameters", "properties", "declaration"}


def parts_of_signature(value: Callable[..., object], code: str) -> dict[str, str]:
    """Return the parameters of a method or constructor that take parts of a tool, by their meaning.

    Names, annotations and the declarations that `code` builds show it. Parameters about which they show nothing are in
    the usual order: name, description, schema.
    """
    method, known = method_of((), value), parts_by_name(code)
    found = tool_parameters(method)
    free = [each for each in inspect.signature(value).parameters if each in method.names - {"self", *found.values()}]
    for name in [*free]:
        if (part := known.get(name, "")) and part not in found:
            found[part] = name
            free.remove(name)
    required = [each for each in free if each in method.required]
    functions = [each for each in free if "Callable" in str(method.hints.get(each))]
    functions += [each for each in required if re.search(rf"\b{each}\((?!self)", code)]
    if functions and "handler" not in found:
        found["handler"] = functions[-1]
    required = [each for each in required if each != found.get("handler")]
    left = [each for each in ("name", "description") if each not in found]
    left += ["parameters"] if not _SCHEMA_PARTS & found.keys() else []
    for name in required if len(required) <= len(left) else []:
        is_schema = re.search(r"\b[dD]ict\b|Mapping", str(method.hints.get(name, "")))
        part = "parameters" if is_schema and "parameters" in left else left[0]
        found[part] = name
        left.remove(part)
    return found


def own_tool_maker(kind: type, code: str) -> ToolMaker | None:
    """Return a function that makes a tool of a class, or `None` if it cannot.

    It calls the constructor of the class, or makes a subclass whose attributes are the parts of the tool.
    """
    if "__init__" in vars(kind) and not inspect.isabstract(kind):
        named, made = parts_of_signature(kind, code), method_of((), kind)
        by_signature = not _SCHEMA_PARTS & named.keys()
        if "handler" in named and made.required <= {*named.values()} and (by_signature or "name" in named):
            return tested_maker(_MadeTools(kind, named, str(made.hints.get(named["handler"])), by_signature))
    running = _running_methods(kind)
    attributes = _part_attributes(kind, code, running)
    return tested_maker(_InheritedTools(kind, running, attributes)) if running and attributes else None


@dataclass(frozen=True, slots=True)
class _MadeTools:
    """Creates tools with a constructor."""

    kind: type
    named: Mapping[str, str]
    hint: str
    is_by_signature: bool

    def __call__(self, tool: ConversationTool) -> object:
        if "properties" in self.named:
            check_schema(tool, takes_required="required" in self.named)
        parts = parts_of_tool(tool, self.hint)
        parts["handler"] = as_function(tool, self.hint) if self.is_by_signature else parts["handler"]
        return call(self.kind, **{name: parts[part] for part, name in self.named.items()})


def _running_methods(kind: type) -> list[str]:
    """Return the methods of a class that its subclasses implement to run a tool, or else those with a usual name."""
    named = [(name, each) for name, each in inspect.getmembers(kind, inspect.isfunction) if _may_run(name)]
    missing = [name for name, each in named if _is_missing(each) and len(inspect.signature(each).parameters) > 1]
    return missing or [name for name, _ in named if name in RUNNING_METHODS]


def _may_run(name: str) -> bool:
    return not name.startswith("_") or name in RUNNING_METHODS


def _is_missing(function: object) -> bool:
    """Return whether a method has no code yet."""
    is_abstract = getattr(function, "__isabstractmethod__", False)
    return is_abstract or re.search(r"raise NotImplementedError|:\s*\.\.\.\s*$", source_of(function)) is not None


_NAMED_PARTS = ("name", "description", "parameters", "properties", "required")


def _part_attributes(kind: type, code: str, running: Sequence[str]) -> dict[str, str]:
    """Return the attributes of a class that are parts of a tool, and the part that each one is. A method counts if its
    subclasses implement it. Without an attribute for the name, return none.
    """
    known = {**parts_by_name(code), **parts_by_name(source_of_class(kind))}
    by_name = {name: part for part in _NAMED_PARTS for name in TOOL_PARTS[part]}
    found = dict[str, str]()
    for name in {*hints_of(kind), *dir(kind)} - {*running}:
        own = inspect.getattr_static(kind, name, None)
        part = known.get(name) or by_name.get(name)
        if part is not None and not name.startswith("__") and (not inspect.isroutine(own) or _is_missing(own)):
            found[name] = part
    return found if "name" in found.values() else {}


@dataclass(frozen=True, slots=True)
class _InheritedTools:
    """Creates tools as instances of a subclass. `attributes` maps its attributes to the parts of the tool."""

    kind: type
    running: Sequence[str]
    attributes: Mapping[str, str]

    @property
    def is_by_signature(self) -> bool:
        """Return whether a tool is described by the signature of its method."""
        return not _SCHEMA_PARTS & {*self.attributes.values()}

    def __call__(self, tool: ConversationTool) -> object:
        if "properties" in self.attributes.values():
            check_schema(tool, takes_required="required" in self.attributes.values())
        parts, members = parts_of_tool(tool), dict[str, object]()
        for name, part in self.attributes.items():
            own = inspect.getattr_static(self.kind, name, None)
            model = _model_class(own, hints_of(self.kind).get(name)) if part == "parameters" else None
            value: object = parts[part] if model is None else _model_of_tool(tool, model)
            members[name] = as_method(function_returning(value)) if inspect.isfunction(own) else value
        for name in self.running:
            is_async = inspect.iscoroutinefunction(getattr(self.kind, name))
            make = as_function if self.is_by_signature else as_handler
            members[name] = as_method(make(tool, "Awaitable" if is_async else ""))
        members["__doc__"] = tool.description
        named = parts_of_signature(self.kind, "") if "__init__" in vars(self.kind) else {}
        return type(self.kind.__name__, (self.kind,), members)(**{name: parts[part] for part, name in named.items()})


def _model_class(value: object, hint: object) -> type | None:
    """Return the base class of Pydantic models if an attribute holds such a model for the arguments of a tool."""
    bases = inspect.getmro(value) if inspect.isclass(value) else ()
    found = next((each for each in bases if each.__name__ == "BaseModel"), None)
    if found is not None or "BaseModel" not in str(hint):
        return found
    return cast("type", importlib.import_module("pydantic").BaseModel)


def _model_of_tool(tool: ConversationTool, base: type) -> type:
    """Return a Pydantic model that has the schema of a tool and accepts any arguments."""

    def schema(_cls: type, *_args: object, **_options: object) -> dict[str, Any]:
        return copy.deepcopy(tool.parameters)

    members: dict[str, Any] = {
        "model_config": {"extra": "allow"},
        "model_json_schema": classmethod(schema),
        "__module__": __name__,
    }
    return type(base)("Arguments", (base,), members)


@dataclass(frozen=True, slots=True)
class ClassMaker:
    """Creates tools as classes, for code that creates the instances itself."""

    make: ToolMaker

    @property
    def is_by_signature(self) -> bool:
        """Return whether a tool is described by the signature of its method."""
        return getattr(self.make, "is_by_signature", False)

    def __call__(self, tool: ConversationTool) -> object:
        """Return the class of a tool."""
        return type(self.make(tool))
