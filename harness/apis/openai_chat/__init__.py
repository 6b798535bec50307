"""OpenAI Chat Completions and compatible servers, including `/embeddings`."""

from __future__ import annotations

import re

from harness.apis.api import Api
from harness.apis.conversion import MinimalRequest
from harness.apis.matching import SchemaPlaces
from harness.apis.openai_chat.checks import FACTS, violations
from harness.apis.openai_chat.conversion import CLIENT_FORMS, REQUEST_BUILDER, OpenAIChatReader
from harness.apis.openai_chat.embeddings import EMBEDDINGS
from harness.apis.openai_chat.requests import model_of, recognises, view
from harness.apis.openai_chat.responses import check_response, read
from harness.apis.openai_chat.server import (
    SERVER_ENDPOINTS,
    SHAPES,
    build,
    build_stream,
    error_as,
    fail,
    refuse,
    stream_error,
    stream_of,
)
from harness.apis.profiles import OWN, ApiTerms, Profile, Services, ShippedTarget, Traits, server_targets
from harness.apis.view import Provocation
from harness.model.protocols import Capability

_LACKS = frozenset({Capability.THINKING, Capability.AUDIO})
"""Capabilities that models without audio lack in this API (openai-chat-audio-models). Thinking is included, because no
model of this API has it.
"""

PROFILES = (
    Profile("gpt-6-astra-chat", r"gpt-6-astra.*", reasons_by_default=True, lacks=_LACKS),
    Profile("gpt-6.1-chat", r"gpt-6\.[12].*", sampling="unclear", reasons_by_default=True, lacks=_LACKS),
    Profile("gpt-5.5-chat", r"gpt-(5\.[5-9]|6).*", sampling="unclear", reasons_by_default=True, lacks=_LACKS),
    Profile("gpt-5-chat", r"gpt-5\.4.*", lacks=_LACKS),
    Profile("o1-preview-chat", r"o1-(mini|preview).*", sampling="unclear", reasons_by_default=True, lacks=_LACKS),
    Profile("gpt-5.1-chat", r"gpt-5\.[12](-2\d.*)?", lacks=_LACKS),
    Profile("gpt-5-mini-chat", r"gpt-5-(mini|nano).*", reasons_by_default=True, lacks=_LACKS),
    Profile(
        "o-series-chat",
        r"(o[134]|gpt-5(\.[1-3])?)(-(?!chat).*)?",
        sampling="unclear",
        reasons_by_default=True,
        lacks=_LACKS,
    ),
    Profile(
        "mistral-chat", r"(mistral|ministral|magistral|codestral|devstral|pixtral)-.*", lacks=_LACKS, dialect="mistral"
    ),
    Profile("openai-chat", r".*", lacks=frozenset({Capability.THINKING})),
)

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
        clouds=frozenset({"azure", "foundry"}),  # these clouds host the same models and enforce the same rules
    ),
    facts=FACTS,
    schema_places=SchemaPlaces(
        ("tools[].function.parameters",),
        ("response_format.json_schema.schema",),
        {"type": "function", "function": {"name": "f"}},
    ),
    minimal_request=MinimalRequest(
        "/chat/completions",
        {"messages": [{"role": "user", "content": "Hello."}], "max_completion_tokens": 16},
        "authorization",
        "Bearer ",
        model="gpt-4.1",
    ),
    profiles=PROFILES,
    targets=(ShippedTarget("openai-chat", "openai-chat", "openai-chat", "gpt-6-sol"),),
    servers=server_targets("openai-chat"),
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
    error_as=error_as,
    model_of=model_of,
    embeddings=EMBEDDINGS,
    base_url_variable="OPENAI_BASE_URL",
    least_body=b'{"messages": []}',
    provocations=frozenset(
        {
            Provocation.INTERLEAVED_CALLS,
            Provocation.RAW_LINE_SEPARATORS,
            Provocation.EMPTY_ARGUMENTS,
            Provocation.VECTORS_OUT_OF_ORDER,
        }
    ),
    terms=ApiTerms(
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
    canonical_reader=OpenAIChatReader,
    server_endpoints=SERVER_ENDPOINTS,
    request_builder=REQUEST_BUILDER,
    check_response=check_response,
    column=2,
)
