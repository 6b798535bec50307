"""The settings that a loop was given: what is asked of the model in the first request of each turn."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.jsonvalue import equal
from harness.apis.view import RequestView
from harness.contract.model import JsonSchema
from harness.meaning import choice_meaning
from harness.meaning.choice_meaning import is_model_name
from harness.meaning.schema_changes import change
from harness.rules.evidence import Heard
from harness.rules.loops.given import Given, instructions, texts
from harness.rules.requests import unthinking
from harness.rules.rule import Flaw
from harness.scenarios.canonical import user_message
from harness.scenarios.schema import Settings


def settings(given: Given) -> Iterator[Flaw]:
    """The model or a setting is another one, or the stream was not asked for."""
    for heard in given.first:
        yield from _unset(given, heard)
        yield from _free(given, heard)
        problem = _unformatted(given, heard.view)
        if problem is not None:
            yield Flaw(problem, heard.reading.index, "", None, _wanted_format(given.settings))
        if given.transcript.variant == "stream" and not heard.view.stream:
            yield Flaw("the answer was to be streamed, and the request does not ask for that", heard.reading.index, "")


def _unset(given: Given, heard: Heard) -> Iterator[Flaw]:
    settings, sent = given.settings, heard.view.settings
    bound = sent.get("max_tokens")
    if settings.max_tokens is not None and (bound is None or not equal(bound.value, settings.max_tokens)):
        yield Flaw(
            "max_tokens was given and is not what is sent",
            heard.reading.index,
            bound.pointer if bound else "",
            bound.value if bound else None,
            settings.max_tokens,
        )
    if settings.thinking is not None:
        yield from unthinking(heard, settings.thinking.effort)
    if heard.view.model is not None and not is_model_name(heard.view.model, given.transcript.model):
        yield Flaw("the request names another model", heard.reading.index, "", heard.view.model, given.transcript.model)


def _free(given: Given, heard: Heard) -> Iterator[Flaw]:
    """The tool choice does not do what the one that was given does, among the tools that were given."""
    wanted = given.settings.choice()
    if wanted in (None, "auto"):
        return
    names = [tool.name for tool in given.tools]
    asked, found = (
        choice_meaning.canonical_meaning(wanted, names),
        choice_meaning.wire_meaning(heard.view.tool_choice, names),
    )
    if not heard.view.tools and not asked.forced:
        return
    if found is None or found.forced != asked.forced or found.tools & {*names} != asked.tools:
        yield Flaw(
            "the tool choice of the request is not the one that was given",
            heard.reading.index,
            heard.view.tool_choice.pointer if heard.view.tool_choice else "",
            choice_meaning.describe_choice(found, names),
            choice_meaning.describe_choice(asked, names),
        )


def _unformatted(given: Given, view: RequestView) -> str | None:
    """How a request fails to ask for the JSON that was wanted: by the API's switch, by a tool that takes what the
    schema takes, or, where any JSON will do, in words that nobody else had said."""
    wanted, sent = given.settings.format(), view.response_format
    if wanted is None:
        return None
    if isinstance(wanted, JsonSchema):
        native = sent is not None and change(wanted.schema, sent.schema, sent.dialect) is None
        tools = (tool for tool in view.tools if tool.kind == "function")
        if native or any(change(wanted.schema, tool.parameters, tool.dialect) is None for tool in tools):
            return None
        return "JSON of a schema was asked for, and no part of the request has this schema"
    said = "\n".join([instructions(view), *texts(view, "user")])
    for own in (given.scenario.system, *(user_message(turn).text for turn in given.scenario.turns)):
        said = said.replace(own, "") if own else said
    told = sent is not None or "json" in said.lower()
    return None if told else "JSON was asked for, and no part of the request says so"


def _wanted_format(settings: Settings) -> str:
    return "json-schema" if isinstance(settings.format(), JsonSchema) else "json"
