"""A shipped adapter with an asynchronous client. It imports one SDK, and `tests/examples/async_sdk.py` two."""

from __future__ import annotations

from tests.backends import shipped_targets
from tests.wrapped import asynchronous

ADAPTER = asynchronous(shipped_targets()["openai-chat"]).adapter
