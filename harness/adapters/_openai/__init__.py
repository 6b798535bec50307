"""Code that OpenAI's two adapters share: the SDK, ids, strict schemas, settings and errors. For those two alone."""

from __future__ import annotations

from harness.contract.protocols import Requirement

SDK = Requirement("openai", "openai", "3.0")
"""The SDK that both adapters need."""
