"""The `claude` command line in print mode. Each chat runs the command once (`harness.model.http`).

Facts apply to version 2.1.197, observed with a loopback server in place of the provider. In these modules, "result"
means the JSON object that the command prints to stdout.
"""

from __future__ import annotations

from harness.apis.api import Api
from harness.apis.claude_cli.requests import FACTS, model_of, recognises, view, violations
from harness.apis.claude_cli.responses import build, build_stream, fail, read, refuse, stream_error, stream_of
from harness.apis.profiles import OWN, ApiTerms, Profile, Services, ShippedTarget, Traits

PROFILES = (Profile("claude-cli", r".*"),)

API = Api(
    name="claude-cli",
    base_path="",
    key_variables=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    provider_url="process://local",
    domain="anthropic.com",
    base_url_ending="",
    services=Services({"local": OWN}),
    facts=FACTS,
    profiles=PROFILES,
    targets=(ShippedTarget("claude-cli", "claude-cli", "claude-cli", "claude-opus-5-5"),),
    system_places=frozenset({"--system-prompt"}),
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
    terms=ApiTerms(system="the option `--system-prompt`"),
    traits=Traits(flags_errors=True),
    base_url_variable="ANTHROPIC_BASE_URL",
    column=5,
)

__all__ = ["API"]
