"""Answers to code that asks the user whether a tool may run: on the terminal, or by a function of its caller."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from harness.bridge.clients.methods import Method


@contextmanager
def confirmed_questions() -> Generator[None]:
    """Answer all questions on the terminal with `y`. The tools that an agent gets from harness may run."""
    before, sys.stdin = sys.stdin, io.StringIO("y\n" * _MAX_QUESTIONS)
    try:
        yield
    finally:
        sys.stdin = before


def decline_questions() -> None:
    """Answer all questions on the terminal with `n` from now on. Tools of the user need not be harmless."""
    sys.stdin = io.StringIO("n\n" * _MAX_QUESTIONS)


_MAX_QUESTIONS = 1000
"""Number of questions that are answered. An endless loop then ends."""


def approving_arguments(method: Method) -> dict[str, Callable[..., object]]:
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


def approve(*_args: object, **_given: object) -> bool:
    """Approve a call."""
    return True


async def approve_asynchronously(*_args: object, **_given: object) -> bool:
    """Approve a call."""
    return True
