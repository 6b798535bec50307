"""Streams that clients return as objects: context managers, and objects with a method for the pieces of the answer."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import cast

from harness.bridge.clients.answer_fields import has_answer_fields, has_calls_field


def pieces_method(stream: object) -> Callable[[], object] | None:
    """Return the method of an object that yields the pieces of an answer, such as `stream.text()`, or `None`."""
    for name in sorted(dir(type(stream)), key=lambda each: (each not in _PIECES_METHODS, each)):
        function = inspect.getattr_static(type(stream), name)
        is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
        if is_generator and _PIECES.fullmatch(name) and len(inspect.signature(function).parameters) == 1:
            return cast("Callable[[], object]", getattr(stream, name))
    return None


def final_answer(stream: object) -> Callable[[], object] | None:
    """Return what gives the whole answer of a stream of texts at its end, or `None`.

    It is a method, such as `stream.final()`, or a function that reads a field, such as `stream.completion`, which is
    still empty.
    """
    for name in sorted(filter(_FINAL.fullmatch, dir(stream))):
        function = inspect.getattr_static(type(stream), name, None)
        is_plain = inspect.isfunction(function) and not inspect.isgeneratorfunction(function)
        if is_plain and not inspect.isasyncgenfunction(function) and len(inspect.signature(function).parameters) == 1:
            return cast("Callable[[], object]", getattr(stream, name))
        if not isinstance(function, property) and getattr(stream, name, None) is None:
            return partial(getattr, stream, name, None)
    return None


def keeps_answer(stream: object) -> bool:
    """Return whether an object that yields the pieces of an answer also has fields for the whole answer."""
    has_fields = has_answer_fields(stream) or has_calls_field(stream)
    return has_fields and not isinstance(stream, str | Mapping | Sequence) and not is_complete(stream)


def is_complete(answer: object) -> bool:
    """Return whether an answer is a tuple or a Pydantic model. Both can be iterated, but are no streams."""
    return isinstance(answer, tuple) or hasattr(type(answer), "model_fields")


_PIECES_METHODS = ("text", "texts", "text_stream")
"""Names of methods that yield only texts. The object has the rest of the answer in its fields."""

_PIECES = re.compile(
    r"(iter_)?(text|texts|token|tokens|delta|deltas|text_deltas|piece|pieces|chunk|chunks|event|events|stream|lines)"
    r"|text_stream|stream_text|iter|run|read|consume"
)

_FINAL = re.compile(
    r"(get_)?(final|finish|finali[sz]e|collect)(_(message|response|answer|reply|completion|result|turn|output))?"
    r"|(get_)?(message|response|answer|reply|completion|result)"
)
