"""What the API is called, and how long its ids may be."""

from __future__ import annotations

from typing import Final

API: Final = "openai-chat"

RECEIVED: Final = f"{API}/received"
"""Whose the fields are that came and do not go back: nobody's, so that no adapter sends them."""

LONGEST_ID: Final = 40
"""Characters of `tool_calls[].id` that the API always took; now it takes 64 (openai-chat-call-id-at-most-64)."""
