"""Anthropic's Messages API."""

from __future__ import annotations

import re

from harness.apis.anthropic.checks import header_violation, violations
from harness.apis.anthropic.conversion import CLIENT_FORMS, REQUEST_BUILDER, AnthropicReader
from harness.apis.anthropic.pairing import FACTS, AnthropicState, dotted_path
from harness.apis.anthropic.requests import model_of, recognises, view
from harness.apis.anthropic.responses import check_response, read
from harness.apis.anthropic.server import (
    SERVER_ENDPOINTS,
    SHAPES,
    build,
    build_stream,
    fail,
    refuse,
    stream_error,
    stream_of,
)
from harness.apis.api import Api
from harness.apis.conversion import MinimalRequest
from harness.apis.matching import SchemaPlaces
from harness.apis.profiles import OWN, ApiTerms, Profile, Services, ShippedTarget, Traits, server_targets
from harness.apis.view import Provocation
from harness.model.messages import StopReason

PROFILES = (
    Profile(
        "claude-4-5",
        r"claude-((opus|sonnet|haiku)-4(-[0-5])?(-\d{8})?|3-7-.*|sonnet-4-5.*|haiku-4-5.*)",
        thinking="budget",
        json_mode="emulated",
    ),
    Profile("claude-4-6", r"claude-(opus|sonnet)-4-6\b.*", thinking="adaptive", json_mode="emulated"),
    Profile("claude-4-7", r"claude-opus-4-7\b.*", thinking="adaptive", json_mode="emulated"),
    Profile("claude-4-8", r"claude-opus-4-8\b.*", thinking="adaptive", json_mode="emulated"),
    Profile("claude-sonnet-5", r"claude-sonnet-5\b(?!-\d\b).*", thinking="adaptive", json_mode="emulated"),
    Profile("claude-fable-5", r"claude-(fable|mythos)-5\b(?!-\d\b).*", thinking="adaptive", json_mode="emulated"),
    Profile("claude-opus-5", r"claude-opus-5\b(?!-\d\b).*", thinking="adaptive", json_mode="emulated"),
    Profile("claude-fable-5-1", r"claude-(fable|mythos)-5-1\b.*", thinking="adaptive", json_mode="emulated"),
    Profile("claude-fable-5-2", r"claude-(fable|mythos)-5-2\b.*", thinking="adaptive", json_mode="emulated"),
    Profile("claude-opus-5-5", r"claude-opus-5-5\b.*", thinking="adaptive", json_mode="emulated"),
    Profile("claude-sonnet-5-5", r"claude-sonnet-5-5\b.*", thinking="adaptive", json_mode="emulated"),
    Profile("claude-haiku-5-5", r"claude-haiku-5-5\b.*", thinking="adaptive", json_mode="emulated"),
    Profile("claude", r".*", prefill=None, thinking="budget", json_mode="emulated"),
)

API = Api(
    name="anthropic",
    base_path="",
    paths=re.compile(r"/v1/messages"),
    key_variables=("ANTHROPIC_API_KEY",),
    provider_url="https://api.anthropic.com",
    domain="anthropic.com",
    base_url_ending="",
    services=Services(
        {"api.anthropic.com": OWN},
        stand_ins=r"claude-.*",
        clouds=frozenset({"vertex", "azure", "foundry"}),  # these clouds host the models and enforce the same rules
        cloud_names=r"(?:.*\banthropic\.)?(claude-[\w.@-]*?)(?:-v\d+(?::\d+)?)?",
    ),
    facts=FACTS,
    spelled=dotted_path,
    schema_places=SchemaPlaces(
        ("tools[].input_schema",),
        ("output_config.format.schema", "output_format.schema"),
        {"name": "f", "input_schema": {"type": "object", "properties": {}}},
    ),
    minimal_request=MinimalRequest(
        "/v1/messages",
        {"messages": [{"role": "user", "content": "Hello."}], "max_tokens": 16},
        "x-api-key",
        headers={"anthropic-version": "2023-06-01"},
    ),
    profiles=PROFILES,
    targets=(
        # One model that rejects a forced tool choice and one that accepts it (anthropic-no-forced-choice).
        ShippedTarget("anthropic", "anthropic", "anthropic", "claude-opus-5-5"),
        ShippedTarget("anthropic-opus-5", "anthropic", "anthropic", "claude-opus-5"),
    ),
    servers=server_targets("anthropic"),
    system_places=frozenset({"system"}),  # anthropic-system-field
    recognises=recognises,
    view=view,
    header_violation=header_violation,
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
    provocations=frozenset(
        {
            Provocation.UNKNOWN_EVENTS,
            Provocation.RAW_LINE_SEPARATORS,
            Provocation.THINKING_BLOCKS,
            Provocation.RARE_STOP_WORDS,
            Provocation.TEXT_BLOCKS,
        }
    ),
    own_stops={StopReason.PAUSE: ("only Anthropic pauses a turn that can go on", "pauses")},
    terms=ApiTerms(
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
        json="`output_config.format` (with a schema) or an instruction in `system` (without one)",
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
        unread_framings=frozenset({"byte-order-mark"}),  # anthropic 2.11 loses the first event after a byte order mark
    ),
    issued_state=AnthropicState,
    one_call={"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    strict_tool={"strict": True},
    canonical_reader=AnthropicReader,
    server_endpoints=SERVER_ENDPOINTS,
    request_builder=REQUEST_BUILDER,
    check_response=check_response,
    column=1,
)

__all__ = ["API"]
