"""Tools of third-party classes whose parts have names of their own, as the code of the package uses them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass

from harness.bridge.clients.declared_parts import parts_by_name
from harness.bridge.clients.inherited_tools import SCHEMA_PARTS, InheritedTools, part_attributes, running_methods
from harness.bridge.clients.methods import method_of
from harness.bridge.clients.tool_declarations import tool_parameters
from harness.bridge.clients.tool_objects import ConstructedTools, ToolMaker, tested_maker
from harness.model.protocols import ConversationTool


def parts_of_signature(value: Callable[..., object], code: str) -> dict[str, str]:
    """Return the parameters of a method or constructor that take parts of a tool, by their meaning.

    Names, annotations and the declarations that `code` builds show it. Parameters about which they show nothing are in
    the usual order: name, description, schema.
    """
    method, known = method_of((), value), parts_by_name(code)
    found = tool_parameters(method)
    if not method.names:  # a class in C may have no signature
        return {}
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
    left += ["parameters"] if not SCHEMA_PARTS & found.keys() else []
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
        by_signature = not SCHEMA_PARTS & named.keys()
        if "handler" in named and made.required <= {*named.values()} and (by_signature or "name" in named):
            return tested_maker(ConstructedTools(kind, named, str(made.hints.get(named["handler"])), by_signature))
    running = running_methods(kind)
    attributes = part_attributes(kind, code, running)
    parameters = parts_of_signature(kind, "") if "__init__" in vars(kind) else {}
    return tested_maker(InheritedTools(kind, running, attributes, parameters)) if running and attributes else None


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
