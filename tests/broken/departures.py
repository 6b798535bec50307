"""Providers that depart from their API, as stand-ins and gateways do: faults that are not the adapter's."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from harness.cassettes.transport import Handler
from harness.model.http import HttpRequest, HttpResponse
from tests.broken.fault import ALL, WITH_IDS
from tests.broken.places import BODY, RESPONSE_CALL, Place
from tests.stages import InProcess


@dataclass(frozen=True, slots=True)
class Departure:
    """Something that every answer of a provider lacks or gets wrong; `edit` makes it so."""

    name: str
    edit: Callable[[dict[str, Any]], None]
    scenario: str
    rule: str
    pointer: Place
    targets: tuple[str, ...] = ALL

    def stages(self) -> InProcess:
        def provider(request: HttpRequest, session: Handler) -> HttpResponse:
            response = session(request)
            if response.status != 200:
                return response
            body = json.loads(response.body)
            self.edit(body)
            return replace(response, body=json.dumps(body).encode())

        return InProcess(provider)


def _parts(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls of an answer, as whatever holds their ids."""
    if "candidates" in body:
        parts = body["candidates"][0]["content"]["parts"]
        return [part["functionCall"] for part in parts if "functionCall" in part]
    if "choices" in body:
        return body["choices"][0]["message"].get("tool_calls", [])
    return [
        part for part in body.get("content", body.get("output", [])) if part["type"] in ("tool_use", "function_call")
    ]


def _without_ids(body: dict[str, Any]) -> None:
    for call in _parts(body):
        call["call_id" if "call_id" in call else "id"] = ""


def _without_signatures(body: dict[str, Any]) -> None:
    for part in body["candidates"][0]["content"]["parts"]:
        part.pop("thoughtSignature", None)


def _without_usage(body: dict[str, Any]) -> None:
    body.pop("usage", None)
    body.pop("usageMetadata", None)


def _ends_turn(body: dict[str, Any]) -> None:
    """The word for the end of a turn, calls or not."""
    body["stop_reason"] = "end_turn"


def _unheard_of(body: dict[str, Any]) -> None:
    """A word that the API does not have."""
    if "candidates" in body:
        body["candidates"][0]["finishReason"] = "BORED"
    elif "choices" in body:
        body["choices"][0]["finish_reason"] = "bored"
    else:
        body["stop_reason"] = "bored"


DEPARTURES = (
    Departure("issues-empty-ids", _without_ids, "call-single", "provider-id-missing", RESPONSE_CALL, WITH_IDS[1:]),
    Departure(
        "issues-no-signature",
        _without_signatures,
        "history-openai-ids",
        "provider-signature-missing",
        RESPONSE_CALL,
        ("gemini-3",),
    ),
    Departure("counts-no-tokens", _without_usage, "system-plain", "provider-usage-missing", BODY),
    Departure(
        "ends-turns-with-calls", _ends_turn, "call-single", "provider-stop-reason", RESPONSE_CALL, ("anthropic",)
    ),
    Departure(
        "stops-for-reasons-of-its-own",
        _unheard_of,
        "system-plain",
        "provider-stop-reason",
        BODY,
        ("anthropic", "openai-chat", "gemini-3", "gemini-2.5"),
    ),
)
