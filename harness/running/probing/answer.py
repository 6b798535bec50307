"""What an answer says of a fact: whether the request was taken, was refused, or never judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.apis.api import Api
from harness.apis.fact import Fact
from harness.apis.view import WireError
from harness.contract.http import HttpResponse
from harness.host.shortened import shortened
from harness.running.probing.question import Question

Verdict = Literal["holds", "no longer holds", "cannot tell"]

_LONGEST = 400
"""Characters of an error that cannot be read."""

_NOT_JUDGED = {
    401: "the key was refused",
    402: "the account cannot pay",
    403: "the key may not do this",
    404: "the server does not have the path or the model",
    405: "the server does not have the path",
    408: "the server timed out",
    429: "the rate limit is reached",
}
"""Statuses in the 400s that say nothing about the request, unless the fact says that it is refused so."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`untold` has the reason, and `words` are what the provider said; `status` is missing where nobody answered."""

    outcome: Literal["taken", "refused", "untold"]
    status: int | None = None
    words: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """What was found out about a fact. `answer` is the one that says so, `why` how it does."""

    question: Question
    verdict: Verdict
    why: str
    answer: Answer | None = None


def answer(api: Api, fact: Fact, response: HttpResponse) -> Answer:
    """What a response says of the request. An error inside HTTP 200 counts as the status that it stands for."""
    try:
        view = api.read(response)
        error, whole = view.error, view.complete
    except WireError as damage:
        if response.status < 400:
            return Answer("untold", response.status, _text(response), f"its answer cannot be read: {damage}")
        error, whole = None, True
    if error is None and response.status < 400:
        return Answer("taken", response.status) if whole else Answer("untold", response.status, "", "it was cut off")
    status = response.status if error is None or error.meant is None else error.meant
    words = error.message if error is not None else _text(response)
    if status == fact.status or (400 <= status < 500 and status not in _NOT_JUDGED):
        return Answer("refused", status, words)
    reason = _NOT_JUDGED.get(status, "the server failed" if status >= 500 else "it is an error of no known kind")
    return Answer("untold", status, words, reason)


def _text(response: HttpResponse) -> str:
    return shortened(response.body.decode("utf-8", "replace"), _LONGEST)


def told(question: Question, answers: Sequence[Answer]) -> Told | None:
    """What the answers to the request, and then to its twin, make of the fact; `None`: the twin has to be asked."""
    meant = answers[0]
    refused_one = question.fact.verdict == "refused"
    if meant.outcome == "untold":
        return Told(question, "cannot tell", meant.reason, meant)
    if meant.outcome == "taken":
        if refused_one:
            return Told(question, "no longer holds", "the request that breaks it is taken", meant)
        return Told(question, "holds", "the request is taken", meant)
    if len(answers) == 1:
        return None
    twin = answers[1]
    if twin.outcome == "untold":
        return Told(question, "cannot tell", f"nothing is known of the twin: {twin.reason}", twin)
    if twin.outcome == "refused":
        return Told(question, "cannot tell", "another error came first: the twin is refused too", twin)
    if refused_one:
        return Told(question, "holds", "the request that breaks it is refused, and its twin is taken", meant)
    return Told(question, "no longer holds", "the request is refused, and its twin is taken", meant)
