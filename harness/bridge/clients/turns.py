"""Turns of a conversation with third-party code that keeps it: the prompt, the call and the application's answer."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

from harness.bridge.call_log import BoundMethod, call, log_call
from harness.bridge.clients.answers import read_answer, read_stream
from harness.bridge.clients.invocation import attribute_of, call_with, result_of_call, wait_for
from harness.bridge.clients.methods import Method
from harness.bridge.clients.objects import open_object
from harness.bridge.clients.truncation import may_report_truncation
from harness.bridge.clients.values import has_attributes, jsonable, plain_fields
from harness.bridge.completions import ERROR_FIELD, ERRORS_APART, NO_STOP_REASON, NO_TRUNCATION
from harness.bridge.openai_messages import Memory
from harness.model.errors import RECOGNISED_CLIENT, HarnessError, ToolFailed, Unsupported
from harness.model.messages import JSON, ChatRequest, ChatResponse, Finish, Message, Role, StopReason, Text, Usage
from harness.model.protocols import Conversation


@contextmanager
def entered(runner: asyncio.Runner, client: Any, *, stays_open: bool = False) -> Generator[object]:
    """Return a client, inside its context if it is a context manager. With `stays_open`, do not leave that context."""
    if stays_open:
        yield open_object(runner, client)
    elif hasattr(cast("object", type(client)), "__enter__"):
        logged = log_call(BoundMethod(client, ("__enter__",)))
        with client as opened:
            if logged is not None:
                logged.result = opened
            yield opened
    elif hasattr(cast("object", type(client)), "__aenter__"):
        opened = runner.run(wait_for(call(BoundMethod(client, ("__aenter__",)))))
        try:
            yield opened
        finally:
            runner.run(client.__aexit__(None, None, None))
    else:
        yield client


@contextmanager
def without_tool_errors() -> Generator[None]:
    """Raise `Unsupported` if third-party code raises an exception of its own because a tool failed: its caller handles
    the failures of tools.

    The code must have raised it deliberately: `from` the exception of the tool, or of a class that is not built in.
    """
    try:
        yield
    except Exception as error:
        is_own = type(error).__module__ != "builtins" and not isinstance(error, HarnessError)
        cause = error.__cause__ or (error.__context__ if is_own else None)
        if isinstance(cause, ToolFailed):
            reason = f"it raises {type(error).__name__} then"
            raise Unsupported(RECOGNISED_CLIENT, "a tool that fails", reason) from error
        raise


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
    return whole_answer(runner, call_with(bound, method.packed_arguments(arguments), described))


def whole_answer(runner: asyncio.Runner, answer: object) -> object:
    """Return an answer that may be awaitable or an iterator. The items of an iterator are returned as `EventList`.

    An iterator that yields nothing more and has attributes is an object that keeps the answer in them. An object that
    can only be iterated does nothing before.
    """
    whole = result_of_call(runner, answer)
    if _is_lazy(whole):
        whole = iter(cast("Iterable[object]", whole))
    if isinstance(whole, AsyncIterator):
        items = runner.run(_collect_items(cast("AsyncIterator[object]", whole)))
    elif isinstance(whole, Iterator):
        items = [*cast("Iterator[object]", whole)]
    else:
        return whole
    kept = cast("object", whole)
    return kept if not items and has_attributes(kept) else EventList(items)


def _is_lazy(value: object) -> bool:
    """Return whether a value can only be iterated. A Pydantic model has fields, and a collection has a length."""
    kind = type(value)
    is_known = hasattr(kind, "__len__") or hasattr(kind, "__next__") or hasattr(kind, "model_fields")
    return hasattr(kind, "__iter__") and not is_known


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


@dataclass(frozen=True, slots=True)
class EventList:
    """The items that an iterator yielded, such as the events of a stream."""

    items: Sequence[object]


Returned: TypeAlias = "EventList | object"


def plain_answer(returned: Returned) -> object:
    """Return a value, with the items of an `EventList` as a list."""
    return list(returned.items) if isinstance(returned, EventList) else returned


def application_answer(
    returned: Returned,
    request: ChatRequest,
    api: str,
    source: str,
    attributes: Mapping[str, JSON] | None = None,
) -> ChatResponse | None:
    """Return what an application gets for a turn, or `None` if that is not known.

    `returned` is the value that the method for a prompt returned, and `request` has that prompt. `attributes` are those
    that the method changed in its object, as from `changed_attributes`: they add to a returned text. The text of the
    response has all texts in the value, because it is not known which of them the application shows. If there is none,
    but the code may report errors in another way, such as by an event, the answer is not known.
    """
    is_stream = isinstance(returned, EventList)
    said = _text_of_pieces(returned)
    if attributes and said is not None:
        returned = {**attributes, "text": said or attributes.get("text", "")}
    if returned is None:
        return None
    given = {message.text for message in request.messages} | {request.system}
    value = jsonable_or_text(plain_answer(returned))
    words, flags = [each for each in _shown_texts(value) if each not in given], [*_error_fields(value)]
    read = read_returned(returned, request, api, source)
    if isinstance(returned, EventList) and (read is None or not read.text) and words:
        return None
    members = cast("tuple[object, ...]", returned) if isinstance(returned, tuple) else ()
    own = [each for each in members if isinstance(each, str)]
    texts = [*own, read.text if read is not None else "", *words, "".join(words)]
    texts = [returned] if isinstance(returned, str) else texts
    text = "\n".join(filter(None, [*texts, *flags]))
    reports_by_event = _REPORTS_ERRORS_BY_EVENT.search(source) is not None
    if not text and reports_by_event:
        return None
    message = Message(Role.ASSISTANT, (Text(text),) if text else ())
    apart: dict[str, JSON] = {ERRORS_APART: True} if reports_by_event or is_stream else {}
    apart |= {ERROR_FIELD: True} if flags else {}
    if read is None:
        return ChatResponse(message, StopReason.UNKNOWN, Usage(), reported={NO_STOP_REASON: True, **apart})
    read = replace(read, reported={**read.reported, **apart})
    stop_reason = StopReason.UNKNOWN if flags and read.stop_reason is StopReason.END_TURN else read.stop_reason
    return replace(read, message=message, stop_reason=stop_reason)


def _text_of_pieces(returned: Returned) -> str | None:
    """Return a text, the pieces of a stream as one text, or an empty text for nothing; `None` for other values."""
    if isinstance(returned, EventList):
        pieces = [each for each in returned.items if isinstance(each, str)]
        return "".join(pieces) if len(pieces) == len(returned.items) else None
    if isinstance(returned, str):
        return returned
    return "" if returned is None or returned == [] else None


def answer_attributes(client: object) -> dict[str, JSON]:
    """Return the attributes of an object that describe its last answer: the stop reason, token counts, a refusal or an
    error. A prefix such as `last_` is left out of their names, and all token counts are named `usage`.
    """
    found: dict[str, JSON] = {}
    for name in dir(client):
        if (match := _ANSWER_ATTRIBUTE.fullmatch(name)) is not None:
            with contextlib.suppress(Exception):  # a property of third-party code may fail in any way
                value, key = getattr(client, name), match[1] or "usage"
                if not callable(value) and (key != "usage" or plain_fields(value)):
                    found[key] = jsonable(value)
    return found


def changed_attributes(before: Mapping[str, JSON], after: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the attributes of an object that a call changed. One that it did not change says nothing about it, except
    for a text, because two answers may have the same one.
    """
    changed = {name for name, value in after.items() if value != before.get(name)} | {"text"}
    return {name: value for name, value in after.items() if value not in (None, "") and name in changed}


_ANSWER_ATTRIBUTE = re.compile(
    "(?:last_)?(finish_reason|stop_reason|refusal|error|truncated|incomplete|text)"
    "|(?:\\w+_)?usage|(?:tokens_)?(?:used|spent)|token_counts?|tokens"
)


def read_returned(returned: Returned, request: ChatRequest, api: str, source: str) -> ChatResponse | None:
    """Return the answer as a response, or `None` if it cannot be read."""
    with contextlib.suppress(Exception):
        if isinstance(returned, EventList):
            events = [*read_stream(returned.items, request, Memory(), api)]
            return next(each.response for each in reversed(events) if isinstance(each, Finish))
        return read_answer(returned, request, Memory(), api, source=source)
    return None


def jsonable_or_text(value: object) -> JSON:
    """Return a value as JSON, or as text if it cannot be converted."""
    with contextlib.suppress(Exception):
        return jsonable(value)
    return str(value)


def _shown_texts(value: JSON, key: str = "") -> Iterator[str]:
    """Yield the texts in a value that an application may show."""
    if isinstance(value, Mapping):
        for name, each in cast("Mapping[str, JSON]", value).items():
            yield from _shown_texts(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from _shown_texts(each, key)
    elif isinstance(value, str) and value.strip() and not _HIDDEN_FIELDS.search(key):
        yield value


def _error_fields(value: JSON) -> Iterator[str]:
    """Yield the fields in a value that report an error or an incomplete answer."""
    if isinstance(value, list):
        for each in value:
            yield from _error_fields(each)
    elif isinstance(value, Mapping):
        for name, each in cast("Mapping[str, JSON]", value).items():
            if (_ERROR_FIELDS.search(name) and each) or (_SUCCESS_FIELDS.fullmatch(name) and each is False):
                yield f"{name}: {each}"
            yield from _error_fields(each)


_ERROR_FIELDS = re.compile("error|fail|problem|exception|warning|incomplete|truncated|refus|blocked", re.IGNORECASE)

_SUCCESS_FIELDS = re.compile("ok|success|succeeded|complete|completed|finished|done", re.IGNORECASE)

_HIDDEN_FIELDS = re.compile(
    r"(^|_)(ids?|type|phase|kind|event|role|model|object|name|provider|status|stop|reason|created)$"
    "|[sS]ignature$|encrypted_content$"
)
"""Names of fields whose texts are not part of an answer."""

_REPORTS_ERRORS_BY_EVENT = re.compile(
    r"on_error|(emit|publish|notify|dispatch|fire|trigger|callback|handler)\w*\([^()]*[\"']\w*error[\"']"
)
"""Code that may report an error by an event, and not only by its result or an exception."""
