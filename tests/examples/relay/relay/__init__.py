"""Example of a third-party API: Relay, a fictitious `POST /v1/turns` with the header `relay-version`.

    {"model": "relay-1", "system": "…", "limit": 256, "turns": [
        {"by": "user", "parts": [{"text": "How warm is it in Paris?"}]},
        {"by": "model", "parts": [{"call": {"id": "c-1", "tool": "get_weather", "arguments": "{…}"}}]},
        {"by": "user", "parts": [{"result": {"of": "c-1", "value": {"temp_c": 18}, "failed": false}}]}],
     "tools": [{"name": "get_weather", "about": "…", "takes": {…}}], "calling": "free", "answer": {"json": true}}

    {"model": "relay-1", "parts": [{"text": "18 °C."}], "ended": "done", "used": {"in": 80, "out": 12}}

    {"error": {"status": 429, "message": "…"}}

A stream has one part or piece of a part to an event, a head before them and `ended` with `used` behind them.
"""

from __future__ import annotations

from harness.apis.api import Api
from harness.apis.profiles import OWN, Services, ShippedTarget, Traits
from relay.failures import fail, refuse, stream_error
from relay.limits import LIMITS, header_violation, violations
from relay.profiles import PROFILES
from relay.requests import model_of, recognises, view
from relay.responses import build, build_stream, read
from relay.streams import stream_of

API = Api(
    name="relay",
    base_path="",
    key_variables=("RELAY_KEY",),
    provider_url="https://relay.example",
    domain="relay.example",
    base_url_ending="",
    services=Services({"relay.example": OWN}),
    limits=LIMITS,
    profiles=PROFILES,
    targets=(ShippedTarget("relay", "relay", "relay", "relay-1"),),
    system_places=frozenset({"system"}),
    recognises=recognises,
    view=view,
    violations=violations,
    header_violation=header_violation,
    read=read,
    build=build,
    build_stream=build_stream,
    stream_of=stream_of,
    refuse=refuse,
    fail=fail,
    stream_error=stream_error,
    model_of=model_of,
    base_url_variable="RELAY_URL",
    least_body=b'{"turns": []}',
    traits=Traits(flags_errors=True),
)
