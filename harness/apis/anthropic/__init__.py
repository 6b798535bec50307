"""The Messages API of Anthropic."""

from __future__ import annotations

import re

from harness.apis.anthropic.asking import CLIENT_FORMS, QUESTIONS, AnthropicLift
from harness.apis.anthropic.building import SHAPES, build, build_stream, stream_of
from harness.apis.anthropic.conversation import FACTS, Memory, dotted
from harness.apis.anthropic.failures import FRONTAGE, fail, refuse, stream_error
from harness.apis.anthropic.limits import misheaded, violations
from harness.apis.anthropic.profiles import PROFILES
from harness.apis.anthropic.promises import departures
from harness.apis.anthropic.requests import model_of, recognises, view
from harness.apis.anthropic.responses import read
from harness.apis.api import Api
from harness.apis.conditions import SchemaPlaces
from harness.apis.law import OWN, Services
from harness.apis.smallest import Smallest
from harness.apis.targets import Shipped
from harness.apis.terms import Terms
from harness.apis.traits import Traits
from harness.contract.model import StopReason
from harness.scenarios.schema import Provocation

API = Api(
    name="anthropic",
    base_path="",
    paths=re.compile(r"/v1/messages"),
    key_variables=("ANTHROPIC_API_KEY",),
    provider_url="https://api.anthropic.com",
    domain="anthropic.com",
    base_url_ending="",
    services=Services(
        {
            "api.anthropic.com": OWN,
        },
        stand_ins=r"claude-.*",
        clouds=frozenset({"vertex", "azure", "foundry"}),  # they host its models, and hold them to the same rules
    ),
    limits=(),
    facts=FACTS,
    spelled=dotted,
    schema_places=SchemaPlaces(
        ("tools[].input_schema",),
        ("output_config.format.schema", "output_format.schema"),
        {"name": "f", "input_schema": {"type": "object", "properties": {}}},
    ),
    smallest=Smallest(
        "/v1/messages",
        {"messages": [{"role": "user", "content": "Hello."}], "max_tokens": 16},
        "x-api-key",
        headers={"anthropic-version": "2023-06-01"},
    ),
    profiles=PROFILES,
    targets=(
        # A model that refuses a forced tool choice, and one that takes it (anthropic-no-forced-choice).
        Shipped("anthropic", "anthropic", "anthropic", "claude-opus-5-5"),
        Shipped("anthropic-opus-5", "anthropic", "anthropic", "claude-opus-5"),
    ),
    system_places=frozenset({"system"}),  # anthropic-system-field
    recognises=recognises,
    view=view,
    misheaded=misheaded,
    violations=violations,
    read=read,
    build=build,
    build_stream=build_stream,
    stream_of=stream_of,
    client_forms=CLIENT_FORMS,
    stream_shapes=SHAPES,
    refuse=refuse,
    fail=fail,
    stream_error=stream_error,
    model_of=model_of,
    least_body=b'{"messages": [], "max_tokens": 1}',
    provocations=frozenset({Provocation.UNKNOWN_EVENTS, Provocation.RAW_LINE_SEPARATORS}),
    own_stops={StopReason.PAUSE: ("only Anthropic pauses a turn that can go on", "pauses")},
    terms=Terms(
        system="the field `system`",
        call="a `tool_use` block",
        call_id="the `id` of the `tool_use` block",
        arguments="`input`",
        result="a `tool_result` block",
        result_id="`tool_use_id`",
        results="the user message right after the calls",
        failed="`is_error: true`",
        tools="`tools`",
        parameters="`input_schema`",
        choice="`tool_choice`",
        json="`output_config.format` (a schema) or an instruction in `system` (JSON without one)",
        state="`thinking` and `redacted_thinking` blocks with their signatures",
        stop="`stop_reason`",
        usage="`usage`",
        stream="`stream: true`",
        end="`message_stop`",
    ),
    traits=Traits(
        flags_errors=True,
        one_turn_for_results=True,
        stop_reason_may_end=True,
        schema_by_tool=True,
        unread_framings=frozenset({"byte-order-mark"}),  # measured: anthropic 2.11 loses the first event behind one
    ),
    memory=Memory,
    one_call={"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    strict_tool={"strict": True},
    lift=AnthropicLift,
    frontage=FRONTAGE,
    questions=QUESTIONS,
    departures=departures,
    column=1,
)

__all__ = ["API"]
