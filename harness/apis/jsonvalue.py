"""JSON values: strict and cached parsing, equality, pointers."""

from __future__ import annotations

import json
import marshal
import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NoReturn, TypeVar, cast

from harness.apis.view import WireError
from harness.model.http import HttpResponse
from harness.model.messages import JSON

MAX_DEPTH = 500
"""Maximum nesting depth, so that recursive functions stay within Python's stack."""

_TOO_DEEP = f"nested too deeply: more than {MAX_DEPTH} levels"
_JSON_TYPE = re.compile(r"[^/]+/([^/]+\+)?json")
_INDEX = re.compile(r"0|[1-9][0-9]*", re.ASCII)


def loads(data: bytes | str) -> JSON:
    """Parse strict JSON. If a key is repeated, its last value counts. Lone surrogates are kept.

    Raises:
        WireError: the data is not JSON in UTF-8, contains NaN, an infinity or a float that overflows a double, or has
            more than `MAX_DEPTH` levels.
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


def loads_or_none(data: bytes | str) -> JSON:
    """Parse JSON text. Return `None` if `loads` rejects it."""
    try:
        return loads(data)
    except WireError:
        return None


def is_json(content_type: str) -> bool:
    """Return whether a body of this content type may be JSON. A missing content type and plain text also count."""
    media_type = content_type.partition(";")[0].strip().lower()
    return media_type in ("", "text/plain") or _JSON_TYPE.fullmatch(media_type) is not None


def body_of(response: HttpResponse) -> JSON:
    """Parse the JSON body of a response. Raises `WireError` if the content type or the body is not JSON."""
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
    """Return whether a value nests deeper than `levels`, without recursion."""
    level: list[JSON] = [value]
    for _ in range(levels + 1):
        containers = [item for item in level if isinstance(item, dict | list)]
        level = [child for item in containers for child in (item.values() if isinstance(item, dict) else item)]
        if not containers:
            return False
    return True


_STRICT = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def string(value: JSON) -> str | None:
    """Return the value if it is a string, otherwise `None`."""
    return value if isinstance(value, str) else None


def as_object(value: JSON) -> dict[str, JSON]:
    """Return the value if it is an object, otherwise an empty object."""
    return value if isinstance(value, dict) else {}


def as_list(value: JSON) -> list[JSON]:
    """Return the value if it is a list, otherwise an empty list."""
    return value if isinstance(value, list) else []


def count(value: JSON) -> int | None:
    """Return the value if it is an integer, otherwise `None`."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


_TYPES = ((bool, "boolean"), (int | float, "number"), (str, "string"), (list, "array"), (dict, "object"))


def type_of(value: JSON) -> str:
    """Return the JSON type of a value."""
    return next((name for kind, name in _TYPES if isinstance(value, kind)), "null")


def objects(value: JSON, pointer: str = "") -> Iterator[tuple[str, dict[str, JSON]]]:
    """Yield the objects in a list with their pointers. Yield nothing for a value that is not a list."""
    for index, member in enumerate(as_list(value)):
        if isinstance(member, dict):
            yield join(pointer, index), member


def parsed_object(body: bytes) -> dict[str, JSON]:
    """Parse the body of a request; return an empty object unless it is a JSON object."""
    try:
        return as_object(parse_body(body))
    except WireError:
        return {}


def equal(one: JSON, other: JSON) -> bool:
    """Compare JSON values. Integers are compared exactly and other numbers as doubles. `true` does not equal `1`, and
    the order of keys is ignored.
    """
    if one is other:  # usual for values that requests repeat
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
        return one == other  # Python compares an int with a float exactly
    return type(one) is type(other) and one == other


def is_blank(value: JSON) -> bool:
    """Return whether a field is equivalent to an absent one: it is null, false, zero or empty, or contains only such
    values.
    """
    return not any(each and not isinstance(each, dict | list) for each in walk(value))


def join(pointer: str, *keys: str | int) -> str:
    """Return a JSON pointer (RFC 6901) extended by keys and indices."""
    # The hottest function of the wire reader: every view carries pointers.
    for key in keys:
        if isinstance(key, str) and ("~" in key or "/" in key):
            key = key.replace("~", "~0").replace("/", "~1")  # noqa: PLW2901 - the same key, spelled for a pointer
        pointer = f"{pointer}/{key}"
    return pointer


def keys(pointer: str) -> tuple[str, ...]:
    """Return the keys and indices of a JSON pointer as strings."""
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])


def canonical(value: JSON) -> str:
    """Serialize a value so that equal values have the same string: keys are sorted, and whole floats are written as
    integers.
    """
    return _CANONICAL.encode(_whole(value))


_CANONICAL = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _whole(value: JSON) -> JSON:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return dict(zip(value, map(_whole, value.values()), strict=True))
    if isinstance(value, list):
        return list(map(_whole, value))
    return value


def without_nulls(value: JSON) -> JSON:
    """Return the value without the fields that are null."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def walk(value: JSON) -> Iterator[JSON]:
    """Yield the value and all values inside it, outer ones first, without recursion."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        yield each
        if isinstance(each, dict):
            waiting.extend(reversed(each.values()))
        elif isinstance(each, list):
            waiting.extend(reversed(each))


def resolve(value: JSON, pointer: str) -> JSON:
    """Return the value at a JSON pointer, or `None` if there is none."""
    for key in keys(pointer):
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and _INDEX.fullmatch(key) and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value


T = TypeVar("T")

_MAX_ELEMENTS = 1024
_MAX_ELEMENT_BYTES = 16_384
_WITHOUT_REFERENCES = 2
"""Marshal version without object references, so that equal values have equal bytes."""


def parse_body(body: bytes) -> JSON:
    """Parse the body of a request. The body is parsed only once, but each call returns a new value.

    Raises:
        WireError: it is not JSON (see `loads`).
    """
    return marshal.loads(_normalise(body))  # noqa: S302 - the bytes come from `_normalise`


@lru_cache(4)
def _normalise(body: bytes) -> bytes:
    return marshal.dumps(loads(body), _WITHOUT_REFERENCES)


def cached_per_element(read: Callable[[Any, str], T]) -> Callable[[object, str], Sequence[T]]:
    """Return a reader of lists that applies `read` to each element and its pointer.

    `read` must be a pure function of both. Results are cached by the element's value and pointer, because each request
    of a conversation repeats the previous ones. Large elements are not cached. A value that is not a list gives no
    results.
    """

    @lru_cache(_MAX_ELEMENTS)
    def once(element: bytes, pointer: str) -> T:
        return read(marshal.loads(element), pointer)  # noqa: S302 - the bytes come from `of`

    def of(listed: object, pointer: str) -> Sequence[T]:
        if not isinstance(listed, list):
            return ()
        found: list[T] = []
        for index, element in enumerate(cast("list[JSON]", listed)):
            written, place = marshal.dumps(element, _WITHOUT_REFERENCES), f"{pointer}/{index}"
            found.append(once(written, place) if len(written) <= _MAX_ELEMENT_BYTES else read(element, place))
        return found

    return of
