"""Around generateContent: headers, keys, models and counts of tokens.

Headers: as a recording of the Developer API of 2025-06-14 has them, in a public diff without an address. Models and
counts: the types of https://github.com/googleapis/python-genai/tree/v3.4.0 (read 2026-11-22).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs, urlsplit

from harness.apis.frontage import Frontage, tokens
from harness.apis.seeded import number
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import JSON

_LIST = re.compile(r"/v1(?:beta|alpha)/models(?:/([^/:]+))?$")


def headers(seed: str, _model: str) -> Mapping[str, str]:
    """The headers of every answer."""
    return {
        "server": "scaffolding on HTTPServer2",
        "server-timing": f"gfet4t7; dur={number(seed, 'processing', 200, 2000)}",
        "vary": "Origin, X-Origin, Referer",
        "x-content-type-options": "nosniff",
        "x-frame-options": "SAMEORIGIN",
        "x-xss-protection": "0",
    }


def has_key(request: HttpRequest) -> bool:
    """A key by header or in the query, or Vertex's token."""
    by_header = request.headers.get("x-goog-api-key") or request.headers.get("authorization")
    return bool(by_header or parse_qs(urlsplit(request.url).query).get("key"))


def desk(request: HttpRequest, models: Sequence[str]) -> HttpResponse | None:
    """The models, one of them, or a count of tokens."""
    path = urlsplit(request.url).path
    if request.method == "POST" and path.endswith(":countTokens"):
        count = tokens(request.body)
        return _response(
            {"totalTokens": count, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": count}]},
        )
    found = _LIST.search(path)
    if request.method != "GET" or found is None:
        return None
    named = found[1]
    if named is None:
        return _response({"models": [_model(name) for name in models]})
    if named in models:
        return _response(_model(named))
    said = f"models/{named} is not found for API version v1beta."
    return _response({"error": {"code": 404, "message": said, "status": "NOT_FOUND"}}, 404)


def _model(name: str) -> dict[str, JSON]:
    return {
        "name": f"models/{name}",
        "version": "001",
        "displayName": name,
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }


def _response(body: Mapping[str, JSON], status: int = 200) -> HttpResponse:
    return HttpResponse(status, {"content-type": "application/json; charset=UTF-8"}, json.dumps(body).encode())


FRONTAGE = Frontage(variables=("GOOGLE_GEMINI_BASE_URL",), headers=headers, has_key=has_key, keyless=403, desk=desk)
