"""Values for parameters that take tools: registries, objects, functions, pairs, tuples or one executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from harness.bridge.call_log import call
from harness.bridge.clients.answer_fields import own_calls
from harness.bridge.clients.message_classes import as_annotated
from harness.bridge.clients.tool_declarations import declaration_of, declarations
from harness.bridge.clients.tool_functions import AwaitableText, ToolSequence, as_function, as_handler, parsed_arguments
from harness.bridge.clients.tool_objects import CallableTool, ToolMaker, as_method, executing_method
from harness.bridge.clients.tool_parts import parts_of_tool
from harness.bridge.clients.tool_registration import Registrar

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
    """Tools as objects of a third-party class, or as declarations that can also be called, in a list or by name."""

    make: ToolMaker | None
    is_mapping: bool

    @property
    def is_by_signature(self) -> bool:
        """Return whether each object describes its tool by the signature of a function."""
        return getattr(self.make, "is_by_signature", False)

    def __call__(self, tools: ToolSequence, api: str) -> object:
        """Return the objects for these tools."""
        made = (
            [*map(self.make, tools)] if self.make else [CallableTool(each, declaration_of(each, api)) for each in tools]
        )
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
        make = as_function if self.is_by_signature else as_handler
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
        pairs = [*zip(declared, (as_handler(each, self.hint) for each in tools), strict=True)]
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
        known = {each.name: each for each in tools}

        def execute(*args: Any, **kwargs: Any) -> str:
            values = [*args, *kwargs.values()]
            if len(values) == 1:
                ((_, _, name, arguments),) = own_calls([values[0]])
                return AwaitableText(known[name].text(arguments or {}))
            name = next(each for each in values if isinstance(each, str) and each in known)
            return AwaitableText(known[name].text(parsed_arguments(next(each for each in values if each is not name))))

        for kind in self.kinds:
            if (name := executing_method(kind)) is not None:
                return type(kind.__name__, (kind,), {name: as_method(execute)})()
        return execute
