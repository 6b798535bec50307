"""Removal of secrets from everything that reaches a disk, a report or a log."""

from harness.tape.redact.json_strings import REDACTED
from harness.tape.redact.redactor import REQUEST_HEADERS, RESPONSE_HEADERS, Redactor, masked

__all__ = ["REDACTED", "REQUEST_HEADERS", "RESPONSE_HEADERS", "Redactor", "masked"]
