"""What a loop has to send on: system prompt, tools, what was said."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.view import MediaView
from harness.contract.model import File, Image, Text
from harness.meaning.result_meaning import same_medium
from harness.meaning.schema_changes import change
from harness.rules.evidence import Heard
from harness.rules.loops.given import Given, instructions, is_cut, texts
from harness.rules.rule import Flaw
from harness.scenarios.canonical import system_of, user_message
from harness.scenarios.schema import Scenario


def system_missing(given: Given) -> Iterator[Flaw]:
    """The system prompt is not among the instructions of a request."""
    if given.driven is None and given.scenario.system_from == "client":
        return
    for heard, turn in given.heard:
        system, view = (system_of(given.scenario, turn) or "").strip(), heard.view
        if system in instructions(view) or system in "".join(part.text for part in view.system):
            continue
        told = any(system in text for text in texts(view, "user"))
        where = "stands in a message of the user" if told else "is nowhere in the request"
        place = view.system[0].pointer if view.system else ""
        yield Flaw(f"the system prompt {where}", heard.reading.index, place, instructions(view) or None, system)


def tools(given: Given) -> Iterator[Flaw]:
    """A tool is not declared, or not as it was given."""
    for heard, _ in given.heard:
        sent = {tool.name: tool for tool in heard.view.tools if tool.kind == "function"}
        for tool in given.tools:
            view = sent.get(tool.name)
            if view is None:
                if sent or given.settings.tool_choice != "none":  # without declarations nothing can be called
                    yield Flaw(f"the tool {tool.name} is not declared", heard.reading.index, "", [*sent], tool.name)
                continue
            if tool.description.strip() not in (view.description or ""):
                yield Flaw(
                    f"the description of {tool.name} is not the one that was given",
                    heard.reading.index,
                    view.pointer,
                    view.description,
                    tool.description,
                )
            found = change(dict(tool.parameters), view.parameters, view.dialect)
            if found is not None:
                place = found.pointer or "/"
                yield Flaw(
                    f"the parameters of {tool.name} were changed at {place} of their schema{found.said()}",
                    heard.reading.index,
                    view.pointer,
                    found.actual,
                    found.expected,
                )


def conversation(given: Given) -> Iterator[Flaw]:
    """The user's words so far, in their order, and the model's between them, are in the request. How a client of
    `harness serve` words what its user says is its own affair."""
    for heard, turn in given.heard if not _is_stateful(given) else ():
        answers = (given.evidence.answer(at) for at in range(heard.index))
        views = [answer.response for answer in answers if answer is not None and answer.response is not None]
        yield from _unsaid(heard, "assistant", [view.text for view in views if not is_cut(view)])
        if given.driven is not None:
            parts = [part for each in given.scenario.turns[: turn + 1] for part in user_message(each).parts]
            yield from _unsaid(heard, "user", [part.text for part in parts if isinstance(part, Text)])
            yield from _unseen(heard, given.scenario, turn)


def _is_stateful(given: Given) -> bool:
    return any(heard.view.stateful for heard, _ in given.heard)


def _unsaid(heard: Heard, role: str, wanted: list[str]) -> Iterator[Flaw]:
    sent = texts(heard.view, role)
    at = 0
    for text in (each.strip() for each in wanted):
        place = next((index for index in range(at, len(sent)) if text in sent[index]), None)
        if text and place is None:
            who = "the user" if role == "user" else "the model"
            yield Flaw(f"what {who} has said is not in the request", heard.reading.index, "", [*sent], text)
        at = at if place is None else place


def _unseen(heard: Heard, scenario: Scenario, turn: int) -> Iterator[Flaw]:
    sent = [part for each in heard.view.turns for part in each.parts if isinstance(part, MediaView)]
    for spec in scenario.turns[: turn + 1]:
        for part in user_message(spec).parts:
            if isinstance(part, Image | File) and not any(same_medium(view, part) for view in sent):
                yield Flaw(
                    f"{'an image' if isinstance(part, Image) else 'a file'} of the user is not in the request",
                    heard.reading.index,
                    "",
                    [view.media_type for view in sent],
                    part.media_type,
                )
