"""How tools are declared, and how what they are given and give back travels."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.jsonvalue import resolve
from harness.apis.view import CallView, JsonView, TextView
from harness.rules.evidence import Evidence
from harness.running.differences.fact import Fact, body_of, parts_of, place, results_of
from harness.scenarios.schema import Subject


def _declarations(evidence: Evidence) -> Iterator[str]:
    for asked in evidence.asked:
        yield from (place(tool.pointer) for tool in asked.view.tools if tool.kind == "function")


def _tool_dialect(evidence: Evidence) -> Iterator[str]:
    for asked in evidence.asked:
        for tool in asked.view.tools:
            if tool.parameters is not None:
                yield tool.dialect + {True: ", strict", False: ", not strict", None: ""}[tool.strict]


def _no_arguments(evidence: Evidence) -> Iterator[str]:
    for asked in evidence.asked:
        bare = {tool.name for tool in asked.chat.request.tools if not tool.parameters.get("properties")}
        for tool in asked.view.tools:
            if tool.name in bare:
                yield "no schema" if tool.parameters is None else "an empty object schema"


def _arguments(evidence: Evidence) -> Iterator[str]:
    for asked, _, call in parts_of(evidence):
        if isinstance(call, CallView):
            sent = resolve(body_of(asked), call.arguments_pointer)
            yield "JSON inside a string" if isinstance(sent, str) else "an object"


def _payload(evidence: Evidence) -> Iterator[str]:
    for result in results_of(evidence):
        for part in result.payload:
            yield "an object" if isinstance(part, JsonView) else "text" if isinstance(part, TextView) else "media"


def _forced(evidence: Evidence) -> Iterator[str]:
    for asked in evidence.asked:
        if asked.chat.request.tool_choice != "required":
            continue
        if asked.view.tool_choice is None:
            yield "none is sent"
            continue
        value = resolve(body_of(asked), asked.view.tool_choice.pointer)
        word = value.get("type", value.get("mode")) if isinstance(value, dict) else value
        yield str(word)


FACTS = (
    Fact(Subject.TOOLS, "where declarations go", _declarations),
    Fact(Subject.TOOLS, "dialect of parameters", _tool_dialect),
    Fact(Subject.TOOLS, "a tool without arguments", _no_arguments),
    Fact(Subject.TOOLS, "arguments travel as", _arguments),
    Fact(Subject.TOOLS, "results travel as", _payload),
    Fact(Subject.TOOLS, "word for a forced call", _forced),
)
