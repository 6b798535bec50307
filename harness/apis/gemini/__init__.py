"""Gemini generateContent: the Developer API, and Vertex where its wire format is the same.

Keys may be in camelCase, snake_case or a mix of both (gemini-casing). They are normalised, except in user data.
Pointers keep the original spelling.
"""

from __future__ import annotations

import re

from harness.apis.api import Api
from harness.apis.conversion import MinimalRequest
from harness.apis.gemini.checks import GeminiState, violations
from harness.apis.gemini.conversion import REQUEST_BUILDER, GeminiReader
from harness.apis.gemini.embeddings import EMBEDDINGS
from harness.apis.gemini.proto import FACTS
from harness.apis.gemini.requests import model_of, recognises, view
from harness.apis.gemini.responses import check_response, read
from harness.apis.gemini.server import (
    SERVER_ENDPOINTS,
    SHAPES,
    broken_for,
    build,
    build_stream,
    error_for,
    fail,
    refuse,
    stream_error,
    stream_of,
)
from harness.apis.matching import SchemaPlaces
from harness.apis.profiles import OWN, ApiTerms, Profile, Services, ShippedTarget, Traits, server_targets
from harness.apis.view import Provocation
from harness.model.messages import StopReason
from harness.model.protocols import Capability

PROFILES = (
    Profile(  # no recording shows whether calls have ids
        "gemini-4", r"gemini-4.*", call_ids=None, strict_pairing=True, thinking="level"
    ),
    Profile("gemini-3.7", r"gemini-3\.[78]\b.*", strict_pairing=True, thinking="level"),
    Profile("gemini-3.6", r"gemini-3\.(6\b|5-flash-lite).*", strict_pairing=True, thinking="level"),
    Profile("gemini-3-ids", r"gemini-3\.[1-9].*", strict_pairing=True, thinking="level"),
    Profile("gemini-3", r"gemini-3.*", call_ids=None, strict_pairing=True, thinking="level"),
    Profile(
        "gemini-2",
        r"gemini-2.*",
        call_ids=False,
        thought_signatures="optional",
        thinking="budget",
        lacks=frozenset({Capability.IMAGE_RESULTS}),
    ),
    Profile("gemini", r".*", call_ids=None, thought_signatures="optional", thinking="budget"),
)

API = Api(
    name="gemini",
    base_path="",
    paths=re.compile(r"/v1[a-z0-9]*/((projects|publishers)/.+/)?(models|tunedModels|endpoints)/[^/]+:[a-zA-Z]+"),
    key_variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    provider_url="https://generativelanguage.googleapis.com",
    domain="googleapis.com",
    base_url_ending="/v1beta",
    services=Services(
        {"generativelanguage.googleapis.com": OWN, "gemini.googleapis.com": OWN},
        stand_ins=r"gemini-.*",
        clouds=frozenset({"vertex"}),
    ),
    facts=FACTS,
    schema_places=SchemaPlaces(
        ("tools[].functionDeclarations[].parameters", "tools[].functionDeclarations[].parametersJsonSchema"),
        ("generationConfig.responseSchema", "generationConfig.responseJsonSchema"),
        closed=False,  # gemini-response-schema-additional-properties-refused
    ),
    minimal_request=MinimalRequest(
        "/v1beta/models/{}:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "Hello."}]}], "generationConfig": {"maxOutputTokens": 16}},
        "x-goog-api-key",
    ),
    profiles=PROFILES,
    targets=(
        # The newest model, one that has ids for tool calls, and one that does not.
        ShippedTarget("gemini-4", "gemini", "gemini", "gemini-4-argon"),
        ShippedTarget("gemini-3", "gemini", "gemini", "gemini-3.8-flash"),
        ShippedTarget("gemini-2.5", "gemini", "gemini", "gemini-2.5-flash-lite"),
    ),
    servers=server_targets("gemini"),
    system_places=frozenset({"systemInstruction"}),  # gemini-system-instruction
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
    error_for=error_for,
    broken_for=broken_for,
    model_of=model_of,
    embeddings=EMBEDDINGS,
    provocations=frozenset(
        {
            Provocation.RAW_LINE_SEPARATORS,
            Provocation.SIGNED_CALLS,
            Provocation.REPEATED_IDS,
            Provocation.RARE_STOP_WORDS,
            Provocation.TEXT_BLOCKS,
        }
    ),
    own_stops={StopReason.MALFORMED_CALL: ("only Gemini reports a malformed call", "writes a malformed call")},
    terms=ApiTerms(
        system="the field `systemInstruction`",
        call="a `functionCall` part",
        call_id="the `id` of the `functionCall` part",
        arguments="`args`",
        result="a `functionResponse` part",
        result_id="the `id` of the `functionResponse` part",
        results="one content with the role `user` right after the calls",
        tools="`tools[].functionDeclarations`",
        parameters="`parameters` or `parametersJsonSchema`",
        choice="`toolConfig.functionCallingConfig`",
        json="`generationConfig.responseMimeType` (with a schema also `responseSchema` or `responseJsonSchema`)",
        state="`thoughtSignature`",
        stop="`finishReason`",
        usage="`usageMetadata`",
        stream="`:streamGenerateContent`",
        end="a chunk with `finishReason`",
    ),
    traits=Traits(
        ids_optional=True,
        unread_framings=frozenset({"byte-order-mark", "comments"}),  # google-genai 3.4 fails with broken JSON
    ),
    issued_state=GeminiState,
    canonical_reader=GeminiReader,
    server_endpoints=SERVER_ENDPOINTS,
    request_builder=REQUEST_BUILDER,
    check_response=check_response,
    column=4,
)

__all__ = ["API"]
