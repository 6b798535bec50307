"""Code shared by the two OpenAI adapters: the SDK, ids, strict schemas, settings and errors."""

from __future__ import annotations

from harness.model.protocols import Requirement

SDK = Requirement("openai", "openai", "3.0")

CONVERSION_SDK = Requirement("openai", "openai", "2.0")
"""SDK that the conversion of requests and responses needs. It uses no client of the SDK."""
