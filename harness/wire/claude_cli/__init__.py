"""The `claude` command line in print mode, one run for each chat (`harness.process`).

`arguments` reads its options, `requests` and `results` give the neutral views, `limits` and `judging` say what it
refuses and what it does beside answering, and `answers` speaks as it does. Facts are those of version 2.1.197, seen
against a loopback server in place of the provider. Where these modules speak of a result, they mean the one JSON object
on stdout.
"""

from __future__ import annotations

from harness.wire.claude_cli.answers import build, build_stream, fail, refuse, stream_error, stream_of
from harness.wire.claude_cli.judging import violations
from harness.wire.claude_cli.limits import LIMITS
from harness.wire.claude_cli.requests import model_of, recognises, view
from harness.wire.claude_cli.results import read
from harness.wire.format import WireFormat
from harness.wire.law import OWN, Services

WIRE = WireFormat(
    api="claude-cli",
    base_path="",
    key_variables=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    provider_url="process://local",
    domain="anthropic.com",
    address_variable="ANTHROPIC_BASE_URL",
    base_url_ending="",
    services=Services({"local": OWN}),
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
