"""Classes and functions of a package that may be clients, by rank."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from types import FunctionType
from typing import cast

from harness.bridge.clients.forms import PROMPT
from harness.bridge.clients.methods import method_of
from harness.bridge.clients.names import BASE_URLS, KEYS, MODELS, first_known
from harness.bridge.clients.shape_recognition import form_of_method, has_name_of_class
from harness.bridge.clients.sources import source_of


def is_value_class(value: object) -> bool:
    """Return whether a value is a class for messages, settings or exceptions, without methods of its own."""
    if not inspect.isclass(value):
        return False
    fields = ("__dataclass_fields__", "_fields", "model_fields", "__total__", "__members__")
    methods = (name for name, each in vars(value).items() if inspect.isfunction(each) and not name.startswith("_"))
    is_value = issubclass(value, BaseException) or any(hasattr(value, each) for each in fields)
    return is_value and next(methods, None) is None


def rank_of_candidate(value: object, package: str) -> int | None:
    """Return the rank of a class or function among the possible clients of a package. Lower ranks are more likely.
    Return `None` if it is no client or is imported from another package.

    The rank depends on the parameters: 0 for a base URL, 1 for a key, 2 for a model, 3 for a function that takes
    messages. A function that makes a client has the name of a class, as in `ChatOpenAI`.

    Types are compared without `isinstance`, because that makes a lazy proxy load its object.
    """
    is_class = issubclass(type(value), type)
    is_own = (is_class or type(value) is FunctionType) and f"{value.__module__}.".startswith(f"{package}.")
    if not is_own or (is_class and is_value_class(cast("type", value))):
        return None
    own = method_of((), value)
    if not is_class and (form_of_method(own) not in (None, PROMPT) or not has_name_of_class(value)):
        return 3 if form_of_method(own) not in (None, PROMPT) and not _makes_function(value) else None
    return next((place for place, known in enumerate((BASE_URLS, KEYS, MODELS)) if first_known(known, own.names)), None)


def _makes_function(value: object) -> bool:
    """Return whether a function returns a decorator or another function, according to its annotation or its source."""
    try:
        returned = str(inspect.signature(cast("Callable[..., object]", value)).return_annotation)
    except (TypeError, ValueError):
        return False
    return bool(re.search("Callable|Decorator", returned) or _RETURNS_FUNCTION.search(source_of(value)))


_RETURNS_FUNCTION = re.compile(r"\n\s+(?:async )?def (\w+)\((?:.*\n)*\s+return \1\b")
