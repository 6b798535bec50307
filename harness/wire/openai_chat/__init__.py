"""OpenAI Chat Completions, and the many servers that speak it.

- `requests`: body → neutral view; `parts`: what messages of both directions are made of.
- `limits`: what the provider refuses, collected from `messages`, `pairing`, `tools`, `schemas` and `settings`;
  `chat` is what they all look at, and says when a request is held to OpenAI's own rules.
- `responses`: body → neutral view; `streams`: chunks → the whole body.
- `answers`: model step → body, violation → refusal; `chunks`: the body → chunks; `dialects`: how compatible servers
  put both.
"""

from __future__ import annotations

from harness.wire.format import WireFormat
from harness.wire.openai_chat.answers import build, refuse
from harness.wire.openai_chat.chunks import build_stream
from harness.wire.openai_chat.limits import violations
from harness.wire.openai_chat.requests import model_of, recognises, view
from harness.wire.openai_chat.responses import read

WIRE = WireFormat(
    api="openai-chat",
    base_path="/v1",
    key_variables=("OPENAI_API_KEY",),
    provider_url="https://api.openai.com/v1",
    recognises=recognises,
    view=view,
    violations=violations,
    read=read,
    build=build,
    build_stream=build_stream,
    refuse=refuse,
    model_of=model_of,
)
