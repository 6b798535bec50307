"""Values that several tests of the tape need."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harness.cassettes.cassette import Cassette, Interaction, Metadata
from harness.model.http import HttpRequest, HttpResponse

METADATA = Metadata(
    origin="reference",
    scenario="weather",
    target="openai-chat",
    api="openai-chat",
    adapter="openai-chat",
    variant="whole",
    model_requested="gpt-5.4",
    scenario_digest="sha256:00",
    model_served="gpt-5.4-2026-03-05",
    versions={"openai": "3.52.0"},
)

STREAM = b'event: a\ndata: {"text": "18 \xc2\xb0C \xe2\x80\xa8"}\n\ndata: [DONE]\n\n'


class Kept:
    """Keeps exchanges in a list, and answers by their bodies the requests whose answers it knows."""

    def __init__(self, known: Mapping[bytes, HttpResponse] | None = None) -> None:
        self.exchanges: list[tuple[HttpRequest, HttpResponse]] = []
        self._known = known or {}

    def keep(self, request: HttpRequest, response: HttpResponse) -> None:
        self.exchanges.append((request, response))

    def earlier_response(self, request: HttpRequest) -> HttpResponse | None:
        return self._known.get(request.body)


def request(question: str, path: str = "/v1/chat/completions") -> HttpRequest:
    body: dict[str, Any] = {"model": "gpt-5.4", "messages": [{"role": "user", "content": question}]}
    headers = {"content-type": "application/json"}
    return HttpRequest("POST", f"http://reference-server.invalid{path}", headers, json.dumps(body).encode())


def response(text: str) -> HttpResponse:
    body = json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}, indent=2)
    return HttpResponse(200, {"content-type": "application/json"}, body.encode())


def cassette(*questions: str, model: str = "gpt-5.4") -> Cassette:
    interactions = tuple(Interaction(request(each), response(f"re: {each}")) for each in questions)
    return Cassette(interactions, replace(METADATA, model_requested=model))
