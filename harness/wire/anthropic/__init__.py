"""The Messages API of Anthropic.

`conversation` reads messages of any shape, `requests` and `responses` give the neutral views, `limits` is the table of
what the provider refuses (`blocks`, `pairing`, `systems`, `tools`, `schemas`, `strictness` and `settings` check it by
subject, `judging` all of it), and `answers` and `failures` speak as the provider (`events` where it streams, `streams`
folds what was streamed).
"""

from __future__ import annotations

from harness.wire.anthropic.answers import build, build_stream, stream_of
from harness.wire.anthropic.failures import fail, refuse, stream_error
from harness.wire.anthropic.judging import misheaded, violations
from harness.wire.anthropic.limits import LIMITS
from harness.wire.anthropic.requests import model_of, recognises, view
from harness.wire.anthropic.responses import read
from harness.wire.anthropic.terms import BEDROCK
from harness.wire.format import WireFormat
from harness.wire.law import OWN, Services

WIRE = WireFormat(
    api="anthropic",
    base_path="",
    key_variables=("ANTHROPIC_API_KEY",),
    provider_url="https://api.anthropic.com",
    domain="anthropic.com",
    base_url_ending="",
    services=Services(
        {
            "api.anthropic.com": OWN,
            # The clouds that host its models hold them to the same rules.
            "amazonaws.com": BEDROCK,
            "api.aws": BEDROCK,
            "googleapis.com": OWN,
            "azure.com": OWN,
        }
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
    misheaded=misheaded,
)

__all__ = ["WIRE"]
