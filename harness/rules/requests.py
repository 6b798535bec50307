"""Requests: one for each chat, none that the provider refuses, with the settings that were given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from harness.model import JSON, ChatRequest
from harness.results import Blame, Kind, Severity
from harness.rules.evidence import Evidence
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject
from harness.wire.jsonvalue import equal


def _limits(evidence: Evidence) -> Iterator[Flaw]:
    for reading in evidence.readings:
        for violation in evidence.wire.violations(reading.exchange.request, evidence.transcript.profile):
            yield Flaw(
                violation.message,
                reading.index,
                violation.pointer,
                violation.actual,
                violation.expected,
                rule=violation.rule,
                severity=Severity(violation.severity),
                source=violation.source,
            )


def _one_request(evidence: Evidence) -> Iterator[Flaw]:
    sent = Counter(exchange.chat for exchange in evidence.transcript.exchanges if exchange.chat is not None)
    for index, chat in enumerate(evidence.transcript.chats):
        if sent[index] == 0 and chat.error is not None:
            continue  # refused before anything was sent
        if sent[index] != 1:
            last = [i for i, exchange in enumerate(evidence.transcript.exchanges) if exchange.chat == index]
            yield Flaw(
                f"chat {index} of the conversation took {sent[index]} requests",
                last[-1] if last else None,
                "" if last else None,
                sent[index],
                1,
            )


def _unreadable(evidence: Evidence) -> Iterator[Flaw]:
    for reading in evidence.readings:
        if reading.unread is not None:
            yield Flaw(
                f"the witness cannot read this exchange: {reading.unread}",
                reading.index,
                "",
                blame=_author(evidence) if reading.request is not None else None,
            )


def _author(evidence: Evidence) -> Blame:
    """Who is at fault for a response: the provider, unless it was ours."""
    transcript = evidence.transcript
    if not transcript.scripted:
        return Blame.PROVIDER
    return Blame.CASSETTE if transcript.mode == "replay" else Blame.HARNESS


def _given_settings(request: ChatRequest) -> dict[str, JSON]:
    return {
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": [*request.stop] or None,
    }


def _settings(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.asked:
        for name, value in _given_settings(asked.chat.request).items():
            sent = asked.view.settings.get(name)
            if value is not None and (sent is None or not equal(sent.value, value)):
                yield Flaw(
                    f"{name} was given and is not what is sent",
                    asked.reading.index,
                    sent.pointer if sent else "",
                    sent.value if sent else None,
                    value,
                )
        if asked.chat.request.thinking is not None and "thinking" not in asked.view.settings:
            yield Flaw("thinking was asked for and is not in the request", asked.reading.index, "", None, "thinking")


def _uninvited(evidence: Evidence) -> Iterator[Flaw]:
    """Settings that nobody gave. An API may demand `max_tokens` all the same (AN-1)."""
    for asked in evidence.asked:
        for name, value in _given_settings(asked.chat.request).items():
            sent = asked.view.settings.get(name)
            if value is None and sent is not None and name != "max_tokens":
                yield Flaw(f"nobody gave {name}, and it is sent", asked.reading.index, sent.pointer, sent.value)


def _model(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.asked:
        if asked.view.model is not None and asked.view.model.removeprefix("models/") != asked.chat.request.model:
            yield Flaw(
                "the request names another model",
                asked.reading.index,
                "",
                asked.view.model,
                asked.chat.request.model,
            )


RULES = (
    Rule(
        "limits",
        Subject.LIMITS,
        "Nothing is sent that the provider refuses; each limit reports under an id of its own.",
        "wire-facts 2 to 5",
        _limits,
        kind=Kind.LIMIT,
    ),
    Rule(
        "one-request-per-chat",
        Subject.REQUESTS,
        "One chat is one HTTP request: no retry, no continuation, no second question.",
        "harness.protocols: ChatClient; wire-facts 7.2, GM-P5",
        _one_request,
    ),
    Rule(
        "exchange-unreadable",
        Subject.REQUESTS,
        "Requests and responses are of the API that the adapter names.",
        "wire-facts 1.1",
        _unreadable,
    ),
    Rule(
        "setting-lost",
        Subject.REQUESTS,
        "Settings that were given are sent.",
        "harness.model: ChatRequest",
        _settings,
    ),
    Rule(
        "setting-uninvited",
        Subject.REQUESTS,
        "Settings that were not given are left to the provider.",
        "harness.model: ChatRequest",
        _uninvited,
    ),
    Rule("model-named", Subject.REQUESTS, "The request names the model that was given.", "wire-facts 1.1", _model),
)
