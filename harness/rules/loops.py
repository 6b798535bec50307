"""Loops: what owns its tool loop sends on what it was given, and runs the tools that the model calls, each once.

How a library words a request is its own affair: it may add instructions, tools and settings of its own. What it was
given has to be there, since the user asked for it. What it hands on to its caller nobody here has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from harness.apis.jsonvalue import equal
from harness.apis.view import CallView, MediaView, RequestView, SystemView, TextView
from harness.contract.model import Image, JsonSchema, Text
from harness.meaning import choices
from harness.meaning.models import is_named
from harness.meaning.results import same_medium
from harness.meaning.schemas import change
from harness.results import DrivenTranscript, Kind, ToolRun
from harness.rules.evidence import Evidence, Heard
from harness.rules.rule import Flaw, Rule
from harness.scenarios.canonical import settings_of, user_message
from harness.scenarios.schema import Scenario, Settings, Subject, ToolSpec


@dataclass(frozen=True, slots=True)
class _Given:
    """What a loop was given, and what it has asked: each request of the conversation, with the turn that it is in."""

    evidence: Evidence
    transcript: DrivenTranscript
    scenario: Scenario
    heard: tuple[tuple[Heard, int], ...]

    @property
    def tools(self) -> list[ToolSpec]:
        """Those that it was given. What it has itself it words and runs as it likes."""
        return [tool for tool in self.scenario.tools if tool.answered_by == "scenario"]

    @property
    def settings(self) -> Settings:
        return settings_of(self.scenario, 0)

    @property
    def first(self) -> Iterator[Heard]:
        """The first request of each turn: what is asked of the model may hold for its first answer only."""
        turns: set[int] = set()
        for heard, turn in self.heard:
            if turn not in turns:
                turns.add(turn)
                yield heard


_Look: TypeAlias = Callable[[_Given], Iterator[Flaw]]


def _given(evidence: Evidence) -> _Given | None:
    transcript = evidence.transcript
    if not isinstance(transcript, DrivenTranscript) or transcript.scenario is None:
        return None
    turns = [turn for turn, spec in enumerate(transcript.scenario.turns) for _ in spec.model]
    heard = tuple((each, turns[each.index]) for each in evidence.heard)
    return _Given(evidence, transcript, transcript.scenario, heard)


def _texts(view: RequestView, role: str) -> list[str]:
    """What a role says in each of its turns: how a text is divided into parts counts for nothing."""
    return [
        "".join(part.text for part in turn.parts if isinstance(part, TextView))
        for turn in view.turns
        if turn.role == role
    ]


def _instructions(view: RequestView) -> str:
    systems: tuple[SystemView, ...] = view.system
    return "\n".join(system.text for system in systems)


def _system_missing(given: _Given) -> Iterator[Flaw]:
    system = (given.scenario.system or "").strip()
    for heard, _ in given.heard if system else ():
        view = heard.view
        if system in _instructions(view) or system in "".join(part.text for part in view.system):
            continue
        told = any(system in text for text in _texts(view, "user"))
        where = "stands in a message of the user" if told else "is nowhere in the request"
        place = view.system[0].pointer if view.system else ""
        yield Flaw(f"the system prompt {where}", heard.reading.index, place, _instructions(view) or None, system)


def _tools(given: _Given) -> Iterator[Flaw]:
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


def _conversation(given: _Given) -> Iterator[Flaw]:
    """The user's words so far, in their order, and the model's between them, are in the request."""
    for heard, turn in given.heard if not _is_stateful(given) else ():
        parts = [part for each in given.scenario.turns[: turn + 1] for part in user_message(each).parts]
        yield from _unsaid(heard, "user", [part.text for part in parts if isinstance(part, Text)])
        answers = (given.evidence.answer(at) for at in range(heard.index))
        said = [answer.response.text for answer in answers if answer is not None and answer.response is not None]
        yield from _unsaid(heard, "assistant", said)
        yield from _unseen(heard, given.scenario, turn)


def _is_stateful(given: _Given) -> bool:
    return any(heard.view.stateful for heard, _ in given.heard)


def _unsaid(heard: Heard, role: str, wanted: list[str]) -> Iterator[Flaw]:
    sent = _texts(heard.view, role)
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
            if isinstance(part, Image) and not any(same_medium(view, part) for view in sent):
                yield Flaw(
                    "an image of the user is not in the request",
                    heard.reading.index,
                    "",
                    [view.media_type for view in sent],
                    part.media_type,
                )


def _settings(given: _Given) -> Iterator[Flaw]:
    for heard in given.first:
        yield from _unset(given, heard)
        yield from _free(given, heard)
        problem = _unformatted(given, heard.view)
        if problem is not None:
            yield Flaw(problem, heard.reading.index, "", None, _wanted_format(given.settings))
        if given.transcript.variant == "stream" and not heard.view.stream:
            yield Flaw("the answer was to be streamed, and the request does not ask for that", heard.reading.index, "")


def _unset(given: _Given, heard: Heard) -> Iterator[Flaw]:
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
    if settings.thinking is not None and "thinking" not in sent:
        yield Flaw("thinking was asked for and is not in the request", heard.reading.index, "", None, "thinking")
    if heard.view.model is not None and not is_named(heard.view.model, given.transcript.model):
        yield Flaw("the request names another model", heard.reading.index, "", heard.view.model, given.transcript.model)


def _free(given: _Given, heard: Heard) -> Iterator[Flaw]:
    """The tool choice does not do what the one that was given does, among the tools that were given."""
    wanted = given.settings.choice()
    if wanted in (None, "auto"):
        return
    names = [tool.name for tool in given.tools]
    asked, found = choices.asked(wanted, names), choices.sent(heard.view.tool_choice, names)
    if not heard.view.tools and not asked.forced:
        return
    if found is None or found.forced != asked.forced or found.tools & {*names} != asked.tools:
        yield Flaw(
            "the tool choice of the request is not the one that was given",
            heard.reading.index,
            heard.view.tool_choice.pointer if heard.view.tool_choice else "",
            choices.shown(found, names),
            choices.shown(asked, names),
        )


def _unformatted(given: _Given, view: RequestView) -> str | None:
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
    said = "\n".join([_instructions(view), *_texts(view, "user")])
    for own in (given.scenario.system, *(user_message(turn).text for turn in given.scenario.turns)):
        said = said.replace(own, "") if own else said
    told = sent is not None or "json" in said.lower()
    return None if told else "JSON was asked for, and no part of the request says so"


def _wanted_format(settings: Settings) -> str:
    return "json-schema" if isinstance(settings.format(), JsonSchema) else "json"


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a tool that the loop was given: the answer and the exchange that it came with."""

    answer: int
    exchange: int
    view: CallView


def _issued(given: _Given) -> list[_Call]:
    names = {tool.name for tool in given.tools}
    readings = ((at, given.evidence.answer(at)) for at in range(given.transcript.played))
    return [
        _Call(at, reading.index, call)
        for at, reading in readings
        for call in (reading.response.calls if reading is not None and reading.response is not None else ())
        if reading is not None and call.malformed is None and call.name in names
    ]


_Pair: TypeAlias = tuple[ToolRun, _Call | None]


def _paired(given: _Given) -> tuple[list[_Pair], list[_Call]]:
    """The runs, each with the call that it is of, if there is one; and the calls that no tool has run for. A run is of
    a call of its name and arguments that came before it, else of one of its name that is left."""
    left = _issued(given)
    pairs: list[_Pair] = []
    for exact in (True, False):
        again: list[_Pair] = []
        for run, of in pairs or [(run, None) for run in given.transcript.runs]:
            call = of or next((each for each in left if _fits(run, each, exact=exact)), None)
            left = [each for each in left if each is not call]
            again.append((run, call))
        pairs = again
    return pairs, left


def _fits(run: ToolRun, call: _Call, *, exact: bool) -> bool:
    same = run.name == call.view.name and call.answer < run.answers
    return same and (not exact or equal(run.arguments, call.view.arguments))


def _run_otherwise(given: _Given) -> Iterator[Flaw]:
    for run, call in _paired(given)[0]:
        if call is not None and not equal(run.arguments, call.view.arguments):
            yield Flaw(
                f"the tool {run.name} was run with other arguments than the model gave it",
                call.exchange,
                call.view.arguments_pointer,
                run.arguments,
                call.view.arguments,
                of_response=True,
            )


def _run_uncalled(given: _Given) -> Iterator[Flaw]:
    for run, answered in _uncalled(given):
        if answered is None:
            yield Flaw(f"the tool {run.name} was run, and the model has not called it", actual=run.arguments)


def _run_again(given: _Given) -> Iterator[Flaw]:
    for run, answered in _uncalled(given):
        if answered is not None:
            yield Flaw(
                f"the tool {run.name} was run again for a call that it has answered",
                answered.exchange,
                answered.view.pointer,
                run.arguments,
                of_response=True,
            )


def _uncalled(given: _Given) -> Iterator[_Pair]:
    """The runs that are of no call, each with the call of the same that was answered before, if there is one."""
    pairs, _ = _paired(given)
    for run, call in pairs:
        if call is None:
            yield run, next((of for other, of in pairs if of is not None and _is_again(run, other, of)), None)


def _is_again(run: ToolRun, before: ToolRun, call: _Call) -> bool:
    return _fits(run, call, exact=False) and equal(run.arguments, before.arguments)


def _run_missing(given: _Given) -> Iterator[Flaw]:
    """A call that the loop went on from, or ended with in good order, though no tool had run for it."""
    asked = max((heard.index for heard, _ in given.heard), default=0)
    for call in _paired(given)[1]:
        if call.answer < asked or given.transcript.failure is None:
            yield Flaw(
                f"the model called {call.view.name}, and the tool was not run",
                call.exchange,
                call.view.pointer,
                None,
                call.view.arguments,
                of_response=True,
            )


def _failed(given: _Given) -> Iterator[Flaw]:
    if given.transcript.failure is not None:
        yield Flaw(f"the conversation broke off: {given.transcript.failure}")


def _elsewhere(given: _Given) -> Iterator[Flaw]:
    for each in given.transcript.elsewhere:
        yield Flaw(f"requests that are none of the API {given.transcript.api}: {each}")


_SOURCE = "harness.contract.loops"


def _rule(name: str, subject: Subject, requirement: str, look: _Look, because: str) -> Rule:
    def check(evidence: Evidence) -> Iterator[Flaw]:
        given = _given(evidence)
        if given is not None:
            yield from look(given)

    return Rule(name, subject, requirement, _SOURCE, check, Kind.LOSS, because)


RULES = (
    _rule(
        "loop-system",
        Subject.SYSTEM_PROMPT,
        "The system prompt that a loop was given is among the instructions of each of its requests.",
        _system_missing,
        "the model does not know its instructions",
    ),
    _rule(
        "loop-tools",
        Subject.TOOLS,
        "The tools that a loop was given are declared in each of its requests, as they were given.",
        _tools,
        "the model cannot call what is there, or reads another description of it",
    ),
    _rule(
        "loop-history",
        Subject.HISTORY,
        "What the user and the model have said is in each request, in its order.",
        _conversation,
        "the model reads another conversation than was held",
    ),
    _rule(
        "loop-settings",
        Subject.REQUESTS,
        "The model and the settings that a loop was given are those of the first request of each turn.",
        _settings,
        "the model answers under other settings than the caller's",
    ),
    _rule(
        "tool-run-otherwise",
        Subject.TOOLS,
        "A tool is run with the arguments that the model gave.",
        _run_otherwise,
        "something else is done than the model asked for",
    ),
    _rule(
        "tool-run-uncalled",
        Subject.TOOLS,
        "A tool is run for a call of the model, and for nothing else.",
        _run_uncalled,
        "something is done that nobody asked for",
    ),
    _rule(
        "tool-run-again",
        Subject.TOOLS,
        "A tool is run once for each call of the model.",
        _run_again,
        "what was to be done once is done twice",
    ),
    _rule(
        "tool-run-missing",
        Subject.TOOLS,
        "A tool that the model calls is run.",
        _run_missing,
        "the model is told of something that was never done",
    ),
    _rule(
        "loop-failed",
        Subject.ERRORS,
        "A loop comes to its end where nothing has failed that it could not mend.",
        _failed,
        "the conversation breaks off",
    ),
    _rule(
        "loop-elsewhere",
        Subject.REQUESTS,
        "A loop asks the API that it is said to speak.",
        _elsewhere,
        "nobody looks at what it asked there",
    ),
)
