"""Code shared by the two OpenAI adapters: the SDK, ids, strict schemas, settings and errors."""

from __future__ import annotations

from harness.model.protocols import Requirement

SDK = Requirement("openai", "openai", "3.0")
