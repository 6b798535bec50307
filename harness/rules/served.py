"""A client of the served reference server: it plays the script to its end, and is not turned away."""

from __future__ import annotations

from collections.abc import Iterator

from harness.results import DrivenTranscript, Kind, ServedTranscript, Severity
from harness.rules.evidence import Evidence
from harness.rules.loops.given import ends_cut
from harness.rules.rule import Flaw, Rule
from harness.scenarios.canonical import settings_of
from harness.scenarios.schema import Subject


def _unplayed(evidence: Evidence) -> Iterator[Flaw]:
    transcript = evidence.transcript
    if not isinstance(transcript, ServedTranscript) or not transcript.ended or transcript.played == transcript.script:
        return
    if ends_cut(evidence):
        return
    left = transcript.script - transcript.played
    beside = f"; {transcript.beside} requests had none of its tools and none of its calls" if transcript.beside else ""
    yield Flaw(
        f"the client did not ask for {left} of the {transcript.script} answers of the script{beside}",
        actual=transcript.played,
        expected=transcript.script,
    )


def _lacking(evidence: Evidence) -> Iterator[Flaw]:
    """Tools that no request of a client declares; of a loop `loop-tools` says so."""
    transcript, scenario = evidence.transcript, evidence.transcript.scenario
    if not isinstance(transcript, ServedTranscript) or isinstance(transcript, DrivenTranscript) or scenario is None:
        return
    views = [reading.request for reading in evidence.readings if reading.request is not None]
    declared = dict.fromkeys(tool.name for view in views for tool in view.tools)
    if not views or (not declared and settings_of(scenario, 0).tool_choice == "none"):
        return
    called = {name for turn in scenario.turns for step in turn.model for name, _ in step.named_calls}
    for tool in scenario.tools:
        if tool.name not in declared:
            arrived = f"the tools that arrived: {', '.join(declared)}" if declared else "no tools arrived"
            yield Flaw(
                f"the scenario names the tool {tool.name}, and the client does not declare it; {arrived}",
                actual=[*declared],
                expected=tool.name,
                severity=None if tool.name in called else Severity.WARNING,
            )


def _turned_away(evidence: Evidence) -> Iterator[Flaw]:
    transcript = evidence.transcript
    for each in transcript.turned_away if isinstance(transcript, ServedTranscript) else ():
        yield Flaw(f"{each.request} is refused: {each.reason}")


RULES = (
    Rule(
        "script-unplayed",
        Subject.REQUESTS,
        "A client asks until the script has no answer left.",
        "harness help serve",
        _unplayed,
        kind=Kind.LOSS,
        because="a part of the conversation did not happen",
        remedy="keep asking until the answer has no calls",
    ),
    Rule(
        "client-tool-missing",
        Subject.TOOLS,
        "A client declares the tools that the scenario names.",
        "harness help serve",
        _lacking,
        kind=Kind.LOSS,
        because="the script calls a tool that the client does not have",
        remedy="declare the tool in {tools} by the scenario's name, or have the scenario name the client's own tool",
    ),
    Rule(
        "request-turned-away",
        Subject.LIMITS,
        "A request has a key, names a model that there is, and leans on nothing that the server never said.",
        "harness help serve",
        _turned_away,
        kind=Kind.LIMIT,
        because="the provider refuses it before it looks at the chat",
        remedy="send the key, name a model that exists, and send back only ids and signatures that an answer had",
    ),
)
