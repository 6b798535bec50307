"""Adapter for Instructor with OpenAI. Requests with a JSON schema use a response model; other requests are sent without
one.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
from __future__ import annotations

from typing import Any

import instructor
import openai
from pydantic import BaseModel, ConfigDict

from harness import Adapter, Capability, ChatRequest, ChatResponse, Endpoint, bridge


class Instructor:
    """A client that uses Instructor's mode `JSON_SCHEMA`."""

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        self._client = bridge.call(create, endpoint)
        self._model, self._memory = model, bridge.Memory()

    def chat(self, request: ChatRequest) -> ChatResponse:
        given: dict[str, Any] = bridge.completion_request(request, self._memory, longest_id=64)
        with bridge.failures():
            return bridge.response(bridge.call(ask, self._client, self._model, **given), request, self._memory)

    def close(self) -> None: ...


def create(endpoint: Endpoint) -> Any:
    """Return a client."""
    client = openai.OpenAI(base_url=endpoint.base_url, api_key=endpoint.api_key, max_retries=0)
    return instructor.from_openai(client, mode=instructor.Mode.JSON_SCHEMA)


def ask(client: Any, model: str, **arguments: Any) -> Any:
    """Return a completion."""
    arguments["max_completion_tokens"] = arguments.pop("max_tokens", None) or openai.omit
    form = arguments.pop("response_format", None)
    if form is None:
        return client.create(response_model=None, model=model, max_retries=1, **arguments)
    own = model_of(form["json_schema"])
    return client.create_with_completion(response_model=own, model=model, max_retries=1, **arguments)[1]


def model_of(form: dict[str, Any]) -> type[BaseModel]:
    """Return a model that has this JSON schema and accepts every object."""
    schema = classmethod(lambda _cls, *_, **__: {"title": form["name"], **form["schema"]})
    config = ConfigDict(extra="allow")
    return type(form["name"], (BaseModel,), {"model_config": config, "model_json_schema": schema})


_NAMES = (
    "system-prompt",
    "tools",
    "parallel-tool-calls",
    "tool-choice",
    "forced-tool-choice",
    "named-tool-choice",
    "json-schema",
    "vision",
)
_CAPABILITIES = frozenset(map(Capability, (*_NAMES, "history", "truncation", "provider-fields")))
OPENAI = Adapter("instructor-openai", "openai-chat", _CAPABILITIES, Instructor)
