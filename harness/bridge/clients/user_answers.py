"""Functions of the caller that code needs: to ask the user whether a tool may run, or to report its progress. Answers
to questions on the terminal.
"""

from __future__ import annotations

import io
import re
import sys
import typing
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager

from harness.bridge.clients.methods import Method


@contextmanager
def confirmed_questions() -> Generator[None]:
    """Answer all questions on the terminal with `y`. The tools that an agent gets from harness may run."""
    with _answers("y"):
        yield


@contextmanager
def declined_questions() -> Generator[None]:
    """Answer all questions on the terminal with `n`. Tools of the user need not be harmless."""
    with _answers("n"):
        yield


@contextmanager
def _answers(word: str) -> Generator[None]:
    before, sys.stdin = sys.stdin, io.StringIO(f"{word}\n" * _MAX_QUESTIONS)
    try:
        yield
    finally:
        sys.stdin = before


_MAX_QUESTIONS = 1000
"""Number of questions that are answered. An endless loop then ends."""


def callback_arguments(method: Method) -> dict[str, Callable[..., object]]:
    """Return functions for the required parameters that take one of the caller: it approves every call, or observes
    what happens.
    """
    return _observing_arguments(method) | _approving_arguments(method)


def _observing_arguments(method: Method) -> dict[str, Callable[..., object]]:
    """Return functions that do nothing, for the required parameters whose annotation shows that they return nothing."""
    found: dict[str, Callable[..., object]] = {}
    for name, hint in method.hints.items():
        given = typing.get_args(hint) if name in method.required and typing.get_origin(hint) is _CALLABLE else ()
        returned = given[-1] if given else str
        awaited = typing.get_args(returned) if typing.get_origin(returned) in (Awaitable, Coroutine) else ()
        if (awaited or (returned,))[-1] in (None, type(None)):
            found[name] = observe_asynchronously if awaited else observe
    return found


_CALLABLE = typing.get_origin(Callable[..., None])


def _approving_arguments(method: Method) -> dict[str, Callable[..., object]]:
    """Return functions that approve every call, for the required parameters that take one."""
    named = [name for name in method.required if _APPROVALS.fullmatch(name)]
    called = [name for name in named if re.search(rf"\b_?{name}\(", method.module)]
    is_awaited = {name: re.search(rf"\bawait (?:self\.)?_?{name}\(", method.module) for name in called}
    return {name: approve_asynchronously if is_awaited[name] else approve for name in called}


_APPROVALS = re.compile(
    r"(tool_)?(approve|approval|confirm|confirmation|permission|allow|authori[sz]e|consent)(_\w+)?"
    r"|(ask|prompt)_(user|human|for_\w+)|(can|may|should)_(run|call|execute|use)\w*|\w+_(approve|approval|approver|confirm)"
)
"""Names of parameters for a function that decides whether a tool may run."""


def observe(*_args: object, **_given: object) -> None:
    """Do nothing."""


async def observe_asynchronously(*_args: object, **_given: object) -> None:
    """Do nothing."""


def approve(*_args: object, **_given: object) -> bool:
    """Approve a call."""
    return True


async def approve_asynchronously(*_args: object, **_given: object) -> bool:
    """Approve a call."""
    return True


CALLBACK_CODE: Mapping[object, str] = {
    observe: "lambda *_, **__: None",
    observe_asynchronously: "lambda *_, **__: asyncio.sleep(0)",
    approve: "lambda *_, **__: True",
    approve_asynchronously: "lambda *_, **__: asyncio.sleep(0, True)",
}
"""Callback → expression that makes it without harness."""
