"""OpenAI Chat Completions, and the many servers that speak it.

- `requests`: body → neutral view; `parts`: what messages of both directions are made of.
- `limits`: the table of what is refused; `messages`, `pairing`, `tools`, `schemas` and `settings` check it by subject,
  `judging` all of it; `chat` is what they all look at, and says when a request is held to OpenAI's own rules.
- `responses`: body → neutral view; `streams`: chunks → the whole body.
- `answers`: model step → body; `chunks`: the body → chunks; `dialects`: how compatible servers put both.
- `embeddings`: the same for `/embeddings`.
- `failures`: violation → refusal, status → failure, and what either says.
"""

from __future__ import annotations

from harness.wire.format import WireFormat
from harness.wire.law import OWN, Services
from harness.wire.openai_chat.answers import build
from harness.wire.openai_chat.chat import MISTRAL
from harness.wire.openai_chat.chunks import build_stream, stream_of
from harness.wire.openai_chat.embeddings import EMBEDDINGS
from harness.wire.openai_chat.failures import fail, refuse, stream_error
from harness.wire.openai_chat.judging import violations
from harness.wire.openai_chat.limits import LIMITS
from harness.wire.openai_chat.requests import model_of, recognises, view
from harness.wire.openai_chat.responses import read

WIRE = WireFormat(
    api="openai-chat",
    base_path="/v1",
    key_variables=("OPENAI_API_KEY",),
    provider_url="https://api.openai.com/v1",
    domain="openai.com",
    base_url_ending="/v1",
    services=Services(
        {"api.openai.com": OWN, "api.mistral.ai": MISTRAL},
        models=r"(ft:)?(gpt-(?!oss)|chatgpt-|codex-|text-embedding-|o\d).*",
    ),
    limits=LIMITS,
    recognises=recognises,
    view=view,
    violations=violations,
    read=read,
    build=build,
    build_stream=build_stream,
    stream_of=stream_of,
    refuse=refuse,
    fail=fail,
    stream_error=stream_error,
    model_of=model_of,
    embeddings=EMBEDDINGS,
)
