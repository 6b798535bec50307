"""Requests: one for each chat, none that the provider refuses, with the settings that were given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from harness.apis.jsonvalue import equal
from harness.contract.model import JSON, ChatRequest
from harness.contract.protocols import Capability
from harness.meaning.choice_meaning import is_model_name
from harness.results import Blame, Kind, Severity
from harness.rules.evidence import Asked, Evidence, Heard
from harness.rules.failures import is_retriable, is_spoilt
from harness.rules.reading import EmbeddingReading, Reading
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject


def _limits(evidence: Evidence) -> Iterator[Flaw]:
    for reading in evidence.readings:
        for violation in evidence.violations(reading):
            left_out = evidence.is_left_out_by_caller(reading, violation)
            yield Flaw(
                f"{violation.message} The caller has left it out." if left_out else violation.message,
                reading.index,
                violation.pointer,
                violation.actual,
                violation.expected,
                rule=violation.rule,
                severity=Severity(violation.severity),
                source=violation.source,
                kind=Kind.CONVENTION if left_out else None,
                remedy=violation.limit.remedy,
            )


_MAX_RETRIES = 5


def _one_request(evidence: Evidence) -> Iterator[Flaw]:
    for index, chat in enumerate(evidence.transcript.chats):
        sent = evidence.exchanges(index)
        if not sent and chat.error is not None:
            continue  # refused before anything was sent
        why = None if len(sent) == 1 else _why_not(evidence, sent)
        if why is not None:
            yield Flaw(
                f"chat {index} of the conversation took {len(sent)} requests{why}",
                sent[-1].index if sent else None,
                "" if sent else None,
                len(sent),
                1,
                kind=Kind.CONVENTION if _only_retries(sent) else None,
            )


_WAITED = 0.8
"""The part of the time it was asked to wait after which a retry is no longer early: clocks and rounding differ."""


def _early(evidence: Evidence) -> Iterator[Flaw]:
    """A request that is sent again too soon. A replay answers without the time that was recorded."""
    if evidence.transcript.mode == "replay":
        return
    for before, after in pairwise(evidence.readings):
        asked, waited = _asked_to_wait(before), _between(before, after)
        if asked is None or waited is None or before.exchange.chat != after.exchange.chat:
            continue
        if _is_alike(before, after) and waited < _WAITED * asked:
            yield Flaw(
                f"the request is sent again before the {asked:g} seconds are over that the provider asked to wait",
                after.index,
                "",
                round(waited, 1),
                asked,
            )


def _asked_to_wait(reading: Reading) -> float | None:
    """What the provider asked for, by whichever of its headers asks for less."""
    error = reading.response.error if reading.response is not None else None
    asked = (error.retry_after, error.retry_after_rounded) if error is not None else ()
    return min((seconds for seconds in asked if seconds is not None), default=None)


def _between(before: Reading, after: Reading) -> float | None:
    one, other = before.exchange.at, after.exchange.at
    return None if one is None or other is None else other - one


def _only_retries(sent: Sequence[Reading]) -> bool:
    """What failed was asked again, a few times: the caller lost nothing by it, and that it is declared is ours."""
    pairs = list(pairwise(sent))
    return 0 < len(pairs) <= _MAX_RETRIES and all(is_retriable(one) and _is_alike(one, other) for one, other in pairs)


def _why_not(evidence: Evidence, sent: Sequence[Reading]) -> str | None:
    """What speaks against more than one request: nothing, where the adapter declares that it retries, and only does."""
    if Capability.RETRIES not in evidence.transcript.capabilities:
        again = sum(map(_is_alike, sent, sent[1:]))
        return f"; one that retries has to declare the capability {Capability.RETRIES.value!r}" if again else ""
    if not sent:
        return ""
    if len(sent) > 1 + _MAX_RETRIES:
        return f", more than one and {_MAX_RETRIES} retries"
    for before, after in pairwise(sent):
        if not is_retriable(before):
            return f": exchange {before.index} did not fail in a way that a retry may mend"
        if not _is_alike(before, after):
            return f": exchange {after.index} is not the request that failed before it"
    return None


def _is_alike(one: Reading, other: Reading) -> bool:
    sent, again = one.exchange.request, other.exchange.request
    return (sent.method, sent.url, sent.body) == (again.method, again.url, again.body)


def _unreadable(evidence: Evidence) -> Iterator[Flaw]:
    for reading in evidence.readings:
        played = reading.exchange.chat is not None
        if played and reading.request is not None and (reading.is_cut or is_spoilt(evidence)):
            continue  # stream-cut and chat-failure say what the adapter made of it
        if reading.unread is not None:
            yield Flaw(
                f"the witness cannot read this exchange: {reading.unread}",
                reading.index,
                "",
                blame=_author(evidence) if _is_read(reading) else None,
            )


def _is_read(reading: Reading) -> bool:
    """Whether the request can be read."""
    return reading.request is not None or (isinstance(reading, EmbeddingReading) and reading.asked is not None)


def _author(evidence: Evidence) -> Blame:
    """Who is at fault for a response: the provider, unless it was ours."""
    transcript = evidence.transcript
    if not transcript.scripted:
        return Blame.PROVIDER
    return Blame.CASSETTE if transcript.mode == "replay" else Blame.HARNESS


def given_settings(request: ChatRequest) -> dict[str, JSON]:
    """The settings of a request under their canonical names, `None` where nobody gave one."""
    return {
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": [*request.stop] or None,
    }


def _settings(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.asked:
        for name, value in given_settings(asked.chat.request).items():
            sent = asked.view.settings.get(name)
            if value is not None and (sent is None or not equal(sent.value, value)):
                yield Flaw(
                    f"{name} was given and is not what is sent",
                    asked.reading.index,
                    sent.pointer if sent else "",
                    sent.value if sent else None,
                    value,
                )
        wanted = asked.chat.request.thinking
        if wanted is not None:
            yield from unthinking(asked, wanted.effort)


def unthinking(asked: Heard, effort: str | None) -> Iterator[Flaw]:
    """Reasoning that was asked for and is not asked of the model, or another amount of it. A number of tokens stands
    for an effort where a model takes nothing else."""
    sent = asked.view.effort
    if "thinking" not in asked.view.settings and sent is None:
        yield Flaw("thinking was asked for and is not in the request", asked.reading.index, "", None, "thinking")
    elif effort is not None and (sent is None or (isinstance(sent.value, str) and sent.value != effort)):
        yield Flaw(
            "the effort of thinking was given and is not what is sent",
            asked.reading.index,
            sent.pointer if sent else "",
            sent.value if sent else None,
            effort,
        )


def _uninvited(evidence: Evidence) -> Iterator[Flaw]:
    """Settings that nobody gave. An API may demand `max_tokens` all the same (anthropic-required-fields)."""
    for asked in evidence.asked:
        for name, value in given_settings(asked.chat.request).items():
            sent = asked.view.settings.get(name)
            if value is None and sent is not None and name != "max_tokens":
                yield Flaw(
                    f"nobody gave {name}, and it is sent",
                    asked.reading.index,
                    sent.pointer,
                    sent.value,
                    kind=Kind.LOSS if name == "stop" else None,  # it cuts answers short that would have gone on
                )
        yield from _narrowed(evidence, asked)


def _narrowed(evidence: Evidence, asked: Asked) -> Iterator[Flaw]:
    """What the contract has no word for, so that nobody can have asked for it. That a turn may call one tool only goes
    with JSON that a tool stands for, and is for an adapter to say that does not declare parallel calls."""
    answers, one_call = (asked.view.settings.get(name) for name in ("answers", "one_call"))
    if answers is not None:
        yield Flaw(
            "several answers are asked for, of which the caller gets one",
            asked.reading.index,
            answers.pointer,
            answers.value,
            1,
            kind=Kind.LOSS,
        )
    request, capabilities = asked.chat.request, evidence.transcript.capabilities
    if one_call is not None and request.tools and request.response_format is None:
        yield Flaw(
            "nobody asked for one call at a time, and the model may not call several tools in a turn",
            asked.reading.index,
            one_call.pointer,
            kind=Kind.LOSS if Capability.PARALLEL_TOOL_CALLS in capabilities else None,
        )


def _cache(evidence: Evidence) -> Iterator[Flaw]:
    """Cache marks where they are asked for, on APIs that have them (anthropic-four-cache-marks)."""
    for asked in evidence.asked:
        request, marks = asked.chat.request, asked.view.cache_marks
        if marks is None:
            continue
        for there, place in ((asked.view.tools, "/tools"), (asked.view.system, "/system")):
            found = [mark for mark in marks if mark.startswith(place)]
            if request.cache and there and not found:
                yield Flaw(
                    "a cache mark was asked for and is not sent", asked.reading.index, place, None, "a cache mark"
                )
            elif found and not request.cache:
                yield Flaw(
                    "nobody asked for a cache mark, and it is sent",
                    asked.reading.index,
                    found[0],
                    "a cache mark",
                    kind=Kind.CONVENTION,  # it may cost or save something, and changes no answer
                )


def _model(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.asked:
        if asked.view.model is not None and not is_model_name(asked.view.model, asked.chat.request.model):
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
        "harness list facts",
        _limits,
        kind=Kind.LIMIT,
        because="the provider refuses it, by the evidence that each limit names",
        remedy="leave out or change what the provider refuses, as the message says",
    ),
    Rule(
        "one-request-per-chat",
        Subject.REQUESTS,
        "One chat is one HTTP request: no continuation, no second question, no retry that is not declared.",
        "harness.contract.protocols: ChatClient; gemini-sdk-automatic",
        _one_request,
        kind=Kind.LOSS,
        because="what nobody asked for is paid for, and the answer belongs to another question",
        remedy="send one request for each chat, without retries or follow-up questions that are not declared",
    ),
    Rule(
        "retry-early",
        Subject.ERRORS,
        "What failed is not sent again before the time is over that the provider asked to wait.",
        "harness.contract.errors: ProviderError",
        _early,
        kind=Kind.LOSS,
        because="the provider refuses it again, and the tries are used up before it takes one",
        remedy="wait at least as long as the response asks before sending the request again",
    ),
    Rule(
        "exchange-unreadable",
        Subject.REQUESTS,
        "Requests and responses are of the API that the adapter names.",
        "anthropic-endpoint, openai-chat-endpoint, openai-responses-endpoint, gemini-endpoint",
        _unreadable,
        kind=Kind.LOSS,
        because="nobody can say what was said",
        remedy="send JSON as the API has it, to its own path",
    ),
    Rule(
        "setting-lost",
        Subject.REQUESTS,
        "Settings that were given are sent.",
        "harness.contract.model: ChatRequest",
        _settings,
        kind=Kind.LOSS,
        because="the model answers under other settings than the caller's",
        remedy="send the setting in the API's own field for it",
    ),
    Rule(
        "setting-uninvited",
        Subject.REQUESTS,
        "Settings that were not given are left to the provider.",
        "harness.contract.model: ChatRequest",
        _uninvited,
        kind=Kind.CONVENTION,
        because="a library may have defaults of its own; what the model refuses is a limit",
        remedy="leave out settings that the request does not have",
    ),
    Rule(
        "cache-mark",
        Subject.REQUESTS,
        "Cache marks stand on tools and system prompt if they are asked for, where the API has them.",
        "harness.contract.model: ChatRequest; anthropic-four-cache-marks",
        _cache,
        kind=Kind.LOSS,
        because="the caller pays for what was to be cached",
        remedy="set a cache mark on the tools and on the system prompt where `cache` is on",
    ),
    Rule(
        "model-named",
        Subject.REQUESTS,
        "The request names the model that was given.",
        "anthropic-endpoint, openai-chat-endpoint, openai-responses-endpoint, gemini-endpoint",
        _model,
        kind=Kind.LOSS,
        because="another model answers",
        remedy="send the model that `connect` was given",
    ),
)
