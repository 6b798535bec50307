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

from harness.apis.api import Api
from harness.apis.law import OWN, Services
from harness.apis.openai_chat.answers import build
from harness.apis.openai_chat.chat import MISTRAL
from harness.apis.openai_chat.chunks import build_stream, stream_of
from harness.apis.openai_chat.embeddings import EMBEDDINGS
from harness.apis.openai_chat.failures import fail, refuse, stream_error
from harness.apis.openai_chat.judging import violations
from harness.apis.openai_chat.lift import OpenAIChatLift
from harness.apis.openai_chat.limits import LIMITS
from harness.apis.openai_chat.profiles import PROFILES
from harness.apis.openai_chat.requests import model_of, recognises, view
from harness.apis.openai_chat.responses import read
from harness.apis.targets import Shipped
from harness.apis.traits import Traits
from harness.scenarios.schema import Provocation

API = Api(
    name="openai-chat",
    base_path="/v1",
    key_variables=("OPENAI_API_KEY",),
    provider_url="https://api.openai.com/v1",
    services=Services(
        {"api.openai.com": OWN, "api.mistral.ai": MISTRAL},
        models=r"(ft:)?(gpt-(?!oss)|chatgpt-|codex-|text-embedding-|o\d).*",
    ),
    limits=LIMITS,
    profiles=PROFILES,
    targets=(Shipped("openai-chat", "openai-chat", "openai-chat", "gpt-5.6"),),
    system_places=frozenset({"message:system", "message:developer"}),  # OC-9
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
    base_url_variable="OPENAI_BASE_URL",
    provocations=frozenset({Provocation.INTERLEAVED_CALLS, Provocation.RAW_LINE_SEPARATORS}),
    traits=Traits(calls_apart=True, counts_when_asked=True),
    lift=OpenAIChatLift,
    column=2,
)
