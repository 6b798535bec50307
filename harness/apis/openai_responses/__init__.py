"""The OpenAI Responses API (`POST /v1/responses`)."""

from __future__ import annotations

import re

from harness.apis.api import Api
from harness.apis.conversion import MinimalRequest
from harness.apis.matching import SchemaPlaces
from harness.apis.openai_responses.checks import FACTS, ResponsesState, violations
from harness.apis.openai_responses.conversion import REQUEST_BUILDER, OpenAIResponsesReader
from harness.apis.openai_responses.requests import NAME, model_of, recognises, view
from harness.apis.openai_responses.responses import check_response, read
from harness.apis.openai_responses.server import (
    SERVER_ENDPOINTS,
    SHAPES,
    build,
    build_stream,
    fail,
    refuse,
    stream_error,
    stream_of,
)
from harness.apis.profiles import OWN, ApiTerms, Profile, Services, ShippedTarget, Traits, server_targets
from harness.apis.view import Provocation
from harness.model.protocols import Capability

PROFILES = (
    Profile("gpt-6.2-responses", r"gpt-6\.2.*", sampling="unclear", thinking="effort", strict_requests=True),
    Profile("gpt-5.6-responses", r"(gpt-5\.[26]|gpt-6-astra)\b.*", thinking="effort", strict_requests=True),
    Profile("gpt-5.1-responses", r"gpt-5\.1(-2\d.*)?", thinking="effort", strict_requests=True),
    Profile("gpt-5-responses", r"(gpt-[56]|o[134]).*", sampling="unclear", thinking="effort", strict_requests=True),
    Profile("gpt-4-responses", r"(gpt-4|chatgpt-4).*", strict_requests=True, lacks=frozenset({Capability.THINKING})),
    Profile("deepseek-responses", r"deepseek.*", lacks=frozenset({Capability.THINKING})),
    Profile("openai-responses", r".*", lacks=frozenset({Capability.THINKING})),
)

API = Api(
    name=NAME,
    base_path="/v1",
    paths=re.compile(r"/v1/responses|(/v1)?/openai/(v1/)?responses"),
    key_variables=("OPENAI_API_KEY",),
    provider_url="https://api.openai.com/v1",
    domain="openai.com",
    base_url_ending="/v1",
    services=Services(
        {"api.openai.com": OWN},
        stand_ins=r"gpt-(?!oss).*|o\d.*",
        clouds=frozenset({"azure", "foundry"}),  # these clouds host the same models and enforce the same rules
    ),
    facts=FACTS,
    schema_places=SchemaPlaces(
        ("tools[].parameters",), ("text.format.schema",), {"type": "function", "name": "f", "strict": False}
    ),
    minimal_request=MinimalRequest(
        "/responses",
        {"input": [{"role": "user", "content": "Hello."}], "max_output_tokens": 16},
        "authorization",
        "Bearer ",
        model="gpt-4.1",
    ),
    profiles=PROFILES,
    targets=(ShippedTarget("openai-responses", "openai-responses", "openai-responses", "gpt-6-astra"),),
    servers=server_targets("openai-responses"),
    system_places=frozenset({"instructions", "message:system", "message:developer"}),  # openai-responses-system-places
    recognises=recognises,
    view=view,
    violations=violations,
    read=read,
    build=build,
    build_stream=build_stream,
    stream_of=stream_of,
    stream_shapes=SHAPES,
    refuse=refuse,
    fail=fail,
    stream_error=stream_error,
    model_of=model_of,
    base_url_variable="OPENAI_BASE_URL",
    least_body=b'{"input": []}',
    provocations=frozenset(
        {
            Provocation.INTERLEAVED_CALLS,
            Provocation.RAW_LINE_SEPARATORS,
            Provocation.EMPTY_ARGUMENTS,
            Provocation.THINKING_BLOCKS,
            Provocation.RARE_STOP_WORDS,
            Provocation.TEXT_BLOCKS,
        }
    ),
    terms=ApiTerms(
        system="the field `instructions`",
        call="a `function_call` item",
        call_id="the `call_id` of the `function_call` item",
        arguments="`arguments`, as the text of a JSON object",
        result="a `function_call_output` item",
        result_id="`call_id`",
        results="`function_call_output` items after the calls",
        tools="`tools`",
        parameters="`parameters`",
        choice="`tool_choice`",
        json="`text.format`",
        state="`reasoning` items with their `encrypted_content`, and messages with their `phase`,",
        stop="`status` and `incomplete_details`",
        usage="`usage`",
        stream="`stream: true`",
        end="`response.completed`, `response.incomplete` or `response.failed`",
    ),
    traits=Traits(strict_by_default=True),
    issued_state=ResponsesState,
    one_call={"parallel_tool_calls": False},
    strict_tool={"strict": True},
    canonical_reader=OpenAIResponsesReader,
    server_endpoints=SERVER_ENDPOINTS,
    request_builder=REQUEST_BUILDER,
    check_response=check_response,
    column=3,
)

__all__ = ["API"]
