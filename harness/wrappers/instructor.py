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
        client = openai.OpenAI(base_url=endpoint.base_url, api_key=endpoint.api_key, max_retries=0)
        self._client = instructor.from_openai(client, mode=instructor.Mode.JSON_SCHEMA)
        self._model, self._memory = model, bridge.Memory()

    def chat(self, request: ChatRequest) -> ChatResponse:
        given: dict[str, Any] = bridge.completion_request(request, self._memory, longest_id=64)
        given["max_completion_tokens"] = given.pop("max_tokens", None) or openai.omit
        form = given.pop("response_format", None)
        with bridge.failures():
            if form is None:
                answer = self._client.create(response_model=None, model=self._model, max_retries=1, **given)
            else:
                model = model_of(form["json_schema"])
                answer = self._client.create_with_completion(
                    response_model=model, model=self._model, max_retries=1, **given
                )[1]
            return bridge.response(answer, request, self._memory)

    def close(self) -> None: ...


def model_of(form: dict[str, Any]) -> type[BaseModel]:
    """Return a model that has this JSON schema and accepts every object."""
    schema = classmethod(lambda _cls, *_, **__: {"title": form["name"], **form["schema"]})
    config = ConfigDict(extra="allow")
    return type(form["name"], (BaseModel,), {"model_config": config, "model_json_schema": schema})


_NAMES = ("system-prompt", "tools", "parallel-tool-calls", "tool-choice", "forced-tool-choice", "json-schema", "vision")
_CAPABILITIES = frozenset(map(Capability, (*_NAMES, "history", "truncation")))
OPENAI = Adapter("instructor-openai", "openai-chat", _CAPABILITIES, Instructor)
