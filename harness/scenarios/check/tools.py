"""Tools: one of each name, with results that can be reached."""

from __future__ import annotations

from collections.abc import Iterator

from harness.contract.errors import UnknownName
from harness.scenarios.check.problem import Problem
from harness.scenarios.document import Path
from harness.scenarios.match import includes
from harness.scenarios.schema import Scenario, ToolSpec


def problems(scenario: Scenario) -> Iterator[Problem]:
    """Tools that share a name, results that are never reached or would never be given, undeclared tools that are
    declared or never called."""
    seen: set[str] = set()
    for index, tool in enumerate(scenario.tools):
        if tool.name in seen:
            yield Problem(("tools", index, "name"), f"a second tool of the name {tool.name!r}.")
        seen.add(tool.name)
        yield from _results(tool, ("tools", index, "results"))
    called = {name for turn in scenario.turns for step in turn.model for name, _ in step.named_calls}
    for index, name in enumerate(scenario.undeclared_tools):
        if name in seen:
            yield Problem(("undeclared_tools", index), f"the tool {name!r} is declared.")
        elif name not in called:
            yield Problem(("undeclared_tools", index), f"the model never calls {name!r}.")


_OPEN = {"additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf"}
"""Keywords by which a schema may take arguments that its own `properties` do not name."""


def _results(tool: ToolSpec, path: Path) -> Iterator[Problem]:
    if tool.results and tool.answered_by == "client":
        yield Problem(path, f"{tool.name!r} is answered by the client. Leave its results out, or answered_by.")
    schema = tool.parameters
    properties = schema.get("properties")
    known = list(properties) if isinstance(properties, dict) else []
    is_closed = not _OPEN & schema.keys()
    for index, result in enumerate(tool.results):
        for name in result.when or ():
            if is_closed and name not in known:
                yield Problem((*path, index, "when", name), str(UnknownName(f"argument of {tool.name}", name, known)))
        for earlier in (at for at in range(index) if tool.results[at].times is None):
            if includes(result.when or {}, tool.results[earlier].when or {}):
                yield Problem((*path, index), f"never reached, since results[{earlier}] answers first.")
                break
