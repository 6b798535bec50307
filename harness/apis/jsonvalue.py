"""JSON values: strict reading, equality, pointers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import NoReturn

from harness.apis.view import WireError
from harness.contract.http import HttpResponse
from harness.contract.model import JSON

MAX_DEPTH = 500
"""Levels of nesting that are read: as many as a function that calls itself once for each can follow in Python."""

_TOO_DEEP = f"nested too deeply: more than {MAX_DEPTH} levels"
_JSON_TYPE = re.compile(r"[^/]+/([^/]+\+)?json")
_INDEX = re.compile(r"0|[1-9][0-9]*", re.ASCII)


def loads(data: bytes | str) -> JSON:
    """Parse strict JSON. Of a key that stands twice in an object the last counts; half of a surrogate pair, which JSON
    can escape and UTF-8 cannot write, is kept as it is.

    Raises:
        WireError: it is not JSON in UTF-8, or it holds NaN, an infinity, a number beyond the doubles (`1e400`), or more
            than `MAX_DEPTH` levels.
    """
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        value: JSON = _STRICT.decode(text)
    except RecursionError:
        raise WireError(_TOO_DEEP) from None
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError
        raise WireError(f"not JSON: {error}") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and is_deeper(value, MAX_DEPTH):
        raise WireError(_TOO_DEEP)
    return value


def is_json(content_type: str) -> bool:
    """Whether a body of this content type may be JSON. None at all says nothing, nor does plain text."""
    media_type = content_type.partition(";")[0].strip().lower()
    return media_type in ("", "text/plain") or _JSON_TYPE.fullmatch(media_type) is not None


def body_of(response: HttpResponse) -> JSON:
    """The JSON that a response is. Raises `WireError`, for a content type that says something else too."""
    content_type = response.headers.get("content-type", "")
    if not is_json(content_type):
        raise WireError(f"the content type of the body is {content_type!r}")
    return loads(response.body)


def _refuse_constant(name: str) -> NoReturn:
    raise WireError(f"{name} is not JSON")


def _finite(number: str) -> float:
    value = float(number)
    if math.isinf(value):
        raise WireError(f"the number {number} is beyond the doubles")
    return value


def is_deeper(value: JSON, levels: int) -> bool:
    """Whether there is a value below `levels` lists and objects, told level by level, without recursion."""
    level: list[JSON] = [value]
    for _ in range(levels + 1):
        containers = [item for item in level if isinstance(item, dict | list)]
        level = [child for item in containers for child in (item.values() if isinstance(item, dict) else item)]
        if not containers:
            return False
    return True


_STRICT = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def scan(text: str, position: int) -> tuple[JSON, int]:
    """The strict JSON value that begins at a place of a text, whose depth nobody has looked at, and where it ends.

    Raises:
        WireError: it holds NaN, an infinity, or a number beyond the doubles.
        ValueError, RecursionError: there is none, or none that can be read.
    """
    return _STRICT.raw_decode(text, position)


def equal(one: JSON, other: JSON) -> bool:
    """JSON equality: integers exact, other numbers as doubles, `true` is not `1`, key order free."""
    if one is other:  # as what a body repeats is
        return True
    if isinstance(one, str):
        return type(one) is type(other) and one == other
    if isinstance(one, dict):
        if not isinstance(other, dict) or one.keys() != other.keys():
            return False
        for key, value in one.items():  # noqa: SIM110 - a generator would halve the depth that can be followed
            if not equal(value, other[key]):
                return False
        return True
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return False
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other  # Python compares an int with a float exactly, so that no digit is lost unseen
    return type(one) is type(other) and one == other


def join(pointer: str, *keys: str | int) -> str:
    """A JSON pointer (RFC 6901) extended by keys and indices."""
    # A witness names every place that it looks at, so this is called more often than anything else here.
    for key in keys:
        if isinstance(key, str) and ("~" in key or "/" in key):
            key = key.replace("~", "~0").replace("/", "~1")  # noqa: PLW2901 - the same key, spelled for a pointer
        pointer = f"{pointer}/{key}"
    return pointer


def keys(pointer: str) -> tuple[str, ...]:
    """The keys and indices that a JSON pointer is made of, as texts."""
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])


def canonical(value: JSON) -> str:
    """One text for all equal values: sorted keys, and a float that is a whole number written as the integer."""
    return json.dumps(_whole(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _whole(value: JSON) -> JSON:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return dict(zip(value, map(_whole, value.values()), strict=True))
    if isinstance(value, list):
        return list(map(_whole, value))
    return value


def without_nulls(value: JSON) -> JSON:
    """The value without the fields that are null."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def every(value: JSON) -> Iterator[JSON]:
    """The value and all values inside it, each before those inside it. Without recursion, for any depth."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        yield each
        if isinstance(each, dict):
            waiting.extend(reversed(each.values()))
        elif isinstance(each, list):
            waiting.extend(reversed(each))


def resolve(value: JSON, pointer: str) -> JSON:
    """What a JSON pointer leads to, `None` where it leads nowhere."""
    for key in keys(pointer):
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and _INDEX.fullmatch(key) and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value
