"""What must never reach the disk, a report or a log: found, and taken out."""

from harness.tape.redact.pieces import REDACTED
from harness.tape.redact.redactor import REQUEST_HEADERS, RESPONSE_HEADERS, Redactor, masked

__all__ = ["REDACTED", "REQUEST_HEADERS", "RESPONSE_HEADERS", "Redactor", "masked"]
