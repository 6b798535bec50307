"""OpenAI Responses (`POST /v1/responses`)."""

from __future__ import annotations

import re

from harness.apis.api import Api
from harness.apis.conditions import SchemaPlaces
from harness.apis.law import OWN, Services
from harness.apis.openai_responses.building import SHAPES, build, build_stream, stream_error, stream_of
from harness.apis.openai_responses.failures import fail, refuse
from harness.apis.openai_responses.frontage import FRONTAGE
from harness.apis.openai_responses.lift import OpenAIResponsesLift
from harness.apis.openai_responses.limits import FACTS, violations
from harness.apis.openai_responses.profiles import PROFILES
from harness.apis.openai_responses.promises import departures
from harness.apis.openai_responses.questions import QUESTIONS
from harness.apis.openai_responses.requests import model_of, recognises, view
from harness.apis.openai_responses.requests.items import NAME
from harness.apis.openai_responses.responses import read
from harness.apis.smallest import Smallest
from harness.apis.targets import Shipped
from harness.apis.terms import Terms
from harness.apis.traits import Traits
from harness.scenarios.schema import Provocation

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
        clouds=frozenset({"azure", "foundry"}),  # they serve the same models by the same rules
    ),
    limits=(),
    facts=FACTS,
    schema_places=SchemaPlaces(
        ("tools[].parameters",), ("text.format.schema",), {"type": "function", "name": "f", "strict": False}
    ),
    smallest=Smallest(
        "/responses",
        {"input": [{"role": "user", "content": "Hello."}], "max_output_tokens": 16},
        "authorization",
        "Bearer ",
        model="gpt-4.1",
    ),
    profiles=PROFILES,
    targets=(Shipped("openai-responses", "openai-responses", "openai-responses", "gpt-6-astra"),),
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
    provocations=frozenset({Provocation.INTERLEAVED_CALLS, Provocation.RAW_LINE_SEPARATORS}),
    terms=Terms(
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
        state="`reasoning` items with their `encrypted_content`",
        stop="`status` and `incomplete_details`",
        usage="`usage`",
        stream="`stream: true`",
        end="`response.completed`, `response.incomplete` or `response.failed`",
    ),
    traits=Traits(strict_unless_told=True),
    one_call={"parallel_tool_calls": False},
    strict_tool={"strict": True},
    lift=OpenAIResponsesLift,
    frontage=FRONTAGE,
    questions=QUESTIONS,
    departures=departures,
    column=3,
)

__all__ = ["API"]
