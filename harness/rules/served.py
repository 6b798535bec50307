"""A client of the served reference server: it plays the script to its end, and is not turned away."""

from __future__ import annotations

from collections.abc import Iterator

from harness.results import Kind, ServedTranscript
from harness.rules.evidence import Evidence
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject


def _unplayed(evidence: Evidence) -> Iterator[Flaw]:
    transcript = evidence.transcript
    if not isinstance(transcript, ServedTranscript) or not transcript.ended or transcript.played == transcript.script:
        return
    left = transcript.script - transcript.played
    beside = f"; {transcript.beside} requests had none of its tools and none of its calls" if transcript.beside else ""
    yield Flaw(
        f"the client did not ask for {left} of the {transcript.script} answers of the script{beside}",
        actual=transcript.played,
        expected=transcript.script,
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
    ),
    Rule(
        "request-turned-away",
        Subject.LIMITS,
        "A request has a key, names a model that there is, and leans on nothing that the server never said.",
        "harness help serve",
        _turned_away,
        kind=Kind.LIMIT,
        because="the provider refuses it before it looks at the chat",
    ),
)
