"""JSON text, strictly read and sparely written; and what stands in the fields of what was read."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from harness.contract.model import JSON


def loads(text: str | bytes) -> JSON:
    """Strict JSON. Raises `ValueError`, for nesting that Python cannot follow too."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def compact(value: JSON) -> str:
    """JSON text without needless spaces, code points as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def string(value: JSON) -> str | None:
    """A text; `None` for anything else."""
    return value if isinstance(value, str) else None


def count(fields: JSON, key: str) -> int | None:
    """A number of tokens; `None` where there is none."""
    value = fields.get(key) if isinstance(fields, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits} is out of range")
    return number
