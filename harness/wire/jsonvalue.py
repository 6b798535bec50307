"""JSON values: strict reading, equality, pointers."""

from __future__ import annotations

import json
import math
from typing import NoReturn

from harness.model import JSON
from harness.wire.view import WireError


def _refuse_constant(name: str) -> NoReturn:
    raise WireError(f"{name} is not JSON")


def loads(data: bytes | str) -> JSON:
    """Parse strict JSON.

    Raises:
        WireError: it is not JSON, or it holds NaN, an infinity, or nesting that Python cannot follow.
    """
    try:
        return json.loads(data, parse_constant=_refuse_constant)
    except RecursionError:
        raise WireError("nested too deeply") from None
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError
        raise WireError(f"not JSON: {error}") from None


def equal(one: JSON, other: JSON) -> bool:
    """JSON equality: integers exact, other numbers equal as doubles, `true` is not `1`, key order free."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        if isinstance(one, int) and isinstance(other, int):
            return one == other
        try:
            return float(one) == float(other) or (math.isnan(one) and math.isnan(other))
        except OverflowError:
            return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return type(one) is type(other) and one == other


def join(pointer: str, *keys: str | int) -> str:
    """A JSON pointer (RFC 6901) extended by keys and indices."""
    return pointer + "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in keys)
