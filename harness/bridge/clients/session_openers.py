"""Methods of third-party classes that open a session, whose methods take the prompts."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator

from harness.bridge.clients.annotations import classes_among, members_of
from harness.bridge.clients.loop_methods import prompt_methods
from harness.bridge.clients.methods import Method, public_methods


def session_opener(kind: type) -> tuple[str, type] | None:
    """Return the method of a class that opens a session without arguments, and the class of the session.

    Return `None` if the class takes prompts itself, or if no session does.
    """
    methods = public_methods(kind)
    if prompt_methods(methods):
        return None
    named = [each for each in methods if _OPENING_NAMES.fullmatch(each.path[0]) and each.required <= {"self"}]
    found = ((each.path[0], session) for each in named for session in _returned_classes(each))
    return next(((name, session) for name, session in found if prompt_methods(public_methods(session))), None)


_OPENING_NAMES = re.compile(
    r"((start|new|create|open|begin|make|get)_)?(chat|session|conversation|thread|dialog(ue)?)(_session)?"
    r"|build(_agent|_bot|_assistant)?"
)


def _returned_classes(method: Method) -> Iterator[type]:
    """Yield the third-party classes that a method may return, by its annotation or its code."""
    yield from classes_among(members_of(method.hints.get("return")))
    module = vars(sys.modules.get(method.module_name, sys))
    for name in re.findall(r"\b(?:return|yield) (\w+)\(", method.source):
        if inspect.isclass(made := module.get(name)) and made.__module__ == method.module_name:
            yield made
