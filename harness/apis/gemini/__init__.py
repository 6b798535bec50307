"""Gemini generateContent: the Developer API and, where the wire is the same, Vertex.

Keys come in camelCase, in snake_case and mixed (gemini-casing). They are normalised everywhere but in payloads of the
user; pointers keep the spelling that was sent.
"""

from __future__ import annotations

import re

from harness.apis.api import Api
from harness.apis.conditions import SchemaPlaces
from harness.apis.gemini.asking import QUESTIONS, GeminiLift
from harness.apis.gemini.building import SHAPES, broken_for, build, build_stream, stream_of
from harness.apis.gemini.embeddings import EMBEDDINGS
from harness.apis.gemini.failures import FRONTAGE, error_for, fail, refuse, stream_error
from harness.apis.gemini.fields import FACTS
from harness.apis.gemini.limits import violations
from harness.apis.gemini.pairing import Memory
from harness.apis.gemini.profiles import PROFILES
from harness.apis.gemini.promises import departures
from harness.apis.gemini.requests import model_of, recognises, view
from harness.apis.gemini.responses import read
from harness.apis.law import OWN, Services
from harness.apis.smallest import Smallest
from harness.apis.targets import Shipped
from harness.apis.terms import Terms
from harness.apis.traits import Traits
from harness.contract.model import StopReason
from harness.scenarios.schema import Provocation

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
    limits=(),
    facts=FACTS,
    schema_places=SchemaPlaces(
        ("tools[].functionDeclarations[].parameters", "tools[].functionDeclarations[].parametersJsonSchema"),
        ("generationConfig.responseSchema", "generationConfig.responseJsonSchema"),
        closed=False,  # gemini-response-schema-additional-properties-refused
    ),
    smallest=Smallest(
        "/v1beta/models/{}:generateContent",
        {
            "contents": [{"role": "user", "parts": [{"text": "Hello."}]}],
            "generationConfig": {"maxOutputTokens": 16},
        },
        "x-goog-api-key",
    ),
    profiles=PROFILES,
    targets=(
        # The newest, and two that show what nobody has seen of it yet: ids for tool calls on the wire, and their lack.
        Shipped("gemini-4", "gemini", "gemini", "gemini-4-argon"),
        Shipped("gemini-3", "gemini", "gemini", "gemini-3.8-flash"),
        Shipped("gemini-2.5", "gemini", "gemini", "gemini-2.5-flash-lite"),
    ),
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
    provocations=frozenset({Provocation.RAW_LINE_SEPARATORS}),
    own_stops={StopReason.MALFORMED_CALL: ("only Gemini says that a call is malformed", "writes a malformed call")},
    terms=Terms(
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
        json="`generationConfig.responseMimeType`, with a schema also `responseSchema` or `responseJsonSchema`",
        state="`thoughtSignature`",
        stop="`finishReason`",
        usage="`usageMetadata`",
        stream="`:streamGenerateContent`",
        end="a chunk with `finishReason`",
    ),
    traits=Traits(
        ids_optional=True,
        unread_framings=frozenset({"byte-order-mark", "comments"}),  # measured: google-genai 3.4 says broken JSON
    ),
    memory=Memory,
    lift=GeminiLift,
    frontage=FRONTAGE,
    questions=QUESTIONS,
    departures=departures,
    column=4,
)

__all__ = ["API"]
