"""Answers read strictly: where one departs from what the API promises. See `harness.apis.departure`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.apis.departure import ERROR_STATUS, FIELDS, STOP_REASON, Departure
from harness.apis.jsonvalue import join
from harness.apis.openai_chat.promises.stream import streamed
from harness.apis.strictly import (
    body_of,
    counts,
    identified,
    number_at,
    object_in,
    sums,
    text_at,
    typed_content,
    worded,
)
from harness.apis.view import RequestView
from harness.contract.http import HttpResponse
from harness.contract.model import JSON

_STOPS = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})


def departures(response: HttpResponse, request: RequestView) -> Iterator[Departure]:
    """Where an answer to a request departs from what the API promises."""
    whole = body_of(response)
    if response.status >= 400:
        yield from worded(response)
    elif whole is not None and whole.get("error") is not None and not whole.get("choices"):
        yield ERROR_STATUS.broken(f"an error comes with HTTP {response.status}", "/error", actual=whole["error"])
    elif request.stream:
        yield from typed_content(response, stream=True)
        folded = yield from streamed(response)
        yield from _said(folded, request)
        if request.usage_pointer is not None:
            yield from used(folded.get("usage"))
    else:
        yield from typed_content(response, stream=False)
        if whole is None:
            yield FIELDS.broken("the body is no JSON object")
            return
        yield from _answer(whole)
        yield from _said(whole, request)
        yield from used(whole.get("usage"))


def _answer(body: dict[str, JSON]) -> Iterator[Departure]:
    yield from text_at(body, "id")
    yield from text_at(body, "object", among={"chat.completion"})
    yield from text_at(body, "model")
    yield from number_at(body, "created")
    choice = _choice(body)
    if choice is None:
        yield FIELDS.broken("there are no choices", "/choices", actual=body.get("choices"))
        return
    yield from number_at(choice, "index", "/choices/0")
    message = choice.get("message")
    if not isinstance(message, dict):
        yield FIELDS.broken("the choice has no message", "/choices/0/message", actual=message)
        return
    yield from text_at(message, "role", "/choices/0/message", among={"assistant"})
    if not isinstance(message.get("content"), str | None):
        pointer = "/choices/0/message/content"
        yield FIELDS.broken("the content is neither a text nor null", pointer, actual=message["content"])


def _choice(body: Mapping[str, JSON]) -> dict[str, JSON] | None:
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else None


def _said(body: Mapping[str, JSON], request: RequestView) -> Iterator[Departure]:
    """Of what a whole answer has and a stream folds to: its calls, and why it stopped."""
    choice = _choice(body)
    if choice is None:
        return
    message, word = choice.get("message"), choice.get("finish_reason")
    given = message.get("tool_calls") if isinstance(message, dict) else None
    calls = given if isinstance(given, list) else []
    ids: list[JSON] = []
    for number, call in enumerate(calls):
        pointer = join("/choices/0/message/tool_calls", number)
        if isinstance(call, dict):
            yield from _call(call, pointer, ids, is_cut=word == "length")
        else:
            yield FIELDS.broken("a call is no object", pointer, actual=call)
    yield from _stop(word, request, calls=len(calls))


def _call(call: dict[str, JSON], pointer: str, ids: list[JSON], *, is_cut: bool) -> Iterator[Departure]:
    yield from identified(call.get("id"), ids, f"{pointer}/id")
    if call.get("type") == "custom":
        return
    yield from text_at(call, "type", pointer, among={"function"})
    function = call.get("function")
    if not isinstance(function, dict):
        yield FIELDS.broken("a call has no function", f"{pointer}/function", actual=function)
        return
    yield from text_at(function, "name", f"{pointer}/function")
    if not is_cut:
        yield from object_in(function.get("arguments"), f"{pointer}/function/arguments")


def _stop(word: JSON, request: RequestView, *, calls: int) -> Iterator[Departure]:
    """A call that is forced by name ends with `stop` (openai-chat-stop-reasons), and any other with `tool_calls`."""
    pointer = "/choices/0/finish_reason"
    named = request.tool_choice is not None and request.tool_choice.mode == "named"
    if word is None:
        yield STOP_REASON.broken("the answer does not say why it stopped", pointer)
    elif not isinstance(word, str) or word not in _STOPS:
        yield STOP_REASON.broken("the API has no such finish reason", pointer, actual=word)
    elif calls and (word == "function_call" or (word == "stop" and not named)):
        said = "the answer has calls, and says that it stopped " + ("without" if word == "stop" else "for another kind")
        yield STOP_REASON.broken(said, pointer, actual=word, expected="tool_calls")
    elif word == "tool_calls" and not calls:
        yield STOP_REASON.broken("the answer says that it stopped for calls, and has none", pointer, actual=word)


def used(usage: JSON) -> Iterator[Departure]:
    """Of the counts of an answer (openai-chat-usage)."""
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    yield from counts(usage, names, "/usage", least={"prompt_tokens": 1})
    yield from sums(usage, "total_tokens", names[:2], "/usage")
