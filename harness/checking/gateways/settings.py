"""What steers the answer: its bounds, sampling, reasoning, one call at a time, streaming, cache marks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from harness.apis.jsonvalue import equal
from harness.apis.view import RequestView
from harness.checking.gateways.fact import Fact, Fared, added, lost, told
from harness.checking.gateways.passage import Passage
from harness.results import Severity

_DEMANDED = frozenset({"max_tokens"})
"""What an upstream may want from everybody, so that a gateway has to make it up (anthropic-required-fields)."""


def _setting(name: str, passage: Passage) -> Iterable[Fared]:
    if passage.asked is None:
        return
    sent, arrived = (view.settings.get(name) for view in passage.asked)
    if sent is None:
        if arrived is not None and name not in _DEMANDED and not _is_no_reasoning(passage, name):
            message = f"the setting {name} was not given, and arrives"
            yield added(message, arrived.pointer, arrived.value, Severity.WARNING)
    elif arrived is None:
        yield lost(f"the setting {name} does not arrive", sent.pointer, "", None, sent.value)
    elif name == "thinking":
        yield _effort(*passage.asked, same=equal(sent.value, arrived.value))
    elif equal(sent.value, arrived.value):
        yield told(same=True)
    else:
        yield lost(f"the setting {name} arrives changed", sent.pointer, arrived.pointer, arrived.value, sent.value)


def _is_no_reasoning(passage: Passage, name: str) -> bool:
    """Reasoning is switched off together with tools, for models that take no tools otherwise
    (openai-chat-tools-want-no-reasoning)."""
    arrived = passage.asked[1] if passage.asked is not None else None
    effort = arrived.effort if arrived is not None and arrived.tools else None
    return name == "thinking" and effort is not None and effort.value == "none"


def _effort(one: RequestView, other: RequestView, *, same: bool) -> Fared:
    """Efforts, levels and budgets of tokens are each API's own words for the same: a number stands for any word."""
    sent, arrived = one.effort, other.effort
    if sent is None or (arrived is not None and not (isinstance(sent.value, str) and isinstance(arrived.value, str))):
        return told(same=same)
    if arrived is None:
        return lost("the effort of reasoning does not arrive", sent.pointer, "", None, sent.value)
    if sent.value == arrived.value:
        return told(same=same)
    return lost("the effort of reasoning arrives changed", sent.pointer, arrived.pointer, arrived.value, sent.value)


def _stream(passage: Passage) -> Iterable[Fared]:
    if passage.asked is None:
        return
    sent, arrived = passage.asked
    received = passage.client.response
    if sent.stream and received is not None and received.error is None and not received.streamed:
        yield lost("a stream was asked for, and the answer comes in one piece", "", "", "one body", "a stream")
    elif sent.stream:
        yield told(same=arrived.stream)


def _cache(passage: Passage) -> Iterable[Fared]:
    if passage.asked is None or not passage.asked[0].cache_marks:
        return
    sent, arrived = passage.asked
    if arrived.cache_marks:
        yield told(same=len(arrived.cache_marks) == len(sent.cache_marks or ()))
    else:
        has = "" if arrived.cache_marks is not None else f"; {arrived.api} has none"
        pointer = (sent.cache_marks or ("",))[0]
        yield lost(f"the cache marks do not arrive{has}", pointer)


def _fact(slug: str, name: str, setting: str, because: str) -> Fact:
    check: Callable[[Passage], Iterable[Fared]] = partial(_setting, setting)
    return Fact(
        f"gateway-{slug}",
        name,
        f"The setting {setting} reaches the upstream as given, and is not made up.",
        because,
        check,
        lambda request: setting in request.settings,
    )


FACTS = (
    _fact("max-tokens", "max tokens", "max_tokens", "answers end sooner or later than was asked for"),
    _fact("temperature", "temperature", "temperature", "the model samples otherwise than was asked for"),
    _fact("top-p", "top_p", "top_p", "the model samples otherwise than was asked for"),
    _fact("stop", "stop texts", "stop", "answers go on behind the text at which they were to end"),
    _fact("one-call", "one call at a time", "one_call", "a client that runs one call gets several"),
    _fact("several-answers", "several answers", "answers", "the client gets another number of answers"),
    _fact("thinking", "reasoning", "thinking", "the model reasons more or less than was asked for"),
    Fact(
        "gateway-stream",
        "stream",
        "Who asks for a stream gets one.",
        "the client's reader of streams gets no stream",
        _stream,
    ),
    Fact(
        "gateway-cache-marks",
        "cache marks",
        "Cache marks reach the upstream.",
        "the prompt is paid for anew each time; nothing that is said is lost",
        _cache,
        lambda request: bool(request.cache_marks),
        severity=Severity.WARNING,
    ),
)
