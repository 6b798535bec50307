"""Bodies in which words look like keys are kept to the byte: 1,000 of them, as they are sent and answered."""

from __future__ import annotations

import json
import sys
from random import Random

import pytest

from harness.cassettes.redact import Redactor
from harness.model.http import HttpRequest, HttpResponse
from tests.hardness.canaries import BASE62, KEYS

WORDS = (
    "sk-rooms-2024-autumn-conference",
    "org-babelexecute4python5session",
    "org-mode-agenda-view-2024-edition",
    "sk-learn-style-pipelines-for-2026",
    "sk-ant-api03-YOUR-KEY-HERE",
    "sk-proj-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "export OPENAI_API_KEY=sk-...",
    "AIzaSyExample",
    "AKIAIOSFODNN7EXAMPLE",
    "the token count, 12345 tokens, of api_key=value",
    "hf_transformers_tokenizer_fast_implementation",
    "hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "gsk_pipeline_stage_of_the_build",
    "xai-explainable-artificial-intelligence-workshop",
    "pplx-perplexity-of-a-language-model",
    "proj_roadmap_for_the_next_quarter",
    "org-internationalizationteam",
    "https://user:password@example.com/path?token=abc",
    "Bearer <token>",
    "Authorization: Basic dXNlcjpwYXNzd29yZA==",
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.c2lnbmF0dXJl",
    "-----BEGIN PUBLIC KEY-----",
    "d41d8cd98f00b204e9800998ecf8427e",
    "550e8400-e29b-41d4-a716-446655440000",
    "toolu_01A09q90qw90lq917835lq9 and call_9pw1OnzVfMnLmSrqyrPWrLUz",
    "claude-fable-5-2-20260801, models/gemini-3-pro-preview",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    "next_page_token=CAUQAA1234567890abcdef, sort_key: name-2024, password: forgotten",
    "https://example.com/?page_token=CAUQAA1234567890abcdef&code=EUR&token_type=bearer",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "sk_live_xxxxxxxxxxxxxxxxxxxxxxxx, 12:34:56, arn:aws:iam::123456789012:role/reader",
    "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "sk-SK, sk-CZ and other locales",
    "ya29.",
    "my password is on the sticky note",
    "\\u0073\\u006b-learn, %73%6b and &#115;k",
    "C:\\new\\table\\x64\\AKIA",
    "0x73, 0x6b, 0x2d",
    "[115, 107, 45, 97, 110, 116, 45, 97, 112, 105]",
    "line one\nline two\ttabbed \u2028 and 18 °C \U0001f600",
)
NAMES = ("api_key", "token", "secret", "content", "text", "partial_json", "arguments", "signature")


def body(random: Random) -> bytes:
    """A JSON body or an event stream with some of the words, cut over deltas if it is a stream."""
    said = " ".join(random.choices(WORDS, k=random.randint(1, 6)))
    call = "".join(random.choices(BASE62, k=24))
    if random.random() < 0.5:
        nested = {"id": f"call_{call}", "type": "function", "arguments": json.dumps({"key": said})}
        value = {
            "model": "m",
            "messages": [{"role": "user", random.choice(NAMES): said}, nested],
            "n": 1.0,
            said: 1e400,
        }
        return json.dumps(value, ensure_ascii=random.random() < 0.5, indent=random.choice([None, 2])).encode()
    size = random.randint(1, 20)
    pieces = [said[at : at + size] for at in range(0, len(said), size)]
    name = random.choice(NAMES)
    events = ({"type": "delta", "index": 0, "delta": {name: piece}, "id": f"msg_{call}"} for piece in pieces)
    lines = "".join(f"event: delta\ndata: {json.dumps(event)}\n\n" for event in events)
    return f"{lines}data: [DONE]\n\n".encode()


def changed(count: int) -> list[bytes]:
    redactor = Redactor(KEYS, shaped=True)
    random = Random(10)  # noqa: S311 - the same in every run
    bodies = [body(random) for _ in range(count)]
    assert len(set(bodies)) == count
    requests = (redactor.request(HttpRequest("POST", "http://host.example/", {}, each)).body for each in bodies)
    responses = (redactor.response(HttpResponse(200, {}, each)).body for each in bodies)
    rows = zip(bodies, requests, responses, strict=True)
    return [before for before, sent, received in rows if (sent, received) != (before, before)]


def test_bodies_with_words_like_keys_are_kept_to_the_byte() -> None:
    assert changed(40) == []


@pytest.mark.long
def test_1000_benign_bodies(capsys: pytest.CaptureFixture[str]) -> None:
    found = changed(1000)
    with capsys.disabled():
        sys.stdout.write(f"\n1000 benign bodies with words like keys, sent and received: {len(found)} changed\n")
    assert found == []
