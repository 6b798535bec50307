"""Limits of this API, and the violations of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from harness.model import JSON
from harness.wire.view import Violation

API = "openai-responses"

MISSING, WRONG_TYPE, WRONG_VALUE = "missing_required_parameter", "invalid_type", "invalid_value"
TOO_LONG, EMPTY = "string_above_max_length", "empty_string"


@dataclass(frozen=True, slots=True)
class Limit:
    """A rule of this API: `name` without the API's prefix, where it is known from, and whether breaking it is refused
    (`error`) or taken with a loss or on some days only (`warning`)."""

    name: str
    source: str
    severity: Literal["error", "warning"] = "error"

    def broken(self, message: str, pointer: str, *, code: str | None = None, actual: JSON = None) -> Violation:
        """A violation of this rule. `code` is the provider's machine-readable word for it."""
        return Violation(f"{API}-{self.name}", self.severity, message, pointer, self.source, actual=actual, code=code)


def parameter(pointer: str) -> str:
    """A JSON pointer as the provider's messages write it: `input[3].call_id`."""
    path = re.sub(r"/(\d+)(?=/|$)", r"[\1]", pointer).removeprefix("/").replace("/", ".")
    return path.replace("~1", "/").replace("~0", "~")
