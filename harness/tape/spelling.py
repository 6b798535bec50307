"""JSON for readers: it stands in a cassette in indented lines, beside the name of the spelling in which it was sent.

By that name the exact bytes come back: what is digested, compared and played is what went over the wire.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from harness.tape.document import MAX_VALUES

_SPELLINGS: Mapping[str, json.JSONEncoder] = {
    "compact": json.JSONEncoder(separators=(",", ":"), ensure_ascii=False),
    "compact-ascii": json.JSONEncoder(separators=(",", ":")),
    "spaced": json.JSONEncoder(ensure_ascii=False),
    "spaced-ascii": json.JSONEncoder(),
    "indented": json.JSONEncoder(indent=2, ensure_ascii=False),
}
"""The spellings of JSON that come back: with or without blanks and lines, with letters or their escapes."""

_INDENTED = _SPELLINGS["indented"]
_INDENTED_ASCII = json.JSONEncoder(indent=2)

_NO_BLOCK = re.compile(r"[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]")
"""What YAML does not write as lines: control characters, other line breaks, what is outside of the basic plane."""


def indented(body: str | bytes) -> tuple[str, str] | None:
    """A JSON list or object in lines, and the name of the spelling it had; `None` for what is no text, and what comes
    back from no spelling, as with numbers like `1.50`, repeated keys, and what is in lines already."""
    if isinstance(body, bytes) or not body.startswith(("{", "[")):
        return None
    try:
        value = _loaded(body)
        for name, spelling in _SPELLINGS.items():
            if spelling.encode(value) == body:
                lines = _INDENTED.encode(value)
                shown = _INDENTED_ASCII.encode(value) if _NO_BLOCK.search(lines) else lines
                return None if shown == body else (shown, name)
    except (ValueError, RecursionError):
        pass
    return None


def exact(body: bytes, name: object) -> bytes:
    """The inverse of `indented`.

    Raises:
        ValueError: there is no such spelling, or the text is no JSON.
    """
    if not isinstance(name, str) or name not in _SPELLINGS:
        raise ValueError(f"a spelling is one of {', '.join(_SPELLINGS)}")
    try:
        return _SPELLINGS[name].encode(_loaded(body.decode())).encode()
    except (ValueError, RecursionError):
        raise ValueError("this is not the JSON that its spelling says it is") from None


def _loaded(text: str) -> Any:
    if len(text) > MAX_VALUES and sum(map(text.count, "[{,")) > MAX_VALUES:
        raise ValueError(f"more than {MAX_VALUES} values")
    return json.loads(text)
