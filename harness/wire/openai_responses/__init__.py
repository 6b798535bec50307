"""OpenAI Responses (`POST /v1/responses`) as pure functions: the witness's hand-written reading of the format.

Rule ids in sources (RS-1 …, and OC-11 … which both OpenAI APIs share) are those of wire-facts. Where a source is a
public issue, it quotes the refusal of the provider's own server.
"""

from __future__ import annotations

from harness.wire.format import WireFormat
from harness.wire.law import OWN, Services
from harness.wire.openai_responses.bodies import build
from harness.wire.openai_responses.events import build_stream, stream_of
from harness.wire.openai_responses.failures import fail, refuse, stream_error
from harness.wire.openai_responses.judging import violations
from harness.wire.openai_responses.limits import LIMITS
from harness.wire.openai_responses.refusals import API
from harness.wire.openai_responses.requests import model_of, recognises, view
from harness.wire.openai_responses.responses import read

WIRE = WireFormat(
    api=API,
    base_path="/v1",
    key_variables=("OPENAI_API_KEY",),
    provider_url="https://api.openai.com/v1",
    domain="openai.com",
    base_url_ending="/v1",
    services=Services({"api.openai.com": OWN, "azure.com": OWN}),  # Azure serves the same models by the same rules
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
)

__all__ = ["WIRE"]
