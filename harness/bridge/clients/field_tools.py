"""Tools as subclasses of a third-party Pydantic model, whose fields are the arguments of a call."""

from __future__ import annotations

import inspect
import re
import types
from dataclasses import dataclass
from typing import Any, cast

from harness.bridge.clients.inherited_tools import running_methods
from harness.bridge.clients.methods import method_of
from harness.bridge.clients.names import FIELD_ALIASES
from harness.bridge.clients.tool_functions import make_function
from harness.model.protocols import ConversationTool


def field_tools(hint: object, kind: type) -> FieldTools | None:
    """Return a function that makes tools as classes, if an annotation is that of a list of model classes that run
    themselves. The method that runs a call has no parameters, or one for a context of the application.
    """
    if not re.search(rf"\b[tT]ype\[[\w.]*\b{kind.__name__}\]", str(hint)) or not hasattr(kind, "model_fields"):
        return None
    required = {each: method_of((), getattr(kind, each)).required - {"self"} for each in running_methods(kind)}
    running = [name for name, each in required.items() if len(each) <= 1 and not _ARGUMENTS & each]
    return FieldTools(kind, running[0]) if running and not cast("Any", kind).model_fields else None


_ARGUMENTS = {"arguments", *FIELD_ALIASES["arguments"], "params", "parameters"}
"""Names of a parameter for the arguments of a call, which the fields would have."""


@dataclass(frozen=True, slots=True)
class FieldTools:
    """Creates tools as subclasses of a model. `running` is the method that runs a call."""

    kind: type
    running: str

    @property
    def is_by_signature(self) -> bool:
        """Return whether the fields, which have no descriptions and enumerations, describe a tool."""
        return True

    def __call__(self, tool: ConversationTool) -> object:
        """Return the class of a tool."""
        is_async = inspect.iscoroutinefunction(getattr(self.kind, self.running))
        function = make_function(tool, "Awaitable" if is_async else "")
        parameters = inspect.signature(function).parameters
        annotations = {name: each.annotation for name, each in parameters.items()}
        defaults = {name: None for name, each in parameters.items() if each.default is None}

        def run(instance: Any, *_context: object) -> object:
            return function(**{name: getattr(instance, name) for name in instance.model_fields_set})

        members = {"__annotations__": annotations, "__doc__": tool.description, self.running: run, **defaults}
        members["__module__"] = self.kind.__module__
        return types.new_class(tool.name, (self.kind,), {}, lambda body: body.update(members))
