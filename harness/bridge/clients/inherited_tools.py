"""Tools as instances of subclasses of a third-party tool class."""

from __future__ import annotations

import copy
import importlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from harness.bridge.clients.annotations import hints_of
from harness.bridge.clients.declared_parts import parts_by_name
from harness.bridge.clients.sources import source_of, source_of_class
from harness.bridge.clients.tool_declarations import TOOL_PARTS, check_schema, parts_of_tool, takes_model
from harness.bridge.clients.tool_functions import as_method, make_function, make_handler
from harness.model.messages import Tool
from harness.model.protocols import ConversationTool

RUNNING_METHODS = ("run", "call", "execute", "invoke", "handle", "__call__", "use", "perform", "apply", "arun", "_run")

SCHEMA_PARTS = frozenset({"parameters", "properties", "declaration"})
"""Parts of a tool that describe its arguments."""


def running_methods(kind: type) -> list[str]:
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


_NAMED_PARTS = ("name", "description", "parameters", "properties", "required", "declaration")


def part_attributes(kind: type, code: str, running: Sequence[str]) -> dict[str, str]:
    """Return the attributes of a class that are parts of a tool, and the part that each one is. A method counts if
    subclasses implement it, or if it returns a default name or description. Without a name, return none.
    """
    known = {**parts_by_name(code), **parts_by_name(source_of_class(kind))}
    by_name = {name: part for part in _NAMED_PARTS for name in TOOL_PARTS[part]}
    found = dict[str, str]()
    for name in {*hints_of(kind), *dir(kind)} - {*running}:
        own = inspect.getattr_static(kind, name, None)
        part = known.get(name) or by_name.get(name)
        is_default = part in ("name", "description") and inspect.isfunction(own)
        is_replaceable = is_default or not inspect.isroutine(own) or _is_missing(own)
        if part is not None and not name.startswith("__") and is_replaceable:
            found[name] = part
    return found if "name" in found.values() else {}


@dataclass(frozen=True, slots=True)
class RecordedObject:
    """A tool as an instance of a subclass of `kind`, for `harness reproduce`: its attributes, and its functions by the
    names of the methods that run them.
    """

    kind: type
    attributes: Mapping[str, object]
    functions: Mapping[str, Callable[..., object]]


def recorded_object(value: object) -> RecordedObject | None:
    """Return what is known about a tool that `InheritedTools` made with attributes only, or `None`."""
    return vars(type(value)).get(_RECORDED)


_RECORDED = "_harness_recorded"
"""Attribute of a class that was made for a tool."""


@dataclass(frozen=True, slots=True)
class InheritedTools:
    """Creates tools as instances of a subclass. `attributes` maps its attributes to the parts of the tool, and
    `parameters` maps the parts that its constructor takes to their names.
    """

    kind: type
    running: Sequence[str]
    attributes: Mapping[str, str]
    parameters: Mapping[str, str]

    @property
    def is_by_signature(self) -> bool:
        """Return whether a tool is described by the signature of its method."""
        return not SCHEMA_PARTS & {*self.attributes.values()}

    def __call__(self, tool: ConversationTool) -> object:
        """Return an instance of a subclass that is made for a tool."""
        if "properties" in self.attributes.values():
            check_schema(tool, takes_required="required" in self.attributes.values())
        parts, members = parts_of_tool(tool), dict[str, object]()
        functions: dict[str, Callable[..., object]] = {}
        for name, part in self.attributes.items():
            own = inspect.getattr_static(self.kind, name, None)
            model = _model_class(own, hints_of(self.kind).get(name)) if part == "parameters" else None
            value: object = parts[part] if model is None else model_of_tool(tool, model)
            members[name] = as_method(_function_returning(value)) if inspect.isfunction(own) else value
        for name in self.running:
            is_async = inspect.iscoroutinefunction(getattr(self.kind, name))
            make = make_function if self.is_by_signature else make_handler
            functions[name] = make(tool, "Awaitable" if is_async else "")
        attributes = {**members}
        members |= {name: as_method(each) for name, each in functions.items()}
        members["__doc__"] = tool.description
        made = type(self.kind.__name__, (self.kind,), members)
        if not self.parameters and not any(map(callable, attributes.values())):
            setattr(made, _RECORDED, RecordedObject(self.kind, attributes, functions))
        return made(**{name: parts[part] for part, name in self.parameters.items()})


def _function_returning(value: object) -> Callable[..., object]:
    return lambda: value


def as_model(tool: ConversationTool, hint: object) -> object:
    """Return the schema of a tool, as a Pydantic model if the annotation of a parameter is that of such classes."""
    if not takes_model(hint):
        return tool.parameters
    return model_of_tool(tool, cast("type", importlib.import_module("pydantic").BaseModel))


def _model_class(value: object, hint: object) -> type | None:
    """Return the base class of Pydantic models if an attribute holds such a model for the arguments of a tool."""
    bases = inspect.getmro(value) if inspect.isclass(value) else ()
    found = next((each for each in bases if each.__name__ == "BaseModel"), None)
    if found is not None or "BaseModel" not in str(hint):
        return found
    return cast("type", importlib.import_module("pydantic").BaseModel)


def model_of_tool(tool: ConversationTool | Tool, base: type | None = None) -> type:
    """Return a Pydantic model with the name, the description and the schema of a tool. It accepts any arguments."""
    base = base or cast("type", importlib.import_module("pydantic").BaseModel)

    def schema(_cls: type, *_args: object, **_options: object) -> dict[str, Any]:
        return cast("dict[str, Any]", copy.deepcopy(tool.parameters))

    members: dict[str, Any] = {
        "model_config": {"extra": "allow"},
        "model_json_schema": classmethod(schema),
        "__module__": __name__,
        "__doc__": tool.description,
    }
    return type(base)(tool.name, (base,), members)
