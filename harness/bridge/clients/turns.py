"""Turns of a conversation with third-party code that keeps the conversation: the prompt, the call and the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

from harness.bridge.call_log import BoundMethod
from harness.bridge.clients.invocation import attribute_of, call_with, result_of_call
from harness.bridge.clients.loop_answers import EventList, application_answer, jsonable_or_text, plain_answer
from harness.bridge.clients.methods import Method
from harness.bridge.clients.truncation import may_report_truncation
from harness.bridge.clients.values import has_attributes
from harness.bridge.completions import NO_STOP_REASON, NO_TRUNCATION
from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.messages import JSON, ChatRequest, ChatResponse, Message, Text
from harness.model.protocols import Conversation


@contextmanager
def entered(runner: asyncio.Runner, client: Any) -> Generator[object]:
    """Return a client, inside its context if it is a context manager."""
    if hasattr(cast("object", type(client)), "__enter__"):
        with client as entered:
            yield entered
    elif hasattr(cast("object", type(client)), "__aenter__"):
        entered_client = runner.run(client.__aenter__())
        try:
            yield entered_client
        finally:
            runner.run(client.__aexit__(None, None, None))
    else:
        yield client


def check_texts(conversation: Conversation) -> None:
    """Raise `Unsupported` if a turn of a conversation has parts other than texts."""
    if any(not isinstance(part, Text) for turn in conversation.turns for part in turn.parts):
        raise Unsupported(RECOGNISED_CLIENT, "a message that is not a text", "its method has a prompt")


def prompt_text(turn: Message) -> str:
    """Return the text of a turn."""
    return "".join(part.text for part in turn.parts if isinstance(part, Text))


def call_method(runner: asyncio.Runner, client: object, method: Method, arguments: Mapping[str, object]) -> object:
    """Call a method of a client, and return its answer. The items of an iterator are returned as `EventList`."""
    bound = BoundMethod(client, method.path)
    described = cast("Callable[..., object]", attribute_of(client, method.path))
    return whole_answer(runner, call_with(bound, arguments, described))


def whole_answer(runner: asyncio.Runner, answer: object) -> object:
    """Return an answer that may be awaitable or an iterator. The items of an iterator are returned as `EventList`.

    An iterator that yields nothing more and has attributes is an object that keeps the answer in them.
    """
    whole = result_of_call(runner, answer)
    if isinstance(whole, AsyncIterator):
        items = runner.run(_collect_items(cast("AsyncIterator[object]", whole)))
    elif isinstance(whole, Iterator):
        items = [*cast("Iterator[object]", whole)]
    else:
        return whole
    kept = cast("object", whole)
    return kept if not items and has_attributes(kept) else EventList(items)


async def _collect_items(items: AsyncIterator[object]) -> list[object]:
    return [each async for each in items]


def answer_of_turn(  # noqa: PLR0913, PLR0917 - the answer and what is known about its turn
    returned: object,
    turn: Message,
    conversation: Conversation,
    api: str,
    method: Method,
    client: object = None,
    changed: Mapping[str, JSON] | None = None,
) -> ChatResponse | None:
    """Return what the application gets for a turn, or `None` if that is not known.

    `method` is the one that the application called, and `changed` are the attributes of its object `client` that the
    turn changed.
    """
    request = ChatRequest("", (turn,), system=conversation.system, response_format=conversation.response_format)
    answer = application_answer(returned, request, api, method.module, changed)
    if answer is None or answer.reported.get(NO_STOP_REASON) is not True:
        return answer
    plain = plain_answer(returned)
    if may_report_truncation(jsonable_or_text(plain), (plain, client), method.module_name):
        return answer
    return replace(answer, reported={**answer.reported, NO_TRUNCATION: True})
