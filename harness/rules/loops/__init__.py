"""Loops: what owns its tool loop sends on what it was given, and runs the tools that the model calls, each once.

Clients of `harness serve` have a loop of their own as well. They are held to the rules `of_clients`, as far as the
script knows what they were given.

How a library words a request is its own affair: it may add instructions, tools and settings of its own. What it was
given has to be there, since the user asked for it. What it hands on to its caller nobody here has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from harness.results import Kind
from harness.rules.evidence import Evidence
from harness.rules.loops import incomplete, requests, runs, settings
from harness.rules.loops.given import Given, ends_cut, given_of
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject

_Look: TypeAlias = Callable[[Given], Iterator[Flaw]]


def _failed(given: Given) -> Iterator[Flaw]:
    driven = given.driven
    if driven is None or driven.failure is None or (ends_cut(given.evidence) and not driven.is_stopped):
        return
    yield Flaw(f"the conversation broke off: {driven.failure}")


def _elsewhere(given: Given) -> Iterator[Flaw]:
    for each in given.driven.elsewhere if given.driven is not None else ():
        yield Flaw(f"requests that are none of the API {given.transcript.api}: {each}")


_SOURCE = "harness.contract.loops"


def _rule(  # noqa: PLR0913 - a rule, and whom it is about
    name: str, subject: Subject, requirement: str, look: _Look, because: str, *, remedy: str, of_clients: bool = False
) -> Rule:
    def check(evidence: Evidence) -> Iterator[Flaw]:
        given = given_of(evidence)
        if given is not None and (of_clients or given.driven is not None):
            yield from look(given)

    return Rule(name, subject, requirement, _SOURCE, check, Kind.LOSS, because, remedy=remedy)


RULES = (
    _rule(
        "loop-system",
        Subject.SYSTEM_PROMPT,
        "The system prompt that a loop or a client was given is among the instructions of each of its requests.",
        requests.system_missing,
        "the model does not know its instructions",
        of_clients=True,
        remedy="give the model the system prompt in each request: put it into {system}",
    ),
    _rule(
        "loop-tools",
        Subject.TOOLS,
        "The tools that a loop was given are declared in each of its requests, as they were given.",
        requests.tools,
        "the model cannot call what is there, or reads another description of it",
        remedy="declare all tools in {tools} of each request, with their names, descriptions and schemas unchanged",
    ),
    _rule(
        "loop-history",
        Subject.HISTORY,
        "What the user and the model have said is in each request, in its order.",
        requests.conversation,
        "the model reads another conversation than was held",
        of_clients=True,
        remedy="send what the user and the model said so far with each request, unchanged and in its order",
    ),
    _rule(
        "loop-settings",
        Subject.REQUESTS,
        "The model and the settings that a loop was given are those of the first request of each turn.",
        settings.settings,
        "the model answers under other settings than the caller's",
        remedy="send the model and the settings that the loop was given with the first request of each turn",
    ),
    _rule(
        "tool-run-otherwise",
        Subject.TOOLS,
        "A tool is run with the arguments that the model gave.",
        runs.run_otherwise,
        "something else is done than the model asked for",
        remedy="run the tool with the arguments of the model's call, by its name and id",
    ),
    _rule(
        "tool-run-uncalled",
        Subject.TOOLS,
        "A tool is run for a call of the model, and for nothing else.",
        runs.run_uncalled,
        "something is done that nobody asked for",
        remedy="run a tool only for a call that the model has made",
    ),
    _rule(
        "tool-run-again",
        Subject.TOOLS,
        "A tool is run once for each call of the model.",
        runs.run_again,
        "what was to be done once is done twice",
        remedy="run a tool once for each call",
    ),
    _rule(
        "tool-run-missing",
        Subject.TOOLS,
        "A tool that the model calls is run.",
        runs.run_missing,
        "the model is told of something that was never done",
        remedy="run the tool that the model calls, and send its result",
    ),
    _rule(
        "cut-call-run",
        Subject.TOOLS,
        "A tool is not run for a call that was cut off: the answer reached max_tokens, or its stream broke off.",
        incomplete.cut_call_run,
        "a tool runs with half of its arguments",
        of_clients=True,
        remedy="look at {stop} and at the end of the stream before running a tool, and drop a call that was cut",
    ),
    _rule(
        "cut-call-answered",
        Subject.TOOLS,
        "A call that was cut off by max_tokens or by the end of its stream does not go back, and has no result.",
        incomplete.cut_call_answered,
        "the model reads that its call failed, and not that it was cut off: it writes the same again",
        of_clients=True,
        remedy="leave a call that was cut out of the history, and send no result for it",
    ),
    _rule(
        "loop-failed",
        Subject.ERRORS,
        "A loop comes to its end where nothing has failed that it could not mend.",
        _failed,
        "the conversation breaks off",
        remedy="look at the exception: the loop has to go on, or to end without one, where nothing is lost",
    ),
    _rule(
        "loop-elsewhere",
        Subject.REQUESTS,
        "A loop asks the API that it is said to speak.",
        _elsewhere,
        "nobody looks at what it asked there",
        remedy="send to `endpoint.base_url` by the API that the loop is declared with",
    ),
)
