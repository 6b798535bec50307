"""Log of the arguments that wrappers pass to their library, for `harness reproduce`."""

from __future__ import annotations

import copy
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_LOG: ContextVar[list[dict[str, Any]] | None] = ContextVar("_LOG", default=None)


@contextmanager
def logged_calls() -> Generator[list[dict[str, Any]]]:
    """Yield a list to which the arguments of each call are appended, in the form of OpenAI Chat."""
    calls: list[dict[str, Any]] = []
    token = _LOG.set(calls)
    try:
        yield calls
    finally:
        _LOG.reset(token)


def log_call(arguments: dict[str, Any]) -> dict[str, Any]:
    """Add the arguments of a call to the log, if there is one, and return them."""
    calls = _LOG.get()
    if calls is not None:
        calls.append(copy.deepcopy(arguments))
    return arguments
