"""Gemini generateContent: the Developer API and, where the wire is the same, Vertex.

Keys come in camelCase, in snake_case and mixed (GM-0). They are normalised everywhere but in payloads of the user;
pointers keep the spelling that was sent.
"""

from __future__ import annotations

from harness.wire.format import WireFormat
from harness.wire.gemini.answers import build, build_stream, stream_of
from harness.wire.gemini.embeddings import EMBEDDINGS
from harness.wire.gemini.failures import error_for, fail, refuse, stream_error
from harness.wire.gemini.judging import violations
from harness.wire.gemini.limits import LIMITS
from harness.wire.gemini.requests import model_of, recognises, view
from harness.wire.gemini.responses import read
from harness.wire.law import OWN, Services

WIRE = WireFormat(
    api="gemini",
    base_path="",
    key_variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    provider_url="https://generativelanguage.googleapis.com",
    domain="googleapis.com",
    base_url_ending="/v1beta",
    services=Services({"googleapis.com": OWN}),
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
    error_for=error_for,
    model_of=model_of,
    embeddings=EMBEDDINGS,
)

__all__ = ["WIRE"]
