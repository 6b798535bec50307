"""JSON values: strict reading, equality, pointers."""

from __future__ import annotations

import json
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
    """JSON equality: integers exact, other numbers as doubles, `true` is not `1`, key order free."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other  # Python compares an int with a float exactly, so that no digit is lost unseen
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return type(one) is type(other) and one == other


def join(pointer: str, *keys: str | int) -> str:
    """A JSON pointer (RFC 6901) extended by keys and indices."""
    return pointer + "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in keys)


def canonical(value: JSON) -> str:
    """One text for all equal values: sorted keys, and a float that is a whole number written as the integer."""
    return json.dumps(_whole(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _whole(value: JSON) -> JSON:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return value


def resolve(value: JSON, pointer: str) -> JSON:
    """What a JSON pointer leads to, `None` where it leads nowhere."""
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value
