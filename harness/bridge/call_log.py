"""Log of the calls that wrappers make to their library, for `harness reproduce`."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

_T = TypeVar("_T")


@dataclass
class LoggedCall:
    """A logged library call. Its function uses only the library, not harness, so that a script can repeat the call.

    `before` is the number of requests that were sent before the call. `result` is the value that the function returned.
    If `result` is awaitable, `awaited` is the value that it resolved to. If it is a generator, `pieces` are the values
    that it yielded. `has_failed` is set if the function raised an exception. `joined` is the message that the function
    `join` built from the chunks of a stream.
    """

    function: Callable[..., object]
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    before: int = 0
    result: object = None
    join: Callable[..., object] | None = None
    joined: object = None
    awaited: object = None
    pieces: list[object] = field(default_factory=list[object])
    has_failed: bool = False

    @property
    def is_stream(self) -> bool:
        """Return whether the call returned chunks."""
        return isinstance(self.result, Iterator | AsyncIterator)

    @property
    def is_async_stream(self) -> bool:
        """Return whether the call returned chunks that have to be awaited. The stream of some libraries gives them in
        both ways.
        """
        return not isinstance(self.result, Iterator) and isinstance(self.result, AsyncIterator)

    @property
    def final_answer(self) -> tuple[object, str] | None:
        """The whole answer at the end of a stream of texts, and the code that takes it from the list of pieces. `None`
        if the stream has other pieces.

        Each piece may also be a pair of a kind and a value.
        """
        if not self.pieces:
            return None
        values = [_value_of(each) for each in self.pieces]
        last, *before = values[-1], *values[:-1]
        names = {*cast("dict[str, object]", last)} if isinstance(last, dict) else {*dir(last)}
        if isinstance(last, str) or not names & _TEXTS or not all(isinstance(each, str) for each in before):
            return None
        return cast("object", last), "[-1]" if last is self.pieces[-1] else "[-1][1]"

    @property
    def is_awaited(self) -> bool:
        """Return whether the call returned an awaitable."""
        return inspect.isawaitable(self.result)

    @property
    def value(self) -> object:
        """The value that a script gets from the call: the joined message, the end or the list of a stream's pieces, the
        value that an awaitable resolved to, or the result.
        """
        if self.joined is not None:
            return self.joined
        if self.is_stream:
            return self.pieces if self.final_answer is None else self.final_answer[0]
        return self.awaited if self.is_awaited else self.result


@dataclass(frozen=True, slots=True)
class BoundMethod:
    """A method of a client that is reached through a chain of attributes, such as `chat.completions.create`."""

    client: object
    path: tuple[str, ...]

    def __call__(self, /, *args: object, **kwargs: object) -> object:
        """Call the method."""
        found: Any = self.client
        for name in self.path:
            found = getattr(found, name)
        return found(*args, **kwargs)


class ContinuedList(list[Any]):
    """A list that a caller passes to several calls. `added` are the items that the caller added after the last one."""

    def __init__(self, items: Iterable[Any], added: Iterable[Any]) -> None:
        super().__init__(items)
        self.added = [*added]


_Log = tuple[list[LoggedCall], Callable[[], int]]
_LOG: ContextVar[_Log | None] = ContextVar("_LOG", default=None)


@contextmanager
def logged_calls(sent: Callable[[], int]) -> Generator[list[LoggedCall]]:
    """Yield a list to which each call is appended. `sent` returns the number of requests so far."""
    calls: list[LoggedCall] = []
    token = _LOG.set((calls, sent))
    try:
        yield calls
    finally:
        _LOG.reset(token)


def call(function: Callable[..., _T], /, *args: Any, **kwargs: Any) -> _T:
    """Call a function that uses only the library, and log the call if a log is active.

    `harness reproduce` writes the source of the function and its arguments into a script.
    """
    logged = log_call(function, *args, **kwargs)
    try:
        result = function(*args, **kwargs)
    except Exception:
        if logged is not None:
            logged.has_failed = True
        raise
    if logged is not None:
        if inspect.iscoroutine(result):
            result = cast("_T", _await(logged, result))
        elif inspect.isasyncgen(result):
            result = cast("_T", _log_async_pieces(logged, cast("AsyncIterator[object]", result)))
        elif inspect.isgenerator(result):
            result = cast("_T", _log_pieces(logged, cast("Iterator[object]", result)))
        logged.result = result
    return result


def _log_pieces(logged: LoggedCall, result: Iterator[object]) -> Iterator[object]:
    for piece in result:
        logged.pieces.append(piece)
        yield piece


async def _log_async_pieces(logged: LoggedCall, result: AsyncIterator[object]) -> AsyncIterator[object]:
    async for piece in result:
        logged.pieces.append(piece)
        yield piece


_PAIR = 2
_TEXTS = frozenset({"text", "content", "message", "output_text", "answer"})
"""Names of fields of an answer. The events of a stream, such as a call, have none of them."""


def _value_of(piece: object) -> object:
    """Return the value of a piece that is a pair of a kind and a value. Return another piece unchanged."""
    pair = cast("tuple[object, ...]", piece) if isinstance(piece, tuple) else ()
    return cast("object", pair[1] if len(pair) == _PAIR and isinstance(pair[0], str) else piece)


async def _await(logged: LoggedCall, result: Awaitable[object]) -> object:
    try:
        logged.awaited = await result
    except Exception:
        logged.has_failed = True
        raise
    return logged.awaited


def log_call(function: Callable[..., object], /, *args: Any, **kwargs: Any) -> LoggedCall | None:
    """Log a call without making it, for wrappers that make the same call in another form.

    Return the log entry, or `None` if no log is active.
    """
    log = _LOG.get()
    if log is None:
        return None
    calls, sent = log
    calls.append(LoggedCall(function, cast("tuple[object, ...]", _copy(args)), cast("Any", _copy(kwargs)), sent()))
    return calls[-1]


def log_joined(joined: object, join: Callable[..., object] | None) -> None:
    """Store the message built from the chunks of the last logged call, and the function `join` that builds it."""
    calls, _ = _LOG.get() or ([], None)
    if calls:
        calls[-1].joined, calls[-1].join = joined, join


def _copy(value: object) -> object:
    """Copy nested lists, tuples and dictionaries, but not the other objects in them. A dictionary that records which
    keys a client reads is replaced by its attribute `as_read`.
    """
    if isinstance(read := getattr(value, "as_read", None), dict):
        return cast("object", read)
    if isinstance(value, dict):
        return {name: _copy(each) for name, each in cast("dict[str, object]", value).items()}
    if isinstance(value, ContinuedList):
        return ContinuedList(map(_copy, value), map(_copy, value.added))
    if isinstance(value, list):
        return [_copy(each) for each in cast("list[object]", value)]
    return tuple(map(_copy, cast("tuple[object, ...]", value))) if type(value) is tuple else value
