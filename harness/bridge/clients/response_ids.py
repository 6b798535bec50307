"""Ids of responses that callers pass on, so that the provider continues its conversation after them."""

from __future__ import annotations

import re

from harness.bridge.clients.answer_fields import computed_fields
from harness.bridge.clients.methods import Method
from harness.bridge.clients.values import items_of, plain_fields

_FIELD = "previous_response_id"


def response_id_argument(method: Method, answer: object) -> dict[str, object]:
    """Return the argument of a method for the id of the previous response, which is in `answer`. It is empty if the
    method has no such parameter, or the answer no such id.
    """
    name, found = _parameter(method), _response_id(answer)
    return {} if name is None or found is None else {name: found}


def _parameter(method: Method) -> str | None:
    """Return the parameter that a method sends as the id of the previous response, by its name or by its use."""
    if _FIELD in method.names:
        return _FIELD
    used = re.findall(rf"\b{_FIELD}[\"']?\]?\s*[:=]\s*(\w+)\b", method.source)
    return next((each for each in used if each in method.names), None)


def _response_id(answer: object) -> str | None:
    """Return the id of a response in an answer, or `None`. The answer may be a tuple."""
    parts = items_of(answer) or [answer]
    every = [value for each in parts for value in (each, *plain_fields(each).values(), *computed_fields(each).values())]
    return next((each for each in every if isinstance(each, str) and each.startswith("resp_")), None)
