"""The SDK that both adapters need."""

from __future__ import annotations

from harness.contract.protocols import Requirement

SDK = Requirement("openai", "openai", "3.0")
