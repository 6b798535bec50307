"""Removal of secrets from everything that reaches a disk, a report or a log."""

from harness.cassettes.redact.json_strings import REDACTED
from harness.cassettes.redact.redactor import REQUEST_HEADERS, RESPONSE_HEADERS, Redactor, mask_headers

__all__ = ["REDACTED", "REQUEST_HEADERS", "RESPONSE_HEADERS", "Redactor", "mask_headers"]
