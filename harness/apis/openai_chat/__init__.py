"""OpenAI Chat Completions, and the many servers that speak it. `embeddings` is the same for `/embeddings`."""

from __future__ import annotations

import re

from harness.apis.api import Api
from harness.apis.conditions import SchemaPlaces
from harness.apis.law import OWN, Services
from harness.apis.openai_chat.building import SHAPES, build, build_stream, stream_of
from harness.apis.openai_chat.client_forms import CLIENT_FORMS
from harness.apis.openai_chat.embeddings import EMBEDDINGS
from harness.apis.openai_chat.failures import fail, refuse, stream_error
from harness.apis.openai_chat.frontage import FRONTAGE
from harness.apis.openai_chat.lift import OpenAIChatLift
from harness.apis.openai_chat.limits import FACTS, violations
from harness.apis.openai_chat.profiles import PROFILES
from harness.apis.openai_chat.promises import departures
from harness.apis.openai_chat.questions import QUESTIONS
from harness.apis.openai_chat.requests import model_of, recognises, view
from harness.apis.openai_chat.responses import read
from harness.apis.smallest import Smallest
from harness.apis.targets import Shipped
from harness.apis.terms import Terms
from harness.apis.traits import Traits
from harness.scenarios.schema import Provocation

API = Api(
    name="openai-chat",
    base_path="/v1",
    paths=re.compile(
        r"/v1/(chat/completions|embeddings)|(/v1)?/openai/(v1|deployments/[^/]+)/(chat/completions|embeddings)"
    ),
    key_variables=("OPENAI_API_KEY",),
    provider_url="https://api.openai.com/v1",
    domain="openai.com",
    base_url_ending="/v1",
    services=Services(
        {"api.openai.com": OWN},
        stand_ins=r"gpt-(?!oss).*|o\d.*",
        models=r"(ft:)?(gpt-(?!oss)|chatgpt-|codex-|text-embedding-|o\d).*",
    ),
    limits=(),
    facts=FACTS,
    schema_places=SchemaPlaces(
        ("tools[].function.parameters",),
        ("response_format.json_schema.schema",),
        {"type": "function", "function": {"name": "f"}},
    ),
    smallest=Smallest(
        "/chat/completions",
        {"messages": [{"role": "user", "content": "Hello."}], "max_completion_tokens": 16},
        "authorization",
        "Bearer ",
        model="gpt-4.1",
    ),
    profiles=PROFILES,
    targets=(Shipped("openai-chat", "openai-chat", "openai-chat", "gpt-6-sol"),),
    system_places=frozenset({"message:system", "message:developer"}),  # openai-chat-system-anywhere
    recognises=recognises,
    view=view,
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
    embeddings=EMBEDDINGS,
    base_url_variable="OPENAI_BASE_URL",
    least_body=b'{"messages": []}',
    provocations=frozenset(Provocation) - {Provocation.UNKNOWN_EVENTS},
    terms=Terms(
        system="a first message with the role `system` or `developer`",
        call="an entry of `tool_calls`",
        call_id="the `id` of the entry of `tool_calls`",
        arguments="`function.arguments`, as the text of a JSON object",
        result="a message with the role `tool`",
        result_id="`tool_call_id`",
        results="messages with the role `tool` right after the assistant's message",
        tools="`tools`",
        parameters="`function.parameters`",
        choice="`tool_choice`",
        json="`response_format`",
        stop="`finish_reason`",
        usage="`usage`",
        stream="`stream: true` with `stream_options: {include_usage: true}`",
        end="a chunk with `finish_reason`",
    ),
    traits=Traits(calls_apart=True, counts_when_asked=True, files_are_pdf=True),
    one_call={"parallel_tool_calls": False},
    strict_tool={"strict": True},
    lift=OpenAIChatLift,
    frontage=FRONTAGE,
    questions=QUESTIONS,
    departures=departures,
    column=2,
)
