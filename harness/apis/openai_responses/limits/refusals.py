"""How this API words its refusals."""

from __future__ import annotations

import re

NAME = "openai-responses"

MISSING, WRONG_TYPE, WRONG_VALUE = "missing_required_parameter", "invalid_type", "invalid_value"
TOO_LONG, EMPTY = "string_above_max_length", "empty_string"


def parameter(pointer: str) -> str:
    """A JSON pointer as the provider's messages write it: `input[3].call_id`."""
    path = re.sub(r"/(\d+)(?=/|$)", r"[\1]", pointer).removeprefix("/").replace("/", ".")
    return path.replace("~1", "/").replace("~0", "~")
