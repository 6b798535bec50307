"""Values as somebody would write them in a scenario."""

from __future__ import annotations

import json
import re

from harness.contract.model import JSON

_PLAIN = re.compile(r"[A-Za-z_][\w./-]*(?: [\w./-]+)*\.?")
_WORDS = frozenset({"null", "true", "false", "Null", "NULL", "True", "TRUE", "False", "FALSE"})
_LONG = 60


def flow(value: JSON) -> str:
    """A value on one line; what is long is cut within."""
    match value:
        case dict():
            text = ", ".join(f"{flow(key)}: {flow(item)}" for key, item in value.items())
            return f"{{{text}}}" if len(text) <= _LONG else "{…}"
        case list():
            text = ", ".join(map(flow, value))
            return f"[{text}]" if len(text) <= _LONG else "[…]"
        case str() if _PLAIN.fullmatch(value) and value not in _WORDS and len(value) <= _LONG:
            return value
        case str():
            return json.dumps(value if len(value) <= _LONG else f"{value[:_LONG]}…", ensure_ascii=False)
        case _:
            return json.dumps(value)
